// `draws` uniform numbers from each row's word: what the tests compare with the numpy twin.
#include "splitmix.h"

#include "kernel.h"

ASSAY_KERNEL(splitmix)(int64_t rows, int64_t draws, int64_t threads, const uint64_t* word,
                       double* out) {
    return assay::guarded([&] {
        assay::each_row(rows, threads, [&](int64_t i) {
            assay::SplitMix random{word[i]};
            for (int64_t k = 0; k < draws; ++k) out[i * draws + k] = random.uniform();
        });
    });
}
