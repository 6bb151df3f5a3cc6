"""Sketch secure arrays in a program of MPyC's own, started by MPyC's own launcher, with its options and its trust.

A sketch is linear and public, so each party applies it to its own share, alone (`sketch`): no message, and the Cython
kernel on whole arrays instead of a secure sum for each row, over any prime field. `shared` is the way in, for elements
of the field of 2^61 - 1 or, by our fixed-point encoding, for floats; `open_sketch` the way out; `noise` adds what the
parties draw for a release with a guarantee. What is between is MPyC's, whose own inputs are taken as well::

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
from dpmpc.mpyc.word_arrays import as_words, word_array
from dpmpc.sharing import ShamirSharing
from dpmpc.sketching import PublicMatrix
from dpmpc.sketching.public_matrix import secret_appliers

Words = NDArray[np.uint64]
P = Mersenne61.modulus


def running() -> Any:
    """Return the runtime that secure arrays of this process compute on: ``mpyc.runtime.mpc``."""
    module = sys.modules.get("mpyc.runtime")
    if module is None:
        raise InputError("mpc: no runtime given, 'from mpyc.runtime import mpc' expected before secure arrays are used")
    return module.mpc


def _modulus(x: Any) -> int:
    """Return the order of the prime field that a secure array computes in."""
    runtime = running()
    expected = "a secure array of MPyC's SecFld(q), SecInt(l, p=q) or SecFxp(l, f, p=q) expected, q prime"
    kinds = (runtime.SecureFiniteFieldArray, runtime.SecureIntegerArray, runtime.SecureFixedPointArray)
    if not isinstance(x, kinds):
        raise InputError(f"x: {type(x).__name__} given, {expected}")
    field = type(x).sectype.field
    if field.ext_deg != 1 or field.characteristic == 2:
        raise InputError(f"x: a secure array over a field of {field.characteristic}^{field.ext_deg} given, {expected}")
    return int(field.characteristic)


def _entry_bits(secure: Any) -> int | None:
    """Return l of SecInt(l) or SecFxp(l, f), whose elements are at most 2^(l - 1) in size; None for SecFld."""
    return None if issubclass(secure, running().SecureFiniteFieldArray) else int(secure.sectype.bit_length)


def _result_type(S: PublicMatrix, x: Any, modulus: int, as_type: Any) -> Any:
    """Return the type of the sketch's secure array, if no sum can leave its range.

    A client meets a row of S at most once, with a sign, so that n clients' sums are at most n 2^(l - 1) in size.
    """
    given = type(x)
    secure = given if as_type is None else as_type.array
    bits = _entry_bits(given)
    if secure is not given:
        here, there = _entry_bits(secure), getattr(secure.sectype, "frac_length", 0)
        same = secure.sectype.field.modulus == modulus and there == getattr(given.sectype, "frac_length", 0)
        if bits is None or here is None or not same:
            raise InputError(
                f"as_type: {as_type.__name__} given, SecInt or SecFxp over the field and with the fractional bits of "
                f"x, {given.sectype.__name__}, expected"
            )
        needed = bits + (S.columns - 1).bit_length()
        if here < needed:
            raise InputError(
                f"as_type: {as_type.__name__} of {here} bits given, at least {needed} expected: sums of {S.columns} "
                f"numbers of {bits} bits"
            )
    if bits is not None and S.columns << bits >= modulus:
        raise InputError(
            f"x: {given.sectype.__name__} given, whose field has {modulus.bit_length()} bits, a prime above "
            f"{S.columns} * 2^{bits} expected: sums of {S.columns} clients would wrap around"
        )
    return secure


async def sketch(S: PublicMatrix, x: Any, *, first: int = 0, threads: int = 1, as_type: Any = None) -> Any:
    """Return ``S.apply(x)`` of a secure array, in another type where that is needed.

    It adds no noise and promises no privacy: rows have to be noised before, as in ``protocols/linear_transform.py``, or
    the sketch after (`dpmpc.mpyc.noise`). `shared` makes the secure array of words or floats, `open_sketch` opens and
    scales the result.

    Parameters
    ----------
    S : PublicMatrix
        k x n, the same at all parties.
    x : SecureArray
        Of MPyC's ``SecFld(q)``, ``SecInt(l, p=q)`` or ``SecFxp(l, f, p=q)`` for any prime q > 2, of shape (m, p),
        (m, 1, p) or (m, s, p). The kernel takes q = 2^61 - 1 as it is, and other fields in limbs of 32 bits.
    first : int
        The client of the first row; sketches of several parts add up to that of the whole.
    threads : int
        Of the kernel.
    as_type : type, optional
        ``SecInt(l', p=q)`` or ``SecFxp(l', f, p=q)`` for the result. The sums of n clients have up to log2(n) bits more
        than their numbers. Opening them is exact in the type of x too; MPyC's comparisons, products of fixed-point
        numbers and truncations need a type that has those bits.

    Returns
    -------
    SecureArray
        Of the type of x, or `as_type`, and shape (k, p).

    Raises
    ------
    InputError
        If x is anything else, or of a shape that S does not take, or if sums of SecInt or SecFxp might leave the range
        of q or `as_type`. The range of elements of SecFld is not known: their sums are those of the field.
    """
    return applied(S, x, first=first, threads=threads, as_type=as_type)


def applied(S: PublicMatrix, x: Any, *, first: int = 0, threads: int = 1, as_type: Any = None) -> Any:
    """Return the secure array of ``S.apply(x)``: unscaled, exact, and computed without a message.

    It is what `S.apply` calls. Parameters and errors are those of `sketch`.
    """
    if hasattr(x, "sketched_by"):  # `dpmpc.mpyc.secret_arrays`
        return x.sketched_by(S, threads=threads)
    runtime, modulus = running(), _modulus(x)
    secure = _result_type(S, x, modulus, as_type)
    S.check_clients(x.shape, first)
    integral = [x.integral] if hasattr(x, "integral") else []

    @runtime.coroutine
    async def sketched():  # type: ignore[no-untyped-def]
        await runtime.returnType((secure, *integral, (S.rows, x.shape[-1])))
        share = await runtime.gather(x)
        if modulus == P:
            sums = S.apply(as_words(share), ring="mersenne61", first=first, threads=threads)
            return word_array(share.field, sums)
        return share.field.array(_apply_in_limbs(S, share, modulus, first, threads))

    return sketched()


secret_appliers["mpyc"] = applied


def _apply_in_limbs(S: PublicMatrix, share: Any, modulus: int, first: int, threads: int) -> NDArray[np.object_]:
    """Apply S to elements of any prime field, through sums of 32-bit limbs that are exact as signed integers.

    x = sum_j x_j 2^(32 j), so that S x = sum_j (S x_j) 2^(32 j); no |S x_j| exceeds n 2^32 < 2^63.
    """
    if S.columns >= 1 << 31:
        raise InputError(f"S: {S.columns} clients given, fewer than 2^31 expected in a field other than 2^61 - 1")
    limbs = -(-modulus.bit_length() // 32)
    data = b"".join([int(element).to_bytes(4 * limbs, "little") for element in share.value.flat])
    digits = np.frombuffer(data, "<u4").reshape(*share.shape, limbs)
    wide = digits.astype(np.uint64).reshape(*share.shape[:-1], share.shape[-1] * limbs)
    sums = S.apply(wide, ring="ring64", first=first, threads=threads).view(np.int64)
    parts = sums.reshape(S.rows, share.shape[-1], limbs).astype(object)
    return np.asarray((parts << (32 * np.arange(limbs)).astype(object)).sum(axis=-1), object)


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
    runtime = running()
    words = _words(values, encoding)
    parties, threshold = len(runtime.parties), runtime.threshold
    if threshold == 0 and parties > 1:
        raise InputError(
            f"threshold: 0 given for {parties} parties, at least 1 expected: each would see every input (-M3 or more)"
        )
    secure = runtime.SecFld(modulus=P).array  # of an order MPyC looks for the prime anew, at 5 ms a call
    everybody = list(range(parties)) if senders is None else list(senders)

    @runtime.coroutine  # it would take an annotation for a secure type
    async def distribute():  # type: ignore[no-untyped-def]
        await runtime.returnType((secure, words.shape), len(everybody))
        received: list[Any] = []
        for sender in everybody:
            if sender == runtime.pid:
                parts = [words.copy()] if parties == 1 else ShamirSharing(parties, threshold).split(words)
                for peer, part in enumerate(parts):
                    if peer != runtime.pid:
                        runtime._send_message(peer, part.tobytes())
                mine = parts[runtime.pid]
            else:
                received.append(runtime._receive_message(sender))
        others = iter(await runtime.gather(received))
        shares = [mine if who == runtime.pid else _from_bytes(next(others), words.shape) for who in everybody]
        return [word_array(secure.sectype.field, share) for share in shares]

    arrays: list[Any] = distribute()
    return arrays


async def open_sketch(
    S: PublicMatrix, y: Any, *, encoding: FixedPoint | None = None, receivers: Sequence[int] | None = None
) -> NDArray[Any] | None:
    """Open what `sketch` returned.

    Parameters
    ----------
    S : PublicMatrix
        For its scale.
    y : SecureArray
        Of a type that `sketch` takes.
    encoding : FixedPoint, optional
        That of the inputs, over ``SecFld(2^61 - 1)``.
    receivers : sequence of int, optional
        All parties by default.

    Returns
    -------
    ndarray or None
        Unscaled integers between -q/2 and q/2, int64, or Python integers where q has more than 64 bits. Of fixed-point
        numbers, and with an encoding, float64, scaled, as ``S @ x``. None at a party that receives nothing.

    Raises
    ------
    InputError
        If y is anything else, or an encoding is given for anything but elements of ``SecFld(2^61 - 1)``.
    """
    modulus = _modulus(y)
    if encoding is not None and (modulus != P or encoding.ring != Mersenne61() or _entry_bits(type(y)) is not None):
        raise InputError(
            f"encoding: {encoding!r} given with {type(y).sectype.__name__}, FixedPoint(f, 'mersenne61') of elements of "
            "SecFld(2^61 - 1) expected, or none"
        )
    opened = await running().output(y, receivers=receivers, raw=True)
    if opened is None:
        return None
    signed = opened.signed_()
    if encoding is not None:
        return encoding.decode(signed.astype(np.int64)) * S.scale
    if hasattr(y, "integral"):
        return np.asarray((signed / 2**y.frac_length).astype(np.float64) * S.scale)
    return np.asarray(signed.astype(np.int64) if modulus.bit_length() <= 64 else signed)


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
