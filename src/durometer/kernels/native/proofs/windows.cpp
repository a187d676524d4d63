// Weights of a backward bound on windows of a map, one pass each: through lines, and through a
// convolution. Layouts are channels last: a window (P, Q, C) at its origin in a map (H, W, C).
#include "kernel.h"

namespace {

constexpr int64_t kLanes = 8;  // sums side by side: wide registers without reordering one sum

// Each weight takes the line above where it is positive, the line below where it is negative.
DUROMETER_WIDE void lines(int64_t count, const double* upper, const double* upper_bias, const double* lower,
                          const double* lower_bias, double* weight, double* sums) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (int64_t l = 0; l < kLanes; ++l) {
            const double w = weight[i + l];
            const double slope = w > 0 ? upper[i + l] : lower[i + l];
            const double bias = w > 0 ? upper_bias[i + l] : lower_bias[i + l];
            sums[l] += w * bias;
            weight[i + l] = w * slope;
        }
    }
    for (int64_t l = 0; i < count; ++i, ++l) {
        const double w = weight[i];
        sums[l] += w * (w > 0 ? upper_bias[i] : lower_bias[i]);
        weight[i] = w * (w > 0 ? upper[i] : lower[i]);
    }
}

DUROMETER_WIDE void add(int64_t count, const double* from, double* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

// weight (n, m, P, Q, C) in place; constant (n, m) is added to. Outside of the map weights become 0.
DUROMETER_KERNEL(relax_windows)(int64_t n, int64_t m, int64_t P, int64_t Q, int64_t C, int64_t H, int64_t W,
                                int64_t threads, const int64_t* origin, const double* upper,
                                const double* upper_bias, const double* lower, const double* lower_bias,
                                double* weight, double* constant) {
    return durometer::guarded([&] {
        durometer::each_row(n * m, threads, [&](int64_t item) {
            const int64_t map = item / m * H * W * C;
            const int64_t top = origin[2 * item], left = origin[2 * item + 1];
            const int64_t from = std::clamp<int64_t>(-left, 0, Q), to = std::clamp<int64_t>(W - left, from, Q);
            double sums[kLanes] = {};
            for (int64_t p = 0; p < P; ++p) {
                double* row = weight + (item * P + p) * Q * C;
                const int64_t y = top + p;
                if (y < 0 || y >= H) {
                    std::fill(row, row + Q * C, 0.0);
                    continue;
                }
                std::fill(row, row + from * C, 0.0);
                std::fill(row + to * C, row + Q * C, 0.0);
                const int64_t at = map + (y * W + left + from) * C;
                lines((to - from) * C, upper + at, upper_bias + at, lower + at, lower_bias + at, row + from * C, sums);
            }
            double total = 0;
            for (double s : sums) total += s;
            constant[item] += total;
        });
    });
}

// The last step of a transposed convolution: products (n, p, q, h, w, C) of every weight with every
// place of the kernel, added up in a frame (n, P, Q, C) of a map (H, W, C). `start` is where the first
// product of a window lies in the map, `origin` where its frame does. What is outside the map is lost.
DUROMETER_KERNEL(fold_windows)(int64_t n, int64_t p, int64_t q, int64_t h, int64_t w, int64_t C, int64_t P,
                               int64_t Q, int64_t threads, int64_t H, int64_t W, int64_t stride_y, int64_t stride_x,
                               int64_t dilation_y, int64_t dilation_x, const int64_t* start, const int64_t* origin,
                               const double* products, double* out) {
    return durometer::guarded([&] {
        durometer::each_row(n, threads, [&](int64_t item) {
            const int64_t top = start[2 * item], left = start[2 * item + 1];
            const int64_t up = origin[2 * item], side = origin[2 * item + 1];
            double* frame = out + item * P * Q * C;
            std::fill(frame, frame + P * Q * C, 0.0);
            const int64_t run = dilation_x == 1 ? w : 1;  // places that lie side by side
            for (int64_t a = 0; a < p; ++a) {
                for (int64_t i = 0; i < h; ++i) {
                    const int64_t y = top + a * stride_y + i * dilation_y;
                    if (y < 0 || y >= H || y < up || y >= up + P) continue;
                    for (int64_t b = 0; b < q; ++b) {
                        const double* from = products + ((((item * p + a) * q + b) * h + i) * w) * C;
                        for (int64_t j = 0; j < w; j += run) {
                            const int64_t x = left + b * stride_x + j * dilation_x;
                            const int64_t low = std::max<int64_t>(std::max<int64_t>(0, side) - x, 0);
                            const int64_t high = std::min<int64_t>(std::min(W, side + Q) - x, run);
                            if (low < high)
                                add((high - low) * C, from + (j + low) * C,
                                    frame + ((y - up) * Q + x + low - side) * C);
                        }
                    }
                }
            }
        });
    });
}
