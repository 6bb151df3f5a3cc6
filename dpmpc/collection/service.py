"""Answer the HTTP requests of a collection.

===============================================  ==========================================================
``POST /v1/collections/DIGEST/reports``          body: records (`reports`); header ``Authorization: Bearer
                                                 TOKEN`` where the collection asks for it
``POST /v2/collections/DIGEST/reports``          body: reports of format 2 (`sealing`), in collections of that format
``GET /``                                        a page for people (`front_page`)
``GET /contribute``                              a form for people, and its files (`front_page`); at doors alone
``GET /v1/status``                               how this server stands (`status`), as JSON
``GET /v1/collection``                           the content of the task file, whose SHA-256 is its digest
``GET /healthz``                                 200 while uploads are stored, 503 after, or when the disk is full
``GET /metrics``                                 to loopback addresses, unless an option says otherwise
===============================================  ==========================================================

There are two applications. The *pinned* port has all of these. The *door* (``dpmpc serve --web``) is for browsers and
whoever else reaches only an ordinary web address: it has no ``/healthz``, no ``/metrics`` and no upload of format 1,
its answers may be read by pages of any origin, and it hands on what it takes to the other servers (`doors`). What
another server hands on comes to the pinned port, under that server's certificate, and is not handed on again.

An upload is answered with 200 and ``{"stored": m, "duplicates": q}`` when its reports are durable, and not before. One
of format 2 also with ``"servers"``, the status at each server, 200 where all its reports are durable, and
``"reports"``, the same for each report; the status is 202 where something is left to do for the client, who repeats
the same bytes. Every other answer is ``{"error": NAME, "message": TEXT}``, and nothing of the upload was stored by it,
but by a door whose disk failed when it had stored its own part and kept the rest for others (503 SpoolError):

====  ====================================================================================================
400   ReportRejected: not a list of reports to this server for this collection
401   Unauthenticated: a token is needed
403   Unknown: the roster does not know this token with this report
404   no such collection, or no such page
409   ReportConflict: a report id was used for another report
410   CollectionClosed: after closing
411   LengthRequired
413   TooLarge
408   TooSlow: the body did not come in time
425   TooEarly: before opening
429   TooMany: more reports a second than an address may send; ``Retry-After`` says when to come back
503   Busy, SpoolError: no memory or no disk, now; NoRoom: the sender's address has its share of the reports that a
      server stores; ``Retry-After`` too
====  ====================================================================================================

Every refused upload is counted and logged by its cause, a line a minute for each at most, with the number of those kept
back (`logs.RateLimitedLogger`); `Service.close` logs the totals.

Promised: nothing that a client sends is logged, and no answer holds anything but public facts and what the client has
itself sent. Not promised: that a client whose connection failed knows whether its upload was stored. It sends the same
bytes again.

The metrics are in the text format of Prometheus. They hold no address, report id or token.
"""

from __future__ import annotations

import asyncio
import collections
import datetime
import ipaddress
import json
import logging
import math
import shutil
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from dpmpc.collection import doors, front_page
from dpmpc.collection.admission import Admission, Limits, Refusal
from dpmpc.collection.group_commit import GroupCommit, NoRoom
from dpmpc.collection.logs import RateLimitedLogger
from dpmpc.collection.report_ids import ID_BYTES
from dpmpc.collection.reports import ReportFormat
from dpmpc.collection.roster import Roster
from dpmpc.collection.sealing import Opener, SealedReports
from dpmpc.collection.spool import Added, Spool
from dpmpc.collection.status import PATH, HourlyCount, Status, rounded
from dpmpc.collection.task_file import Collection, State
from dpmpc.errors import CollectionClosed, InputError, ReportConflict, ReportRejected, SpoolError
from dpmpc.network.callers import network_of
from dpmpc.network.identity import certified_names, party_name

try:
    from aiohttp import web
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
except ImportError as error:
    raise InputError(
        "dpmpc.collection needs aiohttp and prometheus-client: pip install '.[intake]' in its source folder"
    ) from error

CLOCK_SECONDS = 1.0  # how often the clock is read, to log that the collection opens or closes
LEAST_FREE_BYTES = 1 << 26  # on the spool's disk; with less a server is not healthy, though it may still store some
LONGEST_RETRY_S = 86400.0  # at a very low rate the wait for the next report may be longer than a float can hold
LOGGER = logging.getLogger("dpmpc.collection")
UPLOADS = "/v1/collections/{digest}/reports"
_BEARER = "Bearer "
_RETRY_SECONDS = 30.0  # a full disk takes a while to clear
_STATUS: tuple[tuple[type[InputError], int], ...] = (
    (ReportConflict, 409),
    (ReportRejected, 400),
    (CollectionClosed, 410),
)
_COMMIT_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_COMMIT_REQUESTS = (1, 3, 10, 30, 100, 300, 1000)

Handler = Callable[[Any], Awaitable[Any]]


class Metrics:
    """The figures of one server, in a registry of their own."""

    def __init__(self, stored: Callable[[], float], waiting: Callable[[], float], connections: Callable[[], float]):
        registry = CollectorRegistry()
        self._registry = registry
        self.accepted = Counter("dpmpc_reports_accepted", "Reports stored and acknowledged", registry=registry)
        self.duplicates = Counter("dpmpc_reports_duplicate", "Reports acknowledged again", registry=registry)
        self.rejected = Counter("dpmpc_requests_rejected", "Uploads turned away", ["reason"], registry=registry)
        self.refused = Counter(
            "dpmpc_connections_refused",
            "Connections refused, or dropped while idle, because there were too many",
            ["reason"],
            registry=registry,
        )
        self.bytes = Counter("dpmpc_upload_bytes", "Bytes of accepted bodies", registry=registry)
        self._seconds = Histogram(
            "dpmpc_commit_seconds", "Time to store a group of uploads", buckets=_COMMIT_SECONDS, registry=registry
        )
        self._requests = Histogram(
            "dpmpc_commit_requests", "Uploads of a group", buckets=_COMMIT_REQUESTS, registry=registry
        )
        for name, text, function in (
            ("dpmpc_reports_stored", "Reports in the spool", stored),
            ("dpmpc_waiting_bytes", "Bytes that uploads hold until they are stored", waiting),
            ("dpmpc_connections", "Open connections", connections),
        ):
            Gauge(name, text, registry=registry).set_function(function)

    def observe_group(self, requests: int, seconds: float) -> None:
        """Count one commit."""
        self._requests.observe(requests)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all figures."""
        return bytes(generate_latest(self._registry))


class Service:
    """The requests of one server of one collection; made in the event loop that serves them."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        spool: Spool,
        *,
        roster: Roster | None = None,
        limits: Limits | None = None,
        metrics_for_all: bool = False,
        opener: Opener | None = None,
        door: doors.Door | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ):
        if collection.authenticated != (roster is not None):
            given = "none" if roster is None else "one"
            raise InputError(f"roster: {given} given for a collection with authenticated = {collection.authenticated}")
        self.collection, self.limits = collection, limits or Limits()
        self.connections: Callable[[], int] = lambda: 0
        self.log = RateLimitedLogger(LOGGER)
        self._server, self._roster, self._metrics_for_all, self._now = server, roster, metrics_for_all, now
        self._form, self._spool = ReportFormat(collection, server), spool
        self._sealed = SealedReports(collection) if collection.format == 2 else None
        self._opener, self._door, self._web = opener, door, None
        self._closed_for_good = spool.closed  # once True it stays so
        self._hourly = HourlyCount(now())
        self._admission = Admission(self._form, self.limits, now)
        self._metrics = Metrics(
            lambda: self._commits.stored, lambda: self._admission.waiting, lambda: self.connections()
        )
        self._commits = GroupCommit(self._form, spool, self._metrics.observe_group)
        self._refused: collections.Counter[str] = collections.Counter()
        self._guarantee = str(collection.plan.guarantee)
        self._front: dict[bool, tuple[Status, bytes]] = {}

    def application(self) -> Any:
        """Return the aiohttp application."""
        application = self._application()
        application.router.add_post(UPLOADS, self._upload)
        application.router.add_get("/healthz", self._health)
        application.router.add_get("/metrics", self._measure)
        return application

    def web_application(self) -> Any:
        """Return the aiohttp application of the door."""
        application = self._web = self._application()
        application.router.add_options(doors.SEALED_UPLOADS, self._allow)
        for path in front_page.form_files():
            application.router.add_get(path, self._hand_out_form)
        application.on_response_prepare.append(_for_any_origin)
        return application

    def _application(self) -> Any:
        """Return an application with what the pinned port and the door have both."""
        longest = self._admission.longest
        if self._sealed is not None:
            longest = max(longest, self._admission.longest_of(self._sealed.report_bytes))
        application = web.Application(client_max_size=longest, middlewares=[self._answer_errors])
        if self._sealed is not None:
            application.router.add_post(doors.SEALED_UPLOADS, self._upload_sealed)
        application.router.add_get("/v1/collection", self._describe)
        application.router.add_get("/", self._welcome)
        application.router.add_get(PATH, self._tell_status)
        return application

    def count_refused(self, reason: str) -> None:
        """Count a connection that was refused because there were too many."""
        self._metrics.refused.labels(reason).inc()

    async def close(self) -> None:
        """Store the uploads that are waiting, then accept no more."""
        await self._commits.close()
        refused = ", ".join(f"{cause} {count:,}" for cause, count in sorted(self._refused.items())) or "none"
        LOGGER.info("%d reports stored; uploads refused: %s", self._commits.stored, refused)

    async def tell_times(self) -> None:
        """Log when the collection opens and closes, and publish the count at full hours, until cancelled."""
        told = state = await self._state()
        LOGGER.info("the collection is %s%s", state, self._how())
        while True:
            await asyncio.sleep(CLOCK_SECONDS)
            self._hourly.tick(self._now(), self._commits.stored)
            state = await self._state()
            if state != told:
                LOGGER.info("the collection is %s now%s; %d reports stored", state, self._how(), self._commits.stored)
                told = state

    async def _state(self) -> State:
        """Return the state; uploads, status, page, health and log all go by it.

        A release may have closed the collection for good before its time, in another process: the spool says so.
        """
        if not self._closed_for_good:
            try:
                self._closed_for_good = await asyncio.to_thread(lambda: self._spool.closed)
                if self._closed_for_good:
                    self._opener = None
            except SpoolError as error:  # uploads fail too, and say so
                self.log.log(logging.ERROR, "SpoolError: %s", error)
        return self.collection.state(self._now(), closed=self._closed_for_good)

    @property
    def _early(self) -> bool:
        return self._closed_for_good and self._now() < self.collection.closes

    def _how(self) -> str:
        return " for good, ahead of its time" if self._early else ""

    def _count_refusal(self, cause: str, status: int) -> None:
        """Count and log an upload that is refused."""
        self._metrics.rejected.labels(cause).inc()
        self._refused[cause] += 1
        self.log.log(logging.INFO, f"upload refused: {status} {cause}", cause=cause)

    @property
    def _answer_errors(self) -> Any:
        """A middleware that answers every failure in JSON, and logs unexpected ones."""

        @web.middleware  # type: ignore[untyped-decorator, unused-ignore]
        async def answer(request: Any, handler: Handler) -> Any:
            try:
                return await handler(request)
            except web.HTTPException as error:
                return _refused(error.status, type(error).__name__, error.reason)
            except (ConnectionError, asyncio.CancelledError):
                raise
            except Exception:
                self.log.log(logging.ERROR, "an upload failed", traceback=True)
                return _refused(500, "InternalError", "it is not known whether this upload was stored; try again later")

        return answer

    async def _upload(self, request: Any) -> Any:
        try:
            added, length = await self._take(request)
        except (Refusal, ReportRejected, CollectionClosed, SpoolError) as error:
            return self._refuse(error).answer()
        self._count_stored(added, length)
        return _json(200, {"stored": added.stored, "duplicates": added.duplicates})

    def _count_stored(self, added: Added, length: int) -> None:
        self._metrics.accepted.inc(added.stored)
        self._metrics.duplicates.inc(added.duplicates)
        self._metrics.bytes.inc(length)

    def _refuse(self, error: Exception) -> _Refused:
        """Count and log a refused upload or report; return what its sender is told. Others are raised again."""
        if isinstance(error, Refusal):
            found = _Refused(error.status, error.reason, str(error), error.retry_after)
        elif isinstance(error, ReportRejected | CollectionClosed):
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            found = _Refused(status, type(error).__name__, str(error))
        elif isinstance(error, NoRoom):
            found = _Refused(503, "NoRoom", str(error), _RETRY_SECONDS)
        elif isinstance(error, SpoolError):
            self.log.log(logging.ERROR, "SpoolError: %s", error)
            found = _Refused(
                503, "SpoolError", "not everything was stored; send the same bytes again later", _RETRY_SECONDS
            )
        else:
            raise error
        self._count_refusal(found.name, found.status)
        return found

    async def _upload_sealed(self, request: Any) -> Any:
        try:
            own, handed = await self._take_sealed(request)
        except (Refusal, ReportRejected, CollectionClosed, SpoolError) as error:
            return self._refuse(error).answer()
        if len(own) == 1 and isinstance(own[0], _Refused):
            return own[0].answer()
        reports: list[dict[str, doors.Status]] = []
        for one, others in zip(own, handed, strict=True):
            at_all = {self._server: one.status if isinstance(one, _Refused) else doors.STORED, **others}
            reports.append({str(number): status for number, status in sorted(at_all.items())})
        servers = {number: _together([one.get(number) for one in reports]) for one in reports for number in one}
        added = [one for one in own if isinstance(one, Added)]
        content = {
            "stored": sum(one.stored for one in added),
            "duplicates": sum(one.duplicates for one in added),
            "servers": servers,
            "reports": reports,
        }
        everywhere = all(status == doors.STORED for status in servers.values())
        return _json(200 if everywhere else 202, content)

    async def _take_sealed(self, request: Any) -> tuple[list[Added | _Refused], list[dict[int, doors.Status]]]:
        """Store the own records of a body's reports, and hand on what others need; return what became of each."""
        assert self._sealed is not None
        size, through_web = self._sealed.report_bytes, request.app is self._web
        caller = None if through_web else self._caller(request)
        door = self._server if through_web else caller
        length = self._admit(request, size, limited=caller is None)
        with self._admission.room(request.remote, length, size):
            reports = self._sealed.split(await self._read(request))
            own = await self._store_sealed(reports, request.remote, door)
            handed: list[dict[int, doors.Status]] = [{} for _ in reports]
            if through_web and self._door is not None:
                stored = [index for index, one in enumerate(own) if isinstance(one, Added)]
                found = await self._door.hand_on([reports[index] for index in stored])
                for index, statuses in zip(stored, found, strict=True):
                    handed[index] = statuses
        return own, handed

    async def _store_sealed(
        self, reports: list[bytes], address: str | None, door: int | None
    ) -> list[Added | _Refused]:
        """Open and store the own record of each report, which may fail alone."""
        if self._opener is None:
            raise CollectionClosed("this server opens no reports any more; nothing was stored")
        opened = await asyncio.to_thread(_opened, self._opener, self._roster, reports)
        jobs = [self._commits.commit(one, network_of(address), door) for one in opened if isinstance(one, bytes)]
        committed = iter(await asyncio.gather(*jobs, return_exceptions=True))
        results: list[Added | _Refused] = []
        for one in opened:
            outcome = next(committed) if isinstance(one, bytes) else one
            if isinstance(outcome, Added):
                self._count_stored(outcome, self._form.record_bytes)
                results.append(outcome)
            elif isinstance(outcome, Exception):
                results.append(self._refuse(outcome))
            else:
                raise outcome
        return results

    def _caller(self, request: Any) -> int | None:
        """Return the number of the server that calls, by its certificate, or None for anybody else."""
        certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
        names = certified_names(certificate)
        for number in range(len(self.collection.servers)):
            if names == [party_name(number)] and number != self._server:
                return number
        return None

    async def _allow(self, request: Any) -> Any:
        return web.Response(status=204)

    async def _take(self, request: Any) -> tuple[Added, int]:
        length = self._admit(request, self._form.record_bytes)
        token = None if self._roster is None else _token(request.headers.get("Authorization", ""))
        with self._admission.room(request.remote, length):
            body = await self._read(request)
            if self._roster is not None and token is not None:
                _authenticate(self._roster, self._form, token, body)
            return await self._commits.commit(body, network_of(request.remote)), length

    def _admit(self, request: Any, record: int, *, limited: bool = True) -> int:
        """Refuse a request before its body is read; return how long that is."""
        if request.match_info["digest"] != self.collection.digest.hex():
            raise Refusal(404, "NotFound", f"collection: {self.collection.digest.hex()} expected")
        if self._early:
            raise CollectionClosed(
                "this server has closed the collection for good, ahead of its time; nothing was stored"
            )
        length: int = request.content_length
        self._admission.check(request.remote, length, record, limited=limited)
        return length

    async def _read(self, request: Any) -> bytes:
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                body: bytes = await request.read()
        except TimeoutError:
            request.protocol.force_close()
            raise Refusal(408, "TooSlow", f"body: not received within {self.limits.read_seconds:g} s") from None
        return body

    async def _describe(self, request: Any) -> Any:
        return web.Response(body=self.collection.content, content_type="application/json")

    async def _health(self, request: Any) -> Any:
        healthy, disk = await self._examine()
        state = {
            "healthy": healthy,
            "disk": disk,
            "server": self._server,
            "collection": self.collection.digest.hex(),
            "open": await self._state() == "open",
        }
        return _json(200 if healthy else 503, state)

    async def _examine(self) -> tuple[bool, bool]:
        """Return whether uploads would be stored, and whether the disk has room."""
        disk = not self._commits.failing and await asyncio.to_thread(self._has_disk)
        return self._commits.alive and disk, disk

    async def _status_for(self, request: Any) -> Status:
        """Return the status of this server, with exact counts for those who may see them."""
        own, exact = self.collection, self._may_see_figures(request)
        healthy, _ = await self._examine()
        state = await self._state()
        stored, counted = self._count_for_strangers(state)
        return Status(
            server=self._server,
            collection=own.digest.hex(),
            name=own.name,
            state=state,
            opens=own.opens.isoformat(),
            closes=own.closes.isoformat(),
            expires=own.expires.isoformat(),
            stored=self._commits.stored if exact else stored,
            exact=exact,
            early=self._early,
            counted="" if exact else counted,
            minimum_batch=own.minimum_batch,
            largest_batch=own.largest_batch,
            healthy=healthy,
            guarantee=self._guarantee,
        )

    def _count_for_strangers(self, state: State) -> tuple[int | None, str]:
        """Return the count that everybody may see, and when it was counted if that is not the end (`status`)."""
        if state in ("closed", "expired"):
            return rounded(self._commits.stored), ""
        return (self._hourly.stored, self._hourly.counted) if self._roster is not None else (None, "")

    async def _tell_status(self, request: Any) -> Any:
        return _json(200, msgspec.to_builtins(await self._status_for(request)))

    async def _welcome(self, request: Any) -> Any:
        status = await self._status_for(request)
        form = request.app is self._web
        if form not in self._front or self._front[form][0] != status:
            self._front[form] = status, front_page.page(self.collection, status, form=form).encode()
        return web.Response(
            body=self._front[form][1], content_type="text/html", charset="utf-8", headers=front_page.headers()
        )

    async def _hand_out_form(self, request: Any) -> Any:
        content, kind = front_page.form_files()[request.path]
        return web.Response(body=content, content_type=kind, headers=front_page.form_headers())

    def _may_see_figures(self, request: Any) -> bool:
        """Say whether a request is by the operator: through the door come strangers, from a proxy's address."""
        return self._metrics_for_all or (request.app is not self._web and _is_loopback(request.remote))

    def _has_disk(self) -> bool:
        """Return whether the spool's disk has room for some more uploads."""
        try:
            return shutil.disk_usage(self._spool.folder).free >= LEAST_FREE_BYTES
        except OSError:
            return False

    async def _measure(self, request: Any) -> Any:
        if not self._may_see_figures(request):
            return _refused(403, "Forbidden", "metrics: only for loopback addresses")
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


class _Refused(NamedTuple):
    """What the sender of a refused upload is told."""

    status: int
    name: str
    message: str
    retry_after: float | None = None

    def answer(self) -> Any:
        """Return the response."""
        return _refused(*self)


def _opened(opener: Opener, roster: Roster | None, reports: list[bytes]) -> list[bytes | Exception]:
    """Return the record that each report has for this server, or why it has none."""
    found: list[bytes | Exception] = []
    for report in reports:
        try:
            record, token = opener.open(report)
            if roster is not None and not roster.admits(record[:ID_BYTES], token or b""):
                raise Refusal(403, "Unknown", "report: no token of the client whose report this is")
            found.append(record)
        except (ReportRejected, Refusal) as error:
            found.append(error)
    return found


def _together(statuses: list[doors.Status | None]) -> doors.Status:
    """Return one status for all reports of a body: the first that is not 200, of those that got so far."""
    return next((status for status in statuses if status not in (doors.STORED, None)), doors.STORED)


async def _for_any_origin(request: Any, response: Any) -> None:
    """Let pages of any origin read what the door answers: it asks for no credentials, and says nothing secret."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = "Content-Type"
        response.headers["Access-Control-Max-Age"] = "86400"


def _token(header: str) -> bytes:
    """Return the token of a header, or refuse a request without one."""
    try:
        if not header.startswith(_BEARER):
            raise ValueError
        return bytes.fromhex(header[len(_BEARER) :])
    except ValueError:
        raise Refusal(401, "Unauthenticated", "Authorization: 'Bearer TOKEN' with 64 digits expected") from None


def _authenticate(roster: Roster, form: ReportFormat, token: bytes, body: bytes) -> None:
    if len(body) != form.record_bytes:
        raise ReportRejected(f"body: {len(body)} bytes given, one report of {form.record_bytes} expected with a token")
    if not roster.admits(body[:ID_BYTES], token):
        raise Refusal(403, "Unknown", "Authorization: no token of the client whose report this is")


def _json(status: int, content: dict[str, Any]) -> Any:
    return web.Response(status=status, body=json.dumps(content).encode(), content_type="application/json")


def _refused(status: int, name: str, message: str, retry_after: float | None = None) -> Any:
    response = _json(status, {"error": name, "message": message})
    if retry_after is not None:
        response.headers["Retry-After"] = str(math.ceil(min(retry_after, LONGEST_RETRY_S)))
    return response


def _is_loopback(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False
