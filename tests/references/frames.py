"""The frame layout of dpmpc/parties/network/frames.py, written down once more, slowly: the source of
tests/vectors/frames.json.

Run ``python tests/references/frames.py`` to write the vectors anew.
"""

import json
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors" / "frames.json"
TASK = bytes(range(32))
NOTHING, BYTES, WORDS = 0, 1, 2


def little_endian(number, size):
    return bytes((number >> (8 * position)) & 0xFF for position in range(size))


def frame(kind, sender, content=NOTHING, shape=(), payload=b"", **changed):
    """Lay the fields out one after the other; `changed` replaces fields, to make frames that must be refused."""
    fields = {
        "magic": b"dpmpcfrm",
        "version": little_endian(2, 1),
        "kind": little_endian(kind, 1),
        "content": little_endian(content, 1),
        "ndim": little_endian(len(shape), 1),
        "sender": little_endian(sender, 4),
        "task": TASK,
        "length": little_endian(len(payload), 8),
        "shape": b"".join(little_endian(side, 8) for side in shape),
        "payload": payload,
    }
    assert changed.keys() <= fields.keys()
    return b"".join((fields | changed).values())


def words(*numbers):
    return b"".join(little_endian(number, 8) for number in numbers)


def good(name, kind, sender, content, shape, payload, value):
    data = frame(kind, sender, content, shape, payload)
    return {"name": name, "kind": kind, "sender": sender, "content": content, "shape": shape, "value": value,
            "frame": data.hex(), "success": True}  # fmt: skip


def bad(name, error, data):
    return {"name": name, "error": error, "frame": data.hex(), "success": False}


def vectors():
    """Good frames, and bad ones that a receiver refuses who awaits SHARE words of shape (2, 2) from party 1."""
    top = 2**64 - 1
    share = {"kind": 16, "sender": 1, "content": WORDS, "shape": (2, 2), "payload": words(0, 1, 2**63, top)}
    sound = frame(**share)
    return [
        good("hello", 1, 0, NOTHING, (), b"", None),
        good("share", 16, 1, WORDS, (2, 2), share["payload"], [[0, 1], [2**63, top]]),
        good("no words", 16, 2, WORDS, (0, 3), b"", []),
        good("four dimensions", 20, 3, WORDS, (1, 1, 2, 1), words(5, 6), [[[[5], [6]]]]),
        good("bytes", 17, 4, BYTES, (3,), b"\x00\xffA", "00ff41"),
        bad("empty", "MalformedFrame", b""),
        bad("pickle", "MalformedFrame", bytes.fromhex("80049504000000000000008c00942e")),
        bad("one byte short", "MalformedFrame", sound[:-1]),
        bad("one byte long", "MalformedFrame", sound + b"\0"),
        bad("header only", "MalformedFrame", sound[:56]),
        bad("half a header", "MalformedFrame", sound[:30]),
        bad("magic", "MalformedFrame", frame(**share, magic=b"dpmpcfrM")),
        bad("version of 0.3", "MalformedFrame", frame(**share, version=b"\x01")),
        bad("later version", "MalformedFrame", frame(**share, version=b"\x03")),
        bad("kind", "MalformedFrame", frame(**(share | {"kind": 20}))),
        bad("content type", "MalformedFrame", frame(**(share | {"content": BYTES}))),
        bad("unknown content type", "MalformedFrame", frame(**(share | {"content": 9}))),
        bad("transposed shape", "MalformedFrame", frame(**(share | {"shape": (4, 1)}))),
        bad("flat shape", "MalformedFrame", frame(**(share | {"shape": (4,)}))),
        bad("no dimension", "MalformedFrame", frame(**(share | {"shape": ()}))),
        bad("255 dimensions", "MalformedFrame", frame(**share, ndim=b"\xff")),
        bad("announced length", "MalformedFrame", frame(**share, length=little_endian(top, 8))),
        bad("other sender", "PartyImpersonated", frame(**(share | {"sender": 0}))),
        bad("sender beyond all", "PartyImpersonated", frame(**(share | {"sender": 2**32 - 1}))),
        bad("other task", "BatchMismatch", frame(**share, task=bytes(32))),
    ]


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
