"""Slow reference of what reports hold for a server, which writes tests/vectors/reports.json.

It shares no code with dpmpc: HKDF from hmac, AES block by block.
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

REPORT_SHARE = b"dpmpc v1 report share"


def digest_of(collection):
    return hashlib.sha256(json.dumps(collection, sort_keys=True, separators=(",", ":")).encode()).digest()


def hkdf(salt, key, info, length):
    assert length <= 32
    extracted = hmac.new(salt, key, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()[:length]


def expand(key, count):
    encryptor = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()
    stream = b"".join(encryptor.update(block.to_bytes(16, "big")) for block in range((count + 1) // 2))
    return [int.from_bytes(stream[8 * index : 8 * index + 8], "little") for index in range(count)]


def share(digest, server, key, count):
    info = REPORT_SHARE + b"\x00" + server.to_bytes(8, "little")
    return expand(hkdf(digest, key, info, 16), count)


def vectors(collection, copies, width):
    digest = digest_of(collection)
    ids = [bytes(range(16)), bytes(range(100, 116))]
    keys = [hashlib.sha256(b"key" + report_id).digest()[:16] for report_id in ids]
    words = [[(index * 0x9E3779B97F4A7C15 + report) % 2**64 for index in range(copies * width)] for report in range(2)]
    payloads = [b"".join(word.to_bytes(8, "little") for word in report) for report in words]

    def shaped(report):
        return [report[copy * width : (copy + 1) * width] for copy in range(copies)]

    good = [
        {
            "server": 1,
            "ids": [report_id.hex() for report_id in ids],
            "body": b"".join(report_id + key for report_id, key in zip(ids, keys, strict=True)).hex(),
            "words": [shaped(share(digest, 1, key, copies * width)) for key in keys],
        },
        {
            "server": 2,
            "ids": [report_id.hex() for report_id in ids],
            "body": b"".join(report_id + payload for report_id, payload in zip(ids, payloads, strict=True)).hex(),
            "words": [shaped(report) for report in words],
        },
    ]
    whole = ids[0] + keys[0]
    bad = [
        {"why": "nothing", "server": 1, "body": ""},
        {"why": "half a record", "server": 1, "body": whole[:20].hex()},
        {"why": "a byte too many", "server": 1, "body": (whole + b"\x00").hex()},
        {"why": "a key where words belong", "server": 2, "body": whole.hex()},
        {"why": "a pickle", "server": 1, "body": (b"\x80\x04\x95" + bytes(45)).hex()},
    ]
    return {"collection": collection, "digest": digest.hex(), "good": good, "bad": bad}


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "vectors" / "reports.json"
    known = json.loads(path.read_text())
    written = vectors(known["collection"], known["copies"], known["width"])
    path.write_text(json.dumps({**written, "copies": known["copies"], "width": known["width"]}, indent=1) + "\n")
