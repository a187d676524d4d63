// Which feature's noise moves the score most, roughly: the chance to reach each test, times that of
// either answer, times the squared difference between the means of its two sides (`step`).
#include "trees.h"

DUROMETER_KERNEL(pivot)(const durometer::probability::Gridded* e, int64_t rows, int64_t cells, int64_t threads,
                    const double* step, const double* below, const uint8_t* nan, double* out) {
    return durometer::guarded([&] {
        durometer::each_row(rows, threads, [&](int64_t i) {
            struct Todo {
                int32_t node;
                double reach;
            };
            std::vector<Todo> stack;
            double* mine = out + i * e->features;
            for (int64_t t = 0; t < e->trees; ++t) {
                stack.push_back({e->roots[t], 1.0});
                while (!stack.empty()) {
                    const auto [node, q] = stack.back();
                    stack.pop_back();
                    const int32_t f = e->feature[node];
                    if (f < 0 || q < 1e-6) continue;
                    if (nan[i * e->features + f]) {
                        stack.push_back(
                            {e->missing_left[node] ? e->left[node] : e->right[node], q});
                        continue;
                    }
                    const int32_t c = e->cell[node];
                    const int64_t size = e->start[f + 1] - e->start[f];
                    const double p =
                        c < 0 ? 0.0 : c < size ? below[i * cells + e->start[f] + c] : 1.0;
                    mine[f] += q * p * (1.0 - p) * step[node];
                    stack.push_back({e->left[node], q * p});
                    stack.push_back({e->right[node], q * (1.0 - p)});
                }
            }
        });
    });
}
