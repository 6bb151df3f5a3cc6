"""The report of a `MixedRelease`: for whom it is private, how much noise it has, and how to read it; the same page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dpmpc.data_release import MixedRelease
from dpmpc.data_release.mixing_guarantee import MixingGuarantee
from dpmpc.render import plots
from dpmpc.render.about import About
from dpmpc.render.guarantee_prose import NOTHING_AFTER_A_SIMULATION, sentence
from dpmpc.render.page import Fact, Number, noise_table, page_table, template, versions
from dpmpc.render.signal_and_noise import Signal
from dpmpc.results import NumberTable
from dpmpc.results.drawing import INSTALL, available, figures
from dpmpc.storage import whole


def write_mixed_report(path: Path, release: MixedRelease, *, file: str) -> None:
    """Write the page of a release of mixed columns to a file, whole or not at all; one that is there is replaced."""
    with whole(path) as partial:
        partial.write(mixed_page(release, file=file).encode())


def mixed_page(
    release: MixedRelease, *, file: str, fitted: Sequence[NumberTable] = (), warnings: Sequence[str] = ()
) -> str:
    """Return the page, HTML in one piece.

    Parameters
    ----------
    release : MixedRelease
        What was published.
    file : str
        Name of the release's file.
    fitted : sequence of NumberTable
        Coefficients that were read from it.
    warnings : sequence of str
        Why not to rely on them; a plot of noise is left out then.
    """
    task, promised, found, about = release.task, release.guarantee, _signal(release), About.of_mixed(release)
    wanted: dict[str, Callable[[], plots.Plot]] = (
        {} if warnings else {"noise against signal": lambda: plots.noise(found)}
    )
    drawing = available()
    kind = "mixed rows" if task.rows is not None else "noisy rows, one for each of them"
    return template().render(
        title=about.title,
        about=about.facts,
        verdict=". ".join(sentence(text).rstrip(".") for text in warnings) + "." if warnings else None,
        released=f"{task.subjects:,} people, {len(release.columns)} columns at {len(task.parties)} parties. Released: "
        f"{task.released_rows:,} {kind}.",
        guarantee=promised,
        facts=[
            Fact("People", Number.of(task.subjects), "at every party"),
            Fact("ε of a party's columns", Number.of(promised.party_epsilon), "at most"),
            Fact("ε of a whole row", Number.of(promised.subject_epsilon), "at most"),
            Fact("δ", Number.of(promised.delta), "at most"),
        ],
        tables=[page_table(table) for table in fitted],
        notes=[],
        drawn={"result": [], "noise": [draw() for draw in wanted.values()] if drawing else [], "servers": []},
        missing=[] if drawing else list(wanted),
        install=INSTALL,
        promise=_promise(promised),
        guarantee_items=_guarantee_items(promised),
        noise=noise_table(found),
        costs=[],
        without_further_cost=_without_further_cost(release),
        what_costs_more=[
            "Any further release of the same people's columns, by any of the parties: budgets add up.",
            "Bounds or a number of rows that were chosen by looking at the data: they are public, and not protected.",
        ],
        code=_fit_code(release, file),
        command=None,
        digest=None,
        versions=versions(),
    )


def _signal(release: MixedRelease) -> Signal:
    """Compare the squared entries of each column with the variance of the noise in them."""
    noise = release.task.noise_variance
    left = np.sqrt(np.maximum(np.mean(release.rows**2, axis=0) - noise, 0.0))
    return Signal(
        "entries of the released rows, columns mapped to [−1, 1]",
        "typical size, no unit",
        dict.fromkeys(release.columns, math.sqrt(noise)),
        dict(zip(release.columns, left.tolist(), strict=True)),
    )


def _promise(guarantee: MixingGuarantee) -> str:
    party, subject = (math.exp(epsilon) for epsilon in (guarantee.party_epsilon, guarantee.subject_epsilon))
    return (
        "Had one person's columns at one party been other ones, anything that follows from the release would have "
        f"been at most {figures(party)} times more or less likely, up to an extra probability of "
        f"{figures(guarantee.delta)}; had its columns at all parties been other ones, {figures(subject)} times."
    )


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
        ("Noise", [sentence(guarantee.mechanism)]),
        ("Assumes", [sentence(assumption) for assumption in guarantee.assumptions]),
        ("Proven in", [sentence(source) for source in guarantee.sources]),
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
            f"from dpmpc.data_release import {name}, MixedRelease",
            "",
            f"release = MixedRelease.load({file!r})",
            f"model = {name}().fit_release(release, {release.columns[-1]!r})",
        ]
    )
