// A forest on one record's cells, with one feature left open: what the tables are made of.
#pragma once

#include <cstdint>

namespace durometer::probability {

// The same fields in the same order as in estimated/score_tables.py.
struct Forest {
    int64_t nodes, scores, features, ends;
    const int32_t *nf, *nc, *nl, *nr;
    const double* score;  // (nodes, scores), zero but at leaves
    const double* base;
    double slack;
    const int64_t* start;  // first cell of each feature
    int64_t last;          // the open feature
};

}  // namespace durometer::probability
