"""Changed files and descriptions against the parsers that read them: a value or a typed error, soon.

`cases` names each parser with sound inputs. `feed` changes them, bytes as `mutate` does, and where
the input is JSON also its structure, with values at which constructors might stumble; it counts what came of it. The
tests use few inputs, `python -m bench fuzz` many.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmpc.base.errors import DpmpcError
from dpmpc.base.untrusted import ReadError, read_json
from dpmpc.data import Schema, Table
from dpmpc.data.table_files import read_table
from dpmpc.linear.contributions import contribution_from
from dpmpc.linear.noise import noise_from
from dpmpc.linear.sharing.batch import ArrayShare, SeededShare, open_share, save_share
from dpmpc.linear.sketching import sketch_from
from dpmpc.owners.columns import design as mixing_design
from dpmpc.owners.columns.mixed_release import MixedRelease
from dpmpc.owners.columns.mixing_task import MixingTask
from dpmpc.parties.network.settings import PartySettings, read_settings, write_settings
from dpmpc.parties.network.verified_task import verified_task
from dpmpc.privacy import BudgetLedger
from dpmpc.privacy.specification import ReleaseSpec
from dpmpc.privacy.task import Task
from dpmpc.release import simulation as model
from dpmpc.release.planning import design
from dpmpc.release.release import Release
from dpmpc.release.release_file import PUBLIC_MEMBER, SUMS_MEMBER, open_members

_EXTREMES = (b"\0" * 8, b"\xff" * 8, (1 << 61).to_bytes(8, "little"), ((1 << 61) - 1).to_bytes(8, "little"))
_MOST_CHANGES = 4
SLOWEST = 2.0  # CPU seconds of one input; sound ones take some milliseconds
_LEAVES: tuple[Any, ...] = (
    None,
    True,
    "",
    "\x1b[2J\n\u202e",
    "x" * 5000,
    -1,
    0,
    1,
    2,
    1 << 31,
    1 << 34,
    (1 << 63) - 1,
    1 << 64,
    10**400,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    [],
    [[]],
    {},
    {"name": "x"},
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A parser, what it is called, and sound inputs to it."""

    name: str
    parse: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    structured: bool = False


@dataclasses.dataclass
class Count:
    """What came of the inputs to one parser."""

    name: str
    inputs: int = 0
    taken: int = 0
    refused: int = 0
    crashes: list[str] = dataclasses.field(default_factory=list)
    slowest: float = 0.0


def cases(folder: Path, parquet: bool = True) -> list[Case]:
    """Return the parsers with sound inputs; `folder` is for files, an empty one."""
    tasks = [
        design(ReleaseSpec.of(Schema.from_pair(["a", "b", "y"], (0, 10)), 300, 1.0, 1e-6, **choices))
        for choices in (
            {"sketch": "osnap", "rows": 8, "sparsity": 2},
            {"sketch": "sum", "noise_by": "servers"},
            {"sketch": "rademacher", "rows": 4, "sharing": "shamir"},
            {"sketch": "countsketch", "rows": 8, "noise": "discrete-laplace"},
            {"sketch": "sum", "noise": "skellam", "radius": 1.0},
        )
    ]
    mixed = mixing_design([["a"], ["b", "c"]], 400, 1.0, 1e-5, rows=10)
    dicts = tuple(_json(task.to_dict()) for task in tasks)
    release = _saved(folder, model.run(tasks[0], np.full((300, 3), 5.0)))
    released = _saved(folder, MixedRelease(mixed, np.zeros((10, 3), np.int64), {"method": "rmgm"}))
    ledger = BudgetLedger(3.0, 1e-5)
    ledger.spend((1.0, 1e-6), "first")
    ledger.spend((0.5, 0.0), "second")
    settings = folder / "settings"
    settings.mkdir()
    write_settings(settings, _settings(tasks[0]))
    shares = [ArrayShare(np.arange(24, dtype=np.uint64).reshape(4, 2, 3)), SeededShare(bytes(16), (4, 2, 3))]
    table = b'a,b,y\n1,2,3\n4,5,6\n,"8",9\n'
    found = [
        Case("release file", _file(folder, Release.load), (release,)),
        Case("release of mixed columns", _file(folder, MixedRelease.load), (released,)),
        Case("facts in a release", _facts(folder, Release.load, release), (_public(folder, release),), True),
        Case("facts in mixed columns", _facts(folder, MixedRelease.load, released), (_public(folder, released),), True),
        Case("task", _of_json(lambda fields: Task.from_dict(fields).require_checkable(1.0).verify()), dicts, True),
        Case("mixing task", _of_json(lambda f: MixingTask.from_dict(f).verify()), (_json(mixed.to_dict()),), True),
        Case("sketch", _of_json(sketch_from), tuple(_json(task.sketch.describe()) for task in tasks), True),
        Case("noise", _of_json(noise_from), tuple(_json(task.noise.describe()) for task in tasks), True),
        Case("statistic", _of_json(contribution_from), tuple(_json(task.statistic.describe()) for task in tasks), True),
        Case("bounds", _of_json(Schema.from_dict), (_json(tasks[0].schema.to_dict()),), True),
        Case("bounds file", _file(folder, Schema.from_toml), (tasks[0].schema.to_toml().encode(),)),
        Case("ledger of budgets", _file(folder, BudgetLedger.load), (_saved(folder, ledger),), True),
        Case("party settings", _settings_of(settings), ((settings / "party.json").read_bytes(),), True),
        Case("share", _file(folder, _first_rows), tuple(_saved(folder, share) for share in shares)),
        Case("CSV", _file(folder, lambda path: read_table(path, drop_missing=True), ".csv"), (table,)),
    ]
    if parquet:
        found.append(Case("Parquet", _file(folder, read_table, ".parquet"), (_parquet(folder),)))
    return found


def mutate(samples: Sequence[bytes], changes: random.Random) -> bytes:
    """Change one of the samples in a few places."""
    data = bytearray(changes.choice(samples))
    for _ in range(changes.randint(1, _MOST_CHANGES)):
        place = changes.randrange(len(data) + 1)
        kind = changes.randrange(7)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << changes.randrange(8)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data[place:place] = changes.randbytes(changes.choice((1, 8, 48)))
        elif kind == 3:
            data[place : place + 8] = changes.choice(_EXTREMES)
        elif kind == 4:
            other = changes.choice(samples)
            data[place:] = other[place:]
        elif kind == 5:
            data += data[: 1 << 12]
        else:
            del data[place : place + changes.choice((1, 8, 16))]
    return bytes(data)


def feed(case: Case, count: int, changes: random.Random) -> Count:
    """Feed a parser with changed inputs."""
    result = Count(case.name)
    for _ in range(count):
        structural = case.structured and changes.random() < 0.7
        data = (restructure if structural else mutate)(case.samples, changes)
        began = time.process_time()
        try:
            case.parse(data)
            result.taken += 1
        except (DpmpcError, ReadError):
            result.refused += 1
        except Exception as error:  # that is what is looked for
            result.crashes.append(f"{error!r} for {data[:300]!r}")
        result.slowest = max(result.slowest, time.process_time() - began)
        result.inputs += 1
    return result


def restructure(samples: Sequence[bytes], changes: random.Random) -> bytes:
    """Change the structure of JSON: other values, fields that are missing, of another name or in another's place."""
    content = json.loads(changes.choice(samples))
    for _ in range(changes.randint(1, 2)):
        places = list(_places(content))
        if not places:
            break
        holder, key = changes.choice(places)
        kind = changes.randrange(5)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[changes.choice(("x", "\u202ey", key + "s"))] = holder[key]
        elif kind == 2:
            other, name = changes.choice(places)
            holder[key] = json.loads(json.dumps(other[name]))
        else:
            holder[key] = copy.deepcopy(changes.choice(_LEAVES))
    return json.dumps(content).encode()


def _places(content: Any) -> Any:
    """Yield every holder of a value, and where it holds it."""
    if isinstance(content, dict | list):
        for key in list(content) if isinstance(content, dict) else range(len(content)):
            yield content, key
            yield from _places(content[key])


def _json(content: object) -> bytes:
    return json.dumps(content).encode()


def _of_json(parse: Callable[[Any], object]) -> Callable[[bytes], object]:
    return lambda data: parse(read_json(data, dict))


def _file(folder: Path, parse: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    path = folder / f"input{suffix}"

    def parse_bytes(data: bytes) -> object:
        path.write_bytes(data)
        return parse(path)

    return parse_bytes


def _saved(folder: Path, thing: Any) -> bytes:
    path = folder / "saved"
    path.unlink(missing_ok=True)
    if hasattr(thing, "save"):
        thing.save(path)
    else:
        save_share(path, thing)
    return path.read_bytes()


def _public(folder: Path, release: bytes) -> bytes:
    (folder / "saved").write_bytes(release)
    with open_members(folder / "saved") as members:
        return members.read(PUBLIC_MEMBER, len(release))


def _facts(folder: Path, load: Callable[[Path], object], release: bytes) -> Callable[[bytes], object]:
    """Parse a release whose public facts are these."""
    (folder / "saved").write_bytes(release)
    with open_members(folder / "saved") as members:
        content = members.read(SUMS_MEMBER, len(release))

    def parse(data: bytes) -> object:
        path = folder / "facts"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(PUBLIC_MEMBER, data)
            archive.writestr(SUMS_MEMBER, content)
        return load(path)

    return parse


def _settings(task: Task) -> PartySettings:
    addresses = [("127.0.0.1", 4000 + party) for party in range(task.trust.servers + 1)]
    return PartySettings(0, task.trust.servers, addresses, "program", {"task": task.to_dict()}, task.digest.hex())


def _settings_of(folder: Path) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        (folder / "party.json").write_bytes(data)
        settings = read_settings(folder)
        verified_task(settings)
        return settings

    return parse


def _first_rows(path: Path) -> object:
    share = open_share(path)
    return share.rows(0, min(2, share.shape[0])) if np.prod(share.shape[1:], dtype=object) < 1 << 16 else share


def _parquet(folder: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = Table.from_any(np.arange(12.0).reshape(4, 3))
    pq.write_table(pa.table(dict(zip(table.names, table.values.T, strict=True))), folder / "saved")
    return (folder / "saved").read_bytes()
