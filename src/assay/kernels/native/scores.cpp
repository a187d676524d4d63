// Summed leaf values of each row, in the library's order and precision.
#include "ensemble.h"
#include "kernel.h"

ASSAY_KERNEL(scores)(const assay::Ensemble* e, int64_t rows, int64_t features, int64_t threads, const double* x,
                     double* out) {
    return assay::guarded([&] {
        assay::each_row(rows, threads, [&](int64_t i) { e->scores(x + i * features, out + i * e->outputs); });
    });
}
