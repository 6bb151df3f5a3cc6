"""What a launcher says comes from the launcher: no file, no input and no foreign descriptor stands in for it."""

import os
import re
import socket
import subprocess
import sys

import msgspec
import pytest

from bench.system.ports import free_ports
from dpmpc.base.errors import InputError, SimulationOnly
from dpmpc.parties.network import programs
from dpmpc.parties.network.launched import OPTION, Launched, Launcher, Lifeline
from dpmpc.parties.network.party import require_by_hand
from dpmpc.parties.network.programs import Agreement, Callbacks, here, require_prepared
from dpmpc.parties.network.settings import PartySettings, read_settings, read_source, write_settings
from support.command_inputs import run
from support.hostile.preparers import DEEDS, FIELDS, prepare
from support.rejections import rejects

SUM = "network_programs.sum_shares"
SECONDS = 60
ARGUMENTS = {"mixing": {"simulation": False}, "threads": 1}


@pytest.fixture
def folder(tmp_path):
    """The folder of one of two parties."""
    addresses = [("127.0.0.1", port) for port in free_ports(2)]
    agreement = Agreement("dpmpc.protocols.random_mixing", 2, ARGUMENTS, analyst=False, deadline=1.0)
    programs.prepare(agreement, tmp_path / "plan", addresses)
    return tmp_path / "plan" / "party-1"


def start_by_hand(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "dpmpc.parties.network.party", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )


@pytest.mark.parametrize("deed", FIELDS)
def test_settings_that_say_more_than_an_agreement_are_refused_by_name(folder, deed):
    prepare(folder, deed)
    with pytest.raises(InputError, match=rf"party\.json: .* unknown field `{FIELDS[deed]}`"):
        require_prepared(folder, 1, "dpmpc.protocols.random_mixing")
    done = start_by_hand(folder, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert f"unknown field `{FIELDS[deed]}`" in done.stderr
    assert (folder / "party.json").exists(), "no process removes a folder that it has not made"


@pytest.mark.parametrize("deed", ["know the noise", "weaken the noise"])
def test_seeds_and_simulations_are_refused_in_whatever_was_prepared(folder, deed):
    prepare(folder, deed)
    with pytest.raises(SimulationOnly, match=r"simulation(_seed)?: one given .*party 1"):
        require_prepared(folder, 1, "dpmpc.protocols.random_mixing")
    done = start_by_hand(folder)
    assert done.returncode == 2
    assert "simulation" in done.stderr


@pytest.mark.parametrize(
    ("number", "program"), [(0, "dpmpc.protocols.random_mixing"), (1, "dpmpc.protocols.data_owners")]
)
def test_a_folder_that_was_prepared_for_something_else_is_refused(folder, number, program):
    with rejects("folder"):
        require_prepared(folder, number, program)


def test_arguments_whose_digest_is_not_the_one_that_all_compare_are_refused(folder):
    settings = read_settings(folder)
    settings.require_own_digest()
    with rejects("task", expected="the digest of this party's own arguments"):
        msgspec.structs.replace(settings, arguments={"mixing": {}}).require_own_digest()


def test_where_its_rows_are_is_told_to_a_party_alone():
    found = []
    agreement = Agreement("network_programs.telling", 2, analyst=False)
    sources = [Launched("rows of 0"), Launched("rows of 1")]
    here(
        agreement,
        sources=sources,
        callbacks=Callbacks(collect=lambda party, folder: found.append(read_source(folder, Launched).folder)),
    )
    assert found == ["rows of 0", "rows of 1"]
    with rejects("sources", given="1"):
        here(agreement, sources=sources[:1])


def test_folders_are_prepared_all_or_none(tmp_path):
    """Addresses and certificates for each party; nothing is left where the last step fails."""
    agreement, addresses = Agreement(SUM, 2), [("127.0.0.1", 1)] * 3

    def fail(folders):
        raise InputError("shares: none given")

    with rejects("addresses", given="2"):
        programs.prepare(agreement, tmp_path / "plan", addresses[:2])
    with rejects("certificates", given="1"):
        programs.prepare(agreement, tmp_path / "plan", addresses, certificates=[b""])
    with pytest.raises(InputError, match="shares: none given"):
        programs.prepare(agreement, tmp_path / "plan", addresses, place=fail)
    assert list(tmp_path.iterdir()) == []
    folders = programs.prepare(agreement, tmp_path / "plan", addresses)
    assert [read_settings(folder).party for folder in folders] == [0, 1, 2]
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "plan", *folders)] == [0o700] * 4
    with rejects("out", expected="a directory that does not exist yet"):
        programs.prepare(agreement, tmp_path / "plan", addresses)


def test_a_simulation_is_refused_before_its_program_is_imported(folder):
    """Whether or not the program looks for itself, and also where the command line names it."""
    prepare(folder, "weaken the noise")
    for named in (None, "dpmpc.protocols.random_mixing"):
        with rejects("simulation", SimulationOnly):
            require_by_hand(folder, read_settings(folder), named)


def test_a_seed_is_in_no_file_even_where_a_launcher_reads_it(folder):
    prepare(folder, "know the noise")
    with rejects("arguments.simulation_seed", SimulationOnly):
        read_settings(folder, Launched(str(folder)))
    for name in ("simulation_seed", "simulation_keys"):
        settings = PartySettings(0, 2, [("127.0.0.1", 1)] * 2, SUM, {"model": [{name: [None, 0]}]}, "ab" * 32)
        with rejects(f"arguments.{name}", SimulationOnly):
            write_settings(folder, settings)


def test_a_program_of_the_folder_is_not_run(folder, monkeypatch):
    """Copied to where it is started, the folder is a package; its program would run with the user's rights."""
    home = folder.rename(folder.parent / "party").parent
    prepare(home / "party", "bring a program")
    monkeypatch.chdir(home)
    done = start_by_hand("party")
    assert (done.returncode, "program: party.evil given, one of dpmpc.protocols" in done.stderr) == (2, True)
    require_by_hand(home / "party", read_settings(home / "party"), "party.evil")  # whoever starts it names it
    with rejects("program", expected="another"):
        require_by_hand(home / "party", read_settings(home / "party"), "another")


@pytest.mark.parametrize("deed", ["name rows", "link to a name of rows"])
def test_rows_that_the_folder_names_are_not_read(folder, deed):
    """The preparer may be all other parties, and choose the budget: the rows would leave with hardly any noise."""
    prepare(folder, deed)
    done = start_by_hand(folder, stdin=subprocess.DEVNULL)
    assert (done.returncode, "source.json: given, which names files of this machine" in done.stderr) == (2, True)
    require_by_hand(folder, read_settings(folder), "dpmpc.protocols.random_mixing")  # whoever starts it names it


STANDARD_INPUT = {
    "closed": {"stdin": subprocess.DEVNULL},
    "a pipe that sends lines": {"input": "\n" * 1000},
    "none": {"preexec_fn": lambda: os.close(0)},
}


@pytest.mark.parametrize("given", STANDARD_INPUT)
def test_whatever_its_standard_input_is_a_party_by_hand_removes_nothing(folder, given):
    """As with cron or nohup: the party waits for others in vain, and the user's rows lie beside its settings."""
    settings = read_settings(folder)
    write_settings(folder, msgspec.structs.replace(settings, program=SUM, arguments={}, connect_deadline=0.3))
    (folder / "rows.csv").write_text("a\n1\n")
    done = start_by_hand(folder, SUM, **STANDARD_INPUT[given])
    assert done.returncode == 3
    assert {"rows.csv", "party.json", "party.key", "outcome.json"} <= {path.name for path in folder.iterdir()}


def test_a_launcher_that_is_none_is_refused_and_removes_nothing(folder):
    """A descriptor of somebody else: a file, a pipe, a socket of another process, none at all."""
    facts = msgspec.json.encode(Launched(str(folder)))
    said = len(facts).to_bytes(4, "little") + facts
    reading, writing = os.pipe()
    os.write(writing, said)
    os.close(writing)
    server = socket.create_server(("127.0.0.1", 0))
    caller = socket.create_connection(server.getsockname())
    taken, _ = server.accept()
    caller.sendall(said)
    descriptors = [reading, taken.fileno(), os.open(folder / "party.json", os.O_RDONLY)]
    try:
        for descriptor in [*descriptors, 900]:
            passed = [] if descriptor == 900 else [descriptor]
            done = start_by_hand(OPTION, descriptor, pass_fds=passed)
            assert (done.returncode, f"descriptor {descriptor} given" in done.stderr) == (2, True)
    finally:
        for descriptor in (reading, descriptors[2]):
            os.close(descriptor)
        for end in (server, caller, taken):
            end.close()
    assert (folder / "party.json").exists()


def test_a_connection_that_the_parent_did_not_make_is_refused(folder):
    """It is inherited over two generations: whoever made it lives, and is not the parent of the party."""
    lifeline = Lifeline()
    between = (
        "import subprocess, sys;"
        f"sys.exit(subprocess.call([sys.executable, '-m', 'dpmpc.parties.network.party', {OPTION!r},"
        f" '{lifeline.descriptor}'],"
        f" pass_fds=[{lifeline.descriptor}]))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen(
        [sys.executable, "-c", between], env=environment, pass_fds=[lifeline.descriptor], stderr=subprocess.PIPE
    )
    lifeline.send(Launched(str(folder)))
    _, log = started.communicate(timeout=SECONDS)
    lifeline.close()
    assert started.returncode == 2
    assert re.search(rb"descriptor \d+ given, a connection that the parent of this process has made expected", log)
    assert (folder / "party.json").exists()


@pytest.mark.parametrize("maker", [(0, os.getuid()), (1, os.getuid() + 1)], ids=["no process here", "another user"])
def test_a_maker_from_elsewhere_is_no_launcher(folder, monkeypatch, maker):
    """In a container the parent of what is started from outside is 0, and so is whoever made its sockets."""
    own, other = socket.socketpair()
    monkeypatch.setattr(os, "getppid", lambda: maker[0])
    monkeypatch.setattr("dpmpc.parties.network.launched.maker_of", lambda connection: maker)
    facts = msgspec.json.encode(Launched(str(folder)))
    own.sendall(len(facts).to_bytes(4, "little") + facts)
    with rejects("--launched"):
        Launcher(other.fileno())
    own.close()
    other.close()


@pytest.mark.parametrize("said", [b"", b"\xff\xff\xff\xff", b"\x02\0\0\0{}", b"\x40\0\0\0{"])
def test_facts_that_are_none_are_a_typed_error(said, monkeypatch):
    own, other = socket.socketpair()
    monkeypatch.setattr(os, "getppid", os.getpid)
    own.sendall(said)
    own.close()
    with rejects("--launched", expected="facts of a launcher"):
        Launcher(other.detach())


def test_what_a_launcher_hands_over_reaches_its_parties_and_no_file():
    found = []

    def collect(party, folder):
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})

    outcomes = here(
        Agreement("network_programs.telling", 2, analyst=False),
        simulation={"seed": 987654321},
        callbacks=Callbacks(collect=collect),
    )
    assert [outcome.result for outcome in outcomes] == [{"launched": True, "simulation": {"seed": 987654321}}] * 2
    for files in found:
        assert b"987654321" not in files["party.json"]
        assert not {b"supervised", b"listener"} & set(re.findall(rb"\w+", files["party.json"]))


def test_hostile_preparers_by_hand(folder, capsys):
    done = subprocess.run(
        [sys.executable, "-m", "support.hostile.preparers", "say that it is supervised", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0
    status, _, told = run(capsys, "mix", "--party", "1", "--data", "x", "--key", "id", "--folder", folder, "--out", "o")
    assert (status, "unknown field `supervised`" in told) == (2, True)
    assert set(FIELDS) < set(DEEDS)
