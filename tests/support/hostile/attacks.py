"""Attacks on a collection whose clients prove what they share: one registry, for tests and `python -m bench attacks`.

Promised: what an attack says of itself (`outcome`, `cause`) is what `tests/collect/test_attacks.py` sees when it is
played against the servers' own door, verification and opening. An attack that is not `prevented` is one that works: the
pages say so, and this shows it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.system.changed_reports import Reports
from bench.system.false_reports import LIES, invisible_products
from dpmpc.base.errors import BatchMismatch, Equivocation, GuaranteeError, InconsistentShares, MalformedFrame, PartyLost
from dpmpc.collect.terms.certificate import DIFFERENT_LISTS, FALSE_PROOF
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.parties.network.frames import Kind
from support.hostile.provers import DEEDS, honest
from support.hostile.servers import tell_other_words
from support.hostile.stage import (
    AT_THE_DOOR,
    BOTH,
    CLIENT,
    CLIENTS,
    ENDS,
    LEFT_OUT,
    LIAR,
    LOSES,
    ONCE,
    SERVER,
    SPOILS,
    Attack,
    Stage,
)
from support.hostile.verifiers import (
    ClaimsAPoint,
    NeverGotIt,
    another_digest,
    back,
    during,
    fall_silent,
    no_element,
    off_by_one,
    other_seeds,
    other_words,
    races_the_victim,
    rushing,
    send_others,
    with_liar,
)

FIELD, P = Mersenne61(), Mersenne61.modulus


def uploading(deed: str, count: int = 1) -> Callable[[Stage], list[Any]]:
    """Upload what a client of `support.hostile.provers` makes."""

    def play(stage: Stage) -> list[Any]:
        for _ in range(count):
            stage.upload(DEEDS[deed](stage.collection, os.urandom(16)))
        return stage.release()

    return play


def same_report_twice(stage: Stage) -> list[Any]:
    """Send the victim's own records once more."""
    stage.upload([own[stage.victim] for own in stage.trial.records])
    return stage.release()


def another_under_the_id(stage: Stage) -> list[Any]:
    """Send another sound report under the victim's id."""
    stage.upload(honest(stage.collection, stage.trial.ids[stage.victim]))
    return stage.release()


def share_of_another_server(stage: Stage) -> list[Any]:
    """Give server 1 the key that server 0 has."""
    report = os.urandom(16)
    records = honest(stage.collection, report)
    records[1] = records[0]
    stage.upload(records)
    return stage.release()


def word_of_p(stage: Stage) -> list[Any]:
    """Write p in place of 0, which shares the same."""
    report = os.urandom(16)
    records = honest(stage.collection, report)
    content = np.frombuffer(records[2][ID_BYTES:], "<u8").copy()
    content[-1] = P
    records[2] = report + content.tobytes()
    stage.upload(records)
    return stage.release()


def too_late(stage: Stage) -> list[Any]:
    """Upload after the servers have closed, when the point is known."""
    results = stage.release()
    stage.upload(honest(stage.collection, os.urandom(16)))
    return results


def altered_once_v_is_known(hashes_fit: bool) -> Callable[[Stage], list[Any]]:
    """Add to W what both random combinations and the trace miss, after sigma and v have come from the hashes."""

    def play(stage: Stage) -> list[Any]:
        circuit = stage.circuit
        shares = stage.shares(circuit.witness(np.zeros((1, circuit.columns), np.int64)))
        servers = [ReportFormat(stage.collection, server).proofs for server in range(len(shares))]
        reports = Reports.at(servers, shares)
        words = shares[-1].words.copy()
        products = np.s_[:, circuit.digits : circuit.witness_words]
        words[products] = FIELD.add(np.ascontiguousarray(words[products]), invisible_products(circuit, reports.joint))
        last = dataclasses.replace(shares[-1], words=words)
        stage.upload_shares(reports.with_hashes_that_fit(words).shares if hashes_fit else [*shares[:-1], last])
        return stage.release()

    return play


def lies_that_cancel(stage: Stage) -> list[Any]:
    """Two reports whose products are wrong by a million more, and a million less."""
    witnesses = np.repeat(stage.circuit.witness(np.zeros((1, stage.circuit.columns), np.int64)), 2, axis=0)
    witnesses[:, stage.circuit.digits + 1] = FIELD.embed(np.array([10**6, -(10**6)]))
    stage.upload_shares(stage.shares(witnesses))
    return stage.release()


def shares_exchanged(hashes_fit: bool) -> Callable[[Stage], list[Any]]:
    """Two reports whose words at the last server have changed places."""

    def play(stage: Stage) -> list[Any]:
        circuit = stage.circuit
        shares = stage.shares(circuit.witness(np.array([[1] * circuit.columns, [-1] * circuit.columns])))
        words = np.ascontiguousarray(shares[-1].words[::-1])
        if hashes_fit:
            servers = [ReportFormat(stage.collection, server).proofs for server in range(len(shares))]
            stage.upload_shares(Reports.at(servers, shares).with_hashes_that_fit(words).shares)
        else:
            stage.upload_shares([*shares[:-1], dataclasses.replace(shares[-1], words=words)])
        return stage.release()

    return play


def one_lie_many_ids(stage: Stage) -> list[Any]:
    """Twenty clients share one false witness, each in the hope of a seed that misses it."""
    circuit, draw = stage.circuit, np.random.default_rng(1)
    witness = LIES["wrong products"].make(circuit, np.zeros((1, circuit.columns), np.int64), draw)
    stage.upload_shares(stage.shares(np.repeat(witness, 20, axis=0)))
    return stage.release()


def in_cells(*digits: int) -> Callable[[Stage], list[Any]]:
    """Send these digits of the first grid, and none of the second: all digits add up to 2, as they would."""

    def play(stage: Stage) -> list[Any]:
        witness = np.zeros((1, stage.circuit.digits), np.int64)
        witness[0, : len(digits)] = digits
        stage.upload_shares(stage.shares(FIELD.embed(witness)))
        return stage.release()

    return play


HASH = "lists another hash of the share"

ATTACKS: dict[str, Attack] = {
    **{name: Attack(CLIENT, lie.does, LEFT_OUT, f"1 {FALSE_PROOF}", uploading(name)) for name, lie in LIES.items()},
    "two people in one grid": Attack(
        CLIENT,
        "is two people in one grid of cells, and nobody in another",
        LEFT_OUT,
        f"1 {FALSE_PROOF}",
        in_cells(2),
        about="cells",
    ),
    "two cells of one grid": Attack(
        CLIENT,
        "is in two cells of one grid, and in none of another",
        LEFT_OUT,
        f"1 {FALSE_PROOF}",
        in_cells(0, 1, 0, 1),
        about="cells",
    ),
    "less than nobody": Attack(
        CLIENT,
        "is -1 people in one cell, and 3 in the next",
        LEFT_OUT,
        f"1 {FALSE_PROOF}",
        in_cells(-1, 3),
        about="cells",
    ),
    "mauled proof": Attack(
        CLIENT,
        "changes a word of its proof, which no hash covers",
        LEFT_OUT,
        f"1 {FALSE_PROOF}",
        uploading("mauled proof"),
    ),
    "mauled share": Attack(
        CLIENT, "changes a word of its row's share, which its hash covers", AT_THE_DOOR, HASH, uploading("mauled share")
    ),
    "word of p": Attack(CLIENT, "writes p in place of 0", AT_THE_DOOR, "words: element", word_of_p),
    "products altered late": Attack(
        CLIENT,
        "adds to W what v, v' and the trace miss, once its hashes have given v",
        AT_THE_DOOR,
        HASH,
        altered_once_v_is_known(hashes_fit=False),
    ),
    "products altered late, hashes that fit": Attack(
        CLIENT,
        "the same, with hashes of the altered share, which give another v",
        LEFT_OUT,
        f"1 {FALSE_PROOF}",
        altered_once_v_is_known(hashes_fit=True),
    ),
    "different lists": Attack(
        CLIENT,
        "tells one server another hash of the last server's share",
        LEFT_OUT,
        f"1 {DIFFERENT_LISTS}",
        uploading("different lists"),
    ),
    "replayed": Attack(
        CLIENT, "sends another client's report under an id of its own", AT_THE_DOOR, HASH, uploading("replayed")
    ),
    "of another collection": Attack(
        CLIENT,
        "sends a sound report that was hashed for another collection",
        AT_THE_DOOR,
        HASH,
        uploading("of another collection"),
    ),
    "another server's share": Attack(
        CLIENT, "sends server 1 the key of server 0", AT_THE_DOOR, HASH, share_of_another_server
    ),
    "sent twice": Attack(CLIENT, "sends another's upload once more, byte for byte", ONCE, "", same_report_twice),
    "another report under an id": Attack(
        CLIENT, "sends a sound report under another client's id", AT_THE_DOOR, "ReportConflict", another_under_the_id
    ),
    "late": Attack(CLIENT, "uploads when the servers have closed", AT_THE_DOOR, "CollectionClosed", too_late),
    "lies that cancel": Attack(
        CLIENTS,
        "two of them have products that are wrong by 10^6 and by -10^6",
        LEFT_OUT,
        f"2 {FALSE_PROOF}",
        lies_that_cancel,
    ),
    "shares exchanged": Attack(
        CLIENTS, "two of them exchange their shares at one server", AT_THE_DOOR, HASH, shares_exchanged(False)
    ),
    "shares exchanged, hashes that fit": Attack(
        CLIENTS,
        "the same, with hashes of what each server gets",
        LEFT_OUT,
        f"2 {FALSE_PROOF}",
        shares_exchanged(True),
    ),
    "one lie, many ids": Attack(
        CLIENTS,
        "twenty of them share one false witness, for twenty seeds",
        LEFT_OUT,
        f"20 {FALSE_PROOF}",
        one_lie_many_ids,
    ),
    "never got it": Attack(SERVER, "says that it lacks a report", LOSES, "server 2: 1", with_liar(kinds=NeverGotIt)),
    "races a client": Attack(
        SERVER, "stores a report of its own under a client's id", LOSES, f"1 {DIFFERENT_LISTS}", races_the_victim
    ),
    "other lists": Attack(
        SERVER, "says that it holds other hashes of a report", LOSES, f"1 {DIFFERENT_LISTS}", during(other_seeds)
    ),
    "other lists for one server": Attack(
        SERVER,
        "says so to one server and not to the other",
        ENDS,
        f"{InconsistentShares.__name__}: lists",
        during(other_seeds, meddlers=send_others(Kind.SEEDS, back, victims=(0,))),
    ),
    "claims a point": Attack(
        SERVER,
        "says that it has used a query point that nobody tossed",
        ENDS,
        f"{GuaranteeError.__name__}: query point: server {LIAR}",
        with_liar(kinds=ClaimsAPoint),
    ),
    "opens another coin": Attack(
        SERVER,
        "opens to one server another coin for the query point",
        ENDS,
        Equivocation.__name__,
        with_liar(meddlers=lambda runtime: tell_other_words("OPENING", [1], "", 0, runtime)),
    ),
    "seals another point": Attack(
        SERVER,
        "confirms another query point than was tossed",
        ENDS,
        f"{BatchMismatch.__name__}: query point that is sealed: party {LIAR}",
        during(lambda: another_digest("query point that is sealed")),
    ),
    "uses another point": Attack(
        SERVER,
        "confirms another query point before messages are sent",
        ENDS,
        f"{BatchMismatch.__name__}: query point that is used: party {LIAR}",
        during(lambda: another_digest("query point that is used")),
    ),
    "wrong message": Attack(
        SERVER,
        "sends all servers a wrong message about a report",
        LOSES,
        f"1 {FALSE_PROOF}",
        during(lambda: other_words(Kind.PROOF)),
    ),
    "two messages": Attack(
        SERVER,
        "sends different servers different messages about a report",
        ENDS,
        f"{InconsistentShares.__name__}: messages about proofs",
        with_liar(meddlers=send_others(Kind.PROOF, off_by_one, victims=(0,))),
    ),
    "no element": Attack(
        SERVER,
        "sends a message with a word of p",
        ENDS,
        f"{MalformedFrame.__name__}: party {LIAR}",
        with_liar(meddlers=send_others(Kind.PROOF, no_element)),
    ),
    "keeps its message": Attack(
        SERVER,
        "falls silent when it has been told all messages but its own",
        ENDS,
        PartyLost.__name__,
        with_liar(meddlers=fall_silent(Kind.PROOF)),
    ),
    "other verdicts": Attack(
        SERVER,
        "says that it has accepted other reports",
        ENDS,
        f"{BatchMismatch.__name__}: batch: the reports whose proofs hold: party {LIAR}",
        during(lambda: another_digest("batch: the reports whose proofs hold")),
    ),
    "speaks last for a client": Attack(
        BOTH,
        "waits for all messages, and sends the one with which a false report passes",
        SPOILS,
        "",
        rushing,
        prevented=False,
    ),
}
