"""Design and describe a release of parties with different columns: all public facts, agreed before a row is touched.

A `MixingTask` travels among the parties and to anyone who reads the release. It holds no secret: not the signs of B,
which the parties share beside it, and no data. `MixingTask.verify` recomputes what it promises from its own facts.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import force_setattr

from dpmpc.base.arguments import require_float, require_whole
from dpmpc.base.errors import InputError
from dpmpc.data import Schema
from dpmpc.data.schemas import Bounds, schema
from dpmpc.data.table import check_names
from dpmpc.linear.encoding.fixed_point import FixedPoint, ModulusPlan, plan_modulus
from dpmpc.linear.noise import Noise, noise_from
from dpmpc.linear.sketching.public_matrix import MOST_COLUMNS, MOST_ROWS
from dpmpc.owners.columns.mixing_guarantee import MixingGuarantee, PartyCalibration
from dpmpc.owners.columns.rows import choose_rows
from dpmpc.privacy.task import PublicFacts


class MixingTask(PublicFacts, frozen=True, tag=1, tag_field="format"):
    """The public facts of one release.

    Parameters
    ----------
    parties : tuple of Schema
        Columns and public bounds of each party, two parties or more; names are unique among all.
    subjects : int
        n, the people whom all parties know, in the same order.
    rows : int or None
        k, the rows that the parties mix theirs to; None where they release one noisy row for each person.
    fractional_bits : int
        Of the fixed-point encoding by which columns in [-1, 1] become integers.
    noise : Noise
        What each party adds to each entry, in integer units.
    epsilon, delta : float
        What is promised.
    protects : {"party", "subject"}
        For whom; see `dpmpc.owners.columns.mixing_guarantee`.
    calibration : {"analytic", "paper"}
        How the noise was chosen.
    simulation : bool
        Whether randomness can be repeated from a seed; the release then states that it protects no one.
    """

    readers: ClassVar[Mapping[type, Callable[[Any], Any]]] = {Noise: noise_from}
    parties: tuple[Schema, ...]
    subjects: int
    rows: int | None
    fractional_bits: int
    noise: Noise
    epsilon: float
    delta: float
    protects: str = "party"
    calibration: str = "analytic"
    simulation: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "parties", tuple(self.parties))
        super().__post_init__()
        if len(self.parties) < 2:
            raise InputError("parties", f"{len(self.parties)}", "at least 2")
        check_names(self.columns, "parties")
        require_whole("subjects", self.subjects, 1, MOST_COLUMNS)
        features = len(self.columns) - 1
        if self.rows is not None:
            require_whole("rows", self.rows, features, MOST_ROWS)
        if self.subjects < features:
            raise InputError("subjects", f"{self.subjects} given, at least {features} expected, one for each feature")
        FixedPoint(self.fractional_bits)  # which rejects a number of bits that is out of range
        if self.noise.simulation_only and not self.simulation:
            raise InputError("noise", self.noise.name, "an integer noise", condition="unless this is a simulation")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, party by party."""
        return tuple(name for party in self.parties for name in party.names)

    @property
    def schema(self) -> Schema:
        """Bounds of all columns, party by party."""
        return Schema(tuple(column for party in self.parties for column in party.columns))

    @functools.cached_property
    def encoding(self) -> FixedPoint:
        """How columns in [-1, 1] become integers."""
        return FixedPoint(self.fractional_bits)

    @property
    def released_rows(self) -> int:
        """Rows of the release: k, or n without mixing."""
        return self.subjects if self.rows is None else self.rows

    @property
    def unit(self) -> float:
        """Value of one integer unit of the release: 1/(2^f sqrt(k)), or 2^-f without mixing."""
        return 1 / (2.0**self.encoding.fractional_bits * math.sqrt(self.rows or 1))

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in an entry of D^j + R^j or B D^j/sqrt(k) + R^j, columns in [-1, 1]."""
        return float(self.noise.variance * self.unit**2)

    @functools.cached_property
    def guarantee(self) -> MixingGuarantee:
        """What is promised, recomputed from the public facts; an error if they do not give it."""
        return self._calibration.guarantee(self.noise, self.subjects, simulation=self.simulation)

    def require_enough_noise(self) -> None:
        """Raise a `GuaranteeError` unless the noise gives what is guaranteed."""
        self._calibration.guarantee(self.noise, self.subjects, simulation=self.simulation)

    @property
    def _calibration(self) -> PartyCalibration:
        return PartyCalibration(
            columns=[len(party) for party in self.parties],
            epsilon=self.epsilon,
            delta=self.delta,
            protects=self.protects,
            rule=self.calibration,
            rows=self.rows or 1,
            fractional_bits=self.fractional_bits,
        )

    def prove_no_overflow(self) -> ModulusPlan:
        """Prove that no released integer wraps around; raise an `OverflowRisk` if it might."""
        return plan_modulus(
            self.encoding.ring,
            1 if self.rows is None else self.subjects,
            1 << self.encoding.fractional_bits,
            functools.partial(self.noise.tail, 1),
            self.released_rows * len(self.columns),
        )


def design(
    columns: Sequence[Sequence[str]],
    subjects: int,
    epsilon: float,
    delta: float,
    *,
    bounds: Bounds = None,
    rows: int | str | None = "theory",
    protects: str = "party",
    calibration: str = "analytic",
    noise: str = "discrete-gaussian",
    simulation: bool = False,
) -> MixingTask:
    """Make a verified task from public facts.

    Parameters
    ----------
    columns : sequence of sequences of str
        The names of each party's columns.
    subjects : int
        n.
    epsilon, delta : float
        The budget of the release.
    bounds : Schema, pair, dict, path or None
        Public bounds of all columns; None where the data is already in [-1, 1].
    rows : int, {"theory", "paper"} or None
        k, or how it is chosen (`dpmpc.owners.columns.rows.choose_rows`); None to release without mixing.
    protects, calibration, noise, simulation
        See `MixingTask`; `noise` is the name of a family.

    Raises
    ------
    GuaranteeError, OverflowRisk
        If no such task is possible.
    """
    epsilon, delta = require_float("epsilon", epsilon), require_float("delta", delta)
    parties = tuple(schema(bounds, names) for names in columns)
    sizes = [len(party) for party in parties]
    required = PartyCalibration(columns=sizes, epsilon=epsilon, delta=delta, protects=protects, rule=calibration)
    k = None if rows is None else choose_rows(rows, subjects, sum(sizes) - 1, required.sd, max(sizes))
    return MixingTask(
        parties=parties,
        subjects=subjects,
        rows=k,
        fractional_bits=required.fractional_bits,
        noise=dataclasses.replace(required, rows=k or 1).least(noise),
        epsilon=epsilon,
        delta=delta,
        protects=protects,
        calibration=calibration,
        simulation=simulation,
    ).verify()
