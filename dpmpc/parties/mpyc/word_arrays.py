"""Field arrays of MPyC that keep their elements as machine words until a party needs Python integers.

MPyC holds a field array as a NumPy array of Python integers. To box a word costs 80 ns and to unbox it 55 ns, where our
kernel takes 4 ns. A word array is an array of MPyC's own kind whose `value`, the array of Python integers, is made when
it is first used. Until then stacking, slicing, reshaping and transposing act on the words. The words of a share that
lies in a file stay there until then, so that a sketch reads them chunk by chunk.

Invariant: an array has its words, a share that gives them, or its value, and only one of these, so that they cannot
differ. A caller that takes `value` may write to it; the words are gone then, and are read from the value again if a
sketch requires them. Every operation that is not defined here is MPyC's, on the value, and gives MPyC's own array; so
does unpickling.

In one thing they differ: a slice, a transpose or another shape of words is its own array. Where MPyC's would be a
view, what is written to it here does not appear in the array that it was taken from.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Words
from dpmpc.linear.sharing.batch import Share

JOINING = frozenset({np.concatenate, np.vstack, np.hstack, np.stack})
"""Functions of NumPy that put arrays together and change no element."""


def word_array(field: Any, words: Words | Share) -> Any:
    """Return words, canonical elements of a prime field of at most 64 bits, as a field array of MPyC's."""
    return _class_for(field.array)._of(words)


def holds_words(array: Any) -> bool:
    """Return whether the elements of a field array are words, or a share that gives them, and nothing is boxed."""
    return isinstance(array, _WordMethods) and array._source is not None


def share_of(array: Any) -> Share | None:
    """Return the share that the words of a field array are still to be read from, or None."""
    return array._source if isinstance(array, _WordMethods) and isinstance(array._source, Share) else None


def words_of(array: Any) -> Words | None:
    """Return the words of a field array, or None if it holds Python integers; they are for reading."""
    return array._words if isinstance(array, _WordMethods) else None


def as_words(array: Any) -> Words:
    """Return the elements of a field array as words, whichever it holds; they are for reading."""
    words = words_of(array)
    return array.value.astype(np.uint64) if words is None else words


def _boxed(array: Any) -> Any:
    """Return a word array as MPyC's own array; leave anything else, in lists and tuples too."""
    if isinstance(array, list | tuple):
        return type(array)(_boxed(item) for item in array)
    return array._as_array() if isinstance(array, _WordMethods) else array


@functools.cache
def _class_for(array: type) -> Any:
    """Return the class of word arrays of a field, which MPyC takes for its own class of arrays."""
    return type(f"Words{array.__name__}", (_WordMethods, array), {})


class _WordMethods:
    """What a word array does in its own way; mixed into MPyC's class of arrays of a field."""

    _source: Words | Share | None  # None once the value was taken
    _value: Any
    field: Any

    def __new__(cls, value: Any, check: bool = True, copy: bool = False) -> Any:
        """Return MPyC's own array: its methods call the type of an array to make their results."""
        array = cls.field.array
        return array(value.value if isinstance(value, array) else value, check=check, copy=copy)

    @classmethod
    def _of(cls, source: Words | Share) -> Any:
        made = object.__new__(cls)
        made._source, made._value = source, None
        return made

    @property
    def _words(self) -> Words | None:
        """The words, which are read if a share has them, or None if there are Python integers in their place."""
        if isinstance(self._source, Share):
            self._source = self._source.rows(0, self._source.shape[0])
        return self._source

    @classmethod
    def _coerce(cls, other: Any) -> Any:
        """Read the other operand, which may be MPyC's own array of the same field."""
        return cls.field.array._coerce(other)

    def _as_array(self) -> Any:
        return self.field.array(self.value, check=False)

    @property
    def value(self) -> NDArray[np.object_]:
        """The elements as Python integers, which the caller may write to."""
        if self._words is not None:
            self._value, self._source = self._words.astype(object), None
        value: NDArray[np.object_] = self._value
        return value

    @value.setter
    def value(self, value: NDArray[np.object_]) -> None:
        self._value, self._source = value, None

    @property
    def _held(self) -> NDArray[Any]:
        """Whichever of words and value there is."""
        return self._value if self._words is None else self._words

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, as NumPy's; nothing is read for it."""
        shape: tuple[int, ...] = (self._value if self._source is None else self._source).shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def _moved(self, move: Callable[[NDArray[Any]], Any]) -> Any:
        """Return the elements in other places, in the form in which they are held."""
        moved = move(self._held)
        if not isinstance(moved, np.ndarray):
            return self.field(int(moved))
        return self._of(moved) if self._words is not None else self.field.array(moved, check=False)

    def __getitem__(self, key: Any) -> Any:
        return self._moved(lambda held: held[key])

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the array in another shape, as NumPy's method."""
        return self._moved(lambda held: held.reshape(*args, **kwargs))

    def transpose(self, *args: Any) -> Any:
        """Return the array with its axes in another order, as NumPy's method."""
        return self._moved(lambda held: held.transpose(*args))

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    def __reduce__(self) -> Any:
        """Pickle, or copy, MPyC's own array, whose class a reader can look up without dpmpc."""
        return copy.copy, (self._as_array(),)

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy."""
        return self._moved(lambda held: held.copy(*args, **kwargs))

    def __array_function__(self, func: Any, types: Iterable[type], args: Any, kwargs: Any) -> Any:
        if func in JOINING and isinstance(args[0], list | tuple):
            parts = [words_of(part) if type(part) is type(self) else None for part in args[0]]
            if all(part is not None for part in parts):
                return self._of(func(parts, *args[1:], **kwargs))
        return func(*_boxed(args), **{name: _boxed(value) for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "at":  # writes to its first operand
            return self.field.array.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)
        return getattr(ufunc, method)(*_boxed(inputs), **kwargs)
