"""The commands of a collection with proofs: what `collection`, `inspect` and `verify` say, and all of them together."""

import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from dpmpc.app.cli.main import main
from dpmpc.collect.terms.task_file import Collection
from support.task_files import write_task_file
from support.waiting import wait_for

PEOPLE = 300


def test_a_task_file_with_proofs_says_what_they_promise(tmp_path, capsys):
    assert write_task_file(tmp_path) == 0
    collection = Collection.load(tmp_path / "task.json")
    assert collection.proved
    assert "no proofs" not in capsys.readouterr().err
    assert collection.plan.encoding.fractional_bits == 9
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "task.json")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("proofs: ")]
    assert "if all 3 servers followed the protocol" in line
    assert "at most 2^-" in line
    assert "Not proved: that a row is true" in line


def test_a_design_that_is_worthless_at_its_minimum_batch_is_refused_unless_it_is_insisted_on(tmp_path, capsys):
    assert write_task_file(tmp_path, "--minimum-batch", "2000", insisted=()) == 0
    told = capsys.readouterr()
    for batch in ("minimum batch of 2,000", "largest batch of 5,000"):
        assert f"with the {batch} reports: each mean has noise with a standard deviation of" in told.out
    assert "WORTHLESS" not in told.err
    assert write_task_file(tmp_path / "few", "--minimum-batch", "20", insisted=()) == 2
    assert "with the minimum batch of 20 reports a regression is WORTHLESS under the usual" in capsys.readouterr().err
    assert not (tmp_path / "few" / "task.json").exists()
    assert write_task_file(tmp_path / "insisted", "--minimum-batch", "20") == 0
    assert "is WORTHLESS under the usual assumptions" in capsys.readouterr().err


def test_without_proofs_the_task_file_is_as_it_was(tmp_path, capsys):
    assert write_task_file(tmp_path, "--no-proved") == 0
    assert "dpmpc collection: no proofs, so that one client" in capsys.readouterr().err
    text = (tmp_path / "task.json").read_text()
    assert '"name":"second-moments"' in text
    assert "prove" not in text
    assert main(["inspect", str(tmp_path / "task.json")]) == 0
    assert "proofs: none; one client" in capsys.readouterr().out


def test_a_task_file_with_shamir_shares_says_what_is_promised_of_noise(tmp_path, capsys):
    assert write_task_file(tmp_path, "--proved", "--sharing", "shamir", servers=4) == 0
    collection = Collection.load(tmp_path / "task.json")
    assert collection.proved
    assert collection.plan.noise_is_dealt
    assert '"dealers":3' in (tmp_path / "task.json").read_text()
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "task.json")]) == 0
    out = capsys.readouterr().out.splitlines()
    (line,) = [line for line in out if line.startswith("proofs: ")]
    assert "if at least 3 servers took part and at most 1 of them lied" in line
    (line,) = [line for line in out if line.startswith("noise: dealt by ")]
    assert "each of 3 or more servers, the noise of 1 of whom is not counted on" in line
    assert "Not proved: how it was drawn" in line


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--noise-by", "clients", "--corrupt-clients", "0"], "noise that a client adds cannot be proved"),
        (["--sharing", "shamir", "--noise-by", "clients", "--corrupt-clients", "0"], "noise that a client adds"),
        (["--ring", "ring64"], "'mersenne61' expected with proofs"),
    ],
)
def test_what_cannot_be_proved_is_refused_with_the_reason(tmp_path, capsys, options, reason):
    assert write_task_file(tmp_path, "--proved", *options) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "task.json").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--noise-by", "clients", "--corrupt-clients", "0"],
        ["--sharing", "shamir", "--noise-by", "clients", "--corrupt-clients", "0"],
    ],
)
def test_what_has_no_proofs_goes_without_them_and_says_so(tmp_path, capsys, options):
    assert write_task_file(tmp_path, *options) == 0
    assert not Collection.load(tmp_path / "task.json").proved
    assert "dpmpc collection: no proofs" in capsys.readouterr().err


def test_what_only_proofs_forbid_is_refused_with_the_way_to_go_without(tmp_path, capsys):
    assert write_task_file(tmp_path, "--ring", "ring64") == 2
    told = capsys.readouterr().err
    assert "'mersenne61' expected with proofs" in told
    assert "without proofs (proved=False, --no-proved) it could be" in told
    assert write_task_file(tmp_path / "again", "--ring", "ring64", "--no-proved") == 0


def dpmpc(*argv, module="dpmpc", **options):
    """Start a command as a process."""
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, argv)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=os.path.dirname(os.path.dirname(__file__)), **pipes, **options)


def finish(process, seconds=120):
    out, told = process.communicate(timeout=seconds)
    return process.returncode, out, told


@pytest.mark.long("all commands as processes; their parts are in the ordinary suite")
def test_all_commands_together_with_liars(tmp_path):
    """Three servers over TLS take reports of honest people and of liars, and release those of the honest."""
    assert write_task_file(tmp_path) == 0
    task = tmp_path / "task.json"
    collection = Collection.load(task)
    rows = np.random.default_rng(1).uniform(0, 10, (PEOPLE, 3))
    table = "a,b,y\n" + "".join(",".join(f"{value:.6f}" for value in row) + "\n" for row in rows)
    (tmp_path / "people.csv").write_text(table)
    serving = []
    try:
        for server, entry in enumerate(collection.servers):
            places = ("--listen", entry.peers, "--web", entry.url.removeprefix("https://"))
            folder = tmp_path / f"server-{server}"
            serving.append(dpmpc("serve", task, "--server", server, "--folder", folder, *places))
        for entry in collection.servers:
            wait_for(lambda port=entry.web_address[1]: listens(port), f"a listener for {entry.url}")
        state = tmp_path / "people.state"
        status, _, told = finish(dpmpc("submit", task, tmp_path / "people.csv", "--batch", 50, "--state", state))
        assert status == 0, told
        deeds = {"wrong products": "200", "different lists": "200", "replayed": "400"}
        for deed, expected in deeds.items():
            argv = [task, "--deed", deed, "--count", 2]
            status, out, told = finish(dpmpc(*argv, module="support.hostile.provers"))
            assert status == 0, told
            assert {line.split(": ")[1] for line in out.splitlines()} == {expected}
        ended = [
            dpmpc(
                *("release", task, "--server", server, "--folder", tmp_path / f"server-{server}", "--close"),
                *("--out", tmp_path / f"release-{server}.dpmpc"),
            )
            for server in range(3)
        ]
        for process in ended:
            status, _, told = finish(process)
            assert status == 0, told
            assert "refused, false proof: 2 reports" in told
            assert "refused, different lists: 2 reports" in told
    finally:
        for process in serving:
            process.send_signal(signal.SIGTERM)
        for process in serving:
            process.communicate(timeout=30)
    status, out, told = finish(dpmpc("verify", tmp_path / "release-0.dpmpc", "--collection", task, "--json"))
    assert status == 0, told
    statement = json.loads(out)["statement"]
    assert statement["manifest"]["clients"] == PEOPLE
    assert statement["manifest"]["refused"] == {"different lists": 2, "false proof": 2}


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
