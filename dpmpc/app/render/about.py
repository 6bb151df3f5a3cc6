"""Where a release comes from: its title, its dates and who ran the servers; for the command and for pages.

Every text here was written by others: a collection's name, a date, an owner's name. Callers escape it for where
it is shown, and `printable` has cut it. Promised: of a collection, what its certificate states. Not promised: that a
mixed file's names and date are true, because nothing is computed from them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dpmpc.base.untrusted import printable
from dpmpc.release.release import Release

if TYPE_CHECKING:
    from dpmpc.collect.terms.certificate import Certificate
    from dpmpc.collect.terms.series import Series
    from dpmpc.collect.terms.task_file import Collection
    from dpmpc.owners.columns.mixed_release import MixedRelease


@dataclasses.dataclass(frozen=True)
class About:
    """What a reader sees first."""

    kind: str  # of file: "release", "collection" or "mixed"
    title: str  # what it is called
    facts: list[tuple[str, list[str]]]  # names and texts, in order: dates, operators
    # what is counted, in one word: "reports" where nobody knows how many people sent them, "rows" of data owners
    counted: str = "people"
    series: Series | None = None  # which the collection is an epoch of

    @classmethod
    def of_release(cls, release: Release) -> About:
        """Return what a release without a certificate is; it holds neither date nor operator."""
        told = [f"{release.task.trust.servers} servers; the file does not state who ran them, or when."]
        return cls("release", f"Release of {release.clients:,} clients", [("Operators", told)])

    @classmethod
    def of_collection(cls, collection: Collection, certificate: Certificate) -> About:
        """Return what a certificate states of a collection."""
        from dpmpc.parties.network.identity import fingerprint

        manifest, statement = certificate.statement.manifest, certificate.statement
        operators = []
        for number, server in enumerate(collection.servers):
            absent = ", took no part" if number in statement.without else ""
            key = fingerprint(server.certificate.encode())
            name = f"{server.organisation}, " if server.organisation else ""
            operators.append(f"server {number}: {name}{urlsplit(server.url).netloc or server.url}{absent}, key {key}")
        dates = [
            f"opened {manifest.time}",
            f"reports taken from {collection.opens.isoformat()} to {collection.closes.isoformat()}",
        ]
        facts = [("Dates", dates), ("Operators", operators), ("Collection", [collection.digest.hex()])]
        left_out = [
            f"{count:,} {reason}, by server {server}"
            for server, counts in manifest.left_out.items()
            for reason, count in counts.items()
        ]
        facts += [("Left out", left_out)] if left_out else []
        counted = "people" if collection.authenticated else "reports"
        return cls("collection", printable(collection.name, 200), _printable(facts), counted, collection.series)

    @classmethod
    def of_mixed(cls, release: MixedRelease) -> About:
        """Return what a mixed file states of itself."""
        told = release.provenance
        names = told.get("parties")
        named = names if isinstance(names, list) and len(names) == len(release.task.parties) else None
        operators = [
            f"{f'party {number}' if named is None else named[number]}: {', '.join(schema.names)}"
            for number, schema in enumerate(release.task.parties)
        ]
        facts = [("Dates", [str(told["date"]) if told.get("date") else "none given"]), ("Operators", operators)]
        facts += [(name.capitalize(), [str(told[name])]) for name in ("method", "software") if told.get(name)]
        title = f"Release of {release.task.subjects:,} people by {len(operators)} parties with different columns"
        return cls("mixed", title, _printable(facts))


def _printable(facts: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    return [(name, [printable(text, 400) for text in texts]) for name, texts in facts]
