// The mass of each class over many sampled readings, one feature left open: tables looked up.
//
// A block of readings at a time: each table (score_tables.cpp) adds its differences where the intervals
// of the open feature begin; the scores along that feature are their sums, and the mass of each class
// is exact. A single score means class 1 above zero; of several the largest wins, the first of equal
// ones.
#include <cmath>

#include "estimated/forest.h"
#include "trees.h"

using namespace durometer;
using namespace durometer::probability;

namespace {

constexpr int64_t kBlock = 256;  // readings at a time
constexpr int64_t kGuide = 128;  // steps of the index that finds a reading's cell

struct Tables {
    int64_t tables, ends, columns, entries, parts, maps, places, walks;
    const int64_t *start, *wide, *column_start, *column;
    const double* value;
    const int64_t *feature_start, *feature, *offset;
    const int32_t* step;
    const int64_t *place, *part_start;
    const int64_t* walked;
};

struct Guide {
    int64_t cells, features, steps;
    const double* edges;   // upper edges of the cells
    const int64_t* begin;  // (features, kGuide) where the search for a cell begins
    const double *low, *rate;
    const int64_t* dimension;  // where each feature's numbers are, -1 for the open one
};

double edge_mass(double edge, const double* shift, int64_t i, double sd, bool tied) {
    return tied ? 0.5 * std::erfc(-(edge - shift[i]) / sd * 0.7071067811865476) : edge;
}

// Mass of a positive score, summed over the readings of a block.
double one_score(const double* score, double base, int64_t block, int64_t steps,
                 const double* ends, const double* shift, double sd, bool tied) {
    double mass = 0.0;
    for (int64_t i = 0; i < block; ++i) {
        double now = base, before = 0.0;
        bool positive = false;
        for (int64_t s = 0; s < steps; ++s) {
            now += score[s * kBlock + i];
            if ((now > 0.0) == positive) continue;
            if (s > 0) {
                const double edge = edge_mass(ends[s - 1], shift, i, sd, tied);
                if (positive) mass += edge - before;
                before = edge;
            }
            positive = !positive;
        }
        if (positive) mass += 1.0 - before;
    }
    return mass;
}

// Adds the mass of each class, of a score per class.
void many_scores(const double* score, const Forest& t, int64_t block, int64_t steps,
                 const double* ends, const double* shift, double sd, bool tied, double* mass) {
    Doubles now(t.scores);
    const int64_t wide = (steps + 1) * kBlock;
    for (int64_t i = 0; i < block; ++i) {
        double before = 0.0;
        int64_t label = -1;
        now.assign(t.base, t.base + t.scores);
        for (int64_t s = 0; s < steps; ++s) {
            bool moved = s == 0;
            for (int64_t k = 0; k < t.scores; ++k) {
                const double by = score[k * wide + s * kBlock + i];
                moved = moved || by != 0.0;
                now[k] += by;
            }
            if (!moved) continue;
            int64_t best = 0;
            for (int64_t k = 1; k < t.scores; ++k)
                if (now[k] > now[best] + t.slack) best = k;
            if (best == label) continue;
            if (label >= 0) {
                const double edge = edge_mass(ends[s - 1], shift, i, sd, tied);
                mass[label] += edge - before;
                before = edge;
            }
            label = best;
        }
        mass[label] += 1.0 - before;
    }
}

// One tree's part in the scores of a block.
void walk(const Forest& t, int64_t root, const Int32s& cells, int64_t block, int64_t steps,
          double* score) {
    struct Todo {
        int32_t node;
        int64_t lo, hi;
    };
    std::vector<Todo> stack;
    const int64_t wide = (steps + 1) * kBlock;
    for (int64_t i = 0; i < block; ++i) {
        stack.push_back({static_cast<int32_t>(root), 0, steps - 1});
        while (!stack.empty()) {
            auto [node, lo, hi] = stack.back();
            stack.pop_back();
            while (t.nf[node] >= 0) {
                const int32_t f = t.nf[node], c = t.nc[node];
                if (f != t.last) {
                    node = cells[f * kBlock + i] <= c ? t.nl[node] : t.nr[node];
                } else if (hi <= c) {
                    node = t.nl[node];
                } else if (lo > c) {
                    node = t.nr[node];
                } else {
                    stack.push_back({t.nr[node], c + 1, hi});
                    hi = c;
                    node = t.nl[node];
                }
            }
            for (int64_t k = 0; k < t.scores; ++k) {
                const double v = t.score[node * t.scores + k];
                score[k * wide + lo * kBlock + i] += v;
                score[k * wide + (hi + 1) * kBlock + i] -= v;
            }
        }
    }
}

}  // namespace

// Where the search for a cell begins: first steps, lowest edges, steps per unit.
DUROMETER_KERNEL(guide)(int64_t cells, int64_t features, int64_t ends, const double* edges,
                    const int64_t* start, int64_t* begin, double* low, double* rate) {
    (void)cells, (void)ends;
    for (int64_t f = 0; f < features; ++f) {
        const double* mine = edges + start[f];
        const int64_t n = start[f + 1] - start[f] - 1;  // the last edge is infinite
        std::fill(begin + f * kGuide, begin + (f + 1) * kGuide, 0);
        low[f] = rate[f] = 0.0;
        if (n < 1) continue;
        low[f] = mine[0];
        const double wide = mine[n - 1] - low[f];
        rate[f] = wide > 0.0 ? (kGuide - 1) / wide : 0.0;
        int64_t c = 0;
        for (int64_t g = 1; g < kGuide; ++g) {
            // one step back: the division may round
            while (c < n && (mine[c] - low[f]) * rate[f] < static_cast<double>(g - 1)) ++c;
            begin[f * kGuide + g] = c;
        }
    }
    return kDone;
}

// Mean mass of each class, over readings `points` (dimensions, n). The open feature's steps end at its
// edges; its law is N(shift, sd) where it is `tied` to the others, else the edges are masses.
DUROMETER_KERNEL(class_masses)(const Forest* forest, const Tables* tables, const Guide* guide,
                           int64_t dimensions, int64_t n, int64_t shifts, const double* points,
                           const double* shift, double sd, int64_t tied, int64_t classes,
                           double* out) {
    (void)dimensions;
    return guarded([&] {
        const Forest& t = *forest;
        const Tables& k = *tables;
        const int64_t steps = t.start[t.last + 1] - t.start[t.last], wide = (steps + 1) * kBlock;
        const double* ends = guide->edges + t.start[t.last];
        Int32s cells(t.features * kBlock, 0), index(kBlock);
        Doubles score(t.scores * wide);
        std::fill(out, out + classes, 0.0);
        for (int64_t at = 0; at < n; at += kBlock) {
            const int64_t block = std::min(kBlock, n - at);
            for (int64_t f = 0; f < t.features; ++f) {
                if (guide->dimension[f] < 0) continue;
                const double* edges = guide->edges + t.start[f];
                const double* row = points + guide->dimension[f] * n + at;
                for (int64_t i = 0; i < block; ++i) {
                    const double v = row[i];
                    const double g = std::min(
                        std::max((v - guide->low[f]) * guide->rate[f], 0.0), kGuide - 1.0);
                    int64_t c = guide->begin[f * kGuide + static_cast<int64_t>(g)];
                    while (edges[c] < v) ++c;
                    cells[f * kBlock + i] = static_cast<int32_t>(c);
                }
            }
            std::fill(score.begin(), score.end(), 0.0);
            for (int64_t table = 0; table < k.tables; ++table) {
                std::fill(index.begin(), index.end(), static_cast<int32_t>(k.start[table]));
                for (int64_t j = k.feature_start[table]; j < k.feature_start[table + 1]; ++j) {
                    const int32_t* map = k.step + k.offset[j];
                    const int32_t* mine = cells.data() + k.feature[j] * kBlock;
                    for (int64_t i = 0; i < block; ++i) index[i] += map[mine[i]];
                }
                for (int64_t c = k.column_start[table]; c < k.column_start[table + 1]; ++c) {
                    double* own = score.data() + k.column[c] * wide;
                    for (int64_t p = k.part_start[table]; p < k.part_start[table + 1]; ++p) {
                        const int64_t q = p - k.part_start[table];
                        double* row = own + k.place[p] * kBlock;
                        for (int64_t i = 0; i < block; ++i) row[i] += k.value[index[i] + q];
                    }
                    for (int64_t i = 0; i < kBlock; ++i)
                        index[i] += static_cast<int32_t>(k.wide[table]);
                }
            }
            for (int64_t w = 0; w < k.walks; ++w)
                walk(t, k.walked[w], cells, block, steps, score.data());
            const double* here = shifts > 1 ? shift + at : shift;
            if (t.scores == 1)
                out[1] += one_score(score.data(), t.base[0], block, steps, ends, here, sd,
                                    tied != 0);
            else
                many_scores(score.data(), t, block, steps, ends, here, sd, tied != 0, out);
        }
        if (t.scores == 1) out[0] = static_cast<double>(n) - out[1];
        for (int64_t c = 0; c < classes; ++c) out[c] /= static_cast<double>(n);
    });
}
