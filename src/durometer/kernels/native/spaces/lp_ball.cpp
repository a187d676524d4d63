// Steps and projections in an L1 or L2 ball inside a box, row by row; spaces/ball.py says what they
// are, spaces/projections.py has the same in torch, for accelerators.
//
// With d = z - origin, a = |d| and c the room to the box in d's direction, the nearest point has
//
//     L2   size = min(s a, c), s such that the norm is eps       L1   size = clip(a - t, 0, c), sum eps
//
// Both levels are roots of piecewise linear functions, found by Newton's method. Sums are kept in
// eight lanes whose order is fixed: fast, and the same on every machine. `boxes`: one for all rows, or one
// for each.
#include <cmath>
#include <cstring>
#include <functional>

#include "kernel.h"

namespace {

constexpr int kLanes = 8;

// Two numbers in one register, four times: what every 64-bit processor has.
typedef double Pair __attribute__((vector_size(16)));
struct Lanes {
    Pair sum[4] = {};
    double total() const {
        const Pair all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        return all[0] + all[1];
    }
};

Pair pair(const double* at) {
    Pair both;
    std::memcpy(&both, at, sizeof(both));
    return both;
}

// Comparisons written so that the compiler has an instruction for them: no branch, eight at a time.
template <class T>
T least(T a, T b) {
    return a < b ? a : b;
}
template <class T>
T most(T a, T b) {
    return a > b ? a : b;
}

// How far a feature can move from `at` in the direction of `d` until it meets the box.
template <class T>
T room_to(T at, T d, T low, T high) {
    return std::fabs(least(most(at + std::copysign(T(1e30), d), low), high) - at);
}

// t with sum min(t rate, room) = need: concave in t, so from 0 Newton never overshoots.
double level(const std::vector<double>& rate, const std::vector<double>& room, double need) {
    const int64_t padded = static_cast<int64_t>(rate.size());
    double t = 0.0;
    for (int64_t round = 0; round <= padded; ++round) {
        Lanes size, slope;
        const Pair now = {t, t}, none = {};
        for (int64_t i = 0; i < padded; i += kLanes)
            for (int k = 0; k < 4; ++k) {
                const Pair each = pair(&rate[i + 2 * k]), end = pair(&room[i + 2 * k]);
                const Pair wanted = now * each;
                size.sum[k] += wanted < end ? wanted : end;
                slope.sum[k] += wanted < end ? each : none;
            }
        const double lacking = need - size.total(), steep = slope.total();
        if (!(lacking > 1e-13 * need) || !(steep > 0.0)) break;
        t += lacking / steep;
    }
    return t;
}

// t with sum clip(a - t, 0, c) = eps, where t = 0 gives more: falling in t, but neither convex nor
// concave where the box cuts, so a step that would leave the bracket is a bisection instead. Slopes
// are taken to the right, where t goes: there a feature that stands at its c is free.
double level_l1(std::vector<double>& a, std::vector<double>& c, double highest, double eps) {
    double low = 0.0, high = highest, t = 0.0;
    size_t count = a.size();
    for (int round = 0; round < 200 && low < high; ++round) {
        Lanes size, slope;
        const Pair now = {t, t}, none = {}, one = {1.0, 1.0};
        for (size_t i = 0; i < count; i += kLanes)
            for (int k = 0; k < 4; ++k) {
                const Pair left = pair(&a[i + 2 * k]) - now, end = pair(&c[i + 2 * k]);
                const Pair above = left > none ? left : none;
                size.sum[k] += above < end ? above : end;
                slope.sum[k] += (left > none) & (left <= end) ? one : none;
            }
        const double excess = size.total() - eps;
        if (std::fabs(excess) <= 1e-13 * eps) break;
        (excess > 0.0 ? low : high) = t;
        const double step = t + excess / slope.total();  // none free: infinite, and outside
        const double next = step > low && step < high ? step : 0.5 * (low + high);
        if (next == t) break;
        t = next;
        if (round == 0 || round == 2) {  // what lies below the bracket will never count again
            size_t kept = 0;
            for (size_t i = 0; i < count; ++i) {
                a[kept] = a[i];
                c[kept] = c[i];
                kept += a[i] > low;
            }
            for (; kept % kLanes; ++kept) a[kept] = c[kept] = 0.0;
            count = kept;
        }
    }
    return t;
}

// The scale that brings a point to norm eps if the box is in nobody's way there: Newton's first step. Else -1.
template <class T>
double free_scale(const std::vector<T>& size, const std::vector<T>& room, double eps) {
    Lanes all;
    const int64_t padded = static_cast<int64_t>(size.size());
    for (int64_t i = 0; i < padded; i += kLanes)
        for (int k = 0; k < 4; ++k) {
            const Pair a = {double(size[i + 2 * k]), double(size[i + 2 * k + 1])};
            all.sum[k] += a * a;
        }
    const double scale = std::sqrt(eps * eps / all.total());
    const T s = T(scale);
    bool free = scale <= 1.0;
    for (int64_t i = 0; i < padded; ++i) free &= size[i] * s <= room[i];
    return free ? scale : -1.0;
}

template <class T>
void project(int64_t n, int64_t d, int64_t boxes, int64_t p, int64_t threads, double eps, const T* z, const T* origin,
             const T* lowest, const T* highest, T* out) {
    const int64_t padded = (d + kLanes - 1) / kLanes * kLanes;
    durometer::each_row(n, threads, [&](int64_t row) {
        const T *at = origin + row * d, *to = z + row * d;
        const T *low = lowest + (row % boxes) * d, *high = highest + (row % boxes) * d;
        T* found = out + row * d;
        std::vector<T> room(padded, T(0)), size(padded, T(0));
        for (int64_t i = 0; i < d; ++i) {
            const T change = to[i] - at[i];
            room[i] = room_to(at[i], change, low[i], high[i]);
            size[i] = std::fabs(change);
        }
        Lanes boxed;
        for (int64_t i = 0; i < padded; i += kLanes)
            for (int k = 0; k < 4; ++k) {
                const T *a = &size[i + 2 * k], *c = &room[i + 2 * k];
                const Pair far = {double(least(a[0], c[0])), double(least(a[1], c[1]))};
                boxed.sum[k] += p == 2 ? far * far : far;
            }
        double scale = 1.0, less = 0.0;
        const double far = p == 2 ? std::sqrt(boxed.total()) : boxed.total();
        if (far > eps && p == 2 && (scale = free_scale(size, room, eps)) < 0.0) {
            std::vector<double> rate(padded), end(padded);
            for (int64_t i = 0; i < padded; ++i) {
                rate[i] = double(size[i]) * size[i];
                end[i] = double(room[i]) * room[i];
            }
            scale = least(1.0, std::sqrt(level(rate, end, eps * eps)));
        } else if (far > eps && p == 1) {
            std::vector<double> a(padded), c(padded);
            double highest = 0.0;
            int64_t kept = 0;
            for (int64_t i = 0; i < d; ++i) {
                a[kept] = size[i];
                c[kept] = least(size[i], room[i]);
                highest = most(highest, a[kept]);
                kept += size[i] > 0 && room[i] > 0;
            }
            for (; kept % kLanes; ++kept) a[kept] = c[kept] = 0.0;
            a.resize(kept);
            c.resize(kept);
            less = level_l1(a, c, highest, eps);
        }
        const T s = T(scale), t = T(less);
        for (int64_t i = 0; i < d; ++i) {
            const T left = least(room[i], most(T(0), size[i] * s - t));  // NaN last, so it stays
            found[i] = least(high[i], most(low[i], at[i] + std::copysign(left, to[i] - at[i])));
        }
    });
}

// Which of the points at these places lie in ball and box, measured in double precision; P = 0 is Linf here.
template <class T, int P>
void inside(int64_t n, int64_t d, int64_t boxes, int64_t threads, const int64_t* places, const T* x,
            const T* origin, const T* lowest, const T* highest, const double* reach, bool* within) {
    const int64_t whole = d / kLanes * kLanes;
    durometer::each_row(n, threads, [&](int64_t k) {
        const int64_t row = places[k];
        const T *at = x + row * d, *start = origin + row * d;
        const T *low = lowest + (row % boxes) * d, *high = highest + (row % boxes) * d;
        bool boxed = true;
        for (int64_t i = 0; i < d; ++i) boxed &= (at[i] >= low[i]) & (at[i] <= high[i]);  // NaN is not
        double lanes[kLanes] = {};
        auto add = [&](int lane, int64_t i) {
            const double far = std::fabs(double(at[i]) - double(start[i]));
            lanes[lane] = P == 2 ? lanes[lane] + far * far : P == 1 ? lanes[lane] + far : most(lanes[lane], far);
        };
        for (int64_t i = 0; i < whole; i += kLanes)
            for (int lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
        for (int64_t i = whole; i < d; ++i) add(static_cast<int>(i - whole), i);
        double far = 0.0;
        for (double lane : lanes) far = P == 0 ? most(far, lane) : far + lane;
        within[k] = boxed && (P == 2 ? std::sqrt(far) : far) <= reach[row];
    });
}

// The count-th largest of numbers that are not negative: by the leading bits first, where all but
// a few fall out, for a full selection takes three times as long.
template <class T, class Bits>
T largest(const std::vector<T>& values, int64_t count) {
    constexpr int kShift = sizeof(T) * 8 - 12;
    std::vector<int32_t> among(2048, 0);
    auto leading = [](T v) {
        Bits bits;
        std::memcpy(&bits, &v, sizeof(bits));
        return static_cast<size_t>(bits >> kShift) & 2047;
    };
    for (T v : values) ++among[leading(v)];
    size_t bucket = 2047;
    for (; count > among[bucket]; --bucket) count -= among[bucket];
    std::vector<T> few;
    for (T v : values)
        if (leading(v) == bucket) few.push_back(v);
    std::nth_element(few.begin(), few.begin() + (count - 1), few.end(), std::greater<T>());
    return few[count - 1];
}

// z + step * s: s has the gradient's sign on few features and length 1 in L1 (p = 1; p = 0: length 1
// in each). As many as two thirds of those changed now, a fifth at most; none that stands at the box.
template <class T, class Bits>
void sparse_step(int64_t n, int64_t d, int64_t boxes, int64_t p, int64_t threads, double eps, double rounding,
                 const T* z, const T* grad, const T* step, const T* origin, const T* lowest, const T* highest,
                 T* out) {
    if (d == 0) return;
    durometer::each_row(n, threads, [&](int64_t row) {
        const T *at = z + row * d, *g = grad + row * d, *start = origin + row * d;
        const T *low = lowest + (row % boxes) * d, *high = highest + (row % boxes) * d;
        T* found = out + row * d;
        std::vector<T> weight(d);
        int64_t changed = 0;
        for (int64_t i = 0; i < d; ++i) changed += at[i] != start[i];
        for (int64_t i = 0; i < d; ++i) {
            const T bar = std::fabs(at[i]) * T(4 * rounding) + T(1e-6 * eps);
            const T steep = most(std::fabs(g[i]), T(0));  // 0 for what is no number
            weight[i] = room_to(at[i], g[i], low[i], high[i]) > bar ? steep : T(0);
        }
        const double fifth = most(1.0, 0.2 * double(d));
        const int64_t count = int64_t(least(most(double(changed) / 1.5, 1.0), fifth));
        const T bar = largest<T, Bits>(weight, count);
        int64_t left = count;  // places for those that stand at the bar, the first ones first
        for (int64_t i = 0; i < d; ++i) left -= weight[i] > bar;
        const int64_t moved = bar > 0 ? count : count - left;
        const T length = p == 0 ? step[row] : step[row] / T(most<int64_t>(1, moved));
        for (int64_t i = 0; i < d; ++i)
            found[i] = at[i] + (weight[i] > bar ? std::copysign(length, g[i]) : T(0));
        for (int64_t i = 0; i < d && bar > 0 && left > 0; ++i)
            if (weight[i] == bar) {
                found[i] = at[i] + std::copysign(length, g[i]);
                --left;
            }
    });
}

}  // namespace

#define DUROMETER_LP_BALL(T, bits, kind)                                                                          \
    DUROMETER_KERNEL(project_##kind)(int64_t n, int64_t d, int64_t boxes, int64_t p, int64_t threads, double eps,           \
                                 const T* z, const T* origin, const T* low, const T* high, T* out) {     \
        return durometer::guarded([&] { project<T>(n, d, boxes, p, threads, eps, z, origin, low, high, out); });    \
    }                                                                                                    \
    DUROMETER_KERNEL(inside_##kind)(int64_t n, int64_t rows, int64_t d, int64_t boxes, int64_t p, int64_t threads, \
                                const int64_t* places, const T* x, const T* origin, const T* low, const T* high,  \
                                const double* reach, bool* within) {                                     \
        (void)rows;                                                                                      \
        return durometer::guarded([&] {                                                                      \
            (p == 2   ? inside<T, 2>                                                                     \
             : p == 1 ? inside<T, 1>                                                                     \
                      : inside<T, 0>)(n, d, boxes, threads, places, x, origin, low, high, reach, within);        \
        });                                                                                              \
    }                                                                                                    \
    DUROMETER_KERNEL(sparse_step_##kind)(int64_t n, int64_t d, int64_t boxes, int64_t p, int64_t threads, double eps,       \
                                     double rounding, const T* z, const T* grad, const T* step,          \
                                     const T* origin, const T* low, const T* high, T* out) {             \
        return durometer::guarded([&] {                                                                      \
            sparse_step<T, bits>(n, d, boxes, p, threads, eps, rounding, z, grad, step, origin, low, high, out);      \
        });                                                                                              \
    }

DUROMETER_LP_BALL(float, uint32_t, float32)
DUROMETER_LP_BALL(double, uint64_t, float64)
