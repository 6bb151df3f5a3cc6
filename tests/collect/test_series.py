"""Series: epochs of the same people stay within their total budget, whatever is tried against the ledgers."""

import datetime
import json
import math
import shutil

import mpmath
import msgspec
import numpy as np
import pytest

from dpmpc.app.cli.main import main
from dpmpc.base.errors import AlreadyReleased, GuaranteeError, VerificationFailed
from dpmpc.collect.opening.release_protocol import what_came_earlier
from dpmpc.collect.opening.releasing import Standing
from dpmpc.collect.store.ledger import ReleaseLedger, State
from dpmpc.collect.store.server_folder import ServerFolder
from dpmpc.collect.terms.certificate import Certificate, Manifest, save
from dpmpc.collect.terms.series import Epoch, Series
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.terms.verifying import verify
from dpmpc.parties.network.identity import write_identity
from dpmpc.privacy.composition import Cost, composed_epsilon
from support.exact_gaussian import exact_delta
from support.rejections import rejects
from support.release_processes import Trial, run, states

DAY = datetime.timedelta(days=1)
THREE = Series.of("yearly", 3, 1.0, 1e-6)
CENTRAL = {"noise_by": "servers", "copies": "auto"}


def test_all_epochs_together_keep_the_total():
    for epochs in (1, 2, 7, 365):
        series = Series.of("x", epochs, 0.5, 1e-8)
        total = composed_epsilon([series.cost_of(epoch) for epoch in range(1, epochs + 1)], 1e-8)
        assert 0.45 < total <= 0.5
        assert series.epsilon_of_epoch <= 0.5


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"share": (0.2, 0.2, 0.2)}, "series"),
        ({"slack": 0.4}, "series"),
        ({"share": (0.1, 0.1)}, "series"),
        ({"epoch": 4}, "series"),
        ({"epoch": 0}, "series"),
        ({"name": " "}, "series"),
    ],
    ids=str,
)
def test_a_table_that_promises_too_much_is_no_table(change, argument):
    with rejects(argument):
        msgspec.structs.replace(THREE, **change).__post_init__()


def test_no_table_promises_more_than_the_exact_composition_gives():
    """The largest equal shares that are taken, against the curve of the Gaussian in 60 digits: no tolerance."""
    low, high = THREE.share[0], 1.0
    while math.nextafter(low, high) < high:
        middle = (low + high) / 2
        try:
            msgspec.structs.replace(THREE, share=(middle,) * 3, slack=0.0).__post_init__()
        except GuaranteeError:
            high = middle
        else:
            low = middle
    assert exact_delta([low] * 3, 1.0) <= mpmath.mpf(1e-6) < exact_delta([low * (1 + 1e-14)] * 3, 1.0)


def test_shares_are_fixed_at_the_start_and_end_with_the_last_epoch():
    assert THREE.next.next.epoch == 3
    assert {THREE.identity(["a"]), THREE.next.identity(["a"])} == {THREE.identity(["a"])}
    assert THREE.identity(["a"]) != THREE.identity(["b"])
    with rejects("series", GuaranteeError, given="'yearly' has 3 epochs, and this was the last one"):
        _ = THREE.next.next.next
    with rejects("series", GuaranteeError):
        THREE.require_share(Cost(mu=THREE.share[0] * 1.01))
    THREE.require_share(THREE.cost_of(1))
    for more in (Cost(mu=math.nextafter(THREE.share[0], 1)), Cost(mu=0.1, slack=math.nextafter(THREE.slack, 1))):
        with rejects("series", GuaranteeError):
            THREE.require_share(more)
    with rejects("series", GuaranteeError, given="noise of another law than the discrete Gaussian"):
        THREE.require_share(Cost(epsilon=0.01))


# Ledgers, by themselves


def manifest(collection="aa", series=THREE, certificates=("c",), earlier=None, toss="00"):
    epoch = Epoch(series, series.identity(certificates), earlier or {})
    fields = dict.fromkeys(("batch", "task", "time"), "")
    return Manifest(format=1, collection=collection, clients=2, attempt=0, toss=toss, epoch=epoch, **fields)


def ids(start):
    return np.arange(start, start + 32, dtype=np.uint8).reshape(2, 16)


def opened(ledger, one, start):
    ledger.seal(one.digest, one.to_json(), ids(start))
    ledger.begin_opening(one.digest, np.zeros(1, np.uint64))
    return one


@pytest.fixture
def ledger(tmp_path):
    with ReleaseLedger(tmp_path / "ledger") as ledger:
        yield ledger


def test_epochs_follow_one_another_once_each(ledger):
    first = opened(ledger, manifest(), 0)
    known = {"1": first.digest.hex()}
    assert ledger.begun_epochs(THREE.identity(["c"])) == known
    opened(ledger, first, 0)  # a run that is repeated
    second = opened(ledger, manifest("bb", THREE.next, earlier=known), 64)
    known["2"] = second.digest.hex()
    opened(ledger, manifest("cc", THREE.next.next, earlier=known), 128)
    assert sorted(ledger.begun_epochs(THREE.identity(["c"]))) == ["1", "2", "3"]
    assert ledger.begun_epochs("another") == {}


def test_a_second_file_of_one_epoch_is_refused(ledger):
    opened(ledger, manifest(), 0)
    for again in (manifest("bb"), manifest(toss="01")):  # another collection, or another batch of the same one
        with rejects("series", AlreadyReleased):
            ledger.seal(again.digest, again.to_json(), ids(64))


def test_one_more_epoch_or_a_changed_share_is_another_table(ledger):
    first = opened(ledger, manifest(), 0)
    known = {"1": first.digest.hex()}
    longer = msgspec.structs.replace(Series.of("yearly", 4, 1.0, 1e-6), epoch=4)
    changed = msgspec.structs.replace(THREE, epoch=2, share=(0.01, THREE.share[1], THREE.share[2]))
    for other in (
        manifest("bb", longer, earlier=known),
        manifest("bb", changed, earlier=known),
        manifest("bb", THREE.next, ("other certificates",), earlier=known),
    ):
        with rejects("series", GuaranteeError):
            ledger.seal(other.digest, other.to_json(), ids(64))
    apart = manifest("bb", Series.of("another study", 4, 1.0, 1e-6))
    opened(ledger, apart, 64)  # of which no ledger knows whom it asks


def test_earlier_epochs_are_those_of_this_ledger(ledger):
    first = opened(ledger, manifest(), 0)
    for earlier in ({}, {"1": "00" * 32}, {"1": first.digest.hex(), "3": "11" * 32}):
        one = manifest("bb", THREE.next, earlier=earlier)
        with rejects("series", GuaranteeError, expected="those of this ledger"):
            ledger.seal(one.digest, one.to_json(), ids(64))


def test_of_two_collections_that_sealed_one_epoch_the_first_to_begin_has_it(ledger):
    """The second one is refused in the transaction that would bind its reports, though it was sealed."""
    first, second = manifest("aa"), manifest("bb", THREE.next)
    ledger.seal(first.digest, first.to_json(), ids(0))
    ledger.seal(second.digest, second.to_json(), ids(64))  # no epoch was begun, as it says
    ledger.begin_opening(first.digest, np.zeros(1, np.uint64))
    with rejects("series", GuaranteeError, expected="those of this ledger"):
        ledger.begin_opening(second.digest, np.zeros(1, np.uint64))
    assert ledger.find(second.digest).state is State.SEALED
    rival = manifest("cc", THREE.next, earlier={"1": first.digest.hex()})
    ledger.seal(rival.digest, rival.to_json(), ids(128))
    assert ledger.find(second.digest) is None  # forgotten: it was only sealed


def test_servers_whose_ledgers_know_other_epochs_refuse():
    def told(*earlier):
        return {server: Standing([], [], 0.0, 0.0, one) for server, one in enumerate(earlier)}

    known = {"1": "aa" * 32}
    assert what_came_earlier(told(known, known)) == known
    for other in ({}, {"1": "bb" * 32}, {**known, "2": "cc" * 32}):
        with rejects("series", GuaranteeError):
            what_came_earlier(told(known, other, known))


# Whole releases, among processes


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    trial = Trial.make(tmp_path_factory.mktemp("series") / "first", series=THREE, **CENTRAL)
    for server in range(3):
        trial.fill(server)
        shutil.copytree(ServerFolder(trial.folder(server)).path, trial.root / f"before-{server}")
    ended = run(trial)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    return trial


def epoch_after(first, root, series, **options):
    """A trial of the same servers, with their ledgers."""
    made = Trial.make(root, identities=first, series=series, **CENTRAL, **options)
    for server in range(3):
        made.fill(server)
        own = ServerFolder(made.folder(server)).ledger
        shutil.copytree(ServerFolder(first.folder(server)).ledger, own, dirs_exist_ok=True)
    return made


def refused(trial, kind, words):
    """Every server refuses a run, and has begun nothing but what it had begun before."""
    before = [states(trial, server) for server in range(3)]
    for server, one in run(trial).items():
        assert one.status == 2, one.told
        assert kind in one.told
        assert words in one.told
        assert not trial.out(server).exists()
        assert states(trial, server) == before[server]


def test_the_next_epoch_is_released_and_names_the_first(first, tmp_path):
    second = epoch_after(first, tmp_path / "second", THREE.next)
    ended = run(second)
    assert {one.status for one in ended.values()} == {0}, ended[0].told
    checked = [verify(one.out(0), one.collection) for one in (first, second)]
    digests = [one.certificate.statement.manifest.digest.hex() for one in checked]
    assert [one.certificate.statement.manifest.epoch.earlier for one in checked] == [{}, {"1": digests[0]}]
    assert any("epoch 2 of 3 of 'yearly', after 1 others" in line for line in checked[1].checks)
    costs = [Cost.of(one.release.guarantee) for one in checked]
    assert composed_epsilon([*costs, costs[0]], 1e-6) <= 1.0


def test_a_restored_ledger_is_noticed_by_the_others(first, tmp_path):
    second = epoch_after(first, tmp_path / "second", THREE.next)
    shutil.rmtree(ServerFolder(second.folder(1)).ledger)  # as it was before the first epoch
    refused(second, "GuaranteeError", "put back")
    assert states(second, 1) == []


def test_another_collection_of_an_epoch_that_was_opened_is_refused(first, tmp_path):
    again = epoch_after(first, tmp_path / "again", THREE, name="again")
    refused(again, "AlreadyReleased", "each epoch is opened once")


def test_reports_of_one_epoch_are_of_no_other(first, tmp_path):
    """Their ids are known to the ledger, and what is opened of them is never opened again."""
    second = epoch_after(first, tmp_path / "second", THREE.next, ids=first.ids)
    refused(second, "AlreadyReleased", "earlier release")


def test_a_false_place_in_the_series_is_no_certificate(first, tmp_path):
    """Each claim is signed by all servers, and refused by whoever verifies."""
    certificate = verify(first.out(0)).certificate
    statement, release = certificate.statement, verify(first.out(0)).release
    sound = statement.manifest.epoch
    for epoch in (
        None,
        msgspec.structs.replace(sound, series="00" * 32),
        msgspec.structs.replace(sound, table=THREE.next),
        msgspec.structs.replace(sound, earlier={"1": "00" * 32}),
        msgspec.structs.replace(sound, earlier={"2": "no digest"}),
    ):
        false = msgspec.structs.replace(statement, manifest=msgspec.structs.replace(statement.manifest, epoch=epoch))
        signed = {str(server): false.sign(ServerFolder(first.folder(server)).identity).hex() for server in range(3)}
        save(release, Certificate(1, false, signed), tmp_path / "false.dpmpc")
        with rejects("epoch", VerificationFailed):
            verify(tmp_path / "false.dpmpc")


# The command


def test_the_command_makes_the_epochs_of_a_series(tmp_path, capsys):
    servers = []
    for number in range(3):
        folder = tmp_path / f"{number}"
        write_identity(folder, number, 30 * DAY)
        place = f"{'abc'[number]}.example"
        assert main(["identity", str(tmp_path / f"seals-{number}"), "--seal", "trial"]) == 0
        servers += ["--server", f"https://{place}", f"{place}:7443", f"{place}:7444", str(folder / "party.crt")]
        servers += ["--seal", str(tmp_path / f"seals-{number}" / "trial.pub")]
    (tmp_path / "bounds.toml").write_text("[columns]\na = {lower = 0, upper = 10}\ny = {lower = 0, upper = 10}\n")
    now = datetime.datetime.now(datetime.UTC)
    times = [f"--opens={now:%Y-%m-%dT%H:%MZ}", f"--closes={now + DAY:%Y-%m-%dT%H:%MZ}"]
    common = ["--name", "yearly", "--bounds", str(tmp_path / "bounds.toml"), *servers, *times]
    common += [f"--expires={now + 2 * DAY:%Y-%m-%dT%H:%MZ}", "--epsilon=3", "--delta=1e-7"]
    common += ["--minimum-batch=20000", "--largest-batch=100000", "--even-if-hopeless"]

    def make(name, *options, given=common):
        return main(["collection", str(tmp_path / name), *given, *options])

    assert make("first.json", "--epochs", "2") == 0, capsys.readouterr().err
    assert make("second.json", "--series", str(tmp_path / "first.json")) == 0
    files = [Collection.load(tmp_path / f"{name}.json") for name in ("first", "second")]
    assert [one.series.epoch for one in files] == [1, 2]
    assert files[0].series_identity == files[1].series_identity
    assert files[0].plan.guarantee.achieved_epsilon < 3
    assert make("third.json", "--series", str(tmp_path / "second.json")) == 2
    assert "this was the last one" in capsys.readouterr().err
    assert make("x.json", "--series", str(tmp_path / "first.json"), "--epochs", "2") == 2
    other = [*common[:4], *servers[7:], *servers[:7], *common[25:]]
    assert make("x.json", "--series", str(tmp_path / "first.json"), given=other) == 2
    assert make("x.json", "--series", str(tmp_path / "first.json"), "--epsilon=4") == 2
    assert "the total of the series expected" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
    plain = json.loads(files[0].content)
    plain["series"]["share"] = [1.0, 1.0]
    with rejects("series", GuaranteeError, expected="at most 3"):
        Collection.from_dict(plain | {name: getattr(files[0], name) for name in ("opens", "closes", "expires")})


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "yearly ", " yearly", "year  ly", "yearly.", "year--ly", "a\nb", "yearly\n", "x" * 101),
        *(
            "yearly\u200b",
            "year\u00adly",
            "year\u00a0ly",
            "y\u0435arly",
            "\uff59early",
            "\U0001d432early",
            "yea\u0433ly",
        ),
        *("e\u0301tude", "\u00e9tude", "\ufb01rst", "yearly\u202e", "year\u2010ly", "yearly\ufe0f"),
    ],
    ids=ascii,
)
def test_names_of_signs_that_look_like_others_are_refused(name):
    with rejects("series"):
        Series.of(name, 2, 1.0, 1e-6)


@pytest.mark.parametrize(
    "name", ["Yearly", "YEARLY", "year ly", "year-ly", "year.ly", "year1y", "yearIy", "yeariy", "Y.e.a.r.l.y"]
)
def test_a_name_that_looks_like_one_of_the_ledger_begins_no_other_series(ledger, name):
    """A second total for the same people, under a name that nobody tells from the first."""
    opened(ledger, manifest(), 0)
    other = manifest("bb", Series.of(name, 3, 1.0, 1e-6))
    with rejects("series", GuaranteeError):
        ledger.seal(other.digest, other.to_json(), ids(64))


def test_the_skeleton_of_a_name_keeps_what_tells_names_apart():
    def skeleton(name):
        return Series.of(name, 2, 1.0, 1e-6).skeleton

    assert skeleton("Modern clinic 10") == skeleton("modem-dinic lO")
    assert len({skeleton(name) for name in ("Survey 2027", "Survey 2028", "Survey", "Surveys north", "Cohort 3")}) == 5
