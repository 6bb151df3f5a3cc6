"""Ridge regressions by public group: one for each group, one of everybody, and fixed effects, from one release."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from dpmpc.base.errors import UNIDENTIFIED, UtilityWarning
from dpmpc.data import Codebook
from dpmpc.models.common.inference import Inference, stands_out
from dpmpc.models.common.release_parts import Blocks, selection
from dpmpc.models.common.scikit import OfRelease, name_features
from dpmpc.models.common.summary import EVEN
from dpmpc.models.groups.fixed_effects import fixed_effects
from dpmpc.models.groups.grouped_summary import POOLED, GroupedSummary
from dpmpc.models.regression.ridge import RidgeFit
from dpmpc.release.planning.prediction import people_needed
from dpmpc.release.release import Release
from dpmpc.release.results import Result


class GroupedRidgeFit(OfRelease):
    """Ridge regressions by group as they are read from a release.

    `dpmpc.GroupedRidgeRegression` says what parameters and attributes are. Nothing here makes a release, so that
    whoever only reads one needs no scikit-learn.
    """

    kind: ClassVar[str] = "grouped-ridge"  # as in the JSON of `dpmpc fit --by`
    python_name: ClassVar[str] = "GroupedRidgeRegression"

    def __init__(self, alpha: float | str = 1.0):
        self.alpha = alpha

    def _ridge(self) -> RidgeFit:
        """Return what reads the regression of one group, or of everybody."""
        return RidgeFit(self.alpha)

    def fit_release(self, release: Release, target: str | int = -1, *, features: Sequence[str] | None = None) -> Self:
        """Fit a release by group: pure post-processing.

        Parameters
        ----------
        release : Release
            Of second moments by group; `values` and `by` are its own.
        target : str or int
            The column to predict, the last by default.
        features : sequence of str, optional
            The columns to predict it from, in the order of `coef_`; by default all others.
        """
        everybody = Blocks(release)
        self.release_, self.groups_, self.by_ = release, everybody.groups, everybody.by
        self.sizes_, self.size_error_ = everybody.sizes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)  # they are told together, below
            self.pooled_ = self._ridge().fit_release(release, target, features=features)
            fitted = {
                group: self._ridge().fit_release(release, target, features=features, group=group)
                for group in self.groups_
            }
        self.models_ = {group: model for group, model in fitted.items() if model.inference().informative}
        self.left_out_ = {
            group: self._why_left_out(place, fitted[group])
            for place, group in enumerate(self.groups_)
            if group not in self.models_
        }
        self.fixed_effects_ = fixed_effects(release, target, features=features)
        self.target_, self.feature_names_ = self.pooled_.target_, self.pooled_.feature_names_
        name_features(self, self.feature_names_)
        nothing = np.full(len(self.feature_names_), np.nan)
        self.coef_ = np.array([self.models_[g].coef_ if g in self.models_ else nothing for g in self.groups_])
        self.intercept_ = np.array([self.models_[g].intercept_ if g in self.models_ else np.nan for g in self.groups_])
        self.warnings_ = self._why_not_useful()
        absent = [f"{self.by_} = {group}: no regression, {text}" for group, text in self.left_out_.items()]
        for text in (*self.warnings_, *absent):
            warnings.warn(text, UtilityWarning, stacklevel=2)
        return self

    def summary(self, level: float = 0.95) -> GroupedSummary:
        """Return people and coefficients of each group beside those of everybody, with standard errors and intervals.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        return GroupedSummary(
            target=self.target_,
            by=self.by_,
            groups=self.groups_,
            sizes=self.sizes_,
            size_error=self.size_error_,
            found={group: model.inference(level) for group, model in self.models_.items()},
            left_out=self.left_out_,
            pooled=self.pooled_.inference(level),
            fixed=fixed_effects(self.release_, self.target_, features=self.feature_names_, level=level),
            weighted=Blocks(self.release_).weighted,
        )

    def result(self, level: float = 0.95) -> Result:
        """Return all that the release says of the regressions, as `dpmpc fit` and `dpmpc read` show it.

        Parameters
        ----------
        level : float
            Nominal coverage of each interval, strictly between 0 and 1.
        """
        summary, count = self.summary(level), len(self.groups_)
        groups: dict[str, dict[str, object]] = {}
        for group, size in zip(self.groups_, self.sizes_.tolist(), strict=True):
            people: dict[str, object] = {"people": size, "people_standard_error": self.size_error_}
            model = self.models_.get(group)
            groups[group] = people | ({"left_out": self.left_out_[group]} if model is None else _fields(model, level))
        notes = [
            "Estimates are without penalty; each group has the noise of a release without groups, and the sum of all "
            f"{count}, which the pooled regression reads, {count} times its variance. {EVEN}",
            *(f"{text[:1].upper()}{text[1:]}." for text in self.warnings_),
        ]
        return Result(
            model=self.kind,
            title=f"Ridge regressions of {self.target_} by {self.by_}",
            tables=summary.tables,
            notes=notes,
            warnings=self.warnings_,
            verdict=None if summary.informative else UNIDENTIFIED,
            data={
                "target": self.target_,
                "by": self.by_,
                "confidence_level": level,
                "groups": groups,
                "pooled": _fields(self.pooled_, level),
                "fixed_effects": None if summary.fixed is None else _fixed(summary.fixed, len(self.feature_names_)),
                "differences": summary.tested,
                "random_effects": {name: one.to_dict() for name, one in summary.random_effects.items()},
                "warnings": list(self.warnings_),
            },
            parameters=self.parameters,
            estimator=self.python_name,
            chosen=selection(Blocks(self.release_).columns, self.target_, self.feature_names_),
            features=len(self.feature_names_),
        )

    @property
    def parameters(self) -> dict[str, object]:
        """What the estimator was given, so that it can be made again."""
        return {"alpha": self.alpha}

    def _why_left_out(self, place: int, model: RidgeFit) -> str:
        """Say of a group why there is no regression, and how many people it would take."""
        block, size = model.selected_, self.sizes_[place]
        needed = people_needed(block.task, len(block.columns), float(block.noise_variance[0]))
        book = block.task.schema.codebook
        unit = ", weights in units of the largest" if isinstance(book, Codebook) and book.weight is not None else ""
        found = f"{round(size):,} found{unit}, standard error {self.size_error_:,.0f}"
        if not stands_out(size, self.size_error_**2):
            short = "too few people"
        elif needed is None or size < needed:
            short = "too much noise for its people"
        else:
            return (
                f"its features vary too little: {found}, and about {needed:,} would do if they varied as plans assume; "
                "one of them is nearly the same throughout the group, or follows from the others there"
            )
        return f"{short}: {found}; " + (
            "no number of people would do at this delta" if needed is None else f"about {needed:,} people would do"
        )

    def _why_not_useful(self) -> tuple[str, ...]:
        """Return what is to be told of all regressions once, and of single ones with their names."""
        found = {f"{self.by_} = {group}": model.why_not_useful() for group, model in self.models_.items()}
        found[POOLED] = self.pooled_.why_not_useful()
        counts = collections.Counter(text for texts in found.values() for text in texts)
        shared = [text for text, count in counts.items() if count > 1]
        own = [f"{name}: {text}" for name, texts in found.items() for text in texts if text not in shared]
        return (*shared, *own)


def _fields(model: RidgeFit, level: float) -> dict[str, object]:
    """Return one regression as plain data, without coefficients where the noise leaves none."""
    found = model.inference(level)
    if not found.informative:
        return {"coefficients": None, "intercept": None, **found.fields}
    return {
        "coefficients": dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)),
        "intercept": model.intercept_,
        "alpha": float(model.alpha_),
        **found.fields,
    }


def _fixed(found: Inference, slopes: int) -> dict[str, object]:
    """Return common slopes, and the intercept of each group."""
    listed = {
        name: {"coefficient": value, "standard_error": error, "confidence_interval": interval}
        for name, value, error, interval in zip(
            found.feature_names,
            found.coef.tolist(),
            found.standard_errors.tolist(),
            found.confidence_intervals.tolist(),
            strict=True,
        )
    }
    names = found.feature_names
    return {
        "slopes": {name: listed[name] for name in names[:slopes]},
        "intercepts": {name: listed[name] for name in names[slopes:]},
    }
