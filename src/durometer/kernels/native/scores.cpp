// Summed leaf values of each row, in the library's order and precision.
#include "ensemble.h"
#include "kernel.h"

DUROMETER_KERNEL(scores)(const durometer::Ensemble* e, int64_t rows, int64_t features, int64_t threads, const double* x,
                     double* out) {
    return durometer::guarded([&] {
        durometer::each_row(rows, threads, [&](int64_t i) { e->scores(x + i * features, out + i * e->outputs); });
    });
}
