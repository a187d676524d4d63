// Is there a valid point that the ensemble gives to one of the allowed classes? Branch and bound over
// boxes of cells, depth first, each row by itself. `proven` means: every box was closed by its bound,
// by its constraints, or because all its points get the same leaves and the library's own sum of
// them does not reach the goal. What is left when the time is over is `open`, never `proven`.
//
// The thing to get wrong: the far child must keep its own potentials. With one global state the
// bound collapses after every jump back.
#include <time.h>

#include <chrono>

#include "proofs/branch.h"
#include "proofs/fit.h"
#include "proofs/rounding.h"
#include "kernel.h"

namespace durometer {
namespace {

// kTied: proven but for cells whose sums are so close that only the library can tell.
enum Verdict : int32_t { kOpen = 0, kBroken = 1, kProven = 2, kTied = 3 };

// Seconds of this thread's own work, so that a busy machine does not leave rows open.
double now() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
#else
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

struct Settings {
    double slack;  // a margin above it is sure in the library's precision
    bool exact;    // all sums are exact, so that ties are decided by the order of the classes
    int64_t root_sweeps, sweeps;
};

struct Node {
    Box box;
    std::vector<double> lam, mu;  // empty: those of the dual as it is
    double bound;
    int64_t rival;
    int32_t id = 0;  // in the certificate
};

class Search {
   public:
    int64_t nodes = 0;
    int64_t ties = 0;
    double* tied = nullptr;  // a point of each of the first `room` tied cells
    int64_t room = 0;
    double bound = kInf;  // no point of the region has a smaller margin
    Certificate certificate;

    Search(const Cells& cells, const uint8_t* allowed, const Settings& settings, double end,
           int64_t numbers)
        : certificate(numbers > 0, numbers), cells_(cells), e_(cells.ensemble), allowed_(allowed),
          settings_(settings), end_(end), dual_(cells), point_(cells), fitting_(cells), scores_(e_.outputs) {}

    Verdict run(int64_t target, double* x) {
        rival_ = -1;
        std::fill(dual_.lam.begin(), dual_.lam.end(), 0.0);
        std::fill(dual_.mu.begin(), dual_.mu.end(), 0.0);
        unresolved_ = false, tried_.clear();
        certificate.begin();
        const int64_t before = ties;
        std::vector<Node> stack(1);
        Box& whole = stack[0].box;
        whole.low.assign(cells_.F, 0), whole.high.resize(cells_.F);
        for (int64_t f = 0; f < cells_.F; ++f) whole.high[f] = cells_.count(f) - 1;
        stack[0].bound = -kInf, stack[0].rival = first_rival(target);
        if (stack[0].rival < 0) {  // nobody to beat: any valid point will do
            if (!point_.build(cells_.home, whole, nullptr, true)) return kOpen;
            std::copy(point_.x.begin(), point_.x.end(), x);
            return kBroken;
        }
        for (bool root = true; !stack.empty(); root = false) {
            if (now() > end_) {
                for (const Node& n : stack) bound = std::min(bound, n.bound);
                return kOpen;
            }
            Node node = std::move(stack.back());
            stack.pop_back();
            ++nodes;
            if (!node.lam.empty()) dual_.lam = std::move(node.lam), dual_.mu = std::move(node.mu);
            if (node.rival != rival_) dual_.margin(rival_ = node.rival, target);
            switch (visit(node, root)) {
                case kBroken: std::copy(point_.x.begin(), point_.x.end(), x); return kBroken;
                case kTied:
                    if (ties <= room)
                        std::copy(point_.x.begin(), point_.x.end(), tied + (ties - 1) * cells_.F);
                    break;
                case kProven: break;
                default: branch(node, stack);
            }
        }
        if (ties > before || unresolved_) bound = std::min(bound, 0.0);
        if (unresolved_ || ties > before) return unresolved_ ? kOpen : kTied;
        certificate.end(target);
        return kProven;
    }

   private:
    const Cells& cells_;
    const Ensemble& e_;
    const uint8_t* allowed_;
    const Settings& settings_;
    double end_;
    Dual dual_;
    Point point_;
    Fitting fitting_;
    std::vector<double> scores_;
    std::vector<int32_t> tried_;  // the cells a point was last built from
    int64_t rival_ = -1;
    bool unresolved_ = false;

    int64_t first_rival(int64_t target) {
        e_.scores(cells_.x0, scores_.data());
        if (e_.outputs == 1) return allowed_[1 - target] ? -1 : 1 - target;
        return strongest_rival();
    }

    int64_t strongest_rival() const {
        int64_t best = -1;
        for (int64_t k = 0; k < e_.outputs; ++k)
            if (!allowed_[k] && (best < 0 || scores_[k] > scores_[best])) best = k;
        return best;
    }

    // Does the library's own sum at the point reach the goal? Within its rounding: kTied.
    Verdict judge(const double* x) {
        e_.scores(x, scores_.data());
        const bool goal = allowed_[e_.label(scores_.data())];
        double gap = e_.outputs == 1 ? scores_[0] - e_.cut : 0.0;
        if (e_.outputs > 1) {
            double inside = -kInf, outside = -kInf;
            for (int64_t k = 0; k < e_.outputs; ++k)
                (allowed_[k] ? inside : outside) = std::max(allowed_[k] ? inside : outside, scores_[k]);
            gap = inside - outside;
        }
        if (!settings_.exact && std::fabs(gap) <= settings_.slack) return kTied;
        return goal ? kBroken : kProven;
    }

    bool reached() { return judge(point_.x.data()) == kBroken; }

    bool try_point(const Box& box) {
        if (dual_.best_cell == tried_) return false;
        tried_ = dual_.best_cell;
        for (bool greedy : {false, true}) {
            if (!point_.build(dual_.best_cell, box, &dual_, greedy)) continue;
            if (reached()) return true;
            point_.descend(dual_, 4);
            if (point_.valid() && reached()) return true;
            if (cells_.bound.empty()) break;
        }
        return false;
    }

    // Close the node as broken or proven, or leave it open with the best state in the dual.
    Verdict visit(Node& node, bool root) {
        if (!propagate(cells_, node.box)) return certificate.close(node.id, kNoRoom), kProven;
        dual_.enter(node.box);
        if (closed()) return bounded(node);
        const int64_t sweeps = root ? settings_.root_sweeps : settings_.sweeps;
        for (int64_t s = 0; s < 4 * sweeps + 20; ++s) {
            const double before = dual_.value;
            dual_.sweep(s % 2 == 0);
            if (!dual_.mu.empty()) dual_.multiply();
            if (dual_.value > settings_.slack) {
                dual_.enter(node.box);  // sums that were updated step by step, from scratch
                if (closed()) return bounded(node);
            }
            const double gain = dual_.value - before;
            // Beyond the usual number only while ten more like the last would close the box.
            const bool last = gain < 1e-9 || (s + 1 >= sweeps && dual_.value + 10 * gain < settings_.slack);
            if ((root || last) && try_point(node.box)) return kBroken;
            if (last || now() > end_) break;
        }
        node.bound = dual_.value;
        if (e_.outputs > 1) {  // the one that stands in the way at these cells
            const int64_t r = strongest_rival();
            if (scores_[r] > scores_[rival_]) node.rival = r;
        }
        if (dual_.free_features().empty()) return settle(node);
        return kOpen;
    }

    bool closed() const { return dual_.value - dual_.rounding > settings_.slack; }

    Verdict bounded(const Node& node) {
        certificate.close(node.id, dual_, node.box, rival_, [&] { return closed(); });
        return kProven;
    }

    // All features in one cell each: one label. Is there a valid point in it?
    Verdict settle(const Node& node) {
        const Box& box = node.box;
        std::vector<double> x(cells_.F);
        for (int64_t f = 0; f < cells_.F; ++f) x[f] = cells_.high[cells_.start[f] + box.low[f]];
        const Verdict verdict = judge(x.data());
        if (verdict == kProven) return certificate.close(node.id, kOneLabel), kProven;
        if (!point_.build(box.low, box, nullptr, true)) {
            const Fit fit = fitting_.run(box, 500, certificate, node.id);
            unresolved_ |= fit == Fit::kUnknown;
            if (fit != Fit::kFound) return kProven;
            point_.x = fitting_.x;
        }
        ties += verdict == kTied;
        return verdict;
    }

    // No valid point in the box, whatever the trees say? `limit` parts of it are looked at.
    bool empty(const Node& node, int limit) {
        Certificate none(false, 0);
        if (fitting_.run(node.box, limit, none, node.id) != Fit::kNone) return false;
        fitting_.run(node.box, limit, certificate, node.id);
        return true;
    }

    void branch(Node& node, std::vector<Node>& stack) {
        auto [f, side] = violated(dual_, node.box, true);  // if-thens and counts first
        if (f < 0) std::tie(f, side) = dual_.disagreement();
        if (f < 0) std::tie(f, side) = violated(dual_, node.box);
        if (f < 0) {  // trees and constraints agree, and yet no point: cut this cell off
            if (empty(node, 100)) return;
            f = dual_.free_features()[0], side = 1;
            for (int32_t g : dual_.free_features())
                if (node.box.high[g] - node.box.low[g] > node.box.high[f] - node.box.low[f]) f = g;
        }
        const int32_t c = dual_.best_cell[f];
        if (c == node.box.high[f]) side = -1;
        if (c == node.box.low[f]) side = 1;
        const int32_t last = side > 0 ? c : c - 1;  // of the lower child
        const int32_t lower = certificate.cut(node.id, f, cells_.high[cells_.start[f] + last]);
        const int32_t upper = lower + 1;
        Node near{node.box, {}, {}, node.bound, node.rival, side > 0 ? lower : upper};
        Node far{std::move(node.box), dual_.lam, dual_.mu, node.bound, node.rival,
                 side > 0 ? upper : lower};
        (side > 0 ? near : far).box.high[f] = last;
        (side > 0 ? far : near).box.low[f] = last + 1;
        stack.push_back(std::move(far));
        stack.push_back(std::move(near));
    }
};

}  // namespace
}  // namespace durometer

// verdict (rows,), point (rows, features): where broken; margin (rows,): a lower bound where a row
// stays open; ties (rows,): cells that only the library can tell, tied (rows, room, features): a point
// of each of the first of them. proof (rows, numbers): the certificates of proven rows, of proof_size
// (rows,) numbers; 0: none that fits.
DUROMETER_KERNEL(exact)(const durometer::Ensemble* ensemble, const durometer::Domain* domain, int64_t rows,
                    int64_t features, int64_t classes, int64_t threads, double seconds, double unit,
                    int64_t exact, int64_t root_sweeps, int64_t sweeps, const uint8_t* allowed,
                    int32_t* verdict, double* point, double* margin, int64_t* ties, int64_t room,
                    double* tied, int64_t* nodes, double* spent, int64_t numbers, double* proof, int64_t* proof_size) {
    using namespace durometer;
    return guarded([&] {
        each_row(rows, threads, [&](int64_t i) {
            const double begin = now(), end = begin + seconds;
            const uint8_t* goal = allowed + i * classes;
            const Cells cells(*ensemble, *domain, i);
            verdict[i] = kProven, margin[i] = kInf, nodes[i] = ties[i] = proof_size[i] = 0;
            if (!cells.empty) {
                const double slack = exact ? 1e-9 : row_slack(cells, unit);
                const Settings settings{slack, exact != 0, root_sweeps, sweeps};
                Search search(cells, goal, settings, end, numbers);
                search.tied = tied + i * room * features, search.room = room;
                std::vector<double> scores(ensemble->outputs);
                ensemble->scores(cells.x0, scores.data());
                std::vector<int64_t> targets;
                for (int64_t k = 0; k < classes; ++k)
                    if (goal[k]) targets.push_back(k);
                if (ensemble->outputs > 1)  // the likeliest first
                    std::stable_sort(targets.begin(), targets.end(),
                                     [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
                for (int64_t t : targets) {
                    const Verdict found = search.run(t, point + i * features);
                    if (found == kBroken) {
                        verdict[i] = kBroken;
                        break;
                    }
                    if (found == kOpen || (found == kTied && verdict[i] == kProven)) verdict[i] = found;
                }
                if (verdict[i] == kProven && search.certificate.wanted) {
                    const std::vector<double> all = search.certificate.all();
                    proof_size[i] = static_cast<int64_t>(all.size());
                    std::copy(all.begin(), all.end(), proof + i * numbers);
                }
                margin[i] = search.bound, nodes[i] = search.nodes, ties[i] = search.ties;
            }
            spent[i] = now() - begin;
        });
    });
}
