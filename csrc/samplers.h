/* What samplers_draw.c reads and writes. */
#ifndef DPMPC_SAMPLERS_H
#define DPMPC_SAMPLERS_H

#include <stddef.h>
#include <stdint.h>

/* A buffer of uniform words. */
typedef struct {
    const uint64_t *next, *end;
    int dry; /* a word was asked for that was not there */
} Words;

#define GUIDE_BITS 12

/* A centred Poisson variable Y = Poisson(mean) - mean, by rejection from a histogram: f(y) = P(Y = y) / P(Y = 0), times
 * a public integer, the peak, lies below steps that are 2^width_bits wide and of integer height. The areas of the steps
 * add up to less than 2^64, so that one word is a point of that plane: which step, which y, and how high. It is
 * accepted where it lies below peak f(y). Steps of width 1 lie within one unit of it.
 *
 * The plan is made in dpmpc/linear/noise/poisson.py, together with the series that evaluate f within wider steps. */
typedef struct {
    uint64_t start; /* the first word of the step */
    uint64_t sure;  /* what lies lower is accepted: at most peak f(y) at the step's outer edge, y itself for width 1 */
} Step;

typedef struct {
    const Step *steps;     /* and one more, which starts where all is rejected */
    const uint32_t *guide; /* the step of the word c 2^52, for c = 0, 1, ..., and the number of steps */
    uint64_t count, peak;
    int64_t first; /* the deviate with which the first step begins */
    int width_bits;
    uint64_t slack;         /* |L(y) as evaluated here - L(y)| <= slack, in units of 2^-52, for L = -ln f */
    const int64_t *series;  /* the coefficients of L in powers of -y / 2^limit_bits */
    int degree, limit_bits; /* degree -1 where there is no series */
} PoissonPlan;

/* What could not be settled here: is a uniform real in [height, height + 1) below peak f(deviate)? */
typedef struct {
    int64_t deviate;
    uint64_t height;
} Unsettled;

/* One part of a client's share, a signed sum of the points of a Poisson process on k = 1, 2, ... whose intensity at k
 * is 1 / (shares k) q^k for either sign, q = exp(-2^shift / scale) (theorem exact-samplers).
 *
 * The process is thinned from one whose intensity at k is 1 / (shares 2^level), 2^level <= k < 2^(level + 1): that has
 * 1 / shares on every level, 2 levels / shares in all, a rational number. Points from 2^levels on are left out. */
typedef struct {
    uint64_t scale;  /* <= 2^40 */
    int shift;       /* <= 10 */
    uint64_t levels; /* <= 48 */
    uint64_t shares; /* at least 4 levels, < 2^50: at most half a point is expected */
} LaplacePlan;

/* Draw up to `count` values; return how many before the words ran out, and leave words->next behind the last attempt.
 */
size_t draw_gaussian(Words *words, uint64_t scale, int shift, int64_t *out, size_t count);

/* The same, one word an attempt; `*stopped` if an acceptance was unsettled. */
size_t draw_poisson(Words *words, const PoissonPlan *plan, int64_t *out, size_t count, Unsettled *unsettled,
                    int *stopped);

/* Add one draw to each of `count` values; return how many before the words ran out. */
size_t add_laplace(Words *words, const LaplacePlan *plan, int64_t *out, size_t count);

/* L(y) in units of 2^-52, within the plan's slack. */
int64_t poisson_exponent(const PoissonPlan *plan, int64_t deviate);

#endif
