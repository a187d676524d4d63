// Certified bounds for a batch of records: localise, search, name the cells that are too close to call;
// then, if asked, draw from the boxes that stay open.
#include <cmath>

#include "certified/branch_and_bound.h"
#include "bundle.h"
#include "splitmix.h"

using namespace durometer;
using namespace durometer::probability;

namespace {

// The same fields in the same order as `ASKED` in certified/bounds.py.
struct Asked {
    double tail, tolerance;
    int64_t budget, widest, bins, listed, crossed, draws;
};

struct Answer {
    int64_t rows;
    double *low, *high;      // given the mass that is kept, before ties
    double *floor, *ceiling;  // the same from a second search, ties left undecided
    double *sure_low, *sure_high, *open, *kept;
    int64_t *status, *work, *hits;
};

// What Python must ask the library: cells as flat original cells per feature.
struct Doubts {
    Int64s cells;
    Doubles mass;  // of ties
    int64_t ties = 0, drawn = 0;
};

void name(const Gridded& e, const Local& m, const Int32s& cell, Doubts& d) {
    const size_t at = d.cells.size();
    for (int64_t f = 0; f < e.features; ++f) d.cells.push_back(e.start[f] + m.first[f]);
    for (size_t f = 0; f < cell.size(); ++f)
        d.cells[at + m.original[f]] = m.seen[m.start[f] + cell[f]];
}

// Does the label win in this cell? kOpen if rounding decides.
State decide(const Local& m, const Int32s& cell) {
    State all = kYes;
    for (int64_t p = 0; p < m.rivals; ++p) {
        double sum = m.base[p], doubt = m.slack;
        for (int32_t k : m.roots) {
            while (m.nf[k] >= 0) k = cell[m.nf[k]] <= m.nc[k] ? m.nl[k] : m.nr[k];
            sum += m.gain[k * m.rivals + p];
            doubt += m.rough[k] + m.unit * std::abs(sum);
        }
        if (sum + m.tie[p] < -doubt) return kNo;
        if (!(sum + m.tie[p] > doubt)) all = kOpen;
    }
    return all;
}

// Cells of the open boxes, boxes by mass; returns how many surely keep the label.
int64_t draw(const Gridded& e, const Local& m, const std::vector<OpenBox>& open, int64_t draws,
             uint64_t word, Doubts& d) {
    SplitMix random{word};
    Doubles upto;
    double whole = 0.0;
    for (const OpenBox& box : open) upto.push_back(whole += box.mass);
    Doubles below(m.mass.size());  // masses up to each cell
    for (int64_t f = 0; f < m.features(); ++f) {
        double sum = 0.0;
        for (int64_t j = m.start[f]; j < m.start[f + 1]; ++j) below[j] = sum += m.mass[j];
    }
    Int32s cell(m.features());
    int64_t hits = 0;
    for (int64_t i = 0; i < draws; ++i) {
        const size_t b = std::min<size_t>(
            std::upper_bound(upto.begin(), upto.end(), random.uniform() * whole) - upto.begin(),
            upto.size() - 1);
        for (int64_t f = 0; f < m.features(); ++f) {
            const double* sums = below.data() + m.start[f];
            const int32_t lo = open[b].lo[f], hi = open[b].hi[f];
            const double from = lo > 0 ? sums[lo - 1] : 0.0;
            const double at = from + random.uniform() * (sums[hi] - from);
            const auto c =
                static_cast<int32_t>(std::upper_bound(sums + lo, sums + hi, at) - sums);
            cell[f] = std::min(c, hi);
        }
        const State state = decide(m, cell);
        hits += state == kYes;
        if (state == kOpen) {
            name(e, m, cell, d);
            ++d.drawn;
        }
    }
    return hits;
}

}  // namespace

DUROMETER_KERNEL(certified_bounds)(const Gridded* e, const Asked* asked, const Answer* answer,
                               int64_t cells, int64_t features, int64_t threads,
                               const double* masses, const uint8_t* nan, const int64_t* label,
                               const uint64_t* word, const int64_t* stop, int64_t* handle) {
    return guarded([&] {
        const int64_t rows = answer->rows;
        std::vector<Doubts> doubts(rows);
        const Limits limits{asked->widest, asked->bins, asked->listed, asked->crossed};
        each_row(rows, threads, [&](int64_t i) {
            const Local m =
                localise(*e, masses + i * cells, nan + i * features, label[i], asked->tail);
            Doubts& d = doubts[i];
            answer->kept[i] = m.kept;
            answer->status[i] = m.status;
            answer->work[i] = static_cast<int64_t>(m.nf.size());
            answer->low[i] = answer->high[i] = m.status == kYes ? 1.0 : 0.0;
            answer->open[i] = answer->floor[i] = 0.0;
            answer->ceiling[i] = 1.0;
            if (m.status == kCell) {
                answer->high[i] = 1.0;
                d.mass.push_back(1.0);
                name(*e, m, {}, d);
            } else if (m.status == kOpen) {
                const double tolerance = 0.8 * asked->tolerance;
                const Searched s = search(m, tolerance, asked->budget, limits, false, stop);
                answer->low[i] = s.low;
                answer->high[i] = s.high;
                answer->sure_low[i] = s.sure_low;
                answer->sure_high[i] = s.sure_high;
                answer->work[i] = s.work;
                if (s.high - s.low > kHopeless && !asked->draws) {
                    // tables got stuck: what is left of the budget goes to moments, one look at least
                    const int64_t left = std::max<int64_t>(asked->budget - s.work, 1);
                    const Searched t = search(m, tolerance, left, limits, true, stop);
                    answer->floor[i] = t.low;
                    answer->ceiling[i] = t.high;
                    answer->work[i] += t.work;
                }
                for (const Tied& t : s.tied) {
                    d.mass.push_back(t.mass);
                    name(*e, m, t.cell, d);
                }
                if (asked->draws > 0 && s.high - s.low > asked->tolerance && !s.open.empty()) {
                    for (const OpenBox& box : s.open) answer->open[i] += box.mass;
                    answer->hits[i] = draw(*e, m, s.open, asked->draws, word[i], d);
                }
            }
            d.ties = static_cast<int64_t>(d.mass.size());
        });
        Int64s ties, drawn, all;
        Doubles mass;
        for (const Doubts& d : doubts) {
            ties.push_back(d.ties);
            drawn.push_back(d.drawn);
            mass.insert(mass.end(), d.mass.begin(), d.mass.end());
            all.insert(all.end(), d.cells.begin(), d.cells.end());
        }
        auto* bundle = new Bundle;
        bundle->add(ties);
        bundle->add(drawn);
        bundle->add(mass);
        bundle->add(all);
        *handle = reinterpret_cast<int64_t>(bundle);
    });
}
