"""Files that claim more than they hold end in a typed error, soon and in little memory."""

import json
import os
import re
import resource
import string
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpmpc.app.cli.main import main
from dpmpc.app.render.fit_folder import FitFolder
from dpmpc.base.errors import GuaranteeError, InputError, OverflowRisk
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.upload.roster import Roster
from dpmpc.data import Schema
from dpmpc.data.csv_files import LONGEST_LINE
from dpmpc.data.table_files import read_cells, read_table
from dpmpc.linear.contributions import Rows
from dpmpc.linear.noise import DiscreteGaussian
from dpmpc.linear.sharing.batch import open_share
from dpmpc.linear.sketching import OSNAP
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.owners.columns import design as mixing_design
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.parties.network.identity import Authority, dialling_context, listening_context
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import LONGEST_CHECK
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from support.hostile import files
from support.rejections import rejects
from support.release_processes import Trial
from support.unverified import unverified

TESTS = Path(__file__).parent
SECONDS = 5  # of a busy machine; the sound file takes some milliseconds
MEGABYTES_PACKED = 2
MEMORY_MB = 200  # beside what Python and its libraries take, for files of at most a few megabytes
CHILD = """
import resource, sys, time
from dpmpc.base.errors import InputError
from dpmpc.release.release import Release
from dpmpc.collect.terms.verifying import verify
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
for read in (Release.load, verify):
    try:
        read(sys.argv[1])
        print("read")
    except InputError as error:
        print(type(error).__name__, str(error)[:300].encode("unicode_escape").decode())
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
print(time.process_time() - began)
"""


TABLE_CHILD = """
import resource, sys, time
from dpmpc.base.errors import InputError
from dpmpc.data.table_files import read_cells, read_table
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
for read in (read_table, read_cells):
    try:
        read(sys.argv[1])
        print("read")
    except InputError as error:
        print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
print(time.process_time() - began)
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A release of an OSNAP, as bytes."""
    task = design(ReleaseSpec.of(Schema.unit(["a", "b", "y"]), 600, 1.0, 1e-6, sketch="osnap", rows=20, sparsity=3))
    release = model.run(task, np.random.default_rng(0).uniform(-1, 1, (600, 3)))
    path = tmp_path_factory.mktemp("sound") / "release.dpmpc"
    release.save(path)
    assert Release.load(path).task == task
    return path.read_bytes()


@pytest.mark.parametrize("kind", files.RELEASES)
def test_a_hostile_release_is_refused_soon_and_in_little_memory(kind, sound, tmp_path):
    path = tmp_path / "hostile.dpmpc"
    path.write_bytes(files.RELEASES[kind](sound))
    limits = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # noqa: E731
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)],
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=limits,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded, verified, grown, seconds = done.stdout.split("\n")[:4]
    assert re.match("InputError|GuaranteeError|OverflowRisk", loaded), loaded
    assert verified.startswith("VerificationFailed"), verified
    assert int(grown) < MEMORY_MB
    assert float(seconds) < SECONDS


@pytest.mark.parametrize("kind", files.TOML)
def test_hostile_toml_is_refused_soon(kind, tmp_path):
    path = tmp_path / "hostile.toml"
    path.write_bytes(files.TOML[kind]())
    began = time.process_time()
    with rejects("bounds"):
        Schema.from_toml(path)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("kind", files.TABLES)
def test_a_table_of_endless_rows_is_refused_soon_and_in_little_memory(kind, tmp_path):
    """Half a gigabyte in as many kilobytes: one line, one quotation, or one row of endless cells."""
    path = tmp_path / "hostile.csv.gz"
    path.write_bytes(files.TABLES[kind]())
    assert path.stat().st_size < MEGABYTES_PACKED << 20
    done = subprocess.run(
        [sys.executable, "-c", TABLE_CHILD, str(path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *refused, grown, seconds = done.stdout.splitlines()
    assert all(re.search(r"hostile\.csv\.gz: .*((line|row) of more|field larger)", line) for line in refused), refused
    assert len(refused) == 2
    assert int(grown) < MEMORY_MB
    assert float(seconds) < SECONDS


def test_quotation_marks_that_quote_nothing_are_read(tmp_path):
    """An odd number of marks within cells, in a column that is not read, over more than the longest line."""
    path = tmp_path / "inches.csv"
    path.write_text("x,pipe\n" + '1,5" wide\n' + f"2,{'a' * 9998}\n" * (LONGEST_LINE // 9000))
    assert len(read_table(path, ["x"])) == LONGEST_LINE // 9000 + 1


def test_columns_by_the_thousand_take_linear_time(tmp_path):
    """Twice as many columns take about twice as long; a search for each name made them take four times as long."""
    count = 40_000
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{place}" for place in range(count)) + "\n" + ",".join("1" * count) + "\n")
    began = time.process_time()
    table = read_table(path)
    cells = read_cells(path)
    assert table.select(table.names[::-1]).names[0] == cells.names[-1] == f"c{count - 1}"
    assert time.process_time() - began < SECONDS
    with rejects("columns") as refused:
        read_table(path, ["z"])
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("command", ["verify", "read"])
def test_a_file_without_an_end_is_refused(command, tmp_path, capsys):
    """A device, and a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        assert main([command, path]) == 2
        assert "no regular file" in capsys.readouterr().err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["release.dpmpc", "roster", "identity/party.crt", "share.npy", "fit/result.json"])
def test_no_reader_waits_for_a_pipe_in_place_of_a_file(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    tmp_path.chmod(0o700)
    collection = Trial.make(tmp_path / "trial", count=1).collection
    readers = {
        "release.dpmpc": lambda: Release.load(path),
        "roster": lambda: Roster(path, collection, 0),
        "identity/party.crt": lambda: ServerFolder(tmp_path).require_server(collection, 0),
        "share.npy": lambda: open_share(path),
        "fit/result.json": lambda: FitFolder.open(path.parent),
    }
    with pytest.raises(InputError, match="no regular file"):
        readers[name]()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["ca.crt", "party.crt", "party.key"])
def test_a_pipe_among_the_certificates_of_a_party_is_refused(tmp_path, name):
    folder = tmp_path / "party-0"
    folder.mkdir(mode=0o700)
    Authority().issue(folder, 0)
    listening_context(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name, 0o600)
    for context in (listening_context, dialling_context):
        with rejects("identity"):
            context(folder)


def test_the_text_of_a_file_is_escaped_in_its_error(sound, tmp_path):
    path = tmp_path / "hostile.dpmpc"
    path.write_bytes(files.escapes(sound))
    with pytest.raises(InputError) as refused:
        Release.load(path)
    assert "\x1b" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_release_of_mixed_columns_is_read_as_carefully(sound, tmp_path):
    path = tmp_path / "hostile.dpmpc"
    for kind in ("deflated_public", "nested_json", "twice"):
        path.write_bytes(files.RELEASES[kind](sound))
        with pytest.raises(InputError, match="release of mixed columns"):
            MixedRelease.load(path)


def test_sums_are_compared_with_the_task_before_they_are_read(sound, tmp_path):
    """Also where they are there: a file of more numbers than its task has is not loaded to find that out."""
    path = tmp_path / "release.dpmpc"
    path.write_bytes(files.with_task(sound, sketch__rows=19))
    with pytest.raises(InputError, match=r"sums\.npy: int64 \(20, 3\) given, int64 \(19, 3\) expected"):
        Release.load(path)


def test_a_compressed_release_is_refused_however_small_it_is(sound, tmp_path):
    path = tmp_path / "release.dpmpc"
    path.write_bytes(files.zip_of(files.members_of(sound), zipfile.ZIP_DEFLATED))
    with pytest.raises(InputError, match=r"compressed \(method 8\), stored as it is expected"):
        Release.load(path)


@pytest.mark.parametrize("change", [{"noise__sigma": 1.0}, {"epsilon": 0.01}, {"delta": 1e-30}])
def test_a_release_that_promises_more_than_its_noise_gives_is_refused(change, sound, tmp_path):
    path = tmp_path / "release.dpmpc"
    path.write_bytes(files.with_task(sound, **change))
    with pytest.raises(GuaranteeError, match=r"epsilon: .* promised, but discrete-gaussian noise"):
        Release.load(path)


def test_a_release_whose_sums_may_have_wrapped_around_is_refused(tmp_path):
    """Enough noise for its promise, at 40 fractional bits of 2^30 clients: sums of 2^70 in a ring of 2^64."""
    task = design(ReleaseSpec.of(Schema.unit(["a"]), 1 << 30, 1.0, 1e-10, sketch="sum", contribution=Rows()))
    path = tmp_path / "release.dpmpc"
    Release(task, np.zeros((1, task.width), np.int64)).save(path)
    path.write_bytes(files.with_task(path.read_bytes(), encoding__fractional_bits=40, noise__sigma=2.0**40, epsilon=99))
    with pytest.raises(OverflowRisk, match="bits needed, 64 available"):
        Release.load(path)


def test_a_sum_of_many_clients_is_verified_by_formula():
    """2^34 clients of a sum: nothing is drawn."""
    task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), 1 << 34, 1.0, 1e-12, sketch="sum", fractional_bits=10))
    began = time.process_time()
    assert task.require_checkable(0.1).verify() is task
    assert time.process_time() - began < 1


def test_the_time_that_a_check_takes_is_estimated_and_bounded():
    task = design(ReleaseSpec.of(Schema.unit(["a", "b"]), 3000, 1.0, 1e-6, sketch="osnap", rows=20, sparsity=4))
    assert task.require_checkable() is task
    assert 0 < task.check_seconds < 0.1
    with rejects("task"):
        task.require_checkable(1e-9)
    large = lambda n, **more: with_sketch(task, OSNAP(1000, n, seed=1, **{"sparsity": 1, **more}))  # noqa: E731
    assert large(10**9).check_seconds < LONGEST_CHECK  # whoever has so many clients reads the release like anybody
    assert large(1 << 31, sparsity=4).check_seconds > LONGEST_CHECK
    assert with_sketch(task, OSNAP(1 << 14, 20_000, 2, seed=1)).check_seconds > LONGEST_CHECK
    assert with_sketch(task, Sum(1 << 34)).check_seconds == 0


def with_sketch(task, sketch):
    return unverified(task, sketch=sketch, noise=DiscreteGaussian(5.0))


def test_what_cannot_be_read_is_not_written(sound, tmp_path, monkeypatch):
    path = tmp_path / "release.dpmpc"
    path.write_bytes(sound)
    release = Release.load(path)
    monkeypatch.setattr("dpmpc.release.release_file.LARGEST_PUBLIC", 100)
    with rejects("task", expected="at most 100"):
        release.save(tmp_path / "other.dpmpc")
    assert not (tmp_path / "other.dpmpc").exists()


def test_hostile_files_can_be_made_by_hand(sound, tmp_path):
    (tmp_path / "sound").write_bytes(sound)
    command = [sys.executable, "-m", "support.hostile.files", "many_columns", tmp_path / "sound", tmp_path / "out"]
    done = subprocess.run(list(map(str, command)), cwd=TESTS, capture_output=True, text=True, timeout=60, check=True)
    assert "many_columns" in done.stdout
    with pytest.raises(InputError, match="2,147,483,648 clients"):
        Release.load(tmp_path / "out")


FORGED = "\x1b[2Jok\nrelease of 999999 reports, signed by all\u202e"


def test_read_prints_no_text_of_a_file_raw(tmp_path, capsys):
    """Names of columns have to be printable; what else a file says stands escaped in the error."""
    task = mixing_design([["a"], ["b"]], 400, 1.0, 1e-5, rows=10)
    release = MixedRelease(task, np.zeros((10, 2), np.int64), {"method": FORGED, "names": [FORGED]})
    path = tmp_path / "public"
    release.save(path)
    assert main(["read", str(path), "--target", "a"]) == 2
    assert main(["read", str(path), "--target", FORGED, "--method", "rmgm"]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 2
    assert set(told.err) <= set(string.printable) - set("\x0b\x0c\r")
    members = files.members_of(path.read_bytes())
    named = members["release.json"].replace(b'"name": "a"', b'"name": "a\\u001b[2J"')
    path.write_bytes(files.zip_of({**members, "release.json": named}))
    assert main(["read", str(path), "--target", "a"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_errors_of_the_commands_are_printable(sound, tmp_path, capsys):
    path, settings = tmp_path / "hostile", tmp_path / "hostile.toml"
    path.write_bytes(files.zip_of({**files.members_of(sound), "certificate.json": json.dumps({FORGED: 1}).encode()}))
    assert main(["verify", str(path)]) == 2
    settings.write_text(json.dumps(FORGED) + " = 1\n")
    assert main(["inspect", str(settings)]) == 2
    assert main(["plan", "--clients", "100", "--bounds", str(settings), "--epsilon", "1", "--delta", "1e-6"]) == 2
    assert main(["inspect", "x\x1b[2J\nrelease of 9 reports"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 4
    assert "signed by all" in told
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_whoever_trusts_a_file_may_take_longer(sound, tmp_path, capsys):
    path = tmp_path / "release"
    path.write_bytes(files.with_task(sound, sketch__columns=601))
    with pytest.raises(InputError, match="at most 1e-09 s"):
        Release.load(path, longest=1e-9)
    with pytest.raises(InputError, match=r"claims another guarantee|1 promised, but"):
        Release.load(path, longest=60)
    assert main(["verify", str(path), "--longest", "60"]) == 2
    assert "without certificate" in capsys.readouterr().err


def test_what_a_release_does_not_have_is_not_passed_over(sound, tmp_path):
    members = files.members_of(sound)
    public = {**json.loads(members[files.PUBLIC]), "approved_by": "the regulator"}
    path = tmp_path / "release.dpmpc"
    path.write_bytes(files.zip_of({**members, files.PUBLIC: json.dumps(public).encode()}))
    with pytest.raises(InputError, match="unknown field `approved_by`"):
        Release.load(path)
