"""Slow reference of the key derivation: HKDF (RFC 5869) written out with hmac. Run it to write the vectors again."""

import hashlib
import hmac
import json
from pathlib import Path


def hkdf_sha256(key, info, length):
    pseudorandom_key = hmac.new(bytes(32), key, hashlib.sha256).digest()
    output, block, counter = b"", b"", 1
    while len(output) < length:
        block = hmac.new(pseudorandom_key, block + info + bytes([counter]), hashlib.sha256).digest()
        output, counter = output + block, counter + 1
    return output[:length]


def derive(key, label, index, length):
    return hkdf_sha256(key, label + b"\0" + index.to_bytes(8, "little"), length)


def cases():
    labels = ("simulation seed", "sketch", "sketch seed", "noise", "share", "share redraw", "substream")
    labels += ("rademacher", "bernoulli mixing")
    for number, name in enumerate(labels):
        key, label = bytes(range(number, number + 16)), f"dpmpc v1 {name}"
        for index, length in ((0, 16), (1, 16), (2**40 + number, 32)):
            derived = derive(key, label.encode(), index, length).hex()
            yield {"key": key.hex(), "label": label, "index": index, "length": length, "derived": derived}


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "vectors" / "randomness.json"
    path.write_text(json.dumps({"derive": list(cases())}, indent=1) + "\n")
