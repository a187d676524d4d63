// What the referee asks of every answer: how far from the goal it is, whether it reaches it, and
// whether anything would change if it counted. problem/referee.py has the same in torch.
#include <cmath>
#include <limits>

#include "kernel.h"

namespace {

// seen (3, n): a hit, all numbers finite, a hit or nearer than what was known.
template <class T>
void judge(int64_t n, int64_t classes, double slack, const T* logits, const bool* targets, const int64_t* rows,
           const double* nearest, T* margin, bool* seen) {
    for (int64_t i = 0; i < n; ++i) {
        const T* z = logits + i * classes;
        const bool* wanted = targets + rows[i] * classes;
        T best[2] = {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::lowest()}, size = 0;
        bool number = true;
        for (int64_t c = 0; c < classes; ++c) {
            T& top = best[wanted[c]];
            top = z[c] > top ? z[c] : top;
            const T a = std::fabs(z[c]);
            size = a > size ? a : size;
            number = number && z[c] == z[c];
        }
        // The first of the largest decides, as in an arg-max.
        int64_t first = 0;
        for (int64_t c = 1; c < classes; ++c)
            if (z[c] > z[first]) first = c;
        margin[i] = number ? best[1] - best[0] : std::numeric_limits<T>::quiet_NaN();
        const bool hit = slack > 0.0 ? margin[i] > size * T(slack) : wanted[first];
        const bool finite = number && size < std::numeric_limits<T>::infinity();
        const bool matters = finite && (hit || double(margin[i]) > nearest[rows[i]]);
        seen[i] = hit;
        seen[n + i] = finite;
        seen[2 * n + i] = matters;
    }
}

}  // namespace

#define DUROMETER_JUDGE(T, kind)                                                                              \
    DUROMETER_KERNEL(judge_##kind)(int64_t n, int64_t classes, int64_t batch, double slack, const T* logits,     \
                               const bool* targets, const int64_t* rows, const double* reached, T* margin,   \
                               bool* seen) {                                                              \
        (void)batch;                                                                                         \
        return durometer::guarded(                                                                               \
            [&] { judge<T>(n, classes, slack, logits, targets, rows, reached, margin, seen); });             \
    }

DUROMETER_JUDGE(float, float32)
DUROMETER_JUDGE(double, float64)
