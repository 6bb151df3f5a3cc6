"""Files that claim more than they hold: releases, tables, schemas and settings that nobody honest wrote.

Each function takes the bytes of a sound file where it needs one and returns those of a hostile one, at most a few
megabytes. By hand: ``python -m support.hostile.files KIND SOUND OUT`` in tests/, with a sound release of `dpmpc fit`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

MEGABYTE = 1 << 20
PUBLIC, SUMS = "release.json", "sums.npy"


def members_of(sound: bytes) -> dict[str, bytes]:
    """Return the members of a release file."""
    with zipfile.ZipFile(io.BytesIO(sound)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return file.getvalue()


def with_task(sound: bytes, **changes: object) -> bytes:
    """Change fields of the task; ``sketch__columns=5`` changes "columns" in "sketch"."""
    members = members_of(sound)
    public = json.loads(members[PUBLIC])
    for name, value in changes.items():
        *tables, field = name.split("__")
        place = public["task"]
        for table in tables:
            place = place[table]
        place[field] = value
    return zip_of({**members, PUBLIC: json.dumps(public).encode()})


def many_columns(sound: bytes) -> bytes:
    """Claim 2^31 clients, whose places in the matrix take minutes to draw."""
    return with_task(sound, sketch__columns=1 << 31)


def many_rows(sound: bytes) -> bytes:
    """Claim 2^31 - 1 rows of the matrix, sums of which would take 50 GB."""
    return with_task(sound, sketch__rows=(1 << 31) - 1)


def deflated_public(sound: bytes) -> bytes:
    """Blow the public facts up to 256 MB, which deflate to a quarter of a megabyte."""
    members = members_of(sound)
    return zip_of({**members, PUBLIC: b" " * (256 * MEGABYTE) + members[PUBLIC]}, zipfile.ZIP_DEFLATED)


def deflated_beside(sound: bytes) -> bytes:
    """Put 256 MB of spaces beside the release, as a certificate."""
    return zip_of({**members_of(sound), "certificate.json": b" " * (256 * MEGABYTE) + b"{}"}, zipfile.ZIP_DEFLATED)


def array_header(sound: bytes) -> bytes:
    """Claim sums of 2^44 words, with none of them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 44,)})
    return zip_of({**members_of(sound), SUMS: header.getvalue()})


def array_literal(sound: bytes) -> bytes:
    """Write a header of sums that nests brackets for a parser of Python literals."""
    text = b"{'descr': " + b"(" * 5000 + b")" * 5000 + b"}\n"
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    return zip_of({**members_of(sound), SUMS: header})


def nested_json(sound: bytes) -> bytes:
    """Nest a hundred thousand lists."""
    return zip_of({**members_of(sound), PUBLIC: b"[" * 100_000 + b"]" * 100_000})


def unclosed_json(sound: bytes) -> bytes:
    """Begin a text of a million escaped quotes, which does not end."""
    return zip_of({**members_of(sound), PUBLIC: b'{"task": "' + b'\\"' * 500_000})


def long_number(sound: bytes) -> bytes:
    """Give a number of a million digits."""
    return zip_of({**members_of(sound), PUBLIC: b'{"task": ' + b"9" * MEGABYTE + b"}"})


def broken_utf8(sound: bytes) -> bytes:
    """Break the encoding of a name."""
    members = members_of(sound)
    return zip_of({**members, PUBLIC: members[PUBLIC].replace(b'"format"', b'"for\xff\xfemat"')})


def encrypted(sound: bytes) -> bytes:
    """Flag all members as encrypted."""
    content = bytearray(sound)
    for place in _places(content, b"PK\x01\x02"):
        content[place + 8] |= 1
    return bytes(content)


def unknown_method(sound: bytes) -> bytes:
    """Name a way of compression that there is not."""
    content = bytearray(sound)
    for mark, offset in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        for place in _places(content, mark):
            content[place + offset : place + offset + 2] = b"\x63\x00"
    return bytes(content)


def false_sizes(sound: bytes) -> bytes:
    """Claim members of 4 GB each."""
    content = bytearray(sound)
    for place in _places(content, b"PK\x01\x02"):
        content[place + 20 : place + 28] = b"\xfe\xff\xff\xff" * 2
    return bytes(content)


def twice(sound: bytes) -> bytes:
    """Give two members one name: readers that take the first and readers that take the last see different facts."""
    members = members_of(sound)
    renamed = zip_of({**members, "release.jsoN": members[PUBLIC]})
    return renamed.replace(b"release.jsoN", b"release.json")


def many_members(sound: bytes) -> bytes:
    """Put 40,000 empty members beside the release."""
    return zip_of({**members_of(sound), **{f"m{index}": b"" for index in range(40_000)}})


def escapes(sound: bytes) -> bytes:
    """Name the noise by what clears a terminal and forges a line."""
    return with_task(sound, noise={"name": "\x1b[2J\nrelease of 999999 reports, signed by all", "sigma": 1.0})


def fractional_bits(sound: bytes) -> bytes:
    """Ask for numbers of a billion bits."""
    return with_task(sound, encoding__fractional_bits=10**9)


def many_servers(sound: bytes) -> bytes:
    """Claim a trillion servers."""
    return with_task(sound, trust__servers=10**12, trust__corrupt_servers=10**12 - 1)


def dotted_toml(sound: bytes = b"") -> bytes:
    """Name a key of thirty thousand parts, in a table in one line: TOML that takes gigabytes to read."""
    return b"x = {" + b"a." * 30_000 + b"a = 1}"


def nested_toml(sound: bytes = b"") -> bytes:
    """Nest fifty thousand lists."""
    return b"x = " + b"[" * 50_000


def compressed(head: bytes, block: bytes, times: int) -> bytes:
    """Return a gzip file of a beginning and a block that is repeated."""
    once = 16  # blocks in a member: compressed once, and repeated
    member = gzip.compress(block * once, 9, mtime=0)
    return gzip.compress(head, 9, mtime=0) + member * (times // once)


LETTERS = b"a" * MEGABYTE

TABLES: dict[str, Callable[[], bytes]] = {
    "one line": lambda: compressed(b"", LETTERS, 512),
    "second line": lambda: compressed(b"x,y\n1,2\n", LETTERS, 512),
    "quotation": lambda: compressed(b'x,y\n1,2\n3,"', (b"a" * 1023 + b"\n") * 1024, 512),
    "cells": lambda: compressed(b"x,y\n1,2\n", b'"\n",' * (1 << 18), 512),
}

RELEASES: dict[str, Callable[[bytes], bytes]] = {
    make.__name__: make
    for make in (
        many_columns,
        many_rows,
        deflated_public,
        deflated_beside,
        array_header,
        array_literal,
        nested_json,
        unclosed_json,
        long_number,
        broken_utf8,
        encrypted,
        unknown_method,
        false_sizes,
        twice,
        many_members,
        escapes,
        fractional_bits,
        many_servers,
    )
}
TOML: dict[str, Callable[[bytes], bytes]] = {make.__name__: make for make in (dotted_toml, nested_toml)}


def _places(content: bytearray, mark: bytes) -> list[int]:
    places, start = [], content.find(mark)
    while start >= 0:
        places.append(start)
        start = content.find(mark, start + 1)
    return places


def main() -> None:
    """Write one hostile file."""
    parser = argparse.ArgumentParser(prog="support.hostile.files", description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=sorted({**RELEASES, **TOML}), help="what is wrong with the file")
    parser.add_argument("sound", type=Path, help="a release of dpmpc fit; any file for TOML")
    parser.add_argument("out", type=Path, help="where to write")
    chosen = parser.parse_args()
    chosen.out.write_bytes({**RELEASES, **TOML}[chosen.kind](chosen.sound.read_bytes()))
    print(f"{chosen.out}: {chosen.kind}, {chosen.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
