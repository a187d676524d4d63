// The region of each row as the exact search sees it: an outer box that holds every valid value, an
// inner one that points are built in, and constraints that are sums of functions of one feature,
//
//     sum_i a_i phi_i(x_f(i)) <= b        phi: x, log x, |x - x0|, (x - x0)^2, 1[x outside a set]
//
// each with an outer and an inner bound b. Proofs use the outer, points the inner ones: rounding
// and tolerances then never turn a valid point into a proof, nor an invalid one into a break.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace durometer {

constexpr double kInf = std::numeric_limits<double>::infinity();

enum Kind : int32_t { kReal = 0, kWhole = 1, kCodes = 2, kSingle = 3 };
enum Phi : int32_t { kLinear = 0, kLog = 1, kAbsolute = 2, kSquare = 3, kOutside = 4 };

struct Domain {
    int64_t rows, features, constraints, terms, intervals, codes, cuts;
    const double* x0;       // (rows, features)
    const double* low;      // outer box
    const double* high;
    const double* low_in;   // inner box
    const double* high_in;
    const int32_t* kind;    // (features,)
    const int64_t* code_start;  // (features + 1,) into `code`: the values of a category
    const double* code;
    const int64_t* cut_start;  // (features + 1,) into `cut`: sorted thresholds of all trees
    const double* cut;
    const int64_t* term_start;  // (constraints + 1,)
    const int32_t* term_feature;
    const int32_t* term_phi;
    const int64_t* set_start;  // (terms + 1,) into the second axis of `sets`
    const double* coefficient;  // (rows, terms)
    const double* sets;  // (rows, intervals, 4): low and high of an outer, then of an inner interval
    const double* bound;     // (rows, constraints) outer
    const double* bound_in;  // (rows, constraints)
};

// One term of one row.
struct Term {
    int32_t feature, phi;
    double a, x0;
    const double* set;  // (count, 4)
    int64_t count;

    bool in_set(double low, double high, bool inner) const {  // does some interval meet [low, high]?
        for (int64_t i = 0; i < count; ++i) {
            const double* s = set + 4 * i + (inner ? 2 : 0);
            if (s[0] <= high && low <= s[1]) return true;
        }
        return false;
    }

    // The value at a point, by the inner sets.
    double at(double x) const {
        if (a == 0) return 0.0;  // also where x is missing
        switch (phi) {
            case kLinear: return a * x;
            case kLog: return x > 0 ? a * std::log(x) : kInf;
            case kAbsolute: return a * std::fabs(x - x0);
            case kSquare: return a * (x - x0) * (x - x0);
            default: return in_set(x, x, true) ? 0.0 : a;
        }
    }

    // The smallest value on [low, high], by the outer sets. Distances and sets have a >= 0.
    double least(double low, double high) const {
        switch (phi) {
            case kLinear: return a == 0 ? 0.0 : a > 0 ? a * low : a * high;
            case kLog: return a > 0 ? a * std::log(std::max(low, 0.0)) : a * std::log(high);
            case kAbsolute:
            case kSquare: {
                const double d = std::max({low - x0, x0 - high, 0.0});
                return phi == kAbsolute ? a * d : a * d * d;
            }
            default: return in_set(low, high, false) ? 0.0 : a;
        }
    }

    // The point of [low, high] nearest to `from` that lowers this term by `need`, or as far as it
    // goes. Sets: into the nearest inner interval.
    double lowered(double from, double need, double low, double high) const {
        double to = from;
        switch (phi) {
            case kLinear: to = a == 0 ? from : from - need / a; break;
            case kLog: to = from * std::exp(-need / a); break;
            case kAbsolute:
            case kSquare: {
                const double size = std::fabs(from - x0);
                double left = phi == kAbsolute ? size - need / a
                                               : std::sqrt(std::max(0.0, size * size - need / a));
                left = std::max(0.0, left);
                to = x0 + std::copysign(left, from - x0);
                break;
            }
            default: {
                double best = kInf;
                for (int64_t i = 0; i < count; ++i) {
                    const double lo = std::max(low, set[4 * i + 2]);
                    const double hi = std::min(high, set[4 * i + 3]);
                    if (lo > hi) continue;
                    const double x = std::min(std::max(from, lo), hi);
                    if (std::fabs(x - from) < best) best = std::fabs(x - from), to = x;
                }
            }
        }
        return std::min(std::max(to, low), high);
    }

    // Which way a whole number must be rounded so that the term does not grow: -1 down, +1 up.
    int way(double x) const {
        if (phi == kLinear || phi == kLog) return a > 0 ? -1 : 1;
        if (phi == kOutside) return 0;
        return x > x0 ? -1 : 1;
    }
};

}  // namespace durometer
