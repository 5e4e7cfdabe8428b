"""A template: a process that has imported what heats need and computed nothing. Each heat is a fork of it.

Importing PyTorch and its compiler takes 3 s of a heat, and a fork 10 ms. What may differ between two processes of one
lane has to differ between two heats as well, because heats are the replicates of a race:

- **Where things are in memory.** Linux draws the addresses of libraries, heap and stacks at random as a process starts
  (ASLR), and a step may be some per cent faster in one layout than in the next: large arrays meet the borders of huge
  pages and each other's lines in the caches in other places (Mytkowicz et al., ASPLOS 2009). A fork keeps all that its
  template has. So a race takes turns with several templates, each started as any process, and each fork moves what
  comes after it: the heap by a random number of bytes, and where arrays are mapped by a random number of pages, up to
  a huge page. Which physical memory a page has is decided as a fork first writes to it, in each fork again.
- **The order of sets**, which hangs on a seed that Python draws as it starts: several templates have several.
- **What random generators draw** that nobody gave a seed: Python seeds its own in each fork, NumPy's is seeded here.

A fork has only the thread that forked. A pool of threads that its template had begun would be missing in it, and the
fork would wait for it for ever: so a template that has more than one thread refuses. So does one that has a card open:
no driver of a card bears a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import re
import signal
import socket
import sys
import time

from laptime.engine import wire
from laptime.engine.backends import open_backend
from laptime.model.errors import WireError
from laptime.model.process import MALLOC_PARAMETERS

FORK_REQUEST = b"fork"
WAIT_REQUEST = b"wait"
REFUSED_FORK = b"refused"
REQUEST_BYTES = 1 << 16
SET_PARENT_DEATH_SIGNAL = 1  # <linux/prctl.h>
INT_MOST = (1 << 31) - 1
HEAP_BYTES = 1 << 16
HUGE_PAGE_BYTES = 1 << 21
GUARDED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
MADV_POPULATE_READ = 22  # <linux/mman.h>
CARD_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
PAGEMAP_BYTES = 8  # of each page; the highest bit of the last one says that it is there
PRESENT = re.compile(rb"[\x80-\xff]+")
Pipes = tuple[int, int]
MemorySpan = tuple[int, int]
"""Where a part of memory begins, and how many bytes it has."""

_moved: list[object] = []  # what moves a fork's memory stays as long as the fork


def serve(read_fd: int, write_fd: int, socket_fd: int) -> Pipes:
    """Import, then fork a heat for each request. Return in each heat, with its pipes.

    The parent sends `fork`, how many variables a heat and its guardian get besides, these, the words that start a
    guardian, and three descriptors: the heat's two pipes and the one to which the guardian reports. The answer is the
    guardian's number. `wait` and that number are answered with how the guardian ended. The template ends with the
    parent's end of the socket.
    """
    _import(read_fd, write_fd)
    for descriptor in (read_fd, write_fd, socket_fd):
        os.set_inheritable(descriptor, False)
    requests = socket.socket(fileno=socket_fd)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
        kind, *words = request.split(b"\0")
        if kind == FORK_REQUEST:
            heat = _fork(words, descriptors, requests)
            if heat is not None:
                requests.close()
                for descriptor in (read_fd, write_fd):
                    os.close(descriptor)
                sys.argv[1:] = [str(descriptor) for descriptor in heat]
                return heat
        elif kind == WAIT_REQUEST:
            # Collect an ended guardian: its status, and the most memory of it and its heat as the system counts it.
            _, status, usage = os.wait4(int(words[0]), 0)
            requests.send(f"{status}\0{usage.ru_maxrss}".encode())
        else:
            os._exit(0)


def _import(read_fd: int, write_fd: int) -> None:
    """Import what a heat will need, and report that as a heat reports it."""
    _say(write_fd, wire.Hello(wire.WIRE_VERSION, os.getpid()))
    line = b""
    while not line.endswith(b"\n"):  # no thread may read: a fork would not have it
        line += os.read(read_fd, 1) or os._exit(0)
    order = wire.read_from_parent(line)
    if not isinstance(order, wire.Warm):
        raise WireError(f"a template was sent {type(order).__name__}")
    _say(write_fd, wire.Phase("import", time.perf_counter_ns()))
    open_backend(order.framework).warm_up()
    _say(write_fd, wire.Phase("held", time.perf_counter_ns()))
    _say(write_fd, wire.Warmed())


def _say(write_fd: int, message: wire.FromChild) -> None:
    line = wire.write(message)
    while line:
        line = line[os.write(write_fd, line) :]


def _fork(words: list[bytes], descriptors: list[int], requests: socket.socket) -> Pipes | None:
    """Fork a guardian, and from it the heat. Return the heat's pipes in the heat, and None in the template."""
    read_fd, write_fd, reports_fd = descriptors
    last_variable = int(words[0])
    variables = words[1 : 1 + last_variable]
    guardian_words = words[1 + last_variable :]
    threads = count_threads()
    card = _find_open_card()
    if threads > 1 or card:
        requests.send(REFUSED_FORK + f"\0{card or f'{threads} threads'}".encode())
        guardian = -1
    else:
        mapped = _find_mapped()
        guardian = os.fork()
    if not guardian:
        for variable in variables:
            name, _, value = os.fsdecode(variable).partition("=")
            os.environ[name] = value
            if name in MALLOC_PARAMETERS:
                # What glibc would have read at its start. It takes an int here: a larger threshold becomes the largest.
                threshold = int(value)
                with contextlib.suppress(AttributeError):  # another libc reads no such variable either
                    ctypes.CDLL(None).mallopt(MALLOC_PARAMETERS[name], threshold if threshold <= INT_MOST else -1)
        heat = _become_guardian(guardian_words, (read_fd, write_fd), reports_fd)
        if heat is not None:
            # Have the pages of files that the template had, most of which a fork begins without. So its memory is
            # counted as that of a process that imported the framework itself, and it takes no more page faults. Before
            # Linux 5.14 this does nothing.
            advise = ctypes.CDLL(None).madvise
            for begin, length in mapped:
                advise(ctypes.c_void_p(begin), ctypes.c_size_t(length), MADV_POPULATE_READ)
            _differ()
        return heat
    for descriptor in descriptors:
        os.close(descriptor)
    if guardian > 0:
        requests.send(str(guardian).encode())
    return None


def count_threads() -> int:
    """Count the threads. NumPy's OpenBLAS ends its own as a process forks, and begins others when it computes."""
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208  no paths are wanted
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208


def _find_open_card() -> str:
    """Return the file of a card's driver that this process has open, or nothing."""
    folder = "/proc/self/fd"
    for descriptor in os.listdir(folder):  # noqa: PTH208  no paths are wanted
        with contextlib.suppress(OSError):  # the descriptor of this very listing
            file = os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115
            if file.startswith(CARD_DEVICES):
                return file
    return ""


def _become_guardian(words: list[bytes], pipes: Pipes, reports_fd: int) -> Pipes | None:
    """Fork the heat, and go on as its guardian, which is a program of its own. Return in the heat alone."""
    os.setsid()
    printed_fd, printing_fd = os.pipe()
    # What is sent before the guardian's program listens has to wait, or would end it: it lets them through itself.
    signal.pthread_sigmask(signal.SIG_BLOCK, GUARDED)
    own = os.getpid()
    heat = os.fork()
    if heat:
        for number in (1, 2):
            os.dup2(reports_fd, number)
        for descriptor in (*pipes, printed_fd):
            os.set_inheritable(descriptor, True)
        numbers = (*pipes, "adopt", heat, printed_fd)
        os.execv(words[0], [*words, *(str(number).encode() for number in numbers)])  # noqa: S606  no shell is wanted
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GUARDED)
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != own:
        os._exit(1)  # the guardian is gone already
    for number in (1, 2):
        os.dup2(printing_fd, number)
    for descriptor in (printing_fd, printed_fd, reports_fd):
        os.close(descriptor)
    return pipes


def _find_mapped() -> list[MemorySpan]:
    """Return where this process has pages of files in its memory: code of libraries above all."""
    spans: list[MemorySpan] = []
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/pagemap", "rb") as pages:  # noqa: PTH123
        for row in maps:
            place, allowed, _, _, inode, *_ = row.split()
            if inode == "0" or not allowed.startswith("r"):
                continue
            begin, end = (int(address, 16) for address in place.split("-"))
            pages.seek(begin // mmap.PAGESIZE * PAGEMAP_BYTES)
            entries = pages.read((end - begin) // mmap.PAGESIZE * PAGEMAP_BYTES)
            runs = PRESENT.finditer(entries[PAGEMAP_BYTES - 1 :: PAGEMAP_BYTES])
            spans += ((begin + run.start() * mmap.PAGESIZE, len(run[0]) * mmap.PAGESIZE) for run in runs)
    return spans


def _differ() -> None:
    """Be as unlike other forks as another process would be: see above."""
    drawn = random.SystemRandom()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    _moved.append(libc.malloc(ctypes.c_size_t(16 * drawn.randrange(HEAP_BYTES // 16))))
    pages = 1 + drawn.randrange(HUGE_PAGE_BYTES // mmap.PAGESIZE)
    _moved.append(mmap.mmap(-1, pages * mmap.PAGESIZE, prot=0))
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
