// Random numbers inside a kernel: SplitMix64 (Steele et al. 2014), started by one word of the row's
// own stream, so that a row's numbers are a function of (seed, id, draw) alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace durometer {

struct SplitMix {
    uint64_t word;

    uint64_t next() {
        word += 0x9E3779B97F4A7C15u;
        uint64_t w = word;
        w = (w ^ (w >> 30)) * 0xBF58476D1CE4E5B9u;
        w = (w ^ (w >> 27)) * 0x94D049BB133111EBu;
        return w ^ (w >> 31);
    }

    double uniform() {  // in [0, 1)
        return static_cast<double>(next() >> 11) * 0x1p-53;
    }

    // The first `count` places of `order` become a random draw without replacement from it.
    void shuffle(std::vector<int64_t>& order, int64_t count) {
        const int64_t last = static_cast<int64_t>(order.size());
        for (int64_t i = 0; i < std::min(count, last - 1); ++i)
            std::swap(order[i], order[i + static_cast<int64_t>(uniform() * static_cast<double>(last - i))]);
    }
};

}  // namespace durometer
