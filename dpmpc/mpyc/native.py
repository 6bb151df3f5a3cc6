"""Sketch secure arrays in a program of MPyC's own, started by MPyC's own launcher, with its options and its trust.

A sketch is linear and public, so each party applies it to its own share, alone (`sketch`): no message, and the Cython
kernel on whole arrays instead of a secure sum for each row. The field is that of p = 2^61 - 1. `shared` is the way in,
for field elements or, by our fixed-point encoding, for floats; `open_sketch` the way out. What is between is MPyC's::

    from mpyc.runtime import mpc
    from dpmpc.mpyc import open_sketch, shared, sketch

    async def main():
        async with mpc:
            parts = shared(rows, encoding=FixedPoint(16, "mersenne61"))   # an input of every party
            y = await sketch(S, mpc.np_vstack(parts))
            print(await open_sketch(S, y, encoding=FixedPoint(16, "mersenne61")))

**What this way does not have**, and a program on `dpmpc.network` has. MPyC's array protocols send and read *pickles*,
by which a party can make another run any code; here `shared` sends plain words, but `mpc.output`, products and
``mpc.shutdown`` do not. Without ``--ssl`` nothing is encrypted; with it a certificate is not bound to a party's number,
so that party 2 may call itself party 0. The listening port is open on all interfaces. No wait has an end: a party that
is missing or killed leaves the others waiting. There is no agreed task, whose digest every frame bears. Wrong shares
are not noticed: `mpc.output` takes t + 1 of them and does not look at the others, and products are not checked. So the
parties must follow the protocol and trust each other's machines; what t of them see tells nothing all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.encoding import FixedPoint, Mersenne61
from dpmpc.errors import InputError
from dpmpc.sharing import ShamirSharing
from dpmpc.sketching import PublicMatrix

Words = NDArray[np.uint64]
P = Mersenne61.modulus


def _runtime() -> Any:
    """Return the runtime that secure arrays of this process compute on: ``mpyc.runtime.mpc``."""
    module = sys.modules.get("mpyc.runtime")
    if module is None:
        raise InputError("mpc: no runtime given, 'from mpyc.runtime import mpc' expected before secure arrays are used")
    return module.mpc


def _require_array(x: Any) -> Any:
    """Return x if it is a secure array over Z_p."""
    runtime = _runtime()
    expected = "a secure array of MPyC's SecFld(2^61 - 1) expected"
    if not isinstance(x, runtime.SecureFiniteFieldArray):
        raise InputError(f"x: {type(x).__name__} given, {expected}")
    if type(x).sectype.field.order != P:
        raise InputError(f"x: a secure array over a field of {type(x).sectype.field.order} elements given, {expected}")
    return x


async def sketch(S: PublicMatrix, x: Any, *, first: int = 0, threads: int = 1) -> Any:
    """Return the secure array of ``S.apply(x)``: unscaled, exact, and computed without a message.

    It adds no noise and promises no privacy: rows have to be noised before, as in ``protocols/native_transform.py``.
    `shared` makes the secure array of words or floats, `open_sketch` opens and scales the result.

    Parameters
    ----------
    S : PublicMatrix
        k x n, the same at all parties.
    x : SecureArray
        Of MPyC's ``SecFld(2^61 - 1)``, of shape (m, p), (m, 1, p) or (m, s, p).
    first : int
        The client of the first row; sketches of several parts add up to that of the whole.
    threads : int
        Of the kernel.

    Returns
    -------
    SecureArray
        Of the type of x and shape (k, p).

    Raises
    ------
    InputError
        If x is anything else, or of a shape that S does not take.
    """
    x = _require_array(x)
    share = await _runtime().gather(x)
    words = share.value.astype(np.uint64)
    sums = S.apply(words, ring="mersenne61", first=first, threads=threads)
    return _secure(type(x), sums)


def shared(
    values: NDArray[np.uint64] | NDArray[np.float64],
    *,
    encoding: FixedPoint | None = None,
    senders: Sequence[int] | None = None,
) -> list[Any]:
    """Share arrays of the parties, as `mpc.input` does, but by our kernel and as plain words instead of pickles.

    Parameters
    ----------
    values : ndarray of uint64 or float64
        What this party shares, field elements or numbers in [-1, 1]. Whoever sends nothing gives an array of the same
        type and shape.
    encoding : FixedPoint, optional
        For float64: with the ring "mersenne61".
    senders : sequence of int, optional
        All parties by default.

    Returns
    -------
    list of SecureArray
        One for each sender, of the shape of `values`, over ``SecFld(2^61 - 1)``.

    Raises
    ------
    InputError
        If floats come without an encoding, an element is not canonical, or the threshold is 0 among several parties:
        each would then see every input.
    """
    runtime = _runtime()
    words = _words(values, encoding)
    parties, threshold = len(runtime.parties), runtime.threshold
    if threshold == 0 and parties > 1:
        raise InputError(
            f"threshold: 0 given for {parties} parties, at least 1 expected: each would see every input (-M3 or more)"
        )
    secure = runtime.SecFld(P).array
    everybody = list(range(parties)) if senders is None else list(senders)

    @runtime.coroutine  # it would take an annotation for a secure type
    async def distribute():  # type: ignore[no-untyped-def]
        await runtime.returnType((secure, words.shape), len(everybody))
        received: list[Any] = []
        for sender in everybody:
            if sender == runtime.pid:
                parts = [words] if parties == 1 else ShamirSharing(parties, threshold).split(words)
                for peer, part in enumerate(parts):
                    if peer != runtime.pid:
                        runtime._send_message(peer, part.tobytes())
                received.append(parts[runtime.pid].tobytes())
            else:
                received.append(runtime._receive_message(sender))
        return [_field_array(secure, _from_bytes(data, words.shape)) for data in await runtime.gather(received)]

    arrays: list[Any] = distribute()
    return arrays


async def open_sketch(
    S: PublicMatrix, y: Any, *, encoding: FixedPoint | None = None, receivers: Sequence[int] | None = None
) -> Words | NDArray[np.float64] | None:
    """Open what `sketch` returned.

    Parameters
    ----------
    S : PublicMatrix
        For its scale.
    y : SecureArray
        Over ``SecFld(2^61 - 1)``.
    encoding : FixedPoint, optional
        That of the inputs.
    receivers : sequence of int, optional
        All parties by default.

    Returns
    -------
    ndarray or None
        Field elements, as those of `S.apply`; with an encoding float64, scaled, as those of ``S @ x`` of the encoded
        numbers. None at a party that receives nothing.
    """
    opened = await _runtime().output(_require_array(y), receivers=receivers)
    if opened is None:
        return None
    words: Words = opened.value.astype(np.uint64)
    if encoding is None:
        return words
    return encoding.decode(Mersenne61().lift(words)) * S.scale


def _words(values: Any, encoding: FixedPoint | None) -> Words:
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        if encoding is None or encoding.ring != Mersenne61():
            raise InputError(f"encoding: {encoding!r} given, FixedPoint(f, 'mersenne61') expected with float64 values")
        return encoding.ring.embed(encoding.encode(values))
    if encoding is not None:
        raise InputError(f"values: {getattr(values, 'dtype', type(values).__name__)} given, float64 expected")
    return Mersenne61().require_canonical(values, "values")


def _from_bytes(data: bytes, shape: tuple[int, ...]) -> Words:
    """Read a peer's share: as many canonical words as expected, or an error."""
    words = np.frombuffer(data, np.uint64)
    if words.size != int(np.prod(shape)):
        raise InputError(f"share: {words.size} words given, an array of shape {shape} expected at all parties")
    return Mersenne61().require_canonical(words.reshape(shape), "share")


def _field_array(secure: Any, words: Words) -> Any:
    """Return words as MPyC's field array, which holds Python integers: NumPy's would wrap around at 2^64."""
    return secure.sectype.field.array(words.astype(object), check=False)


def _secure(secure: Any, words: Words) -> Any:
    return secure(_field_array(secure, words))
