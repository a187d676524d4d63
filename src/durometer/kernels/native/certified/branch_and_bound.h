// Best-first branch and bound over boxes of cells; see branch_and_bound.cpp.
#pragma once

#include "certified/boxes.h"

namespace durometer::probability {

struct OpenBox {
    Int32s lo, hi;
    double mass;
};

struct Searched {
    double low = 0.0, high = 1.0;  // given the kept mass
    double sure_low = 0.0, sure_high = 0.0;  // of the settled and resolved boxes alone
    int64_t work = 0;
    std::vector<Tied> tied;      // single cells that the model itself must decide
    std::vector<OpenBox> open;  // what the bounds leave open
};

// A gap that is narrower is always worked on.
constexpr double kHopeless = 0.02;

// Splits the widest box until the bounds are within `tolerance`, the work is done, the gap will not
// close, or `stop` is set. `moments`: boxes are bounded by their moments too, and split by them.
Searched search(const Local& m, double tolerance, int64_t budget, const Limits& limits, bool moments,
                const volatile int64_t* stop);

}  // namespace durometer::probability
