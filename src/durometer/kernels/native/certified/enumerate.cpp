// A small box, cell by cell: P(every margin > 0) to the last bits of float64. Cells within rounding of
// zero are named, for the model itself to decide.
#include <cmath>
#include <numeric>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

DUROMETER_WIDE void least(double* to, const double* margin, double base, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j] = std::min(to[j], margin[j] + base);
}

// Mass of the cells surely above zero; are any neither surely above nor surely below?
DUROMETER_WIDE double above(const double* margin, const double* wrong, const double* chance,
                        double slack, int64_t n, bool* doubts) {
    double sure[8] = {0}, open[8] = {0};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; ++k) {
            const double border = slack + wrong[j + k];
            sure[k] += margin[j + k] > border ? chance[j + k] : 0.0;
            open[k] += std::abs(margin[j + k]) <= border ? 1.0 : 0.0;
        }
    for (; j < n; ++j) {
        const double border = slack + wrong[j];
        sure[0] += margin[j] > border ? chance[j] : 0.0;
        open[0] += std::abs(margin[j]) <= border ? 1.0 : 0.0;
    }
    double total = 0.0, undecided = 0.0;
    for (int k = 0; k < 8; ++k) {
        total += sure[k];
        undecided += open[k];
    }
    *doubts = undecided > 0.0;
    return total;
}

}  // namespace

bool enumerate(const Local& m, const Reached& r, const Merged& g, const Box& box, int64_t joint,
               size_t most, Finding& found) {
    const Int64s order = largest_first(g.sizes);
    Int64s mine(r.trees());
    std::iota(mine.begin(), mine.end(), 0);
    Doubles table(m.rivals * joint, 0.0), error(doubtful(m, r) ? joint : 0, 0.0);
    found.work +=
        2 * (joint_margins(m, r, g, mine, order, m.rivals, table, error) + joint);
    double* margin = table.data();
    const double base = r.margin[0] + m.tie[0];
    for (int64_t j = 0; j < joint; ++j) margin[j] += base;
    for (int64_t p = 1; p < m.rivals; ++p)
        least(margin, table.data() + p * joint, r.margin[p] + m.tie[p], joint);
    if (error.empty()) error.assign(joint, 0.0);
    const Doubles chance = joint_chances(g, order);
    bool doubts = false;
    found.low = std::min(above(margin, error.data(), chance.data(), r.slack, joint, &doubts), 1.0);
    found.high = found.low;
    found.tied.clear();
    for (int64_t j = 0; doubts && j < joint; ++j) {
        if (!(std::abs(margin[j]) <= r.slack + error[j])) continue;
        if (found.tied.size() == most) return false;
        Tied tied{Int32s(box.lo, box.lo + m.features()), chance[j]};
        int64_t rest = j;
        for (int64_t a : order) {
            const int64_t f = g.members[a], wanted = rest % g.sizes[a];
            rest /= g.sizes[a];
            while (g.cell[m.start[f] + tied.cell[f]] < wanted) ++tied.cell[f];
        }
        found.tied.push_back(std::move(tied));
    }
    return true;
}

}  // namespace durometer::probability
