// Uniform numbers from each row's word. `splitmix` gives what kernels draw for themselves, in [0, 1); the tests
// compare it with its numpy twin. `uniforms` gives what streams.py draws, in (0, 1) on a grid of 2^-52.
#include "splitmix.h"

#include "kernel.h"

DUROMETER_KERNEL(splitmix)(int64_t rows, int64_t draws, int64_t threads, const uint64_t* word,
                       double* out) {
    return durometer::guarded([&] {
        durometer::each_row(rows, threads, [&](int64_t i) {
            durometer::SplitMix random{word[i]};
            for (int64_t k = 0; k < draws; ++k) out[i * draws + k] = random.uniform();
        });
    });
}

DUROMETER_KERNEL(uniforms)(int64_t rows, int64_t draws, int64_t threads, const int64_t* word, double* out) {
    return durometer::guarded([&] {
        durometer::each_row(rows, threads, [&](int64_t i) {
            durometer::SplitMix random{static_cast<uint64_t>(word[i])};
            for (int64_t k = 0; k < draws; ++k)
                out[i * draws + k] = (static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52;
        });
    });
}
