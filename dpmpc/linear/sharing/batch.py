"""One server's share of a batch: an array, or a 16-byte key that stands for one; in memory or in a file.

A key stands for uniform elements. Element e, in C order, is word e of the key's AES-128-CTR key stream: bytes 8 e to
8 e + 7, little-endian; the counter block is the 128-bit big-endian block number, from 0. In Z_2^64 the word is the
element. In Z_p, p = 2^61 - 1, the element is the low 61 bits of the word; where these make p, it is the low 61 bits of
the first word that does not in the key stream of ``derive(key, Label.SHARE_REDRAW, e)``, read from word 0. So elements
are exactly uniform and any of them can be read without the others.

Promised: a file that is truncated, too long or not one of the two formats is an `InputError`; no pickle is read; files
are readable by their owner only. Not promised: that a file was not changed by somebody who may write to it.

What both schemes do alike: draw keys, cut the work into blocks that fit the cache, and hand ranges to threads.
"""

from __future__ import annotations

import abc
import io
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import msgspec
import numpy as np

from dpmpc.base.arguments import require_bytes, require_whole
from dpmpc.base.arrays import Bytes, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import KEY_BYTES, Label, Stream, fill_key_streams
from dpmpc.base.storage.npy_headers import MAGIC, MOST_AXES
from dpmpc.base.system import drop_from_cache, reserve
from dpmpc.base.untrusted import ReadError, open_regular, read_json
from dpmpc.linear.encoding.ring import Ring, elements, output, ring_named

SHARE_FILE = "share"  # of a server, in its folder
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
        raise InputError("out", f"{len(arrays)} arrays", servers)
    return [output(array, shape) for array in arrays]


def blocks(begin: int, end: int) -> Iterator[slice]:
    """Cut a range of elements."""
    for first in range(begin, end, BLOCK):
        yield slice(first, min(first + BLOCK, end))


def in_parallel(part: Callable[[int, int], None], size: int, threads: int) -> None:
    """Call ``part(begin, end)`` for ranges that make up ``range(size)``, one range per thread."""
    require_whole("threads", threads, 1)
    if threads == 1 or size <= _LEAST_PARALLEL:
        part(0, size)
        return
    length = -(-size // threads)
    ranges = [(begin, min(begin + length, size)) for begin in range(0, size, length)]
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(part, *limits) for limits in ranges]:
            done.result()


_WORD = "<u8"
_LONGEST_SEEDED_FILE = 4096
_MOST_ELEMENTS = 1 << 60
_KEPT_BYTES = 1 << 30  # of a file that may stay in the system's page cache: what is read once only drives out the rest


class Expansion:
    """The uniform elements of a key stream, read in order.

    Parameters
    ----------
    stream : Stream
        The key's stream; nothing else may read it.
    ring : Ring
        What the words become.
    first : int
        Element to begin with.
    """

    def __init__(self, stream: Stream, ring: Ring, first: int = 0):
        self._stream, self._ring, self._next = stream, ring, first
        block, skipped = divmod(first, 2)
        stream.seek_block(block)
        stream.words(skipped)

    def read(self, out: Words) -> None:
        """Overwrite a flat contiguous array with the next elements."""
        first = self._next
        self._stream.fill(out)
        self._ring.from_words(out, lambda index: self._stream.substream(first + index, Label.SHARE_REDRAW))
        self._next += out.size


def expand(key: bytes, shape: tuple[int, ...], ring: Ring | type[Ring] | str = "ring64", first: int = 0) -> Words:
    """Return leading rows of the share that a key stands for.

    Parameters
    ----------
    key : bytes
        16 bytes.
    shape : tuple of int
        Shape of the result: number of rows, then the shape of a row.
    ring : Ring, class or name
        Ring or field of the elements.
    first : int
        First row.

    Returns
    -------
    ndarray of uint64
        Rows ``first`` to ``first + shape[0] - 1``.
    """
    require_whole("first", first, 0)
    out = np.empty(shape, np.uint64)
    Expansion(Stream(key), ring_named(ring), first * math.prod(shape[1:])).read(out.reshape(-1))
    return out


def expand_many(keys: Bytes, count: int, ring: Ring | type[Ring] | str = "ring64") -> Words:
    """Return the first `count` elements (n, count) that each of n keys (n, 16) stands for, as `expand` does."""
    ring = ring_named(ring)
    words = np.empty((len(keys), count), "<u8")
    fill_key_streams(keys, words)
    words = words.astype(np.uint64, copy=False)

    def redraw(index: int) -> Stream:
        row, element = divmod(index, count)
        return Stream(keys[row].tobytes()).substream(element, Label.SHARE_REDRAW)

    if words.size:
        ring.from_words(words.reshape(-1), redraw)
    return words


def npy_header(shape: tuple[int, ...]) -> bytes:
    """Return what precedes the words in a ``.npy`` file of uint64."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": _WORD, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


class Share(abc.ABC):
    """One server's share, read in chunks of leading rows.

    Attributes
    ----------
    shape : tuple of int
        Shape of the whole share; the first axis is the clients'.
    ring : Ring
        Ring or field of the elements.
    chunk_bytes : int
        How much is best read at once, at most.
    """

    shape: tuple[int, ...]
    ring: Ring
    chunk_bytes: int = 1 << 30

    @property
    def finished_width(self) -> int:
        """Words of what `finished` makes of a sum of rows."""
        return self.shape[-1]

    def finished(self, sums: Words) -> Words:
        """Return the sums (k, width) of contributions of those of rows, which are contributions by default."""
        return sums

    def rows(self, first: int, count: int) -> Words:
        """Return rows ``first`` to ``first + count - 1``; do not write to them.

        Raises
        ------
        InputError
            If there are no such rows, or an element is not canonical.
        """
        if first < 0 or count < 0 or first + count > self.shape[0]:
            raise InputError("first, count", f"{first}, {count}", f"rows within {self.shape[0]}")
        return self._rows(first, count)

    @abc.abstractmethod
    def _rows(self, first: int, count: int) -> Words: ...

    def write(self, file: IO[bytes]) -> None:
        """Write the share in the format that `open_share` reads, here ``.npy``, a block of rows at a time."""
        file.write(npy_header(self.shape))
        step = max(1, BLOCK // max(1, math.prod(self.shape[1:])))
        for first in range(0, self.shape[0], step):
            rows = self.rows(first, min(step, self.shape[0] - first))
            file.write(np.ascontiguousarray(rows, _WORD).data)


class ArrayShare(Share):
    """A share that is an array in memory."""

    def __init__(self, array: Words, ring: Ring | type[Ring] | str = "ring64"):
        self.array = elements(array, "array")
        if array.ndim == 0:
            raise InputError("array", "a single element", "at least one axis")
        self.ring = ring_named(ring)
        self.shape = array.shape

    def _rows(self, first: int, count: int) -> Words:
        return self.ring.require_canonical(self.array[first : first + count], "share")

    def write(self, file: IO[bytes]) -> None:
        """Write the array as ``.npy``."""
        np.save(file, self.array, allow_pickle=False)


class FileShare(Share):
    """A share in a ``.npy`` file; only the rows that are requested are in memory.

    Rows are read, not mapped: mapped pages would count as this process's memory and be fetched one fault at a time.
    Those of a large file leave the system's page cache at once, which is not only polite: the system then reuses a few
    pages, in a quarter of the time that it takes to fill its memory with new ones.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], offset: int, ring: Ring):
        self.path, self.shape, self.ring = path, shape, ring
        self._offset = offset

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], shape: tuple[int, ...], ring: Ring | type[Ring] | str = "ring64"
    ) -> FileShare:
        """Make a file of zeros, readable by its owner only (0600), whose rows are then written in blocks.

        Its space is taken at once: a disk that is too small is noticed before any client has done its work.

        Parameters
        ----------
        path : path
            What was there is replaced.
        shape : tuple of int
            Shape of the whole share; the first axis is the clients'.
        ring : Ring, class or name
            Ring or field of the elements.
        """
        with _private_file(path) as file:
            offset = file.write(npy_header(shape))
            file.flush()
            size = offset + 8 * math.prod(shape)
            try:
                reserve(file.fileno(), size)
            except OSError as error:
                raise InputError("path", f"{path} cannot take {size} bytes: {error.strerror}") from error
        return cls(Path(path), shape, offset, ring_named(ring))

    def __setitem__(self, rows: slice, block: Words) -> None:
        """Write consecutive rows."""
        first, last, _ = rows.indices(self.shape[0])
        expected = (last - first, *self.shape[1:])
        if block.shape != expected:
            raise InputError("block", f"shape {block.shape}", expected, condition=f"for rows {first} to {last - 1}")
        with self.path.open("r+b") as file:
            file.seek(self._offset + 8 * first * math.prod(self.shape[1:]))
            elements(block, "block").astype(_WORD, copy=False).tofile(file)

    def _rows(self, first: int, count: int) -> Words:
        width = math.prod(self.shape[1:])
        start = self._offset + 8 * first * width
        with self.path.open("rb") as file:
            words = np.fromfile(file, np.uint64, count * width, offset=start)
            if 8 * math.prod(self.shape) > _KEPT_BYTES:
                drop_from_cache(file.fileno(), start, words.nbytes)
        if words.size != count * width:
            raise InputError("path", f"{self.path} ended early: rows {first} to {first + count - 1} expected")
        return self.ring.require_canonical(words.reshape(count, *self.shape[1:]), "share")

    def write(self, file: IO[bytes]) -> None:
        """Copy the file."""
        with self.path.open("rb") as source:
            shutil.copyfileobj(source, file)


class SeededShare(Share):
    """A share that is a 16-byte key: `expand` gives its rows."""

    def __init__(self, key: bytes, shape: tuple[int, ...], ring: Ring | type[Ring] | str = "ring64"):
        require_bytes("key", key, KEY_BYTES)
        if not shape or len(shape) > MOST_AXES or min(shape) < 0 or math.prod(shape) > _MOST_ELEMENTS:
            raise InputError("shape", shape, f"1 to {MOST_AXES} axes and at most {_MOST_ELEMENTS} elements")
        self.key = bytes(key)
        self.ring = ring_named(ring)
        self.shape = tuple(shape)

    def _rows(self, first: int, count: int) -> Words:
        return expand(self.key, (count, *self.shape[1:]), self.ring, first)

    def write(self, file: IO[bytes]) -> None:
        """Write one line of JSON with the ring and the shape, then the key."""
        header = _SeededHeader(format="dpmpc seeded share", version=1, ring=self.ring.name, shape=self.shape)
        file.write(msgspec.json.encode(header) + b"\n" + self.key)


class _SeededHeader(msgspec.Struct, forbid_unknown_fields=True):
    format: Literal["dpmpc seeded share"]
    version: Literal[1]
    ring: str
    shape: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]


def save_share(path: str | os.PathLike[str], share: Share) -> None:
    """Write a share to a file that only its owner may read (0600), replacing what was there.

    An array is written as ``.npy``. A seeded share is one line of JSON, ``{"format", "version", "ring", "shape"}``, and
    the 16 bytes of the key.
    """
    with _private_file(path) as file:
        share.write(file)


def open_share(path: str | os.PathLike[str], ring: Ring | type[Ring] | str = "ring64") -> Share:
    """Open a file of `save_share`; an array stays on disk, so that a chunk costs the memory of a chunk.

    Parameters
    ----------
    path : path
        The content decides which format it is.
    ring : Ring, class or name
        Ring or field that the caller expects.

    Raises
    ------
    InputError
        If the file cannot be read, is malformed or holds elements of another ring. Elements of an array are checked
        when their rows are read.
    """
    path, expected = Path(path), ring_named(ring)
    try:
        with open_regular(path) as file:
            start = file.read(_LONGEST_SEEDED_FILE + 1)
    except OSError as error:
        raise InputError("path", f"{path} cannot be read: {error.strerror}") from error
    except ReadError as error:
        raise InputError("path", f"{path} cannot be read: {error}") from error
    if start.startswith(MAGIC):
        return _open_array(path, expected)
    return _read_seeded(path, start, expected)


def _private_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open an empty file for writing that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(descriptor, 0o600)  # a file that was there kept its mode
    return open(descriptor, "wb")


def _open_array(path: Path, ring: Ring) -> FileShare:
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # whatever NumPy's parser stumbles over in somebody else's bytes
        raise InputError("path", f"{path} is not a readable .npy file: {error}") from error
    if array.dtype != np.uint64 or array.ndim == 0 or not array.flags.c_contiguous:
        found = f"{array.dtype}, {array.ndim} axes"
        raise InputError("path", f"{path} holds {found}; uint64 in C order with at least one axis expected")
    length = path.stat().st_size
    if length != array.offset + array.nbytes:
        raise InputError("path", f"{path} has {length} bytes, {array.offset + array.nbytes} expected")
    return FileShare(path, array.shape, array.offset, ring)


def _read_seeded(path: Path, content: bytes, expected: Ring) -> SeededShare:
    header, _, key = content.partition(b"\n")
    try:
        fields = read_json(header, _SeededHeader, largest=_LONGEST_SEEDED_FILE)
        share = SeededShare(key, fields.shape, fields.ring)
    except (ReadError, InputError) as error:
        raise InputError("path", f"{path} is neither .npy nor a seeded share: {error}") from error
    if share.ring != expected:
        raise InputError("path", f"{path} holds a share in {share.ring.name}, {expected.name} expected")
    return share
