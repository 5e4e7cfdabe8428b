"""Writing so that a reader finds the old file or the new one, whatever dies in between."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SUFFIX = ".tmp"
ABANDONED_AFTER_S = 24 * 3600


def write_atomically(path: Path, data: bytes) -> None:
    """Put `data` at `path` at once; the folder is made if it is not there."""
    with open_atomically(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write that stands at `path` once it is whole and on the disk, and nowhere if it never is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{host()}.{os.getpid()}{SUFFIX}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def remove_stale(folder: Path) -> None:
    """Remove what processes that died while writing have left in `folder`."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f".*{SUFFIX}"):
            with contextlib.suppress(OSError):
                if _is_stale(path):
                    path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new name durable; some file systems cannot, and by now the file itself is in place."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_stale(path: Path) -> bool:
    """Judge by the writer's process where it can be seen, and by age where it ran on another machine."""
    parts = path.name.removesuffix(SUFFIX).rsplit(".", 2)
    if len(parts) == 3 and parts[1] == host() and parts[2].isdecimal():
        return not is_alive(int(parts[2]))
    return time.time() - path.stat().st_mtime > ABANDONED_AFTER_S


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine still runs."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def host() -> str:
    """Name this machine in the file's name: containers that share a folder do not share process numbers."""
    return re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:60] or "host"
