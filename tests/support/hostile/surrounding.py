"""Clients that do not do what they should.

`surround` is a coalition of strangers: with a server that denies all other reports it leaves one victim in a batch of
clients that add no noise. By hand, from tests/::

    python -m support.hostile.surrounding surround --batch 200 --noise-by clients

Everything happens in one process and ends by itself.
"""

import argparse
import math

import numpy as np

from dpmpc.data import Schema
from dpmpc.linear.sharing.batch import ArrayShare
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.release import analyst
from dpmpc.release.client import Client
from dpmpc.release.planning import design
from dpmpc.release.server import transform


class Stranger(Client):
    """A client that adds no noise, although the task says that clients do."""

    def noise(self, count, threads=1):
        """Return zeros where noise is expected."""
        drawn = super().noise(count, threads)
        return None if drawn is None else np.zeros_like(drawn)


def surround(task, victim, runs=1):
    """Sum a victim's report and n - 1 strangers', and take off what the strangers know."""
    task = task.verify()
    ring, theirs = task.encoding.ring, np.zeros((task.clients - 1, victim.shape[1]))
    honest, strangers = Client(task), Stranger(task)
    known = strangers.encode(theirs).sum(axis=0) + honest.encode(victim)[0]
    left = np.empty((runs, task.width))
    for run in range(runs):
        words = np.concatenate([honest.randomize(victim), strangers.randomize(theirs)])
        shares = [ArrayShare(share, ring) for share in task.scheme.split(words)]
        release = analyst.open_sums(task, [transform(task, share) for share in shares])
        left[run] = release.sums[0] - known
    return left


def main(arguments=None):
    """Run by hand."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("deed", choices=["surround"])
    parser.add_argument("--batch", type=int, default=200, help="reports that the server leaves over")
    parser.add_argument("--noise-by", choices=["clients", "servers"], default="clients")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args(arguments)
    task = design(
        ReleaseSpec.of(Schema.unit(["a", "y"]), options.batch, 1.0, 1e-6, sketch="sum", noise_by=options.noise_by)
    )
    left = surround(task, np.array([[0.9, -0.7]]), options.runs)
    counted_on = task.sensitivity.l2 / task.guarantee.mu
    print(f"noise around the victim: {left.std():.4g} units; the guarantee counts on {counted_on:.4g}")
    if options.noise_by == "clients":
        told = task.epsilon_against(options.batch - 1)
        print(f"promised epsilon {task.epsilon:g}; epsilon of the victim {told if math.isfinite(told) else 'unproven'}")


if __name__ == "__main__":
    main()
