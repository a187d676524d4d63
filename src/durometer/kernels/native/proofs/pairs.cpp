// Properties of a whole tree ensemble: branch and bound over pairs of points (x, x') that share all
// features but some, in cells. What is minimised is the largest of a few costs, each a sum over the
// trees of what the leaf of x and the leaf of x' add. One copy (no x') is the special case in which
// the second adds nothing.
//
// Every tree is merged with its own copy before anything is bounded: a factor's entries are pairs of
// leaves that can be reached together. What the two copies share then cancels exactly, where a bound
// over separate copies cannot see it. The bound is the dual of `dual.h`, with the weights of the
// costs (a point of the simplex) as further multipliers: max_j c_j >= sum_j w_j c_j.
//
// The thing to get wrong: a box in which both copies reach the same leaf of every tree has the same
// score twice, whatever the bound says. It is closed as such, or a question with margin 0 never ends.
#include <time.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "kernel.h"

namespace durometer {
namespace {

constexpr double kFar = 1e300;
constexpr size_t kMemory = 1500000000;  // bytes of waiting boxes; beyond them depth first
constexpr int32_t kSmall = 4096;        // combinations of cells that a listed relation looks through

double thread_seconds() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
#else
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

// The same fields in the same order as `QUESTION` in proofs/globally/kernel.py.
struct Question {
    int64_t features, nodes, trees, costs, constraints, entries, numbers, listed, scopes, flags,
        excluded, records;
    const int32_t* cells;      // (features,) how many
    const int32_t* copy;       // (features,) the feature that x' has in its place
    const int32_t* feature;    // (nodes,) -1 at a leaf
    const int32_t* cut;        // a cell <= cut goes left
    const int32_t* left;
    const int32_t* right;
    const int32_t* roots;
    const double* first;   // (nodes, costs) what a leaf adds for x
    const double* second;  // ... and for x'
    const double* base;    // (costs,)
    const int64_t* entry_start;  // (constraints + 1,)
    const int32_t* entry_feature;
    const int64_t* table_start;  // (entries,) its first number: one for each cell of the feature
    const double* table;
    const double* bound;
    const int64_t* scope_start;  // (listed + 1,) relations as lists of what is possible
    const int32_t* scope_feature;
    const int64_t* flag_start;  // (listed,)
    const uint8_t* flag;        // one for each combination of cells, the last feature fastest
    const int32_t* out;         // (excluded, features) cells that hold no point, or none that is known
    const uint8_t* certain;     // (excluded,) which of both
    // Every point lies in one of these boxes of cells, where there are any: records and what is near.
    const int32_t* record_low;   // (records, features)
    const int32_t* record_high;  // (records, features)
    double two;                  // 1: there is an x'
};

using Path = std::vector<std::array<int32_t, 3>>;  // feature, first and last cell

struct Box {
    std::vector<int32_t> low, high;
};

struct Span {
    uint16_t a, b;
};

struct Link {  // a factor and a feature it depends on
    int32_t factor, feature, K, edge, lam;
    int64_t spans;
};

struct Factor {
    int32_t leaf, leaf_end, link, link_end;
};

struct Multipliers {
    std::vector<float> lam, mu, weight;
};

using Records = std::shared_ptr<std::vector<int32_t>>;

struct Node {
    Box box;
    Records records;  // that meet the box; null: all of them
    std::shared_ptr<Multipliers> state;
    double bound = -kFar;
};

class Pairs {
   public:
    const Question& q;
    int64_t F, J, C;
    std::vector<int64_t> start;  // (F + 1,) first cell of each feature in theta
    std::vector<double> weight;  // (J,) of the costs
    std::vector<double> mu, lam, theta;
    std::vector<int32_t> best, free;
    std::vector<Factor> factors;
    std::vector<double> cost;  // (entries, J)
    double value = -kFar, pad = 0.0;
    bool all_same = false;

    Pairs(const Question& question, int64_t most)
        : q(question), F(q.features), J(q.costs), C(q.constraints), most_(most) {
        start.assign(F + 1, 0);
        for (int64_t f = 0; f < F; ++f) start[f + 1] = start[f] + q.cells[f];
        rows_of_.resize(F), scale_.assign(C, 0.0);
        for (int64_t r = 0; r < C; ++r) {
            double width = 0.0;
            for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
                const int32_t f = q.entry_feature[k];
                const double* h = q.table + q.table_start[k];
                const auto ends = std::minmax_element(h, h + q.cells[f]);
                width += *ends.second - *ends.first;
                rows_of_[f].push_back({static_cast<int32_t>(r), static_cast<int32_t>(k)});
            }
            scale_[r] = width > 0 ? 1.0 / width : 0.0;
        }
        weight.assign(J, 1.0 / static_cast<double>(J));
        mu.assign(C, 0.0), theta.resize(start[F]), best.assign(F, 0);
    }

    // ---- points

    void costs(const int32_t* c, double* out) const {
        for (int64_t j = 0; j < J; ++j) out[j] = q.base[j];
        for (int64_t t = 0; t < q.trees; ++t) {
            int32_t n = q.roots[t];
            while (q.feature[n] >= 0) n = c[q.feature[n]] <= q.cut[n] ? q.left[n] : q.right[n];
            for (int64_t j = 0; j < J; ++j) out[j] += q.first[n * J + j];
            if (q.two == 0) continue;
            n = q.roots[t];
            while (q.feature[n] >= 0)
                n = c[q.copy[q.feature[n]]] <= q.cut[n] ? q.left[n] : q.right[n];
            for (int64_t j = 0; j < J; ++j) out[j] += q.second[n * J + j];
        }
    }

    double worst(const int32_t* c) {
        worst_.resize(J);
        costs(c, worst_.data());
        return *std::max_element(worst_.begin(), worst_.end());
    }

    // The sum before the bound: of two terms it is rounded as the difference of two values is.
    double excess(int64_t r, const int32_t* c) const {
        double sum = 0.0;
        for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k)
            sum += q.table[q.table_start[k] + c[q.entry_feature[k]]];
        return sum - q.bound[r];
    }

    bool listed(int64_t r, const int32_t* c) const {
        int64_t at = 0;
        for (int64_t k = q.scope_start[r]; k < q.scope_start[r + 1]; ++k)
            at = at * q.cells[q.scope_feature[k]] + c[q.scope_feature[k]];
        return q.flag[q.flag_start[r] + at];
    }

    // -1: not excluded; 0: no point is known there; 1: there is none.
    int excluded(const int32_t* c) const {
        for (int64_t i = 0; i < q.excluded; ++i)
            if (std::equal(c, c + F, q.out + i * F)) return q.certain[i];
        return -1;
    }

    bool fits(const int32_t* c) const {
        for (int64_t r = 0; r < C; ++r)
            if (excess(r, c) > 0) return false;
        for (int64_t r = 0; r < q.listed; ++r)
            if (!listed(r, c)) return false;
        if (q.records == 0) return true;
        for (int64_t r = 0; r < q.records; ++r)
            if (misses(r, c) == 0) return true;
        return false;
    }

    // The features whose cell lies outside a record's box.
    int64_t misses(int64_t r, const int32_t* c) const {
        int64_t n = 0;
        for (int64_t f = 0; f < F; ++f)
            n += c[f] < q.record_low[r * F + f] || c[f] > q.record_high[r * F + f];
        return n;
    }

    // Move the cells into the box of the record that they miss in the fewest features.
    void draw_near(std::vector<int32_t>& c, const Records& records) const {
        int64_t nearest = -1, fewest = F + 1;
        const auto look = [&](int64_t r) {
            const int64_t n = misses(r, c.data());
            if (n < fewest) fewest = n, nearest = r;
        };
        if (records) for (int32_t r : *records) look(r);
        else for (int64_t r = 0; r < q.records; ++r) look(r);
        if (nearest < 0) return;
        for (int64_t f = 0; f < F; ++f)
            c[f] = std::clamp(c[f], q.record_low[nearest * F + f], q.record_high[nearest * F + f]);
    }

    // Keep the records that meet the box, and shrink it to what they cover; false: none does.
    bool keep_records(Node& node, bool& changed) const {
        Box& b = node.box;
        auto kept = std::make_shared<std::vector<int32_t>>();
        std::vector<int32_t> low(F, std::numeric_limits<int32_t>::max()), high(F, -1);
        const auto look = [&](int32_t r) {
            const int32_t *a = q.record_low + r * F, *z = q.record_high + r * F;
            for (int64_t f = 0; f < F; ++f)
                if (a[f] > b.high[f] || z[f] < b.low[f]) return;
            kept->push_back(r);
            for (int64_t f = 0; f < F; ++f)
                low[f] = std::min(low[f], a[f]), high[f] = std::max(high[f], z[f]);
        };
        if (node.records) for (int32_t r : *node.records) look(r);
        else for (int64_t r = 0; r < q.records; ++r) look(static_cast<int32_t>(r));
        if (kept->empty()) return false;
        node.records = std::move(kept);
        for (int64_t f = 0; f < F; ++f) {
            if (low[f] > b.low[f]) b.low[f] = low[f], changed = true;
            if (high[f] < b.high[f]) b.high[f] = high[f], changed = true;
        }
        return true;
    }

    // Shrink the box to what the constraints and records leave of it; false: nothing.
    bool propagate(Node& node) {
        Box& b = node.box;
        for (int round = 0; round < 8; ++round) {
            bool changed = false;
            if (q.records > 0 && !keep_records(node, changed)) return false;
            for (int64_t r = 0; r < C; ++r) {
                double least = 0.0, size = std::fabs(q.bound[r]);
                const int64_t from = q.entry_start[r], to = q.entry_start[r + 1];
                part_.resize(to - from);
                for (int64_t k = from; k < to; ++k) {
                    const int32_t f = q.entry_feature[k];
                    const double* h = q.table + q.table_start[k];
                    part_[k - from] = *std::min_element(h + b.low[f], h + b.high[f] + 1);
                    least += part_[k - from], size += std::fabs(part_[k - from]);
                }
                if (least > q.bound[r]) return false;
                const double room = q.bound[r] + 1e-13 * size;
                for (int64_t k = from; k < to; ++k) {
                    const int32_t f = q.entry_feature[k];
                    const double* h = q.table + q.table_start[k];
                    const double rest = least - part_[k - from];
                    while (b.low[f] < b.high[f] && rest + h[b.low[f]] > room)
                        ++b.low[f], changed = true;
                    while (b.high[f] > b.low[f] && rest + h[b.high[f]] > room)
                        --b.high[f], changed = true;
                }
            }
            for (int64_t r = 0; r < q.listed; ++r)
                if (!possible(r, b, changed)) return false;
            if (!changed) break;
        }
        return true;
    }

    // ---- factors

    void build(const Box& b) {
        links_of_.assign(F, {});
        constant_.assign(q.base, q.base + J);
        std::vector<std::pair<int32_t, Path>> ours, theirs;
        for (int64_t t = 0; t < q.trees; ++t) {
            ours.clear(), entries_.clear();
            walk(q.roots[t], {}, b, false, ours, std::numeric_limits<int64_t>::max());
            bool merged = true;
            if (q.two != 0) {
                for (const auto& one : ours) {
                    theirs.clear();
                    walk(q.roots[t], one.second, b, true, theirs, most_);
                    for (auto& two : theirs) add_entry(one.first, two.first, two.second, b);
                    merged = static_cast<int64_t>(entries_.size()) <= most_ &&
                             static_cast<int64_t>(theirs.size()) <= most_;
                    if (!merged) break;
                }
                if (merged) {
                    add_factor(b);
                    continue;
                }
                entries_.clear(), theirs.clear();
                walk(q.roots[t], {}, b, true, theirs, std::numeric_limits<int64_t>::max());
                for (auto& two : theirs) add_entry(-1, two.first, two.second, b);
                add_factor(b), entries_.clear();
            }
            for (auto& one : ours) add_entry(one.first, -1, one.second, b);
            add_factor(b);
        }
        const size_t n = cost.size() / J;
        weighted_.resize(n), total_.resize(n), active_.resize(n);
        active_end_.resize(factors.size()), clip_.resize(links_.size());
        weigh();
    }

    void load(const Multipliers& state) {
        std::copy(state.lam.begin(), state.lam.end(), lam.begin());
        std::copy(state.mu.begin(), state.mu.end(), mu.begin());
        if (J > 1) {
            double sum = 0.0;
            for (int64_t j = 0; j < J; ++j) sum += weight[j] = state.weight[j];
            for (int64_t j = 0; j < J; ++j) weight[j] /= sum;
            weigh();
        }
    }

    std::shared_ptr<Multipliers> state() const {
        auto kept = std::make_shared<Multipliers>();
        kept->lam.assign(lam.begin(), lam.end());
        kept->mu.assign(mu.begin(), mu.end());
        kept->weight.assign(weight.begin(), weight.end());
        return kept;
    }

    // ---- the bound

    // From scratch: what `value - pad` says then holds for every point of the box.
    void enter(const Box& b) {
        box_ = &b, free.clear();
        for (int64_t f = 0; f < F; ++f)
            if (b.low[f] < b.high[f]) free.push_back(static_cast<int32_t>(f));
        double size = 0.0;
        for (size_t i = 0; i < links_.size(); ++i) {
            const Link& l = links_[i];
            const int32_t* e = edges_.data() + l.edge;
            int32_t a = 0, z = l.K - 1;
            while (e[a + 1] <= b.low[l.feature]) ++a;
            while (e[z] > b.high[l.feature]) --z;
            clip_[i] = {static_cast<uint16_t>(a), static_cast<uint16_t>(z)};
            double most = 0.0;
            for (int32_t k = a; k <= z; ++k) most = std::max(most, std::fabs(lam[l.lam + k]));
            size += 2 * most;
        }
        all_same = q.two != 0;
        for (size_t t = 0; t < factors.size(); ++t) {
            const Factor& r = factors[t];
            int32_t end = r.leaf;
            double most = 0.0;
            for (int32_t i = r.leaf; i < r.leaf_end; ++i) {
                double sum = weighted_[i];
                bool fits = true;
                for (int32_t k = r.link; k < r.link_end && fits; ++k) {
                    const Span s = spans_[links_[k].spans + i - r.leaf];
                    const int32_t a = std::max(s.a, clip_[k].a), z = std::min(s.b, clip_[k].b);
                    fits = a <= z;
                    if (fits) sum += smallest(lam.data() + links_[k].lam, a, z);
                }
                if (!fits) continue;
                active_[end++] = i, total_[i] = sum, all_same &= same_[i] != 0;
                most = std::max(most, std::fabs(weighted_[i]));
            }
            active_end_[t] = end;
            size += most;
        }
        for (int64_t f = 0; f < F; ++f) {
            double* th = theta.data() + start[f];
            std::fill(th + b.low[f], th + b.high[f] + 1, 0.0);
            for (const auto& [r, k] : rows_of_[f]) {
                if (mu[r] == 0) continue;
                const double* h = q.table + q.table_start[k];
                double most = 0.0;
                for (int32_t c = b.low[f]; c <= b.high[f]; ++c)
                    th[c] += mu[r] * h[c], most = std::max(most, std::fabs(mu[r] * h[c]));
                size += most;
            }
            for (int32_t i : links_of_[f]) add_link(i, -1.0);
        }
        for (int64_t r = 0; r < C; ++r) size += std::fabs(mu[r] * q.bound[r]);
        for (int64_t j = 0; j < J; ++j) size += std::fabs(constant_[j]);
        pad = 1e-12 * size;
        evaluate();
    }

    void sweep(bool forward) {
        const int64_t n = static_cast<int64_t>(free.size());
        for (int64_t i = 0; i < n; ++i) relax(free[forward ? i : n - 1 - i]);
        for (int64_t r = 0; r < C; ++r)
            if (scale_[r] > 0) tune(r);
        if (J > 1)
            for (int64_t i = 0; i + 1 < J; ++i) exchange();
        evaluate();
    }

    // The feature whose factors are furthest from agreeing on its best cell, and to which side.
    std::pair<int32_t, int> disagreement() {
        std::pair<int32_t, int> found{-1, 1};
        double most = 1e-11;
        for (int32_t f : free) {
            double gap = 0.0, above = 0.0;
            for (int32_t i : links_of_[f]) {
                if (clip_[i].a == clip_[i].b) continue;
                marginals(i);
                const Link& l = links_[i];
                const double* la = lam.data() + l.lam;
                const int32_t* e = edges_.data() + l.edge;
                int32_t here = 0, least = clip_[i].a;
                while (e[here + 1] <= best[f]) ++here;
                for (int32_t k = clip_[i].a; k <= clip_[i].b; ++k)
                    if (la[k] + rest_[k] < la[least] + rest_[least]) least = k;
                const double g = la[here] + rest_[here] - la[least] - rest_[least];
                gap += g, above += least > here ? g : -g;
            }
            if (gap > most) most = gap, found = {f, above >= 0 ? 1 : -1};
        }
        return found;
    }

    // A feature of the constraint that the best cells break most.
    std::pair<int32_t, int> broken(const Box& b) const {
        std::pair<int32_t, int> found{-1, 1};
        double worst = 0.0;
        for (int64_t r = 0; r < C; ++r) {
            const double over = excess(r, best.data()) * scale_[r];
            if (over <= worst) continue;
            double most = 0.0;
            for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
                const int32_t f = q.entry_feature[k];
                const double* h = q.table + q.table_start[k];
                for (int32_t c = b.low[f]; c <= b.high[f]; ++c) {
                    const double gain = h[best[f]] - h[c];
                    if (gain > most) most = gain, worst = over, found = {f, c > best[f] ? 1 : -1};
                }
            }
        }
        if (found.first >= 0) return found;
        int32_t widest = 0;
        for (int64_t r = 0; r < q.listed; ++r) {
            if (listed(r, best.data())) continue;
            for (int64_t k = q.scope_start[r]; k < q.scope_start[r + 1]; ++k) {
                const int32_t f = q.scope_feature[k];
                if (b.high[f] - b.low[f] > widest) widest = b.high[f] - b.low[f], found = {f, 1};
            }
        }
        return found;
    }

    // The feature in which most records are missed by the best cells.
    std::pair<int32_t, int> missed(const Node& node) const {
        std::pair<int32_t, int> found{-1, 1};
        int64_t most = 0;
        for (int32_t f : free) {
            int64_t above = 0, below = 0;
            for (int32_t r : *node.records) {
                above += q.record_low[r * F + f] > best[f];
                below += q.record_high[r * F + f] < best[f];
            }
            if (above + below > most) most = above + below, found = {f, above >= below ? 1 : -1};
        }
        return found;
    }

    // Move the cells, by what theta says, until the constraints hold; true if they do.
    bool mend(std::vector<int32_t>& c, const Box& b) const {
        for (int pass = 0; pass < 4; ++pass) {
            bool good = true;
            for (int64_t r = 0; r < C; ++r) {
                const double over = excess(r, c.data());
                if (over <= 0) continue;
                good = false;
                int32_t feature = -1, cell = 0;
                double least = kFar;
                for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
                    const int32_t f = q.entry_feature[k];
                    const double* h = q.table + q.table_start[k];
                    for (int32_t z = b.low[f]; z <= b.high[f]; ++z)
                        if (over + h[z] - h[c[f]] <= 0 && theta[start[f] + z] < least)
                            least = theta[start[f] + z], feature = f, cell = z;
                }
                if (feature < 0) return false;
                c[feature] = cell;
            }
            if (good) break;
        }
        return fits(c.data());
    }

   private:
    int64_t most_;
    std::vector<std::vector<std::pair<int32_t, int32_t>>> rows_of_;
    std::vector<double> scale_, part_, constant_, weighted_, total_, rest_, kept_, slope_, worst_;
    std::vector<Link> links_;
    std::vector<int32_t> edges_, active_, active_end_;
    std::vector<uint8_t> same_;
    std::vector<Span> spans_, clip_;
    std::vector<std::vector<int32_t>> links_of_;
    std::vector<int32_t> lowest_, highest_, at_;
    const Box* box_ = nullptr;

    struct Raw {
        int32_t ours, theirs;
        Path path;
    };
    std::vector<Raw> entries_;

    static double smallest(const double* v, int32_t a, int32_t b) {
        double m = v[a];
        for (int32_t k = a + 1; k <= b; ++k) m = v[k] < m ? v[k] : m;
        return m;
    }

    bool possible(int64_t r, Box& b, bool& changed) {
        const int64_t from = q.scope_start[r], n = q.scope_start[r + 1] - from;
        double all = 1.0;
        for (int64_t k = 0; k < n; ++k) {
            const int32_t f = q.scope_feature[from + k];
            all *= b.high[f] - b.low[f] + 1;
        }
        if (all > kSmall) return true;
        at_.resize(n), lowest_.assign(n, 1 << 30), highest_.assign(n, -1);
        for (int64_t k = 0; k < n; ++k) at_[k] = b.low[q.scope_feature[from + k]];
        for (bool more = true; more;) {
            int64_t place = 0;
            for (int64_t k = 0; k < n; ++k) place = place * q.cells[q.scope_feature[from + k]] + at_[k];
            if (q.flag[q.flag_start[r] + place])
                for (int64_t k = 0; k < n; ++k)
                    lowest_[k] = std::min(lowest_[k], at_[k]), highest_[k] = std::max(highest_[k], at_[k]);
            more = false;
            for (int64_t k = n - 1; k >= 0 && !more; --k) {
                const int32_t f = q.scope_feature[from + k];
                if (at_[k] < b.high[f]) ++at_[k], more = true;
                else at_[k] = b.low[f];
            }
        }
        for (int64_t k = 0; k < n; ++k) {
            const int32_t f = q.scope_feature[from + k];
            if (highest_[k] < 0) return false;
            changed |= lowest_[k] > b.low[f] || highest_[k] < b.high[f];
            b.low[f] = lowest_[k], b.high[f] = highest_[k];
        }
        return true;
    }

    void walk(int32_t root, const Path& from, const Box& b, bool copy,
              std::vector<std::pair<int32_t, Path>>& out, int64_t limit) const {
        std::vector<std::pair<int32_t, Path>> stack{{root, from}};
        while (!stack.empty()) {
            auto here = std::move(stack.back());
            stack.pop_back();
            const int32_t n = here.first;
            if (q.feature[n] < 0) {
                out.push_back(std::move(here));
                if (static_cast<int64_t>(out.size()) > limit) return;
                continue;
            }
            const int32_t f = copy ? q.copy[q.feature[n]] : q.feature[n], c = q.cut[n];
            int32_t low = b.low[f], high = b.high[f], at = -1;
            for (size_t i = 0; i < here.second.size(); ++i)
                if (here.second[i][0] == f)
                    at = static_cast<int32_t>(i), low = here.second[i][1], high = here.second[i][2];
            if (high <= c || low > c) {
                here.first = high <= c ? q.left[n] : q.right[n];
                stack.push_back(std::move(here));
                continue;
            }
            auto other = here;
            here.first = q.left[n], other.first = q.right[n];
            if (at < 0) here.second.push_back({f, low, c}), other.second.push_back({f, c + 1, high});
            else here.second[at][2] = c, other.second[at][1] = c + 1;
            stack.push_back(std::move(here)), stack.push_back(std::move(other));
        }
    }

    // A pair of leaves, unless a constraint of at most three features keeps it out.
    void add_entry(int32_t ours, int32_t theirs, Path& path, const Box& b) {
        for (const auto& step : path)
            for (const auto& [r, k0] : rows_of_[step[0]]) {
                if (q.entry_start[r + 1] - q.entry_start[r] > 3) continue;
                double sum = 0.0;
                for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
                    const int32_t f = q.entry_feature[k];
                    int32_t low = b.low[f], high = b.high[f];
                    for (const auto& z : path)
                        if (z[0] == f) low = z[1], high = z[2];
                    const double* h = q.table + q.table_start[k];
                    sum += *std::min_element(h + low, h + high + 1);
                }
                if (sum > q.bound[r]) return;
            }
        for (int64_t r = 0; r < q.listed; ++r)
            if (!may_hold(r, path, b)) return;
        entries_.push_back({ours, theirs, std::move(path)});
    }

    // Is some combination of a list of pairs left on this path? Longer lists are not looked through.
    bool may_hold(int64_t r, const Path& path, const Box& b) const {
        const int64_t at = q.scope_start[r];
        if (q.scope_start[r + 1] - at != 2) return true;
        const int32_t f = q.scope_feature[at], g = q.scope_feature[at + 1];
        int32_t a = b.low[f], z = b.high[f], c = b.low[g], e = b.high[g];
        for (const auto& step : path) {
            if (step[0] == f) a = step[1], z = step[2];
            if (step[0] == g) c = step[1], e = step[2];
        }
        if (static_cast<int64_t>(z - a + 1) * (e - c + 1) > kSmall) return true;
        const uint8_t* flag = q.flag + q.flag_start[r];
        for (int32_t i = a; i <= z; ++i)
            for (int32_t j = c; j <= e; ++j)
                if (flag[static_cast<int64_t>(i) * q.cells[g] + j]) return true;
        return false;
    }

    double entry_cost(const Raw& e, int64_t j) const {
        return (e.ours < 0 ? 0.0 : q.first[e.ours * J + j]) + (e.theirs < 0 ? 0.0 : q.second[e.theirs * J + j]);
    }

    void add_factor(const Box& b) {
        const auto& L = entries_;
        if (L.empty()) return;  // no point of the box fits; the search will see that
        bool level = true;
        for (const Raw& e : L)
            for (int64_t j = 0; j < J && level; ++j) level = entry_cost(e, j) == entry_cost(L[0], j);
        bool equal = true;
        for (const Raw& e : L) equal &= e.ours == e.theirs;
        if (level && (equal || q.two == 0)) {
            for (int64_t j = 0; j < J; ++j) constant_[j] += entry_cost(L[0], j);
            return;
        }
        std::vector<int32_t> features;
        std::vector<std::vector<int32_t>> cuts;
        std::vector<int32_t> place(F, -1);
        for (const Raw& e : L)
            for (const auto& z : e.path) {
                if (place[z[0]] < 0)
                    place[z[0]] = static_cast<int32_t>(features.size()), features.push_back(z[0]), cuts.push_back({});
                auto& own = cuts[place[z[0]]];
                if (z[1] > b.low[z[0]]) own.push_back(z[1]);
                if (z[2] < b.high[z[0]]) own.push_back(z[2] + 1);
            }
        const size_t n = L.size();
        Factor made;
        made.leaf = static_cast<int32_t>(cost.size() / J), made.link = static_cast<int32_t>(links_.size());
        for (size_t i = 0; i < features.size(); ++i) {
            auto& own = cuts[i];
            std::sort(own.begin(), own.end());
            own.erase(std::unique(own.begin(), own.end()), own.end());
            const int32_t f = features[i];
            Link l;
            l.factor = static_cast<int32_t>(factors.size()), l.feature = f;
            l.K = static_cast<int32_t>(own.size()) + 1;
            l.edge = static_cast<int32_t>(edges_.size());
            edges_.push_back(b.low[f]);
            edges_.insert(edges_.end(), own.begin(), own.end());
            edges_.push_back(b.high[f] + 1);
            l.lam = static_cast<int32_t>(lam.size()), lam.resize(lam.size() + l.K, 0.0);
            l.spans = static_cast<int64_t>(spans_.size());
            spans_.resize(spans_.size() + n, Span{0, static_cast<uint16_t>(l.K - 1)});
            const int32_t* e = edges_.data() + l.edge;
            for (size_t k = 0; k < n; ++k)
                for (const auto& z : L[k].path)
                    if (z[0] == f)
                        spans_[l.spans + k] = {
                            static_cast<uint16_t>(std::upper_bound(e, e + l.K, z[1]) - e - 1),
                            static_cast<uint16_t>(std::upper_bound(e, e + l.K, z[2]) - e - 1)};
            links_of_[f].push_back(static_cast<int32_t>(links_.size()));
            links_.push_back(l);
        }
        for (const Raw& e : L) {
            for (int64_t j = 0; j < J; ++j) cost.push_back(entry_cost(e, j));
            same_.push_back(e.ours == e.theirs);
        }
        made.leaf_end = static_cast<int32_t>(cost.size() / J), made.link_end = static_cast<int32_t>(links_.size());
        factors.push_back(made);
    }

    void weigh() {
        for (size_t i = 0; i < weighted_.size(); ++i) {
            double sum = 0.0;
            for (int64_t j = 0; j < J; ++j) sum += weight[j] * cost[i * J + j];
            weighted_[i] = sum;
        }
    }

    void add_link(int32_t i, double sign) {
        const Link& l = links_[i];
        const int32_t* e = edges_.data() + l.edge;
        double* th = theta.data() + start[l.feature];
        for (int32_t k = clip_[i].a; k <= clip_[i].b; ++k) {
            const int32_t to = std::min(e[k + 1] - 1, box_->high[l.feature]);
            for (int32_t c = std::max(e[k], box_->low[l.feature]); c <= to; ++c)
                th[c] += sign * lam[l.lam + k];
        }
    }

    void evaluate() {
        double sum = 0.0;
        for (int64_t j = 0; j < J; ++j) sum += weight[j] * constant_[j];
        for (size_t t = 0; t < factors.size(); ++t) {
            double least = kFar;
            for (int32_t i = factors[t].leaf; i < active_end_[t]; ++i)
                least = std::min(least, total_[active_[i]]);
            sum += least;
        }
        for (int64_t f = 0; f < F; ++f) {
            const double* th = theta.data() + start[f];
            int32_t at = box_->low[f];
            for (int32_t c = at + 1; c <= box_->high[f]; ++c)
                if (th[c] < th[at] - 1e-13) at = c;
            sum += smallest(th, box_->low[f], box_->high[f]), best[f] = at;
        }
        for (int64_t r = 0; r < C; ++r) sum -= mu[r] * q.bound[r];
        value = sum;
    }

    // rest_[k]: the factor's least sum without this feature's potential, if the feature is in k.
    void marginals(int32_t i) {
        const Link& l = links_[i];
        const Factor& r = factors[l.factor];
        const Span clip = clip_[i];
        if (static_cast<int32_t>(rest_.size()) < l.K) rest_.resize(l.K);
        for (int32_t k = clip.a; k <= clip.b; ++k) rest_[k] = kFar;
        for (int32_t j = r.leaf; j < active_end_[l.factor]; ++j) {
            const int32_t leaf = active_[j];
            const Span s = spans_[l.spans + leaf - r.leaf];
            const int32_t a = std::max(s.a, clip.a), b = std::min(s.b, clip.b);
            const double rest = total_[leaf] - smallest(lam.data() + l.lam, a, b);
            for (int32_t k = a; k <= b; ++k)
                if (rest < rest_[k]) rest_[k] = rest;
        }
    }

    void shift_totals(int32_t i, double sign) {
        const Link& l = links_[i];
        const Factor& r = factors[l.factor];
        for (int32_t j = r.leaf; j < active_end_[l.factor]; ++j) {
            const int32_t leaf = active_[j];
            const Span s = spans_[l.spans + leaf - r.leaf];
            total_[leaf] += sign * smallest(lam.data() + l.lam, std::max(s.a, clip_[i].a), std::min(s.b, clip_[i].b));
        }
    }

    // Collect what the factors say of a feature, and hand each an equal share back.
    void relax(int32_t f) {
        double* th = theta.data() + start[f];
        const int32_t low = box_->low[f], high = box_->high[f];
        int32_t n = 0;
        for (int32_t i : links_of_[f]) {
            const Span clip = clip_[i];
            if (clip.a == clip.b) continue;
            ++n;
            marginals(i);
            const Link& l = links_[i];
            double* la = lam.data() + l.lam;
            const int32_t* e = edges_.data() + l.edge;
            shift_totals(i, -1.0);
            for (int32_t k = clip.a; k <= clip.b; ++k) {
                if (rest_[k] >= kFar) rest_[k] = -la[k];  // no entry is left there
                const double move = la[k] + rest_[k];
                const int32_t to = std::min(e[k + 1] - 1, high);
                for (int32_t c = std::max(e[k], low); c <= to; ++c) th[c] += move;
                la[k] = -rest_[k];
            }
        }
        if (n == 0) return;
        const double least = smallest(th, low, high);
        kept_.assign(th + low, th + high + 1);
        const double share = 1.0 / (n + (rows_of_[f].empty() ? 0 : 1));
        for (int32_t i : links_of_[f]) {
            const Span clip = clip_[i];
            if (clip.a == clip.b) continue;
            const Link& l = links_[i];
            double* la = lam.data() + l.lam;
            const int32_t* e = edges_.data() + l.edge;
            for (int32_t k = clip.a; k <= clip.b; ++k) {
                const int32_t from = std::max(e[k], low), to = std::min(e[k + 1] - 1, high);
                const double part = share * (smallest(kept_.data(), from - low, to - low) - least);
                la[k] += part;
                for (int32_t c = from; c <= to; ++c) th[c] -= part;
            }
            shift_totals(i, 1.0);
        }
    }

    double slope(int64_t r, double change) const {
        double sum = -q.bound[r];
        for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
            const int32_t f = q.entry_feature[k];
            const double* h = q.table + q.table_start[k];
            const double* th = theta.data() + start[f];
            int32_t at = box_->low[f];
            double least = th[at] + change * h[at];
            for (int32_t c = at + 1; c <= box_->high[f]; ++c) {
                const double v = th[c] + change * h[c];
                if (v < least) least = v, at = c;
            }
            sum += h[at];
        }
        return sum;
    }

    void tune(int64_t r) {
        const double tiny = 1e-9 / scale_[r], here = slope(r, 0.0);
        if (std::fabs(here) <= tiny || (here < 0 && mu[r] == 0)) return;
        double low = 0.0, high = 0.0;
        if (here > 0) {
            high = std::max(mu[r], 0.1 * scale_[r]);
            for (int tries = 0; slope(r, high) > tiny && tries < 12; ++tries) low = high, high *= 4;
        } else {
            low = -mu[r];
            if (slope(r, low) <= 0) high = low;
        }
        for (int i = 0; i < 12 && high - low > 1e-3 * std::fabs(high); ++i) {
            const double middle = 0.5 * (low + high), s = slope(r, middle);
            (s > 0 ? low : high) = middle;
            if (std::fabs(s) <= tiny) low = high = middle;
        }
        const double change = std::max(0.5 * (low + high), -mu[r]);
        mu[r] += change;
        for (int64_t k = q.entry_start[r]; k < q.entry_start[r + 1]; ++k) {
            const int32_t f = q.entry_feature[k];
            const double* h = q.table + q.table_start[k];
            for (int32_t c = box_->low[f]; c <= box_->high[f]; ++c) theta[start[f] + c] += change * h[c];
        }
    }

    // How the bound changes with each weight, after moving `change` from cost `down` to cost `up`.
    void weight_slopes(int64_t up, int64_t down, double change) {
        slope_ = constant_;
        for (size_t t = 0; t < factors.size(); ++t) {
            double least = kFar;
            int32_t at = -1;
            for (int32_t i = factors[t].leaf; i < active_end_[t]; ++i) {
                const int32_t leaf = active_[i];
                const double v = total_[leaf] + change * (cost[leaf * J + up] - cost[leaf * J + down]);
                if (v < least) least = v, at = leaf;
            }
            if (at >= 0)
                for (int64_t j = 0; j < J; ++j) slope_[j] += cost[at * J + j];
        }
    }

    // Move weight from the cost that helps least to the one that helps most.
    void exchange() {
        weight_slopes(0, 0, 0.0);
        int64_t up = 0, down = -1;
        for (int64_t j = 0; j < J; ++j) {
            if (slope_[j] > slope_[up]) up = j;
            if (weight[j] > 0 && (down < 0 || slope_[j] < slope_[down])) down = j;
        }
        if (up == down || slope_[up] <= slope_[down]) return;
        double low = 0.0, high = weight[down];
        weight_slopes(up, down, high);
        if (slope_[up] >= slope_[down]) low = high;
        for (int i = 0; i < 8 && high - low > 1e-3; ++i) {
            const double middle = 0.5 * (low + high);
            weight_slopes(up, down, middle);
            (slope_[up] > slope_[down] ? low : high) = middle;
        }
        const double change = 0.5 * (low + high);
        if (change == 0) return;
        weight[up] += change, weight[down] = std::max(0.0, weight[down] - change);
        double sum = 0.0;
        for (double w : weight) sum += w;
        for (double& w : weight) w /= sum;
        for (size_t i = 0; i < total_.size(); ++i) total_[i] -= weighted_[i];
        weigh();
        for (size_t i = 0; i < total_.size(); ++i) total_[i] += weighted_[i];
    }
};

struct Limits {
    double stop;  // a cost at most this ends the search; -inf: look for the least
    double gap, seconds;
    int64_t root_sweeps, sweeps;
};

class Search {
   public:
    double least = kFar;   // no point that fits has a smaller cost
    double seconds = 0.0;
    double root = -kFar;
    int64_t nodes = 0, kept = 0;
    bool finished = false;
    bool shut = false;  // every box is closed, and none by a point

    Search(Pairs& pairs, const Limits& limits, int64_t room, int32_t* cells, double* values)
        : p_(pairs), limits_(limits), room_(room), cells_(cells), values_(values) {}

    void run() {
        const double begin = thread_seconds();
        Node whole;
        whole.box.low.assign(p_.F, 0), whole.box.high.resize(p_.F);
        for (int64_t f = 0; f < p_.F; ++f) whole.box.high[f] = p_.q.cells[f] - 1;
        finished = true;
        if (p_.propagate(whole)) {
            p_.build(whole.box);
            waiting_.push_back(std::move(whole));
            best_first_ = !deciding();
            while (!waiting_.empty()) {
                if (ended()) break;
                if (thread_seconds() - begin > limits_.seconds) {
                    finished = false;
                    break;
                }
                if (best_first_) std::pop_heap(waiting_.begin(), waiting_.end(), later);
                Node node = std::move(waiting_.back());
                waiting_.pop_back();
                visit(node, begin);
            }
        }
        for (const Node& n : waiting_) least = std::min(least, n.bound);
        if (!deciding()) least = std::min(least, found_);
        seconds = thread_seconds() - begin;
        shut = finished && waiting_.empty() && !ended() && !unresolved_;
    }

   private:
    Pairs& p_;
    const Limits& limits_;
    int64_t room_;
    int32_t* cells_;
    double* values_;
    double found_ = kFar;
    bool best_first_ = false, unresolved_ = false;
    std::vector<Node> waiting_;

    static bool later(const Node& a, const Node& b) { return a.bound > b.bound; }
    bool deciding() const { return limits_.stop > -kFar; }
    bool ended() const { return deciding() && found_ <= limits_.stop; }
    double threshold() const { return deciding() ? limits_.stop : found_ - limits_.gap; }
    bool closes(double bound) const { return deciding() ? bound > limits_.stop : bound >= threshold(); }
    void close(double bound) { least = std::min(least, bound); }

    void keep(const std::vector<int32_t>& c, double value) {
        found_ = value;
        if (kept == room_) {  // the oldest, which is the worst, goes
            std::copy(cells_ + p_.F, cells_ + room_ * p_.F, cells_);
            std::copy(values_ + 1, values_ + room_, values_);
            --kept;
        }
        std::copy(c.begin(), c.end(), cells_ + kept * p_.F);
        values_[kept++] = value;
    }

    void attempt(const Node& node, bool descend) {
        const Box& b = node.box;
        std::vector<int32_t> c = p_.best;
        if (p_.q.records > 0) p_.draw_near(c, node.records);
        if (!p_.fits(c.data()) && !p_.mend(c, b)) return;
        double value = p_.worst(c.data());
        for (int pass = 0; descend && pass < 3; ++pass) {
            bool moved = false;
            for (int32_t f : p_.free) {
                const int32_t was = c[f], step = std::max(1, (b.high[f] - b.low[f] + 1) / 24);
                int32_t to = was;
                for (int32_t z = b.low[f]; z <= b.high[f]; z += step) {
                    if (z == was) continue;
                    c[f] = z;
                    if (!p_.fits(c.data())) continue;
                    const double v = p_.worst(c.data());
                    if (v < value - 1e-12 && p_.excluded(c.data()) < 0) value = v, to = z;
                }
                c[f] = to, moved |= to != was;
            }
            if (!moved) break;
        }
        if (value < found_ && p_.excluded(c.data()) < 0) keep(c, value);
    }

    void visit(Node& node, double begin) {
        const bool root_box = nodes++ == 0;
        if (closes(node.bound)) return close(node.bound);
        if (!root_box && !p_.propagate(node)) return;
        if (node.state) p_.load(*node.state), node.state.reset();
        p_.enter(node.box);
        const int64_t sweeps = root_box ? limits_.root_sweeps : limits_.sweeps;
        for (int64_t k = 0;; ++k) {
            if (p_.value >= kFar / 2) return;  // a factor has no entry left: nothing fits
            if (p_.all_same) {
                if (p_.J > 1) return;  // one class twice: no flip
                node.bound = std::max(node.bound, 0.0);
                attempt(node, false);
                if (deciding() || found_ <= 0) return close(node.bound);
                break;  // no point is known yet: look for one
            }
            if (k == sweeps) break;
            const double before = p_.value;
            p_.sweep(k % 2 == 0);
            const double gain = p_.value - before;
            if (root_box && k % 5 == 4) attempt(node, true);
            if (ended()) break;
            if (gain < 1e-7 || thread_seconds() - begin > limits_.seconds) break;
            if (p_.value > threshold()) break;
        }
        p_.enter(node.box);
        node.bound = std::max(node.bound, p_.value - p_.pad);
        if (root_box) root = node.bound;
        if (closes(node.bound)) return close(node.bound);
        if (p_.free.empty()) return settle(node);
        attempt(node, nodes < 20 || nodes % 64 == 0);
        if (ended()) return close(node.bound);
        if (closes(node.bound)) return close(node.bound);
        branch(node);
    }

    // Every feature in one cell.
    void settle(const Node& node) {
        const int32_t* c = node.box.low.data();
        if (!p_.fits(c)) return;
        const int out = p_.excluded(c);
        if (out == 1) return;
        const double value = p_.worst(c);
        if (out < 0 && value < found_) keep(node.box.low, value);
        unresolved_ |= out == 0;
        close(std::max(node.bound, value - p_.pad));
    }

    void branch(Node& node) {
        auto found = p_.disagreement();
        if (found.first < 0) found = p_.broken(node.box);
        if (found.first < 0 && node.records) found = p_.missed(node);
        if (found.first < 0) {
            int32_t widest = 0;
            for (int32_t f : p_.free) {
                const int32_t width = node.box.high[f] - node.box.low[f];
                if (width > widest) widest = width, found = {f, 1};
            }
        }
        const int32_t f = found.first, c = p_.best[f];
        int side = found.second;
        if (c == node.box.high[f]) side = -1;
        if (c == node.box.low[f]) side = 1;
        const int32_t last = side > 0 ? c : c - 1;
        Node a, b;
        a.records = b.records = node.records;
        a.state = b.state = p_.state(), a.bound = b.bound = node.bound;
        a.box = node.box, b.box = std::move(node.box);
        a.box.high[f] = last, b.box.low[f] = last + 1;
        if (!best_first_) {
            if (side > 0) std::swap(a, b);  // the near one is looked at first
            waiting_.push_back(std::move(a)), waiting_.push_back(std::move(b));
            return;
        }
        const size_t records = a.records ? a.records->size() * 2 : 0;
        const size_t each = a.state->lam.size() * 2 + 8 * static_cast<size_t>(p_.F) + records + 200;
        waiting_.push_back(std::move(a)), std::push_heap(waiting_.begin(), waiting_.end(), later);
        waiting_.push_back(std::move(b)), std::push_heap(waiting_.begin(), waiting_.end(), later);
        if (waiting_.size() * each > kMemory) {
            best_first_ = false;
            std::sort(waiting_.begin(), waiting_.end(), later);
        }
    }
};

}  // namespace

DUROMETER_KERNEL(pairs)
(const Question* question, int64_t features, int64_t room, int64_t answers, int64_t most, double stop,
 double gap, double seconds, int64_t root_sweeps, int64_t sweeps, int32_t* cells, double* values,
 double* answer) {
    return guarded([&] {
        (void)features, (void)answers;
        Pairs pairs(*question, most);
        const Limits limits{stop, gap, seconds, root_sweeps, sweeps};
        Search search(pairs, limits, room, cells, values);
        search.run();
        answer[0] = search.shut ? 1.0 : 0.0;
        answer[1] = search.least;
        answer[2] = static_cast<double>(search.nodes);
        answer[3] = search.seconds;
        answer[4] = static_cast<double>(search.kept);
        answer[5] = search.root;
        answer[6] = static_cast<double>(pairs.factors.size());
        answer[7] = static_cast<double>(pairs.cost.size() / std::max<int64_t>(1, pairs.J));
    });
}

}  // namespace durometer
