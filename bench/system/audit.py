"""Claims of privacy, beside what many simulated releases show and what follows from the noise that is in them.

docs/audit.md describes the method. The exit status is 1 if a claim is refuted, after everything has been audited.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from bench.audit import audit
from bench.audit.mechanism import AuditResult
from bench.audit.registry import SUBJECTS
from bench.harness import machine, markdown, write
from dpmpc.base.arguments import require_fraction
from dpmpc.base.errors import BenchFailed, InputError
from dpmpc.base.randomness import stream_for

ALL = "all"
RELEASES, SHORT_RELEASES = 200_000, 2_000
HEADINGS = (
    *("mechanism", "ε claimed", "at least, by noise", "at least, by rates", "at least, by curve"),
    *("μ claimed", "at least", "of the claim"),
)
BOUNDS = ("by_rates", "by_curve", "by_bits")
NO_PROOF = (
    "With the stated confidence no true claim, in any row, is below its lower bounds. A claim that stands is not "
    "proven: an audit can refute, and never prove."
)


def main(arguments: Sequence[str]) -> None:
    """Audit, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench audit", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--mechanism",
        nargs="+",
        default=[ALL],
        metavar="NAME",
        help="what to audit (default all); a wrong name lists what there is",
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="claimed; for projections in bits (default 1)")
    parser.add_argument("--delta", type=float, default=1e-5, help="claimed (default %(default)s)")
    parser.add_argument("--releases", type=int, default=RELEASES, help="with each input (default %(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of all bounds together (default %(default)s)")
    parser.add_argument("--simulation-seed", type=int, metavar="SEED", help="repeatable randomness")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_RELEASES} releases; nothing is written")
    options = parser.parse_args(arguments)
    names = chosen(options.mechanism)
    require_fraction("confidence", options.confidence)
    claimed = {key: getattr(options, key) for key in ("epsilon", "delta", "confidence")}
    releases = SHORT_RELEASES if options.short else options.releases
    findings = audit_all(names, releases, options.simulation_seed, **claimed)
    content = {
        "machine": machine(),
        "releases": max(finding.releases for finding in findings),
        "seed": options.simulation_seed,
        **claimed,
        "findings": [finding.to_dict() for finding in findings],
    }
    text = render(content)
    print(text)
    if refuted := [sentence for finding in findings for sentence in finding.refuted]:
        raise BenchFailed("audit", "; ".join(refuted))
    usual = all(value == parser.get_default(name) for name, value in claimed.items())
    if usual and (names, releases) == (list(SUBJECTS), RELEASES):
        write("audit", content, text)


def chosen(given: Sequence[str]) -> list[str]:
    """Return the mechanisms that were asked for, each once."""
    if ALL in given:
        return list(SUBJECTS)
    for name in given:
        if name not in SUBJECTS:
            raise InputError("mechanism", f"{name!r}", f"{ALL} or some of {', '.join(SUBJECTS)}")
    return list(dict.fromkeys(given))


def audit_all(
    names: Sequence[str], releases: int, seed: int | None, *, epsilon: float, delta: float, confidence: float
) -> list[AuditResult]:
    """Audit mechanisms and attacks, one after another.

    Parameters
    ----------
    names : sequence of str
        Keys of `SUBJECTS`.
    releases : int
        Simulated with each of the two inputs.
    seed : int or None
        Of all that is simulated; None: the randomness of the operating system.
    epsilon, delta : float
        What each is designed to claim.
    confidence : float
        With which no true claim of all these is refuted.
    """
    stream = stream_for(seed)
    failure = (1 - confidence) / len(names)
    findings = []
    for number, name in enumerate(names, 1):
        print(f"audit: {number} of {len(names)}, {name}", file=sys.stderr, flush=True)
        subject = SUBJECTS[name](epsilon, delta, int.from_bytes(stream.bytes(8), "little"))
        findings.append(audit(name, subject, releases, failure, stream))
    return findings


def render(content: dict[str, Any]) -> str:
    """Return the Markdown page."""
    findings = content["findings"]
    notes = [f"- `{finding['mechanism']}`: {finding['note']}" for finding in findings if finding["note"]]
    return "\n".join(
        [
            "# Claims and lower bounds",
            "",
            f"{content['releases']:,} releases with either input, confidence {content['confidence']:g} for all rows "
            f"together, δ = {content['delta']:g}. {content['machine']['cpu']}, {content['machine']['date']}.",
            "",
            markdown(HEADINGS, [cells(finding) for finding in findings]),
            "",
            *([*notes, ""] if notes else []),
            NO_PROOF,
        ]
    )


def cells(finding: dict[str, Any]) -> list[str]:
    """Return the cells of a row; claims about projections are in bits and have no epsilon."""
    name = finding["mechanism"] + (" REFUTED" if finding["refuted"] else "")
    claim = finding["claim"]
    rates, curve, bits = (None if (bound := finding[key]) is None else bound["value"] for key in BOUNDS)
    if claim["bits"] is not None:
        return [name, f"{claim['bits']:.4f} bits", "", "" if bits is None else f"{bits:.4f} bits", "", "", "", ""]
    numbers = (claim["epsilon"], finding["by_noise"], rates, finding["epsilon_by_curve"], claim["mu"], curve)
    share = f"{curve / claim['mu']:.0%}" if curve is not None and claim["mu"] else ""
    return [name, *map(_number, numbers), share]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
