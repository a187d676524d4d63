// A box whose features fall apart once a few of them are fixed: met in the middle, exactly.
//
// In a small box most trees are stumps, so few features are tied. Fix some of them (the middle), and
// the others fall into two halves that no tree joins. For each cell of the middle the margin is a sum
// of two independent tables: one is put into buckets in its order, and every cell of the other looks
// up how much of it is large enough. That takes middle x (half + half) steps for middle x half x half
// joint cells.
//
// What a reader would get wrong: this is for one rival only, for two inequalities cannot both be
// sorted. Pairs within rounding of zero are not named, only their mass is known; the box stays open by
// that much.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

constexpr int64_t kMost = 62;  // features: sets of them are bits of an integer
using Set = int64_t;

struct Halves {
    Set middle = 0, one = 0, two = 0;
    double steps = 0.0;  // logarithm
};

bool has(Set set, int64_t f) { return set >> f & 1; }

// Parts that no tree joins outside the middle, put into two halves of like size.
Halves halves(const Int64s& tied, const Doubles& length, Set middle) {
    const int64_t active = static_cast<int64_t>(length.size());
    Set part[kMost];
    double size[kMost];
    int64_t parts = 0;
    Set left = ((Set{1} << active) - 1) & ~middle;
    while (left) {
        Set fresh = left & -left, group = 0;
        double n = 0.0;
        while (fresh) {
            group |= fresh;
            Set reached = 0;
            for (int64_t f = 0; f < active; ++f)
                if (has(fresh, f)) {
                    reached |= tied[f];
                    n += length[f];
                }
            fresh = reached & left & ~group;
        }
        left &= ~group;
        part[parts] = group;
        size[parts++] = n;
    }
    Halves h{middle, 0, 0, 0.0};
    double a = 0.0, b = 0.0;
    for (int64_t turn = 0; turn < parts; ++turn) {
        int64_t i = 0;
        for (int64_t j = 1; j < parts; ++j)
            if (size[j] > size[i]) i = j;
        if (a <= b) {
            h.one |= part[i];
            a += size[i];
        } else {
            h.two |= part[i];
            b += size[i];
        }
        size[i] = -1.0;
    }
    h.steps = std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
    return h;
}

// The cheapest middle of a greedy search.
Halves cheapest(const Int64s& tied, const Doubles& length, double limit) {
    Set middle = 0;
    double inside = 0.0;  // log cells
    Halves best = halves(tied, length, 0);
    for (;;) {
        int64_t chosen = -1;
        double least = std::numeric_limits<double>::infinity();
        for (int64_t f = 0; f < static_cast<int64_t>(length.size()); ++f) {
            if (has(middle, f)) continue;
            Halves h = halves(tied, length, middle | Set{1} << f);
            h.steps += inside + length[f];
            if (h.steps < least) {
                chosen = f;
                least = h.steps;
            }
            if (h.steps < best.steps) best = h;
        }
        if (chosen < 0 || inside + length[chosen] > std::min(limit, best.steps)) return best;
        middle |= Set{1} << chosen;
        inside += length[chosen];
    }
}

struct Sorted {
    double least, most, rate;
    Int64s begin;
    Doubles above, value, mass;

    int64_t bucket(double v) const { return static_cast<int64_t>((v - least) * rate); }

    // Mass of values that satisfy the test, among those of v's bucket and all above it.
    template <class Test>
    double from(double v, Test test) const {
        const int64_t i = bucket(v), buckets = static_cast<int64_t>(above.size()) - 1;
        double sum = above[i + 1];
        const int64_t end =
            i + 2 <= buckets ? begin[i + 2] : static_cast<int64_t>(value.size());
        for (int64_t j = begin[i + 1]; j < end; ++j)
            if (test(value[j])) sum += mass[j];
        return sum;
    }
};

// Mass of x + y > slack, and of x + y >= -slack: block by block, a block per cell of the middle.
std::pair<double, double> pairs(const Doubles& x, const Doubles& y, const Doubles& chance_x,
                                const Doubles& chance_y, const Doubles& chance_fixed,
                                double slack) {
    const int64_t m = static_cast<int64_t>(chance_x.size());
    const int64_t n = static_cast<int64_t>(chance_y.size()), buckets = 2 * n;
    Sorted s;
    s.value.resize(n);
    s.mass.resize(n);
    double low = 0.0, high = 0.0;
    for (size_t k = 0; k < chance_fixed.size(); ++k) {
        const double* block = y.data() + k * n;
        s.least = *std::min_element(block, block + n);
        s.most = *std::max_element(block, block + n);
        s.rate = s.most > s.least ? static_cast<double>(buckets - 1) / (s.most - s.least) : 0.0;
        s.begin.assign(buckets + 1, 0);
        s.above.assign(buckets + 1, 0.0);
        for (int64_t j = 0; j < n; ++j) {
            const int64_t i = s.bucket(block[j]);
            ++s.begin[i + 1];
            s.above[i] += chance_y[j];
        }
        for (int64_t i = 0; i < buckets; ++i) s.begin[i + 1] += s.begin[i];
        for (int64_t i = buckets - 1; i >= 0; --i) s.above[i] += s.above[i + 1];
        for (int64_t j = n - 1; j >= 0; --j) {  // fills a bucket from its end, and moves its end down
            const int64_t at = --s.begin[s.bucket(block[j]) + 1];
            s.value[at] = block[j];
            s.mass[at] = chance_y[j];
        }
        // begin[i + 1] is now where bucket i begins
        double sure = 0.0, possible = 0.0;
        for (int64_t i = 0; i < m; ++i) {
            const double v = x[k * m + i];
            if (s.least + v > slack) {
                sure += chance_x[i];
                possible += chance_x[i];
            } else if (s.most + v >= -slack) {
                const double strict = slack - v, weak = -slack - v;
                if (strict < s.most)
                    sure += chance_x[i] * s.from(strict, [&](double w) { return w > strict; });
                possible += chance_x[i] * (weak > s.least ? s.from(weak, [&](double w) {
                    return w >= weak;
                })
                                                          : s.above[0]);
            }
        }
        low += chance_fixed[k] * sure;
        high += chance_fixed[k] * possible;
    }
    return {low, high};
}

void meet(const Local& m, const Reached& r, const Merged& g, const std::vector<Set>& own,
          const Halves& h, Finding& found) {
    const bool doubt = doubtful(m, r);
    const Int64s by_size = largest_first(g.sizes);
    auto features = [&](Set set) {
        Int64s list;
        for (int64_t a : by_size)
            if (has(set, a)) list.push_back(a);
        return list;
    };
    const Int64s fixed = features(h.middle);
    const Doubles chance_fixed = joint_chances(g, fixed);
    Doubles tables[2], errors[2], chance[2];
    int64_t work = 0;
    for (int half = 0; half < 2; ++half) {
        Int64s order = features(half == 0 ? h.one : h.two), mine;
        const Set other = half == 0 ? h.two : h.one;
        for (int64_t t = 0; t < r.trees(); ++t)
            if (!(own[t] & other) && (half == 0 || own[t] & h.two)) mine.push_back(t);
        chance[half] = joint_chances(g, order);
        order.insert(order.end(), fixed.begin(), fixed.end());
        const size_t joint = chance_fixed.size() * chance[half].size();
        tables[half].assign(joint, 0.0);
        errors[half].assign(doubt ? joint : 0, 0.0);
        if (!order.empty())
            work += joint_margins(m, r, g, mine, order, 1, tables[half], errors[half]);
    }
    const int few = chance[0].size() < chance[1].size() ? 0 : 1;
    Doubles &x = tables[1 - few], &y = tables[few];
    const double base = r.margin[0] + m.tie[0];
    for (double& v : x) v += base;
    auto moved = [](const Doubles& a, const Doubles& by, double sign) {
        Doubles out(a);
        for (size_t j = 0; j < out.size(); ++j) out[j] += sign * by[j];
        return out;
    };
    if (doubt) {
        const Doubles &e = errors[1 - few], &f = errors[few];
        found.low = pairs(moved(x, e, -1.0), moved(y, f, -1.0), chance[1 - few], chance[few],
                          chance_fixed, r.slack)
                        .first;
        found.high = pairs(moved(x, e, 1.0), moved(y, f, 1.0), chance[1 - few], chance[few],
                           chance_fixed, r.slack)
                         .second;
    } else {
        std::tie(found.low, found.high) =
            pairs(x, y, chance[1 - few], chance[few], chance_fixed, r.slack);
    }
    found.low = std::min(found.low, 1.0);
    found.high = std::min(std::max(found.high, found.low), 1.0);
    found.work +=
        2 * (work + 15 * (1 + doubt) * static_cast<int64_t>(x.size() + y.size()));
}

}  // namespace

bool meet_in_the_middle(const Local& m, const Box& box, int64_t most, Finding& found) {
    Reached r;
    reach(m, box, r);
    Merged g;
    merge(m, box, r.used, g);
    const int64_t active = g.active();
    found.work = 50 * r.begin.back() + 120 * m.trees();
    if (active > kMost) return false;
    std::vector<Set> own(r.trees(), 0);
    Int64s tied(active, 0);
    for (int64_t t = 0; t < r.trees(); ++t) {
        for (int64_t i = r.begin[t]; i < r.begin[t + 1]; ++i)
            if (m.nf[r.node[i]] >= 0) own[t] |= Set{1} << g.name[m.nf[r.node[i]]];
        for (int64_t a = 0; a < active; ++a)
            if (has(own[t], a)) tied[a] |= own[t];
    }
    Doubles length(active);
    for (int64_t a = 0; a < active; ++a) length[a] = std::log(static_cast<double>(g.sizes[a]));
    const double limit = std::log(static_cast<double>(most));
    const Halves h = cheapest(tied, length, limit);
    found.work += 100 * active * active;
    if (h.steps > limit || std::exp(h.steps) > static_cast<double>(most)) return false;
    meet(m, r, g, own, h, found);
    const int64_t a = std::max_element(g.sizes.begin(), g.sizes.end()) - g.sizes.begin();
    found.feature = g.members[a];
    found.cut = g.cut[g.flat[a] + (g.sizes[a] - 1) / 2];
    return true;
}

}  // namespace durometer::probability
