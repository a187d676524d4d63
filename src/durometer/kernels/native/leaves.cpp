// One tree, independent noise: walk to every leaf that has mass, carrying the product of interval
// masses. Exact for all classes at once, O(nodes) per record.
#include "trees.h"

using durometer::probability::Gridded;

namespace {

struct Branch {
    int32_t node;
    double mass;
    int64_t feature, lo, hi;  // the interval that entering it sets; feature -1: none
    size_t depth;
};

struct Step {
    int64_t feature, lo, hi;  // the interval before
};

}  // namespace

// sums: (rows, cells + features) masses below each cell, a zero first per feature.
DUROMETER_KERNEL(leaf_masses)(const Gridded* e, int64_t rows, int64_t sums, int64_t classes,
                          int64_t threads, const int64_t* label, const double* below,
                          const uint8_t* nan, double* out) {
    return durometer::guarded([&] {
        durometer::each_row(rows, threads, [&](int64_t i) {
            const double* under = below + i * sums;
            const uint8_t* missing = nan + i * e->features;
            std::vector<int64_t> lo(e->features, 0), hi(e->features);
            for (int64_t f = 0; f < e->features; ++f) hi[f] = e->start[f + 1] - e->start[f] - 1;
            std::vector<Branch> stack{{e->roots[0], 1.0, -1, 0, 0, 0}};
            std::vector<Step> path;
            while (!stack.empty()) {
                const Branch b = stack.back();
                stack.pop_back();
                while (path.size() > b.depth) {  // leave the previous branch
                    const Step s = path.back();
                    path.pop_back();
                    lo[s.feature] = s.lo;
                    hi[s.feature] = s.hi;
                }
                if (b.feature >= 0) {  // enter this one
                    path.push_back({b.feature, lo[b.feature], hi[b.feature]});
                    lo[b.feature] = b.lo;
                    hi[b.feature] = b.hi;
                }
                int32_t node = b.node;
                int64_t f = -1, c = 0;
                while ((f = e->feature[node]) >= 0) {
                    c = e->cell[node];
                    if (missing[f])
                        node = e->missing_left[node] ? e->left[node] : e->right[node];
                    else if (hi[f] <= c)
                        node = e->left[node];
                    else if (lo[f] > c)
                        node = e->right[node];
                    else
                        break;
                }
                if (f < 0) {
                    out[i * classes + label[node]] += b.mass;
                    continue;
                }
                const double* at = under + e->start[f] + f;
                const double whole = at[hi[f] + 1] - at[lo[f]];
                const double share = whole > 0 ? (at[c + 1] - at[lo[f]]) / whole : 0.0;
                if (share < 1.0 && b.mass * (1.0 - share) > 0.0)
                    stack.push_back(
                        {e->right[node], b.mass * (1.0 - share), f, c + 1, hi[f], path.size()});
                if (share > 0.0)
                    stack.push_back({e->left[node], b.mass * share, f, lo[f], c, path.size()});
            }
        });
    });
}
