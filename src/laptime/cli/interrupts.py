"""What ends a command from outside: Ctrl-C, a request to end (SIGTERM), a closed terminal (SIGHUP).

The first one is raised as KeyboardInterrupt, so that what was measured is saved and printed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

from laptime.model.errors import ExitCode

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OF_SIGNALS = 128
SAME_REQUEST_S = 0.5  # `timeout` and a terminal send a signal to a process and to its group: it is one request
AGAIN_S = 0.05


class Interrupts:
    """The handler of the signals that end a command.

    The first one ends it in order. A second one ends the process at once: guardians end its children, and the record
    has what was saved before.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._heard_s = 0.0

    @property
    def is_heard(self) -> bool:
        return self._number is not None

    @property
    def exit_code(self) -> int:
        """The code of a command that was interrupted: that of the signal, or of Ctrl-C at a question (click.Abort)."""
        return ExitCode.INTERRUPTED if self._number is None else OF_SIGNALS + self._number

    def __call__(self, number: int, _frame: object) -> None:
        if self._number is None:
            self._number, self._heard_s = number, time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - self._heard_s > SAME_REQUEST_S:
            os._exit(OF_SIGNALS + number)

    def listen(self) -> None:
        """Handle the signals from now on. A shell lets `laptime race &` ignore Ctrl-C, and nohup SIGHUP."""
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)
        sys.unraisablehook = self._repeat_lost

    def leave(self) -> None:
        """Let Python shut down: Ctrl-C does not interrupt that any more, another signal ends it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in ENDING_SIGNALS[1:]:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)

    def _repeat_lost(self, lost: Any) -> None:
        """Send a signal again that came where Python cannot raise.

        A signal's handler runs between two instructions. If these belong to a callback (of a weak reference, or of a
        lock of the import system), Python reports what the handler raises, drops it, and goes on.
        """
        if not isinstance(lost.exc_value, KeyboardInterrupt) or self._number is None:
            sys.__unraisablehook__(lost)
            return
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), self._number))
        self._number = None
        again.daemon = True
        again.start()


INTERRUPTS = Interrupts()
