// The two inner loops of a table region (tables/rounding.py): search coordinates to a record, and a
// gradient to a direction that can be followed.
#include <cmath>

#include "kernel.h"

namespace {

constexpr int64_t kRounds = 6;  // of finding out which coordinates are free
constexpr int64_t kBlock = 64;  // rows that share their scratch

// The same fields in the same order as `COORDINATES` in tables/rounding.py.
struct Coordinates {
    int64_t numbers, features;
    const int64_t* numeric;  // (numbers,) the features that are numbers
    const double* width;     // (numbers,)
    const uint8_t* whole;    // (features,)
};

// The same fields in the same order as `SUMS` in tables/rounding.py.
struct Sums {
    int64_t ends, terms;
    const int64_t* starts;  // (sums + 1,) first term of each sum
    const int64_t* places; // (terms,) coordinates
    const double* weights;
};

// x comes in as the clean record and leaves as the rounded one; `lift` is what a step of a whole
// number is lifted by before it is floored.
DUROMETER_WIDE void round(const Coordinates& c, double lift, const double* z0, const double* z, const double* low,
                      const double* high, double* x) {
    for (int64_t k = 0; k < c.numbers; ++k) {
        const int64_t i = c.numeric[k];
        const double was = x[i];
        double value = was + (z[k] - z0[k]) * c.width[k];
        if (c.whole[i]) {
            const double step = value - was;
            value = was + std::copysign(std::floor(std::fabs(step) + lift), step);
        }
        x[i] = std::min(std::max(value, low[i]), high[i]);
    }
}

// Projection on the cone of feasible directions: g - l a on the coordinates of each sum that are
// free to move that way, with the l that keeps the sum.
void keep(const Sums& s, const double* z, const double* low, const double* high, uint8_t* free, double* moved,
          double* grad) {
    for (int64_t sum = 0; sum + 1 < s.ends; ++sum) {
        const int64_t first = s.starts[sum], last = s.starts[sum + 1];
        std::fill(free + first, free + last, uint8_t{1});
        for (int64_t round = 0; round < kRounds; ++round) {
            double top = 0.0, bottom = 1e-300;
            for (int64_t t = first; t < last; ++t) {
                if (!free[t]) continue;
                top += s.weights[t] * grad[s.places[t]];
                bottom += s.weights[t] * s.weights[t];
            }
            bool same = true;
            for (int64_t t = first; t < last; ++t) {
                const int64_t at = s.places[t];
                moved[t] = grad[at] - top / bottom * s.weights[t];
                const bool can = moved[t] > 0 ? z[at] < high[at] : z[at] > low[at];
                same &= can == (free[t] != 0);
                free[t] = can;
            }
            if (same) break;
        }
        for (int64_t t = first; t < last; ++t) grad[s.places[t]] = free[t] ? moved[t] : 0.0;
    }
}

}  // namespace

DUROMETER_KERNEL(round_records)(const Coordinates* coordinates, int64_t rows, int64_t d, int64_t size, int64_t threads,
                            double lift, const double* z0, const double* z, const double* low,
                            const double* high, double* x) {
    return durometer::guarded([&] {
        durometer::each_row((rows + kBlock - 1) / kBlock, threads, [&](int64_t block) {
            for (int64_t i = block * kBlock; i < std::min(rows, (block + 1) * kBlock); ++i)
                round(*coordinates, lift, z0 + i * size, z + i * size, low + i * d, high + i * d, x + i * d);
        });
    });
}

DUROMETER_KERNEL(keep_sums)(const Sums* sums, int64_t rows, int64_t d, int64_t threads, const double* z, const double* low,
                        const double* high, double* grad) {
    return durometer::guarded([&] {
        durometer::each_row((rows + kBlock - 1) / kBlock, threads, [&](int64_t block) {
            std::vector<uint8_t> free(sums->terms);
            std::vector<double> moved(sums->terms);
            for (int64_t i = block * kBlock; i < std::min(rows, (block + 1) * kBlock); ++i)
                keep(*sums, z + i * d, low + i * d, high + i * d, free.data(), moved.data(), grad + i * d);
        });
    });
}
