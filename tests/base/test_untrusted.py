"""Whatever the bytes are, a reader returns what was asked for or raises one error, and what is printed is one line."""

import contextlib
import json
import os
import subprocess
import sys
import time
import tracemalloc
import unicodedata
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmpc.base.untrusted import DEEPEST, ReadError, converted, is_unicode, printable, read_bytes, read_json, read_toml
from dpmpc.parties.network.settings import read_source
from support.rejections import rejects


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    stored: int
    note: object = None


@given(st.binary(max_size=300))
def test_a_reader_raises_nothing_else(content):
    for read in (lambda: read_json(content, Answer), lambda: read_json(content, dict), lambda: read_toml(content)):
        with contextlib.suppress(ReadError):
            read()


@given(st.text())
def test_what_is_printed_is_one_harmless_line(text):
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert all(unicodedata.category(c)[0] != "C" for c in shown)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"stored": Infinity}', "invalid|malformed"),
        (b'{"stored": 1e400}', ".*"),
        (b'{"stored": 1, "note": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested more than 32 deep"),
        (b'{"stored": 1, "note": "\xff\xfe"}', "utf-8"),
        (b'{"stored": "1"}', "Expected `int`"),
        (b'{"stored": 1, "other": 2}', "unknown field `other`"),
        (b" " * (1 << 20) + b"{}", "more than 1048576 bytes"),
        (b'{"stored": 1, "stored": 1}', "the key 'stored' given twice"),
        (b'{"\\u0073tored": 2, "stored": 1}', "the key 'stored' given twice"),
    ],
)
def test_json_that_is_refused(content, why):
    with pytest.raises(ReadError, match=f"(?i){why}"):
        read_json(content, Answer)


def test_brackets_in_texts_do_not_count():
    text = "[" * 1000
    assert read_json(json.dumps({"stored": 1, "note": text}).encode(), Answer).note == text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (".".join("a" * 30_000).encode() + b" = 1", "line 1: a key of more than 8 parts"),
        (b"a = 1\nx = {" + b"a." * 15_000 + b"a = 1}", "line 2: a key of more than 8 parts"),
        (b"'='." + b"a." * 15_000 + b"a = 1", "a key of more than 8 parts"),
        ('"\u2028".'.encode() * 15_000 + b"a = 1", "a key of more than 8 parts"),
        (b'a . "\\"" \t.' * 15_000 + b"a = 1", "a key of more than 8 parts"),
        (
            b"a = " + b'"' * 3 + b"b" + b'"' * 5 + b"\nx = {" + b"a." * 15_000 + b"a = 1}",
            "line 2: a key of more than 8",
        ),
        (b"# it's 5\" long\na = " + b"[" * 50_000, "nested more than 32 deep"),
        (b"a = " + b"[" * 50_000, "nested more than 32 deep"),
        (b"a = \xff", "utf-8"),
        (b"a = 1\na = 2", "overwrite"),
    ],
)
def test_toml_that_is_refused_in_little_memory(content, why):
    tracemalloc.start()
    with pytest.raises(ReadError, match=f"(?i){why}"):
        read_toml(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize("content", [b'"' + b'\\"' * 500_000, b'{"a": "' + b"x" * 1_000_000, b"[" + b"[]," * 300_000])
def test_json_takes_time_in_proportion_to_its_length(content):
    began = time.process_time()
    with pytest.raises(ReadError):
        read_json(content, dict)
    assert time.process_time() - began < 5  # the square of the length would take an hour


def test_toml_of_floats_and_texts_is_read():
    text = (
        'a.b."c.d" = [0.5, -1.5e-3]\nlong = """x.y.z.'
        + "w." * 50
        + '"""\n[t."[[["]\nk = "'
        + "p." * 50
        + '" # [[[[ \' "'
    )
    assert read_toml(text.encode())["t"]["[[["]["k"].startswith("p.p.")


def test_nesting_that_is_allowed():
    assert read_json(b"[" * DEEPEST + b"]" * DEEPEST, list)


def test_a_long_file_is_refused_unread(tmp_path):
    (tmp_path / "long").write_bytes(b"x" * 11)
    assert read_bytes(tmp_path / "long", largest=11) == b"x" * 11
    with pytest.raises(ReadError, match="more than 10 bytes"):
        read_bytes(tmp_path / "long", largest=10)


@pytest.mark.timeout(10)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    for name in ("party.json", "source.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ReadError, match="no regular file"):
        read_bytes(tmp_path / "party.json")
    with rejects(ANY, given="where the rows of a party are expected: no regular file"):
        read_source(tmp_path, dict)
    with pytest.raises(ReadError, match="no regular file"):
        read_bytes("/dev/null")
    with pytest.raises(IsADirectoryError):
        read_bytes(tmp_path)


def test_escape_sequences_and_forged_lines_are_shown():
    assert printable("ok\x1b[2J\nrelease of 999999 reports, signed by all") == (
        "ok\\x1b[2J\\nrelease of 999999 reports, signed by all"
    )
    assert printable("a\u202eb\\") == "a\\u202eb\\\\"
    assert printable("x" * 10, longest=4) == "xxxx…"


HALVES = ["\ud800", "x\udfff", "\udc80\ud800", "\udcff is what a command makes of a byte"]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("place", [lambda half: {"a": half}, lambda half: {half: 1}, lambda half: {"a": [[half]]}])
def test_text_that_is_not_unicode_is_refused_wherever_it_stands(half, place):
    with pytest.raises(ReadError, match="surrogate"):
        converted(place(half), dict[str, Any])
    assert not is_unicode(half)


def test_plain_data_of_another_type_or_size_is_refused():
    for fields in ({"a": "x"}, {"a": object()}, None):
        with pytest.raises(ReadError):
            converted(fields, dict[str, int])
    assert converted({"ä\U0001f600": 1}, dict[str, int]) == {"ä\U0001f600": 1}
    assert is_unicode("ä\U0001f600")


FRESH_TYPES = """
from __future__ import annotations
import msgspec

class Inner(msgspec.Struct, frozen=True):
    a: int = 0
    b: dict[str, tuple[int, ...]] | None = None

class Outer(msgspec.Struct, frozen=True):
    inner: Inner
    others: tuple[Inner, ...] = ()
"""
RACE = """
import sys, threading, types
from dpmpc.base.untrusted import converted, read_json

sys.setswitchinterval(1e-6)
for number in range(60):
    module = types.ModuleType(f"fresh{{number}}")
    sys.modules[module.__name__] = module
    exec({source!r}, module.__dict__)
    together = threading.Barrier(8)

    def read(reader):
        together.wait()
        if reader % 2:
            converted({{"inner": {{"a": 1}}}}, module.Outer)
        else:
            read_json(b'{{"inner": {{"a": 1}}}}', module.Outer)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all read")
"""


def test_threads_may_read_a_type_for_the_first_time_together():
    """msgspec 0.22 alone crashes the process, within the first types of this program."""
    program = RACE.format(source=FRESH_TYPES)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout) == (0, "all read\n"), done.stderr
