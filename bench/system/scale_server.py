"""One server of `bench.system.scale` in its own process: sketch the share in a file, print the cost as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from dpmpc.linear.sharing.batch import open_share
from dpmpc.parties.network.meter import Meter
from dpmpc.privacy.task import Task
from dpmpc.release.server import transform


def main(task_file: str, share_file: str) -> None:
    """Read the task and the share, apply the one to the other."""
    task = Task.from_dict(json.loads(Path(task_file).read_text())).verify()
    meter = Meter(0, dict)
    meter.connected()
    transform(task, open_share(share_file, task.encoding.ring), phase=meter.phase)
    print(msgspec.json.encode(meter.statistics()).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
