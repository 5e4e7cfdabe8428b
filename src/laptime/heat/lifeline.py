"""The line to the parent, and the promise to end with it: no child outlives its race."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import sys
import threading

from laptime import wire

PR_SET_PDEATHSIG = 1


class Lifeline:
    """Speaks to the parent on one pipe and listens on another.

    The listening thread sleeps in a read and costs nothing; when the parent is gone the read ends, and the thread
    ends the whole process group, loaders included. On Linux the kernel is asked for the same, for the case that
    this process holds the interpreter lock for good.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._write_fd = write_fd
        self._inbox: queue.SimpleQueue[wire.FromParent] = queue.SimpleQueue()
        _die_with_parent()
        threading.Thread(target=self._listen, args=(read_fd,), daemon=True, name="lifeline").start()

    def say(self, message: wire.FromChild) -> None:
        line = wire.write(message)
        try:
            while line:
                line = line[os.write(self._write_fd, line) :]
        except OSError:
            _end_group()

    def listen(self) -> wire.FromParent:
        """Wait for the parent's next word."""
        return self._inbox.get()

    def _listen(self, read_fd: int) -> None:
        with contextlib.suppress(OSError, ValueError), os.fdopen(read_fd, "rb") as lines:
            for line in lines:
                self._inbox.put(wire.read_from_parent(line))
        _end_group()


def _die_with_parent() -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_group() -> None:
    """End this process and all it started; a group that somebody else leads is left alone."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
