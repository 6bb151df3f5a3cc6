"""The types of arrays, by what an entry is."""

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]  # elements of a ring or field
Bytes = NDArray[np.uint8]
