"""One release of a program, once all parties have agreed on its task: rows or shares, noise, and what is kept.

`LinkedPlan` and `LinkedRun` are those of a party of `dpmpc.parties.network`, `dpmpc.parties.mpyc.mpyc_plans` has those
of MPyC's own runtime.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from mpyc.runtime import mpc

from dpmpc.base.arrays import Integers, Reals, Words
from dpmpc.base.errors import InputError
from dpmpc.linear.sharing.batch import Share
from dpmpc.parties.mpyc.closed_tasks import OpenedProducts
from dpmpc.parties.mpyc.costs import costs
from dpmpc.parties.mpyc.secret_arrays import is_server
from dpmpc.parties.mpyc.share_folders import ShareFolder
from dpmpc.parties.network.verified_task import simulation_keys
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.release import RELEASE_FILE, GramRelease, Release
from dpmpc.release.results import Result
from dpmpc.release.server import noise_stream, require_own_noise, server_noise

Opened = TypeVar("Opened", Release, GramRelease, OpenedProducts)


@dataclasses.dataclass(frozen=True)
class AgreedRun:
    """One release of a program, once all parties have agreed on it.

    Parameters
    ----------
    task : VerifiedTask
        The public facts; the public matrix is ``task.sketch``.
    analyst : int or None
        The party that opens the sketch; None where all do.
    rows : ndarray of float64, shape (n / M, columns), or None
        Of the clients that this party plays, in the units of the schema; None where clients are no parties.
    share : Share or None
        What clients who are no parties have sent to this server.
    threads : int
        Of the kernel.
    """

    task: VerifiedTask
    analyst: int | None
    rows: Reals | None = None
    share: Share | None = None
    threads: int = 1

    def server_noise(self) -> Words:
        """Draw the noise (k, width) that this server adds, as ring elements; an analyst draws none."""
        if not is_server():
            return np.zeros((self.task.sketch.rows, self.task.width), np.uint64)
        return server_noise(self.task, noise_stream(self.task, self.simulation_key), threads=self.threads)

    @property
    def simulation_key(self) -> bytes | None:
        """The key of this server's noise in a simulation; None stands for secret noise."""
        return None

    @property
    def assumed_links(self) -> str:
        """Code of what the guarantee assumes of the links."""
        return "secret-links"

    def once(self, y: Any) -> Any:
        """Return the sketch that is about to be opened, once it is written down that it is."""
        return y

    async def released(
        self,
        opened: Integers | None,
        of: Callable[..., Opened] = Release,  # type: ignore[assignment]
    ) -> Opened | None:
        """Keep what this party has opened; return it as a release, or None at a party that has opened nothing.

        Parameters
        ----------
        opened : ndarray of int64, optional
            What `mpc.output` has returned.
        of : callable
            ``of(task, opened)`` makes the release: `Release` of the whole sketch by default.
        """
        if opened is None:
            return None
        release = of(self.task, opened)
        if isinstance(release, Release):
            self.keep(release)
        print(f"opened: {' x '.join(f'{side:,}' for side in opened.shape)} numbers of {self.task.clients:,} clients")
        return release

    @abc.abstractmethod
    def keep(self, release: Release) -> None:
        """Keep the release where the user asked for it."""

    def report(
        self, release: Opened | None, analyse: Callable[[Opened], Result] = lambda release: Result()
    ) -> dict[str, Any]:
        """Print the analysis, the guarantee and the costs; return the numbers of the analysis.

        Parameters
        ----------
        release : Opened, optional
            What `released` has returned.
        analyse : callable
            What the analyst makes of the release, A(y) of the paper.
        """
        if release is None:  # the analyst has taken leave since, which it does once it has kept what it opened
            print(f"opened: by party {self.analyst} alone")
            return {}
        with costs.phase("fit"):
            result = analyse(release)
        print(*filter(None, [str(result)]), release.guarantee.over(self.assumed_links), sep="\n\n")
        return dict(result.data)


@dataclasses.dataclass(frozen=True)
class LinkedRun(AgreedRun):
    """A release among parties of `dpmpc.parties.network`, which measure their costs and keep the answer themselves."""

    @property
    def simulation_key(self) -> bytes | None:
        """The key that a launcher has handed over."""
        server: int = mpc.pid
        return simulation_keys(mpc.settings)[server]

    def once(self, y: Any) -> Any:
        """Mark the folder of a server that was started by hand; a launcher's folders are made for one run."""
        if is_server() and mpc.settings.launched is None:
            ShareFolder(mpc.party.folder, self.task).mark_used()
        return y

    def keep(self, release: Release) -> None:
        """Keep the release in the analyst's folder."""
        release.save(mpc.party.folder / RELEASE_FILE)


class Plan(abc.ABC):
    """What a party is about to release, found possible before any other party is contacted."""

    @abc.abstractmethod
    async def agreed(self) -> AgreedRun:
        """Agree with all parties, which are connected."""


class LinkedPlan(Plan):
    """Of a party of `dpmpc.parties.network`."""

    async def agreed(self) -> AgreedRun:
        """Return the task of the party, verified before it contacted any other, with its share."""
        party = mpc.party
        require_no_proofs(party.task)
        share = ShareFolder(party.folder, party.task).share if is_server() else None
        return LinkedRun(party.task, party.analyst, share=share, threads=party.arguments["threads"])


def require_no_proofs(task: Task) -> None:
    """Refuse a task whose reports servers have to check together, or whose noise they have to deal, before they sum."""
    if task.proofs is not None:
        raise InputError(
            "task", "one with proofs", "one without", condition="(dpmpc.protocols.proved_reports checks them)"
        )
    require_own_noise(task)
