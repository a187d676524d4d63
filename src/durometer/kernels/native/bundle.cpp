// Copying a bundle's arrays out, and freeing it; see bundle.py.
#include "bundle.h"

using durometer::Bundle;

DUROMETER_KERNEL(bundle_sizes)(int64_t handle, int64_t arrays, int64_t* bytes) {
    const auto& kept = reinterpret_cast<const Bundle*>(handle)->arrays;
    if (static_cast<int64_t>(kept.size()) != arrays) return durometer::kFailed;
    for (int64_t i = 0; i < arrays; ++i) bytes[i] = static_cast<int64_t>(kept[i].size());
    return durometer::kDone;
}

// All arrays, one behind the other; frees the bundle.
DUROMETER_KERNEL(bundle_take)(int64_t handle, int64_t bytes, uint8_t* out) {
    auto* bundle = reinterpret_cast<Bundle*>(handle);
    int64_t at = 0;
    for (const auto& a : bundle->arrays) {
        if (at + static_cast<int64_t>(a.size()) > bytes) return durometer::kFailed;
        if (!a.empty()) std::memcpy(out + at, a.data(), a.size());
        at += static_cast<int64_t>(a.size());
    }
    delete bundle;
    return durometer::kDone;
}
