"""Slow reference of proved reports: Python integers, polynomials by Lagrange's formula, any prime field.

Letters are those of the report. Run it to write vectors/proving.json anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = Path(__file__).parents[1] / "vectors"


@dataclass(frozen=True)
class Field:
    """F = Z_p and K = F[i], i^2 = nonresidue."""

    p: int
    nonresidue: int


M61 = Field((1 << 61) - 1, -1)  # p = 3 mod 4: -1 is no square


@dataclass(frozen=True)
class Circuit:
    """z in [low, high]^columns, its ball, its products, with a matrix; or, with `sizes`, a cell of each grid."""

    columns: int
    least: int
    high: int
    squared_radius: int | None
    moments: bool
    rows: int
    matrix: tuple[tuple[int, ...], ...] = ()
    sizes: tuple[int, ...] = ()
    field: Field = M61

    @property
    def low(self):
        return self.least - (self.least - self.high) % 3

    @property
    def weights(self):
        if self.sizes:
            return []
        span, weights = self.high - self.low, []
        while 4 ** (len(weights) + 1) - 1 <= span:
            weights.append(4 ** len(weights))
        rest = span - sum(3 * w for w in weights)
        assert rest % 3 == 0
        return weights + ([rest // 3] if rest else [])

    @property
    def slack_digits(self):
        return next(k for k in range(99) if self.squared_radius is None or 4**k > self.squared_radius)

    @property
    def digits(self):
        return sum(self.sizes) or self.columns * len(self.weights) + self.slack_digits

    @property
    def products(self):
        if self.moments:
            return self.columns * (self.columns + 1) // 2
        return 0 if self.squared_radius is None else self.columns

    @property
    def squares(self):
        return 2 if self.moments else self.products

    @property
    def digit_wires(self):
        return -(-self.digits // self.rows)

    @property
    def wires(self):
        return self.digit_wires + -(-self.squares // self.rows)

    @property
    def points(self):
        return [0, *range(self.rows + 1, 4 * self.rows + 1)]

    @property
    def witness_words(self):
        return self.digits + self.products

    @property
    def words(self):
        return self.witness_words + self.wires + 2 * len(self.points)


# ---------------------------------------------------------------- field, hashes, expansion


def times(field, a, b):
    return (a[0] * b[0] + field.nonresidue * a[1] * b[1]) % field.p, (a[0] * b[1] + a[1] * b[0]) % field.p


def lagrange(field, nodes, at):
    """Weights l with f(at) = sum_k l_k f(nodes_k) for every f of degree < len(nodes)."""
    weights = []
    for k in nodes:
        top = math.prod(at - e for e in nodes if e != k)
        bottom = math.prod(k - e for e in nodes if e != k)
        weights.append(top * pow(bottom, -1, field.p) % field.p)
    return weights


def dot(field, a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) % field.p


def expand(field, key, count):
    """Words of AES in counter mode under all of a key of 16 or 32 bytes; a word that is no element is passed over."""
    mask, words, block = (1 << field.p.bit_length()) - 1, [], 0
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    while len(words) < count:
        stream = encryptor.update(block.to_bytes(16, "big"))
        words += [w for half in (stream[:8], stream[8:]) if (w := int.from_bytes(half, "little") & mask) < field.p]
        block += 1
    return words[:count]


def digest(label, *parts):
    hashed = label.encode() + b"\0"
    for part in parts:
        hashed += len(part).to_bytes(8, "little") + part
    return hashlib.sha256(hashed).digest()


def packed(words):
    return b"".join(word.to_bytes(8, "little") for word in words)


def part_of(collection, report, server, blind, body):
    return digest("part", collection, report, bytes([server]), blind, body)


def seed_of(collection, report, parts):
    return digest("seed", collection, report, *parts)


def joint_of(circuit, seed):
    """Sigma as pairs, then v and v'."""
    c, d = circuit.wires, circuit.columns
    flat = expand(circuit.field, seed, 2 * c + 2 * d)
    return list(zip(flat[: 2 * c : 2], flat[1 : 2 * c : 2], strict=True)), [flat[2 * c :][:d], flat[2 * c + d :]]


def point_of(circuit, toss):
    """r, kappa."""
    weights = 2 + max(1, len(circuit.sizes))
    flat = expand(circuit.field, digest("toss", toss), weights + 98)
    return next(e for e in flat[weights:] if e > 4 * circuit.rows), flat[:weights]


# ---------------------------------------------------------------- the statement


def written(value, weights):
    """Digits, from the largest weight down."""
    found = {}
    for place in sorted(range(len(weights)), key=lambda place: -weights[place]):
        found[place] = min(3, value // weights[place])
        value -= found[place] * weights[place]
    assert value == 0
    return [found[place] for place in range(len(weights))]


def mixed(circuit, z):
    return [sum(z[i] * circuit.matrix[i][j] for i in range(len(z))) for j in range(len(z))] if circuit.matrix else z


def witness(circuit, z):
    p = circuit.field.p
    if circuit.sizes:
        return [int(k == cell) for size, cell in zip(circuit.sizes, z, strict=True) for k in range(size)]
    digits = [g for e in z for g in written(e - circuit.low, circuit.weights)]
    w = mixed(circuit, z)
    if circuit.squared_radius is not None:
        digits += written(circuit.squared_radius - sum(e * e for e in w), [4**k for k in range(circuit.slack_digits)])
    if circuit.moments:
        products = [w[j] * w[k] for j in range(len(w)) for k in range(j, len(w))]
    else:
        products = [e * e for e in w] if circuit.products else []
    return [e % p for e in digits + products]


def columns_of(circuit, x, one):
    """z, or z M, from digits or shares of them; `one` is the share of 1."""
    per = len(circuit.weights)
    z = [
        dot(circuit.field, circuit.weights, x[j * per : (j + 1) * per]) + circuit.low * one
        for j in range(circuit.columns)
    ]
    return [e % circuit.field.p for e in mixed(circuit, z)]


def zeros_of(circuit, x, one):
    """What (T) says are 0."""
    if circuit.sizes:
        ends = [sum(circuit.sizes[: grid + 1]) for grid in range(len(circuit.sizes))]
        return [sum(x[end - size : end]) - one for end, size in zip(ends, circuit.sizes, strict=True)]
    if circuit.squared_radius is None:
        return [0]
    y, d = x[circuit.digits :], circuit.columns
    diagonal = [y[j * d - j * (j - 1) // 2] for j in range(d)] if circuit.moments else y
    slack = x[d * len(circuit.weights) : circuit.digits]
    return [sum(diagonal) + sum(g * 4**k for k, g in enumerate(slack)) - circuit.squared_radius * one]


def table_of(circuit, x, one, joint):
    """Values of each wire at 1..N, and h_k, what the gadgets give together there, in K."""
    (sigma, vs), p, n = joint, circuit.field.p, circuit.rows
    z, y = columns_of(circuit, x, one), x[circuit.digits :]
    if circuit.moments:
        entries = [(j, k) for j in range(circuit.columns) for k in range(j, circuit.columns)]
        pairs = [
            (
                dot(circuit.field, v, z),
                sum((1 if j == k else 2) * v[j] * v[k] * e for (j, k), e in zip(entries, y, strict=True)) % p,
            )
            for v in vs
        ]
    else:
        pairs = list(zip(z, y, strict=True)) if circuit.squares else []
    flat = [*x[: circuit.digits], *([0] * (n * circuit.wires - circuit.digits))]
    h = [(0, 0)] * n
    for s, (root, square) in enumerate(pairs):
        flat[n * circuit.digit_wires + s] = root
        a, b = sigma[circuit.digit_wires + s // n]
        h[s % n] = (h[s % n][0] + a * square) % p, (h[s % n][1] + b * square) % p
    return [flat[i * n : (i + 1) * n] for i in range(circuit.wires)], h


def gadgets_of(circuit, w, sigma):
    """sum_i sigma_i g_i(w_i) in K."""
    p, total = circuit.field.p, (0, 0)
    for i, (e, (a, b)) in enumerate(zip(w, sigma, strict=True)):
        g = e * (e - 1) * (e - 2) * (e - 3) if i < circuit.digit_wires else e * e
        total = (total[0] + a * g) % p, (total[1] + b * g) % p
    return total


# ---------------------------------------------------------------- prove, query, decide


def prove(circuit, x, joint, blinds):
    """Blinds, then Q = (P - H)/Z at 0, N + 1, ..., 4N, in pairs."""
    field, n = circuit.field, circuit.rows
    wires, h = table_of(circuit, x, 1, joint)
    proof = list(blinds)
    for e in circuit.points:
        through, known = lagrange(field, range(n + 1), e), lagrange(field, range(1, n + 1), e)
        w = [dot(field, through, [blind, *wire]) for blind, wire in zip(blinds, wires, strict=True)]
        gadgets, inverse = gadgets_of(circuit, w, joint[0]), pow(math.prod(e - k for k in range(1, n + 1)), -1, field.p)
        proof += [(gadgets[i] - dot(field, known, [pair[i] for pair in h])) * inverse % field.p for i in (0, 1)]
    return proof


def query(circuit, record, one, joint, point):
    """One server's message: w_1(r), ..., w_c(r), y."""
    (r, kappa), field, n = point, circuit.field, circuit.rows
    x, rest = record[: circuit.witness_words], record[circuit.witness_words :]
    blinds, quotient = rest[: circuit.wires], rest[circuit.wires :]
    wires, h = table_of(circuit, x, one, joint)
    through, known, at = (lagrange(field, nodes, r) for nodes in (range(n + 1), range(1, n + 1), circuit.points))
    vanishing = math.prod(r - k for k in range(1, n + 1))
    a = [vanishing * dot(field, at, quotient[i::2]) + dot(field, known, [pair[i] for pair in h]) for i in (0, 1)]
    w = [dot(field, through, [blind, *wire]) for blind, wire in zip(blinds, wires, strict=True)]
    return [*w, sum(k * e for k, e in zip(kappa, [*a, *zeros_of(circuit, x, one)], strict=True)) % field.p]


def decide(circuit, opened, joint, point):
    gadgets, kappa = gadgets_of(circuit, opened[:-1], joint[0]), point[1]
    return (kappa[0] * gadgets[0] + kappa[1] * gadgets[1] - opened[-1]) % circuit.field.p == 0


# ---------------------------------------------------------------- known answers


def known_answer(circuit, z, name=b"known answer"):
    """A whole report of two additive servers from fixed inputs."""
    p = circuit.field.p
    collection, report = digest("collection", name), digest("id", name)[:16]
    key, blind = digest("key", name)[:16], digest("blind", name)[:16]
    blinds = expand(circuit.field, digest("blinds", name), circuit.wires)
    x, mask = witness(circuit, z), expand(circuit.field, key, circuit.words)
    last = [(a - b) % p for a, b in zip(x, mask[: len(x)], strict=True)]
    parts = [part_of(collection, report, 0, b"", key), part_of(collection, report, 1, blind, packed(last))]
    seed = seed_of(collection, report, parts)
    joint, (r, kappa) = joint_of(circuit, seed), point_of(circuit, digest("servers", name))
    proof = prove(circuit, x, joint, blinds)
    last += [(a - b) % p for a, b in zip(proof, mask[len(x) :], strict=True)]
    messages = [query(circuit, words, int(s == 0), joint, (r, kappa)) for s, words in enumerate((mask, last))]
    opened = [(a + b) % p for a, b in zip(*messages, strict=True)]
    assert decide(circuit, opened, joint, (r, kappa))
    texts = {"collection": collection, "id": report, "key": key, "blind": blind}
    texts |= {"part0": parts[0], "part1": parts[1], "seed": seed, "toss": digest("servers", name)}
    shape = {"columns": circuit.columns, "least": circuit.least, "high": circuit.high, "rows": circuit.rows}
    shape |= {"squared_radius": circuit.squared_radius, "moments": circuit.moments, "matrix": circuit.matrix}
    return {
        "circuit": {**shape, "sizes": circuit.sizes},
        **{key: value.hex() for key, value in texts.items()},
        "z": z,
        "witness": x,
        "blinds": blinds,
        "point": r,
        "kappa": kappa,
        "sigma": [e for pair in joint[0] for e in pair],
        "v": [e for v in joint[1] for e in v],
        "proof": proof,
        "last": last,
        "messages": messages,
        "success": True,
    }


def refused(answer, why, place, added):
    """The answer with one word of the last server's share changed after the proof was made, its hash as it was."""
    circuit, p = circuit_of(answer["circuit"]), M61.p
    last = list(answer["last"])
    last[place] = (last[place] + added) % p
    pairs = iter(answer["sigma"])
    d = circuit.columns
    joint = (list(zip(pairs, pairs, strict=True)), [answer["v"][:d], answer["v"][d:]])
    point = (answer["point"], answer["kappa"])
    message = query(circuit, last, 0, joint, point)
    opened = [(a + b) % p for a, b in zip(answer["messages"][0], message, strict=True)]
    assert not decide(circuit, opened, joint, point)
    changed = {"why": why, "place": place, "added": added, "messages": [answer["messages"][0], message]}
    return {**changed, "success": False}


def circuit_of(shape):
    fields = {**shape, "matrix": tuple(tuple(row) for row in shape["matrix"]), "sizes": tuple(shape["sizes"])}
    return Circuit(**fields)


ANSWERS = (
    (Circuit(4, -511, 511, 2 * 512**2, True, 3), [100, -200, 300, -512]),
    (Circuit(3, -255, 255, None, True, 2), [255, -255, 7]),
    (Circuit(5, -2047, 2047, 2 * 2048**2, False, 4), [-2048, 2047, 0, 1, -1]),
    (Circuit(6, -127, 127, None, False, 3), [-128, -127, 0, 1, 126, 127]),
    (Circuit(1, 0, 511, None, False, 2), [-2]),
    (Circuit(2, -15, 15, 4000, True, 2, ((3, -1), (2, 5))), [9, -5]),
    (Circuit(0, 0, 0, None, False, 2, sizes=(6,)), [4]),
    (Circuit(0, 0, 0, None, False, 3, sizes=(6, 3, 5)), [5, 0, 2]),
)


def vectors():
    answers = [known_answer(circuit, z) for circuit, z in ANSWERS]
    first, circuit = answers[0], ANSWERS[0][0]
    places = {
        "a digit of z": (0, 1),
        "a digit of the slack": (circuit.digits - 1, 3),
        "a product": (circuit.digits + 1, 1),
        "a blind": (circuit.witness_words, 1),
        "the quotient": (circuit.words - 1, M61.p - 1),
    }
    return {"answers": answers, "refused": [refused(first, why, *change) for why, change in places.items()]}


if __name__ == "__main__":
    (VECTORS / "proving.json").write_text(json.dumps(vectors(), indent=1) + "\n")
