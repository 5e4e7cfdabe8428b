"""Copies of a user's code in laptime's cache folder, each for one question alone.

A copy is made afresh under a name that nobody knows before, it is locked by the process that uses it, and it is removed
when the question is over. What a process leaves that was killed, the next one removes: the system has unlocked it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib.machinery import all_suffixes
from math import inf
from pathlib import Path

from laptime.model.errors import CopyError, StoreError
from laptime.store.disk import cache_folder

TREES = "trees"
TREE_NAME_BYTES = 16
TREE_NAME = re.compile(rf"[0-9a-f]{{{2 * TREE_NAME_BYTES}}}")
EARLIER_NAME = re.compile(r"[0-9a-f]{12}|\..{8}")  # of a laptime that locked none and used them again
UNLOCKED_DAYS = 30  # until a copy counts as left behind where none can be locked: a training may take as long
CODE_SUFFIXES = (*all_suffixes(), ".pyx", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
MADE_TRIES = 10
FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your quota of its disk is used up",
    errno.EFBIG: "a file would be larger than this process may write",
}


class Copies:
    """The copies that one question uses."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Path, int]] = {}

    def place(self, word: str, fill: Callable[[Path], None]) -> Path:
        """Return the copy that a word names. It is made and filled at the first call."""
        if word not in self._made:
            self._make(word, fill)
        self.check()
        return self._made[word][0]

    def check(self) -> None:
        """Raise CopyError if another program has removed a copy."""
        for word, (folder, _) in self._made.items():
            if not folder.is_dir():
                says = f"the copy of {word} is gone from {folder.parent} while laptime used it"
                raise CopyError(says, "Ask again. LAPTIME_CACHE names a folder that no other program cleans.")

    def holding(self, file: Path) -> Path | None:
        """Return the copy that a file is in."""
        return next((folder for folder, _ in self._made.values() if file.is_relative_to(folder)), None)

    def remove(self) -> None:
        """Remove all copies."""
        while self._made:
            _, (folder, lock) = self._made.popitem()
            _remove_locked(folder, lock)

    def _make(self, word: str, fill: Callable[[Path], None]) -> None:
        home = cache_folder() / TREES
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_remains(home)
            folder, lock = _make_locked(home)
            self._made[word] = (folder, lock)
            fill(folder)
            # Let nobody write to code. A training may still keep a cache or a checkpoint next to itself.
            for place in code_in(folder):
                if not place.is_symlink():
                    place.chmod(place.stat().st_mode & ~0o222)
        except BaseException as error:
            if word in self._made:
                _remove_locked(*self._made.pop(word))
            if not isinstance(error, OSError):
                raise
            says = f"{word} could not be copied to {home}: {FULL.get(error.errno or 0, error.strerror or error)}"
            raise StoreError(says, "Make room there, or set LAPTIME_CACHE to a folder that can be written.") from error


_current: ContextVar[Copies | None] = ContextVar("copies of a question", default=None)
_of_no_question = Copies()
atexit.register(_of_no_question.remove)


@contextlib.contextmanager
def copies_of_a_question() -> Iterator[None]:
    """Keep the copies that are made meanwhile, and remove them at the end."""
    copies = Copies()
    before = _current.set(copies)
    try:
        yield
    finally:
        _current.reset(before)
        copies.remove()


def copies_in_use() -> Copies:
    """Return the copies of the question that runs; outside of one, those of this process."""
    return _current.get() or _of_no_question


def _make_locked(home: Path) -> tuple[Path, int]:
    """Make a folder under a new name, and lock it. Until then, another process may take it for remains."""
    for _ in range(MADE_TRIES):
        folder = home / secrets.token_hex(TREE_NAME_BYTES)
        folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if _lock(lock) is not False and folder.is_dir():
                return folder, lock
            os.close(lock)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(home))


def _lock(folder: int) -> bool | None:
    """Lock an open folder. Return False if another process has it, and None where the file system has no locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_remains(home: Path) -> None:
    """Remove the copies that dead processes left."""
    for folder in home.iterdir():
        is_ours = TREE_NAME.fullmatch(folder.name) is not None
        if not (is_ours or EARLIER_NAME.fullmatch(folder.name)):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            is_free = _lock(lock) if is_ours else None
            if is_free is None:
                is_free = time.time() - folder.stat().st_mtime > UNLOCKED_DAYS * 24 * 3600
            if is_free:
                _remove_locked(folder, lock)
            else:
                os.close(lock)


def _remove_locked(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def code_in(folder: Path, most: float = inf) -> Iterator[Path]:
    """Yield the files of code in a folder, in order, among its first `most` files. Links to folders are not entered."""
    count = 0
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        count += len(names)
        if count > most:
            return
        for place in (Path(inside, name) for name in sorted(names) if name.endswith(CODE_SUFFIXES)):
            if place.is_file():
                yield place
