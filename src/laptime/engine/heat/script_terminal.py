"""A terminal for a script that is raced: some ask theirs for its size. Nobody types in it, and nobody reads it.

It is the controlling terminal of the script's session. When the heat is gone, however it ended, the kernel hangs it
up, and so sends SIGHUP to the script and all of its group. The script's own process is killed then.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import termios
from collections.abc import Callable

from laptime.engine.heat.template import SET_PARENT_DEATH_SIGNAL

ROWS_AND_COLUMNS = (24, 80)
NOTHING_TYPED = b"\x04" * 1024  # the end of the input, as Ctrl-D types it, for each time that the script asks
TYPED_CHUNK = 1 << 16


class Terminal:
    """A terminal. `ours` is the end that has to be read, `theirs` the script's input until it is started.

    Where the system has no terminal to give, `theirs` is a file without content.
    """

    def __init__(self) -> None:
        self.ours: int | None = None
        try:
            self.ours, self.theirs = os.openpty()
        except OSError:
            self.theirs = os.open(os.devnull, os.O_RDONLY)
            return
        termios.tcsetwinsize(self.theirs, ROWS_AND_COLUMNS)
        os.set_blocking(self.ours, False)
        os.write(self.ours, NOTHING_TYPED)

    def enter(self) -> Callable[[], None]:
        """Return what the script's process does before it becomes the script. Its session is new."""
        prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
        heat = os.getpid()

        def enter() -> None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if prctl is not None:
                prctl(SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != heat:
                    os.kill(os.getpid(), signal.SIGKILL)

        return enter

    def hear(self) -> bool:
        """Throw away what was written to it. Return False once no process has it any more."""
        assert self.ours is not None
        try:
            return bool(os.read(self.ours, TYPED_CHUNK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        if self.ours is not None:
            os.close(self.ours)
            self.ours = None
