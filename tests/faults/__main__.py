"""Make faults in the code that privacy rests on, and see whether the tests notice them: `make faults`.

A named fault is looked for by the test that it names, and an operator's by the tests that run its line: the one that
noticed it last time first, then the fastest. A verdict holds as long as the code of the function, so that a run
judges what has changed. Exit status 1 if a named fault is not noticed, or could not be judged.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path

from faults import judging, named, operators, reach, verdicts
from faults.source import ROOT


def measured(jobs: int) -> reach.Reach:
    """Return which tests reach which lines, measured in a process of its own."""
    receiver, sender = judging.FORK.Pipe(duplex=False)

    def run() -> None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name).resolve()
            judging.copy_to(folder)
            judging.enter(folder)
            try:
                sender.send(reach.measure(folder, jobs))
            except RuntimeError as error:
                sender.send(error)
            os.chdir("/")
        os._exit(0)

    process = judging.FORK.Process(target=run)
    process.start()
    sender.close()
    answer = receiver.recv()
    process.join()
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def main() -> int:
    """Judge faults and write the page."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--sample", type=int, default=1000, help="how many faults of operators to judge")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="faults whose name holds one of these")
    parser.add_argument("--again", action="store_true", help="judge faults whose verdict holds, too")
    parser.add_argument("--unnoticed", action="store_true", help="judge again what no test noticed")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fault after these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies that are tested at a time")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="the folder of verdicts")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes

    every = [*named.read(), *operators.sample(options.sample)]
    store = verdicts.Verdicts.read(every, options.results)
    chosen = [fault for fault in every if any(text in fault.name for text in options.only)]
    if not options.again:
        chosen = [one for one in chosen if not store.holds(one, noticed=options.unnoticed)]
    if any(fault.file.startswith("csrc/") for fault in chosen):
        judging.compile_kernels(ROOT, "--build-lib", "build/faultless")  # objects in build/, the package as it is
    reached = measured(options.jobs) if any(isinstance(one, operators.OperatorFault) for one in chosen) else None

    def tests_of(fault: named.NamedFault | operators.OperatorFault) -> list[str]:
        if isinstance(fault, named.NamedFault):
            return [fault.noticed_by]
        last = store.last_test(fault)
        others = reached.tests_of(fault.file, fault.line) if reached else []
        return list(dict.fromkeys([*([last] if last else []), *others]))

    bad = 0
    for fault, verdict in judging.judge(chosen, tests_of, options.jobs, until):
        store.keep(fault, verdict)
        bad += isinstance(fault, named.NamedFault) and verdict.outcome != judging.NOTICED
        print(f"{verdict.outcome:<10} {fault.name} [{verdict.by}, {verdict.seconds:.0f} s]", flush=True)
    print(store.write())
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
