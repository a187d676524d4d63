// What every compiled kernel shares: the C interface, the status it returns, rows in threads.
//
// A kernel is `DUROMETER_KERNEL(name)(sizes, arrays, ...)`, declared once more in Python with the same
// order (native.py). It returns `guarded([&] { ... })`: no C++ exception may cross the C interface.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#if defined(_WIN32)
#define DUROMETER_EXPORT extern "C" __declspec(dllexport)
#else
#define DUROMETER_EXPORT extern "C" __attribute__((visibility("default")))
#endif
#define DUROMETER_KERNEL(name) DUROMETER_EXPORT int32_t durometer_##name

// Loops over neighbours in memory, or full of roundings: compiled twice, for processors with and
// without wide registers.
// The arithmetic is the same, element by element.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define DUROMETER_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define DUROMETER_WIDE
#endif

namespace durometer {

enum Status : int32_t { kDone = 0, kNoMemory = 1, kFailed = 2 };

template <class Body>
int32_t guarded(Body&& body) {
    try {
        body();
        return kDone;
    } catch (const std::bad_alloc&) {
        return kNoMemory;
    } catch (...) {
        return kFailed;
    }
}

// body(row) for every row, the next free row to the next free thread. A row never looks at another,
// so the number of threads changes nothing but the time. The first failure stops all of them.
template <class Body>
void each_row(int64_t rows, int64_t threads, Body&& body) {
    threads = std::max<int64_t>(1, std::min(threads, rows));
    if (threads == 1) {
        for (int64_t i = 0; i < rows; ++i) body(i);
        return;
    }
    std::atomic<int64_t> next{0};
    std::atomic<int32_t> status{kDone};
    auto work = [&] {
        for (int64_t i; status == kDone && (i = next++) < rows;) {
            int32_t s = guarded([&] { body(i); });
            if (s != kDone) status = s;
        }
    };
    std::vector<std::thread> pool;
    for (int64_t t = 1; t < threads; ++t) pool.emplace_back(work);
    work();
    for (auto& thread : pool) thread.join();
    if (status == kNoMemory) throw std::bad_alloc();
    if (status != kDone) throw status.load();
}

}  // namespace durometer
