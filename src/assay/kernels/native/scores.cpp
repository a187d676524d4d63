// Summed leaf values of each row, in the library's order and precision.
#include <cmath>

#include "kernel.h"

namespace {

// The same fields in the same order as `LAYOUT` in trees/ensemble.py.
struct Trees {
    int64_t nodes, trees, outputs;
    const int32_t* feature;
    const double* threshold;
    const int32_t* left;
    const int32_t* right;
    const uint8_t* missing_left;
    const double* value;
    const int32_t* roots;
    const double* base;
    int64_t single;
};

}  // namespace

ASSAY_KERNEL(scores)(const Trees* e, int64_t rows, int64_t features, int64_t threads, const double* x,
                     double* out) {
    return assay::guarded([&] {
        assay::each_row(rows, threads, [&](int64_t i) {
            const double* row = x + i * features;
            double* sum = out + i * e->outputs;
            for (int64_t k = 0; k < e->outputs; ++k) sum[k] = e->base[k];
            for (int64_t t = 0; t < e->trees; ++t) {
                int32_t node = e->roots[t];
                while (e->feature[node] >= 0) {
                    const double v = row[e->feature[node]];
                    const bool left =
                        std::isnan(v) ? e->missing_left[node] != 0 : v <= e->threshold[node];
                    node = left ? e->left[node] : e->right[node];
                }
                const double* value = e->value + node * e->outputs;
                for (int64_t k = 0; k < e->outputs; ++k) {
                    if (e->single)
                        sum[k] = static_cast<float>(sum[k]) + static_cast<float>(value[k]);
                    else
                        sum[k] += value[k];
                }
            }
        });
    });
}
