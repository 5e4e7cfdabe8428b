"""Run a command as the shell would: its input, output, terminal, signals and exit code are its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from laptime.attach import kinds
from laptime.errors import UsageError

SITE = Path(__file__).parents[1] / "attach" / "site"
PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
FROM_THE_KERNEL = 0  # codes above are a terminal's, which sends its signals to the command as well
SIGNALLED = 128
LOOK_S = 0.5  # how long at most until the command's end is seen: another thread of this process may get its signal


def watched_environment(address: str) -> dict[str, str]:
    """Return the environment that brings the agent into each Python process of a command."""
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), kinds.ADDRESS: address}


def run_command(command: Sequence[str], environment: dict[str, str], began: Callable[[int], None]) -> int:
    """Run a command to its end and return its exit code: 128 and the signal's number if a signal ended it.

    Signals for this process are passed on. `began` is called with the command's process, once it runs.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
    try:
        try:
            child = subprocess.Popen(command, env=environment, close_fds=False, preexec_fn=lambda: _unblock(blocked))  # noqa: PLW1509
        except OSError as error:
            raise UsageError(
                f"'{command[0]}' cannot be run: {error.strerror}", "Name a command: laptime watch python train.py"
            ) from None
        except ValueError as error:  # a NUL byte
            raise UsageError(
                f"the command cannot be run: {error}", "Name a command: laptime watch python train.py"
            ) from None
        began(child.pid)
        while child.poll() is None:
            _pass_on(child.pid)
        code = child.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return code if code >= 0 else SIGNALLED - code


def _unblock(blocked: set[int | signal.Signals]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _pass_on(pid: int) -> None:
    """Wait for a signal, and send it on to the command unless it got it from the terminal."""
    number, from_terminal = _next_signal()
    if number != signal.SIGCHLD and not from_terminal:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _next_signal() -> tuple[int, bool]:
    expected = {*PASSED_ON, signal.SIGCHLD}
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(expected, LOOK_S)
        if info is None:
            return signal.SIGCHLD, True
        return info.si_signo, info.si_code > FROM_THE_KERNEL
    number = signal.sigwait(expected)  # macOS does not say who sent it: Ctrl-C and Ctrl-\ are a terminal's
    return number, number in {signal.SIGINT, signal.SIGQUIT} and _is_in_front()


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
