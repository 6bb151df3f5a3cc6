"""False statements about rows: what clients who lie share, for tests and benches.

A *lie* makes witnesses of rows that are not well formed. Whoever tells it computes the proof as an honest client does,
of the false witness. Each lie breaks one condition of theorem proof-soundness, and keeps the others where it can:
what is out of its range has products that are right, and products that are wrong have the right trace.

Not promised: that there are no other lies. That no lie passes is proved, not counted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from dpmpc.base.arrays import Integers, Words
from dpmpc.base.errors import InputError
from dpmpc.linear.contributions import SecondMoments
from dpmpc.linear.proving import proved
from dpmpc.linear.proving.circuit import BASE, FIELD, P, RowCircuit, digits_of

FAR = 1 << 30
"""A coordinate whose square is a tenth of p: sums wrap around after a few of them."""

Draw = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Lie:
    """A way to make false witnesses."""

    does: str  # what is false, and what is not
    # from a circuit, points (n, d) of its proved set and a generator to witnesses (n, witness words), all false
    make: Callable[[RowCircuit, Integers, Draw], Words]
    ball: bool = False  # whether it is about a ball, which the circuit has to have


def stated(circuit: RowCircuit, z: Integers) -> Words:
    """Return witnesses (n, witness words) of integers that may be outside the range and the ball.

    Products are those of z, and (T) holds modulo p. What no digits can write goes into a first digit: of the column
    where z is out of range, of the slack where |z|^2 > C^2. For points of the proved set it is the honest witness.
    """
    require_moments(circuit)
    per, inside = len(circuit.weights), np.clip(z, circuit.low, circuit.high)
    digits = FIELD.embed(digits_of(inside - circuit.low, circuit.weights).reshape(len(z), -1))
    digits[:, ::per] = FIELD.add(np.ascontiguousarray(digits[:, ::per]), FIELD.embed(z - inside))
    parts = [digits]
    if circuit.squared_radius is not None:
        beyond = (z.astype(np.float64) ** 2).sum(axis=1) > circuit.squared_radius
        near = np.where(beyond[:, None], 0, z)
        slack = np.where(beyond, 0, np.maximum(circuit.squared_radius - (near * near).sum(axis=1), 0))
        parts.append(FIELD.embed(digits_of(slack, tuple(BASE**place for place in range(circuit.slack_digits)))))
    return settled(circuit, np.concatenate([*parts, products_of(z)], axis=1))


def require_moments(circuit: RowCircuit) -> None:
    """Refuse a circuit without products of z itself."""
    if circuit.matrix or not circuit.moments or circuit.columns < 2:
        raise InputError("circuit", f"{circuit!r}", "one with the products of two columns or more")


def products_of(z: Integers) -> Words:
    """Return the upper triangle of z z^T, for each row."""
    own, (first, second) = FIELD.embed(z), np.triu_indices(z.shape[1])
    return FIELD.multiply(np.ascontiguousarray(own[:, first]), np.ascontiguousarray(own[:, second]))


def settled(circuit: RowCircuit, witnesses: Words) -> Words:
    """Let (T) hold modulo p by the first digit of the slack, which then is a digit only if it held before."""
    if circuit.squared_radius is None:
        return witnesses
    place, lacking = circuit.columns * len(circuit.weights), missing_in_zero(circuit, witnesses)
    witnesses[:, place] = FIELD.subtract(np.ascontiguousarray(witnesses[:, place]), lacking)
    return witnesses


def missing_in_zero(circuit: RowCircuit, witnesses: Words) -> Words:
    """Return what (T) says is 0, of each witness."""
    (zero,) = circuit.forms
    total = np.full(len(witnesses), zero.constant % P, np.uint64)
    for place, factor in zero.terms:
        total = FIELD.multiply_add(np.ascontiguousarray(witnesses[:, place]), factor % P, total)
    return total


def _out_of_range(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    alone = np.zeros_like(z)
    alone[np.arange(len(z)), draw.integers(0, circuit.columns, len(z))] = circuit.high + 1
    return stated(circuit, alone)


def _digit_at_random(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    witnesses = stated(circuit, z)
    places = draw.integers(0, circuit.digits, len(z))
    witnesses[np.arange(len(z)), places] = draw.integers(BASE, P, len(z), np.uint64)
    return witnesses


def _one_product(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    witnesses, off = stated(circuit, z), np.flatnonzero(np.not_equal(*np.triu_indices(circuit.columns)))
    return shifted(witnesses, circuit.digits + draw.choice(off, len(z)), not_zero(draw, len(z)))


def _two_squares(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    squares = circuit.digits + np.flatnonzero(np.equal(*np.triu_indices(circuit.columns)))
    first = draw.integers(0, len(squares), len(z))
    second = (first + draw.integers(1, len(squares), len(z))) % len(squares)
    by = not_zero(draw, len(z))
    return shifted(shifted(stated(circuit, z), squares[first], by), squares[second], np.uint64(P) - by)


def _products_of_another(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    other, witnesses = np.roll(z, 1, axis=0), stated(circuit, z)
    alike = (np.abs(z) == np.abs(other)).all(axis=1)
    witnesses[:, circuit.digits :] = products_of(np.where(alike[:, None], z + 1, other))
    return witnesses


def _far_away(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    away = z.copy()
    away[np.arange(len(z)), draw.integers(0, circuit.columns, len(z))] = FAR
    return stated(circuit, away)


def _corners(circuit: RowCircuit, z: Integers, draw: Draw) -> Integers:
    corners = np.where(draw.random(z.shape) < 0.5, circuit.low, circuit.high).astype(np.int64)
    assert circuit.squared_radius is not None
    if ((corners.astype(np.float64) ** 2).sum(axis=1) <= circuit.squared_radius).any():
        raise InputError("circuit", "one whose ball holds a corner of its box", "a smaller ball")
    return corners


def _beyond_the_ball(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    witnesses = stated(circuit, _corners(circuit, z, draw))
    slack = slice(circuit.columns * len(circuit.weights), circuit.digits)
    witnesses[:, slack] = draw.integers(0, BASE, (len(z), circuit.slack_digits), np.uint64)
    return witnesses


def _beyond_the_ball_by_a_digit(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    return stated(circuit, _corners(circuit, z, draw))


def _at_random(circuit: RowCircuit, z: Integers, draw: Draw) -> Words:
    return draw.integers(0, P, (len(z), circuit.witness_words), np.uint64)


LIES = {
    "out of range": Lie("one number is a unit above its range; all else is right", _out_of_range),
    "a digit at random": Lie("one digit is any other element; all else is as it was", _digit_at_random),
    "wrong products": Lie("one product off the diagonal is wrong", _one_product),
    "wrong squares": Lie("two squares are wrong, and their sum is right", _two_squares),
    "another row's products": Lie("all products are those of another row", _products_of_another),
    "wrap-around": Lie("one number is 2^30 and all products are right: sums would wrap around", _far_away),
    "beyond the ball": Lie("a corner of the box, with a slack of true digits", _beyond_the_ball, ball=True),
    "beyond the ball, by a digit": Lie(
        "a corner of the box, whose slack has a false digit so that (T) holds", _beyond_the_ball_by_a_digit, ball=True
    ),
    "arbitrary words": Lie("every word is any element", _at_random),
}


def lies_about(circuit: RowCircuit) -> dict[str, Lie]:
    """Return the lies that can be told about this statement."""
    require_moments(circuit)
    return {name: lie for name, lie in LIES.items() if circuit.squared_radius is not None or not lie.ball}


def invisible_products(circuit: RowCircuit, joint: Words) -> Words:
    """Return what could be added to the products (n, products) if sigma and v did not follow from them.

    A symmetric D, not 0, with v^T D v = v'^T D v' = tr D = 0: both random combinations and (T) miss it.
    """
    return np.array([missed_by_all(circuit, randomness[None]) for randomness in joint], np.uint64)


def missed_by_all(circuit: RowCircuit, joint: Words) -> Words:
    """Return one such D (products,) for all of this joint randomness; there are fewer conditions than products."""
    require_moments(circuit)
    first, second = np.triu_indices(circuit.columns)
    forms = [[int(a == b) for a, b in zip(first, second, strict=True)]]
    for v in joint[:, 2 * circuit.wires :].reshape(-1, circuit.columns).tolist():
        forms.append([v[a] * v[b] * (1 if a == b else 2) % P for a, b in zip(first, second, strict=True)])
    return np.array(_orthogonal(forms), np.uint64)


def _orthogonal(forms: list[list[int]]) -> list[int]:
    """Return a vector of elements, not 0, on which all these linear forms are 0; there are fewer than its entries."""
    left, pivots, size = [form[:] for form in forms], list[int](), len(forms[0])
    for column in range(size):
        done = len(pivots)
        chosen = next((row for row in range(done, len(left)) if left[row][column]), None)
        if chosen is None:
            continue
        left[done], left[chosen] = left[chosen], left[done]
        inverse = pow(left[done][column], -1, P)
        left[done] = [entry * inverse % P for entry in left[done]]
        for row in range(len(left)):
            if row != done:
                factor = left[row][column]
                left[row] = [(a - factor * b) % P for a, b in zip(left[row], left[done], strict=True)]
        pivots.append(column)
    free = next(column for column in range(size) if column not in pivots)
    vector = [0] * size
    vector[free] = 1
    for row, column in enumerate(pivots):
        vector[column] = -left[row][free] % P
    return vector


def points(circuit: RowCircuit, count: int, draw: Draw) -> Integers:
    """Draw points (n, d) of the proved set: uniform in the box, and halved until they are in the ball."""
    z = draw.integers(circuit.low, circuit.high, (count, circuit.columns), endpoint=True)
    while circuit.squared_radius is not None:
        outside = np.einsum("ij,ij->i", z, z) > circuit.squared_radius
        if not outside.any():
            break
        z[outside] //= 2
    return z


def shifted(witnesses: Words, places: Integers, by: Words) -> Words:
    """Add to one word of each row, in place."""
    rows = np.arange(len(witnesses))
    witnesses[rows, places] = FIELD.add(np.ascontiguousarray(witnesses[rows, places]), by)
    return witnesses


def not_zero(draw: Draw, count: int) -> Words:
    """Draw elements that are not 0."""
    return draw.integers(1, P, count, np.uint64)


def full_size() -> RowCircuit:
    """Return the circuit: d = 10 columns, f = 11 bits, in a ball of radius 1."""
    circuit = proved(SecondMoments(radius=1.0), columns=10, fractional_bits=11).circuit
    assert isinstance(circuit, RowCircuit)
    return circuit
