"""Clients that misbehave in a collection with proofs, each in its own way.

    python -m support.hostile.provers COLLECTION.json --deed "wrong products" --count 3

uploads to servers on loopback addresses only, and says what the servers answered. A deed is a function of a collection
and a report id that returns one record for each server. `AT_THE_DOOR` names those that a server refuses on arrival; the
others are stored, and refused when proofs are checked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[3]))  # for bench, when this is run by hand from tests/

from bench.system.false_reports import LIES, P
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import make_reports, records_of
from dpmpc.linear.proving import Prover
from dpmpc.linear.proving.circuit import RowCircuit
from dpmpc.release.client import Client
from dpmpc.release.proved_reports import circuit_of, scheme_of
from support.hostile.dealers import MOST_REPORTS, upload

Records = list[bytes]


def honest(collection: Collection, report_id: bytes) -> Records:
    """Make the records of the row in the middle of all bounds."""
    rows = np.array([[(column.lower + column.upper) / 2 for column in collection.plan.schema.columns]])
    return [own[0] for own in make_reports(Client(collection.plan.verify()), collection, rows, [report_id])]


def witness_of(collection: Collection, z: Sequence[int]) -> np.ndarray:
    """The witness (1, words) of a row of integers."""
    circuit = circuit_of(collection.plan)
    assert isinstance(circuit, RowCircuit)
    return circuit.witness(np.array([z], np.int64))


def proved_anyway(
    collection: Collection, report_id: bytes, witness: np.ndarray, digest: bytes | None = None
) -> Records:
    """Share a witness, true or not, with the proof that the honest prover computes of it."""
    plan = collection.plan
    prover = Prover(circuit_of(plan), scheme_of(plan), collection.digest if digest is None else digest)
    ids = np.frombuffer(report_id, np.uint8).reshape(1, -1)
    return [own[0] for own in records_of(prover.reports(witness, ids))]


def _middle(collection: Collection) -> list[int]:
    return [0] * len(collection.plan.schema)


def telling(lie: str) -> Callable[[Collection, bytes], Records]:
    """Return the client that tells a lie of `bench.system.false_reports` about the row in the middle."""

    def deed(collection: Collection, report_id: bytes) -> Records:
        circuit = circuit_of(collection.plan)
        assert isinstance(circuit, RowCircuit)
        middle = np.array([_middle(collection)], np.int64)
        witness = LIES[lie].make(circuit, middle, np.random.default_rng(int.from_bytes(report_id, "little")))
        return proved_anyway(collection, report_id, witness)

    return deed


def mauled_proof(collection: Collection, report_id: bytes) -> Records:
    """A word of the proof is changed, which no hash covers."""
    return _mauled(collection, honest(collection, report_id), -1)


def mauled_share(collection: Collection, report_id: bytes) -> Records:
    """A word of the witness share is changed, which its hash covers."""
    return _mauled(collection, honest(collection, report_id), -circuit_of(collection.plan).words)


def _mauled(collection: Collection, records: Records, word: int) -> Records:
    last = len(records) - 1
    content = np.frombuffer(records[last][ID_BYTES:], "<u8").copy()
    content[word] = (int(content[word]) + 1) % P
    report_id = records[last][:16]
    return [*records[:-1], report_id + content.tobytes()]


def different_lists(collection: Collection, report_id: bytes) -> Records:
    """Server 0 is given another hash of the last server's share than the others, and the one of its own share."""
    records = honest(collection, report_id)
    payload = bytearray(records[0][ID_BYTES:])
    payload[-1] ^= 1  # the last byte of the last part
    return [report_id + bytes(payload), *records[1:]]


def replayed(collection: Collection, report_id: bytes) -> Records:
    """Somebody else's report under an id of one's own."""
    victim = honest(collection, os.urandom(16))
    return [report_id + record[ID_BYTES:] for record in victim]


def of_another_collection(collection: Collection, report_id: bytes) -> Records:
    """A sound report, hashed for another collection."""
    return proved_anyway(collection, report_id, witness_of(collection, _middle(collection)), bytes(32))


DEEDS: dict[str, Callable[[Collection, bytes], Records]] = {
    **{name: telling(name) for name in LIES},
    "mauled proof": mauled_proof,
    "different lists": different_lists,
    "mauled share": mauled_share,
    "replayed": replayed,
    "of another collection": of_another_collection,
}
AT_THE_DOOR = {"mauled share", "replayed", "of another collection"}
OF_LISTS = {"different lists"}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one of the clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--deed", choices=DEEDS, default="wrong products")
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args(argv)
    collection = Collection.load(options.collection)
    for _ in range(min(options.count, MOST_REPORTS)):
        for server, status in upload(collection, DEEDS[options.deed](collection, os.urandom(16))):
            print(f"server {server}: {status}")


if __name__ == "__main__":
    main()
