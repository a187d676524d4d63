// Records moved, one by one, until their linear relations hold as far as they can (relations/balance.py).
//
// Each repair must see the ones before it, so a record goes from relation to relation; a relation
// is looked at again once a feature that it names has moved.
#include <cmath>
#include <limits>

#include "kernel.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSweeps = 20;  // over the relations whose features have moved; most rows need two or three
constexpr int64_t kStubborn = 4;
constexpr int64_t kBlock = 64;  // rows that share their scratch

// Clauses of linear branches: sum_i weight_i * x[place_i] + start <= or == 0. The same fields in the
// same order as `CLAUSES` in relations/balance.py.
struct Clauses {
    int64_t clause_ends, branch_ends, term_count, branch_count, feature_ends, naming_count;
    const int64_t* clauses;   // (clauses + 1,) first branch of each clause
    const int64_t* branches;  // (branches + 1,) first term of each branch
    const int64_t* places;    // (terms,) positions in the record
    const double* weights;
    const uint8_t* past;    // the value in the clean record
    const double* starts;   // (branches,)
    const uint8_t* both;    // equality
    const double* goals;    // how far below 0 a strict inequality must get
    const double* slacks;   // the relation's own tolerance, or NaN
    const uint8_t* exact;   // only whole numbers occur
    const double* norms;    // what the sum changes by when its features cross their ranges
    const double* shares;   // (terms,) (weight * width)^2, little for features of several relations
    const uint8_t* free;
    const uint8_t* whole;
    const int64_t* named;   // (features + 1,) first entry in `naming` of each feature
    const int64_t* naming;  // clauses in which each feature occurs
};

struct Record {
    double* x;
    const double *x0, *low, *high;
};

struct Scratch {
    std::vector<double> room, take, excess;
    std::vector<uint8_t> waiting;
};

// How much the branch must fall (an equality: change); 0 where it holds.
double excess(const Clauses& c, const Record& r, int64_t b, double tolerance) {
    double value = c.starts[b], size = std::min(1.0, c.norms[b]);
    for (int64_t t = c.branches[b]; t < c.branches[b + 1]; ++t) {
        const double term = c.weights[t] * (c.past[t] ? r.x0 : r.x)[c.places[t]];
        value += term;
        size = std::max(size, std::fabs(term));
    }
    // Half the tolerance of the check: what is repaired must hold beyond doubt.
    double slack = 0.5 * tolerance * size;
    if (c.exact[b]) slack = std::min(slack, 0.4);
    if (!std::isnan(c.slacks[b])) slack = 0.99 * c.slacks[b];
    if (c.goals[b] > 0) {
        const double over = value + std::max(c.goals[b], 4 * slack);
        return over > 0 ? over : 0.0;
    }
    return (c.both[b] ? std::fabs(value) : value) > slack ? value : 0.0;
}

double whole_units(double amount, double weight) { return std::floor(amount / weight + 1e-9) * weight; }

// Take `amount` off the sum; false, and nothing changed, where there is no room for it.
bool spread(const Clauses& c, const Record& r, int64_t b, double amount, Scratch& s) {
    const int64_t first = c.branches[b], terms = c.branches[b + 1] - first;
    const int64_t* place = c.places + first;
    const double *weight = c.weights + first, *share = c.shares + first;
    const uint8_t* whole = c.whole + first;
    double *room = s.room.data(), *take = s.take.data();
    const double need = std::fabs(amount);
    double total = 0.0;
    for (int64_t i = 0; i < terms; ++i) {
        double gap = 0.0;
        if (c.free[first + i]) {
            const int64_t p = place[i];
            gap = weight[i] * amount > 0 ? r.x[p] - r.low[p] : r.high[p] - r.x[p];
            gap = std::max(gap, 0.0);
            if (whole[i]) gap = std::floor(gap + 1e-9);
        }
        room[i] = gap * std::fabs(weight[i]);
        take[i] = 0.0;
        total += room[i];
    }
    if (total < need * (1 - 1e-12)) return false;
    double left = need;
    for (int64_t round = 0; round < 30; ++round) {
        double shares = 0.0;
        for (int64_t i = 0; i < terms; ++i)
            if (take[i] < room[i]) shares += share[i];
        if (shares <= 0 || left <= 1e-12 * need) break;
        const double factor = left / shares;
        left = need;
        for (int64_t i = 0; i < terms; ++i) {
            if (take[i] < room[i]) take[i] = std::min(room[i], take[i] + factor * share[i]);
            left -= take[i];
        }
    }
    left = need;
    for (int64_t i = 0; i < terms; ++i) {
        if (whole[i]) take[i] = whole_units(take[i], std::fabs(weight[i]));
        left -= take[i];
    }
    // What flooring left over: real features take any part, then whole ones whole units.
    for (const bool units : {false, true})
        for (int64_t i = 0; i < terms; ++i)
            if (left > 0 && (whole[i] != 0) == units) {
                double more = std::min(left, room[i] - take[i]);
                if (units) more = whole_units(more, std::fabs(weight[i]));
                take[i] += more;
                left -= more;
            }
    for (int64_t i = 0; i < terms; ++i) {
        double change = take[i] / std::fabs(weight[i]);
        if (!(change > 0)) continue;
        if (whole[i]) change = std::nearbyint(change);
        r.x[place[i]] += weight[i] * amount > 0 ? -change : change;
    }
    return true;
}

// One clause: the cheapest branch that has room, unless one holds. -1: none was moved.
int64_t repair(const Clauses& c, const Record& r, int64_t clause, bool stubborn, double tolerance,
               Scratch& s) {
    const int64_t first = c.clauses[clause], last = c.clauses[clause + 1];
    for (int64_t b = first; b < last; ++b) {
        s.excess[b] = excess(c, r, b, tolerance);
        if (s.excess[b] == 0.0) return -1;
    }
    for (int64_t tries = first; tries < last; ++tries) {
        int64_t best = first;
        double least = kInfinity;
        for (int64_t b = first; b < last; ++b) {
            double cost = std::fabs(s.excess[b]) / c.norms[b];
            if (stubborn && cost < kInfinity) cost = -cost;  // the cheap way was undone by others: now the other one
            if (cost < least) {
                best = b;
                least = cost;
            }
        }
        if (spread(c, r, best, s.excess[best], s)) return best;
        s.excess[best] = kInfinity;  // no room there: not again
    }
    return -1;
}

void balance(const Clauses& c, const Record& r, double tolerance, Scratch& s) {
    std::fill(s.waiting.begin(), s.waiting.end(), 1);
    const int64_t clauses = c.clause_ends - 1;
    bool moved = true;
    for (int64_t sweep = 0; sweep < kSweeps && moved; ++sweep) {
        moved = false;
        for (int64_t k = 0; k < clauses; ++k) {
            if (!s.waiting[k]) continue;
            s.waiting[k] = 0;
            const int64_t b = repair(c, r, k, sweep >= kStubborn, tolerance, s);
            if (b < 0) continue;
            moved = true;
            for (int64_t t = c.branches[b]; t < c.branches[b + 1]; ++t) {
                if (!(s.take[t - c.branches[b]] > 0)) continue;
                for (int64_t n = c.named[c.places[t]]; n < c.named[c.places[t] + 1]; ++n)
                    s.waiting[c.naming[n]] = 1;
            }
        }
    }
}

}  // namespace

// x: (rows, d) the records, moved in place.
DUROMETER_KERNEL(balance)(const Clauses* clauses, int64_t rows, int64_t d, int64_t threads, double tolerance,
                      const double* x0, const double* low, const double* high, double* x) {
    return durometer::guarded([&] {
        int64_t longest = 0;
        for (int64_t b = 0; b < clauses->branch_count; ++b)
            longest = std::max(longest, clauses->branches[b + 1] - clauses->branches[b]);
        durometer::each_row((rows + kBlock - 1) / kBlock, threads, [&](int64_t block) {
            Scratch s;
            s.room.resize(longest);
            s.take.resize(longest);
            s.excess.resize(clauses->branch_count);
            s.waiting.resize(clauses->clause_ends - 1);
            for (int64_t i = block * kBlock; i < std::min(rows, (block + 1) * kBlock); ++i)
                balance(*clauses, {x + i * d, x0 + i * d, low + i * d, high + i * d}, tolerance, s);
        });
    });
}
