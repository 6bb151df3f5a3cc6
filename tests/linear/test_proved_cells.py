"""Cells of several grids, proved: one sum for each grid, codes of summed digits, noise for codes alone, and sizes."""

import numpy as np
import pytest

from dpmpc.base.errors import BatchMismatch
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.collect.opening.pieces import ProvedOutputs
from dpmpc.collect.terms.sealing_suites import SUITES
from dpmpc.collect.upload.report_ids import ID_BYTES
from dpmpc.collect.upload.sealing import FORMAT
from dpmpc.data import Schema
from dpmpc.linear.contributions.cells import CellCounts, CellGrid, multiplied, strategy_matrix
from dpmpc.linear.contributions.powers_and_items import ItemSketch
from dpmpc.linear.proving import Prover
from dpmpc.linear.proving.circuit import BASE, CellsCircuit
from dpmpc.linear.proving.joint import PART_BYTES
from dpmpc.linear.proving.query import weighted
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import server
from dpmpc.release.planning import design
from dpmpc.release.proved_reports import rows_of
from support.proof_inputs import FIELD, SCHEMES, P, new_ids, verdicts
from support.rejections import rejects

GRIDS = (
    CellGrid("path", column=0, edges=tuple(np.linspace(-0.9, 0.9, 12)), missing=2, groups=((3, 1),)),
    CellGrid("root", column=1, edges=tuple(np.linspace(-0.9, 0.9, 9))),
    CellGrid("identity", groups=((3, 1),)),
)
CLIENTS = 40


def task_of(contribution, columns, clients=CLIENTS, **choices):
    fixed = {"noise_by": "servers", "proved": True, "simulation_seed": 1, "sketch": "sum", "contribution": contribution}
    return design(ReleaseSpec.of(Schema.unit(columns), clients, 1.0, 1e-6, **{**fixed, **choices}))


def rows_for(columns):
    rows = np.random.default_rng(5).uniform(-1, 1, (CLIENTS, columns))
    rows[:, 2:] = np.sign(rows[:, 2:])
    return rows


TASKS = {
    "cells": lambda **choices: task_of(CellCounts(GRIDS), list("abcd"), **choices),
    "items": lambda **choices: task_of(ItemSketch(30, 7, 3), ["a"], **choices),
}


def outputs_of(task, rows):
    """What each server has of proved reports of these rows."""
    witnesses, ids = task.proofs.witness(task.proofs.encode(rows)), new_ids(len(rows))
    shares = Prover(task.proofs.circuit, task.scheme, task.digest).reports(witnesses, ids)
    return [ProvedOutputs(ArrayShare(rows_of(share)), ids, task, number) for number, share in enumerate(shares)]


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("chunk", [1 << 22, 5000])
def test_servers_open_the_same_of_proved_digits_as_of_plain_contributions(name, chunk, monkeypatch):
    """With the same noise, to the last integer: codes of sums are sums of codes, and noise is not coded."""
    monkeypatch.setattr(server, "CHUNK_BYTES", chunk)
    task = TASKS[name]()
    rows = rows_for(len(task.schema))
    keys = [bytes([number]) * 16 for number in range(3)]
    plain = task.scheme.split(task.encoding.ring.embed(task.statistic.encode(rows, task.encoding)[:, None, :]))

    def opened_of(shares):
        pairs = zip(shares, keys, strict=True)
        return task.scheme.combine([server.transform(task, share, simulation_key=key) for share, key in pairs])

    opened = [opened_of([ArrayShare(share, FIELD) for share in plain]), opened_of(outputs_of(task, rows))]
    assert np.array_equal(*opened)
    assert opened[0].shape == (1, task.width)


def test_the_strategy_is_applied_once_however_many_chunks_are_read(monkeypatch):
    monkeypatch.setattr(server, "CHUNK_BYTES", 5000)
    task, coded = TASKS["cells"](), []
    own = CellCounts.coded
    monkeypatch.setattr(CellCounts, "coded", lambda *given: (coded.append(given[1].shape), own(*given))[1])
    server.transform(task, outputs_of(task, rows_for(4))[0])
    assert coded == [(1, task.width)]


def test_outputs_of_another_size_are_refused():
    task = TASKS["items"]()
    (share, *_) = outputs_of(task, rows_for(1))
    share.shape = (*share.shape[:-2], 2, share.shape[-1])
    with pytest.raises(BatchMismatch, match="share: shape"):
        server.transform(task, share)
    with pytest.raises(BatchMismatch, match=r"share: shape \(40, 1, 14\) given, \(40, 1, 7\) expected"):
        server.transform(task, ArrayShare(np.zeros((CLIENTS, 1, 14), np.uint64), FIELD))


@pytest.mark.parametrize("strategy", ["root", "path"])
def test_products_with_strategies_are_exact_at_the_ends_of_the_field(strategy):
    matrix = strategy_matrix(strategy, 512)
    vectors = np.array([[0] * 512, [P - 1] * 512, [1 << 60] * 512, np.arange(512)], np.uint64)
    vectors = np.concatenate([vectors, np.random.default_rng(1).integers(0, P, (3, 512), np.uint64)])
    expected = [[sum(map(int.__mul__, map(int, row), map(int, own))) % P for row in matrix] for own in vectors]
    assert multiplied(vectors, matrix, FIELD).tolist() == expected


def packed_is_zero(sizes, digits):
    """The oracle: with B = 3 max + 1 and B^Q < p, sum_q B^q (s_q - 1) is 0 modulo p just where all s_q are 1."""
    radix = (BASE - 1) * max(sizes) + 1
    assert radix ** len(sizes) < P
    starts = np.cumsum([0, *sizes])
    sums = [int(digits[start : start + size].sum()) for start, size in zip(starts, sizes, strict=False)]
    return sum(radix**grid * (own - 1) for grid, own in enumerate(sums)) % P == 0


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (4, 3, 5), (2, 1, 3, 2)], ids=str)
def test_one_sum_for_each_grid_says_the_same_as_all_sums_packed_into_one(sizes):
    """On digits drawn so that right, nearly right and other sums are all common; false alarms: 1/p a draw."""
    draw = np.random.default_rng(sum(sizes))
    circuit = CellsCircuit(sizes)
    digits = draw.choice(BASE, (3000, circuit.digits), p=[0.68, 0.24, 0.05, 0.03]).astype(np.uint64)
    honest = circuit.witness(draw.integers(0, sizes, (500, len(sizes))))
    swapped = honest.copy()  # one digit elsewhere: all add up to as much as before
    swapped[np.arange(500), honest.argmax(axis=1)] -= np.uint64(1)
    swapped[np.arange(500), draw.integers(0, circuit.digits, 500)] += np.uint64(1)
    every = np.concatenate([digits, honest, swapped])
    form = weighted(circuit.forms, draw.integers(1, P, len(sizes)).tolist())
    places, factors = zip(*form.terms, strict=True)
    tossed = [(sum(int(own[p]) * f for p, f in zip(places, factors, strict=True)) + form.constant) % P for own in every]
    expected = np.array([packed_is_zero(sizes, own) for own in every])
    assert np.array_equal(np.array(tossed) == 0, expected)
    assert expected.sum() >= 500
    assert np.array_equal(verdicts(circuit, SCHEMES["additive 3"], every).accepted, expected)


def lies(circuit, count, draw):
    """False witnesses, all of whose digits add up to the number of grids."""
    rows, (first, second, *_) = np.arange(count), circuit.starts
    good = circuit.witness(draw.integers(0, circuit.sizes, (count, len(circuit.sizes))))
    cells = draw.integers(0, circuit.sizes[0], count)
    emptied = good.copy()
    emptied[:, second : second + circuit.sizes[1]] = 0
    twice = emptied.copy()
    twice[:, first : first + circuit.sizes[0]] = 0
    twice[rows, first + cells] = 2
    two = emptied.copy()
    two[rows, first + (good[:, : circuit.sizes[0]].argmax(axis=1) + 1) % circuit.sizes[0]] = 1
    negative = good.copy()
    own = good[:, : circuit.sizes[0]].argmax(axis=1)
    negative[rows, first + own] = 2
    negative[rows, first + (own + 1) % circuit.sizes[0]] = P - 1
    return {
        "two people in one grid, none in another": twice,
        "two cells of one grid, none of another": two,
        "-1 beside 2": negative,
        "three people in one grid, none in two others": _thrice(good, circuit, draw),
    }


def _thrice(good, circuit, draw):
    found = good.copy()
    for start, size in zip(circuit.starts[:3], circuit.sizes[:3], strict=True):
        found[:, start : start + size] = 0
    found[:, circuit.starts[draw.integers(0, 3)]] = 3
    return found


@pytest.mark.parametrize("scheme", ["additive 3", "shamir 3, 1"])
def test_no_lie_with_the_right_sum_of_all_digits_is_accepted(scheme):
    """200 of each; one sum of all digits accepts all of them but those with -1."""
    circuit = CellsCircuit((8, 8, 8))
    for name, witnesses in lies(circuit, 200, np.random.default_rng(4)).items():
        total = sum(FIELD.lift(np.ascontiguousarray(column)) for column in witnesses.T)
        assert (total == 3).all(), name
        assert not verdicts(circuit, SCHEMES[scheme], witnesses).accepted.any(), name


def test_sizes_of_four_grids_of_64_cells():
    """Keys at two of three servers, and at each of them the hashes of all; sealed, with one id."""
    circuit = CellsCircuit((64,) * 4)
    sealed = len(FORMAT) + ID_BYTES + 3 * (1 + SUITES["x25519"].added_bytes)
    upload = sealed + 8 * circuit.words + 3 * (KEY_BYTES + 3 * PART_BYTES)
    assert (upload, circuit.message_bytes) == (3204, 264)


def test_fractional_bits_do_not_count_and_few_of_them_are_no_error():
    few, many = (TASKS["cells"](fractional_bits=bits) for bits in (4, 20))
    assert few.sensitivity == many.sensitivity
    assert np.array_equal(few.units, many.units)
    assert few.units.tolist() == [2.0**-10] * few.width
    with rejects("fractional_bits", expected="at least 10"):
        TASKS["cells"](fractional_bits=4, proved=False)
