// Which nodes of every tree a box reaches, and whether the worst or the best case settles it.
//
// What a reader would get wrong: scores near zero belong to the library's own rounding. Sums of
// float64 leaves that are short binary fractions (votes of pure leaves) are exact, so their ties are
// decided by the tie rule; any other leaf widens the doubt by `rough`. Sums in float32 round after
// each tree, by at most half a unit of the partial sum: known per box, and far smaller than over the
// whole model.
#include <cmath>
#include <limits>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Follow tests that the box decides.
inline int32_t decided(const Local& m, const Box& box, int32_t k) {
    while (m.nf[k] >= 0) {
        if (box.hi[m.nf[k]] <= m.nc[k])
            k = m.nl[k];
        else if (box.lo[m.nf[k]] > m.nc[k])
            k = m.nr[k];
        else
            break;
    }
    return k;
}

}  // namespace

void reach(const Local& m, const Box& box, Reached& r) {
    const int64_t rivals = m.rivals;
    r.node.clear();
    r.parent.clear();
    r.side.clear();
    r.begin.clear();
    r.moves.clear();
    r.used.assign(m.mass.size(), 0);
    r.margin = m.base;
    r.slack = m.slack;
    Doubles worst = m.base, best = m.base, least(rivals), most(rivals);
    double rounding = 0.0;
    for (int32_t root : m.roots) {
        int32_t k = decided(m, box, root);
        if (m.nf[k] < 0) {
            const double* gain = m.gain.data() + k * rivals;
            for (int64_t p = 0; p < rivals; ++p) {
                r.margin[p] += gain[p];
                worst[p] += gain[p];
                best[p] += gain[p];
            }
            r.slack += m.rough[k];
        } else {
            size_t at = r.node.size();
            r.begin.push_back(static_cast<int64_t>(at));
            r.node.push_back(k);
            r.parent.push_back(-1);
            r.side.push_back(0);
            std::fill(least.begin(), least.end(), kInf);
            std::fill(most.begin(), most.end(), -kInf);
            for (; at < r.node.size(); ++at) {
                k = decided(m, box, r.node[at]);
                r.node[at] = k;
                if (m.nf[k] >= 0) {
                    r.used[m.start[m.nf[k]] + m.nc[k]] = 1;
                    for (uint8_t side = 0; side < 2; ++side) {
                        r.node.push_back(side ? m.nr[k] : m.nl[k]);
                        r.parent.push_back(static_cast<int32_t>(at));
                        r.side.push_back(side);
                    }
                } else {
                    const double* gain = m.gain.data() + k * rivals;
                    for (int64_t p = 0; p < rivals; ++p) {
                        least[p] = std::min(least[p], gain[p] - m.rough[k]);
                        most[p] = std::max(most[p], gain[p] + m.rough[k]);
                    }
                }
            }
            double range = 0.0;
            for (int64_t p = 0; p < rivals; ++p) {
                range += most[p] - least[p];
                worst[p] += least[p];
                best[p] += most[p];
            }
            r.moves.push_back(range);
        }
        rounding += std::max(std::abs(worst[0]), std::abs(best[0]));
    }
    r.begin.push_back(static_cast<int64_t>(r.node.size()));
    r.slack += m.unit * rounding;
    bool certain = true;
    r.state = kOpen;
    for (int64_t p = 0; p < rivals; ++p) {
        if (best[p] + m.tie[p] + r.slack < 0.0) r.state = kNo;
        certain = certain && worst[p] + m.tie[p] - r.slack > 0.0;
    }
    if (r.state == kOpen && certain)
        r.state = kYes;
    else if (r.state == kOpen && r.trees() == 0)
        r.state = kCell;
}

}  // namespace durometer::probability
