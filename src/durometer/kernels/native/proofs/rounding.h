// How far the library's own sum can be from the exact one on this row's box: half a unit of every
// partial sum, in the library's order. Tighter than `Ensemble.slack`, which knows no box.
#pragma once

#include "proofs/cells.h"

namespace durometer {

inline double row_slack(const Cells& cells, double unit) {
    const Ensemble& e = cells.ensemble;
    std::vector<double> low(e.trees), high(e.trees);
    double largest = 0.0, second = 0.0, base = 0.0;
    for (int64_t k = 0; k < e.outputs; ++k) {
        for (auto& [tree, node] : cells.constant) low[tree] = high[tree] = e.value[node * e.outputs + k];
        for (const Tree& t : cells.trees) {
            low[t.index] = kInf, high[t.index] = -kInf;
            for (int32_t i = t.leaf; i < t.leaf_end; ++i) {
                const double v = e.value[cells.leaf_node[i] * e.outputs + k];
                low[t.index] = std::min(low[t.index], v), high[t.index] = std::max(high[t.index], v);
            }
        }
        double from = e.base[k], to = e.base[k], error = 0.0;
        for (int64_t t = 0; t < e.trees; ++t) {
            from += low[t], to += high[t];
            if (low[t] != 0 || high[t] != 0) error += std::max(std::fabs(from), std::fabs(to));
        }
        error *= 1.001 * unit;
        base = std::max(base, std::fabs(e.base[k]));
        second = std::max(second, std::min(error, largest)), largest = std::max(largest, error);
    }
    return largest + second + 4 * unit * (1 + base);
}

}  // namespace durometer
