"""The pages of a server: what is collected, until when and what is guaranteed, and a form to contribute by.

The page at ``/`` is made here. The form is a client in JavaScript (``web/``), the same for all collections, which a
server hands out at ``/contribute`` where reports may come from browsers: the page reads the task file itself. The page
of a release, at ``/report``, is made by `dpmpc release` of the file that it has verified
(`dpmpc.app.render.release_page`).

Promised: every text is escaped, with control characters and such that change the direction of writing made visible; the
page at ``/`` loads nothing and runs nothing, and the form nothing of others (their Content-Security-Policies let no
browser do so). The page shows what the task file
states and the count of `dpmpc.collect.intake.status`. Not promised: that a visitor's browser has checked whose page it
is:
certificates of servers are their own, so a browser warns, and the fingerprint is to be compared.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources

import jinja2
from markupsafe import Markup

from dpmpc.base.untrusted import printable
from dpmpc.collect.intake.status import Status
from dpmpc.collect.terms.task_file import Collection
from dpmpc.parties.network.identity import fingerprint

_FOLDER = "dpmpc.collect.intake"
_LONGEST = 400  # characters of a text of the task file
_CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_FORM = {
    "/contribute": ("contribute.html", "text/html"),
    "/contribute.css": ("contribute.css", "text/css"),
    "/contribute.mjs": ("contribute.mjs", "text/javascript"),
    "/questions.mjs": ("questions.mjs", "text/javascript"),
    "/client.mjs": ("client.mjs", "text/javascript"),
    "/codebook.mjs": ("codebook.mjs", "text/javascript"),
    "/sw.mjs": ("sw.mjs", "text/javascript"),
    "/report.wasm": ("report.wasm", "application/wasm"),
}


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def _style() -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, "front.css")[0]


def headers() -> dict[str, str]:
    """Return the headers of the page at ``/``: nothing is loaded, run, framed or kept."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return {**_HEADERS, "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; {_CLOSED}"}


def report_headers() -> dict[str, str]:
    """Return the headers of the page of a release, whose policy is that in the page, and framed by nobody."""
    return {**_HEADERS, "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; {_CLOSED}"}


def form_headers() -> dict[str, str]:
    """Return the headers of the form: scripts and messages are this server's alone, and no text becomes code."""
    own = "script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; worker-src 'self'"
    texts = "require-trusted-types-for 'script'; trusted-types dpmpc"  # a policy that admits the service worker alone
    policy = f"default-src 'none'; {own}; {texts}; {_CLOSED}"
    return {**_HEADERS, "Content-Security-Policy": policy, "Cross-Origin-Opener-Policy": "same-origin"}


@functools.cache
def form_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of the form by their paths, each with its type."""
    folder = importlib.resources.files(_FOLDER) / "web"
    return {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _FORM.items()}


def page(collection: Collection, status: Status) -> str:
    """Return the page of a collection as HTML, with what its status states of it now, and a link to the form."""

    def said(text: str) -> str:
        return printable(text, _LONGEST)

    return (
        _environment()
        .get_template("front.html")
        .render(
            # a <style> knows no escapes, and its hash is in the header: this is our own file
            style=Markup(_style()),  # noqa: S704
            status=status,
            name=said(collection.name),
            purpose=printable(collection.purpose),
            contact=printable(collection.contact),
            times=[(word, getattr(collection, word)) for word in ("opens", "closes", "expires")],
            digest=collection.digest.hex(),
            authenticated=collection.authenticated,
            variables=[
                (
                    said(one.name),
                    said(one.range_in_words) + (" or missing" if one.if_missing is not None else ""),
                    printable(": ".join(text for text in (one.label, one.meaning) if text)),
                )
                for one in collection.plan.schema.variables
            ],
            servers=[
                (said(server.organisation), said(server.url), fingerprint(server.certificate.encode()))
                for server in collection.servers
            ],
            guarantee=[said(line.strip()) for line in status.guarantee.split("\n")],
        )
    )
