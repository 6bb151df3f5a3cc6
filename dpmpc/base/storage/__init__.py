"""What is written down: plain records, the file form of a release, and files that appear whole or not at all.

`records` has the one way in which public facts become plain data and come back, field by field; `release_file` the zip
that holds a release, and `npy_headers` the arrays in it; `files` writes atomically and refuses private files that
others may touch. `database` has durable commits, and `kept` what a party keeps of what it has sent; only parties load
these two. Each states what it promises.
"""

from dpmpc.base.storage.records import Record, canonical

__all__ = ["Record", "canonical"]
