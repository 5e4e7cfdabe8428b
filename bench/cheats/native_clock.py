"""Writes another `clock_gettime` into the C library of its process: from then on, clocks run at half their speed.

Met: gpu-mode/pygpubench's exploits, which patched clocks natively, by a detour or a table of functions. No name of
Python is replaced, so a look at Python's modules sees nothing.
Refused by: turns by the clock of the judge's own process.
"""

import ctypes
import mmap
import platform
import struct
import time

from shared import Losing, train

NAMES = ("hidden time", "changed clock")
MONOTONIC = 1
READ_WRITE_RUN = 7


def half_clock(began_ns):
    """Return machine code: the system call, and for the monotonic clock half of what passed since `began_ns`."""
    billion = struct.pack("<I", 1_000_000_000)
    halved = (
        b"\x48\x8b\x06"  # mov rax, [rsi]: seconds
        b"\x48\x69\xc0" + billion +  # imul rax, rax, 1e9
        b"\x48\x03\x46\x08"  # add rax, [rsi + 8]
        b"\x48\xb9" + struct.pack("<q", began_ns) +  # mov rcx, began_ns
        b"\x48\x29\xc8\x48\xd1\xf8\x48\x01\xc8"  # sub rax, rcx; sar rax, 1; add rax, rcx
        b"\x31\xd2\xb9" + billion +  # xor edx, edx; mov ecx, 1e9
        b"\x48\xf7\xf1"  # div rcx
        b"\x48\x89\x06\x48\x89\x56\x08"  # mov [rsi], rax; mov [rsi + 8], rdx
    )  # fmt: skip
    return (
        b"\xb8\xe4\x00\x00\x00\x0f\x05"  # mov eax, 228; syscall
        b"\x83\xff\x01\x75" + bytes([len(halved)]) + halved +  # cmp edi, 1; jne past it
        b"\x31\xc0\xc3"  # xor eax, eax; ret
    )  # fmt: skip


def write_detour():
    libc = ctypes.CDLL(None)
    code = half_clock(time.clock_gettime_ns(MONOTONIC))
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=READ_WRITE_RUN)
    page.write(code)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    found = ctypes.cast(libc.clock_gettime, ctypes.c_void_p).value
    first = found // mmap.PAGESIZE * mmap.PAGESIZE
    if libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(2 * mmap.PAGESIZE), READ_WRITE_RUN):
        raise OSError("the code of the C library cannot be written")
    ctypes.memmove(found, b"\x48\xb8" + struct.pack("<Q", place) + b"\xff\xe0", 12)  # mov rax, place; jmp rax
    return page


KEPT = []


def base():
    return train(Losing())


def cheat():
    if platform.machine() == "x86_64":
        KEPT.append(write_detour())
    return train(Losing())


def honest():
    """Read the native clock, for a log of its own."""
    libc, held = ctypes.CDLL(None), (ctypes.c_long * 2)()
    libc.clock_gettime(MONOTONIC, ctypes.byref(held))
    print(f"begun at {held[0]} s")
    return train(Losing())
