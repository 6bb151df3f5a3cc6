"""From opened sums to a release: the only place where shares of the sketch meet.

The analyst receives one transformed share from each server, adds them up (or interpolates) and learns the noisy sketch
and nothing else. What follows, the analysis A of the paper, is an estimator that reads the `Release`.

Promised: with Shamir shares a wrong one is noticed, and `open_robustly` goes on without servers that are missing, and,
where 3t + 1 or more are present, without those that are wrong, within the bounds of `ShamirSharing.correct`. Not
promised: that a wrong additive share is noticed, or that a server whose share is wrong is to blame: a client may have
dealt it shares that fit no secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpmpc.base.arrays import Words
from dpmpc.base.errors import BatchMismatch, InconsistentShares, InputError, PartyMissing
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.privacy.task import Task
from dpmpc.release.release import Release


class OpenedSums(NamedTuple):
    """A release, and the servers whose shares it was made without because they were wrong."""

    release: Release
    wrong: tuple[int, ...]


def open_sums(task: Task, shares: Sequence[Words]) -> Release:
    """Combine the servers' transformed shares, all of which must be present and correct.

    Parameters
    ----------
    task : Task
        The public facts.
    shares : sequence of ndarray of uint64, shape (k, width)
        One from each server, in the servers' order.

    Returns
    -------
    Release

    Raises
    ------
    BatchMismatch
        If a share is missing or of another shape.
    InconsistentShares
        If Shamir shares do not belong to one secret.
    """
    expected = (task.sketch.rows, task.width)
    if len(shares) != task.trust.servers:
        raise BatchMismatch(f"shares: {len(shares)} given, one from each of {task.trust.servers} servers expected")
    for server, share in enumerate(shares):
        if share.shape != expected:
            raise BatchMismatch(
                f"share of server {server}: shape {share.shape} given, {expected} expected", party=server
            )
    return _release(task, task.scheme.combine(list(shares)))


def open_robustly(task: Task, shares: Mapping[int, Words]) -> OpenedSums:
    """Combine the transformed shares of the servers that are present, and name those whose shares are wrong.

    Parameters
    ----------
    task : Task
        The public facts.
    shares : mapping from server to ndarray of uint64
        With additive sharing from every server. A Shamir share counts as wrong unless it is an array of field
        elements of shape (k, width).

    Returns
    -------
    OpenedSums

    Raises
    ------
    PartyMissing
        If fewer servers are present than the scheme needs.
    BatchMismatch
        If an additive share is of another shape.
    InconsistentShares
        If more Shamir shares are wrong than are corrected: any, where fewer than 3t + 1 servers are present.
    """
    scheme = task.scheme
    servers = range(task.trust.servers)
    for server in shares:
        if server not in servers:
            raise InputError("shares", f"server {server!r}", f"a number from 0 to {servers[-1]}")
    missing = [server for server in servers if server not in shares]
    needed = scheme.threshold + 1 if isinstance(scheme, ShamirSharing) else task.trust.servers
    if len(shares) < needed:
        raise PartyMissing(
            f"shares: those of servers {missing} are missing; {task.sharing} sharing needs {needed} of {len(servers)}",
            missing[0],
        )
    if not isinstance(scheme, ShamirSharing):
        return OpenedSums(open_sums(task, [shares[server] for server in servers]), ())
    usable = {server: share for server, share in shares.items() if _is_usable(task, share)}
    unusable = sorted(set(shares) - set(usable))
    most = scheme.corrected(len(shares))
    if len(unusable) > most:
        raise InconsistentShares(
            f"shares: those of servers {unusable} are not sums of this task, at most {most} such of {len(shares)} "
            "expected",
            unusable[0],
        )
    corrected = scheme.correct(usable, spoilt=len(unusable))
    return OpenedSums(_release(task, corrected.secret), tuple(sorted({*unusable, *corrected.wrong})))


def _is_usable(task: Task, share: Words) -> bool:
    shape = (task.sketch.rows, task.width)
    return share.dtype == np.uint64 and share.shape == shape and task.encoding.ring.is_canonical(share)


def _release(task: Task, sums: Words) -> Release:
    return Release(task=task, sums=task.encoding.ring.lift(sums))
