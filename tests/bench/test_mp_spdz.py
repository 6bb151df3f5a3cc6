"""`python -m bench mp_spdz`, with a stand-in for MP-SPDZ that reads its file formats and prints what it prints.

The stand-in is not a simulation of the protocol: it adds the parties' shares and multiplies by the public matrix, both
read from where MP-SPDZ reads them, so that a wrong header, order, sign or share is noticed.
"""

import dataclasses
import json
import os
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from bench.secure_sketching import mp_spdz, mp_spdz_home
from bench.secure_sketching.mp_spdz_home import Shape
from bench.system import performance_page
from bench.system.performance_goals import read_results
from dpmpc.base.errors import BenchFailed
from dpmpc.linear.sharing import AdditiveSharing
from dpmpc.linear.sharing.batch import ArrayShare
from support.rejections import rejects

# What semi2k-party.x of MP-SPDZ 0.4.2 printed for 3000 clients, s = 4, d = 10, k = 1000 and two parties.
PRINTED = """\
Trying to run 64-bit computation
Starting timer 1 at 0 (0 MB, 0 rounds) after 9.7425e-05
Stopped timer 1 at 0.0138074 (0 MB, 0 rounds)
Starting timer 2 at 0 (0 MB, 0 rounds) after 5.278e-06
Stopped timer 2 at 0.0263386 (0 MB, 0 rounds)
Starting timer 3 at 0 (0 MB, 0 rounds) after 5.868e-06
Stopped timer 3 at 0.167431 (0 MB, 0 rounds)
Starting timer 4 at 0 (0 MB, 0 rounds) after 4.807e-06
Stopped timer 4 at 0.0129874 (0.08 MB, 2 rounds)
The following benchmarks are including preprocessing (offline phase).
Time = 0.424822 seconds\x20
Time1 = 0.0138074 seconds (0 MB, 0 rounds)
Time2 = 0.0263386 seconds (0 MB, 0 rounds)
Time3 = 0.167431 seconds (0 MB, 0 rounds)
Time4 = 0.0129874 seconds (0.08 MB, 2 rounds)
Data sent = 0.16 MB in ~4 rounds (party 0 only; use '-v' for more details)
Global data sent = 0.32 MB (all parties)
This virtual machine was compiled with GCC. Recompile with 'CXX = clang++' in 'CONFIG.mine' for optimal performance.
"""
COMPILER = """\
import pathlib, sys
assert sys.argv[1:4] == ["-R", "64", "sketch"], sys.argv
assert "start_timer(4)" in pathlib.Path("Programs/Source/sketch.mpc").read_text()
"""
PARTY = """\
import os, pathlib, sys
party, parties, program = int(sys.argv[2]), int(sys.argv[4]), sys.argv[-1]
assert sys.argv[1::2][:4] == ["-p", "-N", "-pn", "-h"], sys.argv
print("cores", sorted(os.sched_getaffinity(0)))
n, s, d, k, depth = (int(value) for value in program.split("-")[1:])
if party == 0:
    total = np.zeros(n * s * d, np.uint64)
    for other in range(parties):
        content = pathlib.Path(f"Persistence/Transactions-P{other}.data").read_bytes()
        length = int.from_bytes(content[:8], "little")
        assert content[8 : 8 + length] == b"Z2^64" + (64).to_bytes(4, "little")
        total += np.frombuffer(content[8 + length :], "<u8")
    shares = np.vstack([total.reshape(-1, d), np.zeros((1, d), np.uint64)]).view(np.int64)
    public = np.loadtxt(f"Programs/Public-Input/{program}", dtype=np.int64)
    table, plain = public[: depth * k].reshape(depth, k), public[depth * k :]
    signed = np.sign(table)[:, :, None] * shares[np.abs(table) - 1]
    sums = np.zeros((k, d), np.int64)
    np.add.at(sums, np.abs(plain) - 1, np.sign(plain)[:, None] * shares[:-1])
    pathlib.Path("Player-Data").mkdir(exist_ok=True)
    opened = np.concatenate([signed.sum(axis=0).T.ravel(), sums.ravel()]) + OFF
    opened.astype("<i8").tofile("Player-Data/Binary-Output-P0-0")
sys.stderr.write(pathlib.Path(PRINTED).read_text())
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path / "MP-SPDZ")


def make_home(folder, party=PARTY, off=0):
    (folder / "Scripts").mkdir(parents=True)
    (folder / "printed").write_text(PRINTED)
    (folder / "CHANGELOG.md").write_text(
        "The changelog explains.\n\n## 0.4.2 (Dec 24, 2025)\n\n## 0.4.1 (May 30, 2025)\n"
    )
    (folder / "compile.py").write_text(COMPILER)
    executable(folder / "Scripts" / "setup-ssl.sh", "touch Player-Data/P0.pem\n")
    settings = f"PRINTED, OFF = {str(folder / 'printed')!r}, {off}\n"
    executable(folder / "semi2k-party.x", f"#!{sys.executable}\nimport numpy as np\n{settings}{party}")
    return folder


def test_it_says_how_to_get_mp_spdz(tmp_path):
    with rejects("home"):
        mp_spdz.main([])
    (tmp_path / "compile.py").touch()
    with rejects("home"):
        mp_spdz.main(["--home", str(tmp_path)])
    with rejects("runs", given="0"):
        mp_spdz.main(["--runs", "0"])


def test_a_run_stands_beside_ours_and_replaces_the_transcribed_file(home, tmp_path, capsys):
    out = tmp_path / "out"
    sizes = ["--clients", "1200", "--sparsity", "2", "--servers", "3", "--runs", "1"]
    mp_spdz.main(["--home", str(home), *sizes, "--out", str(out)])
    page = capsys.readouterr().out
    assert page == (out / "mp_spdz.md").read_text()
    assert "| 1,200 | 2 | 3 | 0.0138 (" in page
    content = json.loads((out / "mp_spdz.json").read_text())
    assert (content["transcribed"], content["version"]) == (False, "0.4.2")
    (entry,) = content["measured"]
    assert [entry[phase] for phase in ("read", "transform", "loop", "open")] == [
        0.0138074,
        0.0263386,
        0.167431,
        0.0129874,
    ]
    assert entry["sent_mb"]["mean"] == 0.08
    assert entry["peak_rss_mb"] > 1
    (pair,) = mp_spdz.pairs(content, {"measured": []})
    assert pair.theirs["loop"] == 0.167431
    assert pair.ours == {name: of["wall_s"]["median"] for name, of in entry["ours"]["phases"].items()}
    assert mp_spdz.pairs(content, {"measured": []}, servers=2) == []


def test_other_sums_than_ours_are_noticed(tmp_path):
    for number, (off, what) in enumerate(
        (("1", "vectorised transform"), ("(np.arange(20000) == 19999)", "plain loop"))
    ):
        home = make_home(tmp_path / str(number), off=off)
        with pytest.raises(BenchFailed, match=f"the {what} opened other sums than our servers"):
            mp_spdz.measure(home, mp_spdz.Setting(1200, 1, 2), 1)


def prepared(home, folder, parties=2):
    """Lay out a job of 40 clients; return its shape and the sums."""
    rng = np.random.default_rng(3)
    places, signs = rng.integers(0, 7, (40, 2)), rng.choice(np.array([-1, 1]), (40, 2))
    secret = rng.integers(-1000, 1000, (40, 2, 3))
    shape = Shape(40, 2, 3, 7, len(mp_spdz_home.sorted_by_row(places, signs, 7)))
    mp_spdz_home.compile_program(home, folder, shape)
    mp_spdz_home.make_certificates(home, folder, parties)
    mp_spdz_home.write_public(folder, shape, places, signs)
    for party, share in enumerate(AdditiveSharing(parties).split(secret.astype(np.uint64))):
        mp_spdz_home.write_share(folder, party, ArrayShare(share))
    sums = np.zeros((7, 3), np.int64)
    np.add.at(sums, places, signs[:, :, None] * secret)
    return shape, sums


def test_parties_have_a_core_each_where_there_are_enough(home, tmp_path):
    shape, sums = prepared(home, tmp_path)
    cores = sorted(os.sched_getaffinity(0))
    assert mp_spdz_home.cores_for(len(cores)) == cores
    assert mp_spdz_home.cores_for(len(cores) + 1) is None
    mp_spdz_home.run_parties(home, tmp_path, shape, 2)
    mp_spdz_home.require_sums(tmp_path, shape, sums)
    told = [(tmp_path / f"party-{party}.log").read_text() for party in range(2)]
    expected = [[cores[0]], [cores[1]]] if len(cores) > 1 else [cores, cores]
    assert all(f"cores {own}" in text for own, text in zip(expected, told, strict=True))
    with mp_spdz.on_cores(cores[:1]):
        assert os.sched_getaffinity(0) == {cores[0]}
        mp_spdz_home.run_parties(home, tmp_path, shape, 2)
    assert sorted(os.sched_getaffinity(0)) == cores
    assert f"cores {cores[:1]}" in (tmp_path / "party-1.log").read_text()


@pytest.mark.parametrize(
    ("party", "message"),
    [
        (
            "import sys\nsys.exit('Persistence not found' if sys.argv[2] == '1' else 0)",
            "party 1 ended with 1: .*not found",
        ),
        ("import time\ntime.sleep(60)", "party 0 took over 0.5 s"),
        ("print('Time1 = 3 seconds')", "seconds and MB of timers 1 to 4 expected, printed was: Time1"),
    ],
)
def test_a_party_that_fails_is_told(tmp_path, party, message):
    home = make_home(tmp_path / "home", party="pass")
    shape, _ = prepared(home, tmp_path)
    executable(home / "semi2k-party.x", f"#!{sys.executable}\n{party}\n")
    with pytest.raises(BenchFailed, match=message):
        mp_spdz_home.run_parties(home, tmp_path, shape, 2, deadline=0.5 if "sleep" in party else 60)


def test_a_compiler_that_fails_is_told(home, tmp_path):
    (home / "compile.py").write_text("raise SystemExit('CompilerError: no such type')")
    with rejects("mp_spdz", BenchFailed):
        mp_spdz_home.compile_program(home, tmp_path, Shape(1, 1, 1, 1, 1))


def test_sums_that_were_not_opened_are_noticed(tmp_path):
    (tmp_path / "Player-Data").mkdir()
    np.zeros(3, "<i8").tofile(tmp_path / "Player-Data" / "Binary-Output-P0-0")
    with rejects("mp_spdz", BenchFailed, given="3 numbers opened, 12 expected"):
        mp_spdz_home.require_sums(tmp_path, Shape(5, 1, 2, 3, 4), np.zeros((3, 2), np.int64))


def test_rows_are_filled_up_with_zeros():
    places, signs = np.array([[2], [0], [2], [2]]), np.array([[1], [-1], [-1], [1]])
    table = mp_spdz_home.sorted_by_row(places, signs, 3)
    np.testing.assert_array_equal(table, [[-2, 5, 1], [5, 5, -3], [5, 5, 4]])


def test_the_version_names_release_and_commit(home):
    assert mp_spdz_home.version_of(home) == "0.4.2"
    (home / "CHANGELOG.md").unlink()
    assert mp_spdz_home.version_of(home) == "release unknown"
    git = ["git", "-C", str(home), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    assert mp_spdz_home.version_of(home).startswith("release unknown, commit ")


def test_the_page_on_performance_says_where_its_figures_come_from():
    results = dict(read_results(performance_page.RESULTS))
    results["mp_spdz"] = {**results["mp_spdz"]}
    told = performance_page.blocks(results)["mp-spdz"]
    assert ("Transcribed by hand" in told) == results["mp_spdz"]["transcribed"]
    entry = results["table3"]["measured"][0]
    phases = dict.fromkeys(mp_spdz.PHASES, 1.0)
    measured = {**{name: entry[name] for name in ("clients", "sparsity", "servers")}, **phases, "ours": entry}
    run = {"transcribed": False, "version": "0.4.2", "machine": results["table3"]["machine"], "runs": 3}
    results["mp_spdz"] = {**run, "measured": [{**measured, "peak_rss_mb": 865.0}]}
    told = performance_page.blocks(results)["mp-spdz"]
    assert "MP-SPDZ 0.4.2, in the same run and from the same shares." in told
    assert "read, ours (s)" in told


def test_the_program_is_what_the_stand_in_compiles():
    assert dataclasses.astuple(Shape(600, 1, 10, 1000, 2)) == (600, 1, 10, 1000, 2)
    assert Shape(600, 1, 10, 1000, 2).program == "sketch-600-1-10-1000-2"
    compile(textwrap.dedent(mp_spdz_home.SOURCE), "sketch.mpc", "exec")
