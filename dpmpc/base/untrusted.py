"""Read what a peer, a client or somebody's file states, and print it.

Whoever wrote the content may be hostile. So every reader here bounds the length of the content before it parses it, the
depth of its nesting before it recurses, and the kinds of numbers that it may hold; and every text is escaped before a
person sees it in a terminal or a log.

Promised: a reader returns a value of the type that was asked for, or raises `ReadError`, whatever the bytes are; it
takes time and memory in proportion to their length. `printable` returns one line without control characters, escape
sequences or characters that reorder text. Not promised: that the values make sense; that is for whoever asked.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import reprlib
import stat
import threading
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec

T = TypeVar("T")

LARGEST_MESSAGE = 1 << 20  # bytes of a peer's or client's JSON
LARGEST_FILE = 1 << 22  # bytes of a TOML or JSON file that a person wrote
DEEPEST = 32  # levels of tables and lists nested in one another
MOST_KEY_PARTS = 8  # of a key of TOML, as in a.b.c: the parser takes the square of their number
LONGEST_TEXT = 2000  # characters of somebody else's text that are printed
# Tokens. Quantifiers are possessive, so that no character is read twice; a text that never ends reaches to the end.
_JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[][{}]', re.DOTALL)
_TOML_TOKEN = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'  # texts of several lines
    rb"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    rb'|(?P<part>"(?:[^"\\\n]|\\[^\n])*+"?|\'[^\'\n]*+\'?|[A-Za-z0-9_-]++)'  # what a key may be made of
    rb"|(?P<dot>\.)|(?P<blank>[ \t]++)|\#[^\n]*+|(?P<open>[\[{])|(?P<close>[]}])|[^\"'A-Za-z0-9_.\#\[\]{} \t-]++",
    re.DOTALL,
)

_PLACE = re.compile(r"(?P<said>.*) - at `(?:key in )?\$(?P<place>.*)`", re.DOTALL)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_KINDS = {  # msgspec's names
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a table",
    "datetime": "a time",
    "null": "None",
}


_prepared: set[Any] = set()
_preparing = threading.Lock()


def _prepare(kind: Any) -> None:
    """Have msgspec look at a type before the first value is read.

    It does so once for each type and the types in it. Where two threads bring it there at the same time, msgspec 0.22
    crashes the process, no matter who has sent the content; so one thread at a time looks.
    """
    if kind not in _prepared:
        with _preparing:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)


class ReadError(ValueError):
    """The content is not what was expected; the message states why and holds nothing unprintable.

    Callers turn it into the typed error of their room, with the name of whoever sent the content.
    """


def read_json(content: bytes, kind: type[T], *, largest: int = LARGEST_MESSAGE, deepest: int = DEEPEST) -> T:
    """Parse JSON as a value of a type.

    Parameters
    ----------
    content : bytes
        What somebody sent, at most `largest` bytes.
    kind : type
        What it must be; msgspec's structs check every field.
    largest : int
        Longer content is refused unread.
    deepest : int
        Content that nests lists and tables deeper is refused unparsed.

    Raises
    ------
    ReadError
        If the content is anything else, or gives a key twice.
    """
    _prepare(kind)
    require_length(len(content), largest)
    _require_shallow(content, deepest)
    try:
        read = msgspec.json.decode(content, type=kind)
        json.loads(content, object_pairs_hook=_require_once)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ReadError(printable(str(error))) from None
    return read


def _require_once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a key that is given twice: two readers may go by different values of it."""
    if len(dict(pairs)) < len(pairs):
        ((twice, _),) = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} given twice, once expected")


def converted(content: Any, kind: type[T], hook: Callable[[type, Any], Any] | None = None) -> T:
    """Make a value of a type from plain data.

    Parameters
    ----------
    content : dict, list, text or number
        What JSON or TOML held.
    kind : type
        What it must be.
    hook : callable, optional
        ``hook(kind, plain)`` makes what msgspec does not support, such as a noise.

    Raises
    ------
    ReadError
        If it is anything else, with the name of the field, the value given and what was expected; or if a text in it
        is not Unicode, wherever it stands, as no file, digest or message could hold it.
    ValueError
        As constructors and the hook raise it.
    """
    _prepare(kind)
    _require_unicode(content)
    try:
        return msgspec.convert(content, kind, dec_hook=hook)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise ReadError(_in_words(str(error), content)) from None


def is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, as arguments in another encoding have."""
    return _HALF_PAIR.search(text) is None


def _require_unicode(content: Any) -> None:
    """Refuse plain data with a text in it that is not Unicode. JSON and TOML read here have none."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, str) and not is_unicode(value):
            raise ReadError(f"{reprlib.repr(value)} given, text without half a surrogate pair expected")
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            left += value


def _in_words(complaint: str, content: Any) -> str:
    """Return what msgspec found as "FIELD: VALUE given, KIND expected"."""
    match = _PLACE.fullmatch(complaint)
    message, place = (match["said"], match["place"]) if match else (complaint, "")
    for key, index in _STEP.findall(place):
        content = content[key or int(index)]
    kinds = re.match("Expected `([^`]*)`", message)
    if kinds:
        expected = " or ".join(_KINDS.get(kind, kind) for kind in kinds[1].split(" | "))
        message = f"{reprlib.repr(content)} given, {expected} expected"
    else:
        message = printable(message)
    return f"{printable(place.removeprefix('.'))}: {message}" if place else message


def read_toml(content: bytes, *, largest: int = LARGEST_FILE, deepest: int = DEEPEST) -> dict[str, Any]:
    """Parse TOML as plain data; parameters and errors are those of `read_json`."""
    require_length(len(content), largest)
    try:
        text = content.decode("utf-8")
        _require_simple_toml(content, deepest)
        return tomllib.loads(text)
    except ReadError:
        raise
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ReadError(printable(str(error))) from None


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading; a device has no end, and a pipe may have no writer.

    Raises
    ------
    OSError
        If it cannot be opened.
    ReadError
        If it is no regular file.
    """
    # A pipe that nobody writes to is opened at once with O_NONBLOCK, and not waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ReadError("no regular file")
        yield file


def read_bytes(path: str | os.PathLike[str], *, largest: int = LARGEST_FILE) -> bytes:
    """Read a file that is not longer than it may be.

    Raises
    ------
    OSError
        If it cannot be read.
    ReadError
        If it is longer, or no regular file.
    """
    with open_regular(path) as file:
        content = file.read(largest + 1)
    require_length(len(content), largest)
    return content


class _Stream(Protocol):
    """Where the bytes of an answer come from."""

    async def read(self, n: int) -> bytes: ...


async def read_beginning(stream: _Stream, largest: int) -> bytes:
    """Read an answer, or so much of a longer one that its reader refuses it as longer than `largest` bytes."""
    content = b""
    while len(content) <= largest and (part := await stream.read(largest)):
        content += part
    return content


def require_length(length: int, largest: int) -> None:
    """Refuse content that is longer than it may be."""
    if length > largest:
        raise ReadError(f"more than {largest} bytes")


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    r"""Escape what a terminal or a log would not show as it is, and cut what is too long.

    Parameters
    ----------
    text : str
        Anybody's words.
    longest : int
        Characters of the text that are kept; the rest becomes an ellipsis.

    Returns
    -------
    str
        One line. Control characters, line breaks, surrogates, and characters that reorder or hide text stand as
        ``\n``, ``\x1b`` or ``\u202e``; a backslash stands as two.
    """
    escaped = "".join(
        character if character.isprintable() and character != "\\" else _escaped(character)
        for character in text[:longest]
    )
    return escaped + "…" if len(text) > longest else escaped


def harmless(text: str) -> str:
    """Escape like `printable` what a terminal would not show as it is, in a line of ours that quotes a text of others.

    Backslashes stay, since what is quoted is often escaped already, and nothing is cut.
    """
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _require_shallow(content: bytes, deepest: int) -> None:
    """Refuse JSON that nests too deep, in one pass that keeps nothing."""
    depth = 0
    for token in _JSON_TOKEN.finditer(content):
        first = content[token.start()]
        depth += (first in b"[{") - (first in b"]}")
        if depth > deepest:
            raise _too_deep(deepest)


def _require_simple_toml(content: bytes, deepest: int) -> None:
    """Refuse TOML that nests too deep, or has a key of too many parts."""
    depth = parts = 0
    for token in _TOML_TOKEN.finditer(content):
        kind = token.lastgroup
        if kind == "dot":
            parts += 1
            if parts >= MOST_KEY_PARTS:
                line = content.count(b"\n", 0, token.start()) + 1
                raise ReadError(f"line {line}: a key of more than {MOST_KEY_PARTS} parts")
        elif kind not in ("part", "blank"):
            parts = 0
            depth += (kind == "open") - (kind == "close")
            if depth > deepest:
                raise _too_deep(deepest)


def _too_deep(deepest: int) -> ReadError:
    return ReadError(f"lists or tables nested more than {deepest} deep")
