// One tree inside one box, as its leaves: which of a group's cells each leaf meets.
//
// A leaf is a product of intervals, so it meets a group of features in a set of cells; the cells here
// are the tree's own (between its own cuts), few, and not the box's. Nothing is ever tabulated over
// all features of a tree: a deep tree costs its leaves.
#include <algorithm>

#include "certified/boxes.h"

namespace durometer::probability {

void tabulate(const Local& m, const Reached& r, const Merged& g, const Shared& s,
              const Groups& groups, int64_t tree, LeafTable& t) {
    t.features = s.features.data() + s.begin[tree];
    t.k = s.begin[tree + 1] - s.begin[tree];
    const int64_t k = t.k, begin = r.begin[tree], end = r.begin[tree + 1];
    if (static_cast<int64_t>(t.cuts.size()) < k) t.cuts.resize(k);
    t.where.resize(g.active());
    for (int64_t j = 0; j < k; ++j) {
        t.where[t.features[j]] = j;
        t.cuts[j].clear();
    }
    for (int64_t i = begin; i < end; ++i) {  // the tree's own cuts, sorted
        const int32_t node = r.node[i];
        if (m.nf[node] < 0) continue;
        Int32s& cuts = t.cuts[t.where[g.name[m.nf[node]]]];
        const int32_t c = g.at(m, node);
        const auto at = std::lower_bound(cuts.begin(), cuts.end(), c);
        if (at == cuts.end() || *at != c) cuts.insert(at, c);
    }
    t.parts.resize(k);
    for (int64_t j = 0; j < k; ++j) t.parts[j] = static_cast<int64_t>(t.cuts[j].size()) + 1;

    t.lo.resize((end - begin) * k);
    t.hi.resize((end - begin) * k);
    t.leaf.clear();
    t.at.clear();
    for (int64_t j = 0; j < k; ++j) {
        t.lo[j] = 0;
        t.hi[j] = static_cast<int32_t>(t.parts[j] - 1);
    }
    for (int64_t i = begin + 1; i < end; ++i) {
        const int64_t me = (i - begin) * k, above = (r.parent[i] - begin) * k;
        for (int64_t j = 0; j < k; ++j) {
            t.lo[me + j] = t.lo[above + j];
            t.hi[me + j] = t.hi[above + j];
        }
        const int32_t node = r.node[r.parent[i]];
        const int64_t j = t.where[g.name[m.nf[node]]];
        const auto n = static_cast<int32_t>(
            std::lower_bound(t.cuts[j].begin(), t.cuts[j].end(), g.at(m, node)) -
            t.cuts[j].begin());
        if (r.side[i] == 0)
            t.hi[me + j] = n;
        else
            t.lo[me + j] = n + 1;
        if (m.nf[r.node[i]] < 0) {
            t.leaf.push_back(r.node[i]);
            t.at.push_back(static_cast<int32_t>(i - begin));
        }
    }

    // the tree's groups, and the own cells of each that every leaf meets
    t.leader.clear();
    t.subsize.clear();
    t.place.resize(k);
    t.substride.resize(k);
    for (int64_t j = 0; j < k; ++j) {
        const int64_t leader = groups.group[t.features[j]];
        size_t h = 0;
        while (h < t.leader.size() && t.leader[h] != leader) ++h;
        if (h == t.leader.size()) {
            t.leader.push_back(leader);
            t.subsize.push_back(1);
        }
        t.place[j] = static_cast<int64_t>(h);
        t.substride[j] = t.subsize[h];
        t.subsize[h] *= t.parts[j];
    }
    t.most = *std::max_element(t.subsize.begin(), t.subsize.end());
    t.meet_start.clear();
    t.meets.clear();
    for (int64_t i = 0; i < t.leaves(); ++i) {
        const int32_t *lo = t.lo.data() + t.at[i] * k, *hi = t.hi.data() + t.at[i] * k;
        for (int64_t h = 0; h < t.groups(); ++h) {
            const size_t first = t.meets.size();
            t.meet_start.push_back(static_cast<int64_t>(first));
            t.meets.push_back(0);
            for (int64_t j = 0; j < k; ++j) {
                if (t.place[j] != h) continue;
                const size_t n = t.meets.size() - first;
                t.meets.resize(first + n * (hi[j] - lo[j] + 1));
                for (int32_t c = hi[j]; c >= lo[j]; --c)  // the first block last
                    for (size_t i2 = 0; i2 < n; ++i2)
                        t.meets[first + (c - lo[j]) * n + i2] =
                            t.meets[first + i2] + c * static_cast<int32_t>(t.substride[j]);
            }
        }
    }
    t.meet_start.push_back(static_cast<int64_t>(t.meets.size()));
    if (t.groups() == 1) return;
    t.share.resize(t.groups() * t.most);
    for (int64_t h = 0; h < t.groups(); ++h) {
        double* share = t.share.data() + h * t.most;
        share[0] = 1.0;
        int64_t n = 1;
        for (int64_t j = 0; j < k; ++j) {
            if (t.place[j] != h) continue;
            const double* below = g.below.data() + g.flat[t.features[j]];
            for (int64_t c = t.parts[j] - 1; c >= 0; --c) {  // the first block last
                const double last = c < t.parts[j] - 1 ? below[t.cuts[j][c]] : 1.0;
                const double q = std::max(last - (c > 0 ? below[t.cuts[j][c - 1]] : 0.0), 0.0);
                for (int64_t i = 0; i < n; ++i) share[c * n + i] = share[i] * q;
            }
            n *= t.parts[j];
        }
    }
}

// A leaf below the cut vanishes with the mass above it, and the reverse: saved + tilt * (mass below),
// both kept as differences along the cells.
void vanishing(const LeafTable& t, const Merged& g, double worth, Doubles& saved, Doubles& tilt) {
    const double v = worth / static_cast<double>(t.leaves());
    for (int64_t i = 0; i < t.leaves(); ++i) {
        const int32_t *lo = t.lo.data() + t.at[i] * t.k, *hi = t.hi.data() + t.at[i] * t.k;
        for (int64_t j = 0; j < t.k; ++j) {
            const int64_t at = g.flat[t.features[j]], end = g.flat[t.features[j] + 1];
            if (hi[j] < t.parts[j] - 1) {
                const int64_t c = at + t.cuts[j][hi[j]];
                saved[c] += v;
                tilt[c] -= v;
                saved[end] -= v;
                tilt[end] += v;
            }
            if (lo[j] > 0) {
                tilt[at] += v;
                tilt[at + t.cuts[j][lo[j] - 1] + 1] -= v;
            }
        }
    }
}

}  // namespace durometer::probability
