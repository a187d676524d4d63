// Niches of R-NSGA-III: directions from reference points, who is nearest to which, who may stay.
//
// Niching has a closed form: the k-th pick of a niche that already holds c members has level c + k,
// and niching takes the candidates of lowest level. The nearest member goes first in an empty niche
// only; all later picks are random.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel.h"

namespace durometer::evolution {

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-12;  // in place of an extent of 0

// Directions of length 1 as three columns, padded to whole registers with NaN, which is never nearest.
struct Rays {
    static constexpr int64_t kLanes = 8;
    int64_t count, padded;
    Doubles unit;  // (3, padded)

    explicit Rays(int64_t k)
        : count(k), padded((k + kLanes - 1) / kLanes * kLanes), unit(3 * padded, std::nan("")) {}
    const double* axis(int64_t m) const { return unit.data() + m * padded; }

    void set(int64_t j, const double* ray) {
        const double size = std::sqrt(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
        for (int64_t m = 0; m < 3; ++m) unit[m * padded + j] = ray[m] / size;
    }
};

// Reference points (k, 3), normalised and moved along rays to the plane sum = 1; then the axes.
inline Rays directions(const double* points, int64_t k, const double* ideal, const double* nadir) {
    static const double near = 1e-6 * std::sqrt(3.0);
    Rays rays(k + 3);
    for (int64_t i = 0; i < k; ++i) {
        double ray[3], total = 0.0;
        for (int64_t m = 0; m < 3; ++m) {
            const double span = nadir[m] - ideal[m];
            ray[m] = (points[3 * i + m] - ideal[m]) / (span != 0.0 ? span : kTiny);
            total += ray[m];
        }
        if (std::fabs(total) > near)
            for (double& r : ray) r /= total;
        else  // a point at the ideal has no ray: the nearest point of the plane
            for (double& r : ray) r += (1.0 - total) / 3.0;
        total = 0.0;
        for (double& r : ray) {
            r = std::max(r, 0.0);
            total += r;
        }
        for (double& r : ray) r /= total;
        rays.set(i, ray);
    }
    for (int64_t m = 0; m < 3; ++m) {
        const double ray[3] = {m == 0 ? 1.0 : 0.0, m == 1 ? 1.0 : 0.0, m == 2 ? 1.0 : 0.0};
        rays.set(k + m, ray);
    }
    return rays;
}

struct Niches {
    Ints niche;    // the nearest direction of each ranked individual
    Doubles away;  // the distance to it
};

// The first of n directions (n a multiple of kLanes) along which `at` lies farthest, NaN apart; 0
// where there is none.
int64_t farthest(const double* const* axes, const double* at, int64_t n);

inline Niches associate(const double* f, const Ints& rank, const Rays& rays, const double* ideal,
                        const double* nadir) {
    const int64_t n = static_cast<int64_t>(rank.size());
    Niches found{Ints(n, 0), Doubles(n, 0.0)};
    const double* const axes[3] = {rays.axis(0), rays.axis(1), rays.axis(2)};
    double span[3];
    for (int64_t m = 0; m < 3; ++m) {
        span[m] = nadir[m] - ideal[m];
        if (span[m] == 0.0) span[m] = kTiny;
    }
    for (int64_t i = 0; i < n; ++i) {
        if (rank[i] < 0) continue;
        double at[3];
        for (int64_t m = 0; m < 3; ++m) at[m] = (f[3 * i + m] - ideal[m]) / span[m];
        // All are at least 0: the nearest direction is the one along which the point lies farthest.
        const int64_t best = farthest(axes, at, rays.padded);
        found.niche[i] = best;
        const double along = at[0] * axes[0][best] + at[1] * axes[1][best] + at[2] * axes[2][best];
        for (int64_t m = 0; m < 3; ++m) at[m] -= along * axes[m][best];
        found.away[i] = std::sqrt(at[0] * at[0] + at[1] * at[1] + at[2] * at[2]);
    }
    return found;
}

// `wanted` of the individuals `last` into `chosen`; `order` and `turns` break ties among them and
// among the niches, which hold `count` individuals already.
inline void niching(int64_t wanted, const Ints& count, const Niches& niches, const Ints& last,
                    const Ints& order, const Ints& turns, int64_t* chosen) {
    const int64_t n = static_cast<int64_t>(last.size()), k = static_cast<int64_t>(count.size());
    const Ints& niche = niches.niche;
    const Doubles& away = niches.away;
    Ints nearest(k, -1), level(n), filled(count);
    for (int64_t i : order) {
        const int64_t j = niche[last[i]];
        if (count[j] == 0 && (nearest[j] < 0 || away[last[i]] < away[last[nearest[j]]])) nearest[j] = i;
    }
    for (int64_t j = 0; j < k; ++j)
        if (nearest[j] >= 0) {
            level[nearest[j]] = 0;
            filled[j] = 1;
        }
    for (int64_t i : order) {
        const int64_t j = niche[last[i]];
        if (nearest[j] != i) level[i] = filled[j]++;
    }
    Ints sizes(*std::max_element(filled.begin(), filled.end()) + 1, 0);
    for (int64_t l : level) ++sizes[l];
    int64_t full = 0, taken = 0;
    while (taken + sizes[full] <= wanted && full < static_cast<int64_t>(sizes.size()) - 1)
        taken += sizes[full++];
    Ints at(k, -1);  // who stands at the level that cannot be taken whole
    int64_t place = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (level[i] < full)
            chosen[place++] = last[i];
        else if (level[i] == full)
            at[niche[last[i]]] = last[i];
    }
    for (int64_t j : turns)
        if (place < wanted && at[j] >= 0) chosen[place++] = at[j];
}

}  // namespace durometer::evolution
