// One row's problem in cells: every feature's box cut at the thresholds that fall into it, the trees
// reduced to the leaves that the box can reach, and each constraint as a table over cells.
//
// A tree knows a feature only by its own thresholds: `Pair` is a tree and a feature it tests, with
// `K` intervals of cells between the tree's own cuts. A leaf is a range of intervals in each of its
// tree's pairs. A shared child (a chain that stands for a category) becomes a leaf per path.
#pragma once

#include <array>
#include <vector>

#include "ensemble.h"
#include "proofs/domain.h"

namespace durometer {

struct Pair {
    int32_t tree, feature, K;
    int32_t edge;    // first of K + 1 entries in `edges`: interval k is cells [edge[k], edge[k + 1])
    int32_t lam;     // first of K potentials
    int32_t ranges;  // first of the tree's leaves in `ranges`
};

struct Tree {
    int32_t leaf, leaf_end;  // in `leaf_node`
    int32_t pair, pair_end;  // in `pairs`
    int32_t index;           // in the ensemble
};

struct Range {
    uint16_t a, b;
};

struct Entry {
    int32_t feature, constraint;
    int64_t table;  // first of the feature's cells in `h`
};

struct Cells {
    const Ensemble& ensemble;
    const Domain& domain;
    int64_t row, F;
    const double *x0, *low_in, *high_in;

    std::vector<int32_t> start;       // (F + 1,) first cell of each feature
    std::vector<double> low, high;    // of each cell
    std::vector<int32_t> home;        // (F,) the cell that x0 is in, or the nearest
    std::vector<Tree> trees;          // with at least two leaves
    std::vector<int32_t> leaf_node;   // the ensemble's node
    std::vector<Pair> pairs;
    std::vector<int32_t> edges;
    std::vector<Range> ranges;
    std::vector<std::vector<int32_t>> pairs_of;  // (F,) pairs that test a feature
    std::vector<std::array<int32_t, 2>> constant;  // trees that cannot change: index, leaf
    int32_t potentials = 0;

    std::vector<Term> terms;
    std::vector<int64_t> term_start;
    std::vector<std::vector<int32_t>> terms_of;  // (F,)
    std::vector<int32_t> constraint_of;          // (terms,)
    std::vector<Entry> entries;                  // the features of each constraint
    std::vector<int32_t> entry_start;            // (constraints + 1,)
    std::vector<std::vector<int32_t>> entries_of;  // (F,)
    std::vector<double> h;       // least value of an entry on each cell
    std::vector<double> scale;   // (constraints,) 1 / what its sum can change by; 0: unbounded
    std::vector<double> bound, bound_in;
    bool empty = false;  // a feature has no value at all: nothing is valid

    Cells(const Ensemble& e, const Domain& d, int64_t i)
        : ensemble(e), domain(d), row(i), F(d.features) {
        x0 = d.x0 + i * F, low_in = d.low_in + i * F, high_in = d.high_in + i * F;
        make_terms();
        make_cells();
        if (!empty) make_tables(), make_trees();
    }

    int32_t count(int64_t f) const { return start[f + 1] - start[f]; }

    int32_t cell_of(int64_t f, double x) const {  // within the feature
        const double* begin = high.data() + start[f];
        const auto at = std::lower_bound(begin, begin + count(f), x) - begin;
        return static_cast<int32_t>(std::min<int64_t>(at, count(f) - 1));
    }

    // The place of a threshold, among all of its feature, that ends interval k of a pair.
    double threshold_after(const Pair& p, int32_t k) const {
        const double* begin = domain.cut + domain.cut_start[p.feature];
        const double* end = domain.cut + domain.cut_start[p.feature + 1];
        const double last = high[start[p.feature] + edges[p.edge + k + 1] - 1];
        return static_cast<double>(std::lower_bound(begin, end, last) - begin);
    }

    // The largest value of a feature's own kind that is not above t, and the next one after it.
    static double floor_to(int32_t kind, double t) {
        if (kind == kWhole) return std::floor(t);
        if (kind != kSingle) return t;
        const float s = static_cast<float>(t);
        return s > t ? std::nextafter(s, -std::numeric_limits<float>::infinity()) : s;
    }
    static double after(int32_t kind, double t) {
        if (kind == kWhole) return t + 1;
        if (kind == kSingle)
            return std::nextafter(static_cast<float>(t), std::numeric_limits<float>::infinity());
        return std::nextafter(t, kInf);
    }
    static double before(int32_t kind, double t) {
        if (kind == kWhole) return t - 1;
        if (kind == kSingle)
            return std::nextafter(static_cast<float>(t), -std::numeric_limits<float>::infinity());
        return std::nextafter(t, -kInf);
    }

    // Move x within [lo, hi] so that the term falls by `need`, or as far as it goes; the gain.
    double lower(const Term& term, double need, double lo, double hi, double& x) const {
        if (lo == hi || term.a == 0) return 0.0;
        const int32_t kind = domain.kind[term.feature];
        double to = term.lowered(x, need, lo, hi);
        if (kind == kWhole || kind == kSingle) {
            const double down = floor_to(kind, to);
            const int way = term.way(x);
            if (down != to) to = way < 0 || (way == 0 && to < x) ? down : after(kind, down);
            to = std::min(std::max(to, lo), hi);
        }
        const double gain = term.at(x) - term.at(to);
        if (!(gain > 0)) return 0.0;
        x = to;
        return gain;
    }

   private:
    void make_terms() {
        const Domain& d = domain;
        term_start.assign(d.term_start, d.term_start + d.constraints + 1);
        terms.resize(d.terms);
        terms_of.resize(F);
        constraint_of.resize(d.terms);
        for (int64_t r = 0; r < d.constraints; ++r)
            for (int64_t t = term_start[r]; t < term_start[r + 1]; ++t) {
                const int32_t f = d.term_feature[t];
                terms[t] = {f, d.term_phi[t], d.coefficient[row * d.terms + t], x0[f],
                            d.sets + 4 * (row * d.intervals + d.set_start[t]),
                            d.set_start[t + 1] - d.set_start[t]};
                constraint_of[t] = static_cast<int32_t>(r);
                if (terms[t].a != 0) terms_of[f].push_back(static_cast<int32_t>(t));
            }
        bound.assign(d.bound + row * d.constraints, d.bound + (row + 1) * d.constraints);
        bound_in.assign(d.bound_in + row * d.constraints, d.bound_in + (row + 1) * d.constraints);
    }

    void make_cells() {
        const Domain& d = domain;
        start.push_back(0);
        home.resize(F);
        std::vector<double> cuts;
        for (int64_t f = 0; f < F; ++f) {
            const double lo = d.low[row * F + f], hi = d.high[row * F + f];
            const int32_t kind = d.kind[f];
            if (std::isnan(x0[f])) {  // a missing value stays missing
                low.push_back(x0[f]), high.push_back(x0[f]);
            } else if (kind == kCodes) {
                for (int64_t k = d.code_start[f]; k < d.code_start[f + 1]; ++k)
                    if (lo <= d.code[k] && d.code[k] <= hi)
                        low.push_back(d.code[k]), high.push_back(d.code[k]);
            } else if (lo <= hi) {
                cuts.clear();
                const double *begin = d.cut + d.cut_start[f], *end = d.cut + d.cut_start[f + 1];
                for (const double* t = std::lower_bound(begin, end, lo); t != end && *t < hi; ++t)
                    cuts.push_back(floor_to(kind, *t));
                for (int32_t t : terms_of[f])
                    if (terms[t].phi == kOutside)
                        for (int64_t i = 0; i < terms[t].count; ++i) {
                            const double* s = terms[t].set + 4 * i;
                            if (std::isfinite(s[1])) cuts.push_back(floor_to(kind, s[1]));
                            if (std::isfinite(s[0])) {
                                const double b = floor_to(kind, s[0]);
                                cuts.push_back(b < s[0] ? b : before(kind, s[0]));
                            }
                        }
                std::sort(cuts.begin(), cuts.end());
                double from = lo, last = -kInf;
                for (double t : cuts) {
                    if (t < from || t >= hi || t == last) continue;
                    low.push_back(from), high.push_back(t);
                    from = after(kind, t), last = t;
                }
                low.push_back(from), high.push_back(hi);
            }
            start.push_back(static_cast<int32_t>(low.size()));
            if (start[f + 1] == start[f]) {
                empty = true;
                return;
            }
            home[f] = std::isnan(x0[f]) ? 0 : cell_of(f, x0[f]);
        }
    }

    void make_tables() {
        const int64_t R = domain.constraints;
        scale.assign(R, 0.0);
        entries_of.resize(F);
        entry_start.push_back(0);
        std::vector<int32_t> slot(F, -1);
        for (int64_t r = 0; r < R; ++r) {
            const size_t first = entries.size();
            for (int64_t t = term_start[r]; t < term_start[r + 1]; ++t) {
                const int32_t f = terms[t].feature;
                if (terms[t].a == 0) continue;
                if (slot[f] < 0) {
                    slot[f] = static_cast<int32_t>(entries.size());
                    entries_of[f].push_back(slot[f]);
                    entries.push_back({f, static_cast<int32_t>(r), static_cast<int64_t>(h.size())});
                    h.resize(h.size() + count(f), 0.0);
                }
                double* to = h.data() + entries[slot[f]].table;
                for (int32_t c = 0; c < count(f); ++c)
                    to[c] += terms[t].least(low[start[f] + c], high[start[f] + c]);
            }
            double spread = 0.0;
            for (size_t k = first; k < entries.size(); ++k) {
                const double* of = h.data() + entries[k].table;
                const auto ends = std::minmax_element(of, of + count(entries[k].feature));
                spread += *ends.second - *ends.first;
                slot[entries[k].feature] = -1;
            }
            // Unbounded on some cell: a multiplier would be of no use, propagation still is.
            if (spread > 0 && std::isfinite(spread)) scale[r] = 1.0 / spread;
            entry_start.push_back(static_cast<int32_t>(entries.size()));
        }
    }

    // Leaves with the cell ranges of the features on their paths.
    struct Path {
        int32_t node;
        std::vector<std::array<int32_t, 3>> ranges;
    };

    void descend(int32_t node, std::vector<int32_t>& lo, std::vector<int32_t>& hi,
                 std::vector<int32_t>& touched, std::vector<Path>& out) {
        const int32_t f = ensemble.feature[node];
        if (f < 0) {
            Path p{node, {}};
            for (int32_t g : touched) {
                bool seen = false;
                for (auto& r : p.ranges) seen |= r[0] == g;
                if (!seen) p.ranges.push_back({g, lo[g], hi[g]});
            }
            out.push_back(std::move(p));
            return;
        }
        const int32_t l = ensemble.left[node], r = ensemble.right[node];
        if (std::isnan(x0[f])) {
            descend(ensemble.missing_left[node] ? l : r, lo, hi, touched, out);
            return;
        }
        const double* begin = high.data() + start[f];
        const double t = ensemble.threshold[node];
        const int32_t cut = static_cast<int32_t>(std::upper_bound(begin, begin + count(f), t) - begin);
        if (cut > hi[f]) {
            descend(l, lo, hi, touched, out);
        } else if (cut <= lo[f]) {
            descend(r, lo, hi, touched, out);
        } else {
            touched.push_back(f);
            const int32_t was_hi = hi[f], was_lo = lo[f];
            hi[f] = cut - 1;
            descend(l, lo, hi, touched, out);
            hi[f] = was_hi, lo[f] = cut;
            descend(r, lo, hi, touched, out);
            lo[f] = was_lo;
            touched.pop_back();
        }
    }

    void make_trees() {
        std::vector<int32_t> lo(F, 0), hi(F), touched, slot(F, -1);
        for (int64_t f = 0; f < F; ++f) hi[f] = count(f) - 1;
        pairs_of.resize(F);
        std::vector<Path> paths;
        std::vector<std::vector<int32_t>> cuts;
        for (int64_t t = 0; t < ensemble.trees; ++t) {
            paths.clear();
            descend(ensemble.roots[t], lo, hi, touched, paths);
            if (paths.size() == 1) {
                constant.push_back({static_cast<int32_t>(t), paths[0].node});
                continue;
            }
            std::vector<int32_t> features;
            cuts.clear();
            for (auto& p : paths)
                for (auto& [f, a, b] : p.ranges) {
                    if (slot[f] < 0) {
                        slot[f] = static_cast<int32_t>(features.size());
                        features.push_back(f);
                        cuts.push_back({0, count(f)});
                    }
                    cuts[slot[f]].push_back(a);
                    cuts[slot[f]].push_back(b + 1);
                }
            Tree tree{static_cast<int32_t>(leaf_node.size()), 0, static_cast<int32_t>(pairs.size()), 0,
                      static_cast<int32_t>(t)};
            for (auto& p : paths) leaf_node.push_back(p.node);
            tree.leaf_end = static_cast<int32_t>(leaf_node.size());
            for (size_t k = 0; k < features.size(); ++k) {
                auto& c = cuts[k];
                std::sort(c.begin(), c.end());
                c.erase(std::unique(c.begin(), c.end()), c.end());
                const int32_t f = features[k], K = static_cast<int32_t>(c.size()) - 1;
                pairs_of[f].push_back(static_cast<int32_t>(pairs.size()));
                pairs.push_back({static_cast<int32_t>(trees.size()), f, K,
                                 static_cast<int32_t>(edges.size()), potentials,
                                 static_cast<int32_t>(ranges.size())});
                edges.insert(edges.end(), c.begin(), c.end());
                potentials += K;
                for (auto& p : paths) {
                    Range range{0, static_cast<uint16_t>(K - 1)};
                    for (auto& [g, a, b] : p.ranges)
                        if (g == f) {
                            range.a = static_cast<uint16_t>(
                                std::lower_bound(c.begin(), c.end(), a) - c.begin());
                            range.b = static_cast<uint16_t>(
                                std::lower_bound(c.begin(), c.end(), b + 1) - c.begin() - 1);
                        }
                    ranges.push_back(range);
                }
                slot[f] = -1;
            }
            tree.pair_end = static_cast<int32_t>(pairs.size());
            trees.push_back(tree);
        }
    }
};

}  // namespace durometer
