"""Exact integer samplers over a buffer of uniform words; the algorithms stand in samplers_draw.c, the callers in dpmpc.linear.noise.

Every function reads ``words`` from the start, writes (or adds) to ``out`` from the start, stops when either is used up, and
says how many words it has read and how many values it has written.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "samplers.h" nogil:
    ctypedef struct Words:
        const uint64_t *next
        const uint64_t *end
        int dry

    ctypedef struct Step:
        pass

    ctypedef struct PoissonPlan:
        const Step *steps
        const uint32_t *guide
        uint64_t count, peak
        int64_t first
        int width_bits
        uint64_t slack
        const int64_t *series
        int degree, limit_bits

    ctypedef struct Unsettled:
        int64_t deviate
        uint64_t height

    ctypedef struct LaplacePlan:
        uint64_t scale
        int shift
        uint64_t levels, shares

    size_t draw_gaussian(Words *words, uint64_t scale, int shift, int64_t *out, size_t count)
    size_t draw_poisson(Words *words, const PoissonPlan *plan, int64_t *out, size_t count, Unsettled *unsettled, int *stopped)
    size_t add_laplace(Words *words, const LaplacePlan *plan, int64_t *out, size_t count)
    int64_t poisson_exponent(const PoissonPlan *plan, int64_t deviate)
    const int GUIDE_BITS


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
    """Poisson(mean) - mean. `steps` holds pairs (start, sure), `series` a polynomial, which may be empty."""

    cdef PoissonPlan plan
    cdef const uint64_t[:, ::1] steps
    cdef const uint32_t[::1] guide
    cdef const int64_t[::1] series

    def __init__(
        self,
        const uint64_t[:, ::1] steps,
        const uint32_t[::1] guide,
        uint64_t peak,
        int64_t first,
        int width_bits,
        uint64_t slack,
        const int64_t[::1] series,
        int limit_bits,
    ):
        if steps.shape[0] == 0 or steps.shape[1] != 2 or guide.shape[0] != (1 << GUIDE_BITS) + 1:
            raise ValueError("steps of shape (n + 1, 2) and a guide of length 2^12 + 1 are expected")
        self.steps, self.guide, self.series = steps, guide, series  # keeps the memory alive that the plan points to
        self.plan.steps, self.plan.guide = <const Step *>&steps[0, 0], &guide[0]
        self.plan.count, self.plan.peak = steps.shape[0] - 1, peak
        self.plan.first, self.plan.width_bits = first, width_bits
        self.plan.slack, self.plan.limit_bits = slack, limit_bits
        self.plan.degree = series.shape[0] - 1
        self.plan.series = &series[0] if series.shape[0] else NULL

    def draw(self, const uint64_t[::1] words, int64_t[::1] out):
        """Draw; returns (words read, values written, what is unsettled as (deviate, height), or None)."""
        if words.shape[0] == 0 or out.shape[0] == 0:
            return 0, 0, None
        cdef Words source = reader(words)
        cdef Unsettled open_question = Unsettled(0, 0)
        cdef size_t drawn
        cdef int stopped
        with nogil:
            drawn = draw_poisson(&source, &self.plan, &out[0], out.shape[0], &open_question, &stopped)
        question = (open_question.deviate, open_question.height) if stopped else None
        return source.next - &words[0], drawn, question

    def exponent(self, int64_t deviate):
        """Return L(deviate) in units of 2^-52 as the sampler evaluates it, for |deviate| < 2^limit_bits."""
        if self.plan.degree < 0 or abs(deviate) >> self.plan.limit_bits:
            raise ValueError("deviate out of range")
        return poisson_exponent(&self.plan, deviate)
