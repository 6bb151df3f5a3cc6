"""The sketch's derivation, slowly, in plain integers; ``python tests/references/sketch.py`` writes the vectors.

Follows "Derivation" in dpmpc/linear/sketching/__init__.py and shares no code with it: HKDF from hmac, Philox word by
word, one client at a time, sums as integers modulo 2^64 or 2^61 - 1.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors" / "sketch.json"
MASK = 0xFFFFFFFF
CLIENT, BATCH = 0, 1
LABELS = {"rademacher": b"rademacher", "bernoulli-mixing": b"bernoulli mixing"}
MODULUS = {"ring64": 1 << 64, "mersenne61": (1 << 61) - 1}

# Random123's own known answers for Philox4x32-7 (kat_vectors): counter, key, result.
PHILOX = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "5207ddc2 45165e59 4d8ee751 8c52f662"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "4dfccaba 190a87f0 c47362ba b6b5242a"),
]


def philox4x32(counter, key):
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(7):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & MASK, (left >> 32) ^ c3 ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def hkdf_sha256(key, info, length):
    extracted = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\1", hashlib.sha256).digest()[:length]


class Reference:
    def __init__(self, seed, rows, sparsity, balanced):
        derived = hkdf_sha256(seed, b"dpmpc v1 sketch" + b"\0" + bytes(8), 16)
        self.k0, self.k1, self.n0, self.n1 = (int.from_bytes(derived[4 * i : 4 * i + 4], "little") for i in range(4))
        self.rows, self.sparsity, self.balanced = rows, sparsity, balanced

    def block(self, number, purpose, copy, attempt):
        counter = (number, copy + (purpose << 31), self.n0 ^ attempt, self.n1)
        return philox4x32(counter, (self.k0, self.k1))

    def word(self, purpose, index, copy, attempt):
        tile, place = divmod(index, 128)
        return self.block(32 * tile + place % 32, purpose, copy, attempt)[place // 32]

    def distinct(self, purpose, index):
        """(row, 1 if negative else 0) of each copy: sequential rejection."""
        drawn = []
        for copy in range(self.sparsity):
            attempt = 0
            while True:
                word = self.word(purpose, index, copy, attempt)
                entry, rest = divmod(word * 2 * self.rows, 1 << 32)
                row, negative = divmod(entry, 2)
                if rest >= (1 << 32) % (2 * self.rows) and row not in [earlier for earlier, _ in drawn]:
                    drawn.append((row, negative))
                    break
                attempt += 1
        return drawn

    def client(self, index):
        """(row, sign) of each copy."""
        if not self.balanced:
            return [(row, -1 if negative else 1) for row, negative in self.distinct(CLIENT, index)]
        batch, place = divmod(index, self.rows)
        return [
            ((place + shift) % self.rows, self.sign(index, copy))
            for copy, (shift, _) in enumerate(self.distinct(BATCH, batch))
        ]

    def sign(self, index, copy):
        word = self.block(index // 128, CLIENT, copy, 0)[index // 32 % 4]
        return -1 if word >> index % 32 & 1 else 1

    def sums(self, first, X, modulus):
        """X: one list of p integers for each client."""
        Y = [[0] * len(X[0]) for _ in range(self.rows)]
        for place, x in enumerate(X):
            for row, sign in self.client(first + place):
                Y[row] = [(y + sign * value) % modulus for y, value in zip(Y[row], x, strict=True)]
        return Y


class DenseReference(Reference):
    def __init__(self, family, seed, rows):
        derived = hkdf_sha256(seed, b"dpmpc v1 " + LABELS[family] + b"\0" + bytes(8), 16)
        self.k0, self.k1, self.n0, self.n1 = (int.from_bytes(derived[4 * i : 4 * i + 4], "little") for i in range(4))
        self.rows = rows

    def client(self, index):
        """(row, sign) of each copy: every row has one bit for each client."""
        signs = []
        for row in range(self.rows):
            words = philox4x32((index // 128, row, self.n0, self.n1), (self.k0, self.k1))
            bit = words[index // 32 % 4] >> index % 32 & 1
            signs.append((row, -1 if bit else 1))
        return signs


def reference_of(sketch):
    """The reference that a description stands for."""
    seed = bytes.fromhex(sketch["seed"])
    if sketch["family"] in LABELS:
        return DenseReference(sketch["family"], seed, sketch["rows"])
    return Reference(seed, sketch["rows"], sketch["sparsity"], sketch["balanced"])


def draws():
    largest = (1 << 31) - 1
    cases = [
        (1, 1, 10, 0, 10),
        (2, 2, 40, 3, 9),
        (3, 3, 1000, 0, 24),
        (5, 2, 1 << 34, (1 << 34) - 13, 13),
        (1000, 4, 5000, 995, 12),
        (1000, 1, 1 << 33, (1 << 32) - 4, 8),
        (16, 8, 100, 30, 12),
        (largest, 3, 100, 61, 9),
        ((1 << 30) + 1, 4, 200, 120, 12),  # every second word is rejected
    ]
    for number, (rows, sparsity, columns, first, count) in enumerate(cases):
        for balanced in (False, True):
            seed = hashlib.sha256(bytes([number])).digest()
            reference = Reference(seed, rows, sparsity, balanced)
            clients = [reference.client(index) for index in range(first, first + count)]
            yield {
                "sketch": {
                    "family": "osnap",
                    "rows": rows,
                    "columns": columns,
                    "sparsity": sparsity,
                    "balanced": balanced,
                    "seed": seed.hex(),
                },
                "first": first,
                "rows": [[row for row, _ in client] for client in clients],
                "signs": [[sign for _, sign in client] for client in clients],
            }
    dense = [("rademacher", 1, 300, 120, 140), ("bernoulli-mixing", 5, 1 << 34, (1 << 34) - 40, 40)]
    dense += [("rademacher", 37, 1 << 33, (1 << 32) - 9, 12)]
    for family, rows, columns, first, count in dense:
        sketch = dense_sketch(family, rows, columns, hashlib.sha256(family.encode()).digest())
        clients = [reference_of(sketch).client(index) for index in range(first, first + count)]
        yield {
            "sketch": sketch,
            "first": first,
            "rows": [[row for row, _ in client] for client in clients],
            "signs": [[sign for _, sign in client] for client in clients],
        }


def dense_sketch(family, rows, columns, seed):
    facts = {"family": family, "rows": rows, "columns": columns, "sparsity": rows, "balanced": False}
    return {**facts, "seed": seed.hex()}


def sums():
    seed = hashlib.sha256(b"sums").digest()
    for ring, modulus in MODULUS.items():
        for balanced in (False, True):
            X = [[pow(3, 7 * i + j + 1, modulus) for j in range(3)] for i in range(12)]
            X[0] = [0, 1, modulus - 1]
            yield {
                "sketch": {
                    "family": "osnap",
                    "rows": 4,
                    "columns": 20,
                    "sparsity": 2,
                    "balanced": balanced,
                    "seed": seed.hex(),
                },
                "ring": ring,
                "first": 5,
                "X": X,
                "Y": Reference(seed, 4, 2, balanced).sums(5, X, modulus),
            }
        for family in LABELS:
            sketch = dense_sketch(family, 6, 150, seed)
            Y = reference_of(sketch).sums(125, X, modulus)
            yield {"sketch": sketch, "ring": ring, "first": 125, "X": X, "Y": Y}


def refused():
    good = {"family": "osnap", "rows": 4, "columns": 9, "sparsity": 2, "balanced": False, "seed": "00" * 32}
    wrong = [
        ("family", "dense", "family: 'dense'"),
        ("rows", 0, "rows: 0"),
        ("rows", 1 << 31, "rows: 2147483648"),
        ("rows", 4.0, "rows: 4.0"),
        ("columns", 0, "columns: 0"),
        ("columns", (1 << 34) + 1, "columns: 17179869185"),
        ("sparsity", 0, "sparsity: 0"),
        ("sparsity", 5, "sparsity: 5"),
        ("sparsity", True, "sparsity: True"),
        ("balanced", 1, "balanced: 1"),
        ("seed", "00" * 31, "seed: 31 bytes"),
        ("seed", "xy" * 32, "seed: 'xyxy"),
        ("seed", "AA" * 32, "description"),
        ("extra", 1, "description"),
    ]
    for name, value, message in wrong:
        yield {"sketch": {**good, name: value}, "message": message}
    for name in ("columns", "seed", "family"):
        yield {"sketch": {key: value for key, value in good.items() if key != name}, "message": name}
    yield {
        "sketch": {"family": "sum", "rows": 2, "columns": 9, "sparsity": 1, "balanced": True},
        "message": "description",
    }
    dense = dense_sketch("rademacher", 4, 9, bytes(32))
    for name, value in (("sparsity", 2), ("balanced", True)):
        yield {"sketch": {**dense, name: value}, "message": "description"}


if __name__ == "__main__":
    philox = [dict(zip(("counter", "key", "result"), case, strict=True)) for case in PHILOX]
    vectors = {"philox": philox, "draws": list(draws()), "sums": list(sums()), "refused": list(refused())}
    groups = (
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]" for name, cases in vectors.items()
    )
    VECTORS.write_text("{\n" + ",\n".join(groups) + "\n}\n")
