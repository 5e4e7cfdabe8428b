"""The line to the parent, and the promise to end with it: no child outlives its race."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import threading

from laptime import wire


class Lifeline:
    """Speaks to the parent on one pipe and listens on another.

    The listening thread sleeps in a read and costs nothing; when the parent is gone the read ends, and the thread
    ends the whole process group, loaders included. A guardian, forked before anything else, waits for the same: it
    needs no interpreter lock of a process that may hold it for good.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._write_fd = write_fd
        self._inbox: queue.SimpleQueue[wire.FromParent] = queue.SimpleQueue()
        _fork_guardian(read_fd, write_fd)
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


def _fork_guardian(read_fd: int, write_fd: int) -> None:
    """Leave a process behind that sleeps until the parent's end of the pipe closes, and then ends the group.

    It asks for no data, so that it takes none of the parent's words, and it lets go of the pipe to the parent, so
    that this process's own end can still be seen there.
    """
    if os.getpgrp() != os.getpid() or os.fork():
        return
    os.close(write_fd)
    watch = select.poll()
    watch.register(read_fd, 0)
    watch.poll()
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _end_group() -> None:
    """End this process and all it started; a group that somebody else leads is left alone."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)
