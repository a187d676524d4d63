// Non-dominated fronts of three objectives, by a staircase (all minimised).
//
// Once the individuals are sorted by the first objective, those already in a front are a staircase
// in the other two, and "is it dominated?" is a binary search. Equal individuals do not dominate
// each other, and a population that starts as copies of one point is nothing but equal individuals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace durometer::evolution {

struct Individual {
    double f[3];
    int64_t place;

    bool before(const Individual& other) const {  // lexicographic
        if (f[0] != other.f[0]) return f[0] < other.f[0];
        if (f[1] != other.f[1]) return f[1] < other.f[1];
        return f[2] < other.f[2];
    }
};

// Front (0 first) of each of n individuals (n, 3) without NaN; -1 beyond the front that completes
// `enough`. A front's staircase holds, by increasing second objective, the lowest third so far.
inline std::vector<int64_t> fronts(const double* f, int64_t n, int64_t enough) {
    struct Step {
        double second, third;
    };
    std::vector<int64_t> rank(n, -1);
    const auto individual = [f](int64_t i) { return Individual{{f[3 * i], f[3 * i + 1], f[3 * i + 2]}, i}; };
    struct Key {
        double first;
        int64_t place;
    };
    std::vector<Key> keys(n);  // half of what an individual is: sorting moves them about
    for (int64_t i = 0; i < n; ++i) keys[i] = {f[3 * i], i};
    std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
        return a.first != b.first ? a.first < b.first : individual(a.place).before(individual(b.place));
    });
    std::vector<Individual> order(n);
    for (int64_t i = 0; i < n; ++i) order[i] = individual(keys[i].place);
    std::vector<Step> steps(n);
    int64_t ranked = 0, left = n;
    for (int64_t front = 0; ranked < enough && ranked < n; ++front) {
        int64_t many = 0, over = 0;
        Individual last{};
        bool any = false;
        for (int64_t at = 0; at < left; ++at) {
            const Individual one = order[at];
            if (any && !last.before(one)) {  // equal to the last member: same front
                rank[one.place] = front;
                ++ranked;
                continue;
            }
            int64_t low = 0, high = many;  // first step whose second objective exceeds this one's
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (steps[middle].second <= one.f[1])
                    low = middle + 1;
                else
                    high = middle;
            }
            if (low > 0 && steps[low - 1].third <= one.f[2]) {
                order[over++] = one;  // dominated: left for the next front
                continue;
            }
            rank[one.place] = front;
            ++ranked;
            last = one;
            any = true;
            int64_t stop = low;  // steps from `low` on that are no lower are covered by the new one
            while (stop < many && steps[stop].third >= one.f[2]) ++stop;
            if (low > 0 && steps[low - 1].second == one.f[1]) --low;
            const auto begin = steps.begin();
            if (stop > low)
                std::move(begin + stop, begin + many, begin + low + 1);
            else
                std::move_backward(begin + stop, begin + many, begin + many + 1);
            many += low + 1 - stop;
            steps[low] = {one.f[1], one.f[2]};
        }
        left = over;
    }
    return rank;
}

}  // namespace durometer::evolution
