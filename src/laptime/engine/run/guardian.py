"""The guardian: a small process above each heat. When the heat ends, it ends all of the heat's descendants.

Run as a script, `guardian.py READ_FD WRITE_FD COMMAND...`. It imports nothing of laptime, so it starts in a few
milliseconds and takes little memory. It starts the command in a new session, sleeps, and wakes for four things. A heat
that was forked from a template (`heat/template.py`) is there already: `guardian.py READ_FD WRITE_FD adopt PID FD`
is run by the process that forked it, which so becomes its guardian.

- **The heat is over**, the parent asks for its end (SIGTERM), or the parent is gone (its end of the pipe is closed).
  On Linux the guardian is a subreaper: a process of the heat whose parent ends becomes the guardian's child, even after
  a double fork, `setsid` and with an empty environment. The guardian kills its children until none is left, and then
  ends as the heat ended, with the same exit code or by the same signal.
- **Something was printed.** What the heat's processes print goes into a pipe, and the guardian keeps the end of it for
  the parent. A file would grow as long as a training prints, and would need a folder. A pipe needs none, and slows the
  writer down if it prints faster than the guardian reads. The parent does not read the pipe: it would wake with every
  line, and would delay the training when it is busy. A training that prints little wakes the guardian at most 20 times
  a second.
- **The parent wants a pause** (SIGUSR1), so that another heat can be timed: the guardian stops the heat and all that it
  started, and continues them when the parent asks for it (SIGUSR2). It answers both with a byte.
- **The heat continued** after another process's signal had stopped it: the guardian reports that to the parent.

Where the heat has a folder of its own (LAPTIME_OWN_FOLDER), the guardian removes it at the end: it outlives the parent.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

TAIL_BYTES = 4_000
PIPE_BYTES = 1 << 20  # what may be printed while the guardian pauses; more needs privileges
MUCH_BYTES = PIPE_BYTES // 4
PAUSE_MS = 50
PAUSE_SIGNAL = signal.SIGUSR1
CONTINUE_SIGNAL = signal.SIGUSR2
WAKING = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, PAUSE_SIGNAL, CONTINUE_SIGNAL)
FULL_PIPES = 8  # at the end; a process that cannot be killed may still print
SWEEP_S = 3.0
STOP_S = 1.0  # one that waits for a disk stops when it has the data
STOPPED_STATES = b"TtZX"  # the states of processes that compute nothing: stopped, or ended
SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
F_SETPIPE_SZ = 1031  # <linux/fcntl.h>
NOT_STARTED_CODE = 127
HEAT_FOLDER = "LAPTIME_OWN_FOLDER"  # a variable of its environment
ADOPT = "adopt"  # in place of a command: the number of a child, and the descriptor from which its text is read
# Bytes that report to the parent; they are removed from the printed text.
WENT_ON = b"\0"  # another process had stopped the heat, and it went on
PAUSED, GOES_ON = b"\1", b"\2"  # the parent's request is done
REPORTS = WENT_ON + PAUSED + GOES_ON


class Guardian:
    """Starts the heat, keeps the end of what it prints, and notes how it ended."""

    def __init__(self, read_fd: int, write_fd: int, command: list[str]) -> None:
        # A descriptor that becomes readable when a signal comes, so that one poll waits for signals and pipes
        self._woken_fd, waking_fd = os.pipe()
        os.set_blocking(self._woken_fd, False)
        os.set_blocking(waking_fd, False)
        signal.set_wakeup_fd(waking_fd, warn_on_full_buffer=False)
        for number in WAKING:
            signal.signal(number, lambda _number, _frame: None)  # not ignored: the heat would inherit that
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)
        self._tail = b""
        self._status: int | None = None
        self._paused: set[int] = set()
        self._continued: set[int] = set()  # by us, and not yet collected
        prctl = _find_prctl()
        prctl(SET_CHILD_SUBREAPER, 1)
        if command[0] == ADOPT:
            self._heat, self._printed_fd = map(int, command[1:])
        else:
            self._heat, self._printed_fd = _start(command, prctl)
        with contextlib.suppress(ImportError, OSError):
            import fcntl  # noqa: PLC0415

            fcntl.fcntl(self._printed_fd, F_SETPIPE_SZ, PIPE_BYTES)
        os.close(write_fd)  # so that the pipe ends when the heat closes its own end
        os.set_blocking(self._printed_fd, False)
        self._ends = select.poll()
        self._all = select.poll()
        for poll in (self._ends, self._all):
            poll.register(read_fd, 0)  # no data is requested: messages are for the heat. Only a hang-up is reported.
            poll.register(self._woken_fd, select.POLLIN)
        self._all.register(self._printed_fd, select.POLLIN)

    def watch(self) -> None:
        """Sleep until the heat is over or has to end."""
        self._reap()  # an adopted heat may have ended before its signal could wake us
        while self._status is None:
            ready = {descriptor for descriptor, _ in self._all.poll()}
            signals = os.read(self._woken_fd, 4096) if self._woken_fd in ready else b""
            self._reap()
            hung_up = ready - {self._woken_fd, self._printed_fd}
            if self._status is not None or signal.SIGTERM in signals or hung_up:
                return
            if PAUSE_SIGNAL in signals:
                self._pause()
            if CONTINUE_SIGNAL in signals:
                self._go_on()
            if self._printed_fd in ready and self._keep() < MUCH_BYTES:
                self._ends.poll(PAUSE_MS)

    def sweep(self) -> None:
        """Kill all descendants of the heat. A killed process may leave children, which become the guardian's."""
        with contextlib.suppress(OSError):
            os.killpg(self._heat, signal.SIGKILL)
        deadline = time.monotonic() + SWEEP_S
        while self._reap() and time.monotonic() < deadline:
            for pid in _scan_children().get(os.getpid(), ()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def leave(self) -> None:
        """Send the end of the printed text to the parent, and end as the heat ended."""
        for _ in range(FULL_PIPES):
            if not self._keep():
                break
        with contextlib.suppress(OSError):
            os.write(2, self._tail.translate(None, REPORTS))
        code = NOT_STARTED_CODE if self._status is None else os.waitstatus_to_exitcode(self._status)
        if code < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to take back
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code if code >= 0 else NOT_STARTED_CODE)

    def _pause(self) -> None:
        """Stop all descendants of the heat. A process that was not stopped yet may have started another one."""
        while born := [pid for pid in _descendants() if pid not in self._paused]:
            for pid in born:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            self._paused.update(born)
        deadline = time.monotonic() + STOP_S
        while any(map(_is_running, self._paused)) and time.monotonic() < deadline:
            time.sleep(0.0002)
        _report(PAUSED)

    def _go_on(self) -> None:
        self._continued = self._paused
        self._paused = set()
        for pid in self._continued:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self._reap()  # the kernel reports a continued child at once
        self._continued = set()
        _report(GOES_ON)

    def _keep(self) -> int:
        """Read what was printed and keep its end. Return how many bytes were read."""
        try:
            printed = os.read(self._printed_fd, PIPE_BYTES)
        except BlockingIOError:
            return 0
        if not printed:  # all that could print has closed it
            with contextlib.suppress(KeyError):
                self._all.unregister(self._printed_fd)
        self._tail = (self._tail + printed)[-TAIL_BYTES:]
        return len(printed)

    def _reap(self) -> bool:
        """Collect ended children. Return whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WCONTINUED)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if os.WIFCONTINUED(status):
                if pid not in self._continued:
                    _report(WENT_ON)
            elif pid == self._heat:
                self._status = status


def _start(command: list[str], prctl: Callable[[int, int], object]) -> tuple[int, int]:
    """Start the heat. Return its number, and the descriptor from which what it prints is read."""
    printed_fd, printing_fd = os.pipe()
    own = os.getpid()
    heat = os.fork()
    if not heat:
        os.setsid()
        prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == own:  # else the guardian is gone already
            _become(command, printing_fd)
        os._exit(NOT_STARTED_CODE)
    os.close(printing_fd)
    return heat, printed_fd


def remove_folder(folder: str) -> None:
    """Remove a heat's own folder, also where it took its own right away to look into a part of it."""
    with contextlib.suppress(OSError, RecursionError):
        os.chmod(folder, 0o700)  # noqa: PTH101  no pathlib: it takes time to import
        with os.scandir(folder) as found:
            inside = list(found)
        for entry in inside:
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106


def _report(done: bytes) -> None:
    """Report to the parent, unless it is gone: its heat has to be ended all the same."""
    with contextlib.suppress(BrokenPipeError):
        os.write(2, done)


def _find_prctl() -> Callable[[int, int], object]:
    """Return the system's prctl, or a function that does nothing if there is none."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # noqa: PLC0415  some builds of Python have none

            found = ctypes.CDLL(None).prctl
            return lambda option, value: found(option, ctypes.c_ulong(value), 0, 0, 0)
    return lambda _option, _value: -1


def _become(command: list[str], printing_fd: int) -> None:
    try:
        os.dup2(printing_fd, 1)
        os.dup2(printing_fd, 2)
        os.execv(command[0], command)  # noqa: S606  no shell is wanted
    except OSError as error:
        os.write(2, f"the heat could not be started: {error}\n".encode())


def _descendants() -> list[int]:
    """List this process's descendants, parents before their children."""
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # noqa: PTH110
        children_of = _read_children
    else:
        scanned = _scan_children()
        children_of = lambda pid: scanned.get(pid, [])  # noqa: E731
    found = list(children_of(os.getpid()))
    for pid in found:  # grows while it is walked
        found += children_of(pid)
    return found


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
        return stat.read().rpartition(b")")[2].split()[0] not in STOPPED_STATES
    return False


def _read_children(pid: int) -> list[int]:
    """Read the kernel's lists of a process's children, one for each of its threads; not every kernel has them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as names:  # noqa: PTH123
                found += map(int, names.read().split())
    return found


def _scan_children() -> dict[int, list[int]]:
    """Read the parent of every process from /proc; nothing if there is no /proc."""
    found: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123
                found.setdefault(int(stat.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    return found


def main() -> None:
    read_fd, write_fd, *command = sys.argv[1:]
    try:
        guardian = Guardian(int(read_fd), int(write_fd), command)
    except OSError as error:
        sys.stderr.write(f"the heat could not be started: {error}\n")
        sys.stderr.flush()
        os._exit(NOT_STARTED_CODE)
    guardian.watch()
    guardian.sweep()
    if folder := os.environ.get(HEAT_FOLDER):
        remove_folder(folder)
    guardian.leave()


if __name__ == "__main__":
    main()
