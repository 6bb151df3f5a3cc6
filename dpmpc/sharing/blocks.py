"""What both schemes do alike: draw keys, cut the work into blocks that fit the cache, and hand ranges to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from dpmpc.errors import InputError
from dpmpc.randomness import KEY_BYTES, Stream
from dpmpc.rings import Words, output

BLOCK = 1 << 16  # elements that are split at once: a block of every share stays in the cache

_LEAST_PARALLEL = 1 << 15  # less than this is done sooner than threads are started


def draw_keys(stream: Stream | None, count: int) -> list[bytes]:
    """Read keys from the stream, by default the operating system's."""
    source = stream or Stream.from_os()
    return [source.bytes(KEY_BYTES) for _ in range(count)]


def outputs(out: Sequence[Words] | None, shape: tuple[int, ...], servers: int) -> list[Words]:
    """Return an array for each share: those of `out`, checked, or new ones."""
    arrays = [None] * servers if out is None else list(out)
    if len(arrays) != servers:
        raise InputError(f"out: {len(arrays)} arrays given, {servers} expected")
    return [output(array, shape) for array in arrays]


def blocks(begin: int, end: int) -> Iterator[slice]:
    """Cut a range of elements."""
    for first in range(begin, end, BLOCK):
        yield slice(first, min(first + BLOCK, end))


def in_parallel(part: Callable[[int, int], None], size: int, threads: int) -> None:
    """Call ``part(begin, end)`` for ranges that make up ``range(size)``, one range per thread."""
    if threads < 1:
        raise InputError(f"threads: {threads} given, at least 1 expected")
    if threads == 1 or size <= _LEAST_PARALLEL:
        part(0, size)
        return
    length = -(-size // threads)
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(part, *limits) for limits in ranges]:
            done.result()
