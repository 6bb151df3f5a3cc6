"""Fixed effects: an intercept for each group and slopes that all groups share, from the blocks of a release by group.

Post-processing of the blocks: with M_g the Gram matrix of group g, least squares reads the Gram matrix of (indicators
of the groups, features, target), whose entries are

    diag(M_g[0, 0]),    M_g[0, j] of the group,    sum_g M_g[j, k],

and exact zeros between two groups. Its noise has variance v, v/2, and G v or G v/2.
So slopes have more noise than those of a table in which the groups are a category among the features, which is one
block; they cost nothing where regressions by group are released anyway.

Promised: a function of the release. Groups whose number of people does not stand out of the noise are left out. Not
promised: exact coverage, as in `dpmpc.models.common.inference`, whose homoscedastic errors are assumed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmpc.base.arguments import require_fraction
from dpmpc.base.arrays import Reals
from dpmpc.data import Schema
from dpmpc.linear.contributions.noisy_gram import NoisyGram
from dpmpc.models.common.inference import Inference, normal_quantile, stands_out
from dpmpc.models.common.release_parts import Blocks, chosen_columns, column_index
from dpmpc.release.release import Release


def fixed_effects(
    release: Release, target: str | int = -1, *, features: Any = None, level: float = 0.95
) -> Inference | None:
    """Fit one slope for each feature and one intercept for each group, without penalty.

    Parameters
    ----------
    release : Release
        By group.
    target : str or int
        The column to predict, the last by default.
    features : sequence of str, optional
        The columns to predict it from; by default all others.
    level : float
        Nominal coverage of each interval, strictly between 0 and 1.

    Returns
    -------
    Inference or None
        Its features are the columns and then ``BY=GROUP`` for each group, whose coefficients are the intercepts; there
        is no other. None where the noise leaves no finite interval.
    """
    require_fraction("level", level)
    everybody = Blocks(release)
    sizes, error = everybody.sizes()
    kept = [name for name, size in zip(everybody.groups, sizes, strict=True) if stands_out(size, error**2)]
    if not kept:
        return None
    blocks = Blocks(release, kept)
    name = blocks.columns[column_index(blocks.columns, target)]
    chosen = chosen_columns(blocks.columns, name, features)
    chosen = (*(column for column in chosen if column != name), name)
    used = blocks.select(chosen)
    gram, variances = _stacked(blocks, [1 + blocks.columns.index(column) for column in chosen])
    groups, last = len(kept), len(gram) - 1
    means = gram[groups:last, :groups] / np.diag(gram)[:groups]
    within = gram[groups:last, groups:last] - means @ gram[:groups, groups:last]
    noise = NoisyGram.of_sums(within, float(blocks.noise_variance[0]), chosen).fluctuation
    if float(np.linalg.eigvalsh(within)[0]) <= noise:
        return None
    inverse = np.linalg.inv(gram[:last, :last])
    contrast = np.append(-inverse @ gram[:last, last], 1.0)
    moved = _covariance(variances, contrast)[:last, :last]
    degrees_left = max(blocks.total - last, 1.0)
    residual = max(0.0, float(contrast @ gram @ contrast + np.trace(inverse @ moved)) / degrees_left)
    covariance = inverse @ (moved + residual * gram[:last, :last]) @ inverse
    linear, shift = _unit_map(used.schema, groups)
    estimates = linear @ -contrast[:last] + shift
    order = [*range(groups, last), *range(groups)]  # slopes first
    return _inference(
        blocks,
        (*chosen[:-1], *(f"{blocks.by}={group}" for group in kept)),
        estimates[order],
        (linear @ covariance @ linear.T)[np.ix_(order, order)],
        level,
    )


def _stacked(blocks: Blocks, places: list[int]) -> tuple[Reals, Reals]:
    """Return the Gram matrix of (indicators, features, target), and the variance of the noise in each entry."""
    grams, one = blocks.grams, float(blocks.source.noise_variance[0])
    groups, side = len(grams), len(grams) + len(places)
    gram, variances = np.zeros((side, side)), np.zeros((side, side))
    first = np.arange(groups)
    gram[first, first], variances[first, first] = grams[:, 0, 0], one
    gram[:groups, groups:], variances[:groups, groups:] = grams[:, 0, places], one / 2
    gram[groups:, :groups], variances[groups:, :groups] = gram[:groups, groups:].T, one / 2
    gram[groups:, groups:] = grams[:, places][:, :, places].sum(axis=0)
    variances[groups:, groups:] = groups * one / 2 * (1 + np.eye(len(places)))
    return gram, variances


def _covariance(variances: Reals, c: Reals) -> Reals:
    """Return Cov(N c), diag(V c^2) + V o c c^T off the diagonal, for a symmetric N of independent entries."""
    found = variances * np.outer(c, c)
    np.fill_diagonal(found, variances @ c**2)
    return found


def _unit_map(public: Schema, groups: int) -> tuple[Reals, Reals]:
    """Return the affine map of (intercepts, slopes), normalised, to the columns' units; the target comes last."""
    offset, slope = public.offset, public.slope
    slopes = slope[-1] / slope[:-1]
    linear = np.diag(np.append(np.full(groups, slope[-1]), slopes))
    linear[:groups, groups:] = -offset[:-1] * slopes
    return linear, np.append(np.full(groups, offset[-1]), np.zeros(len(slopes)))


def _inference(blocks: Blocks, names: tuple[str, ...], estimates: Reals, covariance: Reals, level: float) -> Inference:
    deviations = np.sqrt(np.diag(covariance))
    reach = normal_quantile((1 + level) / 2) * deviations
    bordered = np.zeros((len(names) + 1, len(names) + 1))  # with the intercept that there is not
    bordered[1:, 1:] = covariance
    return Inference(
        feature_names=names,
        coef=estimates,
        standard_errors=deviations,
        confidence_intervals=np.column_stack([estimates - reach, estimates + reach]),
        intercept=0.0,
        intercept_standard_error=0.0,
        intercept_confidence_interval=np.zeros(2),
        level=level,
        degrees=math.inf,
        covariance=bordered,
        clients=blocks.clients,
        r_squared=math.nan,
        r_squared_standard_error=math.nan,
        total=blocks.total if blocks.weighted else None,
        total_standard_error=math.sqrt(blocks.total_variance) if blocks.weighted else None,
    )
