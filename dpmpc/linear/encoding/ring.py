"""The two rings of shared integers: the ring Z_2^64 and the prime field Z_p, p = 2^61 - 1.

Promised: exact arithmetic on canonical uint64 elements of any shape, the GIL released; an element that is not
canonical, a wrong dtype or differing shapes are refused before anything is written. Not promised: constant time. The
redraw of a word that is not a field element, once in 2^61 words, takes time that depends on the stream.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from dpmpc._kernels import arithmetic
from dpmpc.base.arrays import Integers, Words
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream

_BLOCK = 1 << 15  # words that are summed at once: they stay in the cache


def elements(array: Words, name: str) -> Words:
    """Return `array` as a C-contiguous array of uint64, or refuse another dtype."""
    if not isinstance(array, np.ndarray) or array.dtype != np.uint64:
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(name, kind, "an array of uint64")
    return np.require(array, requirements="C")


def integers(array: Integers, name: str) -> Integers:
    """Return `array` as a C-contiguous array of int64, or refuse a dtype that does not fit."""
    if not isinstance(array, np.ndarray) or not np.can_cast(array.dtype, np.int64):
        kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(name, kind, "an array of signed integers")
    return np.require(array, np.int64, "C")


class Ring(abc.ABC):
    """Where integers live while they are shared: Z modulo `modulus`, elements held as canonical uint64.

    The operations are elementwise on arrays of equal shape. `out` may be one of the operands; without it a new array
    is returned. Every operation raises `InputError` for a wrong dtype, differing shapes or an element that is not
    canonical.
    """

    name: ClassVar[str]
    modulus: ClassVar[int]
    bits: ClassVar[int]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def embed(self, values: Integers, out: Words | None = None) -> Words:
        """Return the elements that stand for signed integers; one beyond +-(modulus - 1)/2 is refused.

        `out` may be ``values.view(np.uint64)``, or memory apart from it.
        """
        signed = integers(values, "values")
        out = output(out, signed.shape)
        self._embed(signed.reshape(-1), out.reshape(-1))
        return out

    def lift(self, a: Words) -> Integers:
        """Return the centred representatives: the signed integers of least absolute value."""
        a = self.require_canonical(a)
        out = np.empty(a.shape, np.int64)
        self._lift(a.reshape(-1), out.reshape(-1))
        return out

    def add(self, a: Words, b: Words, out: Words | None = None) -> Words:
        """Return a + b."""
        return self._binary(self._add, a, b, out)

    def subtract(self, a: Words, b: Words, out: Words | None = None) -> Words:
        """Return a - b."""
        return self._binary(self._subtract, a, b, out)

    def mask(self, x: Words, masks: Sequence[Words], out: Words) -> None:
        """Overwrite `out`, which may be `x`, with x minus one or more masks.

        All are flat, contiguous, of one length and known to be canonical: nothing is checked. For blocks that stay in
        the cache, masks are subtracted two at a time.
        """
        value = x
        for first, second in zip(masks[::2], masks[1::2], strict=False):
            self._subtract_two(value, first, second, out)
            value = out
        if len(masks) % 2:
            self._subtract(value, masks[-1], out)

    def multiply(self, a: Words, b: Words, out: Words | None = None) -> Words:
        """Return the elementwise product of a and b."""
        return self._binary(self._multiply, a, b, out)

    def scale(self, a: Words, factor: int, out: Words | None = None) -> Words:
        """Return factor * a for a public integer of either sign."""
        return self.multiply_add(a, factor, np.zeros_like(a), out)

    def multiply_add(self, a: Words, factor: int, b: Words, out: Words | None = None) -> Words:
        """Return factor * a + b for a public integer `factor`: Horner's rule, and weighted sums of shares."""
        residue = factor % self.modulus
        return self._binary(lambda x, y, z: self._multiply_add(x, residue, y, z), a, b, out)

    def sum_of(self, arrays: Sequence[Words], out: Words | None = None, name: str = "arrays") -> Words:
        """Return the sum of one or more arrays of equal shape; `out` must not be one of them."""
        if not len(arrays):
            raise InputError(name, "none", "at least one")
        addends = [self.require_canonical(array, f"{name}[{index}]") for index, array in enumerate(arrays)]
        out = output(out, addends[0].shape)
        for addend in addends:
            _same_shape(addend, out)
        flat = [addend.reshape(-1) for addend in addends]
        total = out.reshape(-1)
        for first in range(0, total.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            total[block] = 0
            for addend in flat:
                self._add(total[block], addend[block], total[block])
        return out

    def uniform(self, stream: Stream, shape: int | tuple[int, ...]) -> Words:
        """Draw exactly uniform elements from the next words of a stream."""
        out = np.empty(shape, np.uint64)
        stream.fill(out)
        self.from_words(out.reshape(-1), lambda index: stream)
        return out

    def is_canonical(self, a: Words) -> bool:
        """Return whether every element is below the modulus."""
        return not self._any_not_canonical(elements(a, "a").reshape(-1))

    def require_canonical(self, a: Words, name: str = "elements") -> Words:
        """Return `a`, C-contiguous, or raise `InputError` with the first element that is not below the modulus."""
        a = elements(a, name)
        if self._any_not_canonical(a.reshape(-1)):
            index = int(np.argmax(a.reshape(-1) >= self.modulus))
            raise InputError(name, f"element {index} is {a.reshape(-1)[index]}, a number below {self.modulus} expected")
        return a

    @abc.abstractmethod
    def from_words(self, words: Words, redraw: Callable[[int], Stream]) -> None:
        """Turn uniform 64-bit words into uniform elements, in place.

        Parameters
        ----------
        words : ndarray of uint64, shape (n,)
            Key stream; overwritten.
        redraw : callable
            ``redraw(index)`` is the stream whose next words replace element `index` for as long as it is not
            canonical.
        """

    def _binary(self, operation: Callable[[Words, Words, Words], None], a: Words, b: Words, out: Words | None) -> Words:
        a, b = self.require_canonical(a, "a"), self.require_canonical(b, "b")
        out = output(out, a.shape)
        _same_shape(b, out)
        operation(a.reshape(-1), b.reshape(-1), out.reshape(-1))
        return out

    @abc.abstractmethod
    def _any_not_canonical(self, a: Words) -> bool: ...
    @abc.abstractmethod
    def _embed(self, values: Integers, out: Words) -> None: ...
    @abc.abstractmethod
    def _lift(self, a: Words, out: Integers) -> None: ...
    @abc.abstractmethod
    def _add(self, a: Words, b: Words, out: Words) -> None: ...
    @abc.abstractmethod
    def _subtract(self, a: Words, b: Words, out: Words) -> None: ...
    @abc.abstractmethod
    def _subtract_two(self, x: Words, a: Words, b: Words, out: Words) -> None: ...
    @abc.abstractmethod
    def _multiply(self, a: Words, b: Words, out: Words) -> None: ...
    @abc.abstractmethod
    def _multiply_add(self, a: Words, factor: int, b: Words, out: Words) -> None: ...


class Ring64(Ring):
    """The ring Z_2^64: NumPy's own arithmetic on uint64, which wraps around. Every word is canonical."""

    name = "ring64"
    modulus = 1 << 64
    bits = 64

    def from_words(self, words: Words, redraw: Callable[[int], Stream]) -> None:
        """Leave the words as they are."""

    def _any_not_canonical(self, a: Words) -> bool:
        return False

    def _embed(self, values: Integers, out: Words) -> None:
        if not np.may_share_memory(values, out):
            np.copyto(out, values.view(np.uint64))

    def _lift(self, a: Words, out: Integers) -> None:
        np.copyto(out, a.view(np.int64))

    def _add(self, a: Words, b: Words, out: Words) -> None:
        np.add(a, b, out=out)

    def _subtract(self, a: Words, b: Words, out: Words) -> None:
        np.subtract(a, b, out=out)

    def _subtract_two(self, x: Words, a: Words, b: Words, out: Words) -> None:
        arithmetic.ring_subtract_two(x, a, b, out)

    def _multiply(self, a: Words, b: Words, out: Words) -> None:
        np.multiply(a, b, out=out)

    def _multiply_add(self, a: Words, factor: int, b: Words, out: Words) -> None:
        np.add(a * np.uint64(factor), b, out=out)


class Mersenne61(Ring):
    """The prime field Z_p, p = 2^61 - 1."""

    name = "mersenne61"
    modulus = (1 << 61) - 1
    bits = 61

    def from_words(self, words: Words, redraw: Callable[[int], Stream]) -> None:
        """Keep the low 61 bits; where they make p, which is not an element, take the next word of the redraw stream."""
        if not arithmetic.mask(words):
            return
        for index in np.flatnonzero(words == self.modulus):
            source = redraw(int(index))
            while words[index] == self.modulus:
                words[index] = int(source.words(1)[0]) & self.modulus

    def _any_not_canonical(self, a: Words) -> bool:
        return arithmetic.any_not_canonical(a)

    def _embed(self, values: Integers, out: Words) -> None:
        if arithmetic.embed(values, out):
            half = self.modulus // 2
            index = int(np.argmax((values < -half) | (values > half)))
            raise InputError("values", f"element {index} is {values[index]}, at most {half} in absolute value expected")

    def _lift(self, a: Words, out: Integers) -> None:
        arithmetic.lift(a, out)

    def _add(self, a: Words, b: Words, out: Words) -> None:
        arithmetic.add(a, b, out)

    def _subtract(self, a: Words, b: Words, out: Words) -> None:
        arithmetic.subtract(a, b, out)

    def _subtract_two(self, x: Words, a: Words, b: Words, out: Words) -> None:
        arithmetic.subtract_two(x, a, b, out)

    def _multiply(self, a: Words, b: Words, out: Words) -> None:
        arithmetic.multiply(a, b, out)

    def _multiply_add(self, a: Words, factor: int, b: Words, out: Words) -> None:
        arithmetic.multiply_add(a, factor, b, out)


_RINGS: dict[str, type[Ring]] = {kind.name: kind for kind in (Ring64, Mersenne61)}


def ring_named(value: Ring | type[Ring] | str) -> Ring:
    """Return the ring that an instance, a class or a name ("ring64", "mersenne61") stands for."""
    if isinstance(value, Ring):
        return value
    if isinstance(value, type) and issubclass(value, Ring):
        return value()
    if isinstance(value, str) and value in _RINGS:
        return _RINGS[value]()
    raise InputError("ring", f"{value!r}", f"one of {', '.join(_RINGS)}")


def output(out: Words | None, shape: tuple[int, ...]) -> Words:
    """Return `out` once it is known to fit, or a new array of that shape."""
    if out is None:
        return np.empty(shape, np.uint64)
    if out.dtype != np.uint64 or out.shape != shape or not out.flags.c_contiguous:
        raise InputError("out", f"{out.dtype} of shape {out.shape}", f"C-contiguous uint64 of shape {shape}")
    return out


def _same_shape(array: Words, out: Words) -> None:
    if array.shape != out.shape:
        raise InputError("shapes", f"{array.shape} and {out.shape}", "equal shapes")
