// From cells to a point: in each cell the value nearest to the original, then repaired until every
// constraint holds in its inner form: first within the cells, where no tree notices, then by moving
// to the cells that cost least in the dual for what they gain.
#pragma once

#include "proofs/dual.h"

namespace durometer {

class Point {
   public:
    std::vector<double> x;  // (F,)

    explicit Point(const Cells& c) : x(c.F), cells_(c), cell_(c.F), low_(c.low), high_(c.high) {
        for (int64_t f = 0; f < c.F; ++f)
            for (int32_t i = c.start[f]; i < c.start[f + 1]; ++i) {
                if (std::isnan(c.x0[f])) continue;
                low_[i] = std::max(low_[i], inward(f, c.low_in[f], 1));
                high_[i] = std::min(high_[i], inward(f, c.high_in[f], -1));
            }
    }

    // The values of these cells (within the features) nearest to the original, repaired within the
    // box; false if that was not to be had. `greedy` moves to cells by what they gain alone.
    bool build(const std::vector<int32_t>& cell, const Box& box, const Dual* dual, bool greedy) {
        for (int64_t f = 0; f < cells_.F; ++f)
            if (!place(f, cell[f])) return false;
        for (int round = 0; round < 8; ++round) {
            bool fine = true;
            for (size_t r = 0; r < cells_.bound_in.size(); ++r) {
                const double excess = excess_of(r);
                if (excess <= 0) continue;
                fine = false;
                if (!repair(r, excess, box, dual, greedy, round % 2 == 0)) return false;
            }
            if (fine) return true;
        }
        return false;
    }

    // From a point that is valid: feature after feature to the cell of the smallest margin that the
    // constraints leave, until none moves.
    void descend(const Dual& dual, int passes) {
        sums_.resize(cells_.bound_in.size());
        for (size_t r = 0; r < sums_.size(); ++r) sums_[r] = excess_of(r);
        for (bool moved = true; moved && passes-- > 0;) {
            moved = false;
            for (int64_t f = 0; f < cells_.F; ++f)
                if (!cells_.pairs_of[f].empty()) moved |= improve(f, dual);
        }
    }

    bool valid() const {  // do all constraints hold in their inner form?
        for (size_t r = 0; r < cells_.bound_in.size(); ++r)
            if (excess_of(r) > 0) return false;
        return true;
    }

   private:
    const Cells& cells_;
    std::vector<double> sums_, margin_;
    std::vector<int32_t> cell_;         // (F,) where x is now
    std::vector<double> low_, high_;    // (cells) inner ends

    double inward(int64_t f, double t, int way) const {
        const int32_t kind = cells_.domain.kind[f];
        if (kind == kReal || kind == kCodes || !std::isfinite(t)) return t;
        const double down = Cells::floor_to(kind, t);
        return way < 0 || down == t ? down : Cells::after(kind, down);
    }

    bool improve(int64_t f, const Dual& dual) {
        const int32_t n = cells_.count(f), first = cells_.start[f];
        margin_.assign(n, 0.0);
        const double was = x[f];
        for (int32_t p : cells_.pairs_of[f]) {
            const Pair& pair = cells_.pairs[p];
            const int32_t* edge = cells_.edges.data() + pair.edge;
            const int32_t tree = cells_.trees[pair.tree].index;
            for (int32_t k = 0; k < pair.K; ++k) {
                x[f] = cells_.high[first + edge[k]];
                const double v = dual.margin_of(cells_.ensemble.leaf(tree, x.data()));
                for (int32_t c = edge[k]; c < edge[k + 1]; ++c) margin_[c] += v;
            }
        }
        x[f] = was;
        int32_t best = cell_[f];
        double best_x = was;
        for (int32_t c = 0; c < n; ++c) {
            const double lo = low_[first + c], hi = high_[first + c];
            if (lo > hi || margin_[c] >= margin_[best] - 1e-12) continue;
            const double to = std::min(std::max(cells_.x0[f], lo), hi);
            if (fits(f, was, to)) best = c, best_x = to;
        }
        if (best == cell_[f]) return false;
        for (int32_t t : cells_.terms_of[f]) {
            const Term& term = cells_.terms[t];
            sums_[cells_.constraint_of[t]] += term.at(best_x) - term.at(was);
        }
        cell_[f] = best, x[f] = best_x;
        return true;
    }

    bool fits(int64_t f, double was, double to) const {  // one term of a feature per constraint
        for (int32_t t : cells_.terms_of[f]) {
            const Term& term = cells_.terms[t];
            const double change = term.at(to) - term.at(was);
            if (change > 0 && sums_[cells_.constraint_of[t]] + change > 0) return false;
        }
        return true;
    }

    bool place(int64_t f, int32_t c) {
        const int32_t i = cells_.start[f] + c;
        if (low_[i] > high_[i]) return false;  // NaN (missing) passes
        cell_[f] = c;
        x[f] = std::isnan(cells_.x0[f]) ? cells_.x0[f]
                                        : std::min(std::max(cells_.x0[f], low_[i]), high_[i]);
        return true;
    }

    double excess_of(size_t r) const {
        double sum = -cells_.bound_in[r];
        for (int64_t t = cells_.term_start[r]; t < cells_.term_start[r + 1]; ++t)
            sum += cells_.terms[t].at(x[cells_.terms[t].feature]);
        return sum;
    }

    // Lower one term within the cell its feature is in; what was gained.
    double within(const Term& term, double need) {
        const int32_t i = cells_.start[term.feature] + cell_[term.feature];
        return cells_.lower(term, need, low_[i], high_[i], x[term.feature]);
    }

    // `forward`: to and fro, or two constraints would push one feature back and forth for ever.
    bool repair(size_t r, double excess, const Box& box, const Dual* dual, bool greedy, bool forward) {
        const int64_t from = cells_.term_start[r], to = cells_.term_start[r + 1];
        for (int64_t i = from; i < to && excess > 0; ++i)
            excess -= within(cells_.terms[forward ? i : from + to - 1 - i], excess * (1 + 1e-12));
        for (int moves = 0; excess > 0; ++moves) {
            excess = excess_of(r);
            if (excess <= 0) break;
            if (moves > 200) return false;
            const Entry* best = nullptr;
            int32_t best_to = 0;
            double best_ratio = kInf;
            for (int32_t k = cells_.entry_start[r]; k < cells_.entry_start[r + 1]; ++k) {
                const Entry& e = cells_.entries[k];
                const int32_t f = e.feature, first = cells_.start[f];
                const double* h = cells_.h.data() + e.table;
                for (int32_t c = box.low[f]; c <= box.high[f]; ++c) {
                    const double gain = std::min(h[cell_[f]] - h[c], excess);
                    if (!(gain > 1e-15) || low_[first + c] > high_[first + c]) continue;
                    double loss = 1.0;
                    if (dual && !greedy)
                        loss = dual->theta[first + c] - dual->theta[first + cell_[f]] + 1e-9;
                    const double ratio = loss > 0 ? loss / gain : loss * gain;
                    if (ratio < best_ratio) best_ratio = ratio, best = &e, best_to = c;
                }
            }
            if (!best) return false;
            place(best->feature, best_to);
            excess = excess_of(r);
            for (int64_t t = from; t < to && excess > 0; ++t)
                if (cells_.terms[t].feature == best->feature)
                    excess -= within(cells_.terms[t], excess * (1 + 1e-12));
        }
        return excess_of(r) <= 0;
    }
};

}  // namespace durometer
