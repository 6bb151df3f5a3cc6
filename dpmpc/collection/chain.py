"""Chains of hashes over the rows of a store: a row that has changed, or is missing, no longer fits the chain.

Link i is SHA-256(label || link i-1 || fields of row i), and link 0 is 32 zero bytes. The store keeps each row's link
beside it, and the last link with the number of rows in a place of its own, the *head*.

Promised: whatever bit of a row, a link or the head changes, the links no longer agree. Not promised: that a forger is
noticed, who computes all links anew; a store lies in a private folder, and this is for disks that fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dpmpc.randomness import Label

START = bytes(32)
Field = int | float | str | bytes | None


def link(label: Label, previous: bytes, fields: Iterable[Field]) -> bytes:
    """Return the link of a row.

    Parameters
    ----------
    label : Label
        Of the store.
    previous : bytes
        The link of the row before, or `START`.
    fields : iterable
        What the row holds; the kind and the length of each are hashed too.
    """
    return hashlib.sha256(label.value + previous + b"".join(map(_framed, fields))).digest()


def links(label: Label, rows: Iterable[Sequence[Field]]) -> list[bytes]:
    """Return the links of all rows, in their order."""
    chain: list[bytes] = []
    for fields in rows:
        chain.append(link(label, chain[-1] if chain else START, fields))
    return chain


def first_difference(kept: Sequence[object], expected: Sequence[bytes]) -> int | None:
    """Return the index of the first row whose link is not the one that was kept; None if there is none."""
    for index, (one, other) in enumerate(zip(kept, expected, strict=True)):
        if one != other:
            return index
    return None


def _framed(value: Field) -> bytes:
    content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return f"{type(value).__name__}:{len(content)}:".encode() + content
