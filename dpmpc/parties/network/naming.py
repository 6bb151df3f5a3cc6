"""What messages call the parties of a run: servers in the release of a collection, parties elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

_nouns = ["party"]  # of this process, whose messages are about one kind of run at a time


def called(number: int | None) -> str:
    """Return the name of a party in a message: "party 2"; None is one that has not introduced itself yet."""
    return f"an unknown {_nouns[-1]}" if number is None else f"{_nouns[-1]} {number}"


@contextlib.contextmanager
def parties_are_servers() -> Iterator[None]:
    """Have messages call the parties of this process's run servers."""
    _nouns.append("server")
    try:
        yield
    finally:
        _nouns.pop()
