"""laptime's own files: each is written whole or not at all, and leftovers name the process that wrote them. Of files
that may be of others, regular ones alone are read, up to a size.

`LAPTIME_HOME` and `LAPTIME_CACHE` may name a folder that also holds a user's files, and one that others may write to.
So only files whose whole name matches the pattern here are removed, and a file is written under a name that nobody can
know before, which must not exist.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import platform
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import platformdirs

from laptime.model.errors import UsageError

OWN_FOLDER_NAME = "laptime"
SPECIAL = "it is not a regular file"
SUFFIX = ".laptime.tmp"
TEMPORARY = re.compile(rf"\..+\.(?P<host>[A-Za-z0-9-]{{1,60}})\.(?P<pid>[0-9]{{1,10}}){re.escape(SUFFIX)}", re.DOTALL)
ABANDONED_AFTER_S = 24 * 3600
LONGEST_STEM = 32  # characters of a file's name in that of its temporary file, which may have 255 bytes


def cache_folder() -> Path:
    """Return laptime's cache folder, whose files can be made again: in LAPTIME_CACHE, or in the platform's folder.

    It is called `laptime` in both, so no other program and no user keeps files in it.
    """
    folder = own_folder("LAPTIME_CACHE", platformdirs.user_cache_dir).absolute()
    return folder / OWN_FOLDER_NAME if os.environ.get("LAPTIME_CACHE") else folder


def own_folder(variable: str, usual: Callable[[str], str]) -> Path:
    """Return the folder that a variable names, else the platform's usual folder for laptime."""
    named = os.environ.get(variable)
    folder = expand_home(named, variable) if named else Path(usual(OWN_FOLDER_NAME))
    if not named and not folder.is_absolute():
        raise UsageError("no home folder is known for this user", f"Set {variable} to a folder that can be written.")
    name_in_utf8(folder, f"Set {variable} to another folder.")
    return folder


def expand_home(named: str, given_as: str) -> Path:
    """Replace `~` or `~user` with the home folder. `given_as` names the source of the path in an error."""
    try:
        return Path(named).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{given_as} is '{named}', and its home folder is not known", "Write the whole path."
        ) from None


def name_in_utf8(path: Path, hint: str) -> str:
    """Return a path as text for records and messages; refuse a name that is not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(f"the name {str(path)!a} is not UTF-8", hint) from None
    return str(path)


def write_atomically(path: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write `data` to `path`, whole or not at all. Make the folder if it does not exist.

    A private file is for its owner only, where the file system knows owners.
    """
    with open_atomically(path) as file:
        if is_private:
            with contextlib.suppress(OSError):
                os.fchmod(file.fileno(), 0o600)
        file.write(data)


def write_new(path: Path, data: bytes, *, is_private: bool = False) -> None:
    """Write `data` to `path`, whole or not at all, as `write_atomically` does. Raise FileExistsError if it exists.

    Only this user can read a file that `is_private`.
    """
    with open_atomically(path, place=_place_new) as file:
        if is_private:
            os.fchmod(file.fileno(), 0o600)
        file.write(data)


def _place_new(temporary: Path, path: Path) -> None:
    """Name a finished file, unless another file has it. Some file systems have no hard links."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)
    else:
        temporary.unlink()


@contextlib.contextmanager
def open_atomically(path: Path, place: Callable[[Path, Path], object] = Path.replace) -> Iterator[IO[bytes]]:
    """Return a file to write. It appears at `path` once it is whole and on the disk; after an error it is removed.

    `place` gives the finished file its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name(path.stem))
    opened = temporary.open("xb")  # must not exist, and a link exists; what another program put there is not removed
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        place(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # Make the new name durable. Some file systems cannot; the file itself is in place by now.
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_name(stem: str) -> str:
    """Return a name for a temporary file of this process, which nobody can know before."""
    return f".{stem[:LONGEST_STEM]}.{secrets.token_hex(8)}.{host()}.{os.getpid()}{SUFFIX}"


def open_regular(path: str | os.PathLike[str], most_bytes: int) -> io.FileIO:
    """Open a regular file of at most `most_bytes`. Anything else is an OSError, without waiting."""
    # Without O_NONBLOCK, opening a pipe waits until another process writes to it.
    file = io.FileIO(os.fspath(path), opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    try:
        check_regular(os.fstat(file.fileno()), most_bytes)
    except OSError:
        file.close()
        raise
    return file


def read_regular(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Return the contents of a regular file."""
    with open_regular(path, most_bytes) as file:
        return file.readall() or b""


def check_regular(status: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, SPECIAL)
    if status.st_size > most_bytes:
        raise OSError(errno.EINVAL, f"it has {status.st_size:,} bytes, and at most {most_bytes:,} are read")


def remove_stale(folder: Path, names: Iterable[str] | None = None) -> None:
    """Remove the temporary files that dead processes left in `folder`. Only files named by laptime are removed.

    `names` are those of all files in it, where they are known.
    """
    with contextlib.suppress(OSError):
        names = os.listdir(folder) if names is None else names  # noqa: PTH208  there may be 100,000
        for name in [name for name in names if name.endswith(SUFFIX)]:
            matched = TEMPORARY.fullmatch(name)
            if matched is None:
                continue
            path = folder / name
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and not is_in_work(matched, status.st_mtime):
                    path.unlink()


def is_in_work(matched: re.Match[str], changed_s: float) -> bool:
    """Whether the process that wrote a file still works on it. For another machine's file, its age decides."""
    if matched["host"] == host():
        return is_alive(int(matched["pid"]))
    return time.time() - changed_s < ABANDONED_AFTER_S


def is_alive(pid: int) -> bool:
    """Whether a process with this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def host() -> str:
    """Return this machine's name for file names: containers that share a folder do not share process numbers."""
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:60] or "host"
