// R-NSGA-III survival (Vesikar, Deb & Blank 2018), row by row; attacks/evolution/survival.py says
// what it is. Every step equals pymoo 0.6's on the same population, quirks included.
#include <cmath>
#include <cstring>
#include <numeric>

#include "attacks/fronts.h"
#include "attacks/niching.h"
#include "kernel.h"
#include "splitmix.h"

namespace durometer::evolution {

DUROMETER_WIDE int64_t farthest(const double* const* axes, const double* at, int64_t n) {
    // Written in registers: a compiler that must respect NaN makes none of a search for the largest.
    typedef double Four __attribute__((vector_size(32)));
    typedef int64_t Places __attribute__((vector_size(32)));
    const Four a = Four{} + at[0], b = Four{} + at[1], c = Four{} + at[2];
    Four high[2] = {Four{} - kInfinity, Four{} - kInfinity};
    Places where[2] = {}, here[2] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    for (int64_t j = 0; j < n; j += Rays::kLanes)
        for (int64_t half = 0; half < 2; ++half) {
            Four u, v, w;
            std::memcpy(&u, axes[0] + j + 4 * half, sizeof(u));
            std::memcpy(&v, axes[1] + j + 4 * half, sizeof(v));
            std::memcpy(&w, axes[2] + j + 4 * half, sizeof(w));
            const Four length = a * u + b * v + c * w;
            const Places more = length > high[half];
            high[half] = more ? length : high[half];
            where[half] = more ? here[half] : where[half];
            here[half] += Rays::kLanes;
        }
    int64_t best = 0;
    double most = -kInfinity;
    for (int64_t l = 0; l < Rays::kLanes; ++l) {
        const double length = high[l / 4][l % 4];
        const int64_t place = where[l / 4][l % 4];
        if (length > most || (length == most && length > -kInfinity && place < best)) {
            most = length;
            best = place;
        }
    }
    return best;
}

}  // namespace durometer::evolution

namespace {

using namespace durometer::evolution;

constexpr double kFar = 1e300;  // an objective that is not a number, or infinite

// The same fields in the same order as `STATE` in attacks/evolution/survival.py.
struct State {
    int64_t rows, points;
    const double* reference;  // (points, 3)
    double* ideal;            // (rows, 3)
    double* worst;
    double* extreme;  // (rows, 3, 3)
};

// (n, 3) objectives that can be compared and divided.
Doubles finite(const double* objectives, int64_t n) {
    Doubles f(objectives, objectives + 3 * n);
    for (double& v : f) {
        if (!(v < kInfinity)) v = kFar;
        if (v == -kInfinity) v = std::numeric_limits<double>::lowest();
    }
    return f;
}

// Lowest achievement value per axis over old extremes, first front and reference points.
void extremes(const double* f, const Ints& rank, const State& s, const double* ideal, double* extreme) {
    double old[9], best[3] = {kInfinity, kInfinity, kInfinity};
    std::copy_n(extreme, 9, old);
    const auto see = [&](const double* point) {
        double d[3];
        for (int64_t m = 0; m < 3; ++m) {
            d[m] = point[m] - ideal[m];
            if (d[m] < 1e-3) d[m] = 0.0;
        }
        for (int64_t axis = 0; axis < 3; ++axis) {
            double value = -kInfinity;
            for (int64_t m = 0; m < 3; ++m) value = std::max(value, m == axis ? d[m] : d[m] * 1e6);
            if (value < best[axis]) {
                best[axis] = value;
                std::copy_n(point, 3, extreme + 3 * axis);
            }
        }
    };
    for (int64_t i = 0; i < 3; ++i) see(old + 3 * i);
    for (size_t i = 0; i < rank.size(); ++i)
        if (rank[i] == 0) see(f + 3 * i);
    for (int64_t i = 0; i < s.points; ++i) see(s.reference + 3 * i);
}

// Intercepts of the plane through the extreme points; the population's worst where that fails.
void nadir_point(const double* f, const Ints& rank, const double* extreme, const double* ideal,
                 const double* worst, double* nadir) {
    double top[3], front[3];
    std::fill_n(top, 3, -kInfinity);
    std::fill_n(front, 3, -kInfinity);
    for (size_t i = 0; i < rank.size(); ++i)
        for (int64_t m = 0; m < 3; ++m) {
            top[m] = std::max(top[m], f[3 * i + m]);
            if (rank[i] == 0) front[m] = std::max(front[m], f[3 * i + m]);
        }
    double a[3][4], whole[3][4], plane[3] = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < 3; ++i) {
        for (int64_t m = 0; m < 3; ++m) a[i][m] = extreme[3 * i + m] - ideal[m];
        a[i][3] = 1.0;
    }
    std::memcpy(whole, a, sizeof(a));
    bool sound = true;
    for (int64_t c = 0; c < 3; ++c) {  // Gaussian elimination with row pivots
        int64_t p = c;
        for (int64_t i = c + 1; i < 3; ++i)
            if (std::fabs(a[i][c]) > std::fabs(a[p][c])) p = i;
        if (a[p][c] == 0.0) {
            sound = false;
            break;
        }
        std::swap(a[c], a[p]);
        for (int64_t i = c + 1; i < 3; ++i) {
            const double by = a[i][c] / a[c][c];
            for (int64_t m = c; m < 4; ++m) a[i][m] -= by * a[c][m];
        }
    }
    if (sound) {
        for (int64_t i = 2; i >= 0; --i) {
            double value = a[i][3];
            for (int64_t m = i + 1; m < 3; ++m) value -= a[i][m] * plane[m];
            plane[i] = value / a[i][i];
        }
        for (int64_t i = 0; i < 3; ++i) {
            const double side = whole[i][0] * plane[0] + whole[i][1] * plane[1] + whole[i][2] * plane[2];
            sound &= std::fabs(side - 1.0) <= 1e-5 + 1e-8;
            sound &= plane[i] == 0.0 || !(1.0 / plane[i] <= 1e-6);
        }
    }
    for (int64_t m = 0; m < 3; ++m) {
        if (sound) {
            const double span = plane[m] == 0.0 ? kInfinity : 1.0 / plane[m];
            nadir[m] = std::min(ideal[m] + span, worst[m]);
        } else {
            nadir[m] = top[m];
        }
        if (nadir[m] - ideal[m] <= 1e-6) nadir[m] = front[m];
    }
}

void survive(const State& s, int64_t r, const double* objectives, int64_t n, int64_t wanted,
             uint64_t word, int64_t* kept) {
    const Doubles f = finite(objectives, n);
    double *ideal = s.ideal + 3 * r, *worst = s.worst + 3 * r, *extreme = s.extreme + 9 * r;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t m = 0; m < 3; ++m) {
            ideal[m] = std::min(ideal[m], f[3 * i + m]);
            worst[m] = std::max(worst[m], f[3 * i + m]);
        }
    const Ints rank = fronts(f.data(), n, wanted);
    double nadir[3];
    extremes(f.data(), rank, s, ideal, extreme);
    nadir_point(f.data(), rank, extreme, ideal, worst, nadir);
    const Rays rays = directions(s.reference, s.points, ideal, nadir);
    const Niches niches = associate(f.data(), rank, rays, ideal, nadir);
    const int64_t bottom = *std::max_element(rank.begin(), rank.end());
    Ints count(rays.count, 0), last;
    int64_t place = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (rank[i] == bottom) last.push_back(i);
        if (rank[i] < 0 || rank[i] == bottom) continue;
        kept[place++] = i;
        ++count[niches.niche[i]];
    }
    durometer::SplitMix random{word};
    Ints order(last.size()), turns(rays.count);
    std::iota(order.begin(), order.end(), 0);
    std::iota(turns.begin(), turns.end(), 0);
    random.shuffle(order, static_cast<int64_t>(order.size()));
    random.shuffle(turns, rays.count);
    niching(wanted - place, count, niches, last, order, turns, kept + place);
}

// Children that survive take the places of those that do not; nothing else moves.
template <class T>
void replace(int64_t size, int64_t offspring, int64_t genes, const int64_t* kept, const T* children,
             const double* found, T* population, double* values) {
    std::vector<uint8_t> lives(size, 0);
    for (int64_t k = 0; k < size; ++k)
        if (kept[k] < size) lives[kept[k]] = 1;
    int64_t free = 0;
    for (int64_t k = 0; k < size; ++k) {
        const int64_t child = kept[k] - size;
        if (child < 0) continue;
        if (child >= offspring) throw durometer::kFailed;
        while (lives[free]) ++free;  // there is one for each child: as many live as there are places
        lives[free] = 1;
        std::copy_n(children + child * genes, genes, population + free * genes);
        std::copy_n(found + 3 * child, 3, values + 3 * free);
    }
}

}  // namespace

DUROMETER_KERNEL(fronts)(int64_t n, int64_t enough, const double* f, int64_t* rank) {
    return durometer::guarded([&] {
        const Ints found = fronts(finite(f, n).data(), n, enough);
        std::copy(found.begin(), found.end(), rank);
    });
}

DUROMETER_KERNEL(survive)(const State* state, int64_t rows, int64_t individuals, int64_t wanted,
                      int64_t threads, const double* f, const uint64_t* words, int64_t* kept) {
    return durometer::guarded([&] {
        if (wanted > individuals) throw durometer::kFailed;
        if (wanted == 0) return;
        durometer::each_row(rows, threads, [&](int64_t r) {
            survive(*state, r, f + 3 * r * individuals, individuals, wanted, words[r], kept + r * wanted);
        });
    });
}

#define DUROMETER_REPLACE(T, kind)                                                                           \
    DUROMETER_KERNEL(replace_##kind)(int64_t rows, int64_t size, int64_t offspring, int64_t genes,           \
                                 int64_t threads, const int64_t* kept, const T* children,                \
                                 const double* found, T* population, double* values) {                   \
        return durometer::guarded([&] {                                                                      \
            durometer::each_row(rows, threads, [&](int64_t r) {                                              \
                replace<T>(size, offspring, genes, kept + r * size, children + r * offspring * genes,    \
                           found + 3 * r * offspring, population + r * size * genes,                     \
                           values + 3 * r * size);                                                       \
            });                                                                                          \
        });                                                                                              \
    }

DUROMETER_REPLACE(float, float32)
DUROMETER_REPLACE(double, float64)
