"""Verdicts on faults, kept in bench/results/faults.json as long as the code of their functions stays the same."""

from __future__ import annotations

import collections
import functools
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import harness
from faults.judging import NOTICED, UNCLEAR, UNNOTICED, Verdict
from faults.source import functions_of, text_of

SECONDS_BETWEEN = 60.0
OUTCOMES = (NOTICED, UNNOTICED, UNCLEAR)


def digest_of(fault: Any) -> str:
    """Return the hash of the code that a verdict is about, a function's or, in C, the file's."""
    return _digest(fault.file, fault.function)


@functools.cache
def _digest(file: str, function: str) -> str:
    if file.endswith(".py"):
        return functions_of(file)[function].digest
    return hashlib.sha256(text_of(file).encode()).hexdigest()[:16]


@dataclass
class Verdicts:
    """Verdicts by the names of faults.

    Attributes
    ----------
    faults : sequence
        All faults, in the order of the page.
    folder : Path
        Where the verdicts and the page are written.
    records : dict[str, dict]
        For each name the outcome, the test, the seconds and the hash of the code.
    """

    faults: Sequence[Any]
    folder: Path
    records: dict[str, dict[str, Any]]
    _written: float = 0.0

    @classmethod
    def read(cls, faults: Sequence[Any], folder: Path) -> Verdicts:
        """Read the verdicts of earlier runs."""
        path = folder / "faults.json"
        records = json.loads(path.read_text())["faults"] if path.exists() else {}
        return cls(faults, folder, records)

    def holds(self, fault: Any, *, noticed: bool = False) -> bool:
        """Return whether a verdict is known that is about the code as it stands, or, with `noticed`, a good one."""
        record = self.records.get(fault.name, {})
        outcomes = (NOTICED,) if noticed else (NOTICED, UNNOTICED)
        return record.get("outcome") in outcomes and record["digest"] == digest_of(fault)

    def last_test(self, fault: Any) -> str:
        """Return the test that noticed the fault in an earlier run, in whichever case, also of other code."""
        record = self.records.get(fault.name, {})
        return str(record["by"]).partition("[")[0] if record.get("outcome") == NOTICED and "::" in record["by"] else ""

    def keep(self, fault: Any, verdict: Verdict) -> None:
        """Keep a verdict, and now and then write all, so that a run that is broken off loses few."""
        self.records[fault.name] = {**asdict(verdict), "digest": digest_of(fault)}
        if time.monotonic() > self._written + SECONDS_BETWEEN:
            self.write()

    def write(self) -> str:
        """Write the verdicts on the faults that there are, and return the page."""
        self._written = time.monotonic()
        names = [fault.name for fault in self.faults]
        kept = {name: self.records[name] for name in names if name in self.records}
        text = self.page()
        harness.write("faults", {"machine": harness.machine(), "faults": kept}, text, self.folder)
        return text

    def page(self) -> str:
        """Return a table of the outcomes, and every fault that no test noticed."""
        sections = []
        by_kind = collections.defaultdict(list)
        for fault in self.faults:
            by_kind[fault.must_be_noticed].append(fault)
        for is_named, title in ((True, "Named faults, which no operator makes"), (False, "Faults of operators")):
            sections += [f"## {title}", "", *self._section(by_kind[is_named]), ""]
        return "\n".join(["# Faults in the code that privacy rests on", "", *sections]).rstrip()

    def _section(self, faults: Sequence[Any]) -> list[str]:
        judged = [fault for fault in faults if self.holds(fault)]
        table = collections.defaultdict(collections.Counter)
        for fault in judged:
            table[fault.file][self.records[fault.name]["outcome"]] += 1
        total = sum(table.values(), collections.Counter())
        seconds = sum(self.records[fault.name]["seconds"] for fault in judged)
        rows = [
            [f"`{file}`", *(str(counts[outcome]) for outcome in OUTCOMES)] for file, counts in sorted(table.items())
        ]
        left = [
            f"- `{fault.name}`: {fault.change}" for fault in judged if self.records[fault.name]["outcome"] == UNNOTICED
        ]
        return [
            f"Of {len(faults)} faults, each made alone in a copy of the package, {len(judged)} were judged as the code "
            f"stands, in {seconds / 60:.0f} minutes of one core: tests notice {total[NOTICED]}.",
            "",
            harness.markdown(["file", *OUTCOMES], rows),
            "",
            "Not noticed:\n" if left else "None of them is left unnoticed.",
            *left,
        ]
