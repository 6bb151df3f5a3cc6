"""Read, write and check the task file of a collection: what everybody agrees on before the first upload.

The noise of a client is in its report before anybody knows how many reports there will be, or the public matrix, whose
seed the servers toss after closing. So a collection fixes the noise for its *minimum batch*, and `Collection.task`
recomputes the guarantee for the batch and the matrix that there are in the end: a matrix that gives less than was
promised is drawn again, a batch that cannot give it is refused.

The file holds what a `Task` states but for the number of clients and the seed of the matrix, the times, the sizes, and
the servers with their certificates and the keys that clients seal to. It holds no secret. It is one line of JSON, which
``GET /v1/collection`` answers, too, and its digest is SHA-256 of it. Other bytes of equal meaning are refused: nobody
has to write JSON as Python does to get the digest, everybody hashes the file.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from dpmpc.base.arrays import Bytes
from dpmpc.base.digests import DIGEST_BYTES, sha256_of_rows
from dpmpc.base.errors import CollectionClosed, GuaranteeError, InputError, TooFewClients
from dpmpc.base.randomness import SEED_BYTES, Label, derive
from dpmpc.base.storage import Record, canonical
from dpmpc.base.untrusted import LARGEST_FILE, LONGEST_TEXT, ReadError, is_unicode, read_bytes, read_json
from dpmpc.collect.terms.series import Series
from dpmpc.collect.terms.server_entries import ServerEntry, check_servers, check_text
from dpmpc.data import Codebook
from dpmpc.linear import noise, sketching
from dpmpc.linear.encoding.fixed_point import plan_modulus
from dpmpc.linear.sharing import ShamirSharing
from dpmpc.linear.sketching.sparse import Sum
from dpmpc.privacy import Guarantee
from dpmpc.privacy.specification import MATRICES
from dpmpc.privacy.task import Task, VerifiedTask
from dpmpc.release.proved_reports import row_words

ATTEMPTS = MATRICES  # matrices that are drawn from one toss before a batch is refused
STORED_FACTOR = 4  # reports that a server stores at most through one entrance, as a multiple of the largest batch


class Collection(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What everybody agrees on before the first upload.

    Parameters
    ----------
    format : int
        4.
    name : str
        For people.
    opens, closes : datetime
        When reports are taken; with a time zone.
    expires : datetime
        After this time nothing is released any more, and the servers may delete what they have.
    minimum_batch : int
        Fewer reports than these are never opened; the noise is chosen for so many.
    largest_batch : int
        More reports than these are not opened together; the sums are proven not to wrap around for so many. Where the
        servers hold more, the toss chooses (`chosen`).
    authenticated : bool
        Whether only clients of a roster may contribute, each once.
    template : dict
        The fields of a `Task` without the number of clients and the seed of the matrix.
    servers : tuple of ServerEntry
        In the order of their numbers.
    purpose, contact : str
        Why people are asked, and whom they can ask, for the pages of the servers; at most 2,000 characters each.
    series : Series, optional
        Which epoch of a series this is (`dpmpc.collect.terms.series`).

    Raises
    ------
    InputError
        If a field is not what it must be.
    """

    called: ClassVar[str] = "collection"
    format: Literal[4]
    name: str
    opens: datetime.datetime
    closes: datetime.datetime
    expires: datetime.datetime
    minimum_batch: int
    largest_batch: int
    authenticated: bool
    template: dict[str, Any] = msgspec.field(name="task")
    servers: tuple[ServerEntry, ...]
    purpose: str = ""
    contact: str = ""
    series: Series | None = None

    def __post_init__(self) -> None:
        for name in ("opens", "closes", "expires"):
            if getattr(self, name).tzinfo is None:
                raise InputError(name, f"{getattr(self, name)}", "a time with its time zone")
        if not self.opens < self.closes < self.expires:
            times = f"{self.opens}, {self.closes}, {self.expires}"
            raise InputError("opens, closes, expires", times, "each later than the one before")
        if not 1 <= self.minimum_batch <= self.largest_batch:
            raise InputError(
                "minimum_batch, largest_batch",
                f"{self.minimum_batch}, {self.largest_batch}",
                "1 <= minimum_batch <= largest_batch",
            )
        if not self.name.strip() or not is_unicode(self.name):
            raise InputError("name", f"{self.name!r}", "what people call the collection")
        for what in ("purpose", "contact"):
            check_text(what, getattr(self, what), LONGEST_TEXT)
        check_servers(self.servers)
        task = self.plan
        if len(self.servers) != task.trust.servers:
            raise InputError("servers", f"{len(self.servers)}", task.trust.servers, condition="by the task")
        if task.simulation:
            raise InputError("task", "simulation = true", "false", "a collection protects real people")
        if task.schema.outside != "clip":
            raise InputError(
                "outside",
                f"{task.schema.outside!r}",
                "'clip'",
                "a report that does not come would show the servers that a value lies outside its bounds",
                condition="in a collection",
            )
        if task.delta * self.largest_batch >= 1:
            raise InputError(
                "delta",
                f"{task.delta:g} given for up to {self.largest_batch} clients, less than 1/n = "
                f"{1 / self.largest_batch:g} expected",
            )

    @functools.cached_property
    def content(self) -> bytes:
        """The canonical JSON form, which the file is and which servers hand out."""
        times = {name: _utc(getattr(self, name)) for name in ("opens", "closes", "expires")}
        try:
            return canonical({**self.to_dict(), **times})
        except ValueError as error:
            raise InputError("task", "infinity or NaN", "finite numbers") from error

    @functools.cached_property
    def digest(self) -> bytes:
        """SHA-256 of the content, 32 bytes."""
        return hashlib.sha256(self.content).digest()

    @functools.cached_property
    def plan(self) -> Task:
        """The task of a minimum batch: what reports are made for."""
        return self.plan_of(self.minimum_batch)

    def plan_of(self, clients: int) -> Task:
        """Return the task of a batch, not verified, with a matrix that everybody can draw before there is a toss."""
        return self._task_of(clients, hashlib.sha256(Label.COLLECTION.value + self.content).digest())

    @property
    def record_shape(self) -> tuple[int, int]:
        """Shape of what the last server keeps of a report: copies, entries.

        Where dealing is checked all of them and the mask are one row, and of a proved report all that came.
        """
        if self.proved:
            return (1, row_words(self.plan, by_key=False))
        if self.checked_dealing:
            return (1, self.plan.copies * self.plan.width + 1)
        return (self.plan.copies, self.plan.width)

    @property
    def checked_dealing(self) -> bool:
        """Whether each report holds one more word, a mask by which servers check that Shamir shares lie on polynomials.

        See `dpmpc.collect.opening.dealing_checks`; proofs show the same.
        """
        return isinstance(self.plan.scheme, ShamirSharing) and not self.proved

    @property
    def proxies(self) -> str:
        """For which servers a reverse proxy answers clients, whose words are its words: for people, perhaps empty."""
        numbers = [str(number) for number, entry in enumerate(self.servers) if entry.public_certificate]
        named = f"server{'' if len(numbers) == 1 else 's'} {', '.join(numbers)}"
        return f"; proxies answer for {named}, and could answer as they like" if numbers else ""

    @property
    def proved(self) -> bool:
        """Whether clients prove that what they share is well formed (`dpmpc.collect.opening.proof_checks`)."""
        return self.plan.proofs is not None

    @property
    def most_stored(self) -> int:
        """How many reports a server stores at most.

        It is more than the largest batch, because reports that only one server holds count for nothing in the end: a
        stranger who sends such ones must not take the places of others. Each *entrance* has that much room for itself:
        the server's pinned port and the door of each server, its own and those that hand reports on.
        """
        return self.entrance_room * self.entrances

    @property
    def entrances(self) -> int:
        """Through how many entrances reports come to a server."""
        return 1 + len(self.servers)

    @property
    def entrance_room(self) -> int:
        """How many reports a server stores at most that came through one entrance."""
        return STORED_FACTOR * self.largest_batch

    def chosen(self, ids: Bytes, toss: bytes) -> Bytes:
        """Choose the reports of a batch among those that all servers hold.

        Parameters
        ----------
        ids : ndarray of uint8, shape (n, 16)
            Ascending, none twice.
        toss : bytes
            What the servers tossed after they had agreed on these ids, 32 bytes.

        Returns
        -------
        ndarray of uint8, shape (min(n, largest_batch), 16)
            Ascending: those with the smallest SHA-256(label || toss || id). Who sends a report cannot know whether it
            will be chosen, and no server decides; a server that breaks off a run has it tossed again.
        """
        if len(ids) <= self.largest_batch:
            return ids
        digests = sha256_of_rows(Label.BATCH_CHOICE.value + toss, ids)
        ranks = digests.view(f"S{DIGEST_BYTES}")[:, 0]
        return ids[np.sort(np.argsort(ranks)[: self.largest_batch])]

    def verify(self) -> Collection:
        """Recompute what a minimum batch is promised, and that the sums of the largest do not wrap around.

        Raises
        ------
        GuaranteeError, OverflowRisk
            If not.
        InputError
            If the bounds of a column are not those of the codebook, by which clients code their rows.
        """
        task = self.plan.verify()
        if isinstance(book := task.schema.codebook, Codebook):
            book.require_own_bounds(task.schema.columns)
        self._require_share(task)
        draws = self.largest_batch + task.trust.servers
        if task.noise_is_dealt:
            _ = task.dealt_noise  # whose range has to fit into the field
        plan_modulus(
            task.encoding.ring,
            self.largest_batch,  # at most so many contributions meet in a row
            task.statistic.largest_entry(task.encoding),
            task.noise_tail(draws),
            task.sketch.rows * task.width,
        )
        return self

    def task(self, clients: int, toss: bytes, *, dealers: int | None = None, longest: float = math.inf) -> VerifiedTask:
        """Return the verified task of the batch that was collected.

        Parameters
        ----------
        clients : int
            n, the reports that all servers hold.
        toss : bytes
            32 bytes that the servers tossed after closing. Matrix a, for a = 0, 1, .., has the seed ``derive(toss,
            Label.SKETCH_SEED, a, 32)``; the first that gives the promised guarantee is taken.
        dealers : int, optional
            How many servers have dealt noise; needed where they do.
        longest : float
            Seconds that the recomputation of one guarantee may take; see `Task.require_checkable`. Readers of somebody
            else's file set it, the collection's own servers do not.

        Raises
        ------
        TooFewClients
            If there are fewer than the minimum batch.
        GuaranteeError
            If none of `ATTEMPTS` matrices gives what was promised.
        InputError
            If the number of dealers is missing or superfluous, or there can be no such number.
        """
        if (dealers is None) == self.plan.noise_is_dealt:
            expected = "how many servers dealt noise" if self.plan.noise_is_dealt else "none"
            raise InputError("dealers", dealers, expected, condition=f"by the collection {self.name!r}")
        self.require_size(clients)
        for attempt in range(ATTEMPTS):
            seed = derive(toss, Label.SKETCH_SEED, attempt, SEED_BYTES)
            try:
                task = self._task_of(clients, seed, dealers).require_checkable(longest).verify()
                self._require_share(task)
                return task
            except GuaranteeError:
                if attempt == ATTEMPTS - 1 or self.template["sketch"]["family"] == Sum.family:
                    raise
        raise AssertionError("unreachable")

    def _require_share(self, task: Task) -> None:
        if self.series is not None:
            self.series.require_share(task.guarantee)

    @property
    def promised(self) -> str:
        """What is promised for a minimum batch, in words; in a series the total of all epochs leads."""
        return self.in_words(self.plan.guarantee)

    def in_words(self, guarantee: Guarantee) -> str:
        """Return the guarantee of a batch in words; in a series the total of all epochs leads."""
        return str(guarantee) if self.series is None else self.series.promise(guarantee)

    @property
    def series_identity(self) -> str:
        """The name under which ledgers hold the series; empty if there is none."""
        return "" if self.series is None else self.series.identity([server.certificate for server in self.servers])

    def require_size(self, clients: int) -> None:
        """Refuse a batch that is too small or too large."""
        if clients < self.minimum_batch:
            raise TooFewClients(
                "clients", clients, f"at least {self.minimum_batch}", condition=f"by the collection {self.name!r}"
            )
        if clients > self.largest_batch:
            raise InputError("clients", clients, f"at most {self.largest_batch}", condition="by the collection")

    def require_unexpired(self, now: datetime.datetime) -> None:
        """Refuse a release that comes too late."""
        if now >= self.expires:
            raise CollectionClosed(
                f"collection {self.name!r}",
                f"expired at {self.expires.isoformat()}; it is {now.isoformat(timespec='seconds')}",
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Collection:
        """Read a file, or what ``GET /v1/collection`` answered.

        Raises
        ------
        InputError
            If it cannot be read, a field is missing, unknown or not what it must be, or JSON is not as it was
            written.
        """
        try:
            content = read_bytes(path)
            loaded = cls.from_dict(read_json(content, dict[str, Any], largest=LARGEST_FILE))
        except OSError as error:
            raise InputError("collection", f"{path} cannot be read: {error.strerror}") from error
        except ReadError as error:
            raise InputError("collection", path, "the task file of a collection", error) from error
        if loaded.content != content:
            raise InputError(
                "collection",
                f"{path} given, JSON with other bytes than a collection of this content has: somebody has "
                "written it anew; ask for the original",
            )
        return loaded

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; refuse to replace one."""
        try:
            with Path(path).open("xb") as file, _removed_if_unfinished(Path(path)):
                file.write(self.content)
                file.flush()
        except OSError as error:
            raise InputError("collection", f"{path} cannot be written: {error.strerror}") from error

    def _task_of(self, clients: int, seed: bytes, dealers: int | None = None) -> Task:
        self._require_no_plugin()
        sketch = {**self.template["sketch"], "columns": clients}
        if sketch["family"] != Sum.family:
            sketch["seed"] = seed.hex()
        fields = {**self.template, "sketch": sketch}
        try:
            if dealers is not None:
                fields["noising"] = {**fields["noising"], "dealers": dealers}
            return Task.from_dict(fields)
        except (KeyError, TypeError) as error:
            raise InputError("task", f"{error} is missing, unknown or of the wrong type") from error

    def _require_no_plugin(self) -> None:
        """Refuse noises and matrices of other distributions, before any of their code is imported."""
        for what, kinds, key in (("noise", noise.FAMILIES, "name"), ("sketch", sketching.FAMILIES, "family")):
            description = self.template.get(what)
            name = description.get(key) if isinstance(description, Mapping) else None
            if kinds.foreign(name):
                raise InputError(
                    what,
                    f"{name!r} of another distribution",
                    "a family of dpmpc itself",
                    "servers that run for weeks execute no code of others",
                    condition="in a collection",
                )


@contextlib.contextmanager
def _removed_if_unfinished(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink()
        raise


def _utc(time: datetime.datetime) -> str:
    try:
        return time.astimezone(datetime.UTC).isoformat()
    except OverflowError:
        raise InputError("time", f"{time.isoformat()}", "one in the years 1 to 9999 of UTC") from None
