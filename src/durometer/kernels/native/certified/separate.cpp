// A tree that spans groups of features, between two sums of functions of one group each.
//
// sum_h b_h(x_h) <= tree(x) <= sum_h a_h(x_h). Both start from the slices through the likeliest cell,
// where trees of boosted ensembles are nearly additive. Because leaves are products, the least of
// tree - sum_{h != g} b_h over a leaf is its value minus the groups' maxima there: exact, at the cost
// of the leaves. Setting b_g to that least rest makes the sum a lower bound that touches the tree;
// doing so for one group after the other can only raise it. The same from above.
#include <limits>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

void slices(const LeafTable& t, const Doubles& value, double* out) {
    const int64_t groups = t.groups();
    Int64s likely(groups, 0);
    for (int64_t h = 0; h < groups; ++h) {
        const double* share = t.share.data() + h * t.most;
        for (int64_t s = 0; s < t.subsize[h]; ++s)
            if (share[s] > share[likely[h]]) likely[h] = s;
    }
    for (int64_t i = 0; i < t.leaves(); ++i) {
        int64_t missed = 0, where = 0;
        for (int64_t h = 0; h < groups; ++h) {
            const int64_t at = i * groups + h;
            bool inside = false;
            for (int64_t c = t.meet_start[at]; c < t.meet_start[at + 1]; ++c)
                inside = inside || t.meets[c] == likely[h];
            if (!inside) {
                ++missed;
                where = h;
            }
        }
        if (missed > 1) continue;
        for (int64_t h = 0; h < groups; ++h) {
            if (missed != 0 && h != where) continue;
            const int64_t at = i * groups + h;
            for (int64_t c = t.meet_start[at]; c < t.meet_start[at + 1]; ++c)
                out[h * t.most + t.meets[c]] = value[i];
        }
    }
}

}  // namespace

double separate(const LeafTable& t, const Doubles& value, const Doubles& error, Separated& s) {
    const int64_t groups = t.groups(), leaves = t.leaves(), most = t.most;
    s.below.resize(groups * most);
    s.above.resize(groups * most);
    s.low.resize(leaves * groups);
    s.high.resize(leaves * groups);
    s.rest.resize(2 * leaves);
    slices(t, value, s.below.data());
    double *under = s.rest.data(), *over = s.rest.data() + leaves;
    for (int64_t i = 0; i < leaves; ++i) {
        under[i] = value[i] - error[i];
        over[i] = value[i] + error[i];
        for (int64_t h = 0; h < groups; ++h) {
            const int64_t at = i * groups + h;
            double a = kInf, b = -kInf;
            for (int64_t c = t.meet_start[at]; c < t.meet_start[at + 1]; ++c) {
                const double e = s.below[h * most + t.meets[c]];
                a = std::min(a, e);
                b = std::max(b, e);
            }
            s.low[at] = a;
            s.high[at] = b;
            under[i] -= b;
            over[i] -= a;
        }
    }
    // the group that leaves the smallest gap is first to touch
    int64_t main = 0;
    double best = kInf;
    for (int64_t turn = 0; turn < 2 * groups; ++turn) {
        const int64_t h = turn < groups ? turn : (main + turn) % groups;
        double *below = s.below.data() + h * most, *above = s.above.data() + h * most;
        for (int64_t c = 0; c < t.subsize[h]; ++c) {
            below[c] = kInf;
            above[c] = -kInf;
        }
        for (int64_t i = 0; i < leaves; ++i) {
            const int64_t at = i * groups + h;
            const double a = under[i] + s.high[at], b = over[i] + s.low[at];
            for (int64_t c = t.meet_start[at]; c < t.meet_start[at + 1]; ++c) {
                const int32_t cell = t.meets[c];
                below[cell] = std::min(below[cell], a);
                above[cell] = std::max(above[cell], b);
            }
        }
        if (turn < groups) {
            double cost = 0.0;
            for (int64_t c = 0; c < t.subsize[h]; ++c)
                cost += t.share[h * most + c] * (above[c] - below[c]);
            if (cost < best - 1e-12) {
                best = cost;
                main = h;
            }
            continue;
        }
        for (int64_t i = 0; i < leaves; ++i) {
            const int64_t at = i * groups + h;
            double a = kInf, b = -kInf;
            for (int64_t c = t.meet_start[at]; c < t.meet_start[at + 1]; ++c) {
                a = std::min(a, above[t.meets[c]]);
                b = std::max(b, below[t.meets[c]]);
            }
            under[i] += s.high[at] - b;
            over[i] += s.low[at] - a;
            s.low[at] = a;
            s.high[at] = b;
        }
    }
    double gap = 0.0;
    for (int64_t h = 0; h < groups; ++h)
        for (int64_t c = 0; c < t.subsize[h]; ++c)
            gap += t.share[h * most + c] * (s.above[h * most + c] - s.below[h * most + c]);
    return gap;
}

void spread(const LeafTable& t, const Groups& groups, int64_t h, const double* values,
            double* table, Doubles& d, Int64s& cell) {
    cell.assign(1, groups.start[t.leader[h]]);
    for (int64_t j = 0; j < t.k; ++j) {
        if (t.place[j] != h) continue;
        const size_t size = cell.size();
        for (int64_t c = 1; c < t.parts[j]; ++c) {
            const int64_t jump = (t.cuts[j][c - 1] + 1) * groups.stride[t.features[j]];
            for (size_t i = 0; i < size; ++i) cell.push_back(cell[i] + jump);
        }
    }
    const int64_t size = static_cast<int64_t>(cell.size());
    d.assign(values, values + size);
    int64_t block = 1;
    for (int64_t j = 0; j < t.k; ++j) {
        if (t.place[j] != h) continue;
        const int64_t wide = block * t.parts[j];
        for (int64_t start = 0; start < size; start += wide)
            for (int64_t i = start + wide - 1; i >= start + block; --i) d[i] -= d[i - block];
        block = wide;
    }
    for (int64_t i = 0; i < size; ++i) table[cell[i]] += d[i];
}

void sum_up(const Merged& g, const Groups& groups, double* table) {
    for (int64_t a = 0; a < g.active(); ++a) {
        const int64_t leader = groups.group[a];
        const int64_t at = groups.start[leader], n = groups.cells[leader];
        const int64_t w = groups.stride[a], block = w * g.sizes[a];
        for (int64_t start = at; start < at + n; start += block)
            for (int64_t i = start + w; i < start + block; ++i) table[i] += table[i - w];
    }
}

}  // namespace durometer::probability
