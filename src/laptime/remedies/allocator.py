"""Let glibc keep the memory that was freed, from inside a script: what a lane's `malloc=keep` does before it starts.

glibc maps each large block anew and gives it back when it is freed; the next step then faults all of its pages in
again, zeroed by the kernel. Kept, the same pages are used again.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# mallopt's parameters, as in glibc's malloc.h. Its values are C's int.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
# No block is mapped by itself: older versions of glibc take no threshold beyond 32 MB, but all take this.
NO_MAPS = 0
NEVER = -1
TOP_PAD_BYTES = 64 << 20
ASKED_BYTES = 64 << 20
# What mallinfo2 tells, in its order: `mapped` and `given` are the bytes of blocks that are in use.
COUNTED = ("arena", "free_blocks", "fast_blocks", "mapped_blocks", "mapped", "unused", "fast", "given", "free", "top")


@dataclass(frozen=True, slots=True)
class Allocator:
    """Whether freed memory is kept now; true or false by itself. `note` says which allocator answered, and why not."""

    keeps: bool
    note: str

    def __bool__(self) -> bool:
        return self.keeps


def keep_memory() -> Allocator:
    """Have freed memory stay in this process, where its allocator is glibc's; call it first thing in a script.

    It changes no result, and where there is another allocator it does nothing and says so; it never raises. The
    process keeps the most memory that it ever had. Child processes that are started anew call it for themselves.
    """
    try:
        program = ctypes.CDLL(None)
        version = _glibc_version(program)
        if version is None:
            return Allocator(keeps=False, note="the C library is not glibc, which alone has these settings")
        if not _glibc_answers(program):
            return Allocator(
                keeps=False, note=f"memory is given out by {_who_answers(program)}, and not by glibc {version}"
            )
        refused = [name for name, parameter, value in _wanted() if program.mallopt(parameter, value) != 1]
    except (OSError, AttributeError, TypeError) as error:
        return Allocator(keeps=False, note=f"the C library cannot be asked: {error}")
    if refused:
        return Allocator(keeps=False, note=f"glibc {version} refused {', '.join(refused)}")
    return Allocator(keeps=True, note=f"glibc {version}")


def _wanted() -> tuple[tuple[str, int, int], ...]:
    return (
        ("M_MMAP_MAX", M_MMAP_MAX, NO_MAPS),
        ("M_TRIM_THRESHOLD", M_TRIM_THRESHOLD, NEVER),
        ("M_TOP_PAD", M_TOP_PAD, TOP_PAD_BYTES),
    )


def _glibc_version(program: Any) -> str | None:
    tell = getattr(program, "gnu_get_libc_version", None)
    if tell is None:
        return None
    tell.restype = ctypes.c_char_p
    return str(tell().decode())


class _Counts(ctypes.Structure):
    """What mallinfo2 tells: bytes in arenas, ..., bytes in blocks that were mapped, ..., bytes given out."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in COUNTED)


def _glibc_answers(program: Any) -> bool:
    """Ask for a large block, and see whether glibc counts it: where a symbol comes from tells it only sometimes.

    In a program that is linked to fixed addresses, as Debian's Python is, every library's `malloc` seems to be its own.
    """
    count = getattr(program, "mallinfo2", None)
    if count is None:  # before glibc 2.33
        return _file_of(program.malloc) == _file_of(program.gnu_get_libc_version)
    count.restype = _Counts
    take, give_back = program.malloc, program.free
    take.restype, take.argtypes, give_back.argtypes = ctypes.c_void_p, (ctypes.c_size_t,), (ctypes.c_void_p,)
    before = count()
    block = take(ASKED_BYTES)
    after = count()
    give_back(block)
    return bool(after.mapped + after.given - before.mapped - before.given >= ASKED_BYTES // 2)


def _who_answers(program: Any) -> str:
    """Name the library that has a `malloc` of its own beside glibc's; else the program itself."""
    of_glibc, found = _file_of(program.gnu_get_libc_version), _file_of(program.malloc)
    for path in dict.fromkeys(row.split()[-1] for row in Path("/proc/self/maps").read_text().splitlines()):
        if ".so" not in path or path == of_glibc or not Path(path).is_file():
            continue
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if hasattr(library, "malloc") and _file_of(library.malloc) == path:
            return path
    return found


class _Where(ctypes.Structure):
    """What dladdr tells of an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(function: Any) -> str:
    """Give the library that a function of this process is from: another allocator may stand before glibc's."""
    found = _Where()
    known = ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(found))
    return found.file.decode(errors="replace") if known and found.file else "an unknown library"
