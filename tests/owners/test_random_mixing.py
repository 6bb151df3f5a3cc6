"""Parties with different columns among real processes: one public file, the same at all, or none and a typed error.

Randomness has a fixed seed, so that nothing here fails by chance.
"""

import contextlib
import hashlib
import hmac
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bench.system.ports import HOST, free_ports
from dpmpc.app.cli.main import main
from dpmpc.base.errors import (
    BatchMismatch,
    Equivocation,
    GuaranteeError,
    InputError,
    MalformedFrame,
    PartyLost,
    PartyMissing,
    SimulationOnly,
)
from dpmpc.base.randomness import Label, Stream
from dpmpc.data import Schema
from dpmpc.data.table_files import column_names, read_labels
from dpmpc.owners.columns import RMGM, DataOwner, design, mixing_parties
from dpmpc.owners.columns.alignment import keyed_hashes, number_of_set
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_parties import PartySource, public_arguments
from dpmpc.owners.columns.owner import mixing_of
from dpmpc.owners.columns.p256 import GENERATOR, combine, encode
from dpmpc.parties.network.launched import Launched
from dpmpc.parties.network.programs import Agreement, Callbacks, here
from dpmpc.parties.network.settings import digest_of, read_settings, write_source
from dpmpc.protocols import random_mixing
from support import forks
from support.hostile import preparers
from support.rejections import blames, rejects
from support.waiting import wait_for

WATCHED = "network_programs.watched_mixing"
COLUMNS = (("age", "height"), ("income",), ("debt", "score"))
BOUNDS = {"age": (0, 100), "height": (1, 2), "income": (-3, 3), "debt": (-3, 3), "score": (-3, 3)}
SUBJECTS, ROWS, SEED = 60, 7, 5
IDS = [f"person-{number:04d}" for number in range(SUBJECTS)]
SCHEMA = Schema(tuple(Schema.from_pair([name], pair).columns[0] for name, pair in BOUNDS.items()))
VALUES = SCHEMA.denormalise(np.random.default_rng(1).uniform(-1, 1, (SUBJECTS, 5)))


def columns_of(party):
    names = [name for party in COLUMNS for name in party]
    return VALUES[:, [names.index(name) for name in COLUMNS[party]]]


def write_party(folder, party, ids=IDS, key="id"):
    """A file of some of the people in an order of its own; strangers, who are not in IDS, have zeros."""
    by_id = dict(zip(IDS, columns_of(party).tolist(), strict=True))
    order = np.random.default_rng(party).permutation(len(ids))
    lines = [",".join([key, "remark", *COLUMNS[party]])]
    for name in (ids[position] for position in order):
        lines.append(
            ",".join([name, "none of your business", *map(repr, by_id.get(name, [0.0] * len(COLUMNS[party])))])
        )
    path = folder / f"party{party}.csv"
    path.write_text("\n".join(lines) + "\n")
    return PartySource(str(path), key)


def small_task(seed=SEED, rows=ROWS):
    return design(COLUMNS, SUBJECTS, 1.0, 1e-5, bounds=BOUNDS, rows=rows, simulation=seed is not None)


def arguments_of(seed=SEED, **options):
    return public_arguments(small_task(seed), ["clinic", "bank", "lender"], **options)


def run(arguments, sources):
    """Run the watched program with the seed of this file."""
    return mixing_parties.run(arguments, sources, program=WATCHED, simulation_seed=SEED)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where `watched_mixing` keeps what parties sent and published."""
    monkeypatch.setenv("KEPT", str(tmp_path))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    return tmp_path


def files(tmp_path, **rows):
    return [write_party(tmp_path, party, **{"ids": rows.get(f"ids{party}", IDS)}) for party in range(3)]


def published(kept):
    return sorted(path.name for path in kept.glob("release-*"))


def secrets_of(task, program, arguments):
    """Alignment key and seed of B, from the definitions: what nobody may send."""
    digest = bytes.fromhex(digest_of(program, arguments))
    source = Stream.from_seed(SEED)
    coins = [source.substream(party, Label.COIN).bytes(32) for party in range(3)]
    toss = hashlib.sha256(b"dpmpc v1 coin toss" + digest + b"".join(coins)).digest()

    def derived(label):
        return HKDF(hashes.SHA256(), 32, None, label + bytes(9)).derive(toss)

    return derived(b"dpmpc v1 alignment"), derived(b"dpmpc v1 sketch seed"), toss


def expected_release(task, key, seed):
    """The release that one process makes of all columns, in the common order."""
    order = sorted(range(SUBJECTS), key=lambda row: hmac.new(key, IDS[row].encode(), "sha256").digest())
    parts = [
        DataOwner(task, party, mixing_of(task, seed), Stream.from_seed(SEED).substream(party)).release(
            columns_of(party)[order]
        )
        for party in range(3)
    ]
    return MixedRelease.join(task, parts), order


def test_three_processes_publish_what_one_process_would(kept):
    """Bit for bit, the same file at every party, and nothing private in what they sent or published."""
    arguments = arguments_of(date="2026")
    release = run(arguments, files(kept))
    key, seed, toss = secrets_of(release.task, WATCHED, arguments)
    expected, order = expected_release(release.task, key, seed)
    assert (release.sums == expected.sums).all()
    assert release.task == expected.task
    assert release.provenance["parties"] == ["clinic", "bank", "lender"]
    assert published(kept) == ["release-0", "release-1", "release-2"]
    assert len({(kept / name).read_bytes() for name in published(kept)}) == 1
    assert release.to_bytes() == (kept / "release-0").read_bytes()

    private = [toss, key, seed, *(name.encode() for name in IDS), *keyed_hashes(key, IDS)]
    private.append(number_of_set(key, keyed_hashes(key, IDS)).to_bytes(32, "big"))
    for party in range(3):
        sent = (kept / f"frames-{party}").read_bytes()
        part = np.ascontiguousarray(expected.sums[:, slice(*[(0, 2), (2, 3), (3, 5)][party])])
        assert part.tobytes() in sent, "the release itself is seen, so that what follows can fail"
        rows = columns_of(party)[order]
        normal = release.task.parties[party].normalise(rows)
        encoded = release.task.encoding.encode(normal)
        mixed = mixing_of(release.task, seed).apply(release.task.encoding.ring.embed(encoded))
        for numbers in (rows, normal, encoded, mixed):
            private += [number.tobytes() for number in np.ascontiguousarray(numbers).ravel() if number != 0]
        for secret in private:
            assert secret not in sent
            assert secret not in (kept / "release-0").read_bytes()


def test_what_is_published_can_be_learned_from(kept):
    release = run(arguments_of(), files(kept))
    release.save(kept / "public")
    loaded = MixedRelease.load(kept / "public")
    for target in ("score", "age"):
        fitted = RMGM().fit_release(loaded, target)
        assert (fitted.coef_ == RMGM().fit_release(release, target).coef_).all()
    assert [path for path in kept.iterdir() if path.name.endswith(".partial")] == []


def test_rows_that_differ_are_neither_counted_nor_named(kept):
    """Two of party 0's people are missing at party 1, which has strangers; party 2 lacks one and has another."""
    arguments = arguments_of()
    sources = files(kept, ids1=[*IDS[2:], "stranger-01", "stranger-02"], ids2=[*IDS[:-1], "stranger-03"])
    with pytest.raises(BatchMismatch, match="not all parties have the same ids") as failure:
        run(arguments, sources)
    assert not any(digit in str(failure.value) for digit in "123456789")
    assert failure.value.party is None
    assert published(kept) == []
    key, _, _ = secrets_of(small_task(), WATCHED, arguments)
    for party, ids in enumerate((IDS, [*IDS[2:], "stranger-01", "stranger-02"], [*IDS[:-1], "stranger-03"])):
        sent = (kept / f"frames-{party}").read_bytes()
        hashed = keyed_hashes(key, ids)
        number = number_of_set(key, hashed)
        digest = hashlib.sha256(b"".join(sorted(hashed))).digest()
        point = encode(combine([number], [GENERATOR]))[1:]
        for private in (*(name.encode() for name in ids), *hashed, digest, point, number.to_bytes(32, "big")):
            assert private not in sent


def test_the_same_rows_but_another_number_than_agreed(kept):
    sources = files(kept, ids0=IDS[1:], ids1=IDS[1:], ids2=IDS[1:])
    with rejects("party 0"):
        run(arguments_of(), sources)
    assert published(kept) == []


def test_an_id_that_stands_twice_is_refused_without_being_named(kept):
    with rejects("party 2") as failure:
        run(arguments_of(), files(kept, ids2=[*IDS[1:], IDS[1]]))
    assert "person" not in str(failure.value)
    assert published(kept) == []


def test_a_file_without_a_column_of_the_schema(kept):
    sources = files(kept)
    path = Path(sources[1].data)
    path.write_text(path.read_text().replace("income", "wealth"))
    with rejects("party 1"):
        run(arguments_of(), sources)
    assert published(kept) == []


@pytest.mark.parametrize("admits_it", [True, False])
def test_a_party_with_another_schema_does_not_begin(kept, admits_it):
    """Its digest differs; or it claims the others' digest, and then not even its own program goes on."""
    sources = files(kept)

    def set_up(party, folder):
        write_source(folder, sources[party])
        if party == 1:
            settings = json.loads((folder / "party.json").read_text())
            settings["arguments"]["mixing"]["parties"][1]["columns"][0]["upper"] = 4
            if admits_it:
                settings["task"] = digest_of(settings["program"], settings["arguments"])
            (folder / "party.json").write_text(json.dumps(settings))

    error, said = (BatchMismatch, "task") if admits_it else (InputError, "party 1: task: ")
    with pytest.raises(error, match=said):
        here(Agreement(WATCHED, 3, arguments_of(), analyst=False), callbacks=Callbacks(set_up=set_up))
    assert published(kept) == []


def test_a_missing_party_is_named(kept):
    sources = files(kept)
    with blames(2, PartyMissing) as failure:
        here(
            Agreement(WATCHED, 3, arguments_of(), analyst=False, connect_deadline=1),
            absent=[2],
            callbacks=Callbacks(set_up=lambda party, folder: write_source(folder, sources[party])),
        )
    assert failure.value.party == 2
    assert published(kept) == []


@pytest.mark.parametrize(
    ("deed", "error", "said"),
    [
        ("open another coin", MalformedFrame, "another coin for key and signs than it committed to"),
        ("show another ciphertext", MalformedFrame, "another ciphertext than it committed to"),
        ("commit to two keys", Equivocation, "party 1 announced different things"),
        ("show two masks", Equivocation, "party 1 announced different things"),
        ("prove nothing", MalformedFrame, "party 1 sent no valid key of the comparison"),
        ("guess", BatchMismatch, "not all parties have the same ids"),
        ("die before it releases", PartyLost, "SIGKILL"),
        ("commit to two releases", Equivocation, "party 1 announced different things"),
        ("hide behind another nonce", MalformedFrame, "another release than it committed to"),
        ("show another release", MalformedFrame, "another release than it committed to"),
        ("show two releases", MalformedFrame, "another release than it committed to"),
        ("send a wrong shape", MalformedFrame, "shape"),
    ],
)
def test_a_party_that_breaks_the_protocol_leaves_no_release(kept, monkeypatch, deed, error, said):
    monkeypatch.setenv("DEED_1", deed)
    with pytest.raises(error, match=said) as failure:
        run(arguments_of(), files(kept))
    if deed != "guess":  # which is no breach that anybody could notice
        assert failure.value.party == 1
    assert published(kept) == []


# Files


def test_labels_are_text_whatever_the_file(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.csv").write_text("id,x\n 7 ,1\n\n08,2\n")
    pq.write_table(pa.table({"id": [7, 8], "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert read_labels(tmp_path / "a.csv", "id") == ["7", "08"]
    assert read_labels(tmp_path / "a.parquet", "id") == ["7", "8"]
    assert column_names(tmp_path / "a.csv") == column_names(tmp_path / "a.parquet") == ("id", "x")
    with pytest.raises(InputError, match="'x' holds double, text or whole numbers expected"):
        read_labels(tmp_path / "a.parquet", "x")
    with rejects("key", given="no column 'name'; there are id, x"):
        read_labels(tmp_path / "a.csv", "name")
    (tmp_path / "a.csv").write_text("id,x\n7,1\n,2\n")
    with pytest.raises(InputError, match="row 2: the label is missing"):
        read_labels(tmp_path / "a.csv", "id")


def test_a_file_cannot_claim_more_than_its_noise_gives(tmp_path):
    task = small_task(seed=None)
    release = MixedRelease(task, np.zeros((ROWS, 5), np.int64), {"method": "rmgm"})
    path = tmp_path / "release"
    for change, error in (({"epsilon": 0.5}, GuaranteeError), ({"rows": ROWS + 1}, InputError), ({"x": 1}, InputError)):
        changed = release.task.to_dict() | change
        release.save(path)
        content = path.read_bytes()
        assert MixedRelease.load(path).sums.shape == (ROWS, 5)
        rewrite(path, changed)
        with pytest.raises(error):
            MixedRelease.load(path)
        path.write_bytes(content[: len(content) // 2])
        with rejects("release"):
            MixedRelease.load(path)


@pytest.mark.parametrize("method", ["\x1b[2Jx\nrelease of 9 reports, signed by all", ["rmgm"], {}, 1, "x" * 10**6])
def test_a_method_of_a_hostile_file_is_printed_as_one_short_line(tmp_path, capsys, method):
    MixedRelease(small_task(seed=None), np.zeros((ROWS, 5), np.int64), {"method": method}).save(tmp_path / "release")
    assert main(["read", str(tmp_path / "release"), "--target", "age"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.strip().isprintable()
    assert len(told) < 300


def rewrite(path, task):
    """Put another task into a file."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        public, sums = json.loads(archive.read("release.json")), archive.read("sums.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("release.json", json.dumps(public | {"task": task}))
        archive.writestr("sums.npy", sums)


# The command


@pytest.fixture
def command_files(tmp_path):
    files(tmp_path)
    for party, names in enumerate(COLUMNS):
        (tmp_path / f"bounds{party}.toml").write_text(SCHEMA.select(names).to_toml())
    return tmp_path


PLAN = ["--epsilon", "1", "--delta", "1e-5"]


def bounds_of(folder):
    return ["--bounds", *(str(folder / f"bounds{party}.toml") for party in range(3))]


def simulate(folder, *more):
    data = [str(folder / f"party{party}.csv") for party in range(3)]
    return main(["mix", "--simulate", *data, "--key", "id", *bounds_of(folder), *PLAN, *map(str, more)])


def test_simulate_and_learn(command_files, capsys):
    out = command_files / "public"
    assert simulate(command_files, "--rows", ROWS, "--out", out, "--simulation-seed", SEED, "--json") == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["columns"] == [name for party in COLUMNS for name in party]
    assert (fields["rows"], fields["provenance"]["parties"]) == (ROWS, ["party0", "party1", "party2"])
    assert fields["privacy"]["simulation"]
    again = command_files / "again"
    assert simulate(command_files, "--rows", ROWS, "--out", again, "--simulation-seed", SEED) == 0
    told = capsys.readouterr()
    assert told.err.startswith(f"dpmpc mix: SIMULATION: --simulation-seed {SEED}: ")
    assert told.out.startswith("SIMULATION: "), "before any result"
    assert again.read_bytes() == out.read_bytes()
    release = MixedRelease.load(out)
    key, seed, _ = secrets_of(
        release.task,
        mixing_parties.PROGRAM,
        public_arguments(release.task, ["party0", "party1", "party2"]),
    )
    assert (release.sums == expected_release(release.task, key, seed)[0].sums).all()
    report = (command_files / "public.html").read_text(encoding="utf-8")
    assert "SIMULATION" in report
    assert "MixedRelease.load(&#39;public&#39;)" in report
    assert "budgets add up" in report
    assert f"replace-one: {release.guarantee.relation}" in report.replace("&#39;", "'")
    assert "Time and bytes" not in report
    assert report.count("<h2") == 5
    capsys.readouterr()
    assert main(["read", str(out), "--target", "income", "--json"]) == 0
    told = capsys.readouterr()
    learned = json.loads(told.out)
    assert "60 people are too few at epsilon = 1" in told.err
    assert learned["second_moments"]["noise"] == pytest.approx(release.task.noise_variance * ROWS / 60)
    assert learned["expected_error"] is None or learned["expected_error"] >= 0.5
    assert main(["read", str(out), "--target", "income"]) == 0
    assert "near 0, chance decides the coefficients" in capsys.readouterr().out
    fitted = RMGM().fit_release(release, "income")
    assert list(learned["coefficients"].values()) == pytest.approx(list(fitted.coef_), rel=1e-12)
    assert main(["read", str(out), "--target", "income", "--method", "dgm"]) == 2
    assert "7 mixed rows given, one row for each subject expected" in capsys.readouterr().err
    assert simulate(command_files, "--out", out) == 2
    assert "exists already" in capsys.readouterr().err


def test_parties_on_machines_of_their_own(command_files, capsys, unused_ports):
    prepared = command_files / "prepared"
    plan = ["--rows", str(ROWS), "--subjects", str(SUBJECTS), *PLAN, *bounds_of(command_files)]
    assert main(["mix", "--prepare", str(prepared), "--addresses", *unused_ports, *plan]) == 0
    assert "60 subjects at any one party" in capsys.readouterr().out
    with parties(command_files, stdout=subprocess.PIPE) as started:
        for process in started:
            output, _ = process.communicate(timeout=150)
            assert process.returncode == 0
            assert b"MixedRelease of 60 subjects by 3 parties" in output
    public = [(command_files / f"public{party}").read_bytes() for party in range(3)]
    assert public[0] == public[1] == public[2]

    with parties(command_files, "again{}") as started:
        assert [process.wait(timeout=150) for process in started] == [0, 0, 0]
    assert (command_files / "again1").read_bytes() == public[0], "the same bytes: no noise was drawn again"

    settings = read_settings(prepared / "party-2")
    simulated = msgspec.json.decode(msgspec.json.encode(settings.arguments))
    simulated["mixing"]["simulation"] = True
    with pytest.raises(SimulationOnly, match="started by hand"):  # without the command too
        random_mixing.prepare(msgspec.structs.replace(settings, arguments=simulated))
    seeded = Launched(str(prepared / "party-2"), simulation={"seed": 7})
    with pytest.raises(SimulationOnly, match="the task does not state that it is a simulation"):
        random_mixing.prepare(msgspec.structs.replace(settings, launched=seeded))
    preparers.prepare(prepared / "party-2", "say that it is supervised", "know the noise")
    assert main(party_command(command_files, 2, out="again")) == 2
    assert "unknown field `supervised`" in capsys.readouterr().err
    assert not (command_files / "again").exists()

    wrong = [*party_command(command_files, 1, out="again"), "--party", "2"]
    assert main(wrong) == 2
    assert "of party 1" in capsys.readouterr().err
    assert not (command_files / "again").exists()


@pytest.mark.parametrize(("change", "said"), [({"--data": "none.csv"}, "none.csv"), ({"--key": "name"}, "key: no col")])
def test_a_file_that_is_no_use_is_refused_before_the_others_are_waited_for(
    command_files, capsys, unused_ports, change, said
):
    plan = ["--rows", str(ROWS), "--subjects", str(SUBJECTS), *PLAN, *bounds_of(command_files)]
    assert main(["mix", "--prepare", str(command_files / "prepared"), "--addresses", *unused_ports, *plan]) == 0
    began = time.monotonic()
    wrong = [word for item in change.items() for word in item]
    assert main([*party_command(command_files, 0), *wrong]) == 2
    assert said in capsys.readouterr().err
    assert time.monotonic() - began < 60  # the others would be waited for ten minutes


def test_a_party_that_is_asked_to_end_leaves_no_process(command_files, unused_ports):
    plan = ["--rows", str(ROWS), "--subjects", str(SUBJECTS), *PLAN, *bounds_of(command_files)]
    assert main(["mix", "--prepare", str(command_files / "prepared"), "--addresses", *unused_ports, *plan]) == 0
    program = "import sys; from dpmpc.app.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *party_command(command_files, 1)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: listens(unused_ports[1]), "the party's listener")
        process.terminate()
        _, told = process.communicate(timeout=150)
    assert process.returncode == 3
    assert "PartyMissing: party 0, party 2 had not come up" in told
    with pytest.raises(ConnectionRefusedError):
        connect(unused_ports[1])


def hostile_and_honest(folder, deed, loot):
    """Run owner 0 as a hostile one, the others as they are; return exit statuses and what the others were told."""
    thief = [sys.executable, "-m", "support.hostile.owners", deed, str(folder / "prepared" / "party-0")]
    thief += ["--data", str(folder / "party0.csv"), "--key", "id", "--loot", str(loot)]
    processes = [subprocess.Popen(thief, cwd=Path(__file__).parents[1])]
    processes += [forks.start(*party_command(folder, party), stderr=subprocess.PIPE) for party in (1, 2)]
    statuses = [process.wait(timeout=110) for process in processes]
    told = []
    for process in processes[1:]:
        told.append(process.stderr.read())
        process.stderr.close()
    return statuses, told


def test_whoever_leaves_with_a_release_gets_the_same_bytes_the_next_time(command_files, unused_ports):
    """Owner 0 takes the others' releases and ends; they run again, it does so again, then it takes part in earnest."""
    plan = ["--rows", str(ROWS), "--subjects", str(SUBJECTS), *PLAN, *bounds_of(command_files)]
    assert main(["mix", "--prepare", str(command_files / "prepared"), "--addresses", *unused_ports, *plan]) == 0
    stolen = []
    for attempt in range(2):
        loot = command_files / f"loot{attempt}.npz"
        statuses, told = hostile_and_honest(command_files, "leave with the releases", loot)
        assert statuses == [9, 3, 3]
        assert all(b"run again in the same folder, which sends the same bytes" in text for text in told)
        assert any(b"PartyLost" in text for text in told)
        with np.load(loot) as file:
            stolen.append([file[name].view(np.int64) for name in file.files])
        assert not (command_files / "public1").exists()
    for before, after in zip(*stolen, strict=True):
        assert (before == after).all()
    for deed in ("fit its release to the loot", "forget its release"):
        statuses, told = hostile_and_honest(command_files, deed, loot)
        assert statuses[1:] == [3, 3]
        assert all(b"party 0 commits to another release than in an earlier run" in text for text in told)
        assert not any((command_files / f"public{party}").exists() for party in range(3))
    started = [forks.start(*party_command(command_files, party)) for party in range(3)]
    assert [process.wait(timeout=110) for process in started] == [0, 0, 0]
    assert (MixedRelease.load(command_files / "public1").sums[:, 2:] == np.hstack(stolen[0])).all()


def connect(address):
    host, port = address.split(":")
    with socket.create_connection((host, int(port))):
        return True


def listens(address):
    try:
        return connect(address)
    except ConnectionRefusedError:
        return False


def test_more_rows_than_a_message_holds_are_refused_at_once(command_files, capsys):
    assert simulate(command_files, "--out", command_files / "public", "--rows", 99999999) == 2
    assert "rows: 99999999 given, at most 16777152 expected" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--names", "a", "b", "c\udcff"], ["--date", "\udcff"]])
def test_bytes_of_a_command_that_are_no_text_are_refused(command_files, capsys, option):
    assert simulate(command_files, "--out", command_files / "public", "--rows", ROWS, *option) == 2
    assert "arguments: " in capsys.readouterr().err
    assert not (command_files / "public").exists()


def test_no_rows_are_not_the_default(command_files, capsys):
    assert simulate(command_files, "--out", command_files / "public", "--rows", 0) == 2
    assert "rows: 0 given" in capsys.readouterr().err


@contextlib.contextmanager
def parties(folder, out="public{}", **options):
    """The processes of all parties; none outlives a test that fails."""
    started = [forks.start(*party_command(folder, party, out=out.format(party)), **options) for party in range(3)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def party_command(folder, party, out=None):
    return [
        *("mix", "--party", str(party), "--data", str(folder / f"party{party}.csv"), "--key", "id"),
        *("--folder", str(folder / "prepared" / f"party-{party}"), "--out", str(folder / (out or f"public{party}"))),
    ]


@pytest.fixture
def unused_ports():
    return [f"{HOST}:{port}" for port in free_ports(3)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--simulate", "a.csv", "b.csv", *PLAN, "--out", "x"], "key: none given, one expected with --simulate"),
        (["--party", "0", "--key", "id", "--data", "a", "--folder", "f", "--out", "x", "--epsilon", "1"], "not use it"),
        (["--prepare", "new", *PLAN, "--subjects", "9", "--addresses", "here", "--bounds", "b"], "HOST:PORT expected"),
        (["--simulate", "a.csv", "b.csv", "--key", "id", *PLAN, "--out", "no/x"], "is not a directory"),
    ],
)
def test_what_a_form_of_the_command_does_not_use_or_lacks(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert main(["mix", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_rows_that_differ_end_the_command_with_status_3(command_files, capsys):
    write_party(command_files, 2, ids=[*IDS[:-3], "stranger-1", "stranger-2", "stranger-3"])
    assert simulate(command_files, "--out", command_files / "public") == 3
    told = capsys.readouterr().err
    assert "BatchMismatch: key: not all parties have the same ids" in told
    assert "person" not in told
    assert "3" not in told.split("BatchMismatch")[1]
    assert not (command_files / "public").exists()
