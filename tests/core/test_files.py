"""Atomic writing: the old file or the new one, durable before it has its name, no leftovers."""

import os

import pytest

from pcme.core import files
from pcme.errors import ConfigError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_at_once_and_a_failure_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(OSError, match="disk full"), files.replacing(path) as draft:  # noqa: PT012
        draft.write_text("ne")
        raise OSError("disk full")
    assert (path.read_text(), names(tmp_path)) == ("old", ["a.txt"])
    with files.replacing(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), names(tmp_path)) == ("new", ["a.txt"])


def test_contents_are_durable_before_the_name_and_the_name_at_the_end(tmp_path, monkeypatch):
    path, done = tmp_path / "a.txt", []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor):
        done.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def noted_replace(source, target):
        done.append("replaced")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    files.write_text(path, "new")
    assert done == [path.stat().st_ino, "replaced", tmp_path.stat().st_ino]


def test_a_new_file_is_never_an_old_one(tmp_path):
    files.write_new(tmp_path / "a", b"1")
    with pytest.raises(FileExistsError):
        files.write_new(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_leftovers_are_cleaned_and_nothing_else(tmp_path):
    files.hidden(tmp_path / "weights").write_bytes(b"half")
    files.hidden(tmp_path / "draft").mkdir()
    (tmp_path / ".mine").write_text("")
    (tmp_path / "a.txt").write_text("")
    files.clean(tmp_path)
    files.clean(tmp_path / "missing")
    assert names(tmp_path)[1:] == [".mine", "a.txt"]


def test_others_may_read_what_was_written_as_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        files.write_text(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_folder_is_made_with_those_above_it_or_refused(tmp_path):
    assert files.ensure_folder(tmp_path / "a" / "b", "the run's folder").is_dir()
    assert files.ensure_folder(str(tmp_path / "a"), "the run's folder") == tmp_path / "a"
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=r"cannot be the run's folder: .* Give another"):
            files.ensure_folder(path, "the run's folder")


def test_a_prepared_folder_goes_again_if_it_is_new_and_empty_and_the_work_fails(tmp_path):
    (tmp_path / "old").mkdir()
    for name, content in (("new", ""), ("filled", "result"), ("old", "")):
        with pytest.raises(ValueError, match="no"), files.prepared(tmp_path / name, "the results' folder") as folder:  # noqa: PT012
            assert folder.is_dir()
            if content:
                (folder / "a.txt").write_text(content)
            raise ValueError("no")
    assert names(tmp_path) == ["filled", "old"]
    with files.prepared(tmp_path / "new", "the results' folder"):
        pass
    assert (tmp_path / "new").is_dir()
