// What constraints say about a box of cells: which cells they leave no room for, and which of them is
// furthest from holding at the dual's best cells.
#pragma once

#include "proofs/dual.h"

namespace durometer {

inline double least(const Cells& cells, const Entry& e, const Box& box) {
    const double* h = cells.h.data() + e.table;
    double m = h[box.low[e.feature]];
    for (int32_t c = box.low[e.feature] + 1; c <= box.high[e.feature]; ++c) m = std::min(m, h[c]);
    return m;
}

// Cells at the ends that no constraint leaves room for; false if there is no room at all.
inline bool propagate(const Cells& cells, Box& box) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t r = 0; r < cells.bound.size(); ++r) {
            const int32_t from = cells.entry_start[r], to = cells.entry_start[r + 1];
            double sum = 0.0;
            for (int32_t k = from; k < to; ++k) sum += least(cells, cells.entries[k], box);
            if (!std::isfinite(sum)) continue;
            const double room = cells.bound[r] - sum;
            const double rounding = 1e-12 * (std::fabs(cells.bound[r]) + std::fabs(sum));
            if (room < -rounding) return false;
            for (int32_t k = from; k < to; ++k) {
                const Entry& e = cells.entries[k];
                int32_t &low = box.low[e.feature], &high = box.high[e.feature];
                if (low == high) continue;
                const double limit = least(cells, e, box) + room + rounding;
                const double* h = cells.h.data() + e.table;
                while (low < high && h[low] > limit) ++low, changed = true;
                while (low < high && h[high] > limit) --high, changed = true;
            }
        }
    }
    return true;
}

// The constraint that is furthest from holding at the best cells, and its feature that matters
// most; -1 if all hold. `sets`: only those of if-thens and counts.
inline std::pair<int32_t, int> violated(const Dual& dual, const Box& box, bool sets = false) {
    const Cells& cells = dual.cells;
    double most = 1e-12;
    int32_t best = -1;
    int side = 1;
    for (size_t r = 0; r < cells.bound.size(); ++r) {
        if (cells.entry_start[r] == cells.entry_start[r + 1]) continue;
        const int32_t from = cells.entry_start[r], to = cells.entry_start[r + 1];
        if (sets && cells.terms[cells.term_start[r]].phi != kOutside) continue;
        double sum = -cells.bound[r];
        for (int32_t k = from; k < to; ++k)
            sum += cells.h[cells.entries[k].table + dual.best_cell[cells.entries[k].feature]];
        const double off = cells.scale[r] > 0 ? sum * cells.scale[r] : sum;
        if (off <= most) continue;
        double widest = 0.0;
        for (int32_t k = from; k < to; ++k) {
            const int32_t f = cells.entries[k].feature;
            const double* h = cells.h.data() + cells.entries[k].table;
            const int32_t here = dual.best_cell[f];
            for (int32_t c = box.low[f]; c <= box.high[f]; ++c)
                if (h[here] - h[c] > widest)
                    widest = h[here] - h[c], best = f, side = c > here ? 1 : -1, most = off;
        }
    }
    return {best, side};
}

}  // namespace durometer
