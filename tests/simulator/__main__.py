"""Replay one seed of a world, or run many: ``python -m simulator release SEED [-v]``, ``... release 0 --count 60``.

The exit status is 0 if all that has to hold did. `--plant FAULT` puts a fault into the code before, to see whether it
is found.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

WORLDS = ("release", "dealing", "proved", "shamir", "damaged", "doors", "mixing", "owners", "series", "twins")


def main():
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__.splitlines()[0])
    parser.add_argument("world", choices=WORLDS)
    parser.add_argument("seed", type=int, help="the first one")
    parser.add_argument("--count", type=int, default=1, help="how many seeds (default 1)")
    parser.add_argument("--plant", metavar="FAULT", help="a fault of simulator.planted")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the trace")
    options = parser.parse_args()
    if "DPMPC_SIMULATOR_SHIM" not in os.environ:
        return _in_simulated_process()
    return _run(options)


def _in_simulated_process():
    """Compile the library, and start this program again with it preloaded and hashes of texts that do not vary."""
    source = Path(__file__).with_name("shim.c")
    with tempfile.TemporaryDirectory(prefix="dpmpc-simulator-") as folder:
        shim = f"{folder}/shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", shim, source, "-ldl"], check=True)
        environment = os.environ | {"DPMPC_SIMULATOR_SHIM": shim, "LD_PRELOAD": shim, "PYTHONHASHSEED": "0"}
        return subprocess.run(
            [sys.executable, "-m", "simulator", *sys.argv[1:]], env=environment, check=False
        ).returncode


def _run(options):
    from simulator import damaged, disk, doors, loop, mixing, owners, planted, release, twins  # they need the library

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="dpmpc-simulator-", dir=memory) as folder:
        base_folder, root = Path(folder) / "base", Path(folder) / "run"
        base_folder.mkdir()
        root.mkdir()
        loop.SHIM.simulator_random(1, 0)
        place = {"damaged": damaged, "doors": doors, "mixing": mixing, "owners": owners, "twins": twins}.get(
            options.world, release
        )
        place.make_ready()
        base = place.Base(base_folder, options.world)
        disk.watch(root)
        if options.plant is not None:
            planted.FAULTS[options.plant]()
        failed, lives = 0, 0
        for seed in range(options.seed, options.seed + options.count):
            world = place.World(base, root, seed, print if options.verbose else lambda line: None)
            problems = world.run()
            lives += sum(server.life + 1 for server in world.servers.values())
            if problems:
                failed += 1
                print(f"seed {seed}:", *problems[:3], sep="\n  ", flush=True)
                if options.plant is not None:
                    break
        print(f"{options.count} seeds from {options.seed}, {lives} lives of servers, {failed} seeds with a violation")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
