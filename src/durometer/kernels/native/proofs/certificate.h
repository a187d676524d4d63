// What a proof leaves behind for somebody else to check: the tree of cuts that the search made, and
// for each part of it what refutes it. Every number is a double; docs/proofs.md has the format.
//
// Any potentials and any multipliers >= 0 give a valid bound, so they are written on the coarsest
// grid on which the part is still refuted: few numbers that are not 0, and small ones.
#pragma once

#include "proofs/dual.h"

namespace durometer {

enum Why : int32_t { kNoRoom = 0, kCut = 1, kBounded = 2, kOneLabel = 3 };

class Certificate {
   public:
    bool wanted;

    Certificate(bool want, int64_t most) : wanted(want), most_(most) {}

    void begin() { nodes_.assign(1, {}); }  // the tree of one target; its root is 0

    // Cut a part at `feature <= at`: the lower child, whose successor is the upper one.
    int32_t cut(int32_t id, int32_t feature, double at) {
        if (!wanted) return 0;
        const int32_t child = static_cast<int32_t>(nodes_.size());
        nodes_[id].why = {double{kCut}, static_cast<double>(feature), at};
        nodes_[id].child = child;
        nodes_.resize(child + 2);
        return keep(3), child;
    }

    void close(int32_t id, Why why) {
        if (wanted) nodes_[id].why = {static_cast<double>(why)}, keep(1);
    }

    // Close a part by the bound of the dual as it is in this box; `closed` asks whether it refutes.
    template <class Closed>
    void close(int32_t id, Dual& dual, const Box& box, int64_t rival, const Closed& closed) {
        if (!wanted) return;
        const std::vector<double> lam = dual.lam;
        double largest = 0.0;
        for (double v : lam) largest = std::max(largest, std::fabs(v));
        double grid = std::exp2(std::ceil(std::log2(largest > 0 ? largest : 1.0)) + 1);
        for (int tries = 0; tries < 20; ++tries, grid /= 4) {
            for (size_t k = 0; k < lam.size(); ++k) dual.lam[k] = grid * std::rint(lam[k] / grid);
            dual.enter(box);
            if (closed()) break;
            if (tries == 19) dual.lam = lam, grid = 1.0, dual.enter(box);
        }
        std::vector<double>& out = nodes_[id].why;
        out = {double{kBounded}, static_cast<double>(rival), grid, 0.0};
        for (size_t r = 0; r < dual.mu.size(); ++r)
            if (dual.mu[r] > 0) out.push_back(static_cast<double>(r)), out.push_back(dual.mu[r]), ++out[3];
        const size_t count = out.size();
        out.push_back(0.0);
        dual.each_potential([&](const Pair& p, int32_t tree, int32_t a, int32_t b) {
            const double* l = dual.lam.data() + p.lam;
            if (std::all_of(l + a, l + b + 1, [](double v) { return v == 0; })) return;
            out.insert(out.end(), {double(tree), double(p.feature), double(b - a + 1)});
            for (int32_t k = a; k < b; ++k) out.push_back(dual.cells.threshold_after(p, k));
            for (int32_t k = a; k <= b; ++k) out.push_back(l[k] / grid);
            ++out[count];
        });
        keep(static_cast<int64_t>(out.size()));
    }

    // Everything so far proves that `target` cannot be reached.
    void end(int64_t target) {
        if (!wanted) return;
        ++targets_, keep(1);
        if (!wanted) return;
        written_.push_back(static_cast<double>(target));
        std::vector<int32_t> stack{0};
        while (!stack.empty()) {
            const Part& part = nodes_[stack.back()];
            stack.pop_back();
            written_.insert(written_.end(), part.why.begin(), part.why.end());
            if (part.child) stack.push_back(part.child + 1), stack.push_back(part.child);
        }
    }

    std::vector<double> all() const {
        std::vector<double> out{static_cast<double>(targets_)};
        out.insert(out.end(), written_.begin(), written_.end());
        return out;
    }

   private:
    struct Part {
        std::vector<double> why;
        int32_t child = 0;
    };
    std::vector<Part> nodes_;
    std::vector<double> written_;
    int64_t targets_ = 0, kept_ = 1, most_;

    void keep(int64_t numbers) {  // a proof of this size is of no use to anybody
        if ((kept_ += numbers) > most_) wanted = false, nodes_.assign(1, {});
    }
};

}  // namespace durometer
