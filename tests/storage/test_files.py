"""Files appear whole or not at all, and what is private is for its owner alone."""

import pytest

from dpmpc.errors import InputError, SpoolError
from dpmpc.storage import require_private, whole


def test_a_file_takes_the_place_of_the_old_one_at_the_end(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with whole(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_is_left_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def interrupted():
        with whole(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_what_is_for_its_owner_alone_passes(mode, tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    require_private("key", path)


@pytest.mark.parametrize("mode", [0o601, 0o602, 0o604, 0o610, 0o620, 0o640])
def test_what_others_may_touch_is_refused(mode, tmp_path):
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    with pytest.raises(InputError, match=f"key: mode 0{mode:o} of {path} given, 0600 expected"):
        require_private("key", path)


def test_a_folder_needs_another_mode_and_a_store_another_error(tmp_path):
    tmp_path.chmod(0o750)
    with pytest.raises(SpoolError, match=r"folder: mode 0750 of .* given, 0700 expected"):
        require_private("folder", tmp_path, SpoolError)
