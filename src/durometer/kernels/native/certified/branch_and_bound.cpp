// Best-first branch and bound over boxes of cells: certified bounds on P(every margin > 0) for one
// record.
//
// A box is a range of cells per feature. `examine` settles it or bounds its probability; the open box
// with the largest gap (mass times width) is next: it is resolved if it falls apart into halves
// (meet_in_the_middle.cpp), else split where `examine` says. The bounds of all boxes add up, and the
// best ever seen are kept, since a split may loosen them for a while.
//
// What a reader would get wrong: the budget is *work* (nodes and table entries touched), not seconds,
// so that the same call gives the same bounds on any machine and with any number of threads. And it is
// not always spent: see `run`.
#include "certified/branch_and_bound.h"

#include <cmath>
#include <queue>

namespace durometer::probability {
namespace {

enum Halves : uint8_t { kUntried, kUseless, kMet };
constexpr size_t kTies = 64;         // undecided cells that a listed box may have
constexpr double kHardly = 0.92;

struct Node {
    Int32s lo, hi;
    double weight = 1.0, low = 0.0, high = 0.0;
    int64_t feature = -1, cut = -1, number = 0;
    Halves halves = kUntried;
    bool by_moments = false;  // they helped in the box it came from
};

struct Narrower {  // the heap's top is the widest, the first born of equal ones
    const std::vector<Node>* nodes;
    bool operator()(int32_t a, int32_t b) const {
        const Node &x = (*nodes)[a], &y = (*nodes)[b];
        const double p = x.high - x.low, q = y.high - y.low;
        return p < q || (p == q && x.number > y.number);
    }
};

class Search {
   public:
    Search(const Local& m, const Limits& limits, bool moments)
        : m_(m), limits_(limits), heap_({&nodes_}) {
        Node whole;
        whole.by_moments = moments;
        whole.lo.assign(m.features(), 0);
        for (int64_t f = 0; f < m.features(); ++f)
            whole.hi.push_back(static_cast<int32_t>(m.start[f + 1] - m.start[f] - 1));
        nodes_.push_back(std::move(whole));
    }

    Searched run(double tolerance, int64_t budget, const volatile int64_t* stop) {
        look(0);
        keep_best();
        // a gap that a doubling of the work hardly narrows will not close: leave the rest to draws
        double before = gap();
        int64_t look_at = budget / 16;
        while (!heap_.empty() && gap() > tolerance && work_ < budget && !*stop) {
            go_on();
            if (work_ < look_at) continue;
            if (gap() > kHopeless && gap() > kHardly * before) break;
            before = gap();
            look_at = 2 * work_;
        }
        Searched s;
        // what running sums over so many boxes, and over the cells of one, can lose
        const double drift =
            1e-15 * (static_cast<double>(born_) + static_cast<double>(ties_.size()) + 1) +
            1.2e-16 * static_cast<double>(limits_.listed + 2 * limits_.crossed);
        s.low = best_low_ - drift;
        s.high = best_high_ + drift;
        s.work = work_;
        s.tied = std::move(ties_);
        double known_low = 0.0, known_high = 0.0;
        for (; !heap_.empty(); heap_.pop()) {
            Node& node = nodes_[heap_.top()];
            if (node.halves == kMet) {  // known but for rounding
                known_low += node.low;
                known_high += node.high;
            } else {
                s.open.push_back({std::move(node.lo), std::move(node.hi), node.weight});
            }
        }
        s.sure_low = sure_low_ + known_low - drift;
        s.sure_high = sure_high_ + known_high + drift;
        return s;
    }

   private:
    double gap() const { return best_high_ - best_low_ - tied_; }

    void go_on() {
        const int32_t i = heap_.top();
        heap_.pop();
        if (nodes_[i].halves == kUntried) {
            const bool met = meet_in_the_middle(m_, {nodes_[i].lo.data(), nodes_[i].hi.data()},
                                                limits_.crossed, found_);
            work_ += found_.work;
            if (met) {
                open_low_ -= nodes_[i].low;
                open_high_ -= nodes_[i].high;
                nodes_[i].halves = kMet;
                open(i);
                keep_best();
                return;
            }
        }
        const int32_t other = split(i);
        if (nodes_[i].weight > 0.0) look(i);
        if (other >= 0) look(other);
        keep_best();
    }

    // Cuts a box in two, the lower part in place; returns the upper one, -1 if only one has mass.
    int32_t split(int32_t i) {
        open_low_ -= nodes_[i].low;
        open_high_ -= nodes_[i].high;
        const int64_t f = nodes_[i].feature, cut = nodes_[i].cut;
        double below = 0.0, above = 0.0;
        for (int64_t j = nodes_[i].lo[f]; j <= nodes_[i].hi[f]; ++j)
            (j <= cut ? below : above) += m_.mass[m_.start[f] + j];
        const double share = below / (below + above);
        if (below <= 0.0) {
            nodes_[i].lo[f] = static_cast<int32_t>(cut + 1);
            return -1;
        }
        const double weight = nodes_[i].weight;
        int32_t other = -1;
        if (above > 0.0) {
            Node upper = nodes_[i];
            upper.lo[f] = static_cast<int32_t>(cut + 1);
            upper.weight = weight * (1 - share);
            other = fresh(std::move(upper));
        }
        nodes_[i].hi[f] = static_cast<int32_t>(cut);
        nodes_[i].weight = weight * share;
        return other;
    }

    int32_t fresh(Node&& node) {
        if (free_.empty()) {
            nodes_.push_back(std::move(node));
            return static_cast<int32_t>(nodes_.size() - 1);
        }
        const int32_t i = free_.back();
        free_.pop_back();
        nodes_[i] = std::move(node);
        return i;
    }

    void look(int32_t i) {
        examine(m_, {nodes_[i].lo.data(), nodes_[i].hi.data()}, limits_, kTies,
                nodes_[i].by_moments, found_);
        Node& node = nodes_[i];
        node.by_moments = found_.by_moments;
        work_ += found_.work;
        ++born_;
        if (found_.state == kCell) {
            ties_.push_back({node.lo, node.weight});
            tied_ += node.weight;
        } else if (found_.state == kOpen && found_.high - found_.low > 1e-15) {
            const bool useless =
                m_.rivals > 1 ||
                found_.log_cells > 2 * std::log(static_cast<double>(limits_.crossed));
            node.halves = useless ? kUseless : kUntried;
            open(i);
            return;
        } else {
            if (found_.state == kYes) found_.low = found_.high = 1.0;
            if (found_.state == kNo) found_.low = found_.high = 0.0;
            for (Tied& t : found_.tied) {
                t.mass *= node.weight;
                tied_ += t.mass;
                ties_.push_back(std::move(t));
            }
            sure_low_ += node.weight * found_.low;
            sure_high_ += node.weight * found_.high;
        }
        free_.push_back(i);
    }

    void open(int32_t i) {
        Node& node = nodes_[i];
        node.low = node.weight * found_.low;
        node.high = node.weight * found_.high;
        node.feature = found_.feature;
        node.cut = found_.cut;
        node.number = born_;
        open_low_ += node.low;
        open_high_ += node.high;
        heap_.push(i);
    }

    void keep_best() {
        best_low_ = std::max(best_low_, sure_low_ + open_low_);
        best_high_ = std::min(best_high_, sure_high_ + open_high_ + tied_);
    }

    const Local& m_;
    const Limits limits_;
    std::vector<Node> nodes_;
    Int32s free_;
    std::priority_queue<int32_t, Int32s, Narrower> heap_;
    std::vector<Tied> ties_;
    Finding found_;
    double sure_low_ = 0.0, sure_high_ = 0.0, open_low_ = 0.0, open_high_ = 0.0, tied_ = 0.0;
    double best_low_ = 0.0, best_high_ = 1.0;
    int64_t work_ = 0, born_ = 0;
};

}  // namespace

Searched search(const Local& m, double tolerance, int64_t budget, const Limits& limits, bool moments,
                const volatile int64_t* stop) {
    return Search(m, limits, moments).run(tolerance, budget, stop);
}

}  // namespace durometer::probability
