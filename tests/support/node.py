"""Jobs of the client in JavaScript, which node runs: see web_client.mjs."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "dpmpc" / "collect" / "intake" / "web"
DRIVER = Path(__file__).with_name("web_client.mjs")

node = pytest.mark.skipif(not shutil.which("node"), reason="needs node 20 or later")


def run_node(job, collection=None, **given):
    """Let node do a job of the driver; return what it answers."""
    if collection is not None:
        given = {"task": collection.content.hex(), "digest": collection.digest.hex()} | given
    given |= {"job": job, "client": (WEB / "client.mjs").as_uri(), "wasm": str(WEB / "report.wasm")}
    done = subprocess.run(["node", DRIVER], input=json.dumps(given), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
