"""The file form of a release: a zip of what is public about it (JSON) and of its exact sums (NumPy's own format).

Promised: the same content gives the same bytes on every machine, without a date. Reading runs no code from the file
(no pickles), whatever is no release is an `InputError`, and a file that claims another guarantee than its own public
facts give is refused. Not promised: that the facts are true; that takes signatures (`dpmpc.intake.certificate`).
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmpc.errors import InputError

PUBLIC_MEMBER, SUMS_MEMBER = "release.json", "sums.npy"
ROUNDING = 1e-9  # relative, of what a guarantee computes with linear algebra
SENTENCES = frozenset({"mechanism", "assumptions", "sources"})
_NOT_A_RELEASE = (OSError, zipfile.BadZipFile, KeyError, TypeError, AttributeError, ValueError, EOFError)


class Guaranteed(Protocol):
    """A release, of which only the guarantee matters here."""

    @property
    def guarantee(self) -> Any:
        """What it promises; has `to_dict`."""


R = TypeVar("R", bound=Guaranteed)


def write(file: Path | BinaryIO, public: bytes, sums: NDArray[Any], beside: Mapping[str, bytes] | None = None) -> None:
    """Write a release; `public` is JSON, and `beside` are further members of the zip, by name."""
    array = io.BytesIO()
    np.lib.format.write_array(array, np.ascontiguousarray(sums), allow_pickle=False)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {PUBLIC_MEMBER: public, SUMS_MEMBER: array.getvalue(), **(beside or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # dated 1980, like all of them


def read(path: str | os.PathLike[str], what: str, build: Callable[[dict[str, Any], NDArray[Any]], R]) -> R:
    """Read a release, and check what it claims.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What is expected, in words.
    build : callable
        ``build(public, sums)`` returns the release that these members describe.

    Raises
    ------
    InputError
        If the file is something else, or claims another guarantee than the release has.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            public = json.loads(archive.read(PUBLIC_MEMBER))
            sums = np.lib.format.read_array(io.BytesIO(archive.read(SUMS_MEMBER)), allow_pickle=False)
        release, claimed = build(public, sums), public["guarantee"]
    except InputError:
        raise
    except _NOT_A_RELEASE as error:
        raise InputError(f"release: {os.fspath(path)!r} is no {what} ({error})") from error
    if not alike(claimed, json.loads(json.dumps(release.guarantee.to_dict()))):
        raise InputError(f"release: {os.fspath(path)!r} claims another guarantee than its public facts give")
    return release


def alike(claimed: Any, found: dict[str, Any]) -> bool:
    """Whether two guarantees agree in all but words, up to the rounding of linear algebra elsewhere."""
    if not isinstance(claimed, dict) or claimed.keys() != found.keys():
        return False
    return all(
        math.isclose(claimed[name], value, rel_tol=ROUNDING)
        if isinstance(value, float) and isinstance(claimed[name], float)
        else claimed[name] == value
        for name, value in found.items()
        if name not in SENTENCES
    )
