"""A client written from docs/report-format.md alone, slow and plain. It shares no code with dpmpc.

Run it to write tests/vectors/report_format.json anew.
"""

import hashlib
import hmac
import itertools
import json
import math
import os
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509 import load_pem_x509_certificate

VECTORS = Path(__file__).parents[1] / "vectors" / "report_format.json"
P = 2**61 - 1


# ---------------------------------------------------------------- 1. notation


def sha(data):
    return hashlib.sha256(data).digest()


def le8(number):
    return number.to_bytes(8, "little")


def packed(words):
    return b"".join(map(le8, words))


def framed(label, *parts):
    return label.encode() + b"\0" + b"".join(le8(len(part)) + part for part in parts)


def hkdf(key, salt, info, length):
    found, block, extracted = b"", b"", hmac.digest(salt or bytes(32), key, "sha256")
    for counter in range(1, 2 + length // 32):
        block = hmac.digest(extracted, block + info + bytes([counter]), "sha256")
        found += block
    return found[:length]


def stream(key, words):
    content = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * words))
    return [int.from_bytes(content[place : place + 8], "little") for place in range(0, 8 * words, 8)]


def rint(value):
    return round(value)  # halves to the even one, as Python has it


# ---------------------------------------------------------------- 2. to 5. from a row to payloads


def normalised(task, row):
    """Section 3."""
    found = []
    for column, value in zip(task["schema"]["columns"], row, strict=True):
        low, high = column["lower"], column["upper"]
        found.append(min(1.0, max(-1.0, (value - (low + high) / 2) / ((high - low) / 2))))
    radius = task["statistic"].get("radius")
    if radius is not None:
        norm = math.sqrt(sum(z * z for z in found))
        reach = radius * (1 - (len(found) + 4) * 2.0**-52)
        found = [z * min(1.0, reach / norm) if norm else z for z in found]
    return found


def plain_payloads(task, digest, z, draw):
    """Section 4."""
    scale, servers = 2.0 ** task["encoding"]["fractional_bits"], task["trust"]["servers"]
    if task["statistic"]["name"] == "rows":
        shorten = int if "radius" in task["statistic"] else rint
        entries = [shorten(scale * one) for one in z]
    else:
        u, d = [1.0, *z], len(z)
        pairs = [(a, b) for a in range(d + 1) for b in range(a, d + 1)][1:]
        weights = [1.0 if a == b else 1.4142135623730951 for a, b in pairs]
        entries = [rint(scale * (w * (u[a] * u[b]))) for (a, b), w in zip(pairs, weights, strict=True)]
    words, keys = [entry % 2**64 for entry in entries], []
    for server in range(servers - 1):
        keys.append(draw(16))
        mask = stream(hkdf(keys[-1], digest, b"dpmpc v1 report share\0" + le8(server), 16), len(words))
        words = [(a - b) % 2**64 for a, b in zip(words, mask, strict=True)]
    return [*keys, packed(words)]


class Shape:
    """Section 5, "Shape"."""

    def __init__(self, task):
        self.ball, self.slack = None, []
        self.moments = False
        if task["statistic"]["name"] == "proved-cell-counts":
            self.d = self.products = self.roots = 0
            self.digits = sum(size_of(grid) for grid in task["statistic"]["grids"])
            self.lay_out()
            return
        self.scale = scale = 2 ** task["encoding"]["fractional_bits"] - 1
        self.moments = task["statistic"]["name"] == "proved-second-moments"
        self.d = d = len(task["schema"]["columns"])
        self.low = -scale - (-2 * scale) % 3
        span, self.weights = scale - self.low, []
        while 4 ** (len(self.weights) + 1) - 1 <= span:
            self.weights.append(4 ** len(self.weights))
        rest = span - 3 * sum(self.weights)
        self.weights += [rest // 3] if rest else []
        if "radius" in task["statistic"]:
            half = Fraction(math.isqrt(d << 120) + 1, 1 << 61)
            reach = scale * Fraction(task["statistic"]["radius"]) * (1 + Fraction(1, 2**40)) + half
            squared = math.floor(reach**2)
            if squared < d * (scale + 1) ** 2:
                self.ball = squared
                while 4 ** len(self.slack) <= squared:
                    self.slack.append(4 ** len(self.slack))
        self.digits = d * len(self.weights) + len(self.slack)
        self.products = d * (d + 1) // 2 if self.moments else d if self.ball is not None else 0
        self.roots = 2 if self.moments else self.products
        self.lay_out()

    def lay_out(self):
        self.n = min(range(1, 2 + math.isqrt(self.digits)), key=lambda n: 2 * self.wires_with(n) + 2 * (3 * n + 1))
        self.wires, self.witness = self.wires_with(self.n), self.digits + self.products
        self.words = self.witness + self.wires + 2 * (3 * self.n + 1)

    def wires_with(self, n):
        return -(-self.digits // n) + -(-self.roots // n)


def groups_of(grid):
    return math.prod(count + 1 for _, count in grid.get("groups", []))


def size_of(grid):
    return groups_of(grid) * (len(grid.get("edges", [])) + 1 + ("missing" in grid))


def cell_of(grid, z):
    """Section 5, "Cells"."""
    group, edges = 0, grid.get("edges", [])
    for first, count in grid.get("groups", []):
        shown = z[first : first + count]
        group = group * (count + 1) + (1 + shown.index(max(shown)) if max(shown) > 0.5 else 0)
    if "missing" in grid and z[grid["missing"]] > 0.5:
        return groups_of(grid) * (len(edges) + 1) + group
    return group * (len(edges) + 1) + (sum(edge < z[grid["column"]] for edge in edges) if "column" in grid else 0)


def digits_of(value, weights):
    found = [0] * len(weights)
    for place in reversed(range(len(weights))):
        found[place] = min(3, value // weights[place])
        value -= found[place] * weights[place]
    assert value == 0
    return found


def weights_at(nodes, at):
    """Lagrange's."""
    found = []
    for node in nodes:
        others = [other for other in nodes if other != node]
        top, bottom = math.prod(at - other for other in others), math.prod(node - other for other in others)
        found.append(top * pow(bottom, -1, P) % P)
    return found


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) % P


def proved_payloads(task, digest, name, z, draw):
    """Section 5."""
    shape, servers = Shape(task), task["trust"]["servers"]
    if task["statistic"]["name"] == "proved-cell-counts":
        x, digits = [], []
        for grid in task["statistic"]["grids"]:
            digits += [int(place == cell_of(grid, z)) for place in range(size_of(grid))]
    else:
        x = [min(shape.scale, max(-shape.scale, rint(one * shape.scale))) for one in z]
        digits = [digit for one in x for digit in digits_of(one - shape.low, shape.weights)]
    if shape.ball is not None:
        digits += digits_of(shape.ball - sum(one * one for one in x), shape.slack)
    pairs = [(a, b) for a in range(shape.d) for b in range(a, shape.d)] if shape.moments else []
    products = [x[a] * x[b] for a, b in pairs] if shape.moments else [one * one for one in x[: shape.products]]
    witness = [one % P for one in (*digits, *products)]

    blinds = element_words(draw, shape.wires)
    keys, masks = [], []
    while len(keys) < servers - 1:
        key = draw(16)
        mask = [word % 2**61 for word in stream(key, shape.words)]
        if P not in mask:
            keys.append(key)
            masks.append(mask)
    share = [(one - sum(mask[place] for mask in masks)) % P for place, one in enumerate(witness)]
    blind = draw(16)
    parts = [sha(framed("part", digest, name, bytes([server]), b"", key)) for server, key in enumerate(keys)]
    parts.append(sha(framed("part", digest, name, bytes([servers - 1]), blind, packed(share))))
    seed = sha(framed("seed", digest, name, *parts))

    wanted = 2 * shape.wires + 2 * shape.d
    joint = [one for word in stream(seed, wanted + 64) if (one := word % 2**61) != P][:wanted]
    sigma = list(zip(joint[: 2 * shape.wires : 2], joint[1 : 2 * shape.wires : 2], strict=True))
    vectors = joint[2 * shape.wires :][: shape.d], joint[2 * shape.wires + shape.d :]
    if shape.moments:
        roots = [dot(v, x) for v in vectors]
        twice = [1 if a == b else 2 for a, b in pairs]
        squares = [
            sum(c * v[a] * v[b] * w for c, (a, b), w in zip(twice, pairs, products, strict=True)) % P for v in vectors
        ]
    else:
        roots, squares = [one % P for one in x[: shape.products]], products
    n, first = shape.n, -(-shape.digits // shape.n)
    table = [*digits, *[0] * (n * first - len(digits)), *roots]
    table += [0] * (n * shape.wires - len(table))
    columns = [table[n * place : n * place + n] for place in range(shape.wires)]
    heads = [[0, 0] for _ in range(n)]
    for place, square in enumerate(squares):
        for side in (0, 1):
            heads[place % n][side] += sigma[first + place // n][side] * square

    proof = list(blinds)
    for point in (0, *range(n + 1, 4 * n + 1)):
        through, known = weights_at(range(n + 1), point), weights_at(range(1, n + 1), point)
        w = [dot(through, [beta, *column]) for beta, column in zip(blinds, columns, strict=True)]
        g = [v * (v - 1) * (v - 2) * (v - 3) if place < first else v * v for place, v in enumerate(w)]
        vanishing = pow(math.prod(point - row for row in range(1, n + 1)), -1, P)
        for side in (0, 1):
            whole = sum(one[side] * value for one, value in zip(sigma, g, strict=True))
            proof.append((whole - dot(known, [head[side] for head in heads])) * vanishing % P)
    assert len(witness) + len(proof) == shape.words
    rest = [(one - sum(mask[shape.witness + place] for mask in masks)) % P for place, one in enumerate(proof)]
    listed = b"".join(parts)
    return [*[key + listed for key in keys], blind + listed + packed(share) + packed(rest)]


def element_words(draw, count):
    """Uniform words below p, the low 61 bits of what is drawn."""
    found = []
    while len(found) < count:
        content = draw(8 * (count - len(found)))
        words = [int.from_bytes(content[at : at + 8], "little") % 2**61 for at in range(0, len(content), 8)]
        found += [word for word in words if word != P]
    return found


def payloads(task, digest, name, row, draw):
    z = normalised(task, row)
    if task["statistic"]["name"].startswith("proved-"):
        return proved_payloads(task, digest, name, z, draw)
    return plain_payloads(task, digest, z, draw)


# ---------------------------------------------------------------- 6. reports


def name_of(digest, secret):
    return sha(framed("dpmpc v2 report id", digest, secret))[:16]


def token(secret, server):
    """Section 7: a ticket's, for one server."""
    return hkdf(secret, b"", b"dpmpc v1 client token\0" + le8(server), 32)


KEM, SUITE = b"KEM\0\x20", b"HPKE\0\x20\0\1\0\1"


def extract(suite, salt, label, secret):
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def expand(suite, key, label, info, length):
    text = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\1"
    return hmac.digest(key, text, "sha256")[:length]


def seal(public, info, plain, ephemeral):
    """RFC 9180: SealBase, one message, no associated data."""
    sender = ephemeral.public_key().public_bytes_raw()
    agreed = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    shared = expand(KEM, extract(KEM, b"", b"eae_prk", agreed), b"shared_secret", sender + public, 32)
    context = b"\0" + extract(SUITE, b"", b"psk_id_hash", b"") + extract(SUITE, b"", b"info_hash", info)
    secret = extract(SUITE, shared, b"secret", b"")
    key, nonce = (expand(SUITE, secret, label, context, size) for label, size in ((b"key", 16), (b"base_nonce", 12)))
    return sender + AESGCM(key).encrypt(nonce, plain, None)


def open_hybrid(seed, info, sealed):
    """Section 6, suite x25519-mlkem768: X-Wing, then as above with its shared secret."""
    expanded, suite = hashlib.shake_256(seed).digest(96), b"HPKE\x64\x7a\0\1\0\1"
    lattice = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
    curve = X25519PrivateKey.from_private_bytes(expanded[64:])
    first, second, ciphertext = sealed[:1088], sealed[1088:1120], sealed[1120:]
    agreed = lattice.decapsulate(first) + curve.exchange(X25519PublicKey.from_public_bytes(second))
    shared = hashlib.sha3_256(
        agreed + second + curve.public_key().public_bytes_raw() + b"\x5c\x2e\x2f\x2f\x5e\x5c"
    ).digest()
    context = b"\0" + extract(suite, b"", b"psk_id_hash", b"") + extract(suite, b"", b"info_hash", info)
    secret = extract(suite, shared, b"secret", b"")
    key, nonce = (expand(suite, secret, label, context, size) for label, size in ((b"key", 16), (b"base_nonce", 12)))
    return AESGCM(key).decrypt(nonce, ciphertext, None)


def signed_key(digest, server, number, suite, public):
    """Section 6: what a server signs of a later key."""
    parts = (digest, bytes([server]), bytes([number]), suite.encode(), public)
    return b"dpmpc v1 signature" + framed("dpmpc v2 key", *parts)


def later_keys(collection, digest, answer):
    """Section 6: for each server the number and public key to seal to, by the answer of a door."""
    found = [
        (entry["keys"][-1]["number"], bytes.fromhex(entry["keys"][-1]["public"])) for entry in collection["servers"]
    ]
    for one in json.loads(answer)["keys"]:
        server, number, suite = one["server"], one["number"], one["suite"]
        own, public = collection["servers"][server], bytes.fromhex(one["public"])
        key = load_pem_x509_certificate(own["certificate"].encode()).public_key()
        message = signed_key(digest, server, number, suite, public)
        key.verify(bytes.fromhex(one["signature"]), message, ec.ECDSA(hashes.SHA256()))
        if not len(own["keys"]) <= number < 256 or suite != own["keys"][0]["suite"]:
            raise ValueError("a key that is not on this page")
        found[server] = max(found[server], (number, public))
    return found


def withdrawal(digest, keys, name, secret, draw):
    """Section 6: what takes the report of a ticket back, whose id and secret are given."""
    tokens = [token(secret, server) for server in range(len(keys))]
    return report(digest, keys, name, tokens, draw, label="dpmpc v2 withdrawal")


def report(digest, keys, name, plains, draw, label="dpmpc v2 record"):
    """Section 6; `keys` are the number and public key of each server."""
    found = b"\2" + name
    for server, ((number, public), plain) in enumerate(zip(keys, plains, strict=True)):
        info = framed(label, digest, bytes([server]), bytes([number]), name)
        found += bytes([number]) + seal(public, info, plain, X25519PrivateKey.from_private_bytes(draw(32)))
    return found


def contribute(content, digest, row, ticket=None, draw=os.urandom):
    """Return a report of a row, from the bytes of a task file and the digest that somebody vouches for."""
    if sha(content) != digest:
        raise ValueError("another collection than that of this digest")
    collection = json.loads(content)
    task, servers = collection["task"], collection["servers"]
    if collection["format"] != 4 or task["sharing"] != "additive" or task["noising"]["by"] != "servers":
        raise ValueError("not on this page")
    if task["statistic"]["name"].removeprefix("proved-") not in ("rows", "second-moments"):
        raise ValueError("not on this page")
    if collection["authenticated"] != (ticket is not None):
        raise ValueError("a ticket where the collection has a roster, and only there")
    name, secret = (name_of(digest, one := draw(32)), one) if ticket is None else ticket
    plains = payloads(task, digest, name, row, draw)
    if ticket is not None:
        plains = [token(secret, server) + plain for server, plain in enumerate(plains)]
    keys = [(entry["keys"][-1]["number"], bytes.fromhex(entry["keys"][-1]["public"])) for entry in servers]
    return report(digest, keys, name, plains, draw)


# ---------------------------------------------------------------- 10. known answers

DIGEST, ROW = bytes(range(32)), [44.25, 61.5]
COLUMNS = [{"name": "age", "lower": 18.0, "upper": 80.0}, {"name": "income", "lower": 0.0, "upper": 100.0}]


def known_task(kind, bits):
    return {
        "encoding": {"fractional_bits": bits},
        "schema": {"columns": COLUMNS},
        "statistic": {"name": "proved-second-moments" if kind == "proved" else "second-moments"},
        "trust": {"servers": 3},
    }


def drawn(kind):
    """What is drawn, SHA-256("draw" name " " number " " counter) cut to length, and a list of what was."""
    number = iter(range(100))

    def draw(length):
        place = next(number)
        text = b"".join(sha(b"draw %s %d %d" % (kind.encode(), place, block)) for block in range(-(-length // 32)))
        values.append(text[:length].hex())
        return text[:length]

    values = []
    return draw, values


def known_answer(kind, bits):
    private = [X25519PrivateKey.from_private_bytes(sha(b"key %d" % server)) for server in range(3)]
    keys = [(0, key.public_key().public_bytes_raw()) for key in private]
    secret = sha(f"secret {kind}".encode())
    name = name_of(DIGEST, secret)
    draw, values = drawn(kind)
    plains = payloads(known_task(kind, bits), DIGEST, name, ROW, draw)
    ephemeral = [sha(b"ephemeral %s %d" % (kind.encode(), server)) for server in range(3)]
    unused = iter(ephemeral)
    whole = report(DIGEST, keys, name, plains, lambda length: next(unused))
    sizes = [1 + 48 + len(plain) for plain in plains]
    starts = [17 + sum(sizes[:server]) for server in range(4)]

    def flipped(place):
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    first, second, third = (whole[start:stop] for start, stop in itertools.pairwise(starts))
    bad = [
        {"why": "another format", "report": b"\1" + whole[1:], "refused_by": [0, 1, 2]},
        {"why": "a changed id", "report": flipped(1), "refused_by": [0, 1, 2]},
        {"why": "a key that nobody has", "report": flipped(17), "refused_by": [0]},
        {"why": "a changed key of the sender", "report": flipped(18), "refused_by": [0]},
        {"why": "a changed ciphertext", "report": flipped(50), "refused_by": [0]},
        {"why": "a changed tag", "report": flipped(len(whole) - 1), "refused_by": [2]},
        {
            "why": "records of two servers exchanged",
            "report": whole[:17] + second + first + third,
            "refused_by": [0, 1],
        },
        {"why": "a byte too few", "report": whole[:-1], "refused_by": [0, 1, 2]},
        {"why": "a byte too many", "report": whole + b"\0", "refused_by": [0, 1, 2]},
    ]
    return {
        "fractional_bits": bits,
        "secret": secret.hex(),
        "id": name.hex(),
        "private_keys": [key.private_bytes_raw().hex() for key in private],
        "public_keys": [public.hex() for _, public in keys],
        "drawn": values,
        "ephemeral_keys": [key.hex() for key in ephemeral],
        "payloads": [plain.hex() for plain in plains],
        "report": whole.hex(),
        "refused": [{**one, "report": one["report"].hex()} for one in bad],
    }


def known_withdrawal():
    private = [X25519PrivateKey.from_private_bytes(sha(b"key %d" % server)) for server in range(3)]
    keys = [(0, key.public_key().public_bytes_raw()) for key in private]
    name, secret = sha(b"ticket id")[:16], sha(b"ticket secret")
    ephemeral = iter([sha(b"ephemeral withdrawal %d" % server) for server in range(3)])
    body = withdrawal(DIGEST, keys, name, secret, lambda length: next(ephemeral))
    tokens = [token(secret, server).hex() for server in range(3)]
    return {"id": name.hex(), "ticket_secret": secret.hex(), "tokens": tokens, "body": body.hex()}


def vectors():
    answers = {kind: known_answer(kind, bits) for kind, bits in (("plain", 16), ("proved", 9))}
    known = json.loads(VECTORS.read_text())  # a certificate and an encapsulated key, which nobody makes twice
    kept = {name: known[name] for name in ("added_key", "hybrid")}
    return {
        "digest": DIGEST.hex(),
        "columns": COLUMNS,
        "row": ROW,
        "servers": 3,
        **answers,
        "withdrawal": known_withdrawal(),
        **kept,
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
