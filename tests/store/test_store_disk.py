"""What a dead writer left is removed, and a user's file never, whatever it is called."""

from __future__ import annotations

import os
import subprocess
import sys

from laptime.disk import SUFFIX, cache_folder, host, remove_stale


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
