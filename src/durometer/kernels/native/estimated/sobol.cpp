// Points seen .. seen + n of a scrambled Sobol sequence: one exclusive or per point and dimension.
#include "kernel.h"

DUROMETER_KERNEL(sobol)(int64_t dimensions, int64_t bits, int64_t points, const int64_t* direction,
                    const int64_t* shift, int64_t seen, double* out) {
    constexpr double scale = 1.0 / (1 << 30);
    for (int64_t j = 0; j < dimensions; ++j) {
        const int64_t* mine = direction + j * bits;
        int64_t x = shift[j];
        for (int64_t code = seen ^ (seen >> 1), k = 0; code > 0; code >>= 1, ++k)
            if (code & 1) x ^= mine[k];
        for (int64_t i = 0; i < points; ++i) {
            out[j * points + i] = (static_cast<double>(x) + 0.5) * scale;
            int64_t rest = seen + i + 1, k = 0;
            for (; !(rest & 1); rest >>= 1) ++k;
            x ^= mine[k];
        }
    }
    return durometer::kDone;
}
