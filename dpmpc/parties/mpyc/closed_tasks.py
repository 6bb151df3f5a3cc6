"""Tasks of sketches that stay closed: MPyC computes on them modulo p = 2^61 - 1, and nothing may wrap around.

Only a function of the noisy sketch is opened, so the guarantee of the task holds for it as for the sketch itself
(post-processing; Dwork and Roth 2014, Proposition 2.1). The sketch must be in Shamir shares, which MPyC can multiply
(`dpmpc.parties.mpyc.checked`). That no number wraps around is proven here from the bounds of rows and noise, but for
the failure probability of the task's modulus plan.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import msgspec
import numpy as np

from dpmpc.base.arrays import Integers, Words
from dpmpc.base.errors import InputError, OverflowRisk
from dpmpc.linear.contributions import Rows
from dpmpc.linear.contributions.powers_and_items import ItemSketch
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import FRACTIONAL_BITS, ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release.planning import design


@dataclasses.dataclass(frozen=True)
class OpenedProducts:
    """What was opened of a sketch that stays closed, unscaled.

    Parameters
    ----------
    task : Task
        The public facts.
    values : ndarray of int64
        Exact integers.
    """

    task: Task
    values: Integers

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each client by servers that have checked the products."""
        return self.task.unopened_guarantee


def require_shamir(task: Task) -> None:
    """Refuse a task whose shares MPyC cannot multiply."""
    if task.sharing != "shamir":
        raise InputError("sharing", f"{task.sharing!r}", "'shamir'", "MPyC computes on Shamir shares")
    if 2 * task.trust.colluding_servers >= task.trust.servers:
        raise InputError(
            "corrupt_servers",
            f"{task.trust.colluding_servers} of {task.trust.servers}",
            "fewer than half",
            "MPyC multiplies with an honest majority",
        )


def require_room(task: Task, needed: int) -> Task:
    """Refuse a task from which MPyC would compute numbers of `needed` bits, if that may wrap around modulo p."""
    require_shamir(task)
    available = task.encoding.ring.bits
    if needed > available:
        raise OverflowRisk(
            "fractional_bits",
            f"{task.encoding.fractional_bits} given, but what is computed from the sketch takes up to "
            f"{needed} bits, {available} available; use fewer fractional bits",
        )
    return task


def with_room(task_with: Callable[[int], Task], needed: Callable[[Task], int], most: int) -> Task:
    """Return ``task_with(f)`` for about the most fractional bits f <= `most` for which a product of two entries fits.

    Parameters
    ----------
    task_with : callable
        Designs the task with f fractional bits.
    needed : callable
        Bits that the product takes; it grows like 4^f.
    most : int
        f to begin with.
    """
    task = task_with(most)
    excess = needed(task) - task.encoding.ring.bits
    return task if excess <= 0 else task_with(max(0, most - (excess + 1) // 2))


def design_with_room(needed: Callable[[Task], int]) -> Callable[..., Task]:
    """Return what designs a release with as many fractional bits as `needed` leaves room for; see `with_room`."""

    def designed(spec: ReleaseSpec, *, matrix_seed: bytes | None = None) -> Task:
        task = with_room(lambda bits: _with_bits(spec, bits, matrix_seed), needed, FRACTIONAL_BITS)
        return require_room(task, needed(task))

    return designed


def design_products(spec: ReleaseSpec, *, matrix_seed: bytes | None = None) -> Task:
    """Design a release of which only A^T A is opened, A = [S 1, S Z + noise], with as many fractional bits as fit."""
    return require_products(design_with_room(bits_of_products)(spec, matrix_seed=matrix_seed))


def require_products(task: Task) -> Task:
    """Return the task if A^T A can be computed modulo p: Shamir shares of sketched rows, and nothing wraps around."""
    require_shamir(task)
    if not isinstance(task.statistic, Rows):
        raise InputError("statistic", f"{task.statistic.name!r}", "'rows'", "a sketch to multiply")
    return require_room(task, bits_of_products(task))


def bits_of_products(task: Task) -> int:
    """Return the bits of the largest entry of A^T A and its sign.

    N_r contributions of at most 2^f and noise below `tail` meet in row r: a column of A has a norm of at most
    2^f ||N|| + sqrt(k) tail (Minkowski), and no product of two columns exceeds its square (Cauchy and Schwarz).
    """
    occupancy = task.sketch.occupancy().astype(np.float64)
    signal = float(np.linalg.norm(occupancy)) * task.statistic.largest_entry(task.encoding)
    largest = signal + len(occupancy) ** 0.5 * task.modulus_plan.tail
    return (2 * int(largest * (1 + 1e-9) + 1) ** 2 + 1).bit_length()


def public_ones(task: Task) -> Words:
    """Return the unscaled S 1 as field elements (k, 1)."""
    ones = np.rint(task.sketch.column_sums() / task.sketch.scale).astype(np.int64)
    return task.encoding.ring.embed(ones[:, None])


def design_square(spec: ReleaseSpec, rows: int, *, matrix_seed: bytes) -> Task:
    """Design a release of items of which only ||z||^2 is opened, z = S f + noise with `rows` rows.

    The sketch of the items' counts f is what clients contribute, so that the seed of its matrix is that of the
    contribution. Beyond about a million clients, with all default choices, too few fractional bits are left for the
    noise.
    """
    items = ItemSketch.of(spec.schema.columns[0], rows, matrix_seed)
    spec = msgspec.structs.replace(spec, contribution=items)
    bits = spec.mechanism.fractional_bits
    if bits is not None:
        return require_square(_with_bits(spec, bits, None))
    most = max(0, 31 - spec.clients.bit_length())
    return require_square(with_room(lambda bits: _with_bits(spec, bits, None), bits_of_square, most))


def require_square(task: Task) -> Task:
    """Return the task if ||z||^2 can be computed modulo p: Shamir shares of an item sketch, nothing wraps around."""
    require_shamir(task)
    if not isinstance(task.statistic, ItemSketch):
        raise InputError("statistic", f"{task.statistic.name!r}", "'item-sketch'")
    return require_room(task, bits_of_square(task))  # p = 2^61 - 1 is not a square


def bits_of_square(task: Task) -> int:
    """Return the bits of the largest ||z||^2.

    Each client moves z by a vector of norm 2^f, so that ||z|| <= n 2^f + sqrt(k) tail, where every entry's noise stays
    below `tail`.
    """
    signal = task.clients * task.statistic.largest_entry(task.encoding)
    return ((signal + math.ceil(math.sqrt(task.width) * task.modulus_plan.tail)) ** 2).bit_length()


def _with_bits(spec: ReleaseSpec, bits: int, matrix_seed: bytes | None) -> Task:
    mechanism = msgspec.structs.replace(spec.mechanism, fractional_bits=bits, sharing="shamir")
    return design(msgspec.structs.replace(spec, mechanism=mechanism), matrix_seed=matrix_seed)
