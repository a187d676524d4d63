// One box of cells: settle it, or bound P(every margin > 0) inside it and say where to split it next.
//
// If the worst (best) case of the trees leaves no doubt, the box is settled; few joint cells are listed
// (enumerate.cpp). Otherwise features that share trees are joined, most tightly tied first, into groups
// of at most `widest` joint cells. A tree inside one group is tabulated exactly; a tree that spans
// groups is pulled apart (separate.cpp). So L(x) <= margin(x) <= U(x), both sums of independent tables,
// whose distributions are convolutions, rounded down for L and up for U (convolution.cpp). The largest
// group is not convolved but enumerated, which ties the rivals together: per cell,
// low = 1 - sum_k (1 - P_k), high = min_k P_k.
//
// What a reader would get wrong: a tree inside a group costs nothing, however wide its range. The next
// split is the one that saves most expected range of the trees that *span* groups. And tables are kept
// as differences along each feature, so that a tree costs its own few cells, not the box's.
#include <cmath>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

constexpr double kFine = 0.1;  // rounding may cost this share of what spanning trees cost
constexpr double kWide = 1e-3;  // a narrower box is left to the tables
constexpr double kEven = 0.1;  // what a tree's range counts next to its cost where a split is chosen

int64_t joint_cells(const Int64s& sizes, int64_t most) {
    int64_t joint = 1;
    for (int64_t n : sizes) {
        joint *= n;
        if (joint > most) return most + 1;
    }
    return joint;
}

}  // namespace

void examine(const Local& m, const Box& box, const Limits& limits, size_t ties, bool moments,
             Finding& found) {
    const int64_t rivals = m.rivals;
    found = Finding{};
    Reached r;
    reach(m, box, r);
    found.work = 50 * r.begin.back() + 120 * m.trees();
    found.state = r.state;
    if (r.state != kOpen) return;

    Merged g;
    merge(m, box, r.used, g);
    const int64_t active = g.active(), trees = r.trees();
    const int64_t joint = joint_cells(g.sizes, limits.listed);
    if (joint <= limits.listed && enumerate(m, r, g, box, joint, ties, found)) {
        found.state = kListed;
        return;
    }
    Shared s;
    shared(m, r, g, s);
    Groups groups;
    group(g, s.tied, limits.widest, groups);
    found.work += 25 * active * active;
    // differences along every feature of a group
    Doubles lower(rivals * groups.entries, 0.0), upper(rivals * groups.entries, 0.0);

    // every tree into its tables
    LeafTable t;
    Separated apart;
    Doubles value, error, saved(g.flat[active] + 1, 0.0), tilt(g.flat[active] + 1, 0.0), d;
    Int64s cell;
    double gap = 0.0;
    for (int64_t tree = 0; tree < trees; ++tree) {
        tabulate(m, r, g, s, groups, tree, t);
        const int64_t leaves = t.leaves();
        found.work += 60 * (r.begin[tree + 1] - r.begin[tree]) * t.k;
        value.resize(leaves);
        error.resize(leaves);
        double cost = 0.0;
        for (int64_t p = 0; p < rivals; ++p) {
            for (int64_t i = 0; i < leaves; ++i) {
                value[i] = m.gain[t.leaf[i] * rivals + p];
                error[i] = m.rough[t.leaf[i]];
            }
            if (t.groups() == 1) {
                apart.below.resize(t.most);
                apart.above.resize(t.most);
                for (int64_t i = 0; i < leaves; ++i)
                    for (int64_t c = t.meet_start[i]; c < t.meet_start[i + 1]; ++c) {
                        apart.below[t.meets[c]] = value[i] - error[i];
                        apart.above[t.meets[c]] = value[i] + error[i];
                    }
            } else {
                cost += separate(t, value, error, apart);
                found.work += 25 * t.meet_start.back();
            }
            double* low = lower.data() + p * groups.entries;
            double* high = upper.data() + p * groups.entries;
            for (int64_t h = 0; h < t.groups(); ++h) {
                spread(t, groups, h, apart.below.data() + h * t.most, low, d, cell);
                spread(t, groups, h, apart.above.data() + h * t.most, high, d, cell);
            }
        }
        gap += cost;
        vanishing(t, g, cost + kEven * r.moves[tree], saved, tilt);
    }

    // convolve all but the largest group, then enumerate that one
    Int64s leaders;
    int64_t final = -1;
    for (int64_t l = 0; l < active; ++l)
        if (groups.group[l] == l) {
            leaders.push_back(l);
            if (final < 0 || groups.cells[l] > groups.cells[final]) final = l;
        }
    for (int64_t p = 0; p < rivals; ++p) {
        sum_up(g, groups, lower.data() + p * groups.entries);
        sum_up(g, groups, upper.data() + p * groups.entries);
    }
    found.work += 30 * groups.entries * rivals;
    const int64_t at = groups.start[final], size = groups.cells[final];
    Doubles low_all(size, 1.0), high_all(size, 1.0), one_cell(size);
    const double step =
        kFine * gap / static_cast<double>(rivals) / static_cast<double>(leaders.size());
    for (int64_t p = 0; p < rivals; ++p) {
        const double base = r.margin[p] + m.tie[p];
        found.work += 2 * tails(lower.data() + p * groups.entries, groups.chance, leaders,
                                groups.start, groups.cells, final, base - r.slack, step,
                                limits.bins, false, one_cell.data());
        for (int64_t c = 0; c < size; ++c) low_all[c] -= 1.0 - one_cell[c];
        found.work += 2 * tails(upper.data() + p * groups.entries, groups.chance, leaders,
                                groups.start, groups.cells, final, base + r.slack, step,
                                limits.bins, true, one_cell.data());
        for (int64_t c = 0; c < size; ++c) high_all[c] = std::min(high_all[c], one_cell[c]);
    }
    double low = 0.0, high = 0.0;
    for (int64_t c = 0; c < size; ++c) {
        low += groups.chance[at + c] * std::max(low_all[c], 0.0);
        high += groups.chance[at + c] * std::min(std::max(high_all[c], 0.0), 1.0);
    }
    found.low = std::min(low, 1.0);
    found.high = std::min(std::max(high, low), 1.0);

    // where to split, and how large it is
    double top = -1.0, constant = 0.0, slope = 0.0;
    for (int64_t a = 0; a < active; ++a) {
        found.log_cells += std::log(static_cast<double>(g.sizes[a]));
        for (int64_t c = g.flat[a]; c < g.flat[a + 1]; ++c) {
            constant += saved[c];
            slope += tilt[c];
            if (c < g.flat[a + 1] - 1 && constant + slope * g.below[c] > top) {
                top = constant + slope * g.below[c];
                found.feature = g.members[a];
                found.cut = g.cut[c];
            }
        }
    }
    if (moments && found.high - found.low > kWide) by_moments(m, r, g, found);
}

}  // namespace durometer::probability
