"""Reports of releases: what was released, by whom and with how much noise, around the result that was read from them.

Promised: a report is a function of the releases, of the result computed from them and of public facts, so that it may
be published wherever the releases may. What the data itself would give is not in it. Not promised: that a release's
own word for who made it is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from dpmpc.app.render.about import About
from dpmpc.app.render.facts import task_fields
from dpmpc.app.render.guarantee_prose import guarantee_items, promise, what_costs_more, without_further_cost
from dpmpc.app.render.readings import reading_of
from dpmpc.app.render.report import Fact, GuaranteeInWords, Report
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.proving.contributions import ProvedContribution
from dpmpc.models.rounds.fit import SUM_NAMES
from dpmpc.privacy import Guarantee
from dpmpc.privacy.gaussian import epsilon_of_mu, mu_of_budget
from dpmpc.privacy.statements import REPEATABLE
from dpmpc.privacy.task import Task
from dpmpc.release.planning.cost import byte_fields
from dpmpc.release.release import Release
from dpmpc.release.results import NumberTable, Result

ONE_RELEASE = "release.dpmpc"
_COUNTED = {
    "people": ("Clients", "people"),
    "reports": ("Reports", "one person may have sent several"),
    "rows": ("Rows", "of all owners"),
}
SumFields: TypeAlias = "dict[str, str | int | float | None]"


def release_file(number: int) -> str:
    """Return the name of the file of a sum of a fit in rounds, in the order in which the sums are made."""
    return f"release-{number}.dpmpc"


def report_of(
    releases: Sequence[Release],
    result: Result,
    about: About,
    *,
    files: Sequence[str] = (ONE_RELEASE,),
    in_rounds: bool = False,
    guarantee: Guarantee | None = None,
) -> Report:
    """Return the report of one release, or of the sums of a fit in rounds, which have one guarantee together."""
    promised = guarantee or releases[-1].guarantee
    tasks = [release.task for release in releases]
    counted = {"people": "clients"}.get(about.counted, about.counted)
    if result.model is not None:
        code = fit_code(result, files, promised.epsilon if in_rounds else None)
    else:
        code = reading_code(files[0])
    features = len(releases[-1].columns) if result.features is None else result.features
    said = promised.statement("rows" if about.counted == "rows" else "clients")
    return Report(
        title=about.title,
        about=about.facts,
        released=[f"{rounds_text(releases, counted) if in_rounds else release_text(tasks[0], counted)}."],
        result=result,
        promise=GuaranteeInWords(
            said if about.series is None else about.series.promise(promised),
            promise(promised, about.series),
            guarantee_items(promised, about.series, "rows" if about.counted == "rows" else "clients"),
            REPEATABLE if promised.simulation else None,
        ),
        facts=_facts(tasks, promised, about),
        noise=_sums_table(releases, promised)
        if in_rounds
        else reading_of(releases[0].task.statistic).noise(releases[0]),
        noise_in_text=in_rounds,
        costs=[_byte_table(tasks)],
        free=without_further_cost(tasks[-1], compared=result.model is not None),
        paid=what_costs_more(tasks[-1]),
        code=code,
        digests=[task.digest.hex() for task in tasks],
        data={
            "kind": about.kind,
            **task_fields(tasks[-1], features, promised),
            "columns": list(releases[0].columns),
            **({} if about.series is None else {"series": msgspec.structs.asdict(about.series)}),
            **({"releases": sum_fields(releases, promised)} if in_rounds else {}),
        },
    )


def release_text(task: Task, counted: str = "clients") -> str:
    """Describe in a sentence what was released, from whom and by whom; `counted` is what they are known to be."""
    sketch = task.sketch
    reading = reading_of(task.statistic)
    proved = isinstance(task.statistic, ProvedContribution)
    kind = (reading.proved_words if proved else reading.words) or f"the sum of their {task.statistic.name}"
    words = task.copies * task.width
    return (
        f"{task.clients:,} {counted} with {len(task.schema)} column{'s' if len(task.schema) > 1 else ''}; "
        f"{task.trust.servers} servers with {task.sharing} shares. "
        f"Released: {kind} ({sketch.family}, k = {sketch.rows}, s = {sketch.sparsity}; "
        f"{words} word{'s' if words > 1 else ''} from each of them)"
    )


def rounds_text(releases: Sequence[Release], counted: str = "clients") -> str:
    """Describe in a sentence what was released in several sums, from whom and by whom."""
    task, counted_first = releases[0].task, releases[0].task.statistic.name == CellCounts.name
    rounds = len(releases) - 1 - counted_first
    words = sum(release.task.copies * release.task.width for release in releases)
    follows = (
        f", then {'one sum' if rounds == 1 else f'{rounds} sums'} at public coefficients"
        if rounds
        else ", and nothing after that"
    )
    return (
        f"{task.clients:,} {counted} with {len(task.schema)} columns; {task.trust.servers} servers with {task.sharing} "
        f"shares. Released: {'how many are in each cell of their columns, ' if counted_first else ''}the sum of their "
        f"second moments{follows} ({words} words from each of them in all)"
    )


def sum_fields(releases: Sequence[Release], promised: Guarantee) -> list[SumFields]:
    """Return what each sum was, its part of the budget and its noise."""
    found: list[SumFields] = []
    whole = mu_of_budget(promised.epsilon, promised.delta)  # also where the rounds ended before it was spent
    for number, release in enumerate(releases):
        task = release.task
        mu = float(task.guarantee.mu or 0.0)
        found.append(
            {
                "statistic": task.statistic.name,
                "words": task.copies * task.width,
                "mu": mu,
                "share": (mu / whole) ** 2 if promised.mu else None,
                "epsilon_alone": epsilon_of_mu(mu, promised.delta) if mu else task.guarantee.achieved_epsilon,
                "noise_sd": math.sqrt(float(release.noise_variance[0])),
                "file": release_file(number),
            }
        )
    return found


def _sums_table(releases: Sequence[Release], promised: Guarantee) -> NumberTable:
    """Return a row for each sum: its part of the budget and its noise."""
    listed, names = sum_fields(releases, promised), _sum_names(releases)
    alike = [place for place, fields in enumerate(listed) if not place or not _alike(fields, listed[place - 1])]
    ends = [*alike[1:], len(listed)]
    shown = [listed[place] for place in alike]
    headings = {"share of the budget (μ²)": "share", "ε alone": "epsilon_alone", "noise": "noise_sd"}
    return NumberTable(
        "Sums",
        {
            heading: [math.nan if fields[name] is None else float(fields[name] or 0.0) for fields in shown]
            for heading, name in headings.items()
        },
        [
            names[first]
            if last - first == 1
            else f"{names[first].replace('round', 'rounds')} to {names[last - 1].split()[-1]}, each"
            for first, last in zip(alike, ends, strict=True)
        ],
        label="sum",
        notes=[
            "All are within the one budget above. Noise: standard deviation in every entry of the sum, columns mapped "
            "to [−1, 1] and scores to length 1."
        ],
    )


def _alike(fields: SumFields, before: SumFields) -> bool:
    """Return whether two sums differ in their files alone."""
    return {**fields, "file": None} == {**before, "file": None}


def _sum_names(releases: Sequence[Release]) -> list[str]:
    """Return what the sums of a fit in rounds are called."""
    kinds = [SUM_NAMES[release.task.statistic.name] for release in releases]
    several = {"steering round", "last round"}  # which are numbered
    return [f"{kind} {kinds[: place + 1].count(kind)}" if kind in several else kind for place, kind in enumerate(kinds)]


def _facts(tasks: Sequence[Task], promised: Guarantee, about: About) -> list[Fact]:
    """Return the numbers that stand at the top of a page about one release, or about several that belong together."""
    sent = sum(byte_fields(task)["client_to_all_servers"] for task in tasks)
    clients, series = tasks[0].clients, about.series
    counted, which = _COUNTED[about.counted]
    loss = Fact("Privacy loss ε", promised.epsilon, "at most")
    return [
        Fact(counted, clients, which),
        loss if series is None else Fact("Privacy loss ε", series.epsilon, f"at most, in {series.together}"),
        Fact("δ", promised.delta, "at most"),
        Fact("Servers", promised.servers, f"of whom {promised.corrupt_servers} may collude"),
        Fact("A client sends", sent, "bytes"),
    ]


def _byte_table(tasks: Sequence[Task]) -> NumberTable:
    """Return the bytes of a run, or of several in all."""
    sizes = [byte_fields(task) for task in tasks]
    rows = {
        "client to one server": "client_to_last_server",
        "client to each other server": "client_to_other_servers",
        "stored by that server": "spool_of_last_server",
        "stored by each other server": "spool_of_other_servers",
        "server to analyst": "server_to_analyst",
        "server to each other server, to check proofs": "server_to_other_server",
    }
    listed = {name: sum(size[field] for size in sizes) for name, field in rows.items() if field in sizes[0]}
    notes = ["Bytes of payload, without framing."]
    return NumberTable("Messages and storage", {"bytes": list(listed.values())}, list(listed), label="", notes=notes)


def reading_code(file: str) -> str:
    """Return the lines of Python that read a release and recompute what it promises."""
    lines = [
        "from dpmpc.release.release import Release",
        "",
        f"release = Release.load({file!r})",
        "print(release.guarantee)",
    ]
    return "\n".join(lines)


def fit_code(result: Result, files: Sequence[str], epsilon: float | None) -> str:
    """Return the lines of Python that compute a result from its files; `epsilon` is the budget of a fit in rounds."""
    given = ", ".join(f"{key}={value!r}" for key, value in result.parameters.items())
    model = f"{result.estimator}({given})"
    if epsilon is None:
        chosen = "".join(f", {key}={value!r}" for key, value in result.chosen.items())
        lines = ["", f"model = {model}", f"model.fit_release(Release.load({files[0]!r}){chosen})"]
    else:
        lines = [
            "from dpmpc.models import SavedReleases",
            "",
            f"files = {list(files)!r}",
            f"saved = SavedReleases([Release.load(file) for file in files], epsilon={epsilon!r})",
            f"model = {model}.fit_rounds(saved)",
        ]
    return "\n".join([f"from dpmpc import {result.estimator}", "from dpmpc.release.release import Release", *lines])
