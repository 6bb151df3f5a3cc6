"""Read any release file that dpmpc writes, or the folder of a fit: what was released, and what follows from it.

What a file is follows from its content: its public facts and whether it holds a certificate. A folder's model is
computed again from its releases. Everything is computed from the files, so that reading costs no privacy.

Promised: the guarantee is recomputed, and of a collection's release everything that `dpmpc verify` checks without a
task file. Not promised: that a collection's keys are those of whom you trust: `dpmpc verify --collection` checks that.

What only some files need is imported when one of these is read: most are the release of a fit.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpmpc.app.render.about import About
from dpmpc.app.render.fit_folder import FitFolder
from dpmpc.app.render.readings import reading_of
from dpmpc.app.render.released import report_of
from dpmpc.app.render.report import Report
from dpmpc.base.errors import InputError, UtilityWarning
from dpmpc.base.storage.records import MALFORMED
from dpmpc.base.untrusted import printable, read_json
from dpmpc.models import LogisticRegression
from dpmpc.models.common.release_parts import with_variables
from dpmpc.models.groups.group_comparison import GroupComparison
from dpmpc.models.survival.cox_regression import CoxRegression
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.tables.cross_table import CrossTable
from dpmpc.privacy.task import LONGEST_CHECK
from dpmpc.release.release import Release
from dpmpc.release.release_file import CERTIFICATE_MEMBER, LARGEST_PUBLIC, PUBLIC_MEMBER, open_members
from dpmpc.release.results import Result


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """What a reader requests."""

    target: str | None = None  # a column to regress on others
    features: Sequence[str] | None = None  # those others; by default all
    # name -> features that are tested together
    groups: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    # what reads it: "ridge", "logistic" for the approximation without rounds, "compare" for means by group, or
    # "survival" for curves from cells
    model: str = "ridge"
    time: str | None = None  # of "survival": the column of times, the answer that tells the event, the groups of curves
    event: str | None = None
    by: str | None = None
    until: float | None = None  # of "survival": up to when means are restricted
    before: Sequence[str] | None = None  # of "compare": columns that differences are adjusted for
    control: str | None = None  # of "compare": the group that others are compared with
    crosstab: Sequence[str] | None = None  # two variables, in place of a target
    method: str | None = None  # of a mixed file: how its rows are read, by default as the file says
    ridge: float | None = None  # of a mixed file: what is added to the Hessian
    level: float = 0.95  # nominal coverage of intervals
    longest: float = LONGEST_CHECK  # seconds that drawing a public matrix again may take


def read(path: str | os.PathLike[str], options: ReadOptions | None = None) -> Report:
    """Read a file, or the folder of a fit.

    Raises
    ------
    InputError
        If it is not a release that dpmpc wrote, claims what does not hold, or cannot give what is requested.
    """
    requested = options or ReadOptions()
    for name in ("before", "control"):
        if requested.model != "compare" and getattr(requested, name) is not None:
            raise InputError(name, f"{getattr(requested, name)!r} given, but that is for --model compare")
    for name in ("time", "event", "by", "until"):
        if requested.model != "survival" and getattr(requested, name) is not None:
            raise InputError(name, f"{getattr(requested, name)!r} given, but that is for --model survival")
    if Path(path).is_dir():
        folder = FitFolder.open(Path(path))
        if folder.in_rounds or (
            requested.target is None and requested.crosstab is None and folder.parameters is not None
        ):
            return _of_folder(folder, requested)
        path = folder.path / folder.files[0]
    file = Path(path).name
    if requested.target is None and (requested.features or requested.groups) and requested.model != "survival":
        raise InputError("target", "none", "the column to predict", condition="with features and groups")
    if requested.crosstab is not None:
        if len(requested.crosstab) != 2:
            raise InputError("crosstab", f"{', '.join(requested.crosstab)} given, two variables expected, as in A,B")
        if requested.target is not None or requested.model != "ridge":
            raise InputError("crosstab", "given, no target and no model expected with it")
    kind = _kind(path)
    if requested.model == "compare" and requested.features:
        raise InputError("features", f"{requested.features} given, but a comparison has none; --before adjusts it")
    if requested.model == "survival":
        if requested.target is not None or requested.groups or kind == "mixed":
            raise InputError("model", "'survival'", "no target and no groups", condition="with it")
        if requested.features and (requested.by is not None or requested.until is not None):
            raise InputError("features", "given, no by and no until expected with them")
    elif requested.model != "ridge" and (requested.target is None or requested.groups or kind == "mixed"):
        raise InputError(
            "model",
            f"{requested.model!r}",
            "a target and no groups",
            condition="with it, and a release of second moments",
        )
    if kind == "mixed":
        if requested.crosstab is not None:
            raise InputError("crosstab", "given, but the public files of dpmpc mix hold no second moments")
        from dpmpc.app.render.mixed import mixed_report, mixed_result
        from dpmpc.owners.columns.mixed_release import MixedRelease

        mixed = MixedRelease.load(path)
        result = mixed_result(
            mixed,
            requested.target,
            features=requested.features,
            groups=requested.groups,
            method=requested.method,
            ridge=requested.ridge,
            level=requested.level,
        )
        return mixed_report(mixed, result, file=file)
    for name in ("method", "ridge"):
        if getattr(requested, name) is not None:
            given = getattr(requested, name)
            raise InputError(name, f"{given!r} given, but that is for the public files of dpmpc mix")
    release, about, checks = _opened(path, kind, requested.longest)
    result = result_of(release, requested)
    return report_of([release], dataclasses.replace(result, notes=[*result.notes, *checks]), about, files=[file])


def _opened(path: str | os.PathLike[str], kind: str, longest: float) -> tuple[Release, About, list[str]]:
    """Return a checked release, its facts, and what the file alone does not show."""
    if kind == "collection":
        from dpmpc.collect.terms.verifying import verify

        verified = verify(path, longest=longest)
        about = About.of_collection(verified.collection, verified.certificate)
        left = [f"dpmpc verify {Path(path).name} --collection TASKFILE checks whose keys these are."]
        return verified.release, about, left
    release = Release.load(path, longest=longest)
    return release, About.of_release(release), []


def _kind(path: str | os.PathLike[str]) -> str:
    """Tell the kind of a release by its members and by the fields of its task."""
    try:
        with open_members(path) as members:
            if CERTIFICATE_MEMBER in members.names:
                return "collection"
            header = read_json(members.read(PUBLIC_MEMBER, LARGEST_PUBLIC), dict, largest=LARGEST_PUBLIC)
    except (OSError, *MALFORMED) as error:
        raise InputError(
            "file",
            f"{os.fspath(path)!r}",
            "a release of dpmpc fit, release or mix",
            "dpmpc inspect reads the task file of a collection",
            condition=f"({printable(str(error))})",
        ) from error
    task = header.get("task")
    return "mixed" if isinstance(task, dict) and "parties" in task else "release"


def _of_folder(folder: FitFolder, options: ReadOptions) -> Report:
    """Compute a fit again from its releases."""
    for name in ("target", "features", "method", "ridge", "crosstab"):
        if getattr(options, name) is not None:
            raise InputError(
                name,
                f"{getattr(options, name)!r} given, but {str(folder.path)!r} holds a fitted model; "
                f"{str(folder.path / folder.files[0])!r} can be read anew",
            )
    if options.groups or options.model != "ridge":
        given = "group" if options.groups else "model"
        raise InputError(
            given,
            f"given, but {str(folder.path)!r} holds a fitted {folder.model} model; "
            f"{str(folder.path / folder.files[0])!r} can be read anew",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # the report says it
        model, releases, guarantee = folder.fit_again(options.longest)
    return report_of(
        releases,
        model.result(options.level),
        About.of_release(releases[0]),
        files=folder.files,
        in_rounds=folder.in_rounds,
        guarantee=guarantee,
    )


def result_of(release: Release, options: ReadOptions) -> Result:
    """Return what servers opened states of the requested column, or of all columns where none is."""
    target, reading = options.target, reading_of(release.task.statistic)
    if options.crosstab is not None:
        return CrossTable.of(release, *options.crosstab).result(options.level)
    if options.model == "survival":
        return _survival(release, options)
    if target is None:
        return reading.result(release, options.level)
    features = with_variables(release.task.schema, options.features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # the result says it
        if options.model == "ridge":
            return reading.regression(release, target, features, options.groups, options.level)
        if options.model == "compare":
            comparison = GroupComparison(before=options.before or (), control=options.control)
            return comparison.fit_release(release, target).result(options.level)
        return LogisticRegression(rounds=0).fit_release(release, target, features=features).result(options.level)


def _survival(release: Release, options: ReadOptions) -> Result:
    """Return hazard ratios where features are requested, else curves."""
    model: CoxRegression | KaplanMeier
    if options.features:
        model = CoxRegression(time=options.time, event=options.event, features=options.features)
    else:
        model = KaplanMeier(time=options.time, event=options.event, by=options.by, until=options.until)
    return model.fit_release(release).result(options.level)
