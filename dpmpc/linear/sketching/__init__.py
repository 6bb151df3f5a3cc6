"""Public matrices: the linear maps that servers apply to shares, derived from a seed while they are applied.

Promised: the same matrix from the same seed on every machine, instruction set and number of threads; exact arithmetic
on ring and field elements; float64 results that do not depend on threads or instruction set either; memory of the
result and of one small block of S, never of S. Not promised: secrecy. S is public, and Philox is not a cipher; the seed
must be drawn after the batch is closed (`dpmpc.base.randomness`, ``Label.SKETCH_SEED``).

Paper: Burkhardt, Keller, Orlandi, Schwiegelshohn, Distributed DP Data Analytics via Secure Sketching (ICML 2025),
section 2; OSNAP: Nelson and Nguyen, OSNAP: Faster Numerical Linear Algebra Algorithms via Sparser Subspace Embeddings
(FOCS 2013); CountSketch: Charikar, Chen, Farach-Colton (2002).

Derivation
----------
``derive(seed, Label.SKETCH, length=16)`` gives four little-endian 32-bit words: the Philox key k0, k1 and a nonce n0,
n1. Block c of copy j, attempt a, for purpose q, is Philox4x32-7 under that key on the counter::

    (c,  j + 2^31 q,  n0 xor a,  n1)

Seven rounds are the fewest that pass BigCrush (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011,
table 2). More would buy nothing here: S is public, and what it does to privacy is computed from the S that was drawn.

The word of index i is word ``floor(r / 32)`` of block ``32 floor(i / 128) + r mod 32``, where r = i mod 128: words of
consecutive indices then stand side by side in the vectors that compute them. A word w gives the number
``e = floor(2 k w / 2^32)`` below 2 k; it is rejected if ``2 k w mod 2^32 < 2^32 mod 2 k`` (Lemire 2019), which makes e
exactly uniform. The row is floor(e / 2); the sign is -1 if e is odd and +1 otherwise.

*Independent* (``balanced=False``, the paper's OSNAP). Client i's row in copy j comes from its words for purpose 0: the
first attempt a = 0, 1, .. that is not rejected and whose row is none of the client's rows in copies below j. The sign
comes from the same word. Every S_j is marginally uniform.

*Balanced* (``balanced=True``). Client i is number i mod k of batch b = floor(i / k). Copy j of batch b has a shift,
drawn for index b and purpose 1 as rows are above, distinct among the copies of the batch. The client's row in copy j is
``(i + shift) mod k``. Its sign is -1 if bit i mod 32, counted from the lowest, of word ``floor(i / 32) mod 4`` of block
floor(i / 128), for purpose 0 and attempt 0, is set, and +1 otherwise. In each S_j every row then has floor(n/k) or
ceil(n/k) clients, two clients of one batch never meet, and two of different batches meet with probability 1/k, over the
draw of the seed.

*Dense* (`Rademacher`, `BernoulliMixing`). Key and nonce are derived as above, but under ``Label.RADEMACHER`` and
``Label.BERNOULLI_MIXING``, so that no draw is shared with another family. The signs of row r for clients 32 w, ..,
32 w + 31 are word ``w mod 4`` of Philox4x32-7 on the counter::

    (floor(w / 4),  r,  n0,  n1)

Bit i mod 32 of the word, counted from the lowest, is that of client i: the entry is -1 if it is set and +1 otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmpc.base import plugins
from dpmpc.base.errors import InputError
from dpmpc.base.plugins import Kinds
from dpmpc.base.storage import canonical
from dpmpc.base.storage.records import malformed, rebuilt
from dpmpc.linear.sketching.dense import BernoulliMixing, Rademacher
from dpmpc.linear.sketching.public_matrix import PublicMatrix
from dpmpc.linear.sketching.sparse import OSNAP, CountSketch, Sum

__all__ = ["FAMILIES", "OSNAP", "BernoulliMixing", "CountSketch", "PublicMatrix"]

FAMILIES = Kinds(
    plugins.SKETCHES,
    {kind.family: kind for kind in (OSNAP, CountSketch, Sum, Rademacher, BernoulliMixing)},
    PublicMatrix,
    "family",
)
"""What a saved task may name; entry points of other distributions bring more."""


def sketch_from(description: Mapping[str, Any]) -> PublicMatrix:
    """Make the matrix that `PublicMatrix.describe` described.

    Raises
    ------
    InputError
        If the description is not one that `describe` can give.
    """
    with malformed("sketch"):
        sketch: PublicMatrix = rebuilt("sketch", FAMILIES, description, "family")
        if canonical(sketch.describe()) != canonical(description):  # where 1, 1.0 and true are three values
            raise InputError("description", f"{dict(description)}", f"{sketch.describe()}")
        return sketch
