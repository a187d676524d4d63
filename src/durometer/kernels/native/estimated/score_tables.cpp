// Scores of many sampled readings at once, one feature left open: trees as small tables.
//
// A record's noise reaches a few leaves of each tree, so a tree is a table over its own few intervals
// of each feature; trees that ask about the same features and move the same scores share one. A reading
// then costs a few lookups instead of a walk (class_masses.cpp). Along the open feature a table holds
// differences. A tree whose table would be too large is walked.
#include "bundle.h"
#include "estimated/forest.h"
#include "trees.h"

using namespace durometer;
using namespace durometer::probability;

namespace {

constexpr int64_t kLargest = 2048;  // cells of a table

// Cells of the joint table of two sets of cuts.
double size_of(const Forest& t, const Bytes& a, const Bytes& b) {
    double size = 1.0;
    for (int64_t f = 0; f < t.features; ++f) {
        int64_t n = 1;
        for (int64_t c = t.start[f]; c < t.start[f + 1]; ++c) n += a[c] || b[c];
        size *= static_cast<double>(n);
    }
    return size;
}

struct Shared {
    Int64s home;              // which table each tree goes to (-1: none)
    std::vector<Bytes> cuts;  // of each table
};

Shared share(const Forest& t, const int64_t* roots, int64_t trees) {
    Shared s;
    s.home.assign(trees, -1);
    Bytes mine(t.start[t.features]);
    Doubles sizes;
    Int32s stack;
    for (int64_t i = 0; i < trees; ++i) {
        std::fill(mine.begin(), mine.end(), 0);
        stack.push_back(static_cast<int32_t>(roots[i]));
        while (!stack.empty()) {
            const int32_t k = stack.back();
            stack.pop_back();
            if (t.nf[k] < 0) continue;
            mine[t.start[t.nf[k]] + t.nc[k]] = 1;
            stack.push_back(t.nl[k]);
            stack.push_back(t.nr[k]);
        }
        const double alone = size_of(t, mine, mine);
        if (alone > kLargest) continue;
        int64_t best = -1;
        double least = kLargest + 1.0;
        for (size_t k = 0; k < s.cuts.size(); ++k) {
            // a table shared must not be much larger than the two it stands for
            const double size = size_of(t, mine, s.cuts[k]);
            if (size < least && size <= 4.0 * (alone + sizes[k])) {
                best = static_cast<int64_t>(k);
                least = size;
            }
        }
        if (best < 0) {
            best = static_cast<int64_t>(s.cuts.size());
            least = alone;
            s.cuts.emplace_back(mine.size(), 0);
            sizes.push_back(alone);
        }
        s.home[i] = best;
        sizes[best] = least;
        for (size_t c = 0; c < mine.size(); ++c) s.cuts[best][c] |= mine[c];
    }
    return s;
}

}  // namespace

// Tables of the trees `roots`, as a bundle: table starts, values (one score after the other), feature
// starts, features, their maps, maps, places of the open feature's parts, starts of these, trees to walk.
DUROMETER_KERNEL(score_tables)(const Forest* forest, int64_t trees, const int64_t* roots,
                           int64_t* handle) {
    return guarded([&] {
        const Forest& t = *forest;
        const Shared s = share(t, roots, trees);
        Int64s start{0}, feature_start{0}, part_start{0}, feature, offset, place, walked;
        Int32s step;
        Doubles value;
        Int64s parts(t.features), at(t.features), cells(t.features), member;
        std::vector<Int64s> first(t.features);  // first cell of each interval
        for (size_t k = 0; k < s.cuts.size(); ++k) {
            member.clear();
            for (int64_t i = 0; i < trees; ++i)
                if (s.home[i] == static_cast<int64_t>(k)) member.push_back(roots[i]);
            Int64s order{t.last};  // the open feature varies fastest
            for (int64_t f = 0; f < t.features; ++f)
                if (f != t.last) order.push_back(f);
            int64_t size = 1;
            for (int64_t f : order) {
                const int64_t stride = size, n = t.start[f + 1] - t.start[f];
                const uint8_t* cuts = s.cuts[k].data() + t.start[f];
                first[f].clear();
                for (int64_t c = 0; c < n; ++c)
                    if (c == 0 || cuts[c - 1]) first[f].push_back(c);
                parts[f] = static_cast<int64_t>(first[f].size());
                size *= parts[f];
                if (f == t.last) {
                    place.insert(place.end(), first[f].begin(), first[f].end());
                } else if (parts[f] > 1) {
                    feature.push_back(f);
                    offset.push_back(static_cast<int64_t>(step.size()));
                    int64_t part = 0;
                    for (int64_t c = 0; c < n; ++c) {
                        if (c > 0 && cuts[c - 1]) ++part;
                        step.push_back(static_cast<int32_t>(part * stride));
                    }
                }
            }
            const int64_t begin = start.back();
            start.push_back(begin + size * t.scores);
            feature_start.push_back(static_cast<int64_t>(feature.size()));
            part_start.push_back(static_cast<int64_t>(place.size()));
            value.resize(start.back(), 0.0);
            std::fill(at.begin(), at.end(), 0);
            for (int64_t cell = 0; cell < size; ++cell) {
                for (int64_t f = 0; f < t.features; ++f) cells[f] = first[f][at[f]];
                for (int64_t root : member) {
                    auto node = static_cast<int32_t>(root);
                    while (t.nf[node] >= 0)
                        node = cells[t.nf[node]] <= t.nc[node] ? t.nl[node] : t.nr[node];
                    for (int64_t c = 0; c < t.scores; ++c)
                        value[begin + c * size + cell] += t.score[node * t.scores + c];
                }
                for (int64_t f : order) {
                    if (++at[f] < parts[f]) break;
                    at[f] = 0;
                }
            }
            for (int64_t cell = size * t.scores - 1; cell >= 0; --cell)
                if (cell % parts[t.last] > 0) value[begin + cell] -= value[begin + cell - 1];
        }
        for (int64_t i = 0; i < trees; ++i)
            if (s.home[i] < 0) walked.push_back(roots[i]);
        auto* found = new Bundle;
        *handle = reinterpret_cast<int64_t>(found);
        found->add(start);
        found->add(value);
        found->add(feature_start);
        found->add(feature);
        found->add(offset);
        found->add(step);
        found->add(place);
        found->add(part_start);
        found->add(walked);
    });
}
