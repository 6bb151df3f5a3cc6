"""`dpmpc doctor`: one line for each thing that was looked at, and what to do where it is not as it should be.

Exit status: 0, warnings included; 1 on a problem.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from dpmpc.errors import MachineUnfit


def add_commands(commands: Any) -> None:
    """Add the command to the parser's."""
    doctor = commands.add_parser("doctor", help="whether this machine can build, run and serve dpmpc")
    doctor.add_argument("--network", action="store_true", help="also run three servers and an analyst: some seconds")
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from dpmpc.doctor import examine

    findings = examine(network=options.network)
    problems = [finding.subject for finding in findings if finding.state == "problem"]
    if options.json:
        print(json.dumps({"ok": not problems, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{finding.state:<8} {finding.subject:<10} {finding.found}")
            if finding.advice:
                print(f"{'':<19} -> {finding.advice}")
    if problems:
        raise MachineUnfit(f"doctor: {len(problems)} of {len(findings)} are a problem: {', '.join(problems)}")
