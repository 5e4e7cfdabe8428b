"""What a dead writer left is removed, and a user's file never, whatever it is called."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from laptime.store import lock
from laptime.store.disk import SUFFIX, cache_folder, host, remove_stale, temporary_name, write_atomically, write_new


def test_only_names_of_ours_are_removed(tmp_path):
    """With LAPTIME_HOME=. a folder of records may hold a user's files, old ones too."""
    dead = int(
        subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True).stdout
    )
    ours = [f".r-1.{host()}.{dead}{SUFFIX}", f".r.2.far-host.7{SUFFIX}"]
    living = f".r-1.{host()}.{os.getppid()}{SUFFIX}"
    theirs = [".draft.tmp", ".~lock.tmp", f".x.{host()}.{dead}.tmp", "r-1.json.tmp", f"r.{host()}.{dead}{SUFFIX}"]
    theirs += [f".r.{host()}.x{SUFFIX}", f".r.a b.7{SUFFIX}", SUFFIX, f".x.far-host.7{SUFFIX}~"]
    for name in (*ours, living, *theirs):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / f".folder.{host()}.{dead}{SUFFIX}").mkdir()
    (tmp_path / f".link.{host()}.{dead}{SUFFIX}").symlink_to(tmp_path / "r-1.json.tmp")
    left = {path.name for path in tmp_path.iterdir()} - set(ours)
    remove_stale(tmp_path)
    assert left == {path.name for path in tmp_path.iterdir()}


def test_the_cache_has_a_folder_of_its_own(tmp_path, monkeypatch):
    """In the folder that LAPTIME_CACHE names, or where the platform keeps what can be made again."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "laptime"
    monkeypatch.setenv("LAPTIME_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().name == "laptime"
    assert tmp_path in cache_folder().parents


def test_a_link_that_is_planted_where_a_temporary_file_was_expected_is_not_written_through(tmp_path):
    """Another user of a shared folder knows the machine and the process number, and nothing else of the name."""
    victim, folder = tmp_path / "victim", tmp_path / "home"
    victim.write_bytes(b"mine")
    folder.mkdir()
    planted = folder / f".laptime-index.{host()}.{os.getpid()}{SUFFIX}"
    planted.symlink_to(victim)
    write_atomically(folder / "laptime-index.json", b"rows")
    assert (folder / "laptime-index.json").read_bytes() == b"rows"
    assert (victim.read_bytes(), planted.is_symlink()) == (b"mine", True)
    assert temporary_name("r-1") != temporary_name("r-1")


@pytest.mark.parametrize("write", [write_atomically, write_new])
def test_a_file_or_link_that_has_the_very_name_is_neither_followed_nor_removed(tmp_path, monkeypatch, write):
    """Even where the name was known, as here: then nothing is written."""
    monkeypatch.setattr(secrets, "token_hex", lambda _count: "known")
    victim, planted = tmp_path / "victim", tmp_path / temporary_name("record")
    victim.write_bytes(b"mine")
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "record.json", b"ours")
    assert (victim.read_bytes(), planted.is_symlink()) == (b"mine", True)
    assert not (tmp_path / "record.json").exists()


def test_a_name_of_any_length_that_a_file_may_have_has_a_temporary_file(tmp_path):
    """The name of the file is cut in it: the whole may have 255 bytes."""
    place = tmp_path / ("\U0001f3c1" * 62 + ".json")
    write_atomically(place, b"rows")
    assert [each.name for each in tmp_path.iterdir()] == [place.name]


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(tmp_path):
    folder = tmp_path / "r-1"
    folder.mkdir()
    (folder / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        lock.take(folder)
    assert not (tmp_path / "elsewhere").exists()
