// Trees as kernels see them: the whole ensemble on its grid of cells (`Gridded`), and one record's
// part of it as score differences to the rivals of a label (`Local`).
#pragma once

#include <cstdint>
#include <vector>

#include "ensemble.h"
#include "kernel.h"

namespace durometer::probability {

using Doubles = std::vector<double>;
using Int32s = std::vector<int32_t>;
using Int64s = std::vector<int64_t>;
using Bytes = std::vector<uint8_t>;

// An ensemble, and where it lies on its grid. The same fields in the same order as `LAYOUT` in
// trees/gridded.py, which begins with that of the ensemble.
struct Gridded : Ensemble {
    int64_t features, ends;  // ends = features + 1
    const int32_t* cell;     // (nodes,) a cell <= this one goes left
    const int64_t* start;    // first cell of each feature
    const double* rough;     // (nodes,) what rounding may move a sum with this leaf by
    double slack;            // doubt about every margin, beyond what leaves and partial sums bring
    double unit;             // > 0: sums round after each tree, by this share of the partial sum
    double widest;           // the most that leaves and partial sums can bring
    double tie;              // added to a margin where equal scores mean the label
};
static_assert(sizeof(Gridded) == sizeof(Ensemble) + 9 * sizeof(int64_t), "a C struct: no padding");

enum State : int { kNo = 0, kYes = 1, kOpen = 2, kCell = 3, kListed = 4 };

struct Local {
    int status = kOpen;
    double kept = 1.0;  // mass not clipped
    int64_t rivals = 0;
    Int32s nf, nc, nl, nr;  // local feature (-1 at a leaf), cut, children
    Doubles gain;           // (nodes, rivals) at leaves: v_label - v_rival
    Doubles rough;          // (nodes,)
    Int32s roots;
    Doubles base, tie;  // (rivals,)
    Int64s start;       // first cell of each local feature
    Doubles mass;       // (cells,) sums to 1 per feature
    Int64s seen;        // an original cell inside each local cell
    Int64s original;    // local feature -> feature
    Int64s first;       // first kept original cell per feature
    Int64s rival;       // their classes; with a single score 1 - label
    double slack = 0.0, unit = 0.0;

    int64_t features() const { return static_cast<int64_t>(start.size()) - 1; }
    int64_t trees() const { return static_cast<int64_t>(roots.size()); }
};

// What a record with these cell masses can reach; each tail of a feature loses at most `tail`.
Local localise(const Gridded& e, const double* masses, const uint8_t* nan, int64_t label,
               double tail);

// Positions 0 .. n-1, largest value first, equal ones in their order.
Int64s largest_first(const Int64s& values);

}  // namespace durometer::probability
