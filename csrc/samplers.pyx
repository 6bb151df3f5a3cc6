"""Exact integer samplers over a buffer of uniform words; the algorithms stand in samplers.h, the callers in dpmpc.noise.

Every function reads ``words`` from the start, writes (or adds) to ``out`` from the start, stops when either is used up, and
says how many words it has read and how many values it has written.
"""

from libc.stdint cimport int64_t, uint64_t


cdef extern from "samplers.h" nogil:
    ctypedef struct Words:
        const uint64_t *next
        const uint64_t *end
        int dry

    ctypedef struct PoissonPlan:
        uint64_t mean, scale
        int limit_bits
        uint64_t slack
        const int64_t *table
        const int64_t *series[2]
        int degree

    ctypedef struct Unsettled:
        int64_t deviate
        uint64_t halves, round, word

    ctypedef struct LaplacePlan:
        uint64_t scale
        int shift
        uint64_t levels, shares

    size_t draw_gaussian(Words *words, uint64_t scale, int shift, int64_t *out, size_t count)
    size_t draw_poisson(Words *words, const PoissonPlan *plan, int64_t *out, size_t count, Unsettled *unsettled, int *stopped)
    size_t add_laplace(Words *words, const LaplacePlan *plan, int64_t *out, size_t count)
    int64_t poisson_exponent(const PoissonPlan *plan, uint64_t magnitude, int negative)


cdef Words reader(const uint64_t[::1] words):
    cdef Words result
    result.next = &words[0]
    result.end = result.next + words.shape[0]
    result.dry = 0
    return result


def discrete_gaussian(const uint64_t[::1] words, int64_t[::1] out, uint64_t scale, int shift):
    """Draw discrete Gaussians with sigma = scale / 2^shift; returns (words read, values written)."""
    if words.shape[0] == 0 or out.shape[0] == 0:
        return 0, 0
    cdef Words source = reader(words)
    cdef size_t drawn
    with nogil:
        drawn = draw_gaussian(&source, scale, shift, &out[0], out.shape[0])
    return source.next - &words[0], drawn


def discrete_laplace(
    const uint64_t[::1] words, int64_t[::1] out, uint64_t scale, int shift, uint64_t levels, uint64_t shares
):
    """Add one of `shares` shares of a discrete Laplace of scale / 2^shift; returns (words read, values added to).

    Points from 2^levels on are left out.
    """
    if not 4 * levels <= shares:
        raise ValueError("at most half a point in expectation is expected: 4 levels <= shares")
    if words.shape[0] == 0 or out.shape[0] == 0:
        return 0, 0
    cdef Words source = reader(words)
    cdef LaplacePlan plan = LaplacePlan(scale, shift, levels, shares)
    cdef size_t drawn
    with nogil:
        drawn = add_laplace(&source, &plan, &out[0], out.shape[0])
    return source.next - &words[0], drawn


cdef class CentredPoisson:
    """Poisson(mean) - mean. `table` holds E(y) for every y, or is empty, and then `series` holds two polynomials."""

    cdef PoissonPlan plan
    cdef const int64_t[::1] table
    cdef const int64_t[:, ::1] series

    def __init__(
        self,
        uint64_t mean,
        uint64_t scale,
        int limit_bits,
        uint64_t slack,
        const int64_t[::1] table,
        const int64_t[:, ::1] series,
    ):
        if table.shape[0] != 2 << limit_bits and not (table.shape[0] == 0 and series.shape[0] == 2 and series.shape[1] > 0):
            raise ValueError("either a table of 2^(limit_bits + 1) entries or two polynomials are expected")
        self.table, self.series = table, series  # keeps the memory alive that the plan points to
        self.plan.mean, self.plan.scale = mean, scale
        self.plan.limit_bits, self.plan.slack = limit_bits, slack
        self.plan.table = &table[0] if table.shape[0] else NULL
        if not table.shape[0]:
            self.plan.series[0], self.plan.series[1] = &series[0, 0], &series[1, 0]
            self.plan.degree = series.shape[1] - 1

    def draw(self, const uint64_t[::1] words, int64_t[::1] out):
        """Draw; returns (words read, values written, what is unsettled as (deviate, halves, round, word), or None)."""
        if words.shape[0] == 0 or out.shape[0] == 0:
            return 0, 0, None
        cdef Words source = reader(words)
        cdef Unsettled open_question = Unsettled(0, 0, 0, 0)
        cdef size_t drawn
        cdef int stopped
        with nogil:
            drawn = draw_poisson(&source, &self.plan, &out[0], out.shape[0], &open_question, &stopped)
        if not stopped:
            return source.next - &words[0], drawn, None
        question = (open_question.deviate, open_question.halves, open_question.round, open_question.word)
        return source.next - &words[0], drawn, question

    def exponent(self, int64_t deviate):
        """Return E(deviate) in units of 2^-52 as the sampler evaluates it, for |deviate| < 2^limit_bits."""
        if abs(deviate) >> self.plan.limit_bits:
            raise ValueError("deviate out of range")
        return poisson_exponent(&self.plan, abs(deviate), deviate < 0)
