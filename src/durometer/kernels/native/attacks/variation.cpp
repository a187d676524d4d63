// MOEVA's mating, row by row: parents, two-point crossover, polynomial mutation; what they are and
// why each kind of gene has a rate of its own stands in attacks/evolution/variation.py.
#include <cmath>
#include <numeric>

#include "kernel.h"
#include "splitmix.h"

namespace {

// The same fields in the same order as `MATING` in attacks/evolution/variation.py.
struct Mating {
    int64_t ends, kinds;    // ends = kinds + 1
    const int64_t* first;   // (ends,) first gene of each kind
    const uint8_t* whole;   // (kinds,)
    double rate, eta;       // of crossover; of polynomial mutation
};

// Polynomial mutation of one gene by the random number u (Deb & Agrawal 1999).
double mutated(double value, double low, double high, double u, double eta) {
    const double span = high - low, power = eta + 1.0;
    double move;
    if (u <= 0.5) {
        const double rest = 1.0 - (value - low) / span;
        move = std::pow(2.0 * u + (1.0 - 2.0 * u) * std::pow(rest, power), 1.0 / power) - 1.0;
    } else {
        const double rest = 1.0 - (high - value) / span;
        move = 1.0 - std::pow(2.0 * (1.0 - u) + (2.0 * u - 1.0) * std::pow(rest, power), 1.0 / power);
    }
    return std::min(std::max(value + move * span, low), high);
}

// Draws without replacement; a draw of half the population starts anew with all of it.
std::vector<int64_t> parents(durometer::SplitMix& random, int64_t population, int64_t wanted) {
    std::vector<int64_t> order(population), chosen(wanted);
    std::iota(order.begin(), order.end(), 0);
    const int64_t half = std::max<int64_t>(population / 2, 1);
    for (int64_t start = 0; start < wanted; start += half) {
        const int64_t some = std::min(half, wanted - start);
        random.shuffle(order, some);
        std::copy_n(order.begin(), some, chosen.begin() + start);
    }
    return chosen;
}

template <class T>
void vary(const Mating& mating, uint64_t word, int64_t population, int64_t children, int64_t genes,
          const T* parent, const T* low, const T* high, T* child) {
    durometer::SplitMix random{word};
    const auto part = [&](int64_t of) { return static_cast<int64_t>(random.uniform() * static_cast<double>(of)); };
    const int64_t matings = children / 2;
    const std::vector<int64_t> who = parents(random, population, 2 * matings);
    for (int64_t k = 0; k < matings; ++k) {
        T *a = child + k * genes, *b = child + (matings + k) * genes;
        std::copy_n(parent + who[2 * k] * genes, genes, a);
        std::copy_n(parent + who[2 * k + 1] * genes, genes, b);
        for (int64_t kind = 0; kind < mating.kinds; ++kind) {
            const int64_t start = mating.first[kind], size = mating.first[kind + 1] - start;
            if (size < 2 || random.uniform() >= mating.rate) continue;
            const int64_t cut = 1 + part(size - 1);
            int64_t end = size;
            if (size > 2) {  // two different cuts of 1..size-1
                end = 1 + part(size - 2);
                end += end >= cut;
            }
            std::swap_ranges(a + start + std::min(cut, end), a + start + std::max(cut, end),
                             b + start + std::min(cut, end));
        }
    }
    for (int64_t kind = 0; kind < mating.kinds; ++kind) {
        const int64_t start = mating.first[kind], size = mating.first[kind + 1] - start;
        if (size == 0) continue;
        const bool whole = mating.whole[kind];
        const double margin = whole ? 0.5 : 0.0;
        // How many genes are passed over before the next one mutates, each with chance 1 / size.
        const double miss = std::log1p(-1.0 / static_cast<double>(size));
        const auto skip = [&] {
            return size == 1 ? 0 : static_cast<int64_t>(std::log1p(-random.uniform()) / miss);
        };
        int64_t place = skip();
        while (place < 2 * matings * size) {
            const int64_t g = start + place % size;
            T& gene = child[place / size * genes + g];
            place += 1 + skip();
            const double bottom = low[g], top = high[g];
            if (!(bottom < top)) continue;
            double value = mutated(gene, bottom - margin, top + margin, random.uniform(), mating.eta);
            if (whole) value = std::min(std::max(std::rint(value), bottom), top);
            gene = static_cast<T>(value);
        }
    }
}

}  // namespace

#define DUROMETER_VARY(T, kind)                                                                              \
    DUROMETER_KERNEL(vary_##kind)(const Mating* mating, int64_t rows, int64_t population, int64_t children,  \
                              int64_t genes, int64_t threads, const uint64_t* words, const T* parent,    \
                              const T* low, const T* high, T* child) {                                   \
        return durometer::guarded([&] {                                                                      \
            durometer::each_row(rows, threads, [&](int64_t r) {                                              \
                vary<T>(*mating, words[r], population, children, genes, parent + r * population * genes, \
                        low + r * genes, high + r * genes, child + r * children * genes);                \
            });                                                                                          \
        });                                                                                              \
    }

DUROMETER_VARY(float, float32)
DUROMETER_VARY(double, float64)
