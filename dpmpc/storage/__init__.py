"""What is written down: plain records, the file form of a release, and files that appear whole or not at all.

`records` has the one way in which public facts become plain data and come back, field by field; `release_file` the zip
that holds a release; `files` writes atomically and refuses private files that others may touch. `database` has durable
commits, and `kept` what a party keeps of what it has sent; only parties load these two. Each says what it promises.
"""

from dpmpc.storage import release_file
from dpmpc.storage.files import locked, require_private, sync, whole, write_private
from dpmpc.storage.records import MALFORMED, Described, Record, canonical, fields_of, malformed, plain, rebuilt
from dpmpc.storage.release_file import (
    LARGEST_PUBLIC,
    LONGEST_HEADER,
    MAGIC,
    MOST_AXES,
    MOST_MEMBERS,
    PUBLIC_MEMBER,
    ROUNDING,
    SUMS_MEMBER,
    ArrayHeader,
    Header,
    Members,
    SumsReader,
    alike,
    open_members,
    read,
    read_header,
    write,
)

__all__ = [
    "LARGEST_PUBLIC",
    "LONGEST_HEADER",
    "MAGIC",
    "MALFORMED",
    "MOST_AXES",
    "MOST_MEMBERS",
    "PUBLIC_MEMBER",
    "ROUNDING",
    "SUMS_MEMBER",
    "ArrayHeader",
    "Described",
    "Header",
    "Members",
    "Record",
    "SumsReader",
    "alike",
    "canonical",
    "fields_of",
    "locked",
    "malformed",
    "open_members",
    "plain",
    "read",
    "read_header",
    "rebuilt",
    "release_file",
    "require_private",
    "sync",
    "whole",
    "write",
    "write_private",
]
