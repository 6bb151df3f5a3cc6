"""Reports of the package with all random bytes that went into them, so that another client can make the same ones."""

import dataclasses
import datetime

import numpy as np

from dpmpc.base.randomness import KEY_BYTES, Stream
from dpmpc.collect.terms.collection_design import CollectionTerms, design_collection
from dpmpc.collect.terms.server_entries import ServerEntry
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.reports import make_reports
from dpmpc.collect.upload.sealing import SECRET_BYTES, report_id
from dpmpc.data import Codebook, Column, Schema
from dpmpc.data.variables import Variable
from dpmpc.linear.contributions.cells import CellCounts
from dpmpc.linear.proving.circuit import FIELD
from dpmpc.privacy.specification import Budget, taken
from dpmpc.release.client import Client
from dpmpc.release.proved_reports import circuit_of, unpacked
from support.release_processes import DAY, HOUR
from support.seal_keys import a_key

BOUNDS = ("lower", "upper")
SERVERS_NOISE = {"noise_by": "servers", "corrupt_clients": None, "copies": "auto"}
PLAIN = SERVERS_NOISE | {"proved": False, "sketch": "sum"}
PROVED = SERVERS_NOISE | {"proved": True, "sketch": "sum"}
ROWS = SERVERS_NOISE | {"proved": False, "sketch": "osnap", "rows": 16, "sparsity": 2}
PROVED_ROWS = ROWS | {"proved": True}

COLUMNS = {
    "two": {"age": (18.0, 80.0), "income": (0.0, 100.0)},
    "ten": {f"x{place}": (-place - 0.25, 3.0 * place + 1) for place in range(10)},
    "categories": {"age": (18.0, 80.0), **{f"region={name}": (0.0, 1.0) for name in "NESW"}},
}
COUNTED = Schema.of_codebook(
    Codebook(
        (
            Variable("age", 18.0, 80.0, step=1.0, if_missing="indicator"),
            Variable("ward", values=("north", "south", "west"), if_missing="indicator"),
            Variable("dose", 1.0, 1000.0, transform="log", edges=(10.0, 100.0)),
            Variable("smokes", yes=("yes",), no=("no",)),
        )
    )
)
CASES = {
    "plain": ("two", PLAIN),
    "plain, a ball": ("two", PLAIN | {"radius": 0.75}),
    "plain, ten columns": ("ten", PLAIN),
    "plain, rows": ("two", ROWS),
    "plain, rows in a ball": ("ten", ROWS | {"radius": 1.1}),
    "proved": ("two", PROVED),
    "proved, categories": ("categories", PROVED),
    "proved, ten columns and f = 11": ("ten", PROVED | {"largest_batch": 2_000_000, "minimum_batch": 2_000_000}),
    "proved, a ball": ("two", PROVED | {"radius": 0.75}),
    "proved, a ball that holds the box": ("two", PROVED | {"radius": 3.0}),
    "proved, rows": ("ten", PROVED_ROWS),
    "proved, rows in a ball": ("two", PROVED_ROWS | {"radius": 1.0}),
    "proved, cells": ("two", PROVED | {"schema": COUNTED, "contribution": CellCounts.of(COUNTED)}),
    "proved, cells by group": ("two", PROVED | {"schema": COUNTED, "contribution": CellCounts.of(COUNTED, "ward")}),
}
"""Columns and options of collections of each kind that clients in C can contribute to."""


@dataclasses.dataclass(frozen=True)
class Remade:
    """One report: its row, secret and id, what was drawn for it, and the payload of each server."""

    row: list[float]
    secret: bytes
    id: bytes
    drawn: bytes
    payloads: list[bytes]


def design(certificates, case, keys=None, **more) -> Collection:
    """Return a collection of this name in `CASES`, which is open, of servers with these certificates and keys."""
    columns, options = CASES[case]
    now = datetime.datetime.now(datetime.UTC)
    fields = {"opens": now - HOUR, "closes": now + HOUR, "expires": now + DAY, "minimum_batch": 200, "name": "a trial"}
    fields |= {"largest_batch": 5000, "servers": entries_of(certificates, keys)} | options | more
    schema = fields.pop("schema", None) or Schema(Column(name, *bounds) for name, bounds in COLUMNS[columns].items())
    return design_collection(taken(CollectionTerms, fields), schema, Budget(1.0, 1e-7), **fields)


def entries_of(certificates, keys=None):
    """Return the servers of a collection, which nobody can reach."""
    return tuple(
        ServerEntry(
            f"https://server-{server}.example",
            f"server-{server}.example:6000",
            f"server-{server}.example:7000",
            certificate.decode(),
            (a_key(),) if keys is None else keys[server],
        )
        for server, certificate in enumerate(certificates)
    )


def remade(collection, count=24) -> list[Remade]:
    """Return reports of the package: of corners, of values outside, and of rows in between."""
    generator = np.random.default_rng(20)
    lower, upper = (np.array([getattr(column, end) for column in collection.plan.schema.columns]) for end in BOUNDS)
    rows = lower + (upper - lower) * generator.uniform(-0.1, 1.1, (count, len(lower)))
    rows[:4] = lower, upper, (lower + upper) / 2, np.where(np.arange(len(lower)) % 2, 1e300, -1e300)
    secrets = [generator.bytes(SECRET_BYTES) for _ in range(count)]
    ids = [report_id(collection.digest, secret) for secret in secrets]
    records = make_reports(Client(collection.plan.verify(), Stream.from_os()), collection, rows, ids)
    payloads = [[record[ID_BYTES:] for record in each] for each in zip(*records, strict=True)]
    return [
        Remade(row.tolist(), secret, named, drawn_for(collection, named, each), each)
        for row, secret, named, each in zip(rows, secrets, ids, payloads, strict=True)
    ]


def drawn_for(collection, named, payloads) -> bytes:
    """Return keys, and where clients prove the blind and those of the wires, of a report's payloads."""
    *keyed, last = payloads
    keys = b"".join(payload[:KEY_BYTES] for payload in keyed)
    if not collection.proved:
        return keys
    plan, servers, ids = collection.plan, len(payloads), np.frombuffer(named, np.uint8).reshape(1, -1)
    circuit, sums = circuit_of(plan), []
    for server, payload in enumerate(payloads):
        words = np.frombuffer(payload, "<u8").astype(np.uint64).reshape(1, -1)
        sums.append(unpacked(servers, server, ids, words).records(circuit))
    record = FIELD.sum_of(sums)
    blinds = record[0, circuit.witness_words : circuit.witness_words + circuit.wires]
    return keys + last[:KEY_BYTES] + blinds.astype("<u8").tobytes()
