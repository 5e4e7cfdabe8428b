"""A child process: started below a guardian, read over a pipe, ended together with all that it started.

`AnyChild` is what a runner needs of a heat's process. `Child` is one on this machine; `remote.RemoteChild` is the same
on another one.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from laptime.engine import wire
from laptime.engine.run import guardian
from laptime.engine.run.guardian import (
    CONTINUE_SIGNAL,
    GOES_ON,
    HEAT_FOLDER,
    PAUSE_SIGNAL,
    PAUSED,
    REPORTS,
    TAIL_BYTES,
    WENT_ON,
    remove_folder,
)
from laptime.engine.run.instruments import Instruments
from laptime.engine.streams import fill_closed_streams
from laptime.model.errors import LaneError, UsageError, WireError
from laptime.model.process import Sandbox, Template
from laptime.model.quantities import Missing
from laptime.model.sample import Noise

Tell = Callable[[str], None]

PIPE_READ_BYTES = 1 << 20
CHILD_LINE_MOST_BYTES = 256 << 20  # the predictions and the steps of one lap may be some megabytes
LONGEST_POLL_MS = 2**31 - 1
SIGN_S = 1.0  # between signs of a child in which nothing is timed
CHILD_GRACE_S = 5.0
PAUSE_S = 10.0  # stopping and continuing takes a millisecond
GUARDIAN_S = 10.0  # the guardian kills what is left in milliseconds; if it takes longer, it is killed itself
GUARDIAN = Path(guardian.__file__)
GUARDIAN_WORDS = (sys.executable, "-S", "-P", str(GUARDIAN))
# By default JAX takes three quarters of a card's memory at once and TensorFlow all of it. User code may import either.
AS_NEEDED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
OWN_FOLDERS = "laptime-heat-"  # the beginning of the names of such folders; then comes this process's number
HEAT_MARK = "LAPTIME_HEAT"  # set in the environment of a heat, and so of all that it starts


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended, as the system reports it."""

    exit_code: int | None
    signal: str | None
    peak_memory_bytes: int | Missing
    stderr_tail: str


class Silence(Exception):  # noqa: N818  it is not one of laptime's errors
    """No message came within the time limit."""


class WindowReader(Protocol):
    """Reads the noise of the machine on which a heat runs, from one window to the next."""

    def reopen(self) -> None: ...

    def close_window(self) -> Noise: ...

    def judge(self, noise: Noise, window_ns: int) -> str | None: ...

    def close(self) -> None: ...


class AnyChild(Protocol):
    """A heat's process, on this machine or on a node of a cluster. `Child` says what each part does.

    `node` is the name of the node, or None here. `started_ns` is on this machine's clock, `began_ns` on that of the
    machine on which the heat runs.
    """

    pid: int
    node: str | None
    sandbox: Sandbox | None
    versions: dict[str, str]
    template: Template | None
    started_ns: int
    began_ns: int
    is_paused: bool

    def say(self, message: wire.FromParent) -> None: ...

    def hear(self, timeout_s: float) -> wire.FromChild | None: ...

    def has_lived_at(self, at_ns: int) -> bool: ...

    def was_stopped(self) -> bool: ...

    def pause(self) -> None: ...

    def go_on(self) -> None: ...

    def open_instruments(self, cores: int) -> WindowReader: ...

    def end(self, *, grace_s: float = CHILD_GRACE_S) -> Ended: ...

    def abandon(self) -> None: ...


class Child:
    """One heat's process. The parent sleeps until a message comes or the deadline passes.

    `pid` is that of the guardian: the heat and all that it starts are its descendants. Only the guardian holds the
    other end of the pipe on which it sends the printed text, so the end of that pipe shows the end of the guardian.
    """

    def __init__(
        self, environment: dict[str, str], further: tuple[int, ...] = (), sandbox: Sandbox | None = None
    ) -> None:
        """Start a child, in a sandbox if there is one. `further` are descriptors that it gets besides its pipes."""
        refuse_within_a_heat()
        self.node: str | None = None
        self.template: Template | None = None
        self.versions: dict[str, str] = {}  # of the machine: those of this one are in the record
        self.started_ns = self.began_ns = time.monotonic_ns()
        self._buffer = bytearray()
        self._searched = 0
        self._tail = b""
        self._was_stopped = False
        self._reports = bytearray()
        self.is_paused = False
        with contextlib.ExitStack() as opened, contextlib.ExitStack() as theirs:
            try:
                fill_closed_streams()
                to_child, self._write_fd = _open_pipe(theirs, opened)
                from_child, self._read_fd = _open_pipe(theirs, opened, outward=True)
                printing, self._printed_fd = _open_pipe(theirs, opened, outward=True)
                self.sandbox = None if sandbox is None else _open_sandbox(sandbox, opened)
                self.pid = self._launch(environment, (to_child, from_child, *further), printing)
            except OSError as error:
                raise LaneError(f"no child process could be started: {error}") from error
            self._opened = opened.pop_all()
        self._is_taken = False
        self._code: int | None = None
        self._peak_memory_bytes: int | Missing = Missing("the child has not ended")
        self._poll = select.poll()  # an epoll would take one descriptor more
        self._poll.register(self._read_fd, select.POLLIN)
        self._poll.register(self._printed_fd, select.POLLIN)

    def say(self, message: wire.FromParent) -> None:
        """Send a message to the child. If the child is gone, the next `hear` notices."""
        line = wire.write(message)
        with contextlib.suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._write_fd, line) :]

    def hear(self, timeout_s: float) -> wire.FromChild | None:
        """Wait for the next message. Return None if the child is gone; raise Silence if the time is up.

        An incomplete line does not extend the time. A message that is already there is returned even with no time left.
        """
        deadline = time.monotonic() + timeout_s
        left_s = max(0.0, timeout_s)
        while (line := self._next_line()) is None:
            if left_s < 0:
                raise Silence
            ready = {descriptor for descriptor, _ in self._poll.poll(min(1000 * left_s, LONGEST_POLL_MS))}
            left_s = deadline - time.monotonic()
            if not ready:
                raise Silence
            printed = self._read_printed() if self._printed_fd in ready else True
            if self._read_fd in ready:
                heard = os.read(self._read_fd, PIPE_READ_BYTES)
                if not heard:
                    return None
                self._buffer += heard
            elif not printed:
                return None
        message = wire.read_from_child(line)
        if isinstance(message, wire.Hello):
            wire.check_version(message)
        return message

    @property
    def descriptors(self) -> tuple[int, int]:
        """What becomes readable when the child sends a message, prints or ends; then `hear(0)` returns at once."""
        return self._read_fd, self._printed_fd

    def has_lived_at(self, at_ns: int) -> bool:
        """Whether the child had been started at a time that it reports, and the time has come: it has our clock."""
        return self.began_ns <= at_ns <= time.monotonic_ns()

    def open_instruments(self, cores: int) -> WindowReader:
        """Begin to read the noise around the heat."""
        instruments = Instruments(cores)
        instruments.open(self.pid, self.was_stopped)
        return instruments

    def was_stopped(self) -> bool:
        """Whether a signal stopped the heat, and it continued, since the last call."""
        stopped = self._was_stopped
        self._was_stopped = False
        return stopped

    def pause(self) -> None:
        """Stop the heat and all that it started, so that it computes nothing and loads nothing. Return when done."""
        self._request(PAUSE_SIGNAL, PAUSED)
        self.is_paused = True

    def go_on(self) -> None:
        self._request(CONTINUE_SIGNAL, GOES_ON)
        self.is_paused = False

    def end(self, *, grace_s: float = CHILD_GRACE_S) -> Ended:
        """Wait for the child to end on its own, then end it with all that it started. Return how it ended."""
        if not self._is_gone_within(grace_s):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            if not self._is_gone_within(GUARDIAN_S):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
        self._take()
        self._opened.close()
        code = self._code
        killer: str | None = None
        if code is not None and code < 0:
            try:
                killer = signal.Signals(-code).name
            except ValueError:
                killer = f"signal {-code}"
        return Ended(
            exit_code=code if killer is None else None,
            signal=killer,
            peak_memory_bytes=self._peak_memory_bytes,
            stderr_tail=_without_marks(self._tail.decode("utf-8", "replace")),
        )

    def abandon(self) -> None:
        """End the child at once. A second Ctrl-C meanwhile does not leave it behind."""
        try:
            self.end(grace_s=0)
        except KeyboardInterrupt:
            self.end(grace_s=0)

    def _launch(self, environment: dict[str, str], descriptors: tuple[int, ...], printing: int) -> int:
        """Start the guardian, and with it the heat. Return the guardian's number."""
        numbers = [str(descriptor) for descriptor in descriptors]
        self._process = subprocess.Popen(
            [*GUARDIAN_WORDS, *numbers[:2], sys.executable, "-P", "-m", "laptime.engine.heat", *numbers],
            env=environment_of(environment) | sandbox_variables(self.sandbox),
            stdin=subprocess.DEVNULL,
            stdout=printing,
            stderr=printing,
            pass_fds=descriptors,
            start_new_session=True,
        )
        return self._process.pid

    def _request(self, request: signal.Signals, report: bytes) -> None:
        """Send the guardian a request and wait until it is done. If the child is gone, the next `hear` notices."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, request)
        deadline = time.monotonic() + PAUSE_S
        reports = select.poll()
        reports.register(self._printed_fd, select.POLLIN)
        while report not in self._reports:
            if not reports.poll(1000 * max(0.0, deadline - time.monotonic())):
                raise WireError(f"the heat's guardian did not answer {request.name} within {PAUSE_S:g} s")
            if not self._read_printed():
                return
        self._reports.clear()

    def _take(self) -> None:
        """Collect the ended child, unless an earlier call did: `end` may be interrupted and called again."""
        if not self._is_taken:
            status, peak_kib = self._collect()
            self._code = None if status is None else os.waitstatus_to_exitcode(status)
            in_kib = 1 if sys.platform == "darwin" else 1024
            self._peak_memory_bytes = peak_kib if isinstance(peak_kib, Missing) else peak_kib * in_kib
            self._is_taken = True

    def _collect(self) -> tuple[int | None, int | Missing]:
        """Wait for the ended guardian. Return its status, and the most memory as the system counts it."""
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # this process ignores SIGCHLD, or waits for all its children elsewhere
            self._process.returncode = 0
            return None, Missing("another part of this program has waited for the child")
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return status, usage.ru_maxrss

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched > CHILD_LINE_MOST_BYTES:
                raise WireError(f"the child began a message of more than {CHILD_LINE_MOST_BYTES >> 20} MB")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _read_printed(self) -> bool:
        """Read what the guardian sends and keep its end. Return whether more may come."""
        printed = os.read(self._printed_fd, PIPE_READ_BYTES)
        self._was_stopped |= WENT_ON in printed
        self._reports += bytes(byte for byte in printed if byte in PAUSED + GOES_ON)
        self._tail = (self._tail + printed.translate(None, REPORTS))[-TAIL_BYTES:]
        return bool(printed)

    def _is_gone_within(self, grace_s: float) -> bool:
        """Read what the guardian sends until its pipe ends. Return whether it did, and so the guardian is gone."""
        deadline = time.monotonic() + grace_s
        handed_over = select.poll()
        handed_over.register(self._printed_fd, select.POLLIN)
        while handed_over.poll(1000 * max(0.0, deadline - time.monotonic())):
            if not self._read_printed():
                return True
        return False


def hear_with_signs(child: AnyChild, timeout_s: float, sign: Callable[[], None] | None) -> wire.FromChild | None:
    """Wait for the next message, and call `sign` every second until it comes. Only where nothing is timed."""
    deadline = time.monotonic() + timeout_s
    is_here = isinstance(child, Child)  # one elsewhere may wait for its place
    while sign and is_here and deadline - time.monotonic() > SIGN_S:
        with contextlib.suppress(Silence):
            return child.hear(SIGN_S)
        sign()
    return child.hear(deadline - time.monotonic())


def environment_of(environment: dict[str, str]) -> dict[str, str]:
    """Return all variables of a child that is started now, for a lane with these of its own."""
    return {**AS_NEEDED, **os.environ, **environment, HEAT_MARK: "1"}


def sandbox_variables(sandbox: Sandbox | None) -> dict[str, str]:
    """Return the variables by which a child and its guardian know of its sandbox."""
    return {} if sandbox is None else {wire.SANDBOX: wire.write_sandbox(sandbox), HEAT_FOLDER: sandbox.folder}


def _open_sandbox(sandbox: Sandbox, opened: contextlib.ExitStack) -> Sandbox:
    """Make the folder and the files to which a child may write.

    Its guardian removes the folder, and this process does, too: either may be killed.
    """
    folder = tempfile.mkdtemp(prefix=f"{OWN_FOLDERS}{os.getpid()}-")
    opened.callback(remove_folder, folder)
    files = []
    for file in sandbox.files:
        with contextlib.suppress(OSError):
            Path(file).touch(0o600)
            files.append(file)
    return replace(sandbox, folder=folder, files=tuple(files))


def is_within_a_heat() -> bool:
    """Whether this process is a heat, or was started by one."""
    return HEAT_MARK in os.environ


def refuse_within_a_heat() -> None:
    """Refuse an endless chain of processes: a heat imports its training's file, which may start a race."""
    if is_within_a_heat():
        raise UsageError(
            "laptime was called within a heat, which imports this file to train it",
            'Add the line `if __name__ == "__main__":` above the call, and indent the call below it.',
        )


def _open_pipe(theirs: contextlib.ExitStack, ours: contextlib.ExitStack, *, outward: bool = False) -> tuple[int, int]:
    """Open a pipe. Return the child's end and ours. If `outward`, the child writes to it."""
    read_fd, write_fd = os.pipe()
    child_fd, parent_fd = (write_fd, read_fd) if outward else (read_fd, write_fd)
    theirs.callback(os.close, child_fd)
    ours.callback(os.close, parent_fd)
    return child_fd, parent_fd


def _without_marks(printed: str) -> str:
    """Leave out the rows of `^^^^` with which Python marks a place in the line above."""
    return "\n".join(row for row in printed.splitlines() if not row.strip() or row.strip(" ^~")).strip()
