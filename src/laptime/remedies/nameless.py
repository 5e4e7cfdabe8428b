"""Memory as a file that all processes of a training can map, gone with the last of them.

On Linux it has no name in any folder, so that nothing is left behind however they die, and no /dev/shm is too small
for it; a child that is started anew opens it by its parent's hold on it, under /proc. Elsewhere it is a file in the
temporary folder, which the process that made it removes as it ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from laptime.errors import UsageError
from laptime.remedies.memory import write_memory

NAMELESS = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()

_paths: dict[int, str] = {}  # of descriptors whose file has a name


def open_memory(size: int) -> int:
    """Give a descriptor of so much memory, none of which is taken before it is written."""
    try:
        descriptor = os.memfd_create("laptime", os.MFD_CLOEXEC) if NAMELESS else _open_named()
        os.ftruncate(descriptor, size)
    except (OSError, OverflowError) as error:
        told = f"memory={write_memory(size)}: the system gives no such shared memory: {error}"
        raise UsageError(told, "state less") from error
    return descriptor


def path_of(descriptor: int) -> str:
    """Give by which path another process finds it while this one lives."""
    return _paths.get(descriptor) or f"/proc/{os.getpid()}/fd/{descriptor}"


def open_others(path: str) -> int:
    """Open the memory that another process made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"the memory of a cached dataset cannot be opened by its path {path}: {error.strerror}",
            "pickle it only for processes that are started, by the same user, while it is in use",
        ) from error
    if not path.startswith("/proc/"):
        _paths[descriptor] = path
    return descriptor


def close_memory(descriptor: int, owner: int | None) -> None:
    """Let go of it; the process that owns the name removes it. A forked child ends too, and must leave it alone."""
    path = _paths.pop(descriptor, None)
    os.close(descriptor)
    if path is not None and os.getpid() == owner:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _open_named() -> int:
    descriptor, path = tempfile.mkstemp(prefix="laptime-")
    _paths[descriptor] = path
    return descriptor
