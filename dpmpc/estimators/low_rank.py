"""Low-rank approximation from a release (Burkhardt et al. 2025, section 5.2)."""

from __future__ import annotations

import dataclasses
from typing import Self

from dpmpc.estimators.scikit import name_features
from dpmpc.linear_algebra import check_rank, top_components
from dpmpc.release import GramRelease, Release


@dataclasses.dataclass(eq=False, repr=False)
class LowRankFit:
    """Main directions as they are read from a release; `dpmpc.LowRankApproximation` says what attributes are."""

    n_components: int = 3

    def fit_release(self, release: Release | GramRelease) -> Self:
        """Fit a release of rows or of second moments: pure post-processing."""
        self.check_parameters(len(release.columns))
        self.components_ = top_components(release.gram().matrix[1:, 1:], self.n_components)
        self.release_ = release
        self.feature_names_ = release.columns
        name_features(self, release.columns)
        return self

    def check_parameters(self, columns: int) -> None:
        """Refuse a rank that data with so many columns cannot have, before any data is read."""
        check_rank(self.n_components, columns)
