// Mean and variance of the margins over a box, exactly, and what they say by themselves: Cantelli's
// inequality, P(M <= s) <= var / (var + (mean - s)^2) for s < mean.
//
// It holds for any number of trees that span any groups, which is where tables and convolutions give
// up. The covariance of two trees is a sum over leaves of one: value x mass x (mean of the other given
// the leaf - its mean), and that conditional mean is a walk of the other tree inside the leaf's box.
//
// What a reader would get wrong: a leaf that shares no feature with a tree leaves its mean alone, so
// most walks are never made. And the split that helps here is not the one that helps tables: it is the
// cut that explains most of the variance (`main effect` of one feature).
#include <cmath>

#include "certified/boxes.h"

namespace durometer::probability {
namespace {

struct Interval {
    int32_t feature, lo, hi;
};

struct Leaf {
    int32_t node;  // of the local ensemble
    double mass;
    size_t first, last;  // its intervals
};

// The trees that move, with children by index and cuts in merged cells.
struct Forest {
    Int32s feature, cut, left, right, node;
    Int64s root;  // per tree
    std::vector<Leaf> leaves;
    Int64s leaf_start;
    std::vector<Interval> intervals;
    std::vector<Bytes> has;  // tree x feature
};

class Moments {
   public:
    Moments(const Local& m, const Reached& r, const Merged& g) : m_(m), r_(r), g_(g) {
        lo_.assign(g.active(), 0);
        for (int64_t n : g.sizes) hi_.push_back(static_cast<int32_t>(n - 1));
        build();
    }

    int64_t leaves() const { return static_cast<int64_t>(f_.leaves.size()); }

    void run(Finding& found) {
        const int64_t rivals = m_.rivals, trees = r_.trees();
        Doubles mean(trees * rivals, 0.0), variance(rivals, 0.0), given(rivals), size(rivals, 0.0);
        double rough = 0.0;
        for (int64_t t = 0; t < trees; ++t) {
            double most = 0.0;
            for (int64_t i = f_.leaf_start[t]; i < f_.leaf_start[t + 1]; ++i) {
                const Leaf& leaf = f_.leaves[i];
                most = std::max(most, m_.rough[leaf.node]);
                for (int64_t p = 0; p < rivals; ++p)
                    mean[t * rivals + p] += leaf.mass * value(leaf, p);
            }
            rough += most;
            for (int64_t i = f_.leaf_start[t]; i < f_.leaf_start[t + 1]; ++i)
                for (int64_t p = 0; p < rivals; ++p) {
                    const double d = value(f_.leaves[i], p) - mean[t * rivals + p];
                    variance[p] += f_.leaves[i].mass * d * d;
                    size[p] += f_.leaves[i].mass * d * d;
                }
        }
        for (int64_t t = 0; t < trees; ++t)
            for (int64_t i = f_.leaf_start[t]; i < f_.leaf_start[t + 1]; ++i) {
                const Leaf& leaf = f_.leaves[i];
                if (leaf.mass <= 0.0) continue;
                for (size_t k = leaf.first; k < leaf.last; ++k) {
                    lo_[f_.intervals[k].feature] = f_.intervals[k].lo;
                    hi_[f_.intervals[k].feature] = f_.intervals[k].hi;
                }
                for (int64_t u = t + 1; u < trees; ++u) {
                    bool shared = false;
                    for (size_t k = leaf.first; k < leaf.last && !shared; ++k)
                        shared = f_.has[u][f_.intervals[k].feature];
                    if (!shared) continue;
                    std::fill(given.begin(), given.end(), 0.0);
                    walk(static_cast<int32_t>(f_.root[u]), 1.0, given);
                    for (int64_t p = 0; p < rivals; ++p) {
                        const double c = 2 * leaf.mass * (value(leaf, p) - mean[t * rivals + p]) *
                                         (given[p] - mean[u * rivals + p]);
                        variance[p] += c;
                        size[p] += std::abs(c);
                    }
                }
                for (size_t k = leaf.first; k < leaf.last; ++k) {
                    const int32_t a = f_.intervals[k].feature;
                    lo_[a] = 0;
                    hi_[a] = static_cast<int32_t>(g_.sizes[a] - 1);
                }
            }
        double failing = 0.0, high = 1.0;
        for (int64_t p = 0; p < rivals; ++p) {
            double centre = r_.margin[p] + m_.tie[p], scale = std::abs(centre);
            for (int64_t t = 0; t < trees; ++t) {
                centre += mean[t * rivals + p];
                scale += std::abs(mean[t * rivals + p]);
            }
            // sums of so many terms round by far less than this
            const double v = std::max(variance[p], 0.0) + 1e-10 * size[p] + 1e-300;
            const double doubt = r_.slack + rough + 1e-11 * scale;
            const double above = centre - doubt, below = -centre - doubt;
            failing += above > 0.0 ? v / (v + above * above) : 1.0;
            if (below > 0.0) high = std::min(high, v / (v + below * below));
        }
        const double low = std::max(1.0 - failing, 0.0);
        found.work += 6 * steps_ + 20 * leaves() * rivals;
        const bool better = low > found.low + 1e-3 || high < found.high - 1e-3;
        found.low = std::max(found.low, low);
        found.high = std::max(std::min(found.high, high), found.low);
        found.by_moments = better;
        if (better) split(found);
    }

   private:
    double value(const Leaf& leaf, int64_t p) const { return m_.gain[leaf.node * m_.rivals + p]; }

    double mass(int32_t a, int32_t lo, int32_t hi) const {
        const double* below = g_.below.data() + g_.flat[a];
        return std::max(below[hi] - (lo > 0 ? below[lo - 1] : 0.0), 0.0);
    }

    void build() {
        const size_t n = r_.node.size();
        f_.feature.assign(n, -1);
        f_.cut.assign(n, 0);
        f_.left.assign(n, -1);
        f_.right.assign(n, -1);
        f_.node = r_.node;
        for (size_t i = 0; i < n; ++i) {
            const int32_t k = r_.node[i];
            if (m_.nf[k] >= 0) {
                f_.feature[i] = static_cast<int32_t>(g_.name[m_.nf[k]]);
                f_.cut[i] = g_.at(m_, k);
            }
            if (r_.parent[i] >= 0)
                (r_.side[i] == 0 ? f_.left : f_.right)[r_.parent[i]] = static_cast<int32_t>(i);
        }
        for (int64_t t = 0; t < r_.trees(); ++t) {
            f_.root.push_back(r_.begin[t]);
            f_.leaf_start.push_back(leaves());
            f_.has.emplace_back(g_.active(), 0);
            list(static_cast<int32_t>(r_.begin[t]), 1.0, f_.has.back());
        }
        f_.leaf_start.push_back(leaves());
    }

    // The leaves below a node, with their masses and intervals.
    void list(int32_t i, double q, Bytes& has) {
        const int32_t a = f_.feature[i];
        if (a < 0) {
            Leaf leaf{f_.node[i], q, f_.intervals.size(), 0};
            for (int32_t b = 0; b < static_cast<int32_t>(g_.active()); ++b)
                if (lo_[b] > 0 || hi_[b] < g_.sizes[b] - 1) f_.intervals.push_back({b, lo_[b], hi_[b]});
            leaf.last = f_.intervals.size();
            f_.leaves.push_back(leaf);
            return;
        }
        has[a] = 1;
        const int32_t lo = lo_[a], hi = hi_[a], c = f_.cut[i];
        const double whole = mass(a, lo, hi);
        const double share = whole > 0.0 ? mass(a, lo, std::min(c, hi)) / whole : 0.0;
        if (lo <= c) {
            hi_[a] = std::min(hi, c);
            list(f_.left[i], hi <= c ? q : q * share, has);
            hi_[a] = hi;
        }
        if (hi > c) {
            lo_[a] = std::max(lo, c + 1);
            list(f_.right[i], lo > c ? q : q * (1.0 - share), has);
            lo_[a] = lo;
        }
    }

    // Adds the mean of a tree below a node, given the intervals, times q.
    void walk(int32_t i, double q, Doubles& sum) {
        for (;;) {
            ++steps_;
            const int32_t a = f_.feature[i];
            if (a < 0) {
                const double* gain = m_.gain.data() + f_.node[i] * m_.rivals;
                for (int64_t p = 0; p < m_.rivals; ++p) sum[p] += q * gain[p];
                return;
            }
            const int32_t lo = lo_[a], hi = hi_[a], c = f_.cut[i];
            if (hi <= c) {
                i = f_.left[i];
            } else if (lo > c) {
                i = f_.right[i];
            } else {
                const double whole = mass(a, lo, hi);
                const double share = whole > 0.0 ? mass(a, lo, c) / whole : 0.0;
                hi_[a] = c;
                walk(f_.left[i], q * share, sum);
                hi_[a] = hi;
                lo_[a] = c + 1;
                walk(f_.right[i], q * (1.0 - share), sum);
                lo_[a] = lo;
                return;
            }
        }
    }

    // The cut that explains most of the margins' variance, all rivals together.
    void split(Finding& found) const {
        const int64_t cells = g_.flat[g_.active()];
        Doubles effect(cells + 1), most(1, -1.0);
        Doubles explained(cells, 0.0);
        for (int64_t p = 0; p < m_.rivals; ++p) {
            std::fill(effect.begin(), effect.end(), 0.0);  // differences of E[M | cell] - E[M]
            for (const Leaf& leaf : f_.leaves)
                for (size_t k = leaf.first; k < leaf.last; ++k) {
                    const Interval& in = f_.intervals[k];
                    const double own = mass(in.feature, in.lo, in.hi);
                    if (own <= 0.0) continue;
                    const double v = value(leaf, p) * leaf.mass, at = v / own;
                    const int64_t first = g_.flat[in.feature];
                    // v * [cell in it] / mass - v: the part of this leaf that the feature moves
                    effect[first] -= v;
                    effect[first + g_.sizes[in.feature]] += v;
                    effect[first + in.lo] += at;
                    effect[first + in.hi + 1] -= at;
                }
            double now = 0.0;
            for (int64_t a = 0; a < g_.active(); ++a) {
                double under = 0.0;  // integral of the effect below the cut
                for (int64_t c = g_.flat[a]; c < g_.flat[a + 1]; ++c) {
                    now += effect[c];
                    under += now * g_.weight[c];
                    const double q = g_.below[c];
                    if (c < g_.flat[a + 1] - 1 && q > 0.0 && q < 1.0)
                        explained[c] += under * under / (q * (1.0 - q));
                }
            }
        }
        for (int64_t a = 0; a < g_.active(); ++a)
            for (int64_t c = g_.flat[a]; c < g_.flat[a + 1] - 1; ++c)
                if (explained[c] > most[0]) {
                    most[0] = explained[c];
                    found.feature = g_.members[a];
                    found.cut = g_.cut[c];
                }
    }

    const Local& m_;
    const Reached& r_;
    const Merged& g_;
    Forest f_;
    Int32s lo_, hi_;
    int64_t steps_ = 0;
};

}  // namespace

void by_moments(const Local& m, const Reached& r, const Merged& g, Finding& found) {
    Moments(m, r, g).run(found);
}

}  // namespace durometer::probability
