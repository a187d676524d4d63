// Boxes of cells, one record: what reaches them, how features are grouped, what bounds them.
//
// A box is a first and a last cell per local feature. The steps have files of their own: reach.cpp,
// grouping.cpp, joint_margins.cpp, enumerate.cpp, leaf_tables.cpp, separate.cpp, convolution.cpp,
// meet_in_the_middle.cpp; box.cpp puts them together, branch_and_bound.cpp searches.
#pragma once

#include "trees.h"

namespace durometer::probability {

struct Box {
    const int32_t *lo, *hi;  // (features,) first and last cell
};

// The nodes of every tree that a box reaches, and whether the worst or the best case settles it.
struct Reached {
    int state = kOpen;
    double slack = 0.0;
    Doubles margin;       // (rivals,) of the settled trees
    Int32s node, parent;  // nodes tree by tree, parents first
    Bytes side;           // 0 left, 1 right child
    Int64s begin;         // where each open tree begins, and the end
    Bytes used;           // (cells,) a reachable test cuts above this cell
    Doubles moves;        // per open tree: its range, summed over the rivals

    int64_t trees() const { return static_cast<int64_t>(begin.size()) - 1; }
};

void reach(const Local& m, const Box& box, Reached& r);

// Cells that nothing separates in the box are one; features that nothing asks about are left out.
struct Merged {
    Int32s cell;           // local cell -> merged cell
    Int64s name;           // local feature -> its number here, -1 if it does not matter
    Int64s members;        // number here -> local feature
    Int64s sizes, flat;    // merged cells of each, where they begin
    Doubles weight, below;  // chance of a merged cell, of it and all below it
    Int64s cut;            // the last local cell of a merged cell

    int64_t active() const { return static_cast<int64_t>(members.size()); }
    int32_t at(const Local& m, int32_t node) const {
        return cell[m.start[m.nf[node]] + m.nc[node]];
    }
};

void merge(const Local& m, const Box& box, const Bytes& used, Merged& g);

// Margins of all joint cells of the features in `order` (fastest first), from the trees `mine`, added
// to table (rivals, joint); and to error, unless it is empty, what rounding may do. Returns the work.
int64_t joint_margins(const Local& m, const Reached& r, const Merged& g, const Int64s& mine,
                      const Int64s& order, int64_t rivals, Doubles& table, Doubles& error);
Doubles joint_chances(const Merged& g, const Int64s& order);
bool doubtful(const Local& m, const Reached& r);

struct Tied {
    Int32s cell;  // (features,) one cell of the box
    double mass;
};

// What is known about a box after it was examined.
struct Finding {
    int state = kOpen;
    double low = 0.0, high = 1.0;
    int64_t feature = -1, cut = -1;  // where to split it
    double log_cells = 0.0;          // of an open box
    bool by_moments = false;         // Cantelli said more than the tables
    std::vector<Tied> tied;          // undecided cells of a listed box
    int64_t work = 0;                // about nanoseconds
};

struct Limits {
    int64_t widest, bins, listed, crossed;
};

// A small box, cell by cell; false if more than `most` of its cells are within rounding of zero.
bool enumerate(const Local& m, const Reached& r, const Merged& g, const Box& box, int64_t joint,
               size_t most, Finding& found);

// Features joined into groups, and the tables of their joint cells.
struct Groups {
    Int64s group;         // leader of each feature's group
    Int64s cells;         // joint cells of each leader's group
    Int64s start, stride;  // first entry of each leader's table; of each feature in it
    int64_t entries = 0;
    Doubles chance;  // per entry
};

struct Shared {
    Int64s begin, features;  // features of each tree, flat
    Doubles tied;            // (active, active) how strongly a pair is tied
};

void shared(const Local& m, const Reached& r, const Merged& g, Shared& s);
void group(const Merged& g, Doubles& tied, int64_t widest, Groups& out);

// One tree inside a box, by its own few cells: those between its own cuts.
struct LeafTable {
    const int64_t* features = nullptr;  // the tree's, by their numbers in Merged
    int64_t k = 0;
    std::vector<Int32s> cuts;  // per feature of the tree, sorted merged cells
    Int64s parts;              // intervals per feature
    Int32s lo, hi;             // (nodes, k) own intervals
    Int64s where;              // number in Merged -> place among the tree's
    Int32s leaf, at;           // the leaves: node, row of lo and hi
    Int64s place, substride;   // each feature's group among the tree's, stride in it
    Int64s leader, subsize;    // per group of the tree
    Int64s meet_start;         // (leaves x groups + 1)
    Int32s meets;              // own cells of a group that a leaf meets
    Doubles share;             // (groups, most) chance of an own cell
    int64_t most = 1;          // own cells of the largest group

    int64_t leaves() const { return static_cast<int64_t>(leaf.size()); }
    int64_t groups() const { return static_cast<int64_t>(leader.size()); }
};

void tabulate(const Local& m, const Reached& r, const Merged& g, const Shared& s,
              const Groups& groups, int64_t tree, LeafTable& t);
// Adds, for every cut, `worth` times the share of the tree's leaves that a split there removes.
void vanishing(const LeafTable& t, const Merged& g, double worth, Doubles& saved, Doubles& tilt);

// A tree that spans groups, between two sums of functions of one group each.
struct Separated {
    Doubles below, above;     // (groups, most)
    Doubles low, high, rest;  // room
};

double separate(const LeafTable& t, const Doubles& value, const Doubles& error, Separated& s);
// Adds a tree's function of group h to the group's table, as differences along each feature.
void spread(const LeafTable& t, const Groups& groups, int64_t h, const double* values,
            double* table, Doubles& d, Int64s& cell);
void sum_up(const Merged& g, const Groups& groups, double* table);

// P(base + table[cell] + sum of the other groups > 0) per cell of `final`, rounded down or up;
// returns the work.
int64_t tails(const double* table, const Doubles& chance, const Int64s& leaders,
              const Int64s& table_start, const Int64s& cells, int64_t final, double base,
              double step, int64_t bins, bool up, double* out);

// A box that falls apart once a few features are fixed; false if that takes more than `most` steps.
bool meet_in_the_middle(const Local& m, const Box& box, int64_t most, Finding& found);

// Cantelli's inequality with the exact mean and variance of every margin: raises low, lowers high, and
// chooses the split if that was worth it.
void by_moments(const Local& m, const Reached& r, const Merged& g, Finding& found);

// `moments`: worth a try in this box.
void examine(const Local& m, const Box& box, const Limits& limits, size_t ties, bool moments,
             Finding& found);

}  // namespace durometer::probability
