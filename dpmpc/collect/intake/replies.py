"""Answer the sender of an upload: a status of HTTP, and JSON.

An upload is answered with 200 and ``{"stored": m, "duplicates": q}`` when its reports are durable, and not before, with
``"servers"``, the status at each server that was asked, 200 where all its reports are durable, and ``"reports"``, the
same for each report; the status is 202 where something is left to do for the client, who repeats
the same bytes. Every other answer is ``{"error": NAME, "message": TEXT}``, and nothing of the upload was stored by it,
but by a door whose disk failed when it had stored its own part and kept the rest for others (503 SpoolError):

====  ====================================================================================================
400   ReportRejected: not a list of reports to this server for this collection
401   Unauthenticated: a token is needed
403   Unknown: the roster does not list this token with this report
404   no such collection, or no such page; NeverHere: no report that could be taken back (`withdrawals`)
409   ReportConflict: a report id was used for another report; Withdrawn: its report was taken back; TooLate: a
      report can no longer be taken back (`withdrawals`)
410   CollectionClosed: after closing
411   LengthRequired
413   TooLarge
408   TooSlow: the body did not come in time
425   TooEarly: before opening
429   TooMany: more reports a second than an address may send; ``Retry-After`` gives the time to come back
503   Busy, SpoolError: no memory or no disk, now; NoRoom: the sender's address has its share of the reports that a
      server stores; ``Retry-After`` too
====  ====================================================================================================

Promised: no answer holds anything but public facts and what the client has itself sent. Not promised: that a client
whose connection failed knows whether its upload was stored. It sends the same bytes again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

from dpmpc.base.errors import CollectionClosed, InputError, ReportConflict, ReportRejected, SpoolError
from dpmpc.collect.intake.admission import Refusal
from dpmpc.collect.intake.group_commit import NoRoom
from dpmpc.collect.intake.logs import RateLimitedLogger

LONGEST_RETRY_S = 86400.0  # at a very low rate the wait for the next report may be longer than a float can hold
_RETRY_SECONDS = 30.0  # a full disk takes a while to clear
_STATUS: tuple[tuple[type[InputError], int], ...] = (
    (ReportConflict, 409),
    (ReportRejected, 400),
    (CollectionClosed, 410),
)


class Reply(NamedTuple):
    """The reply to a client."""

    status: int
    content: dict[str, Any]
    retry_after: float | None = None

    @property
    def cause(self) -> str:
        """The name of the error that it reports, if it is one."""
        return str(self.content.get("error", ""))

    def response(self) -> Any:
        """Return it as a response of aiohttp."""
        body = json.dumps(self.content).encode()
        response = web.Response(status=self.status, body=body, content_type="application/json")
        if self.retry_after is not None:
            response.headers["Retry-After"] = str(math.ceil(min(self.retry_after, LONGEST_RETRY_S)))
        return response


def refusal(status: int, name: str, message: str, retry_after: float | None = None) -> Reply:
    """Return the answer to something that was not done."""
    return Reply(status, {"error": name, "message": message}, retry_after)


def answer_errors(log: RateLimitedLogger) -> Any:
    """Return a middleware that answers every failure in JSON, and logs unexpected ones."""

    @web.middleware  # type: ignore[untyped-decorator, unused-ignore]
    async def answer(request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        try:
            return await handler(request)
        except web.HTTPException as error:
            return refusal(error.status, type(error).__name__, error.reason).response()
        except Refusal as error:
            return reply_to(error).response()
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.log(logging.ERROR, "an upload failed", traceback=True)
            message = "it is not known whether this upload was stored; try again later"
            return refusal(500, "InternalError", message).response()

    return answer


def reply_to(error: Exception) -> Reply:
    """Return what the sender of a refused upload or report receives; errors that refuse none are raised again."""
    if isinstance(error, Refusal):
        return refusal(error.status, error.reason, str(error), error.retry_after)
    if isinstance(error, ReportRejected | CollectionClosed):
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return refusal(status, type(error).__name__, str(error))
    if isinstance(error, NoRoom):
        return refusal(503, "NoRoom", str(error), _RETRY_SECONDS)
    if isinstance(error, SpoolError):
        message = "not everything was stored; send the same bytes again later"
        return refusal(503, "SpoolError", message, _RETRY_SECONDS)
    raise error
