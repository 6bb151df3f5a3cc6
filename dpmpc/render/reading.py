"""Read any release file that dpmpc writes, and say what is in it: as text, JSON, CSV, LaTeX, or a page.

What a file is follows from its content: its public facts and whether it holds a certificate. A folder that a fit in
rounds has written is computed again from its releases. Everything is computed from the files, so that reading costs no
privacy.

Promised: the guarantee is recomputed, and of a collection's release everything that `dpmpc verify` checks without a
task file. Not promised: that a collection's keys are those of whom you trust: `dpmpc verify --collection` checks that.
"""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dpmpc.collection.certificate import CERTIFICATE_MEMBER
from dpmpc.collection.verifying import verify
from dpmpc.contributions import ItemSketch, PowerSum, Rows, SecondMoments
from dpmpc.data import require_column
from dpmpc.data_release import MixedRelease
from dpmpc.data_release.fits import BGMFit, DGMFit, MixingFit, MixingOutlook, RMGMFit
from dpmpc.errors import InputError, UtilityWarning
from dpmpc.estimators.components_and_moments import MomentFit
from dpmpc.estimators.grouped_fit import GroupedRidgeFit
from dpmpc.estimators.in_rounds import LogisticFit, PoissonFit
from dpmpc.estimators.release_parts import Blocks, is_grouped, with_variables
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.estimators.summary import EVEN
from dpmpc.release import Release
from dpmpc.render.about import About
from dpmpc.render.fit import inference_fields, release_text, task_fields
from dpmpc.render.fit_folder import FitFolder
from dpmpc.render.grouped import MODEL, grouped_fields, means_table, noise_text
from dpmpc.render.mixed import mixed_page
from dpmpc.render.page import Analysed, page
from dpmpc.render.python_code import fit_code
from dpmpc.render.rounds_page import rounds_page
from dpmpc.render.rounds_text import found_in_rounds, rounds_text, sum_fields
from dpmpc.results import NumberTable, finite_or_none
from dpmpc.storage import LARGEST_PUBLIC, MALFORMED, PUBLIC_MEMBER, open_members
from dpmpc.task import LONGEST_CHECK
from dpmpc.untrusted import printable, read_json

_MIXED_RIDGE = 1e-5
_UNBIASED = (
    "Without the noise's share of the Hessian, which shrinks a fit by rmgm or bgm, and without ridge: other numbers",
    "than the fit's, with standard errors. Both predict the middle of the bounds where all features are in theirs.",
)
_NO_INTERVAL = "The noise leaves no standard errors: more clients, a larger epsilon or fewer features would."
REGRESSIONS: dict[str, type[MixingFit]] = {"rmgm": RMGMFit, "dgm": DGMFit, "bgm": BGMFit}


@dataclasses.dataclass(frozen=True)
class Wish:
    """What a reader asks for."""

    target: str | None = None  # a column to regress on others
    features: Sequence[str] | None = None  # those others; by default all
    # name -> features that are tested together
    groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    model: str = "ridge"  # what regresses it: "ridge", or "logistic" for the approximation without rounds
    method: str | None = None  # of a mixed file: how its rows are read, by default as the file says
    ridge: float | None = None  # of a mixed file: what is added to the Hessian
    level: float = 0.95  # nominal coverage of intervals
    longest: float = LONGEST_CHECK  # seconds that drawing a public matrix again may take


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file says."""

    about: About  # title, dates, operators
    released: str  # what was released, in a sentence
    tables: Sequence[NumberTable]  # the numbers
    notes: Sequence[str]  # what else there is to say
    warnings: Sequence[str]  # why not to rely on the numbers
    guarantee: str  # what is promised
    fields: dict[str, Any]  # the same for programs
    page: Callable[[], str]  # returns the same as a page of HTML

    def __str__(self) -> str:
        """Return the text that a person reads, which holds no control character of the file."""
        lines = [self.about.title, self.released]
        for name, texts in self.about.facts:
            lines += [f"{name}: {texts[0]}"] if len(texts) == 1 else [f"{name}:", *(f"  {text}" for text in texts)]
        parts = ["\n".join(lines), *map(str, self.tables), *(["\n".join(self.notes)] if self.notes else [])]
        return "\n\n".join([*parts, self.guarantee])

    def to_csv(self) -> str:
        """Return the tables as comma-separated values, an empty line between them."""
        return "\n".join(table.to_csv() for table in self.tables)

    def to_latex(self) -> str:
        """Return the tables for LaTeX."""
        return "\n".join(table.to_latex() for table in self.tables)


def read(path: str | os.PathLike[str], wish: Wish | None = None) -> Reading:
    """Read a file, or the folder of a fit.

    Raises
    ------
    InputError
        If it is not a release that dpmpc wrote, claims what does not hold, or cannot give what is asked for.
    """
    asked = wish or Wish()
    if Path(path).is_dir():
        folder = FitFolder.open(Path(path))
        if folder.in_rounds:
            return _of_rounds(folder, asked)
        path = folder.path / folder.files[0]
    file = Path(path).name
    if asked.target is None and (asked.features or asked.groups):
        raise InputError("target: none given, the column to predict expected beside features and groups")
    kind = _kind(path)
    if asked.model != "ridge" and (asked.target is None or asked.groups or kind == "mixed"):
        raise InputError(
            f"model: {asked.model!r} given, a target and no groups expected beside it, and a release of second moments"
        )
    if kind == "mixed":
        return _of_mixed(MixedRelease.load(path), file, asked)
    for name in ("method", "ridge"):
        if getattr(asked, name) is not None:
            raise InputError(f"{name}: {getattr(asked, name)!r} given, but that is for the public files of dpmpc mix")
    if kind == "collection":
        verified = verify(path, longest=asked.longest)
        about = About.of_collection(verified.collection, verified.certificate)
        return _of_sums(verified.release, about, file, asked)
    release = Release.load(path, longest=asked.longest)
    return _of_sums(release, About.of_release(release), file, asked)


def _kind(path: str | os.PathLike[str]) -> str:
    """Tell the kind of a release by its members and by the fields of its task."""
    try:
        with open_members(path) as members:
            if CERTIFICATE_MEMBER in members.names:
                return "collection"
            header = read_json(members.read(PUBLIC_MEMBER, LARGEST_PUBLIC), dict, largest=LARGEST_PUBLIC)
    except (OSError, *MALFORMED) as error:
        raise InputError(
            f"file: {os.fspath(path)!r} given, a release of dpmpc fit, release or mix expected "
            f"({printable(str(error))}); dpmpc inspect reads the task file of a collection"
        ) from error
    task = header.get("task")
    return "mixed" if isinstance(task, dict) and "parties" in task else "release"


def _of_sums(release: Release, about: About, file: str, wish: Wish) -> Reading:
    """Read what servers opened."""
    if wish.target is not None and not is_grouped(release):
        require_column(release.task.schema, wish.target)
    wish = dataclasses.replace(wish, features=with_variables(release.task.schema, wish.features))
    if wish.target and wish.model == "logistic":
        model = LogisticFit(rounds=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)  # the reading says it
            model.fit_release(release, wish.target, features=wish.features)
        return _of_likelihood(model, wish.target, about, [file], wish)
    tables, notes, fields, analysed = _regression(release, wish) if wish.target else _measures(release)
    listed = tables if analysed is None or analysed.model == MODEL else []  # others are drawn from their results
    if about.kind == "collection":
        notes = [*notes, f"dpmpc verify {file} --collection TASKFILE checks whose keys these are."]
    return Reading(
        about,
        f"{release_text(release.task, 'reports' if about.counted == 'reports' else 'clients')}.",
        tables,
        notes,
        fields.get("warnings", []),
        str(release.guarantee),
        {
            **_about_fields(about),
            **task_fields(release.task, len(wish.features or release.columns[wish.target is not None :])),
            "columns": list(release.columns),
            **fields,
        },
        lambda: page(release, analysed=analysed, about=about, tables=listed, file=file),
    )


def _of_rounds(folder: FitFolder, wish: Wish) -> Reading:
    """Compute a fit in rounds again from its releases."""
    for name in ("target", "features", "method", "ridge"):
        if getattr(wish, name) is not None:
            raise InputError(
                f"{name}: {getattr(wish, name)!r} given, but {str(folder.path)!r} holds a fitted model; "
                f"{str(folder.path / folder.files[0])!r} can be read anew"
            )
    if wish.groups or wish.model != "ridge":
        given = "group" if wish.groups else "model"
        raise InputError(f"{given}: given, but {str(folder.path)!r} holds a fitted {folder.model} model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # the reading says it
        model, releases = folder.fit_again(wish.longest)
    target = releases[0].columns[-1]
    return _of_likelihood(model, target, About.of_release(releases[0]), folder.files, wish)


def _of_likelihood(
    model: LogisticFit | PoissonFit | RidgeFit,
    target: str,
    about: About,
    files: Sequence[str],
    wish: Wish,
) -> Reading:
    """Read what a fit in rounds, or from the start of one, has found."""
    name, releases, promised = _NAMES[type(model)], model.releases_, model.guarantee_
    result, _ = found_in_rounds(model, target, wish.level)
    if isinstance(model, RidgeFit):
        table, parameters = model.summary(wish.level).coefficients, {"alpha": model.alpha, "rounds": 2}
    elif isinstance(model, LogisticFit):
        table, parameters = model.odds_ratios(wish.level), {"rounds": model.rounds}
    else:
        table, parameters = model.rate_ratios(wish.level), {"rounds": model.rounds, "most": model.most}
    analysed = Analysed(name, parameters, result, wish.features)
    told = [] if model.verdict_ is None else [f"no coefficients can be trusted: {model.verdict_}"]
    approximate = model.verdict_ is None and result.get("approximation") is not None
    code = fit_code(files[0], name, parameters, result, wish.features) if wish.target else None
    return Reading(
        about,
        f"{rounds_text(releases)}.",
        [table],
        [],
        [f"this is {result['approximation']}"] if approximate else told,
        str(promised),
        {
            **_about_fields(about),
            "model": name,
            **task_fields(releases[-1].task, len(model.feature_names_), promised),
            "columns": list(releases[0].columns),
            "releases": sum_fields(releases, promised),
            "result": result,
            "warnings": told,
        },
        lambda: rounds_page(releases, promised, analysed, files=files, timing={}, about=about.facts, code=code),
    )


_NAMES = {LogisticFit: "logistic", PoissonFit: "poisson", RidgeFit: "ridge"}
_Parts: TypeAlias = "tuple[list[NumberTable], list[str], dict[str, Any], Analysed | None]"


def _regression(release: Release, wish: Wish) -> _Parts:
    """Regress a column on others."""
    assert wish.target is not None
    if is_grouped(release):
        return _regressions_by_group(release, wish)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # they are told with the reading
        model = RidgeFit().fit_release(release, wish.target, features=wish.features)
    summary = model.summary(wish.level, groups=wish.groups)
    result = {
        "target": model.target_,
        "alpha": model.alpha_,
        "coefficients": dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)),
        "intercept": model.intercept_,
        **inference_fields(summary.inference),
    }
    ridge = {name: result[name] for name in ("alpha", "coefficients", "intercept")}
    parameters = {"alpha": model.alpha, "fit_intercept": model.fit_intercept}
    analysed = Analysed("ridge", parameters, result, wish.features)
    fields = {**summary.to_dict(), "ridge": ridge, "warnings": model.why_not_useful()}
    return [summary.coefficients], [], fields, analysed


def _regressions_by_group(release: Release, wish: Wish) -> _Parts:
    """Regress a column on others in each group."""
    if wish.groups:
        raise InputError("group: given, but regressions by group test no features together, --features expected")
    model = GroupedRidgeFit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit_release(release, wish.target or -1, features=wish.features)
    result = grouped_fields(model, wish.level)
    analysed = Analysed(MODEL, {"alpha": model.alpha}, result, wish.features)
    notes = [f"Estimates are without penalty; {noise_text(release)}. {EVEN}"]
    return model.summary(wish.level).tables, notes, result, analysed


def _measures(release: Release) -> _Parts:
    """Say what a release shows without a model."""
    contribution = release.task.statistic
    if is_grouped(release):
        everybody, table = Blocks(release).describe(), means_table(release)
        hint = f"--target {release.columns[-1]} regresses that column on the others, in each group."
        fields = {"by": table.label, "groups": table.to_dict(), "description": everybody.columns.to_dict()}
        return [table, *everybody.tables], [hint], fields, None
    if isinstance(contribution, SecondMoments):
        found = release.describe()
        fields = {"description": found.columns.to_dict(), "correlations": found.pairs.to_dict()}
        return (
            list(found.tables),
            [f"--target {release.columns[-1]} regresses that column on the others."],
            fields,
            None,
        )
    if isinstance(contribution, PowerSum | ItemSketch):
        of, order = ("values", contribution.order) if isinstance(contribution, PowerSum) else ("items", 2)
        model = MomentFit(order, of=of).fit_release(release)
        what = f"sum of x^{order}" if of == "values" else "sum of squared counts of the items"
        result = {"column": model.column_, "of": of, "order": order}
        result |= {"moment": model.moment_, "standard_error": model.standard_error_}
        values = {"estimate": [model.moment_], "standard error": [model.standard_error_]}
        table = NumberTable(f"{model.column_}: {what}", values, [model.column_])
        return [table], [], {"moment": result}, Analysed("moment", {"order": order, "of": of}, result)
    if isinstance(contribution, Rows):
        return [], [f"A sketch of rows. {_hint(release.columns)}"], {}, None
    return [], [f"The sums are those of {contribution.name}; models in rounds read them."], {}, None


def _of_mixed(release: MixedRelease, file: str, wish: Wish) -> Reading:
    """Read what parties with different columns published."""
    about, promised = About.of_mixed(release), release.guarantee
    kind = "mixed rows" if release.task.rows is not None else "noisy rows, one for each person"
    fields: dict[str, Any] = {
        **_about_fields(about),
        "columns": list(release.columns),
        "rows": len(release.sums),
        "subjects": release.task.subjects,
        "provenance": release.provenance,
        "privacy": promised.to_dict(),
    }
    tables: list[NumberTable] = []
    notes: list[str] = []
    told: list[str] = []
    if wish.target is None:
        notes.append(_hint(release.columns))
    else:
        method = wish.method or release.provenance.get("method")
        if not isinstance(method, str) or method not in REGRESSIONS:
            given = printable(str(method), 60)
            raise InputError(f"method: {given!r} given by the file, one of {', '.join(REGRESSIONS)} expected")
        ridge = _MIXED_RIDGE if wish.ridge is None else wish.ridge
        fitted = REGRESSIONS[method](ridge=ridge).fit_release(release, wish.target, features=wish.features)
        outlook = MixingOutlook.of(method, release, fitted.target_, fitted.feature_names_)
        told += [_too_noisy(release, outlook)] if outlook.too_noisy else []
        coefficients = dict(zip(fitted.feature_names_, map(float, fitted.coef_), strict=True))
        names, values = [*coefficients, "intercept"], [*coefficients.values(), float(fitted.intercept_)]
        title = f"{fitted.target_}, by {method}, in the columns' units"
        tables.append(NumberTable(title, {"coefficient": values}, names, notes=_mean_squares(outlook, fitted)))
        summary = fitted.summary(wish.level, groups=wish.groups)
        if summary.informative:
            tables.append(dataclasses.replace(summary.coefficients, notes=[*_UNBIASED, *summary.notes]))
        else:
            notes += [_NO_INTERVAL]
        fields |= {
            "method": method,
            "target": fitted.target_,
            "coefficients": coefficients,
            "intercept": float(fitted.intercept_),
            **inference_fields(summary.inference),
            "regression": summary.to_dict(),
            "smallest_eigenvalue": fitted.smallest_eigenvalue_,
            "second_moments": {"noise": outlook.noise, "data": outlook.data},
            "expected_error": finite_or_none(outlook.error),
        }
    released = (
        f"{release.task.subjects:,} people, {len(release.columns)} columns. Released: {len(release.sums):,} {kind}."
    )
    return Reading(
        about,
        released,
        tables,
        notes,
        told,
        str(promised),
        fields,
        lambda: mixed_page(release, file=file, fitted=tables, warnings=told),
    )


def _hint(columns: Sequence[str]) -> str:
    return f"--target {columns[-1]} regresses that column on the others."


def _mean_squares(outlook: MixingOutlook, fitted: MixingFit) -> list[str]:
    """Say how large data and noise are."""
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


def _about_fields(about: About) -> dict[str, Any]:
    return {"kind": about.kind, "title": about.title, "about": {name.lower(): texts for name, texts in about.facts}}
