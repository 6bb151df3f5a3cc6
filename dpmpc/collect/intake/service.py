"""Answer the HTTP requests of a collection, in three applications.

*Clients* is for people, programs and browsers, directly or through a reverse proxy.

===============================================  ==========================================================
``POST /v2/collections/DIGEST/reports``          body: reports (`sealing`), which are handed on (`doors`)
``POST /v2/collections/DIGEST/reports/here``     the same, handed on to no other server
``GET /v2/collections/DIGEST/keys``              keys that servers have added since it began (`added_keys`)
``POST /v2/collections/DIGEST/withdrawals``      secrets of reports that are taken back (`withdrawals`)
``GET /``                                        a page for people (`front_page`)
``GET /contribute``                              a form for people, and its files (`front_page`)
``GET /v1/status``                               how this server stands (`status`), as JSON
``GET /v1/release``                              the release file, once this server has opened it
``GET /report``                                  the page of it for people, as `dpmpc verify --html` prints it
``GET /v1/collection``                           the content of the task file, whose SHA-256 is its digest
===============================================  ==========================================================

*Peers* is for the other servers, whose certificates the listener requires: reports and withdrawals, which are not
handed on again, and keys. *Monitor* is for the operator: ``/healthz`` (200 while uploads are stored, 503 after, or when
the disk is full), ``/metrics``, and ``/v1/status`` with the exact count.

What clients are answered may be read by pages of any origin. Behind a proxy a caller's address is what the proxy
states (`admission.caller_of`). What is answered to uploads is in `replies`, what is counted and logged in `metrics`;
`Service.close` logs the totals.

Promised: no answer holds anything but public facts and what the client has itself sent.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from msgspec import structs

from dpmpc.base.errors import CollectionClosed, InputError, ReportRejected, SpoolError
from dpmpc.collect.intake import doors, front_page
from dpmpc.collect.intake.admission import Admission, Limits, Refusal, caller_of
from dpmpc.collect.intake.group_commit import GroupCommit
from dpmpc.collect.intake.logs import RateLimitedLogger
from dpmpc.collect.intake.metrics import Metrics
from dpmpc.collect.intake.replies import Reply, answer_errors, refusal
from dpmpc.collect.intake.sealed_uploads import SealedUploads
from dpmpc.collect.intake.status import PATH, HourlyCount, Status, rounded
from dpmpc.collect.intake.withdrawals import Withdrawals
from dpmpc.collect.store.ledger import ReleaseLedger
from dpmpc.collect.store.report_store import ReportStore
from dpmpc.collect.store.state import (
    CLOCK_SECONDS,
    RELEASE_PATH,
    REPORT_PATH,
    CollectionState,
    StateReader,
    report_beside,
)
from dpmpc.collect.terms import endpoints
from dpmpc.collect.terms.task_file import Collection
from dpmpc.collect.upload.added_keys import ADDED_KEYS
from dpmpc.collect.upload.reports import ReportFormat
from dpmpc.collect.upload.roster import Roster
from dpmpc.collect.upload.sealing import SECRET_BYTES, Opener
from dpmpc.parties.network.identity import certified_names, party_name

LEAST_FREE_BYTES = 1 << 26  # on the spool's disk; with less a server is not healthy, though it may still store some
LOGGER = logging.getLogger("dpmpc.collect")
BEHIND_PROXY = web.AppKey("behind_proxy", bool)  # of the application for clients
PEERS = web.AppKey("peers", bool)
MONITOR = web.AppKey("monitor", bool)

Handler = Callable[[Any], Awaitable[Any]]


class Service:
    """The requests of one server of one collection; made in the event loop that serves them."""

    def __init__(
        self,
        collection: Collection,
        server: int,
        spool: ReportStore,
        *,
        roster: Roster | None = None,
        limits: Limits | None = None,
        opener: Opener | None,
        door: doors.Door,
        ledger: ReleaseLedger | None = None,
        released: Path | None = None,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ):
        if collection.authenticated != (roster is not None):
            given = "none" if roster is None else "one"
            raise InputError(
                "roster", f"{given} given for a collection with authenticated = {collection.authenticated}"
            )
        self.collection, self.limits = collection, limits or Limits()
        self.log = RateLimitedLogger(LOGGER)
        self._server, self._roster, self._now = server, roster, now
        self._spool = spool
        form = ReportFormat(collection, server)
        self._hourly = HourlyCount(now())
        self._released = released  # the release file, once there is one
        self._reader = StateReader(collection, spool, ledger, released, now)
        self.metrics = Metrics(self.log, lambda: self._commits.stored)
        self._admission = Admission(form, self.limits, self._reader, self.metrics.hold)
        self._commits = GroupCommit(form, spool, self.metrics.observe_group)
        self._sealed = SealedUploads(
            collection, server, self._commits, self.metrics, opener=opener, roster=roster, door=door
        )
        self._withdrawals = Withdrawals(
            collection, server, spool, self._commits, opener=opener, roster=roster, door=door
        )
        self._guarantee = collection.promised
        self._front: tuple[Status, bytes] | None = None

    def clients(self, *, behind_proxy: bool) -> Any:
        """Return the aiohttp application for clients."""
        application = self._application(
            {
                ("POST", endpoints.SEALED_UPLOADS): self._upload,
                ("POST", endpoints.OWN_UPLOADS): functools.partial(self._upload, handing_on=False),
                ("OPTIONS", endpoints.SEALED_UPLOADS): self._allow,
                ("POST", endpoints.WITHDRAWALS): self._withdraw,
                ("GET", ADDED_KEYS): self._hand_out_keys,
                ("GET", "/v1/collection"): self._describe,
                ("GET", "/"): self._welcome,
                ("GET", PATH): self._tell_status,
                ("GET", RELEASE_PATH): self._hand_out_release,
                ("GET", REPORT_PATH): self._hand_out_report,
                **{("GET", path): self._hand_out_form for path in front_page.form_files()},
            },
            self._bound_requests,
        )
        application[BEHIND_PROXY] = behind_proxy
        application.on_response_prepare.append(_allow_any_origin)
        return application

    def peers(self) -> Any:
        """Return the aiohttp application for the other servers, which a listener with their certificates serves."""
        application = self._application(
            {
                ("POST", endpoints.SEALED_UPLOADS): self._upload,
                ("POST", endpoints.WITHDRAWALS): self._withdraw,
                ("GET", ADDED_KEYS): self._hand_out_keys,
            }
        )
        application[PEERS] = True
        return application

    def monitor(self) -> Any:
        """Return the aiohttp application for the operator."""
        application = self._application(
            {("GET", "/healthz"): self._health, ("GET", "/metrics"): self._measure, ("GET", PATH): self._tell_status}
        )
        application[MONITOR] = True
        return application

    def _application(self, routes: Mapping[tuple[str, str], Handler], *middlewares: Any) -> Any:
        application = web.Application(client_max_size=self.longest, middlewares=[answer_errors(self.log), *middlewares])
        for (method, path), handler in routes.items():
            application.router.add_route(method, path, handler)
        return application

    @property
    def longest(self) -> int:
        """The length of the longest body."""
        return self._admission.longest_of(self._sealed.report_bytes)

    async def close(self) -> None:
        """Store the uploads that are waiting, then accept no more."""
        await self._commits.close()
        LOGGER.info("%d reports stored; uploads refused: %s", self._commits.stored, self.metrics.totals())

    async def tell_times(self) -> None:
        """Log each change of the state, and publish the count at full hours, until cancelled."""
        told = (await self._state()).words
        LOGGER.info("the collection is %s", told)
        while True:
            await asyncio.sleep(CLOCK_SECONDS)
            try:
                await asyncio.to_thread(self._count_anew)
            except SpoolError as error:
                self.log.log(logging.ERROR, "SpoolError: %s", error)
            words = (await self._state()).words
            if words != told:
                LOGGER.info("the collection is %s now; %d reports stored", words, self._commits.stored)
                told = words
            await self._refresh_keys()

    def _count_anew(self) -> None:
        self._commits.count_anew()
        self._hourly.tick(self._now(), self._spool.count_at)

    async def _refresh_keys(self) -> None:
        try:
            await asyncio.to_thread(self._sealed.refresh_keys)
        except InputError as error:  # a file that is none: the keys before it stay
            self.log.log(logging.ERROR, "keys: %s", error)

    @property
    def state(self) -> CollectionState:
        """The state, by what `tell_times` or a request has read last."""
        return self._reader.state

    async def _state(self) -> CollectionState:
        """Return the state; uploads, status, page, health and log all go by it.

        Another process, which takes part in the release, may have changed store and ledger.
        """
        try:
            state = await asyncio.to_thread(self._reader.read)
        except SpoolError as error:  # uploads fail too, and say so
            self.log.log(logging.ERROR, "SpoolError: %s", error)
            state = self._reader.state
        if state.over:
            try:
                for path in await asyncio.to_thread(self._sealed.forget_keys):
                    LOGGER.info("%s: deleted, as no more reports are opened with it", path)
            except (InputError, OSError) as error:  # tried again a second later
                self.log.log(logging.ERROR, "%s", error)
        return state

    @web.middleware  # type: ignore[untyped-decorator, unused-ignore]
    async def _bound_requests(self, request: Any, handler: Handler) -> Any:
        """Have so many requests under way and no more, each until its answer has gone out or takes too long."""
        with self._admission.place(_sender(request)):
            response = await handler(request)
            try:
                async with asyncio.timeout(self.limits.send_seconds):
                    await response.prepare(request)
                    await response.write_eof()
            except TimeoutError:  # of who does not read
                request.transport.abort()
            return response

    async def _upload(self, request: Any, *, handing_on: bool = True) -> Any:
        try:
            answer = await self._take(request, handing_on=handing_on)
        except (Refusal, ReportRejected, CollectionClosed, SpoolError) as error:
            answer = self.metrics.refuse(error)
        return answer.response()

    async def _withdraw(self, request: Any) -> Any:
        through_door = PEERS not in request.app
        try:
            self._require_collection(request)
            state = await self._state()
            if state.state in ("not open yet", "expired"):
                raise CollectionClosed("withdrawal", f"the collection is {state.state}; nothing was changed")
            length = request.content_length
            self._admission.measure(
                _sender(request), length, self._withdrawals.longest, SECRET_BYTES, limited=through_door
            )
            with self._admission.room(_sender(request), length, length):
                answer = await self._withdrawals.take(await self._read(request), through_door=through_door)
        except (Refusal, ReportRejected, CollectionClosed, SpoolError) as error:
            answer = self.metrics.refuse(error)
        return answer.response()

    async def _take(self, request: Any, *, handing_on: bool) -> Reply:
        size = self._sealed.report_bytes
        peer = self._peer(request) if PEERS in request.app else None
        door = peer if peer is not None else self._server if handing_on else None
        sender = _sender(request)
        length = self._admit(request, size, limited=peer is None)
        with self._admission.room(sender, length, size):
            return await self._sealed.take(await self._read(request), sender, door)

    def _peer(self, request: Any) -> int:
        """Return the number of the server that calls, by its certificate, which the listener has required."""
        certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
        names = certified_names(certificate)
        for number in range(len(self.collection.servers)):
            if names == [party_name(number)] and number != self._server:
                return number
        raise Refusal(403, "Unknown", "certificate: none of another server given, one expected")

    async def _allow(self, request: Any) -> Any:
        return web.Response(status=204)

    def _admit(self, request: Any, record: int, *, limited: bool = True) -> int:
        """Refuse a request before its body is read; return how long that is."""
        self._require_collection(request)
        length: int = request.content_length
        self._admission.check(_sender(request), length, record, limited=limited)
        return length

    def _require_collection(self, request: Any) -> None:
        if request.match_info["digest"] != self.collection.digest.hex():
            raise Refusal(404, "NotFound", f"collection: {self.collection.digest.hex()} expected")

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

    async def _hand_out_keys(self, request: Any) -> Any:
        self._require_collection(request)
        return web.Response(body=self._sealed.keys().encoded(), content_type="application/json")

    async def _health(self, request: Any) -> Any:
        healthy, disk = await self._examine()
        state = (await self._state()).state
        told = {
            "healthy": healthy,
            "disk": disk,
            "server": self._server,
            "collection": self.collection.digest.hex(),
            "open": state == "open",
            "state": state,
        }
        return Reply(200 if healthy else 503, told).response()

    async def _examine(self) -> tuple[bool, bool]:
        """Return whether uploads would be stored, and whether the disk has room."""
        disk = not self._commits.failing and await asyncio.to_thread(self._spool.usable, LEAST_FREE_BYTES)
        return self._commits.alive and disk, disk

    async def _status_for(self, request: Any) -> Status:
        """Return the status of this server, with exact counts for those who may see them."""
        own, exact = self.collection, MONITOR in request.app
        healthy, _ = await self._examine()
        state = await self._state()
        stored, counted = self._count_for_strangers(state)
        return Status(
            server=self._server,
            collection=own.digest.hex(),
            name=own.name,
            **structs.asdict(state),
            opens=own.opens.isoformat(),
            closes=own.closes.isoformat(),
            expires=own.expires.isoformat(),
            stored=self._commits.stored if exact else stored,
            exact=exact,
            counted="" if exact else counted,
            minimum_batch=own.minimum_batch,
            largest_batch=own.largest_batch,
            healthy=healthy,
            guarantee=self._guarantee,
        )

    def _count_for_strangers(self, state: CollectionState) -> tuple[int | None, str]:
        """Return the count that everybody may see, and when it was counted if that is not the end (`status`)."""
        if state.state not in ("not open yet", "open"):
            return rounded(self._commits.stored), ""
        return (self._hourly.stored, self._hourly.counted) if self._roster is not None else (None, "")

    async def _tell_status(self, request: Any) -> Any:
        return Reply(200, msgspec.to_builtins(await self._status_for(request))).response()

    async def _welcome(self, request: Any) -> Any:
        status = await self._status_for(request)
        if self._front is None or self._front[0] != status:
            self._front = status, front_page.page(self.collection, status).encode()
        return web.Response(
            body=self._front[1], content_type="text/html", charset="utf-8", headers=front_page.headers()
        )

    async def _hand_out_release(self, request: Any) -> Any:
        if self._released is None or not (await self._state()).release:
            return refusal(404, "NotReleased", "release: none yet, or its file is not here").response()
        return web.FileResponse(self._released, headers={"Content-Type": "application/octet-stream"})

    async def _hand_out_report(self, request: Any) -> Any:
        if self._released is None or not (await self._state()).report:
            return refusal(404, "NotReleased", "report: none yet, or its page is not here").response()
        page = await asyncio.to_thread(report_beside(self._released).read_bytes)
        return web.Response(body=page, content_type="text/html", charset="utf-8", headers=front_page.report_headers())

    async def _hand_out_form(self, request: Any) -> Any:
        content, kind = front_page.form_files()[request.path]
        return web.Response(body=content, content_type=kind, headers=front_page.form_headers())

    async def _measure(self, request: Any) -> Any:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _sender(request: Any) -> str | None:
    """Return the address that a request comes from, as far as that is known."""
    return caller_of(request) if request.app.get(BEHIND_PROXY, False) else request.remote


async def _allow_any_origin(request: Any, response: Any) -> None:
    """Let pages of any origin read what is answered: it requires no credentials, and states nothing secret."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = "POST"
        response.headers["Access-Control-Allow-Headers"] = "Content-Type"
        response.headers["Access-Control-Max-Age"] = "86400"
