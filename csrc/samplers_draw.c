/* Exact integer samplers that read uniform 64-bit words: discrete Gaussian, Poisson, and shares of a discrete Laplace.
 *
 * The first is a rejection sampler from a discrete Laplace distribution, after Canonne, Kamath and Steinke, "The
 * Discrete Gaussian for Differential Privacy" (2020), cited below as CKS; the second is one from a histogram; the third
 * thins a Poisson process. There is no floating-point number in this file.
 *
 * An *attempt* proposes one value and accepts or rejects it. When the words run out in the middle of an attempt, the
 * attempt is forgotten and its words count as unread, so that the values drawn depend on the words alone and not on how
 * they were cut into buffers. Running time depends on the values drawn; nothing here is constant-time.
 */

#include "samplers.h"

typedef unsigned __int128 uint128;

/* ---- words ---- */

/* The next word; zero, and `dry`, when there is none. Every loop below that a zero word would prolong looks at `dry`.
 */
static inline uint64_t next_word(Words *words)
{
    if (words->next == words->end) {
        words->dry = 1;
        return 0;
    }
    return *words->next++;
}

/* Uniform on [0, bound), 1 <= bound < 2^64: Lemire, "Fast Random Integer Generation in an Interval" (2019). */
static inline uint64_t below(Words *words, uint64_t bound)
{
    uint128 product = (uint128)next_word(words) * bound;
    if ((uint64_t)product < bound) {
        uint64_t excess = -bound % bound; /* 2^64 mod bound */
        while ((uint64_t)product < excess && !words->dry)
            product = (uint128)next_word(words) * bound;
    }
    return (uint64_t)(product >> 64);
}

/* Uniform on [0, bound), bound >= 2^64: two words, low one first, cut to the length of bound, drawn until they fit. */
static inline uint128 below_wide(Words *words, uint128 bound)
{
    uint64_t mask = UINT64_MAX >> __builtin_clzll((uint64_t)(bound >> 64));
    uint128 value;
    do {
        value = next_word(words);
        value |= (uint128)(next_word(words) & mask) << 64;
    } while (value >= bound && !words->dry);
    return value;
}

/* ---- coins ---- */

/* Bernoulli(numerator / denominator), exactly. */
static inline int coin(Words *words, uint128 numerator, uint128 denominator)
{
    if (denominator >> 64)
        return below_wide(words, denominator) < numerator;
    return below(words, (uint64_t)denominator) < numerator;
}

/* The first 256 binary digits of exp(-1). */
static const uint64_t EXP_MINUS_ONE[4] = {0x5e2d58d8b3bcdf1a, 0xbadec7829054f90d, 0xda9805aab56c7733,
                                          0x3024b9d0a507daed};

/* Bernoulli(constant): a uniform real, read word by word until it differs from the constant. The constant ends after
 * 256 digits, so each such coin is biased by less than 2^-256. */
static inline int constant_coin(Words *words, const uint64_t constant[4])
{
    for (int i = 0; i < 4; i++) {
        uint64_t word = next_word(words);
        if (word != constant[i])
            return word < constant[i];
    }
    return 0;
}

/* Bernoulli(exp(-numerator / denominator)) for numerator <= denominator < 2^100: CKS Algorithm 1, first case. The round
 * is counted from 1; round * denominator stays below 2^128, as round 2^28 is reached with probability 1 / (2^28)!. */
static inline int exp_coin(Words *words, uint128 numerator, uint128 denominator)
{
    uint64_t round = 1;
    while (coin(words, numerator, round * denominator) && !words->dry)
        round++;
    return round & 1;
}

/* ---- the proposal ---- */

/* Proposals of 64 scales or more are rejected. The discrete Gaussian has less than exp(-2000) of its mass there. */
#define MAX_SCALES 64

/* X >= 0 with P(X = x) proportional to exp(-x / scale), 1 <= scale <= 2^40: CKS Algorithm 2. Below 2^47. */
static inline uint64_t geometric(Words *words, uint64_t scale)
{
    uint64_t remainder, scales = 0;
    do
        remainder = below(words, scale);
    while (!exp_coin(words, remainder, scale) && !words->dry);
    while (scales < MAX_SCALES && constant_coin(words, EXP_MINUS_ONE))
        scales++;
    return remainder + scale * scales;
}

static inline int is_negative(Words *words)
{
    return next_word(words) & 1;
}

enum { REJECTED, ACCEPTED, UNSETTLED };

/* ---- discrete Gaussian ---- */

/* One attempt at P(y) proportional to exp(-y^2 / (2 sigma^2)), sigma = scale / 2^shift, scale <= 2^40: CKS Algorithm 3
 * with the Laplace scale t = sigma, where the acceptance probability is exp(-(|y| - sigma)^2 / (2 sigma^2)).
 *
 * X has scale `scale`, so floor(X / 2^shift) has scale sigma (CKS Algorithm 2 with t / s = scale / 2^shift).
 * Ranges: |y| 2^shift <= X < 2^46, hence numerator < 2^92; denominator <= 2^81. */
static inline int attempt_gaussian(Words *words, uint64_t scale, int shift, int64_t *out)
{
    uint64_t x = geometric(words, scale);
    int negative = is_negative(words);
    uint64_t magnitude = x >> shift;
    if (x >= MAX_SCALES * scale || (negative && magnitude == 0))
        return REJECTED;

    uint64_t point = magnitude << shift;
    uint64_t distance = point > scale ? point - scale : scale - point;
    uint128 numerator = (uint128)distance * distance;
    uint128 denominator = (uint128)scale * scale * 2;
    for (; numerator > denominator; numerator -= denominator) /* CKS Algorithm 1, second case */
        if (!constant_coin(words, EXP_MINUS_ONE))
            return REJECTED;
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return exp_coin(words, numerator, denominator) ? ACCEPTED : REJECTED;
}

/* Draw up to `count` values; returns how many before the words ran out, and leaves words->next behind the last attempt.
 */
size_t draw_gaussian(Words *words, uint64_t scale, int shift, int64_t *out, size_t count)
{
    size_t drawn = 0;
    while (drawn < count) {
        const uint64_t *start = words->next;
        int outcome = attempt_gaussian(words, scale, shift, out + drawn);
        if (words->dry) {
            words->next = start;
            break;
        }
        drawn += outcome == ACCEPTED;
    }
    return drawn;
}

/* ---- Poisson ---- */

#define FRACTION_BITS 52 /* exponents are held in units of 2^-52 */

/* L(y) in units of 2^-52, within the plan's slack.
 *
 * Horner's rule with w = -y / 2^limit_bits, |w| < 1, exact in 63 fractional bits. Each of the `degree` steps truncates
 * once, an error in [0, 1) unit that later steps multiply by |w| < 1: together below `degree` units. The errors of the
 * coefficients and of cutting the series are counted by the plan. The plan has checked that the absolute coefficients
 * sum to less than 2^10 (2^62 units), so that nothing overflows. */
int64_t poisson_exponent(const PoissonPlan *plan, int64_t deviate)
{
    int64_t w = -deviate * ((int64_t)1 << (63 - plan->limit_bits));
    int64_t sum = plan->series[plan->degree];
    for (int k = plan->degree - 1; k >= 0; k--)
        sum = plan->series[k] + (int64_t)(((__int128)sum * w) >> 63);
    return sum;
}

/* exp(-x / 2^52) in units of 2^-62, for 0 <= x < 2^50. The series is cut at (1/4)^14 / 14! < 2^-64; each step truncates
 * twice and the next multiplies that by less than 1/4: the error is below 4 units. */
static inline uint64_t exp_minus(uint64_t x)
{
    const uint64_t one = (uint64_t)1 << 62;
    uint64_t sum = one;
    for (unsigned k = 13; k > 0; k--)
        sum = one - (uint64_t)(((uint128)sum * (x << 10)) >> 62) / k;
    return sum;
}

/* A point above the sure part of its step: below or above peak f(y) = peak f(edge) exp(-(L(y) - L(edge))), for the
 * step's edge towards 0? The plan's steps are so narrow that the difference of the exponents is below 1/4.
 *
 * peak f(edge) is `top` or up to 2 more. The difference is wrong by at most 2 slack units, hence the product by less
 * than slack 2^-50 of itself: twice that, which covers exp_minus, too. */
static inline int settle_poisson(const PoissonPlan *plan, uint64_t step, int64_t deviate, uint64_t height)
{
    if (step == plan->count)
        return REJECTED;
    if (plan->degree < 0)
        return UNSETTLED;
    int64_t left = plan->first + (int64_t)(step << plan->width_bits);
    int64_t edge = left < 0 ? left + ((int64_t)1 << plan->width_bits) : left;
    uint64_t top = edge == 0 ? plan->peak : plan->steps[left < 0 ? step + 1 : step - 1].sure;
    int64_t fall = poisson_exponent(plan, deviate) - poisson_exponent(plan, edge);
    uint64_t value = (uint64_t)(((uint128)top * exp_minus(fall > 0 ? (uint64_t)fall : 0)) >> 62);
    uint64_t margin = (uint64_t)(((uint128)top * plan->slack) >> (FRACTION_BITS - 2)) + 3;
    if (height + margin < value)
        return ACCEPTED;
    return height >= value + margin ? REJECTED : UNSETTLED;
}

/* Draw up to `count` values, one word an attempt; returns how many before the words ran out or an acceptance was
 * unsettled
 * (`*stopped`). */
size_t draw_poisson(Words *words, const PoissonPlan *plan, int64_t *out, size_t count, Unsettled *unsettled,
                    int *stopped)
{
    const Step *steps = plan->steps;
    const uint32_t *guide = plan->guide;
    const int width_bits = plan->width_bits;
    const uint64_t inside = ((uint64_t)1 << width_bits) - 1;
    size_t drawn = 0;
    *stopped = 0;
    while (drawn < count && words->next < words->end) {
        uint64_t word = *words->next++;
        uint64_t step = guide[word >> (64 - GUIDE_BITS)], last = guide[(word >> (64 - GUIDE_BITS)) + 1];
        while (step < last) { /* the last step that starts at the word or before */
            uint64_t middle = (step + last + 1) / 2;
            if (steps[middle].start <= word)
                step = middle;
            else
                last = middle - 1;
        }
        uint64_t offset = word - steps[step].start, height = offset >> width_bits;
        int64_t deviate = plan->first + (int64_t)((step << width_bits) | (offset & inside));
        int outcome = ACCEPTED;
        if (height >= steps[step].sure)
            outcome = settle_poisson(plan, step, deviate, height);
        out[drawn] = deviate;
        drawn += outcome == ACCEPTED;
        if (outcome == UNSETTLED) {
            unsettled->deviate = deviate;
            unsettled->height = height;
            *stopped = 1;
            break;
        }
    }
    return drawn;
}

/* ---- shares of a discrete Laplace ---- */

/* Poisson(numerator / denominator), numerator <= denominator / 2 < 2^49, with rational coins alone. With mu the mean, n
 * coins of mu / 1, mu / 2, ... succeed and the next fails with probability mu^n / n! (1 - mu / (n + 1)); accepting with
 * (1 - mu) / (1 - mu / (n + 1)), which is 1 for n = 0, leaves mu^n / n! (1 - mu). */
static inline uint64_t few_points(Words *words, uint64_t numerator, uint64_t denominator)
{
    for (;;) {
        uint64_t n = 0;
        while (coin(words, numerator, (uint128)(n + 1) * denominator) && !words->dry)
            n++;
        uint128 all = (uint128)(n + 1) * denominator;
        if (n == 0 || words->dry || coin(words, all - (uint128)(n + 1) * numerator, all - numerator))
            return n;
    }
}

/* A point of the wider process, or 0 if it is thinned out: k is kept with probability 2^level / k q^k.
 * Ranges: k < 2^48; the callers choose levels such that k 2^shift <= 2^10 scale, hence below 2^50. */
static inline int64_t signed_point(Words *words, const LaplacePlan *plan)
{
    uint64_t first = (uint64_t)1 << below(words, plan->levels);
    uint64_t word = next_word(words); /* the low bits place k on its level, the top bit is its sign */
    uint64_t k = first | (word & (first - 1));
    if (!coin(words, first, k))
        return 0;
    uint64_t numerator = k << plan->shift;
    for (; numerator > plan->scale; numerator -= plan->scale) /* CKS Algorithm 1, second case */
        if (!constant_coin(words, EXP_MINUS_ONE))
            return 0;
    if (!exp_coin(words, numerator, plan->scale))
        return 0;
    return word >> 63 ? -(int64_t)k : (int64_t)k;
}

/* Add one draw to each of `count` values; returns how many before the words ran out. A draw of 2^14 points, which is
 * what it takes to overflow, has probability below 1 / (2^14)!. */
size_t add_laplace(Words *words, const LaplacePlan *plan, int64_t *out, size_t count)
{
    for (size_t drawn = 0; drawn < count; drawn++) {
        const uint64_t *start = words->next;
        int64_t sum = 0;
        for (uint64_t points = few_points(words, 2 * plan->levels, plan->shares); points > 0 && !words->dry; points--)
            sum += signed_point(words, plan);
        if (words->dry) {
            words->next = start;
            return drawn;
        }
        out[drawn] += sum;
    }
    return count;
}
