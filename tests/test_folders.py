"""A folder to write to is made, or it is said why it cannot be."""

import pytest

from pcme import ConfigError, folders


def test_a_folder_is_made_with_those_above_it(tmp_path):
    assert folders.made(tmp_path / "a" / "b", "the run's folder").is_dir()
    assert folders.made(str(tmp_path / "a"), "the run's folder") == tmp_path / "a"


def test_what_cannot_be_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"cannot be the run's folder - .* - give another"):
            folders.made(path, "the run's folder")
