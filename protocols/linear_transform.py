"""The linear-transformation model (Burkhardt et al. 2025, Algorithm 1), as an MPyC program.

Parties: M servers, of whom all but one may pool what they see (Shamir shares: fewer than half). Each plays n/M clients,
or holds what clients who are no parties have sent to it (--shares). All of them, or one (--analyst), open the noisy
sketch, and nothing else is opened.

    python protocols/linear_transform.py -M3
    python protocols/linear_transform.py -M5 -T2 --sharing shamir --rows 500 --sparsity 4
    python protocols/linear_transform.py -P a.example:9000 -P b.example:9000 -P c.example:9000 -I 0 --ssl --analyst 0

`dpmpc.parties.networked.run` starts the same file among authenticated parties, with an analyst who holds no share.
"""

from typing import Any

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.arrays import Words
from dpmpc.parties.mpyc.agreed_runs import AgreedRun
from dpmpc.parties.mpyc.mpyc_links import errors_in_a_line
from dpmpc.parties.mpyc.programs import options, planned
from dpmpc.parties.mpyc.secret_arrays import secret_array
from dpmpc.privacy.task import VerifiedTask
from dpmpc.release.client import Client


def R(task: VerifiedTask, x: Any) -> Words:
    """Return z_i = R(x_i), Eq. (1): s copies of each clipped, encoded row, each copy with its own noise."""
    return Client(task).randomize(x)


def linear_transform(run: AgreedRun) -> Any:
    """Return the noisy sketch y = T(z_1, ..., z_n) of all clients' rows, as a secret array (k, width)."""
    task = run.task
    secret = secret_array(task.sharing, task.encoding.ring.name)

    # Client i:  z_i = R(x_i);  send the share [z_i]_j to server j                                            Eq. (2)
    if run.rows is None:
        z = secret.load(run.share, task.share_shape)
    else:
        z = np.vstack(mpc.input(secret(R(task, run.rows))))

    # Server j:  [y]_j = T([z]_j) = S_1 [z^(1)]_j + ... + S_s [z^(s)]_j, alone; S = s^(-1/2) (S_1 + ... + S_s)  Eq. (3)
    y = task.sketch.apply(z, threads=run.threads)  # exact integers: the analyst multiplies by s^(-1/2)
    if task.servers_add_noise:
        y += secret.summed(run.server_noise())
    return y


async def main() -> dict[str, Any]:
    """Run one party."""
    args = options(__doc__)
    plan = planned(args)  # n, d, k, s, the bounds, the noise
    async with mpc:
        run = await plan.agreed()  # one task for all, with the public S
        y = linear_transform(run)
        sums = await mpc.output(run.once(y), receivers=run.analyst)  # Server j:  send [y]_j to the analyst
        release = await run.released(sums)
    return run.report(release)  # Analyst:  A(y), any function of the noisy sketch


if __name__ == "__main__":
    with errors_in_a_line():
        mpc.run(main())
