"""The parties' releases side by side: what anybody may read, and regress any column on the others.

Whatever is computed from a `MixedRelease` is post-processing and costs no further privacy. The file form
(`dpmpc.release.release_file`) holds the task, its guarantee, where it comes from, and the sums; the same release gives
the same bytes everywhere. Loading recomputes the guarantee from the task, so that a file cannot claim more than its
noise gives. Neither the signs of B nor their seed nor anybody's id is in it.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import BatchMismatch, InputError
from dpmpc.base.storage.files import whole
from dpmpc.owners.columns.mixing_guarantee import MixingGuarantee
from dpmpc.owners.columns.mixing_task import MixingTask
from dpmpc.release import release_file


@dataclasses.dataclass(frozen=True, eq=False)
class MixedRelease:
    """D^pub = [D^pub_1, .., D^pub_m] of Wu et al. 2022, section 3, with everything public about it.

    Parameters
    ----------
    task : MixingTask
        The public facts.
    sums : ndarray of int64, shape (k, d + 1) or (n, d + 1)
        What the parties released, in integer units; float64 in simulations with floating-point noise.
    provenance : dict
        Where it comes from, in plain data: for readers, nothing is computed from it.
    """

    task: MixingTask
    sums: NDArray[Any]
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        expected = (self.task.released_rows, len(self.task.columns))
        kind = np.dtype(np.int64 if self.task.noise.integer else np.float64)
        if self.sums.shape != expected or self.sums.dtype != kind:
            raise InputError("sums", f"{self.sums.dtype} {self.sums.shape}", f"{kind} {expected}")

    @classmethod
    def join(
        cls, task: MixingTask, parts: Sequence[NDArray[Any]], provenance: dict[str, Any] | None = None
    ) -> MixedRelease:
        """Put what the parties released side by side, in the order of the task.

        Raises
        ------
        BatchMismatch
            If a part is missing or of another shape; with the number of the party.
        """
        if len(parts) != len(task.parties):
            raise BatchMismatch(f"parts: {len(parts)} given, one from each of {len(task.parties)} parties expected")
        for number, (part, party) in enumerate(zip(parts, task.parties, strict=True)):
            expected = (task.released_rows, len(party))
            if part.shape != expected:
                raise BatchMismatch(
                    f"part of party {number}: shape {part.shape} given, {expected} expected", party=number
                )
        return cls(task, np.hstack(list(parts)), provenance or {})

    @property
    def guarantee(self) -> MixingGuarantee:
        """What is promised to each subject."""
        return self.task.guarantee

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, party by party."""
        return self.task.columns

    @property
    def rows(self) -> Reals:
        """D^j + R^j or B D^j/sqrt(k) + R^j of all parties, float64, columns mapped to [-1, 1]."""
        return np.asarray(self.sums * self.task.unit, np.float64)

    def moments(self) -> Reals:
        """Return (D^pub)^T D^pub / n, float64 (d + 1, d + 1); the noise's share of it is not taken off."""
        rows = self.rows
        return np.asarray(rows.T @ rows / self.task.subjects)

    def to_bytes(self) -> bytes:
        """Return the content of the file: the same bytes for the same release, on every machine."""
        header = release_file.Header(
            release_file.FORMAT, self.task.to_dict(), self.guarantee.to_dict(), self.provenance
        )
        file = io.BytesIO()
        release_file.write(file, header, self.sums, indent=1)
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file, whole or not at all."""
        with whole(path) as file:
            file.write(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MixedRelease:
        """Read a release from a file and recompute its guarantee.

        Raises
        ------
        InputError
            If the file is not a release of parties with different columns, or claims another guarantee than its public
            facts give.
        GuaranteeError
            If its noise does not give the guarantee that it claims.
        """

        def build(header: release_file.Header, sums: release_file.SumsReader) -> MixedRelease:
            task = MixingTask.from_dict(header.task)
            kind = np.int64 if task.noise.integer else np.float64
            shape = (task.released_rows, len(task.columns))
            return cls(task.verify(), sums(shape, kind), header.provenance or {})

        return release_file.read(path, "release of mixed columns", build)

    def __repr__(self) -> str:
        height, width = self.sums.shape
        parties, epsilon = len(self.task.parties), self.task.epsilon
        return (
            f"<MixedRelease of {self.task.subjects:,} subjects by {parties} parties: {height} x {width}, {epsilon=:g}>"
        )
