"""collect/store/id_files.py: lists of ids in memory or in a file."""

import mmap

import numpy as np
import pytest

from dpmpc.base.errors import SpoolError
from dpmpc.collect.store.id_files import IdFile, selected_ids


def some_ids(count):
    return np.arange(2 * count, dtype=">u8").view(np.uint8).reshape(count, 16)


@pytest.mark.parametrize("count", [0, 1, 1 << 16, (1 << 16) + 1, 150_000])
def test_ids_are_what_was_written(tmp_path, count):
    ids = some_ids(count)
    with IdFile(tmp_path) as file:
        for part in np.array_split(ids, 7):
            file.append(part)
        read = file.ids()
    np.testing.assert_array_equal(read, ids)
    assert not read.flags.writeable
    base = read
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap) == (count > 1 << 16)
    assert not list(tmp_path.iterdir())  # a file without a name


@pytest.mark.parametrize("count", [0, 10, 200_000])
def test_selected_ids_keep_their_order(tmp_path, count):
    ids = some_ids(count)
    chosen = np.arange(count) % 3 != 1
    np.testing.assert_array_equal(selected_ids(tmp_path, ids, chosen), ids[chosen])
    assert selected_ids(tmp_path, ids, np.ones(count, np.bool_)) is ids


def test_a_disk_that_fails_is_named(tmp_path):
    with pytest.raises(SpoolError, match="absent"), IdFile(tmp_path / "absent") as file:
        file.append(some_ids(70_000))
