// P(sum of independent tables > 0), rounded to the safe side.
//
// All groups but the largest are convolved, and the largest is left open: one answer per cell of it.
// Few joint cells are listed exactly; many are put on a grid, atoms rounded down for a lower bound
// and up for an upper one. Only sums that the largest group can still bring across zero need their
// own step of the grid: what lies above them is one step.
#include <cmath>
#include <limits>
#include <numeric>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kFew = 8;      // cells of a group that are looked up one by one, not convolved
constexpr int64_t kExact = 512;  // joint cells that are listed, not rounded

struct Reach {
    double least, span;
};

DUROMETER_WIDE void add(double* fresh, const double* sums, double h, int64_t n) {
    for (int64_t j = 0; j < n; ++j) fresh[j] += h * sums[j];
}

int64_t listed(const double* table, const Doubles& chance, const Int64s& order,
               const Int64s& table_start, const Int64s& cells, int64_t final,
               const std::vector<Reach>& reach, int64_t joint, double least, double* out) {
    Doubles value(joint, 0.0), mass(joint, 0.0);
    mass[0] = 1.0;
    int64_t n = 1;
    for (size_t i = 0; i < order.size(); ++i) {
        const int64_t g = order[i];
        if (g == final) continue;
        for (int64_t c = cells[g] - 1; c >= 0; --c) {  // the first block is overwritten last
            const double more = table[table_start[g] + c] - reach[i].least;
            const double q = chance[table_start[g] + c];
            for (int64_t j = 0; j < n; ++j) {
                value[c * n + j] = value[j] + more;
                mass[c * n + j] = mass[j] * q;
            }
        }
        n *= cells[g];
    }
    Int64s by(joint);
    std::iota(by.begin(), by.end(), 0);
    std::stable_sort(by.begin(), by.end(),
                     [&](int64_t a, int64_t b) { return value[a] < value[b]; });
    Doubles sorted(joint), above(joint + 1, 0.0);
    for (int64_t j = 0; j < joint; ++j) sorted[j] = value[by[j]];
    for (int64_t j = joint - 1; j >= 0; --j) above[j] = mass[by[j]] + above[j + 1];
    for (int64_t c = 0; c < cells[final]; ++c) {
        const double need = -(least + table[table_start[final] + c]);
        if (need >= 0.0)
            out[c] = above[std::upper_bound(sorted.begin(), sorted.end(), need) - sorted.begin()];
    }
    return 16 * joint;
}

}  // namespace

// `step`: the grid wanted, coarsened where it takes more than `bins`.
int64_t tails(const double* table, const Doubles& chance, const Int64s& leaders,
              const Int64s& table_start, const Int64s& cells, int64_t final, double base,
              double step, int64_t bins, bool up, double* out) {
    const int64_t groups = static_cast<int64_t>(leaders.size());
    Int64s order = leaders;  // few atoms last, when sums are long
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return cells[a] > cells[b]; });
    double least = base, span = 0.0;
    int64_t joint = 1;
    std::vector<Reach> reach(groups, {0.0, 0.0});
    for (int64_t i = 0; i < groups; ++i) {
        const int64_t g = order[i];
        if (g == final) continue;
        double a = kInf, b = -kInf;
        for (int64_t c = table_start[g]; c < table_start[g] + cells[g]; ++c) {
            a = std::min(a, table[c]);
            b = std::max(b, table[c]);
        }
        reach[i] = {a, b - a};
        least += a;
        span += b - a;
        joint = std::min(joint * cells[g], kExact + 1);
    }
    const int64_t at = table_start[final], size = cells[final];
    double lowest = kInf, highest = -kInf;
    for (int64_t c = 0; c < size; ++c) {
        const double need = -(least + table[at + c]);  // the sum must exceed this
        out[c] = need < 0.0 ? 1.0 : 0.0;
        if (0.0 <= need && need < span) {
            lowest = std::min(lowest, need);
            highest = std::max(highest, need);
        }
    }
    if (highest < 0.0) return size;
    if (joint <= kExact)
        return size + listed(table, chance, order, table_start, cells, final, reach, joint, least,
                             out);

    step = std::max(step, span / static_cast<double>(bins));
    // of rounding in the wrong direction must not move an atom inwards
    const double hair = 1e-13 * span / step;
    const int64_t top = static_cast<int64_t>(highest / step) + 2;  // everything above is one step
    Doubles sums(top + 1, 0.0), fresh(top + 1, 0.0), histogram(bins + 2, 0.0);
    sums[0] = 1.0;
    int64_t length = 1, work = 0;
    double left = span;
    const int64_t small = order[groups - 1] != final ? groups - 1 : groups - 2;
    const bool looked_up = cells[order[small]] <= kFew;
    for (int64_t i = 0; i < (looked_up ? small : groups); ++i) {
        const int64_t g = order[i];
        if (g == final) continue;
        const double a = reach[i].least;
        left -= reach[i].span;
        const int64_t width =
            std::min<int64_t>(static_cast<int64_t>(std::ceil(reach[i].span / step)), bins) + 1;
        std::fill(histogram.begin(), histogram.begin() + width, 0.0);
        for (int64_t c = table_start[g]; c < table_start[g] + cells[g]; ++c) {
            const double u = (table[c] - a) / step;
            const auto k = up ? static_cast<int64_t>(std::ceil(u - hair))
                              : static_cast<int64_t>(u + hair);
            histogram[std::min(std::max<int64_t>(k, 0), width - 1)] += chance[c];
        }
        const int64_t grown = std::min(length + width - 1, top + 1);
        std::fill(fresh.begin(), fresh.begin() + grown, 0.0);
        // what the groups to come cannot lift to `lowest` is lost already
        const int64_t first = std::max<int64_t>(
            static_cast<int64_t>((lowest - left - reach[i].span) / step) - groups - 2, 0);
        for (int64_t k = 0; k < width; ++k) {
            const double h = histogram[k];
            if (!(h > 0.0)) continue;
            const int64_t end = std::min(length, top - k);
            if (end > first) {
                add(fresh.data() + k + first, sums.data() + first, h, end - first);
                work += end - first;
            }
            double over = 0.0;
            for (int64_t j = std::max(end, first); j < length; ++j) over += sums[j];
            fresh[grown - 1] += end < length ? h * over : 0.0;
        }
        length = grown;
        std::swap(sums, fresh);
    }
    for (int64_t j = length - 2; j >= 0; --j) sums[j] += sums[j + 1];
    // the atoms' own rounding: up to a hair of a step per group, taken off the base
    const double guard = (up ? 1.0 : -1.0) * 1e-12 * span * static_cast<double>(groups);
    const int64_t few = table_start[order[small]], many = looked_up ? cells[order[small]] : 1;
    const double rest = looked_up ? span - reach[small].span : span;
    for (int64_t c = 0; c < size; ++c) {
        const double need = -(least + guard + table[at + c]);
        if (!(0.0 <= need && need < span)) {
            out[c] = need < 0.0 ? 1.0 : 0.0;
            continue;
        }
        double p = 0.0;
        for (int64_t k = few; k < few + many; ++k) {
            const double lacking = looked_up ? need - (table[k] - reach[small].least) : need;
            const double weight = looked_up ? chance[k] : 1.0;
            if (lacking < 0.0) {
                p += weight;
            } else if (lacking < rest) {
                int64_t j = static_cast<int64_t>(lacking / step) + 1;  // first atom above
                if (up && static_cast<double>(j - 1) * step > lacking) --j;
                p += j < length ? weight * sums[j] : 0.0;
            }
        }
        out[c] = p;
    }
    return work / 8 + 4 * size * many;
}

}  // namespace durometer::probability

// For tests: tails of tables that lie one behind the other, the last of them left open.
DUROMETER_KERNEL(tails)(int64_t entries, int64_t groups, const double* table, const double* chance,
                    const int64_t* cells, double base, double step, int64_t bins, int64_t up,
                    int64_t open, double* out) {
    (void)open;
    return durometer::guarded([&] {
        durometer::probability::Int64s leaders, start, sizes(cells, cells + groups);
        int64_t at = 0;
        for (int64_t g = 0; g < groups; ++g) {
            leaders.push_back(g);
            start.push_back(at);
            at += cells[g];
        }
        const durometer::probability::Doubles mass(chance, chance + entries);
        durometer::probability::tails(table, mass, leaders, start, sizes, groups - 1, base, step, bins, up != 0,
                     out);
    });
}
