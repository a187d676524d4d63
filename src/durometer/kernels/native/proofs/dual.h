// The bound: the dual of the linear program over one box of cells, improved by passing messages.
//
//     bound = base + sum_t min_leaf (v + sum_f min lam_tf) + sum_f min_cell theta_f - sum_r mu_r b_r
//     theta_f(c) = sum_r mu_r h_rf(c) - sum_t lam_tf(interval of c)
//
// is valid for *any* lam and any mu >= 0, so nothing here can make a proof wrong, only weak. A sweep
// takes feature after feature: every tree's min-marginals go into theta_f, then each of the n trees
// gets back (min over its interval of theta_f - min theta_f) / n (sequential tree-reweighted
// message passing, Kolmogorov 2006, with whole trees as factors), or / (n + 1) where constraints know
// the feature, too. Each mu_r is set to its best value given the rest. No step lowers the bound.
#pragma once

#include "proofs/cells.h"

namespace durometer {

struct Box {
    std::vector<int32_t> low, high;  // (F,) first and last cell of each feature, within the feature
};

class Dual {
   public:
    const Cells& cells;
    std::vector<double> lam, mu;     // the state; everything below follows from it and the box
    std::vector<double> theta;       // (cells)
    std::vector<int32_t> best_cell;  // (F,) argmin theta_f, within the feature
    double value = -kInf;
    double rounding = 0.0;  // what float64 can have added to `value` since `enter`, and no more then

    explicit Dual(const Cells& c)
        : cells(c), lam(c.potentials, 0.0), mu(c.domain.constraints, 0.0), theta(c.low.size()),
          best_cell(c.F, 0), leaf_value_(c.leaf_node.size()), total_(c.leaf_node.size()),
          active_(c.leaf_node.size()), active_end_(c.trees.size()), clip_(c.pairs.size()) {}

    // The margin that is bounded: score of `rival` minus that of `target` (one output: its sign).
    void margin(int64_t rival, int64_t target) {
        const Ensemble& e = cells.ensemble;
        rival_ = rival, target_ = target;
        base_ = margin_of(e.base);
        if (e.outputs == 1) base_ += target == 1 ? e.cut : -e.cut;
        for (auto& [tree, node] : cells.constant) base_ += margin_of(node);
        for (size_t i = 0; i < leaf_value_.size(); ++i)
            leaf_value_[i] = margin_of(cells.leaf_node[i]);
    }

    double margin_of(int32_t node) const {
        return margin_of(cells.ensemble.value + node * cells.ensemble.outputs);
    }

    double margin_of(const double* v) const {
        if (cells.ensemble.outputs == 1) return target_ == 1 ? -v[0] : v[0];
        return v[rival_] - v[target_];
    }

    // Everything that follows from (lam, mu) in this box.
    void enter(const Box& box) {
        box_ = &box;
        free_.clear();
        for (int64_t f = 0; f < cells.F; ++f)
            if (box.low[f] < box.high[f]) free_.push_back(static_cast<int32_t>(f));
        for (size_t p = 0; p < cells.pairs.size(); ++p) {
            const Pair& pair = cells.pairs[p];
            const int32_t* edge = cells.edges.data() + pair.edge;
            int32_t a = 0, b = pair.K - 1;
            while (edge[a + 1] <= box.low[pair.feature]) ++a;
            while (edge[b] > box.high[pair.feature]) --b;
            clip_[p] = {static_cast<uint16_t>(a), static_cast<uint16_t>(b)};
        }
        for (size_t t = 0; t < cells.trees.size(); ++t) {
            const Tree& tree = cells.trees[t];
            int32_t end = tree.leaf;
            for (int32_t leaf = tree.leaf; leaf < tree.leaf_end; ++leaf) {
                double total = leaf_value_[leaf];
                bool reached = true;
                for (int32_t p = tree.pair; p < tree.pair_end && reached; ++p) {
                    const Range range = cells.ranges[cells.pairs[p].ranges + leaf - tree.leaf];
                    const int32_t a = std::max(range.a, clip_[p].a), b = std::min(range.b, clip_[p].b);
                    reached = a <= b;
                    if (reached) total += smallest(lam.data() + cells.pairs[p].lam, a, b);
                }
                if (!reached) continue;
                active_[end++] = leaf;
                total_[leaf] = total;
            }
            active_end_[t] = end;
        }
        measure();
        for (int64_t f = 0; f < cells.F; ++f) {
            for (int32_t c = box.low[f]; c <= box.high[f]; ++c) theta[cells.start[f] + c] = 0.0;
            for (int32_t k : cells.entries_of[f]) add_entry(cells.entries[k], mu[cells.entries[k].constraint]);
            for (int32_t p : cells.pairs_of[f]) add_pair(p, -1.0);
        }
        evaluate();
    }

    // One pass over the features, forward or backward.
    void sweep(bool forward) {
        const int64_t n = static_cast<int64_t>(free_.size());
        for (int64_t i = 0; i < n; ++i) relax(free_[forward ? i : n - 1 - i]);
        evaluate();
    }

    // Every multiplier to the best value for the others as they are: the bound is concave and
    // piecewise linear in it, so the slope is bisected to 0. Returns what was gained.
    double multiply() {
        const double before = value;
        for (size_t r = 0; r < mu.size(); ++r)
            if (cells.scale[r] > 0) tune(static_cast<int32_t>(r));
        evaluate();
        return value - before;
    }

    // Where to branch: the feature on which trees disagree most with the best cell, and whether the
    // cells above it (+1) or below it (-1) attract them. Feature -1: all agree.
    std::pair<int32_t, int> disagreement() {
        int32_t best = -1;
        int side = 1;
        double most = 1e-12;
        for (int32_t f : free_) {
            double gap = 0.0, above = 0.0;
            for (int32_t p : cells.pairs_of[f]) {
                if (clip_[p].a == clip_[p].b) continue;
                marginals(p);
                const Pair& pair = cells.pairs[p];
                const double* l = lam.data() + pair.lam;
                int32_t here = 0, least = clip_[p].a;
                const int32_t* edge = cells.edges.data() + pair.edge;
                while (edge[here + 1] <= best_cell[f]) ++here;
                for (int32_t k = clip_[p].a; k <= clip_[p].b; ++k)
                    if (l[k] + rest_[k] < l[least] + rest_[least]) least = k;
                const double g = l[here] + rest_[here] - l[least] - rest_[least];
                gap += g;
                above += least > here ? g : -g;
            }
            if (gap > most) most = gap, best = f, side = above >= 0 ? 1 : -1;
        }
        return {best, side};
    }

    const std::vector<int32_t>& free_features() const { return free_; }

    // visit(pair, tree of the ensemble, first and last interval) for potentials that can matter.
    template <class Visit>
    void each_potential(const Visit& visit) const {
        for (size_t p = 0; p < cells.pairs.size(); ++p)
            if (clip_[p].a < clip_[p].b)
                visit(cells.pairs[p], cells.trees[cells.pairs[p].tree].index, clip_[p].a, clip_[p].b);
    }

   private:
    const Box* box_ = nullptr;
    double base_ = 0.0;
    int64_t rival_ = 0, target_ = 0;
    std::vector<int32_t> free_;
    std::vector<double> leaf_value_, total_, rest_, kept_;
    std::vector<int32_t> active_, active_end_;  // leaves of each tree that the box reaches
    std::vector<Range> clip_;                   // intervals of each pair that the box reaches

    static double smallest(const double* v, int32_t a, int32_t b) {
        double m = v[a];
        for (int32_t k = a + 1; k <= b; ++k) m = v[k] < m ? v[k] : m;
        return m;
    }

    // 1e-12 of the size of everything that is added up: some thousand additions of 2^-53 each.
    void measure() {
        double size = std::fabs(base_);
        for (size_t r = 0; r < mu.size(); ++r) size += mu[r] * std::fabs(cells.bound[r]);
        for (const Entry& e : cells.entries) {
            if (mu[e.constraint] == 0) continue;
            double most = 0.0;
            for (int32_t c = box_->low[e.feature]; c <= box_->high[e.feature]; ++c)
                most = std::max(most, std::fabs(cells.h[e.table + c]));
            size += mu[e.constraint] * most;
        }
        for (size_t p = 0; p < cells.pairs.size(); ++p) {
            double most = 0.0;
            for (int32_t k = clip_[p].a; k <= clip_[p].b; ++k)
                most = std::max(most, std::fabs(lam[cells.pairs[p].lam + k]));
            size += 2 * most;
        }
        for (const Tree& t : cells.trees) {
            double most = 0.0;
            for (int32_t i = t.leaf; i < t.leaf_end; ++i) most = std::max(most, std::fabs(leaf_value_[i]));
            size += most;
        }
        rounding = 1e-12 * size;
    }

    void add_entry(const Entry& e, double weight) {
        if (weight == 0) return;
        const double* h = cells.h.data() + e.table;
        double* th = theta.data() + cells.start[e.feature];
        for (int32_t c = box_->low[e.feature]; c <= box_->high[e.feature]; ++c) th[c] += weight * h[c];
    }

    // The slope of the bound in mu_r after a change of mu_r: sum of h at the best cells, minus b.
    double slope(int32_t r, double change) const {
        double sum = -cells.bound[r];
        for (int32_t k = cells.entry_start[r]; k < cells.entry_start[r + 1]; ++k) {
            const Entry& e = cells.entries[k];
            const double* h = cells.h.data() + e.table;
            const double* th = theta.data() + cells.start[e.feature];
            int32_t best = box_->low[e.feature];
            double least = th[best] + change * h[best];
            for (int32_t c = best + 1; c <= box_->high[e.feature]; ++c) {
                const double v = th[c] + change * h[c];
                if (v < least) least = v, best = c;
            }
            sum += h[best];
        }
        return sum;
    }

    void tune(int32_t r) {
        const double tiny = 1e-9 / cells.scale[r];
        const double here = slope(r, 0.0);
        if (std::fabs(here) <= tiny || (here < 0 && mu[r] == 0)) return;
        double low = 0.0, high = 0.0;  // slope > 0 at low, < 0 at high
        if (here > 0) {
            high = std::max(mu[r], cells.scale[r]);
            int tries = 0;
            while (slope(r, high) > tiny) {
                low = high, high *= 4;
                if (++tries > 12) break;
            }
        } else {
            low = -mu[r];
            if (slope(r, low) <= 0) high = low;
        }
        for (int i = 0; i < 12 && high - low > 1e-3 * high; ++i) {
            const double middle = 0.5 * (low + high), s = slope(r, middle);
            (s > 0 ? low : high) = middle;
            if (std::fabs(s) <= tiny) low = high = middle;
        }
        const double change = 0.5 * (low + high);
        mu[r] = std::max(0.0, mu[r] + change);
        for (int32_t k = cells.entry_start[r]; k < cells.entry_start[r + 1]; ++k)
            add_entry(cells.entries[k], change);
    }

    void add_pair(int32_t p, double weight) {
        const Pair& pair = cells.pairs[p];
        const int32_t* edge = cells.edges.data() + pair.edge;
        const double* l = lam.data() + pair.lam;
        double* th = theta.data() + cells.start[pair.feature];
        for (int32_t k = clip_[p].a; k <= clip_[p].b; ++k) {
            const int32_t from = std::max(edge[k], box_->low[pair.feature]);
            const int32_t to = std::min(edge[k + 1] - 1, box_->high[pair.feature]);
            for (int32_t c = from; c <= to; ++c) th[c] += weight * l[k];
        }
    }

    // rest_[k]: the tree's least sum without this feature's potential, if the feature is in k.
    void marginals(int32_t p) {
        const Pair& pair = cells.pairs[p];
        const Tree& tree = cells.trees[pair.tree];
        const Range clip = clip_[p];
        const double* l = lam.data() + pair.lam;
        if (rest_.size() < static_cast<size_t>(pair.K)) rest_.resize(pair.K);
        for (int32_t k = clip.a; k <= clip.b; ++k) rest_[k] = kInf;
        for (int32_t i = tree.leaf; i < active_end_[pair.tree]; ++i) {
            const int32_t leaf = active_[i];
            const Range range = cells.ranges[pair.ranges + leaf - tree.leaf];
            const int32_t a = std::max(range.a, clip.a), b = std::min(range.b, clip.b);
            const double rest = total_[leaf] - smallest(l, a, b);
            for (int32_t k = a; k <= b; ++k)
                if (rest < rest_[k]) rest_[k] = rest;
        }
    }

    void relax(int32_t f) {
        double* th = theta.data() + cells.start[f];
        const int32_t low = box_->low[f], high = box_->high[f];
        int32_t n = 0;
        for (int32_t p : cells.pairs_of[f]) {
            const Range clip = clip_[p];
            if (clip.a == clip.b) continue;
            ++n;
            marginals(p);
            const Pair& pair = cells.pairs[p];
            const Tree& tree = cells.trees[pair.tree];
            double* l = lam.data() + pair.lam;
            const int32_t* edge = cells.edges.data() + pair.edge;
            for (int32_t i = tree.leaf; i < active_end_[pair.tree]; ++i) {
                const int32_t leaf = active_[i];
                const Range range = cells.ranges[pair.ranges + leaf - tree.leaf];
                total_[leaf] -=
                    smallest(l, std::max(range.a, clip.a), std::min(range.b, clip.b));
            }
            for (int32_t k = clip.a; k <= clip.b; ++k) {
                const double move = l[k] + rest_[k];
                const int32_t to = std::min(edge[k + 1] - 1, high);
                for (int32_t c = std::max(edge[k], low); c <= to; ++c) th[c] += move;
                l[k] = -rest_[k];
            }
        }
        double least = kInf;
        for (int32_t c = low; c <= high; ++c) least = std::min(least, th[c]);
        if (n == 0) return;
        kept_.assign(th + low, th + high + 1);
        // The constraints are one more factor: without a share of their own theta_f would be level,
        // and no multiplier could move without a loss.
        const double share = 1.0 / (n + (cells.entries_of[f].empty() ? 0 : 1));
        for (int32_t p : cells.pairs_of[f]) {
            const Range clip = clip_[p];
            if (clip.a == clip.b) continue;
            const Pair& pair = cells.pairs[p];
            const Tree& tree = cells.trees[pair.tree];
            double* l = lam.data() + pair.lam;
            const int32_t* edge = cells.edges.data() + pair.edge;
            for (int32_t k = clip.a; k <= clip.b; ++k) {
                const int32_t from = std::max(edge[k], low), to = std::min(edge[k + 1] - 1, high);
                const double part = share * (smallest(kept_.data(), from - low, to - low) - least);
                l[k] += part;
                for (int32_t c = from; c <= to; ++c) th[c] -= part;
            }
            for (int32_t i = tree.leaf; i < active_end_[pair.tree]; ++i) {
                const int32_t leaf = active_[i];
                const Range range = cells.ranges[pair.ranges + leaf - tree.leaf];
                total_[leaf] +=
                    smallest(l, std::max(range.a, clip.a), std::min(range.b, clip.b));
            }
        }
    }

    void evaluate() {
        double sum = base_;
        for (size_t r = 0; r < mu.size(); ++r) sum -= mu[r] * cells.bound[r];
        for (int64_t f = 0; f < cells.F; ++f) {
            const double* th = theta.data() + cells.start[f];
            int32_t best = box_->low[f];
            const int32_t home = std::min(std::max(cells.home[f], box_->low[f]), box_->high[f]);
            for (int32_t c = best + 1; c <= box_->high[f]; ++c)
                if (th[c] < th[best]) best = c;
            sum += th[best];
            best_cell[f] = th[home] <= th[best] + 1e-12 ? home : best;  // of equals the unchanged
        }
        for (size_t t = 0; t < cells.trees.size(); ++t) {
            double least = kInf;
            for (int32_t i = cells.trees[t].leaf; i < active_end_[t]; ++i)
                least = std::min(least, total_[active_[i]]);
            sum += least;
        }
        value = sum;
    }
};

}  // namespace durometer
