"""Products of a sketch that stays closed, checked before any party opens them: a wrong share ends the run.

MPyC multiplies with passive security. Each server multiplies its shares, deals shares of the result, and all add up
what they were dealt (Gennaro, Rabin and Rabin 1998). A server that deals shares of another number, or multiplies
altered shares, adds an error to the product. It chooses the error, and cannot make it depend on what it does not know
(Genkin et al. 2014, "Circuits resilient to additive attacks"): the honest servers' shares are masked by randomness of
their own. So secrecy does not suffer, but the product may be C = A^T A + E with any E that up to t servers have chosen.

`checked_gram` detects that. All arithmetic is modulo p = 2^61 - 1; brackets stand for Shamir shares of degree t.

1. All servers deal [r], k random numbers each, and add up what was dealt. One of them is honest: no party knows r.
2. MPyC computes [C] = [A^T A] + [E] and [c] = [r^T A] + [e] at once. E and e are now fixed.
3. The servers toss a coin (commit, then open) and read u, v and a from it: two vectors and a number, uniform.
4. They open s = a A u + r to one another. It is uniform, whatever A is.
5. They open the difference  a u^T [C] v + [c] v - s^T [A] v = a u^T E v + e v.  If it is zero, C may be opened.

*A wrong product passes with a probability of at most 3/p < 2^-59.* If E is not zero, E^T u is zero with a probability
of at most 1/p over u; else a E^T u + e is zero for at most one a; else its product with v is zero with a probability of
1/p. *The check reveals nothing of A*: s is uniform, and the difference is a function of E, e and the coin, which those
who chose E and e know already. *Steps 4 and 5 cannot be cheated*: all M shares of what is opened have to lie on one
polynomial of degree t, and the M - t > t honest ones fix which. A server that hears anything else ends the run and
never shows its share of C. Shares of A that fit no secret, which clients may have dealt where M > 2 t + 1, end the run
in step 4 likewise. *No party is named*: who shows a share that does not fit may have been dealt it, by the client of a
row, in step 1 or in step 2.

Trust: up to t < M/2 servers may deviate in any way, on the links of `dpmpc.parties.network`; on MPyC's own links all
have to follow the protocol there. All must be present, and a wrong share ends the run; it is not corrected. Sources:
Freivalds 1977 for u and v; the sacrifice of a second, random product is that of Damgård, Pastro, Smart and Zakarias
2012; against additive errors among an honest majority, Chida et al. 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.arrays import Words
from dpmpc.base.errors import InconsistentShares
from dpmpc.base.randomness import Label, Stream, derive
from dpmpc.linear.encoding.ring import ring_named
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.parties.mpyc import agreeing
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.current_runtime import exchange
from dpmpc.parties.mpyc.secret_arrays import as_words_of, is_server, words_from
from dpmpc.parties.network.announcing import explained
from dpmpc.parties.network.conversation import toss

FIELD = ring_named("mersenne61")
COIN = "the check of products"


async def checked_gram(A: Any) -> Any:
    """Return A^T A as a secret array, once the servers have checked it.

    Parameters
    ----------
    A : array of ``secret_array("shamir")``, shape (k, p)
        A sketch, or any linear function of it modulo 2^61 - 1.

    Returns
    -------
    array of ``secret_array("shamir")``, shape (p, p)
        For MPyC to go on with, or to be opened.

    Raises
    ------
    InconsistentShares
        If a server has altered a share, of A or of a product; nothing was opened, and no party is named.
    """
    k, p = A.shape
    with costs.phase("multiply"):
        r = type(A).summed(FIELD.uniform(Stream.from_os(), (k, 1)))  # 1
        both = np.hstack((A, r)).T @ A  # 2: [C; c]
        if not is_server():  # an analyst holds no share; its program counters stay in step with the servers'
            for _ in range(2):
                await exchange(b"")
            return both[:p]
        A_words, r_words, both_words = [as_words_of(share) for share in await mpc.gather([A, r, both])]
        C, c = np.vsplit(both_words, [p])

        stream = Stream(derive(await _coin(), Label.PRODUCT_CHECK))  # 3
        u, v, [a] = FIELD.uniform(stream, p), FIELD.uniform(stream, p), FIELD.uniform(stream, 1)

        s = await _opened(FIELD.multiply_add(_times(A_words, u), int(a), r_words[:, 0]), "mask")  # 4

        weighted = _times(C.T.copy(), u)  # 5
        error = FIELD.multiply_add(_times(weighted[None], v), int(a), _times(c, v))
        error = FIELD.subtract(error, _times(_times(A_words, v)[None], s))
        if (await _opened(error, "difference")).any():
            raise InconsistentShares("products: a server multiplied other numbers than its shares; nothing was opened")
    return both[:p]


async def _coin() -> bytes:
    """Toss; among the parties of `dpmpc.parties.network` a server that shows two coins is named."""
    party = getattr(mpc, "party", None)
    if party is None:
        return await agreeing.toss(await agreeing.agreed({"coin": COIN}), COIN)
    coin: bytes = await explained(party, toss(party, COIN))
    return coin


def _times(matrix: Words, vector: Words) -> Words:
    """Return a public or shared matrix times a vector modulo 2^61 - 1."""
    total = np.zeros(len(matrix), np.uint64)
    for column, factor in zip(np.ascontiguousarray(matrix.T), vector, strict=True):
        total = FIELD.multiply_add(column, int(factor), total)
    return total


async def _opened(share: Words, what: str) -> Words:
    """Show this server's share to all others; return the secret if all shares lie on one polynomial."""
    costs.round("multiply")
    sent = await exchange(np.ascontiguousarray(share).tobytes())
    shares = [words_from(data, share.shape, FIELD, sender) for sender, data in enumerate(sent)]
    try:
        return ShamirSharing(len(mpc.parties), mpc.threshold).combine(shares)
    except InconsistentShares:
        raise InconsistentShares(
            f"products: the servers' shares of the {what} do not lie on one polynomial; nothing was opened, and nobody "
            "is named, because a share that does not fit may have been dealt so"
        ) from None
