"""The sandbox of a heat whose code is judged: it, and all that it starts, can write to a folder of its own alone.

It is set before any code of the user is imported, needs no privileges, and cannot be left again. Reading stays free.

- **Landlock** (Linux 5.13) denies writing, and with later kernels connections, device commands and signals to others.
- **Namespaces**, where the system allows them, add what Landlock lacks: /dev/shm, System V memory and a network of its
  own, and all other file systems read-only, so that no attribute of a file can be changed either. A script finds what
  it writes next to itself in a layer of its own, and nobody else does.
- **No privileges**, not even those of the superuser: with them, both could be undone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from laptime.engine.heat.template import count_threads
from laptime.model.process import IN_SHARED_MEMORY, REACHES, SHM_FOLDER, Sandbox

WRITING, NETWORK, SIGNALS, _ = REACHES

# What a framework keeps as a cache of its own and has to be able to write. Caches that also hold what a training reads
# (XDG_CACHE_HOME, TORCH_HOME, HF_HOME, KERAS_HOME: weights and data sets) stay where they are, and cannot be written.
TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR")
# Devices that a training may write to: those of every process, and accelerators, by the beginnings of their names.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
ACCELERATORS = ("nvidia", "dri", "kfd", "accel", "dxg")

SET_NO_NEW_PRIVS = 38  # <linux/prctl.h>
# Numbers of system calls, the same on every architecture.
MOUNT_SETATTR = 442
CREATE_RULESET = 444
ADD_RULE = 445
RESTRICT_SELF = 446
VERSION_FLAG, PATH_BENEATH = 1, 1  # <linux/landlock.h>
WRITE_FILE = 1 << 1
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
MAKE_DEVICES = 1 << 6 | 1 << 11  # character and block devices
# The rights to write, by the version that brought them.
WRITE_RIGHTS = {1: 0x1FF2, 2: 1 << 13, 3: TRUNCATE, 5: IOCTL_DEV}
OF_A_FILE = WRITE_FILE | TRUNCATE | IOCTL_DEV
TCP, TCP_VERSION = 3, 4
SCOPE_RIGHTS, SCOPES_VERSION = 3, 6  # abstract sockets and signals
NEW_NAMESPACES = 0x20000 | 0x8000000 | 0x10000000 | 0x40000000  # mounts, System V memory, user, network
# <linux/mount.h>
NOSUID_NODEV = 2 | 4
BIND = 4096
ALL_BELOW = 16384
SLAVE = 1 << 19
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
READ_ONLY = 1
CAPABILITIES_VERSION = 0x20080522  # <linux/capability.h>
SET_INTERFACE_FLAGS, INTERFACE_UP = 0x8914, 1  # <linux/sockios.h>


def enter(sandbox: Sandbox) -> tuple[str, ...]:
    """Confine this process. Return what the system cannot keep it from: some of REACHES.

    It must have one thread: others would stay outside.
    """
    # Temporary files and caches are in its folder, also where the process already knows another one.
    os.environ.update(dict.fromkeys(TEMPORARY_VARIABLES, sandbox.folder))
    os.environ.update({name: str(Path(sandbox.folder, name.lower())) for name in CACHES})
    tempfile.tempdir = sandbox.folder
    if not sys.platform.startswith("linux"):
        return REACHES
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_FLAG)
    if version < 1 or count_threads() > 1:
        return REACHES
    _check(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if sandbox.has_namespaces:
        enter_namespaces(libc, sandbox)
    _restrict(libc, version, sandbox)
    # Drop all privileges: within its namespaces a process has them, and the superuser has them anyway.
    _check(libc.capset(struct.pack("Ii", CAPABILITIES_VERSION, 0), struct.pack("6I", *[0] * 6)))
    return tuple(_find_reaches(version, sandbox))


def _find_reaches(version: int, sandbox: Sandbox) -> Iterator[str]:
    has_namespaces = sandbox.has_namespaces
    if version < max(version for version, right in WRITE_RIGHTS.items() if right == TRUNCATE) and not has_namespaces:
        yield WRITING  # they can be cut off
    if (version < TCP_VERSION or sandbox.has_ranks) and not has_namespaces:
        yield NETWORK
    if version < SCOPES_VERSION:
        yield SIGNALS
    if not has_namespaces:
        yield IN_SHARED_MEMORY


def _restrict(libc: ctypes.CDLL, version: int, sandbox: Sandbox) -> None:
    """Deny what Landlock can deny, but for the places of the sandbox, devices, and shared memory."""
    rights = sum(right for since, right in WRITE_RIGHTS.items() if since <= version)
    closes_tcp = version >= TCP_VERSION and not sandbox.has_namespaces and not sandbox.has_ranks
    handled = struct.pack("QQQ", rights, TCP if closes_tcp else 0, SCOPE_RIGHTS if version >= SCOPES_VERSION else 0)
    rules = _check(libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), 0))
    names = os.listdir("/dev")  # noqa: PTH208
    devices = [f"/dev/{name}" for name in names if name in DEVICES or name.startswith(ACCELERATORS)]
    layered = sandbox.layered if sandbox.has_namespaces else ()
    for place in (sandbox.folder, *sandbox.files, *layered, *devices, SHM_FOLDER):
        with contextlib.suppress(FileNotFoundError):
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            is_folder = os.path.isdir(place) and place not in devices  # noqa: PTH112
            allowed = rights & (~MAKE_DEVICES if is_folder else OF_A_FILE)
            _check(libc.syscall(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", allowed, opened), 0))
            os.close(opened)
    _check(libc.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)


def enter_namespaces(libc: ctypes.CDLL, sandbox: Sandbox) -> None:
    """Have shared memory and a network of its own, and all else that can be written to read-only."""
    user = os.geteuid()
    group = os.getegid()
    _check(libc.unshare(NEW_NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_bytes(text.encode())
    _mount(libc, "/", ALL_BELOW | SLAVE)
    _mount(libc, SHM_FOLDER, NOSUID_NODEV, b"tmpfs")
    for place in (sandbox.folder, *sandbox.files):
        _mount(libc, place, BIND)
    _set_attributes(libc, "/", AT_RECURSIVE, READ_ONLY, 0)
    for place in (SHM_FOLDER, sandbox.folder, *sandbox.files):
        _set_attributes(libc, place, 0, 0, READ_ONLY)
    for place in sandbox.layered:  # what is written there is in a layer above it, which nobody else sees
        made = [tempfile.mkdtemp(prefix=name, dir=sandbox.folder) for name in ("upper", "work")]
        options = f"lowerdir={place},upperdir={made[0]},workdir={made[1]},userxattr"
        named = os.fsencode(place)
        _check(libc.mount(b"overlay", named, b"overlay", ctypes.c_ulong(NOSUID_NODEV), os.fsencode(options)))
        os.chdir(Path.cwd())  # into the layer, where this process was below it
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, struct.pack("16sh14x", b"lo", INTERFACE_UP))


def _mount(libc: ctypes.CDLL, where: str, flags: int, kind: bytes | None = None) -> None:
    """Mount a file system of a kind there; or what is there on itself, so that it has attributes of its own."""
    place = os.fsencode(where)
    _check(libc.mount(place, place, kind, ctypes.c_ulong(flags), None))


def _set_attributes(libc: ctypes.CDLL, where: str, flags: int, added: int, taken: int) -> None:
    attributes = struct.pack("QQQQ", added, taken, 0, 0)
    _check(
        libc.syscall(MOUNT_SETATTR, AT_FDCWD, os.fsencode(where), flags, attributes, ctypes.c_size_t(len(attributes)))
    )


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox of the heat could not be set: {os.strerror(number)}")
    return result


if __name__ == "__main__":  # to find out whether the system allows namespaces and layers: where not, this fails
    enter(Sandbox(sys.argv[1], has_namespaces=True, layered=tuple(sys.argv[2:])))
