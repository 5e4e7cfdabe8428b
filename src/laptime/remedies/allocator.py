"""Let glibc keep freed memory, from inside a script: what a lane's `malloc=keep` does before the process starts.

By default glibc maps each large block, and unmaps it when it is freed. The next step then takes a page fault for
every page, which the kernel zeroes. If the memory is kept, the same pages are used again.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# mallopt's parameters, as in glibc's malloc.h. Its values are C's int.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_MAX = -4
# Map no block on its own. Older versions of glibc accept no threshold above 32 MB, but all accept this.
NO_MAPS = 0
NEVER_TRIM = -1
TOP_PAD_BYTES = 64 << 20
ASKED_BYTES = 64 << 20
# The fields of mallinfo2, in order. `mapped` and `given` are the bytes of blocks that are in use.
MALLINFO_FIELDS = (
    "arena",
    "free_blocks",
    "fast_blocks",
    "mapped_blocks",
    "mapped",
    "unused",
    "fast",
    "given",
    "free",
    "top",
)


@dataclass(frozen=True, slots=True)
class Allocator:
    """Whether freed memory is kept now; can be used as a bool. `note` names the allocator, or says why not."""

    keeps: bool
    note: str

    def __bool__(self) -> bool:
        return self.keeps


def keep_memory() -> Allocator:
    """Keep freed memory in this process, if its allocator is glibc's. Call it at the start of a script.

    It changes no result. With another allocator it does nothing, and a note reports that. It never raises. The process
    keeps as much memory as it ever used at once. Child processes that are not forked have to call it themselves.
    """
    try:
        program = ctypes.CDLL(None)
        tell = getattr(program, "gnu_get_libc_version", None)
        if tell is None:
            return Allocator(keeps=False, note="the C library is not glibc, which alone has these settings")
        tell.restype = ctypes.c_char_p
        version = str(tell().decode())
        if not _glibc_answers(program):
            return Allocator(
                keeps=False, note=f"memory is given out by {_who_answers(program)}, and not by glibc {version}"
            )
        wanted = (
            ("M_MMAP_MAX", M_MMAP_MAX, NO_MAPS),
            ("M_TRIM_THRESHOLD", M_TRIM_THRESHOLD, NEVER_TRIM),
            ("M_TOP_PAD", M_TOP_PAD, TOP_PAD_BYTES),
        )
        refused = [name for name, parameter, value in wanted if program.mallopt(parameter, value) != 1]
    except (OSError, AttributeError, TypeError) as error:
        return Allocator(keeps=False, note=f"the C library cannot be asked: {error}")
    if refused:
        return Allocator(keeps=False, note=f"glibc {version} refused {', '.join(refused)}")
    return Allocator(keeps=True, note=f"glibc {version}")


class _Counts(ctypes.Structure):
    """The struct that mallinfo2 returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in MALLINFO_FIELDS)


def _glibc_answers(program: Any) -> bool:
    """Allocate a large block, and check whether glibc counts it. The origin of the symbol is not always enough.

    In a program linked to fixed addresses, such as Debian's Python, every library's `malloc` seems to be the program's.
    """
    count = getattr(program, "mallinfo2", None)
    if count is None:  # before glibc 2.33
        return _file_of(program.malloc) == _file_of(program.gnu_get_libc_version)
    count.restype = _Counts
    take = program.malloc
    take.restype = ctypes.c_void_p
    take.argtypes = (ctypes.c_size_t,)
    give_back = program.free
    give_back.argtypes = (ctypes.c_void_p,)
    before = count()
    block = take(ASKED_BYTES)
    after = count()
    give_back(block)
    return bool(after.mapped + after.given - before.mapped - before.given >= ASKED_BYTES // 2)


def _who_answers(program: Any) -> str:
    """Return the library that has its own `malloc` in place of glibc's, or else the file that `malloc` comes from."""
    of_glibc = _file_of(program.gnu_get_libc_version)
    found = _file_of(program.malloc)
    for path in dict.fromkeys(row.split()[-1] for row in Path("/proc/self/maps").read_text().splitlines()):
        if ".so" not in path or path == of_glibc or not Path(path).is_file():
            continue
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if hasattr(library, "malloc") and _file_of(library.malloc) == path:
            return path
    return found


class _Where(ctypes.Structure):
    """The struct that dladdr fills in for an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(function: Any) -> str:
    """Return the library that a function of this process comes from: another allocator may precede glibc's."""
    found = _Where()
    known = ctypes.CDLL(None).dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(found))
    return found.file.decode(errors="replace") if known and found.file else "an unknown library"
