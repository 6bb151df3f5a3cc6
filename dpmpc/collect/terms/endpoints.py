"""Where clients and servers send reports and withdrawals over HTTP, and which answers end that.

docs/report-format.md describes the requests; `service` answers them, `uploader`, `withdrawing` and `doors` send them.
"""

from __future__ import annotations

SEALED_UPLOADS = "/v2/collections/{digest}/reports"
OWN_UPLOADS = f"{SEALED_UPLOADS}/here"  # which are not handed on: the client sends them to every server itself
WITHDRAWALS = "/v2/collections/{digest}/withdrawals"
MOST_WITHDRAWALS = 16  # in one request
STORED = 200
FINAL = frozenset({STORED, 400, 401, 403, 404, 409, 410})  # answers after which a sender does not try again
UNREACHABLE = "unreachable"
LOOPBACK = ("127.0.0.1", "::1", "localhost")  # hosts of this machine, which plain HTTP is for
Status = int | str  # of HTTP, or `UNREACHABLE`
