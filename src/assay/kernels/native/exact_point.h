// From cells to a point: in each cell the value nearest to the original, then repaired until every
// constraint holds in its inner form: first within the cells, where no tree notices, then by moving
// to the cells that cost least in the dual for what they gain.
#pragma once

#include "exact_dual.h"

namespace assay {

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
                if (!repair(r, excess, box, dual, greedy)) return false;
            }
            if (fine) return true;
        }
        return false;
    }

   private:
    const Cells& cells_;
    std::vector<int32_t> cell_;         // (F,) where x is now
    std::vector<double> low_, high_;    // (cells) inner ends

    double inward(int64_t f, double t, int way) const {
        const int32_t kind = cells_.domain.kind[f];
        if (kind == kReal || kind == kCodes || !std::isfinite(t)) return t;
        const double down = Cells::floor_to(kind, t);
        return way < 0 || down == t ? down : Cells::after(kind, down);
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
        const int32_t f = term.feature, i = cells_.start[f] + cell_[f];
        if (low_[i] == high_[i] || term.a == 0) return 0.0;
        const int32_t kind = cells_.domain.kind[f];
        double to = term.lowered(x[f], need, low_[i], high_[i]);
        if (kind == kWhole || kind == kSingle) {
            const double down = Cells::floor_to(kind, to);
            const int way = term.way(x[f]);
            if (down != to) to = way < 0 || (way == 0 && to < x[f]) ? down : Cells::after(kind, down);
            to = std::min(std::max(to, low_[i]), high_[i]);
        }
        const double gain = term.at(x[f]) - term.at(to);
        if (!(gain > 0)) return 0.0;
        x[f] = to;
        return gain;
    }

    bool repair(size_t r, double excess, const Box& box, const Dual* dual, bool greedy) {
        const int64_t from = cells_.term_start[r], to = cells_.term_start[r + 1];
        for (int64_t t = from; t < to && excess > 0; ++t)
            excess -= within(cells_.terms[t], excess * (1 + 1e-12));
        for (int moves = 0; excess > 0; ++moves) {
            excess = excess_of(r);
            if (excess <= 0) break;
            if (moves > 200) return false;
            int64_t best = -1;
            int32_t best_to = 0;
            double best_ratio = kInf;
            for (int64_t t = from; t < to; ++t) {
                const int32_t f = cells_.terms[t].feature;
                if (box.low[f] == box.high[f] || cells_.terms[t].a == 0) continue;
                const double* h = cells_.h.data() + cells_.table[t];
                const double* th = dual ? dual->theta.data() + cells_.start[f] : nullptr;
                for (int32_t c = box.low[f]; c <= box.high[f]; ++c) {
                    const double gain = std::min(h[cell_[f]] - h[c], excess);
                    if (!(gain > 1e-15) || low_[cells_.start[f] + c] > high_[cells_.start[f] + c])
                        continue;
                    const double loss = th && !greedy ? th[c] - th[cell_[f]] + 1e-9 : 1.0;
                    const double ratio = loss > 0 ? loss / gain : loss * gain;
                    if (ratio < best_ratio) best_ratio = ratio, best = t, best_to = c;
                }
            }
            if (best < 0) return false;
            place(cells_.terms[best].feature, best_to);
            excess = excess_of(r);
            if (excess > 0) excess -= within(cells_.terms[best], excess * (1 + 1e-12));
        }
        return excess_of(r) <= 0;
    }
};

}  // namespace assay
