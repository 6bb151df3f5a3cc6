"""Reports of a `MixedRelease`: for whom it is private, how much noise it has, and a regression of its columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpmpc.app.render.about import About
from dpmpc.app.render.drawing import figures
from dpmpc.app.render.guarantee_prose import NOTHING_AFTER_A_SIMULATION, sentence
from dpmpc.app.render.readings.reading import noise_table
from dpmpc.app.render.readings.sentences import hint
from dpmpc.app.render.report import Fact, GuaranteeInWords, Report
from dpmpc.base.errors import InputError
from dpmpc.base.untrusted import printable
from dpmpc.owners.columns.fits import BGMFit, DGMFit, MixingFit, MixingOutlook, RMGMFit
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_guarantee import MixingGuarantee
from dpmpc.privacy import bound_in_words
from dpmpc.privacy.statements import REPEATABLE, assumptions, sources
from dpmpc.release.results import NumberTable, Result
from dpmpc.release.results.number_tables import finite_or_none

_RIDGE = 1e-5
_UNBIASED = (
    "Without the noise's share of the Hessian, which shrinks a fit by rmgm or bgm, and without ridge: other numbers",
    "than the fit's, with standard errors. Both predict the middle of the bounds where all features are in theirs.",
)
_NO_INTERVAL = "The noise leaves no standard errors: more clients, a larger epsilon or fewer features would."
REGRESSIONS: dict[str, type[MixingFit]] = {"rmgm": RMGMFit, "dgm": DGMFit, "bgm": BGMFit}


def mixed_report(release: MixedRelease, result: Result, *, file: str) -> Report:
    """Return the report of a file, around what was read from it."""
    task, promised, about = release.task, release.guarantee, About.of_mixed(release)
    kind = "mixed rows" if task.rows is not None else "noisy rows, one for each person"
    return Report(
        title=about.title,
        about=about.facts,
        released=[
            f"{task.subjects:,} people, {len(release.columns)} columns at {len(task.parties)} parties. Released: "
            f"{task.released_rows:,} {kind}."
        ],
        result=result,
        promise=GuaranteeInWords(
            str(promised), _promise(promised), _guarantee_items(promised), REPEATABLE if promised.simulation else None
        ),
        facts=[
            Fact("People", task.subjects, "at every party"),
            Fact("ε of a party's columns", promised.party_epsilon, "at most"),
            Fact("ε of a whole row", promised.subject_epsilon, "at most"),
            Fact("δ", promised.delta, "at most"),
        ],
        noise=_noise(release),
        free=_without_further_cost(release),
        paid=[
            "Any further release of the same people's columns, by any of the parties: budgets add up.",
            "Bounds or a number of rows that were chosen by looking at the data: they are public, and not protected.",
        ],
        code=_fit_code(release, file),
        data={
            "kind": about.kind,
            "columns": list(release.columns),
            "rows": len(release.sums),
            "subjects": task.subjects,
            "provenance": release.provenance,
            "privacy": promised.to_dict(),
        },
    )


def mixed_result(
    release: MixedRelease,
    target: str | None,
    *,
    features: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    method: str | None = None,
    ridge: float | None = None,
    level: float = 0.95,
) -> Result:
    """Regress a column on others, as the file states that its rows are to be read unless another method is named."""
    if target is None:
        return Result(notes=[hint(release.columns)])
    chosen = method or release.provenance.get("method")
    if not isinstance(chosen, str) or chosen not in REGRESSIONS:
        given = printable(str(chosen), 60)
        raise InputError("method", f"{given!r} given by the file, one of {', '.join(REGRESSIONS)} expected")
    model = REGRESSIONS[chosen](ridge=_RIDGE if ridge is None else ridge)
    fitted = model.fit_release(release, target, features=features)
    outlook = MixingOutlook.of(chosen, release, fitted.target_, fitted.feature_names_)
    warned = [_too_noisy(release, outlook)] if outlook.too_noisy else []
    coefficients = dict(zip(fitted.feature_names_, map(float, fitted.coef_), strict=True))
    names, values = [*coefficients, "intercept"], [*coefficients.values(), float(fitted.intercept_)]
    title = f"{fitted.target_}, by {chosen}, in the columns' units"
    tables = [NumberTable(title, {"coefficient": values}, names, notes=_mean_squares(outlook, fitted))]
    summary = fitted.summary(level, groups=groups)
    if summary.informative:
        tables.append(dataclasses.replace(summary.coefficients, notes=[*_UNBIASED, *summary.notes]))
    return Result(
        tables=tables,
        notes=[] if summary.informative else [_NO_INTERVAL],
        warnings=warned,
        verdict=". ".join(sentence(text).rstrip(".") for text in warned) + "." if warned else None,
        data={
            "method": chosen,
            "target": fitted.target_,
            "coefficients": coefficients,
            "intercept": float(fitted.intercept_),
            **summary.inference.fields,
            "regression": summary.to_dict(),
            "smallest_eigenvalue": fitted.smallest_eigenvalue_,
            "second_moments": {"noise": outlook.noise, "data": outlook.data},
            "expected_error": finite_or_none(outlook.error),
        },
    )


def _noise(release: MixedRelease) -> NumberTable:
    """Compare the squared entries of each column with the variance of the noise in them."""
    squares = np.mean(release.rows**2, axis=0).tolist()
    sizes = {name: (one, release.task.noise_variance) for name, one in zip(release.columns, squares, strict=True)}
    return noise_table("entries of the released rows, columns mapped to [−1, 1]", sizes)


def _promise(guarantee: MixingGuarantee) -> str:
    party = bound_in_words(
        guarantee.party_epsilon, guarantee.delta, "a person's columns at any one party", "any other columns there"
    )
    subject = bound_in_words(
        guarantee.subject_epsilon, guarantee.delta, "a person's columns at all parties", "any other columns"
    )
    return f"{party} {subject}"


def _guarantee_items(guarantee: MixingGuarantee) -> list[tuple[str, list[str]]]:
    """Return the guarantee, item by item."""
    what = {"party": "the columns of each person at any one party", "subject": "the whole row of each person"}
    return [
        ("What is promised", [f"ε = {figures(guarantee.epsilon)} for {what[guarantee.protects]}."]),
        (
            "Against whom",
            [
                "A party's columns: everybody who reads the release, and all other parties, if they pool all they see.",
                "A whole row: everybody who reads the release, and parties as far as columns are not their own.",
            ],
        ),
        ("Neighbouring relation", [f"{guarantee.neighbouring}: {guarantee.relation}."]),
        ("Noise", [sentence(guarantee.noise_text)]),
        ("Assumes", [sentence(assumption) for assumption in assumptions(guarantee.assumptions, {})]),
        ("Proven in", [sentence(source) for source in sources(guarantee.sources)]),
    ]


def _without_further_cost(release: MixedRelease) -> list[str]:
    if release.task.simulation:
        return [NOTHING_AFTER_A_SIMULATION]
    return ["Publish the release and this report, and predict any column from the others: that keeps the guarantee."]


def _fit_code(release: MixedRelease, file: str) -> str:
    """Return the lines of Python that fit the last column."""
    unmixed = "BGM" if release.provenance.get("method") == "bgm" else "DGM"
    name = unmixed if release.task.rows is None else "RMGM"
    return "\n".join(
        [
            f"from dpmpc.owners import {name}, MixedRelease",
            "",
            f"release = MixedRelease.load({file!r})",
            f"model = {name}().fit_release(release, {release.columns[-1]!r})",
        ]
    )


def _mean_squares(outlook: MixingOutlook, fitted: MixingFit) -> list[str]:
    """Return how large data and noise are."""
    data = ", ".join(f"{name} {size:.3g}" for name, size in outlook.data.items())
    return [
        "Mean squares, columns mapped to [-1, 1]; evenly spread data has 0.333:",
        f"  of the data, estimated: {data}",
        f"  of the noise beside each: {outlook.noise:.3g}",
        f"  least of the features, in any direction, with the noise: {fitted.smallest_eigenvalue_:.3g}",
        "    (smallest eigenvalue of the Hessian over n; near 0, chance decides the coefficients)",
    ]


def _too_noisy(release: MixedRelease, outlook: MixingOutlook) -> str:
    """Say, with numbers, that there are too few people."""
    sizes = ", ".join(f"{name} {size:.3g}" for name, size in outlook.data.items())
    found = "nothing of the features or of the target stands out of the noise"
    if math.isfinite(outlook.error):
        found = f"the expected squared error is {outlook.error:.2g}, and predicting the middle of the bounds has 1"
    return (
        f"do not rely on these coefficients: {release.task.subjects:,} people are too few at epsilon = "
        f"{release.task.epsilon:g}: {found}; mean squares: noise {outlook.noise:.3g}, data {sizes}"
    )
