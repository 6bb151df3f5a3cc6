"""`dpmpc audit`: compare claims with what many simulated releases show, and with what follows from their noise.

Standard output gets a table, or a line for each mechanism where it is a pipe, or one JSON object; standard error gets
progress. If a claim is refuted the exit status is 1, after everything that was asked for has been audited.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpmpc.app.cli.waiting import note
from dpmpc.base.arguments import require_fraction
from dpmpc.base.errors import AuditFailed, InputError
from dpmpc.base.untrusted import printable

if TYPE_CHECKING:
    from dpmpc.audit.mechanism import AuditResult

ALL = "all"
RELEASES = 200_000
HEADINGS = (
    "epsilon\nclaimed",
    "at least,\nby noise",
    "at least,\nby rates",
    "at least,\nby curve",
    "mu\nclaimed",
    "at least",
    "of the\nclaim",
)
NARROWEST = 104  # columns of the table, so that no name is cut
WORDS = (
    "With the stated confidence no true claim, in any row, is below its lower bounds. A claim that stands is not "
    "proven: an audit can refute, and never prove."
)


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    audit = commands.add_parser(
        "audit", help="lower bounds on epsilon from many simulated releases, beside what is claimed"
    )
    audit.add_argument(
        "--mechanism",
        nargs="+",
        default=[ALL],
        metavar="NAME",
        help="what to audit (default all); a wrong name lists what there is",
    )
    audit.add_argument("--epsilon", type=float, default=1.0, help="claimed; for projections in bits (default 1)")
    audit.add_argument("--delta", type=float, default=1e-5, help="claimed (default %(default)s)")
    audit.add_argument(
        "--releases", type=int, default=RELEASES, metavar="N", help="simulated with either input (default %(default)s)"
    )
    audit.add_argument("--confidence", type=float, default=0.95, help="of all bounds together (default %(default)s)")
    audit.add_argument("--simulation-seed", type=int, metavar="SEED", help="repeatable randomness")
    audit.add_argument("--json", action="store_true", help="print exactly one JSON object")
    audit.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> None:
    from dpmpc.audit import audit
    from dpmpc.audit.registry import SUBJECTS
    from dpmpc.base.randomness import stream_for

    names = _chosen(options.mechanism, list(SUBJECTS))
    require_fraction("confidence", options.confidence)
    stream = stream_for(options.simulation_seed)
    failure = (1 - options.confidence) / len(names)
    findings = []
    for place, name in enumerate(names):
        note(name, place / len(names))
        seed = int.from_bytes(stream.bytes(8), "little")
        subject = SUBJECTS[name](options.epsilon, options.delta, seed)
        findings.append(audit(name, subject, options.releases, failure, stream))
    if options.json:
        _print_json(findings, options.confidence)
    elif sys.stdout.isatty():
        _print_table(findings, options.confidence)
    else:
        print("\n".join(_lines(findings, options.confidence)))
    refuted = [words for finding in findings for words in finding.refuted]
    if refuted:
        raise AuditFailed("; ".join(refuted))


def _chosen(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the mechanisms that were asked for, each once."""
    if ALL in wanted:
        return list(known)
    for name in wanted:
        if name not in known:
            raise InputError("mechanism", f"{name!r}", f"{ALL} or some of {', '.join(known)}")
    return list(dict.fromkeys(wanted))


def _print_json(findings: Sequence[AuditResult], confidence: float) -> None:
    import json

    fields = {
        "releases": _releases(findings),
        "confidence": confidence,
        "findings": [finding.to_dict() for finding in findings],
        "refuted": [words for finding in findings for words in finding.refuted],
    }
    print(json.dumps(fields, allow_nan=False))


def _lines(findings: Sequence[AuditResult], confidence: float) -> Iterator[str]:
    """Yield what the table says, a line for each mechanism: a pipe has no width, and its reader searches and sorts."""
    yield f"# {_title(findings, confidence)}"
    for finding in findings:
        told = [
            f"{heading.replace(',', '').replace(chr(10), ' ')} {cell}"
            for heading, cell in zip(HEADINGS, _cells(finding), strict=True)
            if cell
        ]
        if finding.note:
            told.append(printable(finding.note))
        yield f"{_name(finding)}: {'; '.join(told)}"
    yield f"# {WORDS}"


def _title(findings: Sequence[AuditResult], confidence: float) -> str:
    return f"{_releases(findings):,} releases with either input, confidence {confidence:g} for all rows together"


def _name(finding: AuditResult) -> str:
    return finding.mechanism + (" REFUTED" if finding.refuted else "")


def _print_table(findings: Sequence[AuditResult], confidence: float) -> None:
    from rich.console import Console

    from dpmpc.app.render.grids import grid

    rows = ((_name(finding), *_cells(finding)) for finding in findings)
    console = Console(highlight=False, width=max(NARROWEST, Console().width))
    console.print(grid(_title(findings, confidence), ("mechanism", *HEADINGS), rows))
    for finding in findings:
        if finding.note:
            console.print(f"{finding.mechanism}: {printable(finding.note)}", soft_wrap=True)
    console.print(WORDS, soft_wrap=True)


def _cells(finding: AuditResult) -> list[str]:
    """Return the cells of a row; claims about projections are in bits and have no epsilon."""
    claim, rates, curve = finding.claim, finding.by_rates, finding.by_curve
    if claim.bits is not None:
        told = finding.by_bits
        return [f"{claim.bits:.4f} bits", "", f"{told.value:.4f} bits" if told else "", "", "", "", ""]
    share = curve.value / claim.mu if curve is not None and claim.mu else None
    return [
        _number(claim.epsilon),
        _number(finding.by_noise),
        _number(None if rates is None else rates.value),
        _number(finding.epsilon_by_curve),
        _number(claim.mu),
        _number(None if curve is None else curve.value),
        "" if share is None else f"{share:.0%}",
    ]


def _releases(findings: Sequence[AuditResult]) -> int:
    return max(finding.releases for finding in findings)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
