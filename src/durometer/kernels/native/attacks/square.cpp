// The proposals of Square, row by row; attacks/squares/moves.py says what they are and has the same
// in torch, for accelerators.
//
//     corners   one square (or subset of features) is set to the ends of the ball, a sign per channel
//     bumps     one square gains a bump, paid for by emptying another; the whole is scaled to eps
//
// Every row has its own random numbers `u`. A canvas of one row of features (h = 1, `flat`) has no
// squares: the features with the largest (corners) or smallest (bumps) numbers are taken instead.
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "kernel.h"

namespace {

struct Canvas {
    int64_t c, h, w, side;
    bool flat;

    int64_t area() const { return flat ? side : side * side; }

    // body(k, feature) for all features of one channel of the square whose corner two random numbers choose.
    template <class Body>
    void each(const double* u, int64_t channel, Body&& body) const {
        const auto top = static_cast<int64_t>(u[0] * static_cast<double>(h - side + 1));
        const auto left = static_cast<int64_t>(u[1] * static_cast<double>(w - side + 1));
        for (int64_t i = 0; i < side; ++i) {
            const int64_t first = (channel * h + top + i) * w + left;
            for (int64_t j = 0; j < side; ++j) body(i * side + j, first + j);
        }
    }
};

// The features whose random numbers come first, in order.
template <class Before>
std::vector<int64_t> chosen(int64_t count, int64_t d, Before&& before) {
    std::vector<int64_t> order(d);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
    order.resize(count);
    return order;
}

template <class T>
void corners(int64_t n, int64_t d, const Canvas& canvas, int64_t numbers, const T* z, const T* low, const T* high,
             const double* draws, T* out, int64_t threads) {
    durometer::each_row(n, threads, [&](int64_t row) {
        const T *at = z + row * d, *ends[2] = {low + row * d, high + row * d};
        const double* u = draws + row * numbers;
        T* found = out + row * d;
        std::memcpy(found, at, d * sizeof(T));
        std::vector<int64_t> order;
        if (canvas.flat) order = chosen(canvas.side, d, [&](int64_t a, int64_t b) { return u[a] > u[b]; });
        // A proposal that changes nothing would waste its query: then all signs are turned.
        auto put = [&](bool turned) {
            bool idle = true;
            auto set = [&](const T* end, int64_t place) {
                idle &= end[place] == at[place];
                found[place] = end[place];
            };
            for (size_t k = 0; k < order.size(); ++k) set(ends[(u[d + k] >= 0.5) != turned], order[k]);
            for (int64_t channel = 0; channel < (canvas.flat ? 0 : canvas.c); ++channel) {
                const T* end = ends[(u[2 + channel] >= 0.5) != turned];
                canvas.each(u, channel, [&](int64_t, int64_t place) { set(end, place); });
            }
            return idle;
        };
        if (put(false)) put(true);
    });
}

// What a change weighs: its square in L2, its size in L1.
template <int P>
double mass(double v) {
    return P == 2 ? v * v : std::fabs(v);
}

// The mass of a few changes, in eight lanes whose order is fixed.
template <int P>
double mass_of(const double* v, int64_t count) {
    double lanes[8] = {};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int k = 0; k < 8; ++k) lanes[k] += mass<P>(v[i + k]);
    for (; i < count; ++i) lanes[i % 8] += mass<P>(v[i]);
    return std::accumulate(lanes, lanes + 8, 0.0);
}

template <int P>
double length(double mass) {
    return P == 2 ? std::sqrt(mass) : mass;
}

template <class T, int P>
void bumps(int64_t n, int64_t d, int64_t boxes, const Canvas& canvas, int64_t numbers, double eps, const T* z,
           const T* origin, const T* lowest, const T* highest, const T* bump, const double* draws, T* out,
           int64_t threads) {
    const int64_t area = canvas.area(), side = canvas.side;
    durometer::each_row(n, threads, [&](int64_t row) {
        const T *at = z + row * d, *start = origin + row * d;
        const T *low = lowest + (row % boxes) * d, *high = highest + (row % boxes) * d;
        const double* u = draws + row * numbers;
        T* found = out + row * d;
        // Written before they are read: a vector would be emptied first, which takes as long as a pass.
        const std::unique_ptr<double[]> held(new double[d + 2 * area]);
        double *change = held.get(), *shape = change + d, *now = shape + area;
        for (int64_t i = 0; i < d; ++i) change[i] = double(T(at[i] - start[i]));
        const double spare = std::max((P == 2 ? eps * eps : eps) - mass_of<P>(change, d), 0.0);
        std::vector<int64_t> order;
        if (canvas.flat)
            order = chosen(std::min(2 * area, d), d, [&](int64_t a, int64_t b) { return u[a] < u[b]; });
        const auto taken = static_cast<int64_t>(order.size());
        auto gains = [&](int64_t channel, auto&& body) {
            if (!canvas.flat) canvas.each(u, channel, body);
            for (int64_t k = 0; k < std::min(area, taken); ++k) body(k, order[k]);
        };
        auto loses = [&](int64_t channel, auto&& body) {
            if (!canvas.flat) canvas.each(u + 2, channel, body);
            for (int64_t k = area; k < taken; ++k) body(k - area, order[k]);
        };
        for (int64_t channel = 0; channel < canvas.c; ++channel) {
            if (canvas.flat) {
                for (int64_t k = 0; k < area; ++k) shape[k] = (u[d + k] < 0.5 ? -1.0 : 1.0) / double(k + 1);
            } else {
                const int64_t down = u[4] < 0.5 ? side : 1, across = u[4] < 0.5 ? 1 : side;
                const double sign = u[5 + channel] < 0.5 ? -1.0 : 1.0;
                for (int64_t i = 0; i < side; ++i)
                    for (int64_t j = 0; j < side; ++j) shape[i * side + j] = sign * double(bump[i * down + j * across]);
            }
            gains(channel, [&](int64_t k, int64_t place) {
                now[k] = change[place];
                change[place] = 0.0;  // not to be counted twice where both squares overlap
            });
            const double gained = mass_of<P>(now, area);
            double freed = gained;
            loses(channel, [&](int64_t, int64_t place) {
                freed += mass<P>(change[place]);
                change[place] = 0.0;
            });
            const double hill = length<P>(mass_of<P>(shape, area)), was = std::max(length<P>(gained), 1e-12);
            for (int64_t k = 0; k < area; ++k) now[k] = shape[k] / hill + now[k] / was;
            const double size = length<P>(spare / double(canvas.c) + freed);
            const double scale = size / std::max(length<P>(mass_of<P>(now, area)), 1e-12);
            gains(channel, [&](int64_t k, int64_t place) { change[place] = now[k] * scale; });
        }
        const double scale = eps / std::max(length<P>(mass_of<P>(change, d)), 1e-12);
        for (int64_t i = 0; i < d; ++i) {
            const T to = start[i] + T(change[i] * scale), raised = to > low[i] ? to : low[i];
            found[i] = raised < high[i] ? raised : high[i];
        }
    });
}

}  // namespace

#define DUROMETER_SQUARE(T, kind)                                                                                  \
    DUROMETER_KERNEL(square_corners_##kind)(int64_t n, int64_t d, int64_t numbers, int64_t c, int64_t h, int64_t w,    \
                                        int64_t side, int64_t flat, int64_t threads, const T* z, const T* low,     \
                                        const T* high, const double* u, T* out) {                                  \
        return durometer::guarded([&] {                                                                                \
            corners<T>(n, d, Canvas{c, h, w, side, flat != 0}, numbers, z, low, high, u, out, threads);            \
        });                                                                                                        \
    }                                                                                                              \
    DUROMETER_KERNEL(square_bumps_##kind)(int64_t n, int64_t d, int64_t numbers, int64_t boxes, int64_t cells,         \
                                      int64_t c, int64_t h, int64_t w, int64_t side, int64_t flat,                 \
                                      int64_t threads, int64_t p, double eps, const T* z, const T* origin,         \
                                      const T* low, const T* high, const T* bump, const double* u, T* out) {       \
        (void)cells;                                                                                               \
        return durometer::guarded([&] {                                                                                \
            (p == 2 ? bumps<T, 2> : bumps<T, 1>)(n, d, boxes, Canvas{c, h, w, side, flat != 0}, numbers, eps, z,   \
                                                 origin, low, high, bump, u, out, threads);                        \
        });                                                                                                        \
    }

DUROMETER_SQUARE(float, float32)
DUROMETER_SQUARE(double, float64)
