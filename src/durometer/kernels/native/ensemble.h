// A tree ensemble as flat arrays: the one declaration that every kernel shares.
#pragma once

#include <cmath>
#include <cstdint>

namespace durometer {

// The same fields in the same order as `LAYOUT` in trees/ensemble.py.
struct Ensemble {
    int64_t nodes, trees, outputs;
    const int32_t* feature;   // -1 at a leaf
    const double* threshold;  // x <= threshold goes left
    const int32_t* left;
    const int32_t* right;
    const bool* missing_left;
    const double* value;  // (nodes, outputs)
    const int32_t* roots;
    const double* base;  // (outputs,)
    double cut;          // one output: class 1 where the sum exceeds it
    int64_t single;      // sums are rounded to float32 after every tree, as the library does

    int64_t classes() const { return outputs == 1 ? 2 : outputs; }

    int32_t leaf(int64_t tree, const double* x) const {
        int32_t node = roots[tree];
        while (feature[node] >= 0) {
            const double v = x[feature[node]];
            const bool go_left = std::isnan(v) ? missing_left[node] : v <= threshold[node];
            node = go_left ? left[node] : right[node];
        }
        return node;
    }

    // The library's own sums, in its order and precision.
    void scores(const double* x, double* out) const {
        for (int64_t k = 0; k < outputs; ++k) out[k] = base[k];
        for (int64_t t = 0; t < trees; ++t) {
            const double* v = value + leaf(t, x) * outputs;
            for (int64_t k = 0; k < outputs; ++k) {
                if (single)
                    out[k] = static_cast<float>(static_cast<float>(out[k]) + static_cast<float>(v[k]));
                else
                    out[k] += v[k];
            }
        }
    }

    int64_t label(const double* scores) const {
        if (outputs == 1) return scores[0] > cut;
        int64_t best = 0;
        for (int64_t k = 1; k < outputs; ++k)
            if (scores[k] > scores[best]) best = k;
        return best;
    }
};

}  // namespace durometer
