/* Exact integer samplers that read uniform 64-bit words: discrete Gaussian, Poisson, and shares of a discrete Laplace.
 *
 * The first two are rejection samplers from a discrete Laplace distribution, after Canonne, Kamath and Steinke, "The
 * Discrete Gaussian for Differential Privacy" (2020), cited below as CKS; the third thins a Poisson process. There is no
 * floating-point number in this file.
 *
 * An *attempt* proposes one value and accepts or rejects it. When the words run out in the middle of an attempt, the
 * attempt is forgotten and its words count as unread, so that the values drawn depend on the words alone and not on how
 * they were cut into buffers. Running time depends on the values drawn; nothing here is constant-time.
 */
#ifndef DPMPC_SAMPLERS_H
#define DPMPC_SAMPLERS_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned __int128 uint128;

/* ---- words --------------------------------------------------------------------------------------------------------- */

typedef struct {
    const uint64_t *next, *end;
    int dry; /* a word was asked for that was not there */
} Words;

/* The next word; zero, and `dry`, when there is none. Every loop below that a zero word would prolong looks at `dry`. */
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

/* ---- coins --------------------------------------------------------------------------------------------------------- */

/* Bernoulli(numerator / denominator), exactly. */
static inline int coin(Words *words, uint128 numerator, uint128 denominator)
{
    if (denominator >> 64)
        return below_wide(words, denominator) < numerator;
    return below(words, (uint64_t)denominator) < numerator;
}

/* The first 256 binary digits of exp(-1) and exp(-1/2). */
static const uint64_t EXP_MINUS_ONE[4] = {
    0x5e2d58d8b3bcdf1a, 0xbadec7829054f90d, 0xda9805aab56c7733, 0x3024b9d0a507daed};
static const uint64_t EXP_MINUS_HALF[4] = {
    0x9b4597e37cb04ff3, 0xd675a35530cdd767, 0xe347bf8ad0e80abb, 0xce4ae95861014318};

/* Bernoulli(constant): a uniform real, read word by word until it differs from the constant. The constants end after 256
 * digits, so each such coin is biased by less than 2^-256. */
static inline int constant_coin(Words *words, const uint64_t constant[4])
{
    for (int i = 0; i < 4; i++) {
        uint64_t word = next_word(words);
        if (word != constant[i])
            return word < constant[i];
    }
    return 0;
}

/* Bernoulli(exp(-numerator / denominator)) for numerator <= denominator < 2^100: CKS Algorithm 1, first case. The round is
 * counted from 1; round * denominator stays below 2^128, as round 2^28 is reached with probability 1 / (2^28)!. */
static inline int exp_coin(Words *words, uint128 numerator, uint128 denominator)
{
    uint64_t round = 1;
    while (coin(words, numerator, round * denominator) && !words->dry)
        round++;
    return round & 1;
}

/* ---- the proposal -------------------------------------------------------------------------------------------------- */

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

/* ---- discrete Gaussian --------------------------------------------------------------------------------------------- */

/* One attempt at P(y) proportional to exp(-y^2 / (2 sigma^2)), sigma = scale / 2^shift, scale <= 2^40: CKS Algorithm 3 with
 * the Laplace scale t = sigma, where the acceptance probability is exp(-(|y| - sigma)^2 / (2 sigma^2)).
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

/* Draw up to `count` values; returns how many before the words ran out, and leaves words->next behind the last attempt. */
static inline size_t draw_gaussian(Words *words, uint64_t scale, int shift, int64_t *out, size_t count)
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

/* ---- Poisson ------------------------------------------------------------------------------------------------------- */

#define FRACTION_BITS 52 /* exponents are held in units of 2^-52 */

/* A centred Poisson variable Y = Poisson(mean) - mean, by rejection from the discrete Laplace distribution of scale t:
 * accept y with probability exp(-E(y)), E(y) = ln(p(0) / p(y)) - |y| / t + c, where p(y) = P(Y = y) and c makes E positive.
 * E is computed where the plan is made (dpmpc/_poisson.py) and reaches this file as a table or as two polynomials. */
typedef struct {
    uint64_t mean, scale;
    int limit_bits;           /* proposals with |y| >= 2^limit_bits are rejected */
    uint64_t slack;           /* |E(y) as evaluated here - E(y)| <= slack, in units of 2^-52 */
    const int64_t *table;     /* E(y) at table[2^limit_bits + y]; or NULL, and then */
    const int64_t *series[2]; /* the coefficients of E in powers of |y| / 2^limit_bits, for y >= 0 and for y < 0 */
    int degree;
} PoissonPlan;

/* An acceptance that the evaluated exponent could not settle: is the uniform real that starts with the 64 bits of `word`
 * below (E(deviate) - halves / 2) / round? */
typedef struct {
    int64_t deviate;
    uint64_t halves, round, word;
} Unsettled;

/* E(y) in units of 2^-52, within the plan's slack.
 *
 * Horner's rule with w = |y| / 2^limit_bits < 1, exact in 63 fractional bits. Each of the `degree` steps truncates once, an
 * error in [0, 1) unit that later steps multiply by w < 1: together below `degree` units. The errors of the coefficients
 * and of cutting the series are counted by the plan. The plan has checked that the absolute coefficients sum to less than
 * 2^10 (2^62 units), so that nothing overflows. */
static inline int64_t poisson_exponent(const PoissonPlan *plan, uint64_t magnitude, int negative)
{
    if (plan->table)
        return plan->table[((int64_t)1 << plan->limit_bits) + (negative ? -(int64_t)magnitude : (int64_t)magnitude)];
    const int64_t *coefficient = plan->series[negative];
    int64_t w = (int64_t)(magnitude << (63 - plan->limit_bits));
    int64_t sum = coefficient[plan->degree];
    for (int k = plan->degree - 1; k >= 0; k--)
        sum = coefficient[k] + (int64_t)(((__int128)sum * w) >> 63);
    return sum;
}

/* Bernoulli(exp(-E)) with E known up to slack: exp(-1/2) coins while E exceeds 1/2, then CKS Algorithm 1 on the rest.
 *
 * The number of halves is floor(2 (E - 2^-40)): the margin exceeds every slack, so the rest lies in [0, 1/2 + 2^-39], where
 * CKS Algorithm 1 is right whichever way E was rounded. In round k its coin asks whether a uniform real U is below
 * rest / k. U lies in [word, word + 1) 2^-64, and rest in [low, high] 2^-52: the coin is decided when these intervals, the
 * first one times k, do not overlap, and handed back as UNSETTLED otherwise: probability at most 2 slack 2^-52 + 2^-64. */
#define HALF_MARGIN ((int64_t)1 << (FRACTION_BITS - 40))

static inline int accept_poisson(Words *words, const PoissonPlan *plan, int64_t exponent, Unsettled *unsettled)
{
    uint64_t halves = exponent > HALF_MARGIN ? (uint64_t)(exponent - HALF_MARGIN) >> (FRACTION_BITS - 1) : 0;
    for (uint64_t i = 0; i < halves; i++)
        if (!constant_coin(words, EXP_MINUS_HALF))
            return REJECTED;

    int64_t rest = exponent - (int64_t)(halves << (FRACTION_BITS - 1));
    int64_t low = rest - (int64_t)plan->slack;
    uint128 high = (uint128)(uint64_t)(rest + (int64_t)plan->slack) << (64 - FRACTION_BITS);
    uint128 sure = (uint128)(uint64_t)(low > 0 ? low : 0) << (64 - FRACTION_BITS);
    uint64_t round = 1;
    for (; !words->dry; round++) {
        uint64_t word = next_word(words);
        uint128 product = (uint128)word * round;
        if (product >= high)
            break;
        if (product + round > sure) {
            unsettled->halves = halves;
            unsettled->round = round;
            unsettled->word = word;
            return UNSETTLED;
        }
    }
    return round & 1 ? ACCEPTED : REJECTED;
}

/* One attempt at a centred Poisson variable. `mean` <= 2^52 and `scale` <= 2^26, so X < 2^32. */
static inline int attempt_poisson(Words *words, const PoissonPlan *plan, int64_t *out, Unsettled *unsettled)
{
    uint64_t magnitude = geometric(words, plan->scale);
    int negative = is_negative(words);
    if (magnitude >= MAX_SCALES * plan->scale || magnitude >> plan->limit_bits)
        return REJECTED;
    if (negative && (magnitude == 0 || magnitude > plan->mean))
        return REJECTED;
    *out = unsettled->deviate = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return accept_poisson(words, plan, poisson_exponent(plan, magnitude, negative), unsettled);
}

/* Draw up to `count` values; returns how many before the words ran out or an acceptance was unsettled (`*stopped`). */
static inline size_t draw_poisson(
    Words *words, const PoissonPlan *plan, int64_t *out, size_t count, Unsettled *unsettled, int *stopped)
{
    size_t drawn = 0;
    *stopped = 0;
    while (drawn < count && !*stopped) {
        const uint64_t *start = words->next;
        int outcome = attempt_poisson(words, plan, out + drawn, unsettled);
        if (words->dry) {
            words->next = start;
            break;
        }
        drawn += outcome == ACCEPTED;
        *stopped = outcome == UNSETTLED;
    }
    return drawn;
}

/* ---- shares of a discrete Laplace ---------------------------------------------------------------------------------- */

/* One part of a client's share, a signed sum of the points of a Poisson process on k = 1, 2, ... whose intensity at k is
 * 1 / (shares k) q^k for either sign, q = exp(-2^shift / scale) (docs/mathematics.md, section 2).
 *
 * The process is thinned from one whose intensity at k is 1 / (shares 2^level), 2^level <= k < 2^(level + 1): that has
 * 1 / shares on every level, 2 levels / shares in all, a rational number. Points from 2^levels on are left out. */
typedef struct {
    uint64_t scale;  /* <= 2^40 */
    int shift;       /* <= 10 */
    uint64_t levels; /* <= 48 */
    uint64_t shares; /* at least 4 levels, < 2^50: at most half a point is expected */
} LaplacePlan;

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

/* Add one draw to each of `count` values; returns how many before the words ran out. A draw of 2^14 points, which is what
 * it takes to overflow, has probability below 1 / (2^14)!. */
static inline size_t add_laplace(Words *words, const LaplacePlan *plan, int64_t *out, size_t count)
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

#endif
