"""The page of a collection's release for people: what was checked, who was asked what, and what came of it.

Promised: the page is a function of what `dpmpc.collect.terms.verifying.verify` returns, and of nothing else: whoever
verifies the same file against the same task file gets the same bytes. Of a file that fails it shows the first failure
and no number. It loads nothing and runs nothing, and every text of another party is escaped. Not promised: that what
the task file states of the world is true, such as an organisation's name.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from dpmpc.app.render.guarantee_prose import guarantee_items, promise
from dpmpc.app.render.page import layout, template
from dpmpc.app.render.reading import ReadOptions, result_of
from dpmpc.app.render.readings import reading_of
from dpmpc.app.render.readings.sentences import legible
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
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.network.identity import fingerprint
from dpmpc.privacy import Guarantee

_MEANING = {  # of a line of `verify`, by the word before its colon
    "signatures": "Each server that took part has signed this result with its own key. Nobody has changed it since.",
    "time": "The servers state when they opened it, and that lies in the time that had been agreed on.",
    "proofs": "The servers state how many reports count and how many they refused, and these numbers fit together.",
    "noise": "The servers state which of them made noise. These are enough.",
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
        title=legible(collection.name),
        checks=_checks(found),
        unchecked=list(_unchecked(collection, guarantee)),
        purpose=printable(collection.purpose),
        contact=printable(collection.contact),
        variables=[
            (legible(variable.label or variable.name), legible(variable.range_in_words), printable(variable.meaning))
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
        sentences=list(reading_of(release.task.statistic).sentences(release)),
        notes=[said for note in result.notes if (said := note.partition("--target ")[0].strip())],  # no commands
        tables=[layout(table) for table in result.tables],
        terms=guarantee_items(guarantee, collection.series),
        digest=collection.digest.hex(),
        given=found.given,
    )


def _checks(found: Verified) -> list[_Check]:
    """Put what was checked, line by line, into plain words."""
    checks = []
    for line in found.checks:
        word = line.partition(":")[0]
        if word not in ("collection", "omission"):  # said in one below; a remark that experts read
            checks.append(_Check(_MEANING.get(word, ""), line))
    first = [line for line in found.checks if line.startswith("collection:")]
    if found.given:
        meaning = "The file belongs to the task file that it was checked against, which states whose signatures count."
    else:
        meaning = (
            "Not checked: whose signatures count was taken from this file itself, so all of it could be invented. "
            "Compare the digest, under 'How to check it yourself', with what the organisations state."
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
        host = legible(urlsplit(server.url).netloc or server.url)
        took_part = number not in found.certificate.statement.without
        yield number, legible(server.organisation), host, took_part, fingerprint(server.certificate.encode())


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
    """State in plain words what is guaranteed, and to whom."""
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
    names = [legible(server.organisation) or f"server {number}" for number, server in enumerate(collection.servers)]
    yield "Everybody", "This page and the file that it is made from: sums of all reports, with noise. No single report."
    yield "Whoever asked", "The same as everyone, and nothing more, unless they also run a server."
    roster = " It also saw which ticket was used, so whoever handed the tickets out can say who took part."
    yield (
        "Each server alone",
        f"{_listed(names)} each had one part of each report. A part looks like digits drawn by chance and reveals "
        "nothing about an answer. A server also saw when a report came and, if it came directly, from "
        "which network address." + (roster if collection.authenticated else ""),
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
    yield "Whoever carried the messages", "That a report was sent, when, and how long it was. Not what it contained."
    yield (
        "Whoever handed out the form in the browser",
        "Nothing, if the form was the right one. A changed form could have sent answers elsewhere, and this file "
        "cannot show that none was.",
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
