"""Fits that spend a budget warn where scikit-learn makes many of them."""

from __future__ import annotations

import warnings
from typing import Self

from sklearn.base import BaseEstimator

from dpmpc.base.errors import PrivacyWarning

_WARNING = (
    "a copy of an estimator is fitted, as in a search or a cross-validation. Every fit is a release that spends its "
    "own budget on the rows that it is given, and scores on rows of the data are not private. Choose parameters on "
    "public or synthetic data, or from one release: fit_release() costs nothing, and alpha='auto' chooses a penalty"
)


class PrivateFits(BaseEstimator):  # type: ignore[misc]
    """Base of private estimators, which warn where copies of one are fitted."""

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same parameters, as `sklearn.base.clone` asks for it; its fits warn."""
        made: Self = super().__sklearn_clone__()
        made._warned = self.__dict__.setdefault("_warned", [])  # one list for the original and all its copies
        made._is_copy = True
        return made

    def _warn_if_copied(self) -> None:
        """Warn before the first copy is fitted to rows: searches and cross-validations fit many."""
        if getattr(self, "_is_copy", False) and not self._warned:
            self._warned.append(True)
            warnings.warn(_WARNING, PrivacyWarning, stacklevel=2)
