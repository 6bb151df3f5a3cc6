"""`dpmpc parties` writes every file that parties need who are started by hand, each in a process of its own."""

import datetime
import json
import sys

import pytest

from bench.system.ports import free_ports
from dpmpc.cli.main import main as command
from dpmpc.network.identity import write_identity
from dpmpc.release import Release
from support import forks
from support.mpyc_launcher import PROTOCOLS, finish, start

CLIENTS = 2000
DAY = datetime.timedelta(days=1)


def write(tmp_path, parties, *options):
    """Write the folders of parties of this machine; return where they are."""
    out = tmp_path / "run"
    addresses = [part for port in free_ports(parties) for part in ("--party", f"127.0.0.1:{port}")]
    arguments = ["parties", str(out), *addresses, *map(str, options)]
    return command(arguments), out


def run_all(out, parties):
    folders = [out / f"party-{party}" for party in range(parties)]
    return finish([start([sys.executable, "-m", "dpmpc.network.party", str(folder)], None) for folder in folders])


@pytest.mark.parametrize("own", [False, True], ids=["authority", "pinned"])
def test_parties_that_are_started_one_by_one_make_a_release(tmp_path, own, capsys):
    options = ["--clients", CLIENTS, "--epsilon", 2]
    if own:
        for party in range(4):
            pem = write_identity(tmp_path / f"own-{party}", party, DAY)
            (tmp_path / f"{party}.crt").write_bytes(pem)
            options += ["--certificate", tmp_path / f"{party}.crt"]
    status, out = write(tmp_path, 4, *options)
    assert status == 0
    said = capsys.readouterr().out
    assert "party-3: copy it to 127.0.0.1" in said
    assert "python -P -m dpmpc.network.party party-0" in said
    keys = [(out / f"party-{party}" / "party.key").exists() for party in range(4)]
    assert keys == [not own] * 4
    assert [(out / f"party-{party}" / "share").exists() for party in range(4)] == [True, True, True, False]
    if own:
        for party in range(4):
            for name in ("party.key", "party.crt"):
                (tmp_path / f"own-{party}" / name).rename(out / f"party-{party}" / name)
    ended = run_all(out, 4)
    assert [done.returncode for done in ended] == [0] * 4, ended[3].stderr
    release = Release.load(out / "party-3" / "release.dpmpc")
    assert (release.clients, release.guarantee.epsilon) == (CLIENTS, 2)
    answer = json.loads((out / "party-3" / "outcome.json").read_text())["result"]
    assert "commute_km" in answer["coefficients"]


def test_one_command_writes_what_ssl_of_mpyc_reads(tmp_path, capsys):
    status, out = write(tmp_path, 3, "--mpyc")
    assert status == 0
    assert "-I 2 --ssl" in capsys.readouterr().out
    found = sorted(path.name for path in (out / ".config").iterdir())
    assert found == sorted(["mpyc_ca.crt", *(f"party_{party}.{end}" for party in range(3) for end in ("crt", "key"))])
    arguments = ["--clients", "20001", "--epsilon", "4", "--rows", "16"]
    addresses = [f"-P127.0.0.1:{port}" for port in free_ports(3)]
    program = str(PROTOCOLS / "linear_transform.py")
    ended = finish(
        [start([sys.executable, program, *arguments, *addresses, f"-I{party}", "--ssl"], out) for party in range(3)]
    )
    assert [done.returncode for done in ended] == [0] * 3, ended[0].stderr
    assert "All 3 parties connected via SSL." in ended[0].stdout
    assert "links: MPyC 0.11, 3 parties on this machine, TLS by --ssl" in ended[0].stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--party", "a:1", "--party", "b:1"], "party: 2 given, at least 3 expected"),
        (["--party", "a:1", "--mpyc", "--certificate", "x"], "certificate: given, none expected with --mpyc"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, options, said, capsys):
    assert command(["parties", str(tmp_path / "run"), *options]) == 2
    assert said in capsys.readouterr().err


def test_what_is_there_is_not_written_over(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    for options in (["--mpyc"], ["--clients", 300]):
        status, _ = write(tmp_path, 3, *options)
        assert status == 2
        assert "a directory that does not exist yet expected" in capsys.readouterr().err


@pytest.mark.parametrize("program", ["coinpress", "data_owners"])
def test_options_of_the_launcher_of_mpyc_lead_to_the_page(program):
    done = forks.run("-P", "a.example:1", "-I", "0", program=[PROTOCOLS / f"{program}.py"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "InputError: -P: given" in done.stderr
    assert "docs/how-to/mpyc.md" in done.stderr
