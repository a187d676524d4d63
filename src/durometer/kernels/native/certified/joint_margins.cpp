// Margins of all joint cells of some features, from the trees that ask about them alone.
//
// A leaf is a product of intervals, so it enters the table as differences: signed corners along all
// features but the first, a stretch along the first, whose cells are next to each other in memory.
// Summing up feature by feature then gives every cell's margin: a few additions per cell however many
// trees there are, all of them on neighbours.
#include "certified/boxes.h"

namespace durometer::probability {
namespace {

DUROMETER_WIDE void add(double* to, const double* what, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j] += what[j];
}

DUROMETER_WIDE void times(double* to, const double* what, double by, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j] = what[j] * by;
}

void sum_along(double* table, int64_t joint, int64_t stride, int64_t size) {
    const int64_t block = stride * size;
    for (int64_t start = 0; start < joint; start += block)
        for (int64_t at = start + stride; at < start + block; at += stride)
            add(table + at, table + at - stride, stride);
}

}  // namespace

int64_t joint_margins(const Local& m, const Reached& r, const Merged& g, const Int64s& mine,
                      const Int64s& order, int64_t rivals, Doubles& table, Doubles& error) {
    const int64_t active = g.active();
    const bool doubt = !error.empty();
    Int64s stride(active, 0);
    int64_t joint = 1;
    for (int64_t a : order) {
        stride[a] = joint;
        joint *= g.sizes[a];
    }
    const int64_t inner = order[0];
    Int32s lo, hi;
    Int64s corner;
    Doubles sign;
    int64_t work = 0;
    for (int64_t t : mine) {
        const int64_t begin = r.begin[t], end = r.begin[t + 1];
        lo.resize((end - begin) * active);
        hi.resize((end - begin) * active);
        for (int64_t i = begin; i < end; ++i) {
            int32_t *from = lo.data() + (i - begin) * active, *to = hi.data() + (i - begin) * active;
            if (i == begin) {
                for (int64_t a : order) {
                    from[a] = 0;
                    to[a] = static_cast<int32_t>(g.sizes[a] - 1);
                }
            } else {
                const int64_t above = (r.parent[i] - begin) * active;
                for (int64_t a : order) {
                    from[a] = lo[above + a];
                    to[a] = hi[above + a];
                }
                const int32_t node = r.node[r.parent[i]];
                const int64_t a = g.name[m.nf[node]];
                const int32_t c = g.at(m, node);
                if (r.side[i] == 0)
                    to[a] = std::min(to[a], c);
                else
                    from[a] = std::max(from[a], c + 1);
            }
            const int32_t leaf = r.node[i];
            if (m.nf[leaf] >= 0) continue;
            corner.assign(1, 0);
            sign.assign(1, 1.0);
            for (size_t o = 1; o < order.size(); ++o) {
                const int64_t a = order[o];
                const size_t n = corner.size();
                if (to[a] < g.sizes[a] - 1)
                    for (size_t c = 0; c < n; ++c) {
                        corner.push_back(corner[c] + (to[a] + 1) * stride[a]);
                        sign.push_back(-sign[c]);
                    }
                if (from[a] > 0)
                    for (size_t c = 0; c < n; ++c) corner[c] += from[a] * stride[a];
            }
            const int64_t first = from[inner], last = to[inner];
            for (size_t c = 0; c < corner.size(); ++c) {
                for (int64_t p = 0; p < rivals; ++p) {
                    const double v = sign[c] * m.gain[leaf * m.rivals + p];
                    double* row = table.data() + p * joint + corner[c];
                    for (int64_t j = first; j <= last; ++j) row[j] += v;
                }
                if (doubt && m.rough[leaf] > 0.0) {
                    const double v = sign[c] * m.rough[leaf];
                    for (int64_t j = first; j <= last; ++j) error[corner[c] + j] += v;
                }
            }
            work += static_cast<int64_t>(corner.size()) * (4 + (last - first) / 4);
        }
    }
    for (size_t o = 1; o < order.size(); ++o) {
        const int64_t a = order[o];
        for (int64_t p = 0; p < rivals; ++p)
            sum_along(table.data() + p * joint, joint, stride[a], g.sizes[a]);
        if (doubt) sum_along(error.data(), joint, stride[a], g.sizes[a]);
    }
    return work + joint * (rivals + doubt) * static_cast<int64_t>(order.size() + 2) / 4;
}

Doubles joint_chances(const Merged& g, const Int64s& order) {
    int64_t joint = 1;
    for (int64_t a : order) joint *= g.sizes[a];
    Doubles chance(joint);
    chance[0] = 1.0;
    int64_t n = 1;
    for (int64_t a : order) {
        for (int64_t c = g.sizes[a] - 1; c >= 0; --c)  // the first block is overwritten last
            times(chance.data() + c * n, chance.data(), g.weight[g.flat[a] + c], n);
        n *= g.sizes[a];
    }
    return chance;
}

bool doubtful(const Local& m, const Reached& r) {
    for (int32_t k : r.node)
        if (m.nf[k] < 0 && m.rough[k] > 0.0) return true;
    return false;
}

}  // namespace durometer::probability
