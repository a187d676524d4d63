// Points spread evenly over a unit simplex: minimal Riesz s-energy, by projected steps of Adam
// (attacks/evolution/survival.py).
#include <cmath>
#include <limits>

#include "kernel.h"

namespace {

using Doubles = std::vector<double>;

constexpr int64_t kStale = 30;  // steps without a gain: as far as this step length goes

// A point against the `n` before it, in columns of `stride`: the energy of each pair, and how hard
// it pulls along every axis. Neighbours in memory, one division after the other.
DUROMETER_WIDE void pulls(const double* points, int64_t stride, int64_t d, int64_t i, double* pair,
                      double* pull) {
    double* square = pull + d * stride;
    for (int64_t j = 0; j < i; ++j) square[j] = 0.0;
    for (int64_t m = 0; m < d; ++m) {
        const double *column = points + m * stride, at = column[i];
        for (int64_t j = 0; j < i; ++j) {
            pull[m * stride + j] = at - column[j];
            square[j] += pull[m * stride + j] * pull[m * stride + j];
        }
    }
    for (int64_t j = 0; j < i; ++j) {
        square[j] = square[j] < 1e-12 ? 1e-12 : square[j];
        pair[j] = 1.0;
    }
    for (int64_t m = 0; m < d; ++m)  // square^(-s/2), s = 2d
        for (int64_t j = 0; j < i; ++j) pair[j] /= square[j];
    for (int64_t m = 0; m < d; ++m)
        for (int64_t j = 0; j < i; ++j) pull[m * stride + j] = pull[m * stride + j] * pair[j] / square[j];
}

// Log of the mean energy of a pair; its gradient, up to a positive factor, into `grad` (d, n).
double energy(const Doubles& points, int64_t n, int64_t d, Doubles& work, Doubles& grad) {
    double total = 0.0, *pair = work.data(), *pull = work.data() + n;
    std::fill(grad.begin(), grad.end(), 0.0);
    for (int64_t i = 0; i < n; ++i) {
        pulls(points.data(), n, d, i, pair, pull);
        for (int64_t j = 0; j < i; ++j) total += pair[j];
        for (int64_t m = 0; m < d; ++m) {
            double *all = grad.data() + m * n, mine = all[i];
            const double* by = pull + m * n;
            for (int64_t j = 0; j < i; ++j) mine -= by[j];
            for (int64_t j = 0; j < i; ++j) all[j] += by[j];
            all[i] = mine;
        }
    }
    return std::log(total / (static_cast<double>(n * (n - 1)) / 2));
}

double power(double base, int64_t exponent) {  // by squaring: the same bits from every libm
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

}  // namespace

// points: (n, d) where to start; spread: (n, d) the best seen in so many steps of length `alpha`.
DUROMETER_KERNEL(spread_points)(int64_t n, int64_t d, int64_t steps, double alpha, const double* points,
                            double* spread) {
    return durometer::guarded([&] {
        Doubles at(n * d), grad(n * d), first(n * d, 0.0), second(n * d, 0.0), work((d + 2) * n);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t m = 0; m < d; ++m) at[m * n + i] = points[i * d + m];
        Doubles best(at);
        double low = std::numeric_limits<double>::infinity();
        for (int64_t k = 1, stale = 0; k <= steps; ++k) {
            const double value = energy(at, n, d, work, grad);
            if (value < low) {
                low = value;
                stale = 0;
                best = at;
            } else if (++stale > kStale) {
                at = best;
                stale = 0;
                alpha /= 2;
                std::fill(first.begin(), first.end(), 0.0);
                std::fill(second.begin(), second.end(), 0.0);
                continue;
            }
            double size = 0.0;
            for (int64_t i = 0; i < n; ++i) {  // along the simplex
                double sum = 0.0, squares = 0.0;
                for (int64_t m = 0; m < d; ++m) sum += grad[m * n + i];
                const double mean = sum / static_cast<double>(d);
                for (int64_t m = 0; m < d; ++m) {
                    double& g = grad[m * n + i];
                    g -= mean;
                    squares += g * g;
                }
                size = std::max(size, std::sqrt(squares));
            }
            const double early = 1 - power(0.9, k), late = 1 - power(0.999, k);
            for (int64_t i = 0; i < n; ++i) {
                double sum = 0.0;
                for (int64_t m = 0; m < d; ++m) {
                    const int64_t c = m * n + i;
                    const double g = grad[c] / size;
                    first[c] = 0.9 * first[c] + 0.1 * g;
                    second[c] = 0.999 * second[c] + 0.001 * g * g;
                    const double step = first[c] / early / (std::sqrt(second[c] / late) + 1e-8);
                    at[c] = std::max(at[c] - alpha * step, 0.0);
                    sum += at[c];
                }
                for (int64_t m = 0; m < d; ++m) at[m * n + i] /= sum;
            }
        }
        for (int64_t i = 0; i < n; ++i)
            for (int64_t m = 0; m < d; ++m) spread[i * d + m] = best[m * n + i];
    });
}
