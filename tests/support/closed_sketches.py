"""Tasks of sketches that stay closed, in simulations that can be repeated, and their programs by name."""

from dpmpc.data import Column, Schema
from dpmpc.parties.mpyc.closed_tasks import design_products, design_square
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release.planning.designing import public_seed

UNOPENED_MOMENT, UNOPENED_RIDGE = "dpmpc.protocols.unopened_moment", "dpmpc.protocols.unopened_ridge"


def item_task(clients, items, *, rows=256, delta=1e-6, **choices):
    """Of which ||z||^2 is opened."""
    choices = {"sharing": "shamir", "simulation_seed": 5, **choices}
    spec = ReleaseSpec.of(Schema((Column("item", 0, items - 1),)), clients, 1.0, delta, **choices)
    return design_square(spec, rows, matrix_seed=public_seed(5))


def products_task(names, clients, *, rows, delta=1e-6, **choices):
    """Of which A^T A is opened."""
    choices = {"sharing": "shamir", "simulation_seed": 6, "sketch": "countsketch", "rows": rows, **choices}
    return design_products(ReleaseSpec.of(Schema.unit(names), clients, 1.0, delta, **choices))
