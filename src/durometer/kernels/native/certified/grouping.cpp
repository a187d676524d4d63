// Which features belong together in a box: cells merged, features joined where trees tie them.
//
// Two features are tied by the range of the trees they share; the strongest ties are joined first,
// while a group stays within `widest` joint cells.
#include <algorithm>
#include <numeric>

#include "certified/boxes.h"

namespace durometer::probability {

Int64s largest_first(const Int64s& values) {
    Int64s order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return values[a] > values[b]; });
    return order;
}

void merge(const Local& m, const Box& box, const Bytes& used, Merged& g) {
    const int64_t features = m.features();
    g.cell.assign(m.mass.size(), 0);
    g.name.assign(features, -1);
    for (Int64s* a : {&g.members, &g.sizes, &g.cut}) a->clear();
    g.flat.assign(1, 0);
    g.weight.clear();
    for (int64_t f = 0; f < features; ++f) {
        const int64_t at = m.start[f];
        int32_t n = 0;
        for (int64_t j = at + box.lo[f]; j < at + box.hi[f]; ++j) {
            g.cell[j] = n;
            n += used[j];
        }
        g.cell[at + box.hi[f]] = n;
        if (n == 0) continue;
        g.name[f] = g.active();
        g.members.push_back(f);
        g.sizes.push_back(n + 1);
        g.flat.push_back(g.flat.back() + n + 1);
        g.weight.resize(g.flat.back(), 0.0);
        g.cut.resize(g.flat.back());
        double* weight = g.weight.data() + g.flat[g.active() - 1];
        double whole = 0.0;
        for (int64_t j = box.lo[f]; j <= box.hi[f]; ++j) {
            const int32_t c = g.cell[at + j];
            weight[c] += m.mass[at + j];
            whole += m.mass[at + j];
            g.cut[g.flat[g.active() - 1] + c] = j;
        }
        for (int32_t c = 0; c <= n; ++c) weight[c] /= whole;
    }
    g.below.resize(g.weight.size());
    for (int64_t a = 0; a < g.active(); ++a) {
        double under = 0.0;
        for (int64_t k = g.flat[a]; k < g.flat[a + 1]; ++k) g.below[k] = under += g.weight[k];
    }
}

void shared(const Local& m, const Reached& r, const Merged& g, Shared& s) {
    const int64_t active = g.active();
    s.tied.assign(active * active, 0.0);
    s.begin.clear();
    s.features.clear();
    Int64s stamp(active, -1);
    for (int64_t t = 0; t < r.trees(); ++t) {
        const size_t first = s.features.size();
        s.begin.push_back(static_cast<int64_t>(first));
        for (int64_t i = r.begin[t]; i < r.begin[t + 1]; ++i) {
            const int32_t f = m.nf[r.node[i]];
            if (f >= 0 && stamp[g.name[f]] != t) {
                stamp[g.name[f]] = t;
                s.features.push_back(g.name[f]);
            }
        }
        const size_t n = s.features.size() - first;
        for (size_t i = first; i < s.features.size(); ++i)
            for (size_t j = i + 1; j < s.features.size(); ++j) {
                const int64_t a = s.features[i], b = s.features[j];
                s.tied[std::min(a, b) * active + std::max(a, b)] +=
                    r.moves[t] / static_cast<double>(n - 1);
            }
    }
    s.begin.push_back(static_cast<int64_t>(s.features.size()));
}

void group(const Merged& g, Doubles& tied, int64_t widest, Groups& out) {
    const int64_t active = g.active();
    out.group.resize(active);
    std::iota(out.group.begin(), out.group.end(), 0);
    out.cells = g.sizes;
    for (;;) {
        double strongest = 0.0;
        int64_t x = -1, y = -1;
        for (int64_t a = 0; a < active; ++a)
            for (int64_t b = a + 1; b < active; ++b) {
                double& tie = tied[a * active + b];
                if (!(tie > strongest)) continue;
                const int64_t one = out.group[a], two = out.group[b];
                if (one == two || out.cells[one] * out.cells[two] > widest) {
                    tie = 0.0;
                } else {
                    strongest = tie;
                    x = one;
                    y = two;
                }
            }
        if (x < 0) break;
        out.cells[x] *= out.cells[y];
        for (int64_t& leader : out.group)
            if (leader == y) leader = x;
    }
    out.start.assign(active, -1);
    out.stride.assign(active, 0);
    out.entries = 0;
    for (int64_t l = 0; l < active; ++l)
        if (out.group[l] == l) {
            out.start[l] = out.entries;
            out.entries += out.cells[l];
        }
    out.chance.resize(out.entries);
    for (int64_t l = 0; l < active; ++l) {
        if (out.group[l] != l) continue;
        double* chance = out.chance.data() + out.start[l];
        chance[0] = 1.0;
        int64_t n = 1;
        for (int64_t a = 0; a < active; ++a) {
            if (out.group[a] != l) continue;
            out.stride[a] = n;
            for (int64_t c = g.sizes[a] - 1; c >= 0; --c)  // the first block is overwritten last
                for (int64_t i = 0; i < n; ++i)
                    chance[c * n + i] = chance[i] * g.weight[g.flat[a] + c];
            n *= g.sizes[a];
        }
    }
}

}  // namespace durometer::probability
