"""CoinPress among real processes: mean, covariance or regression, with no trusted curator.

Data: n clients, each with d features x, and for a regression a label y. Wanted: the mean of x, its covariance, or the
coefficients, while all rounds together have rho-zCDP (Biswas et al. 2020; Ediger 2021; theorem coinpress-rounds).

In each round

1. the ball (center and radius, and a whitening matrix) that earlier rounds have found is published, as a task;
2. each client clips its row to that ball, encodes it, adds its share of fresh noise, and sends shares to the servers;
3. the servers add up and open the noisy sum, and nothing else (`dpmpc.protocols.linear_transform`);
4. the analyst reads the next ball from it: post-processing, which costs no privacy.

The ledger adds up rho. Every round starts its own servers. Three servers and an analyst, each a process of this
machine, and generated people::

    python protocols/coinpress.py -M3 --model mean --clients 10000 --rho 0.5
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmpc.base.arrays import Reals
from dpmpc.base.errors import InputError
from dpmpc.base.randomness import Stream
from dpmpc.models.papers.coinpress import CoinPressRegression, PrivateCovariance, PrivateMean
from dpmpc.models.papers.coinpress.coinpress_estimators import CoinPress
from dpmpc.parties.network.meter import RunStatistics
from dpmpc.parties.networked import run
from dpmpc.privacy.specification import option_of
from dpmpc.privacy.task import Task
from dpmpc.protocols._by_hand import add_noise_options, by_hand, parse_options
from dpmpc.release.release import Release

MODELS = ("mean", "covariance", "regression")


class Networked:
    """Runs the tasks of an estimator's rounds among processes of this machine, linked by TLS."""

    def __init__(self) -> None:
        self.servers: list[tuple[RunStatistics, ...]] = []

    def __call__(self, task: Task, rows: Reals, *, stream: Stream | None = None) -> Release:
        """Play all the clients, then run servers and analyst."""
        done = run(task, rows, stream=stream)
        self.servers.append(done.servers)
        return done.release


def demonstrate(arguments: Sequence[str]) -> None:
    """Estimate from generated Gaussian people, and print what was found, what it cost and what is guaranteed."""
    chosen = parse_options(__doc__, arguments, _more, clients=10_000, epsilon=None, delta=1e-6)
    if min(chosen.clients, chosen.features) < 1:
        raise InputError("clients, features", f"{chosen.clients}, {chosen.features}", "at least 1")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((chosen.clients, chosen.features))
    truth = np.where(np.arange(chosen.features) % 2, -0.8, 0.8)
    network = Networked()
    options = {
        "rho": chosen.rho,
        "delta": chosen.delta,
        "servers": chosen.servers,
        "noise_by": chosen.noise_by,
        "corrupt_clients": chosen.corrupt_clients,
        "run": network,
        "simulation_seed": chosen.simulation_seed,
    }
    if chosen.rounds is not None:
        options["rounds"] = chosen.rounds
    began = time.perf_counter()
    fitted: CoinPress
    if chosen.model == "mean":
        fitted = PrivateMean(center=0.0, radius=10 * math.sqrt(chosen.features), **options).fit(X + truth)
        estimate, exact = fitted.mean_, np.mean(X + truth, axis=0)
    elif chosen.model == "covariance":
        fitted = PrivateCovariance(**options).fit(X)
        estimate, exact, truth = fitted.covariance_, X.T @ X / len(X), np.eye(len(truth))
    else:
        y = X @ truth + rng.standard_normal(len(X))
        fitted = CoinPressRegression(**options).fit(X, y)
        estimate, exact = fitted.coef_, np.linalg.lstsq(X, y, rcond=None)[0]
    result = {
        "estimate": estimate.tolist(),
        "error": float(np.linalg.norm(estimate - truth)),
        "error_without_privacy": float(np.linalg.norm(exact - truth)),
    }
    _print(chosen, fitted, network, result, time.perf_counter() - began)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", choices=MODELS, default="mean", help="what is estimated (default %(default)s)")
    parser.add_argument("--features", type=int, default=10, help="(default %(default)s)")
    parser.add_argument("--rho", type=float, default=0.5, help="budget of all rounds, in zCDP (default %(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds of each mean or covariance (default: the estimator's)")
    parser.add_argument("--corrupt-clients", **option_of("corrupt_clients"))
    add_noise_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, not the text")


def _print(
    chosen: argparse.Namespace, fitted: CoinPress, network: Networked, result: dict[str, Any], wall_s: float
) -> None:
    if chosen.json:
        fields = {
            "model": f"coinpress-{chosen.model}",
            "clients": chosen.clients,
            "features": chosen.features,
            "servers": chosen.servers,
            "privacy": fitted.guarantee_.to_dict(),
            "ledger": [{"round": name, "rho": rho} for name, rho in fitted.ledger_.entries],
            "bytes_sent": [[spent.bytes_sent for spent in servers] for servers in network.servers],
            "wall_s": wall_s,
            "result": result,
        }
        print(json.dumps(fields, allow_nan=False))
        return
    print(f"{chosen.model} of {chosen.clients:,} clients with {chosen.features} features, {chosen.servers} servers")
    print(f"error (L2): private {result['error']:.4f}, without privacy {result['error_without_privacy']:.4f}\n")
    for (name, rho), servers in zip(fitted.ledger_.entries, network.servers, strict=True):
        print(f"round: {name}: rho = {rho:.4g}, a server sent {max(spent.bytes_sent for spent in servers):,} bytes")
    print(f"all rounds: rho = {fitted.ledger_.spent:.6g} of {chosen.rho:g}, {wall_s:.1f} s\n")
    print(fitted.guarantee_)


if __name__ == "__main__":
    by_hand(demonstrate)
