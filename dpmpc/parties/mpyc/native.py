"""Public matrices applied to secure arrays of MPyC: by our kernel, on each party's share, without a message.

A sketch is linear and public, so each party applies it to its own share, alone, over any prime field: no secure sum for
each row. ``S.apply(x)`` does so once `dpmpc.parties.mpyc` is imported, and `sketch` gives the result another type. All
else is MPyC's: how x was input, and how the result is opened or computed with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.errors import InputError
from dpmpc.linear.encoding.ring import Mersenne61
from dpmpc.linear.sketching import PublicMatrix
from dpmpc.linear.sketching.public_matrix import secret_appliers
from dpmpc.parties.mpyc.current_runtime import current_runtime
from dpmpc.parties.mpyc.word_arrays import as_words, word_array

P = Mersenne61.modulus


def _modulus(x: Any) -> int:
    """Return the order of the prime field that a secure array computes in."""
    runtime = current_runtime()
    expected = "a secure array of MPyC's SecFld(q), SecInt(l, p=q) or SecFxp(l, f, p=q) expected, q prime"
    kinds = (runtime.SecureFiniteFieldArray, runtime.SecureIntegerArray, runtime.SecureFixedPointArray)
    if not isinstance(x, kinds):
        raise InputError("x", f"{type(x).__name__} given, {expected}")
    field = type(x).sectype.field
    if field.ext_deg != 1 or field.characteristic == 2:
        raise InputError(
            "x", f"a secure array over a field of {field.characteristic}^{field.ext_deg} given, {expected}"
        )
    return int(field.characteristic)


def _entry_bits(secure: Any) -> int | None:
    """Return l of SecInt(l) or SecFxp(l, f), whose elements are at most 2^(l - 1) in size; None for SecFld."""
    return None if issubclass(secure, current_runtime().SecureFiniteFieldArray) else int(secure.sectype.bit_length)


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
                "as_type",
                as_type.__name__,
                f"SecInt or SecFxp over the field and with the fractional bits of x, {given.sectype.__name__},",
            )
        needed = bits + (S.columns - 1).bit_length()
        if here < needed:
            raise InputError(
                "as_type",
                f"{as_type.__name__} of {here} bits",
                f"at least {needed}",
                f"sums of {S.columns} numbers of {bits} bits",
            )
    if bits is not None and S.columns << bits >= modulus:
        raise InputError(
            "x",
            f"{given.sectype.__name__} given, whose field has {modulus.bit_length()} bits, a prime above "
            f"{S.columns} * 2^{bits} expected: sums of {S.columns} clients would wrap around",
        )
    return secure


def sketch(S: PublicMatrix, x: Any, *, first: int = 0, threads: int = 1, as_type: Any = None) -> Any:
    """Return ``S.apply(x)`` of a secure array, in another type where that is needed.

    It adds no noise and promises no privacy: rows must be noised before, as in ``protocols/linear_transform.py``, or
    the sketch after (`dpmpc.parties.noise`).

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
    if hasattr(x, "sketched_by"):  # `dpmpc.parties.mpyc.secret_arrays`
        if first or as_type is not None:
            raise InputError("first, as_type", f"{first}, {as_type}", "none", condition=f"with {type(x).__name__}")
        return x.sketched_by(S, threads=threads)
    runtime, modulus = current_runtime(), _modulus(x)
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
        raise InputError("S", f"{S.columns} clients", "fewer than 2^31", condition="in a field other than 2^61 - 1")
    limbs = -(-modulus.bit_length() // 32)
    data = b"".join([int(element).to_bytes(4 * limbs, "little") for element in share.value.flat])
    digits = np.frombuffer(data, "<u4").reshape(*share.shape, limbs)
    wide = digits.astype(np.uint64).reshape(*share.shape[:-1], share.shape[-1] * limbs)
    sums = S.apply(wide, ring="ring64", first=first, threads=threads).view(np.int64)
    parts = sums.reshape(S.rows, share.shape[-1], limbs).astype(object)
    return np.asarray((parts << (32 * np.arange(limbs)).astype(object)).sum(axis=-1), object)
