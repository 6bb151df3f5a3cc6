"""The page of a collection's release for people: what was checked, who was asked what, and what came of it.

Promised: the page is a function of what `dpmpc.collect.terms.verifying.verify` returns, and of nothing else: whoever
verifies the same file against the same task file gets the same bytes. Of a file that fails it shows the first failure
and no number. It loads nothing and runs nothing, and every text of somebody else is escaped. Not promised: that what
the task file says of the world is true, such as an organisation's name.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from dpmpc.app.render.drawing import figures
from dpmpc.app.render.guarantee_prose import guarantee_items, promise
from dpmpc.app.render.page import layout, template
from dpmpc.app.render.reading import ReadOptions, result_of
from dpmpc.base.errors import VerificationFailed
from dpmpc.base.untrusted import printable
from dpmpc.collect.terms.certificate import (
    DAMAGED,
    DEALT_WRONGLY,
    DIFFERENT_LISTS,
    FALSE_PROOF,
    RELEASED_BEFORE,
    WITHDRAWN,
)
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.shamir_claims import INCONSISTENT
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import Verified
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.models.survival.kaplan_meier import KaplanMeier
from dpmpc.models.survival.survival_cells import SurvivalCells, is_survival
from dpmpc.models.tables.table_one import TableOne
from dpmpc.parties.network.identity import fingerprint
from dpmpc.privacy import Guarantee
from dpmpc.release.release import Release

_LONGEST = 400  # characters of a text of somebody else
_NORMAL_95 = 1.959964  # standard errors on either side of an estimate
_MEANING = {  # of a line of `verify`, by the word before its colon
    "signatures": "Each server that took part has signed this result with its own key. Nobody has changed it since.",
    "time": "The servers say when they opened it, and that lies in the time that had been agreed on.",
    "proofs": "The servers say how many reports count and how many they refused, and these numbers fit together.",
    "noise": "The servers say which of them made noise. These are enough.",
    "task": "The rules of the computation are those that had been agreed on.",
    "guarantee": "The promise was computed anew, from public facts alone. It holds.",
    "noise variance": "The amount of noise is the one that the promise needs.",
    "sums": "The numbers below are those that the servers signed.",
}
_WHY = {
    RELEASED_BEFORE: "had counted in an earlier release",
    DAMAGED: "could not be read any more",
    DEALT_WRONGLY: "had parts that did not fit together",
    WITHDRAWN: "were withdrawn by whoever had sent them",
    DIFFERENT_LISTS: "were not the same at all servers",
    FALSE_PROOF: "were not shown to be well formed",
    INCONSISTENT: "had parts that did not fit together",
}


class _Check(NamedTuple):
    """A line of `verify`, what it means in plain words, and whether it was checked at all."""

    meaning: str
    line: str
    passed: bool = True


def release_page(found: Verified | VerificationFailed) -> str:
    """Return the page of a release that was verified, or of the failure of one that was not; HTML in one piece."""
    if isinstance(found, VerificationFailed):
        return template("release_page.html").render(failure=printable(str(found)), title="Do not use this file")
    collection, release, statement = found.collection, found.release, found.certificate.statement
    manifest, guarantee = statement.manifest, release.guarantee
    result = result_of(release, ReadOptions())
    return template("release_page.html").render(
        failure=None,
        title=_said(collection.name),
        checks=_checks(found),
        unchecked=list(_unchecked(collection, guarantee)),
        purpose=printable(collection.purpose),
        contact=printable(collection.contact),
        variables=[
            (_said(variable.label or variable.name), _said(variable.range_in_words), printable(variable.meaning))
            for variable in collection.plan.schema.variables
        ],
        servers=list(_servers(found)),
        times=[
            (word, time.astimezone(datetime.UTC))
            for word, time in (
                ("reports were taken from", collection.opens),
                ("until", datetime.datetime.fromisoformat(manifest.closed) if manifest.closed else collection.closes),
                ("they were opened together on", datetime.datetime.fromisoformat(manifest.time)),
            )
        ],
        clients=manifest.clients,
        refused=sum(manifest.refused.values()),
        authenticated=collection.authenticated,
        uncounted=list(_uncounted(found)),
        promise=_promise(guarantee, collection.series, authenticated=collection.authenticated),
        seen=list(_seen(found)),
        sentences=list(_sentences(release)),
        notes=[said for note in result.notes if (said := note.partition("--target ")[0].strip())],  # no commands
        tables=[layout(table) for table in result.tables],
        terms=guarantee_items(guarantee, collection.series),
        digest=collection.digest.hex(),
        given=found.given,
    )


def _said(text: str) -> str:
    return printable(text, _LONGEST)


def _checks(found: Verified) -> list[_Check]:
    """Put what was checked, line by line, into plain words."""
    checks = []
    for line in found.checks:
        word = line.partition(":")[0]
        if word not in ("collection", "omission"):  # said in one below; a remark that experts read
            checks.append(_Check(_MEANING.get(word, ""), line))
    first = [line for line in found.checks if line.startswith("collection:")]
    if found.given:
        meaning = "The file belongs to the task file that it was checked against, which says whose signatures count."
    else:
        meaning = (
            "Not checked: whose signatures count was taken from this file itself, so all of it could be invented. "
            "Compare the digest, under 'How to check it yourself', with what the organisations say."
        )
    return [_Check(meaning, "; ".join(first), passed=found.given), *checks]


def _unchecked(collection: Collection, guarantee: Guarantee) -> Iterator[str]:
    """Yield what no check of a file can show."""
    if collection.proved:
        yield "That people told the truth. A report was only shown to be well formed, with values in the ranges below."
    else:
        yield "That people told the truth, and that no report spoiled the sums: none was shown to be well formed."
    if not collection.authenticated:
        yield "That each report is of another person. Whoever wanted to could send several."
    yield "That the servers kept their parts of the reports to themselves."
    if guarantee.noise_by == "servers":
        yield "That servers made their noise by chance, as they had agreed to. That of one honest server is enough."
    else:
        yield "That people's own devices made their noise by chance, and told it nobody."
    yield "That no server left reports out on purpose."
    if not isinstance(collection.plan.scheme, ShamirSharing):
        yield "That no server moved the sums by an amount that it chose, without knowing them."


def _servers(found: Verified) -> Iterator[tuple[int, str, str, bool, str]]:
    """Yield number, organisation, host, whether it took part, and fingerprint of each server."""
    for number, server in enumerate(found.collection.servers):
        host = _said(urlsplit(server.url).netloc or server.url)
        took_part = number not in found.certificate.statement.without
        yield number, _said(server.organisation), host, took_part, fingerprint(server.certificate.encode())


def _uncounted(found: Verified) -> Iterator[str]:
    """Yield how many reports do not count, and why."""
    manifest = found.certificate.statement.manifest
    for cause, count in manifest.refused.items():
        yield f"{_reports(count)} refused by all servers: they {_why(cause)}."
    withdrawn = [counts.get(WITHDRAWN, 0) for counts in manifest.left_out.values()]
    agreed = len(withdrawn) == len(found.collection.servers) and len(set(withdrawn)) == 1 and withdrawn[0]
    if agreed:
        yield f"{_reports(agreed)} withdrawn by whoever had sent {'it' if agreed == 1 else 'them'}, say all servers."
    for server, counts in manifest.left_out.items():
        for cause, count in counts.items():
            if cause == WITHDRAWN and agreed:
                continue
            yield f"{_reports(count)} left out by server {server}: they {_why(cause)}."


def _why(cause: str) -> str:
    return _WHY.get(cause, f"were off ({printable(cause)})")


def _reports(count: int) -> str:
    return "1 report was" if count == 1 else f"{count:,} reports were"


def _promise(guarantee: Guarantee, series: Series | None = None, *, authenticated: bool) -> list[str]:
    """Say in plain words what is promised, and to whom."""
    said = [
        f"To everybody who sent a report that counts. {promise(guarantee, series, 'your answers', 'any other answers')}"
    ]
    if guarantee.noise_by == "servers":
        rules = "made noise as agreed, and kept the parts of reports to themselves."
    else:
        t = guarantee.corrupt_clients
        few = f"at most {t:,} of the {guarantee.clients:,} reports are" if t else "none of the reports is"
        rules = f"kept the parts of reports to themselves, and as long as {few} of people who work with the others."
    honest = guarantee.servers - guarantee.corrupt_servers
    said.append(f"It holds as long as at least {honest} of the {guarantee.servers} servers {rules}")
    if not authenticated:
        said.append("The promise is for one report. Whoever sent several is protected less.")
    return said


def _seen(found: Verified) -> Iterator[tuple[str, str]]:
    """Yield who could have seen what."""
    collection, guarantee = found.collection, found.release.guarantee
    servers, scheme = len(collection.servers), collection.plan.scheme
    names = [_said(server.organisation) or f"server {number}" for number, server in enumerate(collection.servers)]
    yield "Everybody", "This page and the file that it is made from: sums of all reports, with noise. No single report."
    yield "Whoever asked", "The same as everybody, and nothing more, unless they also run a server."
    roster = " It also saw which ticket was used, so whoever handed the tickets out can say who took part."
    yield (
        "Each server alone",
        f"{_listed(names)} each had one part of each report. A part looks like digits drawn by chance and says nothing "
        "about an answer. A server also saw when a report came and, if it came directly, from which network address."
        + (roster if collection.authenticated else ""),
    )
    corrupt = guarantee.corrupt_servers
    clients = (
        f", together with {guarantee.corrupt_clients:,} of the reports' senders" if guarantee.corrupt_clients else ""
    )
    if corrupt > 1 or (corrupt and clients):
        pooled = "One server" if corrupt == 1 else f"Any {corrupt} of the {servers} servers"
        yield (
            f"{pooled}{clients}",
            "No more than the promise above allows, also if they show one another all they have.",
        )
    if isinstance(scheme, ShamirSharing):
        together = f"Any {scheme.threshold + 1} of the {servers} servers, if they break their word"
    else:
        together = f"All {servers} servers, if they all break their word"
    yield (
        together,
        "Every report, word for word, by putting the parts together. What stands against it is that these "
        "organisations do not work together. This file cannot show that they did not.",
    )
    yield "Whoever carried the messages", "That somebody sent something, when, and how long it was. Not what it said."
    yield (
        "Whoever handed out the form in the browser",
        "Nothing, if the form was the right one. A changed form could have sent answers elsewhere, and this file "
        "cannot show that none was.",
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class _Measured(NamedTuple):
    """A column whose mean people can be told: what it is called, and what its numbers are."""

    called: str
    column: str
    unit: str
    ends: tuple[float, float] = (0.0, 1.0)
    of: str = " of the reports"
    factor: float = 100.0  # of shares
    missing: str = ""  # what is said of missing answers
    date: Variable | None = None  # whose dates its numbers are, where they are days


def _measured(variable: Variable) -> Iterator[_Measured]:
    """Yield the columns of a variable whose means say something without mathematics: no logarithm, no spline."""
    called, columns = _said(variable.label or variable.name), variable.term.columns
    ends, filled = (columns[0].lower, columns[0].upper), variable.if_missing is not None
    if columns[0].name == variable.name and variable.kind in ("number", "date"):
        unit, date = f" {_said(variable.unit)}" if variable.unit else "", variable if variable.kind == "date" else None
        missing = " Missing answers count as the middle of the range." if filled else ""
        yield _Measured(called, variable.name, unit, ends, " on average", 1.0, missing, date)
    elif variable.kind == "yes-no":
        yield _Measured(f"{called}: yes", variable.name, " %", missing=" Missing answers count half." if filled else "")
    elif variable.kind == "category":
        for value, column in zip(variable.indicated, columns, strict=False):
            yield _Measured(f"{called}: {_said(value)}", column.name, " %")
    if variable.if_missing == "indicator":
        yield _Measured(f"{called}: not answered", columns[-1].name, " %")


def _sentences(release: Release) -> Iterator[tuple[str, str]]:
    """Yield what can be told in words of each question; intervals are of noise and of sampling."""
    if isinstance(release.task.statistic, SecondMoments):
        yield from _means(release)
    if isinstance(release.task.statistic, CellCounts):
        yield from (_survival if is_survival(release.task.statistic) else _medians_and_shares)(release)


def _means(release: Release) -> Iterator[tuple[str, str]]:
    found = release.describe()
    known = dict(zip(found.names, zip(found.means.tolist(), found.mean_errors.tolist(), strict=True), strict=True))
    for one in (one for variable in release.schema.variables for one in _measured(variable) if one.column in known):
        (mean, error), (lower, upper) = known[one.column], one.ends
        low, high = max(lower, mean - _NORMAL_95 * error), min(upper, mean + _NORMAL_95 * error)
        hidden = low > high or (low, high) == (lower, upper)  # it lies off what can be, or may be anything
        middle, first, last = (one.factor * value for value in (min(upper, max(lower, mean)), low, high))
        told = math.nan if hidden else middle
        yield one.called, _told("about {}" + one.of, told, first, last, one.unit, one.date) + (not hidden) * one.missing


def _medians_and_shares(release: Release) -> Iterator[tuple[str, str]]:
    fit = TableOne().fit_release(release)
    shares = fit.shares()
    rows = {} if shares is None else dict(shares.rows())
    for name, (_, variable) in fit.variables_.items():
        called = _said(variable.label or name)
        for value in variable.categories:
            _, _, share, _, low, high = rows[fit.label(None, f"{name} = {value}")]
            yield f"{called}: {_said(value)}", _told("about {} of the reports", share, low, high, " %")
        if not variable.categories:
            unit, date = (
                f" {_said(variable.unit)}" if variable.unit else "",
                variable if variable.kind == "date" else None,
            )
            said = f"half of the reports say {'{} or before' if date else 'at most {}'}"
            yield called, _told(said, *fit.quantile(name, 0.5), unit, date)


def _survival(release: Release) -> Iterator[tuple[str, str]]:
    cells = SurvivalCells.of(release)
    by = next(iter(cells.features)) if len(cells.features) == 1 else None
    fit = KaplanMeier(by=by).fit_release(release)
    time, event = (_said(one.label or one.name) for one in (cells.time, cells.event))
    for group in fit.groups_ or (None,):
        middle, low, high = fit.median(group)
        called = time if group is None else f"{time}: {_said(group)}"
        unit = f" {_said(cells.time.unit)}" if cells.time.unit else ""
        if math.isfinite(low) and not math.isfinite(middle + high):
            yield called, f"{event}: half of the reports not before {figures(low, 4)}{unit}; no later end can be told."
        else:
            yield called, _told(f"{event}: half of the reports by {{}}", middle, low, high, unit)


def _told(said: str, middle: float, low: float, high: float, unit: str, date: Variable | None = None) -> str:
    """Put an estimate and its interval into a sentence; one that is no number is hidden by the noise."""
    if not math.isfinite(middle + low + high):
        return "not told: the noise is too large for so few reports."
    if date is None:
        estimate, ends = figures(middle, 4) + unit, f"between {figures(low, 4)} and {figures(high, 4)}{unit}"
    else:
        estimate, first, last = (_said(date.date_of(day)) for day in (middle, math.floor(low), math.ceil(high)))
        ends = f"between {first} and {last}"
    return f"{said.format(estimate)}; {ends} for all people of whom these reports are a fair sample."
