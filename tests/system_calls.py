"""System calls that the kernel refuses to this process and all that it starts, as the filters of containers do."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

IS_POSSIBLE = platform.machine() == "x86_64" and sys.platform.startswith("linux")
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER_MODE = 38, 22, 2
REFUSED, ALLOWED = 0x00050000, 0x7FFF0000
LOAD, IS_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, SECOND_ARGUMENT = 0, 24  # places in what a filter sees
FCNTL, FLOCK = 72, 73
SET_LOCKS = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, and those of open files


def refuse_call(number: int, code: int) -> None:
    """Let one system call fail with this error."""
    _install([(LOAD, 0, 0, NUMBER), (IS_EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSED | code), (RETURN, 0, 0, ALLOWED)])


def refuse_locks() -> None:
    """Let every lock on a file fail as where a file system has none."""
    commands = [(IS_EQUAL, len(SET_LOCKS) - place, 0, command) for place, command in enumerate(SET_LOCKS)]
    _install([
        (LOAD, 0, 0, NUMBER),
        (IS_EQUAL, len(SET_LOCKS) + 3, 0, FLOCK),
        (IS_EQUAL, 0, len(SET_LOCKS) + 1, FCNTL),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        *commands,
        (RETURN, 0, 0, ALLOWED),
        (RETURN, 0, 0, REFUSED | errno.ENOLCK),
    ])  # fmt: skip


def _install(lines: list[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(SET_SECCOMP, FILTER_MODE, ctypes.byref(program), 0, 0):
        os._exit(99)
