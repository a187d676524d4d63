// Arrays whose lengths a kernel finds out: kept here until Python has copied them out.
#pragma once

#include <cstring>
#include <vector>

#include "kernel.h"

namespace durometer {

struct Bundle {
    std::vector<std::vector<uint8_t>> arrays;

    template <class T>
    void add(const std::vector<T>& a) {
        arrays.emplace_back(a.size() * sizeof(T));
        if (!a.empty()) std::memcpy(arrays.back().data(), a.data(), arrays.back().size());
    }
};

}  // namespace durometer
