"""Ridge regression from a noisy sketch that nobody sees (Burkhardt et al. 2025, section 5.1, on a Gram matrix of MPyC).

Data: n clients, each with d features x and a target y within public bounds, here mapped to [-1, 1]: p = d + 1 columns.
Wanted: w that nearly minimises ||Xw - y||^2 + alpha ||w||^2, while each client has (epsilon, delta)-differential
privacy.

1. Each client sends its row z = (x, y) and its share of the noise, as Shamir shares.
2. Each server sketches its shares, alone: a share of S Z + noise, k x p numbers.
3. The servers put the public column S 1 beside it, hand [S 1, S Z + noise] = A over to MPyC, multiply A^T A there, and
   check the products before anybody opens them (`dpmpc.mpyc.checked`): six rounds.
4. The analyst opens A^T A, (p + 1) x (p + 1) numbers, and solves the normal equations (`dpmpc.RidgeRegression`;
   docs/mathematics.md, section 5.3).

The guarantee is that of the opened sketch, since A^T A is computed from it. The price is trust: an honest majority of
servers, not one of them. Wrong shares are noticed, those of a server that multiplies other numbers included, and end
the run.

Three servers and an analyst, each a process of this machine, and generated people::

    python protocols/unopened_ridge.py -M3 --clients 50000 --epsilon 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.contributions import Rows
from dpmpc.data import Schema
from dpmpc.errors import InputError
from dpmpc.mpyc import checked_products, open_to_analyst, opened, require_room, require_shamir, sketch_alone, with_room
from dpmpc.network.party import Party
from dpmpc.networked import Run, clients, run_parties
from dpmpc.planning import ReleaseSpec, design
from dpmpc.randomness import Stream
from dpmpc.release import GramRelease
from dpmpc.specification import FRACTIONAL_BITS
from dpmpc.task import Task

PROGRAM = "dpmpc.protocols.unopened_ridge"


async def main(party: Party) -> dict[str, Any]:
    """Run one party: a server, or the analyst, who returns the fit and the products that it was made from."""
    task = check(party.task)
    if party.pid == party.analyst:
        return await analyst(party, task)
    await server(party, task)
    return {}


async def server(party: Party, task: Task) -> None:
    """Steps 2 to 4 of a server: sketch, multiply, and have the products opened to the analyst."""
    sums = await sketch_alone(party)
    with party.meter.phase("multiply"):
        A = np.column_stack([public_ones(task), sums])  # a public number is its own share
        products = await checked_products(party, task, A)
    with party.meter.phase("open"):
        await open_to_analyst(party, products)


async def analyst(party: Party, task: Task) -> dict[str, Any]:
    """Step 4 of the analyst: open A^T A, and solve."""
    side = task.width + 1
    with party.meter.phase("open"):
        products = task.encoding.ring.lift(await opened(party, task, (side, side)))
    await party.runtime.shutdown()  # no server waits for what is left to do

    from dpmpc.estimators.ridge import RidgeFit  # no server needs it

    model = RidgeFit(**party.arguments["model"])
    fitted = model.fit_release(GramRelease(task, products), target=party.arguments["target"])
    coefficients = dict(zip(fitted.feature_names_, fitted.coef_.tolist(), strict=True))
    return {"coefficients": coefficients, "intercept": fitted.intercept_, "products": products.tolist()}


def task_for(schema: Schema, clients: int, epsilon: float, delta: float, *, servers: int = 3, **choices: Any) -> Task:
    """Design a release of which only A^T A is opened; `choices` are others of `dpmpc.planning.design`.

    The fractional bits are about the most with which A^T A cannot wrap around, at most those of `design`.
    """
    choices = {"sketch": "countsketch", **choices}

    def task_with(bits: int) -> Task:
        return design(
            ReleaseSpec.of(
                schema, clients, epsilon, delta, sharing="shamir", servers=servers, fractional_bits=bits, **choices
            )
        )

    return check(with_room(task_with, bits_of_products, FRACTIONAL_BITS))


def check(task: Task) -> Task:
    """Return the task if A^T A can be computed modulo p: Shamir shares of sketched rows, and nothing wraps around.

    Raises
    ------
    InputError
        If the shares are additive, or something else than rows is sketched.
    OverflowRisk
        If a product might reach p/2.
    """
    require_shamir(task)
    if not isinstance(task.statistic, Rows):
        raise InputError(f"statistic: {task.statistic.name!r} given, 'rows' expected: a sketch to multiply")
    require_room(task, bits_of_products(task))
    return task


def bits_of_products(task: Task) -> int:
    """Return the bits of the largest entry of A^T A and its sign, but for the failure probability of the modulus plan.

    N_r contributions of at most 2^f and noise below `tail` meet in row r: a column of A has a norm of at most
    2^f ||N|| + sqrt(k) tail (Minkowski), and no product of two columns exceeds its square (Cauchy and Schwarz).
    """
    occupancy = task.sketch.occupancy().astype(np.float64)
    signal = float(np.linalg.norm(occupancy)) * task.statistic.largest_entry(task.encoding)
    largest = signal + len(occupancy) ** 0.5 * task.modulus_plan.tail
    return (2 * int(largest * (1 + 1e-9) + 1) ** 2 + 1).bit_length()


def public_ones(task: Task) -> NDArray[np.uint64]:
    """Return the unscaled S 1 as field elements (k,)."""
    return task.encoding.ring.embed(np.rint(task.sketch.column_sums() / task.sketch.scale).astype(np.int64))


def run(task: Task, rows: NDArray[np.float64], target: str, *, alpha: float = 1.0, stream: Stream | None = None) -> Run:
    """Play all the clients, then run servers and analyst as processes of this machine; see `dpmpc.networked.run`."""
    shares = clients(check(task), rows, stream=stream)
    return run_parties(PROGRAM, task, shares, arguments={"target": target, "model": {"alpha": alpha}})


def demonstrate(arguments: Sequence[str]) -> None:
    """Fit the generated population's income, and print what it cost."""
    from dpmpc.cli.demonstrations import demonstration, demonstration_options, print_unopened_run
    from dpmpc.results import NumberTable

    chosen = demonstration_options(__doc__, arguments)
    shown = demonstration("ridge", chosen.clients)
    task = task_for(shown.schema, chosen.clients, chosen.epsilon, chosen.delta, servers=chosen.servers, **shown.choices)
    done = run(task, shown.table.values, shown.table.names[-1])
    products = np.array(done.answer.pop("products"), np.int64)
    fitted = done.answer["coefficients"]
    table = NumberTable("Coefficients", {"private": list(fitted.values())}, list(fitted))
    print_unopened_run([table, f"opened: {products.size} products"], task, done)


if __name__ == "__main__":
    from dpmpc.cli.main import by_hand

    by_hand(demonstrate)
