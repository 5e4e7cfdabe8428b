"""Let glibc keep the memory that was freed, from inside a script: what a lane's `malloc=keep` does before it starts.

glibc maps each large block anew and gives it back when it is freed; the next step then faults all of its pages in
again, zeroed by the kernel. Kept, the same pages are used again.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

# mallopt's parameters, as in glibc's malloc.h. Its values are C's int.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
# No block is mapped by itself: older versions of glibc take no threshold beyond 32 MB, but all take this.
NO_MAPS = 0
NEVER = -1
TOP_PAD_BYTES = 64 << 20


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
        answers = _file_of(program.malloc)
        if answers != _file_of(program.gnu_get_libc_version):
            return Allocator(keeps=False, note=f"memory is given out by {answers}, and not by glibc {version}")
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
