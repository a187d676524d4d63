// What one record's noise can reach: the ensemble cut down to the cells with mass, as score
// differences.
//
// Each feature is clipped at a tail of mass, every tree is followed through the clipped cells, tests
// that are decided vanish, leaves that agree are one leaf, cells that no reachable node separates
// are one cell, and rivals that cannot win are dropped. Trees that cannot move stay as single
// leaves: partial sums need them in the library's order.
#include <limits>

#include "bundle.h"
#include "trees.h"

namespace durometer::probability {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Range {
    Int64s first, last;  // cells of each feature
    double kept = 1.0;
};

Range clip(const Gridded& e, const double* masses, const uint8_t* nan, double tail) {
    Range r;
    r.first.resize(e.features);
    r.last.resize(e.features);
    for (int64_t f = 0; f < e.features; ++f) {
        int64_t a = e.start[f], b = e.start[f + 1] - 1;
        if (!nan[f]) {
            double below = 0.0, above = 0.0;
            while (a < b && below + masses[a] <= tail) below += masses[a++];
            while (b > a && above + masses[b] <= tail) above += masses[b--];
            r.kept *= 1.0 - (below + above);
        }
        r.first[f] = a - e.start[f];
        r.last[f] = b - e.start[f];
    }
    return r;
}

// Do two leaves mean the same for every rival of the label?
bool alike(const Gridded& e, int64_t label, int32_t a, int32_t b) {
    const double *x = e.value + a * e.outputs, *y = e.value + b * e.outputs;
    if (e.outputs == 1) return x[0] == y[0];
    for (int64_t k = 0; k < e.outputs; ++k)
        if (x[label] - x[k] != y[label] - y[k]) return false;
    return true;
}

// Every tree as far as the cells reach; `leaf` is the original leaf of each node kept. Nodes below a
// leaf that stands for two equal ones stay in the arrays; nothing points at them.
void prune(const Gridded& e, const uint8_t* nan, int64_t label, const Range& r, Local& m,
           Int32s& leaf) {
    struct Todo {
        int32_t node, parent;
        int side;
    };
    std::vector<Todo> stack;
    Int32s up;
    for (int64_t t = 0; t < e.trees; ++t) {
        const int32_t begin = static_cast<int32_t>(m.nf.size());
        stack.push_back({e.roots[t], -1, 0});
        while (!stack.empty()) {
            const Todo todo = stack.back();
            stack.pop_back();
            int32_t g = todo.node;
            while (e.feature[g] >= 0) {
                const int32_t f = e.feature[g];
                if (nan[f]) {
                    g = e.missing_left[g] ? e.left[g] : e.right[g];
                    continue;
                }
                int64_t lo = r.first[f], hi = r.last[f];
                int32_t node = todo.parent;
                int side = todo.side;
                while (node >= 0) {  // what the path already says about f
                    if (m.nf[node] == f) {
                        if (side == 0)
                            hi = std::min<int64_t>(hi, m.nc[node]);
                        else
                            lo = std::max<int64_t>(lo, m.nc[node] + 1);
                    }
                    const int32_t above = up[node];
                    if (above >= 0) side = m.nl[above] == node ? 0 : 1;
                    node = above;
                }
                if (hi <= e.cell[g])
                    g = e.left[g];
                else if (lo > e.cell[g])
                    g = e.right[g];
                else
                    break;
            }
            const int32_t me = static_cast<int32_t>(m.nf.size());
            up.push_back(todo.parent);
            if (todo.parent >= 0) (todo.side == 0 ? m.nl : m.nr)[todo.parent] = me;
            m.nf.push_back(e.feature[g]);
            m.nc.push_back(e.cell[g]);
            m.nl.push_back(-1);
            m.nr.push_back(-1);
            leaf.push_back(g);
            if (e.feature[g] >= 0) {
                stack.push_back({e.right[g], me, 1});
                stack.push_back({e.left[g], me, 0});
            }
        }
        for (int32_t k = static_cast<int32_t>(m.nf.size()) - 1; k >= begin; --k) {
            if (m.nf[k] < 0 || m.nf[m.nl[k]] >= 0 || m.nf[m.nr[k]] >= 0) continue;
            const int32_t a = leaf[m.nl[k]], b = leaf[m.nr[k]];
            if (alike(e, label, a, b)) {
                leaf[k] = e.rough[a] > 0.0 ? a : b;
                m.nf[k] = -1;
            }
        }
        m.roots.push_back(begin);
        if (m.nf[begin] < 0) {
            for (Int32s* a : {&m.nf, &m.nc, &m.nl, &m.nr, &leaf, &up}) a->resize(begin + 1);
        }
    }
}

// Local features and cells: what no reachable node separates is one cell.
void merge(const Gridded& e, const double* masses, const Range& r, const Bytes& used, Local& m) {
    Int64s name(e.features, -1), cut(e.start[e.features], -1);
    for (int64_t f = 0; f < e.features; ++f) {
        int64_t n = 0;
        for (int64_t j = r.first[f]; j < r.last[f]; ++j)
            if (used[e.start[f] + j]) cut[e.start[f] + j] = n++;
        if (n == 0) continue;
        name[f] = static_cast<int64_t>(m.original.size());
        m.original.push_back(f);
        m.start.push_back(static_cast<int64_t>(m.mass.size()));
        double whole = 0.0;
        bool open = false;
        for (int64_t j = r.first[f]; j <= r.last[f]; ++j) {
            const int64_t cell = e.start[f] + j;
            if (!open) {
                m.mass.push_back(0.0);
                m.seen.push_back(0);
                open = true;
            }
            m.mass.back() += masses[cell];
            m.seen.back() = cell;
            whole += masses[cell];
            if (used[cell]) open = false;
        }
        for (size_t j = m.start.back(); j < m.mass.size(); ++j) m.mass[j] /= whole;
    }
    m.start.push_back(static_cast<int64_t>(m.mass.size()));
    for (size_t k = 0; k < m.nf.size(); ++k)
        if (m.nf[k] >= 0) {
            m.nc[k] = static_cast<int32_t>(cut[e.start[m.nf[k]] + m.nc[k]]);
            m.nf[k] = static_cast<int32_t>(name[m.nf[k]]);
        }
}

}  // namespace

Local localise(const Gridded& e, const double* masses, const uint8_t* nan, int64_t label,
               double tail) {
    Local m;
    const Range r = clip(e, masses, nan, tail);
    m.kept = r.kept;
    m.first = r.first;
    m.slack = e.slack;
    m.unit = e.unit;
    // with one output the rival is the other class, else every other class
    const bool one = e.outputs == 1;
    const double sign = label == 1 ? 1.0 : -1.0;
    Int64s other;
    Doubles margin;
    if (one) {
        other.push_back(1 - label);
        margin.push_back(sign * (e.base[0] - e.cut));
    } else {
        for (int64_t k = 0; k < e.outputs; ++k)
            if (k != label) {
                other.push_back(k);
                margin.push_back(e.base[label] - e.base[k]);
            }
    }
    const int64_t all = static_cast<int64_t>(other.size());
    Int32s leaf;
    prune(e, nan, label, r, m, leaf);
    const int64_t count = static_cast<int64_t>(m.nf.size());
    bool moving = false;
    for (int32_t root : m.roots) moving = moving || m.nf[root] >= 0;

    Doubles gain(count * all, 0.0), low = margin, high = margin, least(all), most(all);
    m.rough.assign(count, 0.0);
    Bytes used(e.start[e.features], 0), alive(count, 0);
    for (int64_t t = 0; t < e.trees; ++t) {
        const int64_t a = m.roots[t], b = t + 1 < e.trees ? m.roots[t + 1] : count;
        alive[a] = 1;
        std::fill(least.begin(), least.end(), kInf);
        std::fill(most.begin(), most.end(), -kInf);
        for (int64_t k = a; k < b; ++k) {
            if (!alive[k]) continue;
            if (m.nf[k] >= 0) {
                alive[m.nl[k]] = alive[m.nr[k]] = 1;
                used[e.start[m.nf[k]] + m.nc[k]] = 1;
                continue;
            }
            const double* value = e.value + static_cast<int64_t>(leaf[k]) * e.outputs;
            m.rough[k] = e.rough[leaf[k]];
            for (int64_t p = 0; p < all; ++p) {
                const double v = one ? sign * value[0] : value[label] - value[other[p]];
                gain[k * all + p] = v;
                least[p] = std::min(least[p], v);
                most[p] = std::max(most[p], v);
            }
        }
        for (int64_t p = 0; p < all; ++p) {
            low[p] += least[p];
            high[p] += most[p];
        }
    }
    const double slack = e.slack + e.widest;
    m.status = kYes;
    Int64s keep;
    for (int64_t p = 0; p < all; ++p) {
        if (high[p] < -slack) m.status = kNo;
        if (!(low[p] > slack)) {
            keep.push_back(p);
            if (m.status == kYes) m.status = kOpen;
        }
    }
    if (!moving && m.status == kOpen) m.status = kCell;  // the original model must decide

    m.rivals = static_cast<int64_t>(keep.size());
    m.gain.resize(count * m.rivals);
    for (int64_t q = 0; q < m.rivals; ++q) {
        const int64_t p = keep[q];
        for (int64_t k = 0; k < count; ++k) m.gain[k * m.rivals + q] = gain[k * all + p];
        m.base.push_back(margin[p]);
        m.rival.push_back(other[p]);
        // argmax takes the lowest class; a single score means class 1 only above the decision
        const bool wins = one ? label == 0 : other[p] > label;
        m.tie.push_back(wins ? e.tie : -e.tie);
    }
    merge(e, masses, r, used, m);
    return m;
}

}  // namespace durometer::probability

// One record's part of the ensemble, as a bundle of arrays.
DUROMETER_KERNEL(localise)(const durometer::probability::Gridded* e, int64_t cells, int64_t features,
                       const double* masses, const uint8_t* nan, int64_t label, double tail,
                       int64_t* handle) {
    (void)cells, (void)features;
    return durometer::guarded([&] {
        const durometer::probability::Local m = durometer::probability::localise(*e, masses, nan, label, tail);
        auto* found = new durometer::Bundle;
        *handle = reinterpret_cast<int64_t>(found);
        found->add(durometer::probability::Int64s{m.status, m.rivals});
        found->add(durometer::probability::Doubles{m.kept});
        for (const auto* a : {&m.nf, &m.nc, &m.nl, &m.nr, &m.roots}) found->add(*a);
        for (const auto* a : {&m.gain, &m.base, &m.mass}) found->add(*a);
        for (const auto* a : {&m.start, &m.seen, &m.original, &m.first, &m.rival}) found->add(*a);
    });
}
