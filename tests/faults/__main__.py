"""Make faults in the code that privacy rests on, and see whether the tests notice them: `make faults`.

A named fault is looked for by the test that it names, which has to pass without any fault first; an operator's by the
tests that run its line: the one that noticed it last time first, then the fastest. A verdict holds as long as the code
of the function, so that a run judges what has changed. What no quick test notices is judged once more, by the slow ones
(`tests/slow.json`), with `--unnoticed`. Exit status 1 if a named fault is not noticed, or could not be judged.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

from faults import judging, named, operators, reach, verdicts
from faults.source import ROOT


def main() -> int:
    """Judge faults and write the page."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--sample", type=int, default=1000, help="how many faults of operators to judge")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="faults whose name holds one of these")
    parser.add_argument("--again", action="store_true", help="judge faults whose verdict holds, too")
    parser.add_argument(
        "--unnoticed", action="store_true", help="judge again what no quick test noticed, by the slow tests"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fault after these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies that are tested at a time")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="the folder of verdicts")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes

    every = [*named.read(), *operators.sample(options.sample)]
    store = verdicts.Verdicts.read(every, options.results)
    chosen = [fault for fault in every if any(text in fault.name for text in options.only)]
    if options.unnoticed:
        chosen = [one for one in chosen if store.holds(one) and not store.holds(one, noticed=True)]
    elif not options.again:
        chosen = [one for one in chosen if not store.holds(one)]
    if any(fault.file.startswith("csrc/") for fault in chosen):
        judging.compile_kernels(ROOT, "--build-lib", "build/faultless")  # objects in build/, the package as it is
    judging.require_sound(sorted({fault.noticed_by for fault in chosen if fault.must_be_noticed}))
    reached = reach.Reach({}, {})
    if not all(fault.must_be_noticed for fault in chosen):
        reached = judging.in_a_copy(lambda folder: reach.measure(folder, options.jobs, slow=options.unnoticed))

    def tests_of(fault: named.NamedFault | operators.OperatorFault) -> list[str]:
        first = fault.noticed_by or store.last_test(fault)
        others = [] if fault.must_be_noticed else reached.tests_of(fault.file, fault.line)
        return list(dict.fromkeys([*([first] if first else []), *others]))

    bad = 0
    for fault, verdict in judging.judge(chosen, tests_of, options.jobs, until):
        store.keep(fault, verdict)
        bad += fault.must_be_noticed and verdict.outcome != judging.NOTICED
        print(f"{verdict.outcome:<10} {fault.name} [{verdict.by}, {verdict.seconds:.0f} s]", flush=True)
    print(store.write())
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
