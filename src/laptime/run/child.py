"""A child process on a leash: started in a group of its own, heard over a pipe, ended with all it started."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from laptime import wire
from laptime.errors import LaneError
from laptime.model.missing import Missing

TAIL_BYTES = 4_000
READ_BYTES = 1 << 20
GRACE_S = 5.0
# Left alone, JAX takes three quarters of a card at once and TensorFlow all of it; a user's code may import either.
AS_NEEDED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, as the system tells it."""

    exit_code: int | None
    signal: str | None
    peak_memory_bytes: int | Missing
    stderr_tail: str


class Silence(Exception):  # noqa: N818  it is no error of ours
    """Nothing was heard for as long as we were willing to wait."""


class Child:
    """One heat's process. The parent sleeps on the pipe until a word or the deadline comes."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.started_ns = time.monotonic_ns()
        to_child, self._write_fd = os.pipe()
        self._read_fd, from_child = os.pipe()
        self._noise = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the child
        command = [sys.executable, "-P", "-m", "laptime.heat", str(to_child), str(from_child)]
        try:
            self._process = subprocess.Popen(
                command,
                env={**AS_NEEDED, **os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=self._noise,
                stderr=self._noise,
                pass_fds=(to_child, from_child),
                start_new_session=True,
            )
        except OSError as error:
            raise LaneError(f"no child process could be started: {error}") from error
        finally:
            os.close(to_child)
            os.close(from_child)
        self.pid = self._process.pid
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._read_fd, selectors.EVENT_READ)
        # Loaders that a child forked hold its pipe open when it dies: only the process itself tells that it is gone.
        self._pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def say(self, message: wire.FromParent) -> None:
        """Tell the child something; one that is gone is noticed when it is next heard."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_fd, wire.write(message))

    def hear(self, timeout_s: float) -> wire.FromChild | None:
        """Wait for the next message; None means that the child is gone, Silence that time is up."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            awake = self._selector.select(max(0.0, deadline - time.monotonic()))
            if not awake:
                raise Silence
            if all(key.fd != self._read_fd for key, _ in awake):
                return None
            heard = os.read(self._read_fd, READ_BYTES)
            if not heard:
                return None
            self._buffer += heard
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = wire.read_from_child(line)
        if isinstance(message, wire.Hello):
            wire.check_version(message)
        return message

    def end(self, *, grace_s: float = GRACE_S) -> Ended:
        """Let the child end by itself within the grace, then end its whole group; tell how it went."""
        waited = self._wait(grace_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if waited is None:
            waited = os.wait4(self.pid, 0)
        _, status, usage = waited
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._close()
        code = self._process.returncode
        unit = 1 if sys.platform == "darwin" else 1024
        tail = self._read_tail()
        return Ended(
            exit_code=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            peak_memory_bytes=usage.ru_maxrss * unit,
            stderr_tail=tail,
        )

    def abandon(self) -> None:
        """End the child at once; a second Ctrl-C while it ends does not leave it behind."""
        try:
            self.end(grace_s=0)
        except KeyboardInterrupt:
            self.end(grace_s=0)

    def _wait(self, grace_s: float) -> tuple[int, int, resource.struct_rusage] | None:
        """Look every few milliseconds: the heat is over, so nothing is measured that this could disturb."""
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                return pid, status, usage
            time.sleep(0.002)
        return None

    def _close(self) -> None:
        self._selector.close()
        for fd in (self._read_fd, self._write_fd, self._pidfd):
            if fd is None:
                continue
            with contextlib.suppress(OSError):
                os.close(fd)

    def _read_tail(self) -> str:
        with self._noise as noise:
            length = noise.seek(0, os.SEEK_END)
            noise.seek(max(0, length - TAIL_BYTES))
            return noise.read().decode("utf-8", "replace").strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
