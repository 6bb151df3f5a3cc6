"""What is said of regressions by group: as plain data for JSON, and as text for a person."""

from __future__ import annotations

import math
from typing import Any

from rich.console import RenderableType
from rich.markup import escape

from dpmpc.estimators.grouped_fit import GroupedRidgeFit
from dpmpc.estimators.inference import Inference, stands_out
from dpmpc.estimators.release_parts import Blocks
from dpmpc.estimators.ridge import RidgeFit
from dpmpc.estimators.summary import EVEN
from dpmpc.release import Release
from dpmpc.render.fit import inference_fields
from dpmpc.results import NumberTable

MODEL = "grouped-ridge"


def grouped_fields(model: GroupedRidgeFit, level: float) -> dict[str, Any]:
    """Return the "result" of the JSON contract: the groups, everybody, and what they have in common."""
    summary = model.summary(level)
    groups = {}
    for group, size in zip(model.groups_, model.sizes_.tolist(), strict=True):
        people = {"people": size, "people_standard_error": model.size_error_}
        fitted = model.models_.get(group)
        groups[group] = {**people, **(_regression(fitted, level) if fitted else {"left_out": model.left_out_[group]})}
    return {
        "target": model.target_,
        "by": model.by_,
        "confidence_level": level,
        "groups": groups,
        "pooled": _regression(model.pooled_, level),
        "fixed_effects": None if summary.fixed is None else _fixed(summary.fixed, len(model.feature_names_)),
        "differences": summary.to_dict()["differences"],
        "warnings": list(model.warnings_),
    }


def _regression(model: RidgeFit, level: float) -> dict[str, Any]:
    found = model.inference(level)
    if not found.informative:
        return {"coefficients": None, "intercept": None, **inference_fields(found)}
    return {
        "coefficients": dict(zip(model.feature_names_, model.coef_.tolist(), strict=True)),
        "intercept": model.intercept_,
        "alpha": float(model.alpha_),
        **inference_fields(found),
    }


def _fixed(found: Inference, slopes: int) -> dict[str, Any]:
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


def grouped_parts(model: GroupedRidgeFit, level: float) -> list[RenderableType]:
    """Return the same for a person, but for the warnings."""
    return [
        escape(f"{model.summary(level)}\n"),
        f"Estimates are without penalty; {escape(noise_text(model.release_))}. {EVEN}",
    ]


def noise_text(release: Release) -> str:
    """Say what the noise of a block and of all blocks is, in a clause."""
    count = len(Blocks(release).groups)
    return (
        "each group has the noise of a release without groups, and the sum of all "
        f"{count}, which the pooled regression reads, {count} times its variance"
    )


def means_table(release: Release) -> NumberTable:
    """Return how many people each group has, with noise, and the means of the columns in groups that stand out."""
    everybody = Blocks(release)
    sizes, error = everybody.sizes()
    lists: dict[str, list[float]] = {"people": sizes.tolist(), "std. error": [error] * len(sizes)}
    clear = [stands_out(size, error**2) for size in sizes]
    told = [Blocks(release, [group]).describe() for group in everybody.groups]
    for place, name in enumerate(everybody.columns):
        pairs = [(one.means[place], one.mean_errors[place]) for one in told]
        shown = [pair if is_clear else (math.nan, math.nan) for pair, is_clear in zip(pairs, clear, strict=True)]
        lists |= {f"mean {name}": [mean for mean, _ in shown], f"± {name}": [error for _, error in shown]}
    notes = [f"n = {release.clients:,} in all groups together. ±: standard error, of noise and sampling."]
    if few := [group for group, is_clear in zip(everybody.groups, clear, strict=True) if not is_clear]:
        notes.append(f"Too few people to tell from none: {', '.join(few)}.")
    return NumberTable(f"By {everybody.by}", lists, list(everybody.groups), label=everybody.by, notes=notes)
