// Is there a valid point in a box of cells? The trees do not matter here, only the
// constraints: bounds are tightened, a point is tried, and the widest feature is halved.
#pragma once

#include "proofs/certificate.h"
#include "proofs/point.h"

namespace durometer {

enum class Fit { kNone, kFound, kUnknown };

class Fitting {
   public:
    std::vector<double> x;

    explicit Fitting(const Cells& c) : x(c.x0, c.x0 + c.F), cells_(c) {}

    // Some valid point of these cells; at most `limit` parts of them are looked at.
    Fit run(const Box& cells, int limit, Certificate& certificate, int32_t id) {
        std::vector<Sides> stack(1);
        stack[0].id = id;
        for (int64_t f = 0; f < cells_.F; ++f) {
            stack[0].low.push_back(cells_.low[cells_.start[f] + cells.low[f]]);
            stack[0].high.push_back(cells_.high[cells_.start[f] + cells.high[f]]);
        }
        bool unsure = false;
        for (; !stack.empty(); --limit) {
            if (limit == 0) return Fit::kUnknown;
            Sides box = std::move(stack.back());
            stack.pop_back();
            if (!tighten(box)) {
                certificate.close(box.id, kNoRoom);
                continue;
            }
            int64_t f = -1;
            if (attempt(box, f)) return Fit::kFound;
            if (f < 0) {
                unsure = true;  // in the outer region, and not in the inner one
                continue;
            }
            const int32_t kind = cells_.domain.kind[f];
            const double middle = Cells::floor_to(kind, 0.5 * (box.low[f] + box.high[f]));
            Sides upper = box;
            box.id = certificate.cut(box.id, static_cast<int32_t>(f), middle), upper.id = box.id + 1;
            box.high[f] = middle, upper.low[f] = Cells::after(kind, middle);
            stack.push_back(std::move(upper));
            stack.push_back(std::move(box));
        }
        return unsure ? Fit::kUnknown : Fit::kNone;
    }

   private:
    struct Sides {
        std::vector<double> low, high;
        int32_t id = 0;
    };
    const Cells& cells_;

    bool tighten(Sides& box) const {
        for (int round = 0; round < 10; ++round) {
            bool changed = false;
            for (size_t r = 0; r < cells_.bound.size(); ++r) {
                const int64_t from = cells_.term_start[r], to = cells_.term_start[r + 1];
                double sum = 0.0;
                for (int64_t t = from; t < to; ++t) sum += least(t, box);
                if (!std::isfinite(sum)) continue;
                const double rounding = 1e-11 * (std::fabs(cells_.bound[r]) + std::fabs(sum));
                const double room = cells_.bound[r] - sum + rounding;
                if (room < 0) return false;
                for (int64_t t = from; t < to; ++t) {
                    if (!shrink(cells_.terms[t], least(t, box) + room, box, changed)) return false;
                }
            }
            if (!changed) break;
        }
        return true;
    }

    double least(int64_t t, const Sides& box) const {
        const Term& term = cells_.terms[t];
        return term.a == 0 ? 0.0 : term.least(box.low[term.feature], box.high[term.feature]);
    }

    // The values of the term's feature with term <= limit; false if there are none.
    bool shrink(const Term& term, double limit, Sides& box, bool& changed) const {
        if (term.a == 0 || term.phi == kOutside) return true;
        double &low = box.low[term.feature], &high = box.high[term.feature];
        if (low == high) return true;
        const double was_low = low, was_high = high, q = limit / term.a;
        if (term.phi == kLinear || term.phi == kLog) {
            const double edge = term.phi == kLinear ? q : std::exp(q);
            if (term.a > 0)
                high = std::min(high, edge + 1e-11 * std::fabs(edge));
            else
                low = std::max(low, edge - 1e-11 * std::fabs(edge));
        } else {
            const double d = (term.phi == kAbsolute ? q : std::sqrt(std::max(q, 0.0))) * (1 + 1e-11);
            low = std::max(low, term.x0 - d), high = std::min(high, term.x0 + d);
        }
        const int32_t kind = cells_.domain.kind[term.feature];
        if (kind == kWhole) low = std::ceil(low - 1e-9), high = std::floor(high + 1e-9);
        low = std::max(low, was_low), high = std::min(high, was_high);
        if (low > high) return false;
        changed |= was_high - was_low - (high - low) > 1e-3 * (was_high - was_low);
        return true;
    }

    // The nearest point of the box, or its middle, repaired; else the feature to halve, -1: none.
    bool attempt(const Sides& box, int64_t& split) {
        std::vector<double> low(cells_.F), high(cells_.F);
        for (int64_t f = 0; f < cells_.F; ++f) {
            low[f] = std::max(box.low[f], cells_.low_in[f]);
            high[f] = std::min(box.high[f], cells_.high_in[f]);
            if (low[f] > high[f]) low[f] = high[f] = box.low[f];  // no inner value: fails below
        }
        for (bool middle : {false, true}) {
            for (int64_t f = 0; f < cells_.F; ++f)
                if (!std::isnan(cells_.x0[f])) x[f] = start(f, low[f], high[f], middle);
            if (repaired(low, high)) return inside();
        }
        double widest = 1e-12;
        for (size_t r = 0; r < cells_.bound_in.size(); ++r) {
            if (excess_of(r) <= 0) continue;
            for (int64_t t = cells_.term_start[r]; t < cells_.term_start[r + 1]; ++t) {
                const int32_t f = cells_.terms[t].feature;
                if (cells_.terms[t].a == 0 || box.low[f] == box.high[f]) continue;
                const double wide = (box.high[f] - box.low[f]) * std::fabs(cells_.terms[t].a) * cells_.scale[r];
                if (wide > widest || split < 0) widest = wide, split = f;
            }
        }
        return false;
    }

    double start(int64_t f, double low, double high, bool middle) const {
        if (!middle) return std::min(std::max(cells_.x0[f], low), high);
        const double at = Cells::floor_to(cells_.domain.kind[f], 0.5 * (low + high));
        return std::min(std::max(at, low), high);
    }

    // Constraint after constraint, until all hold in their inner form.
    bool repaired(const std::vector<double>& low, const std::vector<double>& high) {
        for (int round = 0; round < 8; ++round) {
            bool fine = true;
            for (size_t r = 0; r < cells_.bound_in.size(); ++r) {
                double excess = excess_of(r);
                if (excess <= 0) continue;
                fine = false;
                // To and fro, or two constraints would push one feature back and forth for ever.
                const int64_t from = cells_.term_start[r], to = cells_.term_start[r + 1];
                for (int64_t i = from; i < to && excess > 0; ++i) {
                    const Term& term = cells_.terms[round % 2 == 0 ? i : from + to - 1 - i];
                    const int32_t f = term.feature;
                    excess -= cells_.lower(term, excess * (1 + 1e-12), low[f], high[f], x[f]);
                }
            }
            if (fine) return true;
        }
        return false;
    }

    double excess_of(size_t r) const {
        double sum = -cells_.bound_in[r];
        for (int64_t t = cells_.term_start[r]; t < cells_.term_start[r + 1]; ++t)
            sum += cells_.terms[t].at(x[cells_.terms[t].feature]);
        return sum;
    }

    bool inside() const {
        for (int64_t f = 0; f < cells_.F; ++f)
            if (x[f] < cells_.low_in[f] || x[f] > cells_.high_in[f]) return false;
        return true;
    }
};

}  // namespace durometer
