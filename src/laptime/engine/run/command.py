"""Run a command as the shell would: its input, output, terminal, signals and exit code are its own."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from laptime.attach import kinds
from laptime.attach.listener import ListeningSocket, Mailbox
from laptime.model.errors import UsageError

if TYPE_CHECKING:
    from laptime.attach.listener import Hall


WATCHED_SITE = Path(__file__).parents[2] / "attach" / "site"
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
# How long at most until the command's end is seen: another thread of this process may get its signal
COMMAND_LOOK_S = 0.5


def watched_environment(address: str) -> dict[str, str]:
    """Return the environment that brings the agent into each Python process of a command."""
    paths = [str(WATCHED_SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), kinds.ADDRESS: address}


def run_command(command: Sequence[str], environment: dict[str, str], began: Callable[[int], None]) -> int:
    """Run a command to its end and return its exit code: 128 and the signal's number if a signal ended it.

    Signals for this process are passed on. `began` is called with the command's process, once it runs.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
    try:
        try:
            child = subprocess.Popen(
                command,
                env=environment,
                close_fds=False,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, blocked),  # noqa: PLW1509
            )
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
            number, from_terminal = _next_signal()
            if number != signal.SIGCHLD and not from_terminal:  # a terminal sends it to the command as well
                with suppress(ProcessLookupError):
                    os.kill(child.pid, number)
        code = child.returncode
    finally:
        for pending in signal.sigpending() & set(PASSED_ON):  # the command has ended of the same, sent twice
            signal.sigwait({pending})
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return code if code >= 0 else SIGNALLED - code


def _next_signal() -> tuple[int, bool]:
    """Wait for a signal. Return its number, and whether a terminal sent it."""
    expected = {*PASSED_ON, signal.SIGCHLD}
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigtimedwait(expected, COMMAND_LOOK_S)
        if info is None:
            return signal.SIGCHLD, True
        return info.si_signo, info.si_code > FROM_THE_KERNEL
    number = signal.sigwait(expected)  # macOS does not say who sent it: Ctrl-C and Ctrl-\ are a terminal's
    try:
        is_in_front = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        is_in_front = False
    return number, is_in_front and number in {signal.SIGINT, signal.SIGQUIT}


# Hear what the agents in a command's processes send, in one thread, until the command has ended.

COMMAND_CHUNK_BYTES = 1 << 18
COMMAND_WAIT_S = 0.02
SETTLE_S = 0.3  # after the command's end: what its processes sent last is on its way


class Listener(Thread):
    """Hears all agents that connect to a socket. At the end, it waits until nothing has come for `settle_s`."""

    def __init__(self, hall: Hall, settle_s: float = SETTLE_S) -> None:
        super().__init__(name="listener", daemon=True)
        self._hall = hall
        self._settle_s = settle_s
        self._peers: set[socket.socket] = set()
        self._is_over = False
        self._opened = ExitStack()
        self.problem: str | None = None
        try:
            self._selector = self._opened.enter_context(selectors.DefaultSelector())
            self._server = ListeningSocket()
            self._opened.callback(self._server.close)
            self.address = self._server.address
            self._ear, self._bell = os.pipe()
            for descriptor in (self._bell, self._ear):
                self._opened.callback(os.close, descriptor)
            for heard in (self._server.socket, self._ear):
                self._selector.register(heard, selectors.EVENT_READ)
        except OSError as error:
            self.problem = f"it could not make a socket ({error.strerror or error})"
            self.address = ""  # no agent comes in without one

    def begin(self) -> None:
        """Start to hear. The command runs whether that is possible or not."""
        if self.problem is None:
            try:
                self.start()
            except RuntimeError as error:
                self.problem = str(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Hear what is still on its way, and stop."""
        if not self._is_over and self.is_alive():
            self._is_over = True
            os.write(self._bell, b"x")
            self.join()
        if self.problem is None and not self._server.is_there():
            self.problem = "the folder of its socket was removed while the command ran"
        for peer in self._peers:
            peer.close()
        self._opened.close()

    def run(self) -> None:
        try:
            while not self._is_over:
                self._serve(None)
            while self._serve(self._settle_s):
                pass
        except Exception as error:  # noqa: BLE001  the command is never disturbed by what its listener meets
            self.problem = f"{type(error).__name__}: {error}"

    def _serve(self, patience_s: float | None) -> bool:
        ready = self._selector.select(patience_s)
        heard = False
        for key, _ in ready:
            if key.fileobj is self._server.socket:
                heard = self._accept() or heard
            elif key.fileobj == self._ear:
                os.read(self._ear, 1)
            else:
                heard = self._hear(key) or heard
        return heard

    def _accept(self) -> bool:
        try:
            peer = self._server.accept()
        except OSError:  # too many open files: it waits until others have closed theirs
            time.sleep(COMMAND_WAIT_S)
            return False
        if peer is None:
            return False
        self._selector.register(peer, selectors.EVENT_READ, Mailbox(self._hall))
        self._peers.add(peer)
        return True

    def _hear(self, key: selectors.SelectorKey) -> bool:
        peer: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            data = peer.recv(COMMAND_CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data and key.data.take(data):
            return True
        self._selector.unregister(peer)
        self._peers.discard(peer)
        peer.close()
        return bool(data)
