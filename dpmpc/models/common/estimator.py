"""What scikit-learn calls an estimator, without loading scikit-learn before a caller needs what is its own.

Importing scikit-learn takes seconds, and a release is read without it: tags, copies and scores load it.

Promised: scikit-learn's own checks of estimators pass. Attributes that end in _ are there from `fit` or `fit_release`
on. Fits of copies, of which searches and cross-validations make many, warn: each spends a budget.
"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dpmpc.base.errors import InputError, PrivacyWarning

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

_WARNING = (
    "a copy of an estimator is fitted, as in a search or a cross-validation. Every fit is a release that spends its "
    "own budget on the rows that it is given, and scores on rows of the data are not private. Choose parameters on "
    "public or synthetic data, or from one release: fit_release() costs nothing, and alpha='auto' chooses a penalty"
)


class Estimator:
    """Base of all estimators, whose parameters are those of the constructor."""

    _warned: list[bool]  # of a copy: whether one of them has warned
    _is_copy: bool
    estimator_type: ClassVar[Literal["regressor", "classifier", "transformer"] | None] = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse what a fit sets before there is one, with scikit-learn's NotFittedError."""
            if isinstance(own := getattr(type(self), name, None), property):
                return own.__get__(self)  # which has raised an AttributeError, and raises it again
            if name.startswith("_") or not name.endswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} has read no release: fit or fit_release expected before")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; none of them has its own parameters, whatever `deep` is."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Raises
        ------
        InputError
            If there is no such parameter.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InputError(name, f"given, one of the parameters {', '.join(known)} expected")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the constructor's call, with the parameters that are not the default."""
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params().items() if repr(value) != repr(defaults[name])}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(changed.items()))})"

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same parameters, as `sklearn.base.clone` requires it; its fits warn."""
        from sklearn.base import clone

        made = type(self)(**{name: clone(value, safe=False) for name, value in self.get_params().items()})
        made._warned = self.__dict__.setdefault("_warned", [])  # one list for the original and all its copies
        made._is_copy = True
        return made

    def _warn_if_copied(self) -> None:
        """Warn before the first copy is fitted to rows: searches and cross-validations fit many."""
        if self.__dict__.get("_is_copy", False) and not self._warned:
            self._warned.append(True)
            warnings.warn(_WARNING, PrivacyWarning, stacklevel=2)

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn asks about every estimator."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, TransformerTags

        kind = self.estimator_type
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=kind in ("regressor", "classifier")),
            transformer_tags=TransformerTags() if kind == "transformer" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
        )


class Regressor(Estimator):
    """Base of the estimators that predict numbers."""

    estimator_type = "regressor"

    def predict(self, X: ArrayLike) -> Any:
        """Return the predictions (m,) for rows (m, d)."""
        raise NotImplementedError

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R^2 of the predictions, as scikit-learn defines it, from the rows that are given: not private.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Rows.
        y : array-like of shape (m,)
            Their targets.
        sample_weight : array-like of shape (m,), optional
            How much each row counts.
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))
