"""The words of a stream, as the kernels of the samplers take them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpmpc.randomness import Stream

_BUFFER_WORDS = 1 << 15

_LEAST_BUFFER_WORDS = 1 << 10


class WordBuffer(Iterator[int]):
    """The words of a stream, in a buffer for the kernels and one by one for what they leave unsettled."""

    def __init__(self, stream: Stream, expected: int):
        self._stream = stream
        # There must be room for all the words of one attempt: more than 1000 are far less probable than 2^-128.
        size = min(max(expected, _LEAST_BUFFER_WORDS), _BUFFER_WORDS)
        self._buffer = np.empty(size, np.uint64)
        self._next = size
        self.refill()

    @property
    def unread(self) -> NDArray[np.uint64]:
        """What is in the buffer and was not read."""
        return self._buffer[self._next :]

    def skip(self, count: int) -> None:
        """Count words as read."""
        self._next += count

    def refill(self) -> None:
        """Move what is unread to the front, and fill up from the stream."""
        left = self.unread.size
        self._buffer[:left] = self.unread
        self._stream.fill(self._buffer[left:])
        self._next = 0

    def __next__(self) -> int:
        if self._next == self._buffer.size:
            self.refill()
        self._next += 1
        return int(self._buffer[self._next - 1])
