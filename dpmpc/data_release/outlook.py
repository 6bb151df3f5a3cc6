"""Estimate what a fit is worth, from the release alone: the noise's part of second moments beside the data's own.

Promised: numbers that cost no privacy, because they follow from the release. Not promised: more than a rough idea. The
expected error is that of uncorrelated features that explain half of the label (docs/mathematics.md, section 8.3), with
second moments that are estimated from the release itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from dpmpc.data_release.release import MixedRelease
from dpmpc.data_release.rows import EXPLAINED, expected_error
from dpmpc.estimators.release_parts import chosen_columns, column_index

TOLERABLE_ERROR = 0.5


@dataclasses.dataclass(frozen=True)
class MixingOutlook:
    """Sizes of noise and data in (1/n) (D^pub)^T D^pub, columns mapped to [-1, 1]."""

    # what the noise adds to each diagonal entry, k tau^2/n with mixing, or tau^2; what is left of it for DGM, which
    # takes it off: about 2 tau^2 sqrt(d/n) in any direction
    noise: float
    # column -> second moment of the data, an estimate; 0 where nothing stands out. Uniform data has 1/3
    data: dict[str, float]
    error: float  # expected E ||w - w*||^2 / ||w*||^2: predicting the middle of the bounds has 1

    @classmethod
    def of(
        cls, method: str, release: MixedRelease, target: str | int, features: Sequence[str] | None = None
    ) -> MixingOutlook:
        """Estimate the outlook for a column, as "rmgm", "dgm" or "bgm" would fit it to some features, or to all."""
        task, name = release.task, release.columns[column_index(release.columns, target)]
        names = chosen_columns(release.columns, name, features)
        position, count = names.index(name), len(names) - 1
        added = task.noise_variance * task.released_rows / task.subjects
        places = [release.columns.index(each) for each in names]
        moments = np.maximum(np.diag(release.moments())[places] - added, 0.0)
        label, own = float(moments[position]), float(np.delete(moments, position).mean())
        noise = 2 * added * math.sqrt(count / task.subjects) if method == "dgm" else added
        data = dict(zip(names, moments.tolist(), strict=True))
        if own == 0 or label == 0:
            return cls(noise, data, math.inf)
        if method == "dgm":
            return cls(noise, data, (noise / own) ** 2)
        if method == "bgm":
            return cls(noise, data, (noise / (own + noise)) ** 2)
        weights = EXPLAINED * label / own
        error = expected_error(
            task.released_rows,
            task.subjects,
            count,
            task.noise_variance,
            second_moment=own,
            signal=weights,
            residual=(1 - EXPLAINED) * label,
        )
        return cls(noise, data, float(error) / weights)

    @property
    def too_noisy(self) -> bool:
        """Whether most of what a fit would learn is expected to be wrong."""
        return self.error >= TOLERABLE_ERROR
