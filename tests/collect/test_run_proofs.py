"""Proofs in a run without a collection: what lies in the parties' folders, liars, lying servers, and a second run."""

import dataclasses

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch, GuaranteeError, InputError, MalformedFrame, TooFewClients
from dpmpc.base.storage.kept import KEPT_FILE
from dpmpc.collect.opening import proof_checks, run_proofs
from dpmpc.collect.opening.run_proofs import RunReports, check_run, task_of, use_point
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF, wrong_hash
from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import FileShare, open_share
from dpmpc.parties.network.frames import Kind
from dpmpc.parties.networked import ids_file, proved_blocks, share_file, stored_reports
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.protocols import proved_reports
from dpmpc.release.client import Client
from dpmpc.release.planning import design
from support.hostile.servers import meddle
from support.kept_files import forget_folder, kept_on_disk
from support.rejections import rejects
from support.talk import identities, talk

CLIENTS, SERVERS = 70, 3


def task(servers=SERVERS, **choices):
    schema = Schema.unit(["a", "b", "y"])
    fixed = {"servers": servers, "noise_by": "servers", "proved": True, "radius": 1.0, "simulation_seed": 1}
    return design(ReleaseSpec.of(schema, CLIENTS, 1.0, 1e-6, **{**fixed, "sketch": "sum", **choices}))


def rows():
    return np.random.default_rng(3).uniform(-0.6, 0.6, (CLIENTS, 3))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return identities(tmp_path_factory.mktemp("identities"), 5)


def folders_for(keys, root, blocks, plan):
    """Give each server a folder with its key and its share."""
    folders = []
    for number in range(plan.trust.servers):
        folder = root / f"party-{number}"
        folder.mkdir()
        for name in ("party.crt", "party.key"):
            (folder / name).write_bytes((keys[number] / name).read_bytes())
            (folder / name).chmod(0o600)
        folders.append(folder)
    stored_reports(plan, blocks)(folders)
    return folders


def checked(folders, plan, meddlers=None):
    return talk(folders, lambda party: check_run(party, plan), meddlers)


def opened(plan, found):
    """What the shares of all servers add up to, summed over clients."""
    shares = [one.share.rows(0, one.task.clients) for one in found]
    return plan.encoding.ring.lift(plan.scheme.combine(shares)).sum(axis=(0, 1))


def alter(folder, row, word):
    """Change a word of what a server keeps of a report."""
    share = open_share(share_file(folder))
    assert isinstance(share, FileShare)
    kept = share.rows(row, 1).copy()
    kept[0, 0, word] ^= np.uint64(1)
    share[row : row + 1] = kept


@pytest.mark.parametrize("servers", [2, 3, 5])
def test_honest_reports_are_all_accepted(keys, tmp_path, servers):
    plan = task(servers)
    found = checked(folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan), plan)
    assert {one.task.digest for one in found} == {plan.digest}
    assert [one.refused for one in found] == [{}] * servers
    np.testing.assert_array_equal(opened(plan, found), Client(plan.verify()).encode(rows()).sum(axis=0))


def test_liars_are_left_out_by_cause_and_the_others_are_summed(keys, tmp_path):
    plan = task()
    told = proved_reports.liars_among(CLIENTS, 0.3)
    found = checked(folders_for(keys, tmp_path, proved_reports.reports(plan, rows(), told), plan), plan)
    causes = [proved_reports.cause_of(proved_reports.LIES[lie], SERVERS) for lie in told[told >= 0]]
    assert len(causes) == 21
    expected = {cause: causes.count(cause) for cause in (DIFFERENT_LISTS, FALSE_PROOF, wrong_hash(2))}
    for one in found:
        assert one.refused == expected
        assert one.task.clients == CLIENTS - 21
        assert one.task.guarantee.epsilon == plan.epsilon
    np.testing.assert_array_equal(opened(plan, found), Client(plan.verify()).encode(rows()[told < 0]).sum(axis=0))


def test_small_blocks_make_no_difference(keys, tmp_path, monkeypatch):
    monkeypatch.setattr(proof_checks, "WORDS_IN_A_FRAME", 100)
    plan = task()
    told = proved_reports.liars_among(CLIENTS, 0.2)
    found = checked(folders_for(keys, tmp_path, proved_reports.reports(plan, rows(), told), plan), plan)
    np.testing.assert_array_equal(opened(plan, found), Client(plan.verify()).encode(rows()[told < 0]).sum(axis=0))


def test_a_sketch_goes_on_with_as_many_columns_as_reports_are_accepted(keys, tmp_path):
    plan = task(sketch="osnap", rows=8, sparsity=2)
    blocks = list(proved_blocks(plan, rows()))
    folders = folders_for(keys, tmp_path, blocks, plan)
    alter(folders[2], 5, -1)
    found = checked(folders, plan)
    (sketch,) = {one.task.sketch.describe()["columns"] for one in found}
    assert (sketch, found[0].refused) == (CLIENTS - 1, {FALSE_PROOF: 1})
    shares = [one.share.rows(0, CLIENTS - 1) for one in found]
    left = plan.encoding.ring.lift(plan.scheme.combine(shares))[:, 0]
    np.testing.assert_array_equal(left, Client(plan.verify()).encode(np.delete(rows(), 5, axis=0)))


def test_a_server_says_that_its_own_hash_does_not_fit(keys, tmp_path):
    """Two servers whose files were changed are named; a report of which both say so counts for the first."""
    plan = task()
    folders = folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan)
    words = 2 + 4 * SERVERS  # a key or a blind, and the parts, come first
    alter(folders[0], 3, 0)
    alter(folders[2], 3, words)
    alter(folders[2], 9, words)
    found = checked(folders, plan)
    assert [one.refused for one in found] == [{wrong_hash(0): 1, wrong_hash(2): 1}] * SERVERS


@pytest.mark.parametrize("raw", [b"\xff", bytes(100), bytes(8) + b"\x01"])
def test_what_is_no_bit_for_each_report_names_its_server(keys, raw):
    async def program(party):
        own = np.zeros(CLIENTS, np.bool_)
        if party.pid == 2:
            return await proof_checks.announce(party, Kind.MISFITS, raw)
        return await proof_checks.exchange_misfits(party, own)

    for result in talk(keys[:3], program)[:2]:
        assert isinstance(result, MalformedFrame)
        assert "party 2 sent no valid MISFITS frame" in str(result)
        assert result.party == 2


def test_the_proofs_of_a_folder_are_checked_once(keys, tmp_path):
    """A second run would toss a second point; nobody sends anything in it."""
    plan, sent = task(), []
    folders = folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan)
    assert not [one for one in checked(folders, plan) if isinstance(one, Exception)]
    points = set()
    for folder in folders:
        points.add(kept_on_disk(folder)["query point"])
    (point,) = points
    assert len(point) == 32
    forget_folder(folders[2])  # one that was put back does not help

    def watch(runtime):
        meddle(lambda sender, receiver, frame: sent.append(frame.kind) or frame, runtime)

    for result in checked(folders, plan, dict.fromkeys(range(SERVERS), watch)):
        assert isinstance(result, GuaranteeError)
        assert "the proofs of these reports were checked in an earlier run" in str(result)
    assert not {Kind.MISFITS, Kind.SEEDS, Kind.PROOF} & set(sent)


def test_a_run_that_breaks_after_the_mark_is_not_repeated(keys, tmp_path, monkeypatch):
    plan = task()
    folders = folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan)

    def broken(folder, toss):
        use_point(folder, toss)
        raise InputError("disk: full, room expected")

    with monkeypatch.context() as patched:
        patched.setattr(run_proofs, "use_point", broken)
        assert all(isinstance(one, InputError) for one in checked(folders, plan))
    assert all(isinstance(one, GuaranteeError) for one in checked(folders, plan))


def test_liars_alone_leave_too_few_and_all_say_how_many(keys, tmp_path):
    plan = task()
    lies = proved_reports.reports(plan, rows(), np.zeros(CLIENTS, np.intp))
    for result in checked(folders_for(keys, tmp_path, lies, plan), plan):
        assert isinstance(result, TooFewClients)
        assert f"clients: 0 given, at least 1 expected by the sketch; {CLIENTS} refused: {FALSE_PROOF}" in str(result)


def test_a_point_is_never_replaced(tmp_path):
    use_point(tmp_path, bytes(32))
    with rejects("query point", GuaranteeError) as refused:
        use_point(tmp_path, bytes(32))
    assert str(tmp_path) not in str(refused.value)  # it is told to the other servers
    assert (tmp_path / KEPT_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["reports", "ids", "twice", "nothing"])
def test_files_that_are_not_those_of_the_task_are_refused(keys, tmp_path, damage):
    plan = task()
    (folder, *_) = folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan)
    if damage == "reports":
        FileShare.create(share_file(folder), (CLIENTS - 1, 1, 14))
    elif damage == "ids":
        FileShare.create(ids_file(folder), (CLIENTS, 1))
    elif damage == "twice":
        FileShare.create(ids_file(folder), (CLIENTS, 2))
    else:
        ids_file(folder).unlink()
    with pytest.raises(InputError if damage == "nothing" else BatchMismatch, match=r"share|ids"):
        RunReports(folder, plan, 0)


def test_servers_with_different_reports_do_not_go_on(keys, tmp_path):
    plan = task()
    folders = folders_for(keys, tmp_path, proved_blocks(plan, rows()), plan)
    ids = open_share(ids_file(folders[1])).rows(0, CLIENTS)[::-1]
    FileShare.create(ids_file(folders[1]), ids.shape)[:] = np.ascontiguousarray(ids)
    results = checked(folders, plan)
    assert all(isinstance(one, BatchMismatch) for one in results)
    assert "batch: the ids of all reports" in str(results[0])
    assert not (folders[0] / KEPT_FILE).exists()


def test_too_few_accepted_reports_are_refused_with_the_counts():
    plan = task(sketch="osnap", rows=8, sparsity=2)
    assert task_of(plan, CLIENTS, {}) is plan
    left = task_of(plan, 20, {FALSE_PROOF: CLIENTS - 20})
    assert (left.clients, left.sketch.seed) == (20, plan.sketch.seed)
    with rejects("clients", TooFewClients, expected="at least 8"):
        task_of(plan, 7, {FALSE_PROOF: 63})
    with rejects("clients", TooFewClients, expected="at least 1"):
        task_of(task(), 0, {})


def test_as_many_reports_as_the_task_has_clients_are_stored(tmp_path):
    plan = task()
    for folder in range(SERVERS):
        (tmp_path / str(folder)).mkdir()
    folders = [tmp_path / str(folder) for folder in range(SERVERS)]
    (block,) = proved_blocks(plan, rows())
    cut = [
        dataclasses.replace(one, **{n: v[:-1] for n, v in vars(one).items() if n in _OF_ROWS and v is not None})
        for one in block
    ]
    with rejects("blocks", expected="70"):
        stored_reports(plan, [cut])(folders)
    with rejects("rows", given="shape (69, 3)"):
        next(proved_blocks(plan, rows()[:-1]))


_OF_ROWS = {"ids", "parts", "keys", "blinds", "words"}
