"""Secret arrays of machine words for MPyC programs: additive shares, and Shamir shares over the field of 2^61 - 1.

Import this module after MPyC::

    from mpyc.runtime import mpc
    from dpmpc.parties.mpyc.secret_arrays import secret_array

    secret = secret_array("additive")        # modulo 2^64; ("additive", "mersenne61") and ("shamir",) modulo 2^61 - 1
    parts = mpc.input(secret(Z))             # uint64 words, an input of every party; senders=[...] for others
    y = S.apply(np.vstack(parts))            # a public matrix times each party's own share: no message
    sums = await mpc.output(y, receivers=0)  # int64, centred; None at the parties that receive nothing

The arrays are MPyC secure types, for `mpc.input`, `mpc.output`, `mpc.gather` and `mpc.returnType`. Additive shares add
up to the secret, and all parties but one may pool theirs, from two parties on, whatever MPyC's threshold is; they can
be added, stacked, sketched and opened, and nothing else. A Shamir array is a subclass of MPyC's own array over that
field, and does what MPyC does with one.

Promised: fewer shares than the sharing needs are uniform and independent of the secret; keys and coefficients come from
the operating system's generator. What a peer sends is a key of 16 bytes, or words of the expected number and range, and
never a pickle. Words that no dealer has masked are not opened. Shamir shares that are opened lie on one polynomial. Not
promised: that parties deal or open what they should (semi-honest); with additive shares the last sender can choose what
a receiver opens. The receivers of an array know all its shares: words of single parties must be added before.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, InputError, MalformedFrame
from dpmpc.base.randomness import KEY_BYTES
from dpmpc.linear.encoding.ring import Ring, ring_named
from dpmpc.linear.sharing import AdditiveSharing, ShamirSharing
from dpmpc.linear.sharing.batch import ArrayShare, SeededShare, Share, open_share
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.current_runtime import receive
from dpmpc.parties.mpyc.word_arrays import as_words, holds_words, share_of, word_array
from dpmpc.release.server import sketch_share

SHARINGS = ("additive", "shamir")
FIELD = ring_named("mersenne61")
Source = str | os.PathLike[str] | Share
_STACKING = frozenset({np.vstack, np.concatenate})


def secret_array(sharing: str = "additive", ring: str | None = None) -> Any:
    """Return the type of secret arrays of a sharing and a ring.

    Parameters
    ----------
    sharing : {"additive", "shamir"}
        Shamir shares need at least three parties, and a threshold of at least 1.
    ring : {"ring64", "mersenne61"}, optional
        Z_2^64, the default of additive shares, or the field of 2^61 - 1, the only one of Shamir shares.

    Raises
    ------
    InputError
        For another sharing or ring, or for Shamir shares of too few parties.
    """
    if sharing not in SHARINGS:
        raise InputError("sharing", f"{sharing!r}", "'additive' or 'shamir'")
    if sharing == "additive":
        return _additive(ring_named(ring or "ring64"))
    if ring not in (None, FIELD.name):
        raise InputError("ring", f"{ring!r}", f"{FIELD.name!r}", condition="with Shamir shares")
    if mpc.threshold < 1:
        raise InputError(
            "-M, -T",
            f"{len(mpc.parties)} parties of whom {mpc.threshold} may pool their shares",
            "at least 3 and 1",
            condition="with Shamir shares (-M3, or additive shares)",
        )
    return _shamir()


class Stacked(Share):
    """Shares of several arrays, one below the other, none of them copied."""

    def __init__(self, parts: Sequence[Share]):
        self._parts, self.ring = parts, parts[0].ring
        self.shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        self.chunk_bytes = min(part.chunk_bytes for part in parts)

    def _rows(self, first: int, count: int) -> Words:
        blocks = []
        for part in self._parts:
            last = min(first + count, part.shape[0])
            if first < last:
                blocks.append(part.rows(first, last - first))
            count -= max(0, last - first)
            first = max(0, first - part.shape[0])
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


class _Opening:
    """How arrays are dealt and opened; the sharing states what a party sends and keeps."""

    ring: ClassVar[Ring]
    shape: tuple[int, ...]
    dealt: bool

    @staticmethod
    def deal(words: Words) -> tuple[list[bytes], Any]:
        """Split words; return a message for each peer, in their order, and this party's share."""
        raise NotImplementedError

    @classmethod
    def read_dealt(cls, data: bytes, shape: tuple[int, ...], sender: int) -> Any:
        """Return the share that a dealer has sent."""
        raise NotImplementedError

    @staticmethod
    def combine(shares: list[Words]) -> Words:
        """Return the secret from the shares of all parties, in their order."""
        raise NotImplementedError

    @classmethod
    def _input(cls, x: list[Any], senders: list[int]) -> list[list[Any]]:
        costs.round("input")  # what is input in one call arrives at once
        return [[_dealt(cls, array, sender) for array in x] for sender in senders]

    @classmethod
    async def _output(cls, x: list[Any], receivers: list[int], threshold: int | None) -> list[Any]:
        for array in x:
            if not isinstance(array, cls):
                raise InputError(
                    "output", f"{type(array).__name__} given with {cls.__name__}, arrays of one type expected"
                )
            if not array.dealt:
                raise InputError(
                    "output",
                    "words of single parties",
                    "a sum with an array that was input or loaded",
                    "nothing masks them",
                )
        opened = [_opened(cls, array, receivers) for array in x]  # each under a program counter of its own
        return [await array_opened for array_opened in opened]


def is_server() -> bool:
    """Return whether this party holds shares; an analyst of `parties.network` runs the same program without any."""
    return bool(mpc.pid < len(mpc.parties))


def words_from(data: bytes, shape: tuple[int, ...], ring: Ring, sender: int) -> Words:
    """Read the words that a party sent: as many as expected, and canonical."""
    if len(data) != 8 * math.prod(shape):
        raise MalformedFrame(f"party {sender} sent {len(data)} bytes, {8 * math.prod(shape)} expected", sender)
    words = np.frombuffer(data, "<u8").reshape(shape)
    if not ring.is_canonical(words):
        raise MalformedFrame(f"party {sender} sent words that are not elements of {ring.name}", sender)
    return cast(Words, words)


def require_all_clients(S: PublicMatrix, shape: tuple[int, ...]) -> None:
    """Refuse an array of some clients only, before anything is computed."""
    S.check_clients(shape, 0)
    if shape[0] != S.columns:
        raise InputError("X", f"{shape[0]} clients", S.columns)


def _peers() -> list[int]:
    return [party.pid for party in mpc.parties if party.pid != mpc.pid]


def _messages(senders: list[int]) -> Any:
    """Return the next message of each of these parties; gathered, as one may have arrived already."""
    return mpc.gather([receive(sender) for sender in senders])


def as_words_of(share: Any) -> Words:
    """Return the words of a share, whatever holds them."""
    if isinstance(share, Share):
        return share.rows(0, share.shape[0])
    return share if isinstance(share, np.ndarray) and share.dtype == np.uint64 else as_words(share)


@mpc.coroutine  # type: ignore[untyped-decorator]
async def _dealt(kind: Any, x: Any, sender: int):  # type: ignore[no-untyped-def]
    """Share an array among all parties: one message of the sender to each of the others."""
    await mpc.returnType((kind, x.shape))
    if not is_server():
        await asyncio.Future()  # an analyst's share never comes; its program counters stay in step with the servers'
    if mpc.pid != sender:
        [data] = await _messages([sender])
        return kind.read_dealt(data, x.shape, sender)
    words = await mpc.gather(x)
    with costs.phase("input"):
        messages, share = kind.deal(kind.ring.require_canonical(as_words_of(words), "input"))
        for peer, data in zip(_peers(), messages, strict=True):
            mpc._send_message(peer, data)
    return share


@mpc.coroutine  # type: ignore[untyped-decorator]
async def _opened(kind: Any, x: Any, receivers: list[int]) -> asyncio.Future:  # type: ignore[type-arg]
    """Open an array: one message of every party to each receiver."""
    shape, by_party = x.shape, {}
    if is_server():  # the analyst's share never comes
        share = await mpc.gather(x)
        with costs.phase("open"):
            by_party[mpc.pid] = np.ascontiguousarray(as_words_of(share))
            for receiver in receivers:
                if receiver != mpc.pid:
                    mpc._send_message(receiver, by_party[mpc.pid].tobytes())
    if mpc.pid not in receivers:
        return None  # type: ignore[return-value]
    costs.round("open")
    arrived = await _messages(_peers())
    with costs.phase("open"):
        for sender, data in zip(_peers(), arrived, strict=True):
            by_party[sender] = words_from(data, shape, kind.ring, sender)
        secret = kind.combine([by_party[party.pid] for party in mpc.parties])
        return kind.ring.lift(secret)  # type: ignore[no-any-return]


@mpc.coroutine  # type: ignore[untyped-decorator]
async def _sketched(kind: Any, S: PublicMatrix, x: Any, threads: int):  # type: ignore[no-untyped-def]
    """Apply a public matrix to this party's share, in a thread, so that the event loop goes on noticing lost peers."""
    await mpc.returnType((kind, (S.rows, x.shape[-1])))
    share = await mpc.gather(x)
    if not isinstance(share, Share):
        share = share_of(share) or ArrayShare(as_words_of(share), kind.ring)
    party = getattr(mpc, "party", None)  # of `dpmpc.parties.network`, whose launcher shows how far it is
    progress = party and party.report_progress

    def work() -> Any:
        return share.finished(sketch_share(S, share, threads=threads, phase=costs.phase, progress=progress))

    return kind.held(work() if mpc.options.no_async else await asyncio.get_running_loop().run_in_executor(None, work))


@functools.cache
def _additive(ring: Ring) -> Any:
    """Return the type of arrays of additive shares."""

    class AdditiveArray(_Opening, mpc.SecureObject):  # type: ignore[misc]
        """An array whose additive shares the parties hold: words, or a `linear.sharing.batch.Share` that gives them.

        Parameters
        ----------
        value : ndarray of uint64, or Share, optional
            This party's words, or its share of an array that was dealt.
        shape : tuple of int, optional
            Of an array whose share comes later.
        """

        __slots__ = ("dealt", "shape")
        __array_ufunc__ = None  # so that NumPy leaves sums to this class

        def __init__(self, value: Any = None, shape: tuple[int, ...] | None = None):
            if value is not None and not isinstance(value, Share | asyncio.Future):
                ring.require_canonical(value, "value")
            self.shape = tuple(value.shape if shape is None else shape)
            self.dealt = value is None or isinstance(value, Share)  # otherwise nothing masks this party's words
            super().__init__(value)

        @staticmethod
        def deal(words: Words) -> tuple[list[bytes], Any]:
            """Split words into a key for each peer and the rest."""
            keys, rest = AdditiveSharing(len(mpc.parties), ring).split_seeded(words)
            return keys, ArrayShare(rest, ring)

        @classmethod
        def read_dealt(cls, data: bytes, shape: tuple[int, ...], sender: int) -> Any:
            """Return the share that a dealer's key stands for; it is expanded when it is read."""
            if len(data) != KEY_BYTES:
                raise MalformedFrame(f"party {sender} sent {len(data)} bytes, a key of {KEY_BYTES} expected", sender)
            return SeededShare(data, shape, ring)

        @staticmethod
        def combine(shares: list[Words]) -> Words:
            """Return the sum of all shares."""
            return AdditiveSharing(len(mpc.parties), ring).combine(shares)

        @staticmethod
        def held(words: Words) -> Any:
            """Return words in the form of this type's shares."""
            return words

        @classmethod
        def load(cls, source: Source, shape: tuple[int, ...]) -> Any:
            """Return the array of which this party's share lies in a file, as `sharing.batch.save_share` writes it."""
            return cls(_loaded(source, shape, ring) if is_server() else None, shape)

        @classmethod
        def summed(cls, words: Words) -> Any:
            """Return the array that all parties' words add up to. They are opened only in a sum with a dealt array."""
            array = cls(words if is_server() else None, words.shape)
            array.dealt = False
            return array

        def sketched_by(self, S: PublicMatrix, *, threads: int = 1) -> Any:
            """Return ``S.apply`` of the secret."""
            require_all_clients(S, self.shape)
            sketch = _sketched(AdditiveArray, S, self, threads)
            sketch.dealt = self.dealt
            return sketch

        def __add__(self, other: Any) -> Any:
            if not isinstance(other, AdditiveArray):
                return NotImplemented
            if other.shape != self.shape:
                raise InputError("+", f"shape {other.shape}", self.shape)
            total = add(self, other)
            total.dealt = self.dealt or other.dealt
            return total

        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if func not in _STACKING or len(args) > 1 or kwargs:
                raise TypeError(f"{func.__name__}: not defined for additive shares; np.vstack of a list is")
            parts = list(args[0])
            if not all(isinstance(part, AdditiveArray) and part.shape[1:] == self.shape[1:] for part in parts):
                raise InputError(func.__name__, f"arrays of this type and of rows {self.shape[1:]} expected")
            whole = stack(parts)
            whole.dealt = all(part.dealt for part in parts)
            return whole

    @mpc.coroutine  # type: ignore[untyped-decorator]
    async def add(a: Any, b: Any):  # type: ignore[no-untyped-def]
        await mpc.returnType((AdditiveArray, a.shape))
        left, right = await mpc.gather(a, b)
        return ring.add(as_words_of(left), as_words_of(right))

    @mpc.coroutine  # type: ignore[untyped-decorator]
    async def stack(parts: list[Any]):  # type: ignore[no-untyped-def]
        await mpc.returnType((AdditiveArray, (sum(part.shape[0] for part in parts), *parts[0].shape[1:])))
        shares = await mpc.gather(parts)
        return Stacked([share if isinstance(share, Share) else ArrayShare(share, ring) for share in shares])

    AdditiveArray.ring = ring
    AdditiveArray.__name__ = f"AdditiveArray({ring.name})"
    return AdditiveArray


@functools.cache
def _shamir() -> Any:
    """Return the type of arrays of Shamir shares: MPyC's own over the field of 2^61 - 1, whose shares stay words."""
    base = mpc.SecFld(modulus=FIELD.modulus).array
    field = base.sectype.field

    class ShamirArray(_Opening, base):  # type: ignore[misc,valid-type]
        """An array of MPyC's over the field of 2^61 - 1, whose shares come and go as words."""

        __slots__ = ()
        ring = FIELD
        dealt = True  # sums of single parties' words are dealt among all

        def __init__(self, value: Any = None, shape: tuple[int, ...] | None = None):
            if isinstance(value, Share):
                value = word_array(field, value)
            elif isinstance(value, np.ndarray) and value.dtype == np.uint64:
                value = word_array(field, FIELD.require_canonical(value, "value"))
            if shape is None and holds_words(value):  # MPyC's constructor would box every word
                self.shape = value.shape
                mpc.SecureObject.__init__(self, value)
            else:
                super().__init__(value, shape)

        @staticmethod
        def deal(words: Words) -> tuple[list[bytes], Any]:
            """Split words into points of polynomials."""
            parts = ShamirSharing(len(mpc.parties), mpc.threshold).split(words)
            return [parts[peer].tobytes() for peer in _peers()], word_array(field, parts[mpc.pid])

        @classmethod
        def read_dealt(cls, data: bytes, shape: tuple[int, ...], sender: int) -> Any:
            """Return the share that a dealer has sent."""
            return word_array(field, words_from(data, shape, FIELD, sender))

        @staticmethod
        def combine(shares: list[Words]) -> Words:
            """Return the secret, after a check that all shares lie on one polynomial."""
            return ShamirSharing(len(mpc.parties), mpc.threshold).combine(shares)

        @staticmethod
        def held(words: Words) -> Any:
            """Return words in the form of this type's shares."""
            return word_array(field, words)

        @classmethod
        def load(cls, source: Source, shape: tuple[int, ...]) -> Any:
            """Return the array of which this party's share lies in a file, as `sharing.batch.save_share` writes it."""
            return cls(_loaded(source, shape, FIELD)) if is_server() else cls(None, shape)

        @classmethod
        def summed(cls, words: Words) -> Any:
            """Return the array that all parties' words add up to: each deals its own among all."""
            first, *others = mpc.input(cls(words))
            return sum(others, start=first)

        def sketched_by(self, S: PublicMatrix, *, threads: int = 1) -> Any:
            """Return ``S.apply`` of the secret."""
            require_all_clients(S, self.shape)
            return _sketched(ShamirArray, S, self, threads)

    return ShamirArray


def _loaded(source: Source, shape: tuple[int, ...], ring: Ring) -> Share:
    """Return a share, or that of a file, if it has a shape whose sketch is that of an array of the expected one."""
    share = source if isinstance(source, Share) else open_share(source, ring)
    if (*share.shape[:-1], share.finished_width) != tuple(shape):
        raise BatchMismatch(f"share: shape {share.shape} given, {tuple(shape)} expected by the task")
    return share
