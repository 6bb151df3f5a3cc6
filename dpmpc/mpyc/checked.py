"""Products of a sketch that stays closed, checked before anybody opens them: a wrong share ends the run.

MPyC multiplies with passive security. Each server multiplies its shares, deals shares of the result, and all add up
what they were dealt (Gennaro, Rabin and Rabin 1998). A server that deals shares of another number, or multiplies
altered shares, adds an error to the product. It chooses the error, and cannot make it depend on what it does not know
(Genkin et al. 2014, "Circuits resilient to additive attacks"): the honest servers' shares are masked by randomness of
their own. So secrecy does not suffer, but the product may be C = A^T A + E with any E that up to t servers have chosen.

`checked_products` finds out. All arithmetic is modulo p = 2^61 - 1; brackets stand for Shamir shares of degree t.

1. Servers 0 to t deal [r], k random numbers each, and add up what was dealt. One of them is honest: nobody knows r.
2. MPyC computes [C] = [A^T A] + [E] and [c] = [r^T A] + [e] at once. E and e are now fixed.
3. The servers toss a coin (commit, then open) and read u, v and a from it: two vectors and a number, uniform.
4. They open s = a A u + r to one another. It is uniform, whatever A is.
5. They open the difference  a u^T [C] v + [c] v - s^T [A] v = a u^T E v + e v.  If it is zero, C may be opened.

*A wrong product passes with a probability of at most 3/p < 2^-59.* If E is not zero, E^T u is zero with a probability
of at most 1/p over u; else a E^T u + e is zero for at most one a; else its product with v is zero with a probability of
1/p. *The check tells nothing of A*: s is uniform, and the difference is a function of E, e and the coin, which those
who chose E and e know already. *Steps 4 and 5 cannot be cheated*: all M shares of what is opened have to lie on one
polynomial of degree t, and the M - t > t honest ones fix which. A server that hears anything else ends the run and
never shows its share of C. Shares of A that fit no secret, which clients may have dealt where M > 2 t + 1, end the run
in step 4 likewise. *Nobody is named*: who shows a share that does not fit may have been dealt it, by the client of a
row, in step 1 or in step 2.

Trust: up to t < M/2 servers may deviate in any way. All have to be present, and a wrong share ends the run; it is not
corrected. Sources: Freivalds 1977 for u and v; the sacrifice of a second, random product is that of Damgård, Pastro,
Smart and Zakarias 2012; against additive errors among an honest majority, Chida et al. 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmpc.encoding import Mersenne61
from dpmpc.errors import InconsistentShares
from dpmpc.mpyc.unopened import secure_array
from dpmpc.network.announcing import explained
from dpmpc.network.conversation import exchange, toss
from dpmpc.network.frames import Kind
from dpmpc.network.party import Party
from dpmpc.randomness import Label, Stream, derive
from dpmpc.task import Task

Words = NDArray[np.uint64]


async def checked_products(party: Party, task: Task, A: Words) -> Any:
    """Return a secure array of A^T A, once the servers know that it is right.

    Parameters
    ----------
    party : Party
        A server; all servers call this.
    task : Task
        With Shamir shares.
    A : ndarray of uint64, shape (k, p)
        This server's share of the sketch, or of any linear function of it modulo 2^61 - 1.

    Returns
    -------
    SecureArray
        Of shape (p, p), for MPyC to go on with or for `open_to_analyst`.

    Raises
    ------
    InconsistentShares
        If a server has altered a share, of A or of a product; nothing was opened, and nobody is named.
    """
    return await explained(party, _checked(party, task, A))


async def _checked(party: Party, task: Task, A: Words) -> Any:
    ring = Mersenne61()
    columns = A.shape[1]
    mask = await _joint_mask(party, task, len(A))
    factors = secure_array(party, task, np.column_stack([A, mask]))
    both = factors.T @ factors[:, :columns]
    [share] = await party.runtime.gather([both])
    C, c = np.vsplit(share.value.astype(np.uint64), [columns])

    stream = Stream(derive(await toss(party, "the check of products"), Label.PRODUCT_CHECK))
    u, v, [a] = ring.uniform(stream, columns), ring.uniform(stream, columns), ring.uniform(stream, 1)

    masked = ring.multiply_add(_times(A, u), int(a), mask)
    s = await _open_among_servers(party, task, Kind.MASKED, masked)
    weighted = _times(C.T.copy(), u)
    error = ring.multiply_add(_times(weighted[None], v), int(a), _times(c, v))
    error = ring.subtract(error, _times(_times(A, v)[None], s))
    if (await _open_among_servers(party, task, Kind.DIFFERENCE, error)).any():
        raise InconsistentShares("products: a server multiplied other numbers than its shares; nothing was opened")
    return both[:columns]


def _times(matrix: Words, vector: Words) -> Words:
    """Return a public or shared matrix times a vector modulo 2^61 - 1."""
    ring = Mersenne61()
    total = np.zeros(len(matrix), np.uint64)
    for column, factor in zip(np.ascontiguousarray(matrix.T), vector, strict=True):
        total = ring.multiply_add(column, int(factor), total)
    return total


async def _joint_mask(party: Party, task: Task, length: int) -> Words:
    """Return this server's share of random numbers that no t servers know: the sum of what t + 1 servers deal."""
    ring, stream, dealers = Mersenne61(), Stream.from_os(), range(task.trust.colluding_servers + 1)
    own = [np.empty(0, np.uint64)] * party.servers  # of whoever deals nothing
    if party.pid in dealers:
        own = list(task.scheme.split(ring.uniform(stream, length), stream=stream))
    shapes = {server: (length if server in dealers else 0,) for server in party.present}
    dealt = await exchange(party, Kind.MASK, dict(enumerate(own)), shapes)
    return ring.sum_of([dealt[dealer] for dealer in dealers], name="masks")


async def _open_among_servers(party: Party, task: Task, kind: Kind, share: Words) -> Words:
    """Show this server's share to all others; return the secret if all shares lie on one polynomial."""
    try:
        return task.scheme.combine(list((await exchange(party, kind, share)).values()))
    except InconsistentShares:
        raise InconsistentShares(
            f"products: the servers' shares of the {kind.name} do not lie on one polynomial; nothing was opened, and "
            "nobody is named, because a share that does not fit may have been dealt so"
        ) from None
