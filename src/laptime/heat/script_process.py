"""A script that is raced: start it, hear its agents, let it go on for some iterations, and stop it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from laptime.analysis.script_facts import read_hello, text, whole, whole_or_none
from laptime.analysis.script_process import ProcessReader
from laptime.attach import kinds
from laptime.attach.listening_socket import ListeningSocket
from laptime.attach.messages import Mailbox
from laptime.errors import LaneError
from laptime.heat.terminal import Terminal

SITE = Path(kinds.__file__).parent / "site"
CHUNK = 1 << 18
LOOK_S = 0.5  # how long at most until the script's end is seen
LAST_WORDS_S = 0.2  # after its end, what it sent is on its way
CALLS_AGAIN_S = 2.0  # a script may close the connection of its agent, which then calls again
LEAVES_S = 10.0  # to leave with its exit code once its training has ended: an error is said by that alone
GRACE_S = 3.0  # after each of the signals that ask it to end
ENDS_BY = (signal.SIGINT, signal.SIGTERM)


class ScriptEnded(Exception):  # noqa: N818  it is not one of laptime's errors
    """The script ended, or what trains in it did. `code` is its exit code, if it has one."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class NothingSeen(Exception):  # noqa: N818  it is not one of laptime's errors
    """The script runs, and no training of it began in time."""


@dataclass(frozen=True, slots=True)
class HeldScript:
    """The script is held at the end of an iteration. `idle_ns` of the time since `since_ns` was no work of it."""

    since_ns: int
    at_ns: int
    idle_ns: int
    loss: float | None
    device_bytes: int | None
    peak_bytes: int | None
    threads: int | None
    shapes: int
    redrawn: bool | None


class Visitor:
    """What one process sent. Its events wait until it is held: reading them must not disturb its windows."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.reader = ProcessReader(hello)
        self.set: set[str] = set()
        self.held: HeldScript | None = None
        self.is_counted = True  # whether its events are still iterations
        self.has_left = False
        self._events: list[bytes] = []

    @property
    def may_lead(self) -> bool:
        """Whether this process may be the one that is held: the others of a training wait for it by themselves."""
        return self.reader.hello.rank in {None, 0}

    def take_facts(self, facts: dict[str, Any]) -> None:
        if "held" in facts:
            self._read_events()
            self.held = _read_held(facts)
        elif "has_set" in facts:
            self.set.add(text(facts["has_set"]))
        else:
            self.reader.take_facts(facts)
            self.has_left = self.has_left or "is_leaving" in facts

    def take_events(self, body: bytes) -> None:
        if self.is_counted:
            self._events.append(body)

    def _read_events(self) -> None:
        for body in self._events:
            self.reader.take_events(body)
        self._events = []


class RacedScript:
    """One run of a script. One of its processes is held between windows: the first that trains, of rank 0."""

    def __init__(self, command: Sequence[str], sets: Mapping[str, str], seen_within_s: float | None = None) -> None:
        self._ends_by: Sequence[signal.Signals] = ENDS_BY
        self._seen_by_s = None if seen_within_s is None else time.monotonic() + seen_within_s
        try:
            self._server = ListeningSocket()
        except OSError as error:
            raise LaneError(f"no socket could be made for the script: {error.strerror or error}") from None
        self._terminal = Terminal()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server.socket, selectors.EVENT_READ)
        if self._terminal.ours is not None:
            self._selector.register(self._terminal.ours, selectors.EVENT_READ)
        self._visitors: dict[int, Visitor] = {}
        self._leader: Visitor | None = None
        self._peer: socket.socket | None = None  # of the leader
        self._hung_up_s = 0.0  # when the leader's connection ended
        try:
            self._process = _start(command, _environment(self._server.address, sets), self._terminal)
        except LaneError:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def leader(self) -> Visitor:
        """The process that is held; only after the first hold."""
        assert self._leader is not None
        return self._leader

    @property
    def first(self) -> Visitor:
        """The process that reported first; only if one has greeted."""
        return next(iter(self._visitors.values()))

    @property
    def has_greeted(self) -> bool:
        """Whether any Python process of the script reported."""
        return bool(self._visitors)

    @property
    def versions(self) -> set[str]:
        """The packages that its Python processes have imported, as far as they reported."""
        return {name for each in self._visitors.values() for name in each.reader.hello.versions}

    def wait(self) -> HeldScript:
        """Wait until the script is held. Raise ScriptEnded if it ends before, NothingSeen if it trains too late."""
        while True:
            self._hear_all(LOOK_S)
            if self._leader is not None and self._leader.held is not None:
                return self._leader.held
            self._check_end()
            if self._leader is None and self._seen_by_s is not None and time.monotonic() > self._seen_by_s:
                self._ends_by = ENDS_BY[1:]  # on SIGINT it would print where it is, which is not why it ends
                raise NothingSeen

    def go_on(self, count: int, what: int = kinds.GO_ON, batches: int = 0) -> HeldScript:
        """Let the script pass this many ends of iterations, and wait until it is held again."""
        self.leader.held = None
        assert self._peer is not None
        self._answer(self._peer, what, count, batches)
        return self.wait()

    def stop(self) -> None:
        """End the script and all of its group: ask by SIGINT, then by SIGTERM, then kill."""
        for number in self._ends_by:
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Mailbox):
                key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._server.close()
        self._terminal.close()

    def reader_of(self, hello: Mapping[str, Any]) -> Visitor:
        """Return the visitor for a process that greets; it greets again when its training begins."""
        pid = read_hello(hello).pid
        if pid not in self._visitors:
            self._visitors[pid] = Visitor(hello)
        return self._visitors[pid]

    def _hear_all(self, patience_s: float) -> None:
        for key, _ in self._selector.select(patience_s):
            if isinstance(key.data, Mailbox):
                self._hear(key)
            elif key.fileobj is self._server.socket:
                self._accept()
            elif not self._terminal.hear():
                self._selector.unregister(key.fileobj)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer = self._server.accept()
            if peer is not None:
                self._selector.register(peer, selectors.EVENT_READ, Mailbox(self))

    def _hear(self, key: selectors.SelectorKey) -> None:
        peer: socket.socket = key.fileobj  # type: ignore[assignment]
        mailbox: Mailbox = key.data
        try:
            data = peer.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or not mailbox.take(data):
            self._selector.unregister(peer)
            peer.close()
            if peer is self._peer:
                self._peer, self._hung_up_s = None, time.monotonic()
            return
        visitor = mailbox.reader
        if self._leader is not None and visitor is self._leader:
            self._peer = peer
        if isinstance(visitor, Visitor) and visitor.held is not None and visitor is not self._leader:
            self._choose(visitor, peer)

    def _choose(self, visitor: Visitor, peer: socket.socket) -> None:
        """Let the first that may lead do so, and all others go on for good."""
        if self._leader is None and visitor.may_lead:
            self._leader, self._peer = visitor, peer
        else:
            visitor.held = None
            self._answer(peer, kinds.FREE, 0, 0)

    def _answer(self, peer: socket.socket, *numbers: int) -> None:
        with contextlib.suppress(OSError):  # it is gone, and its end is seen next
            peer.sendall(struct.pack(kinds.ANSWER, *numbers))

    def _check_end(self) -> None:
        code = self._process.poll()
        if code is not None:
            self._hear_all(LAST_WORDS_S)
            if self._leader is None or self._leader.held is None:
                raise ScriptEnded(code)
        is_gone = self._peer is None and time.monotonic() > self._hung_up_s + CALLS_AGAIN_S
        if self._leader is not None and (self._leader.has_left or is_gone):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(LEAVES_S)
            raise ScriptEnded(code)


def _read_held(facts: Mapping[str, Any]) -> HeldScript:
    """Return a hold. Raise ValueError if it is none of an agent's."""
    since_ns, at_ns, idle_ns = (whole(facts.get(name)) for name in ("since_ns", "at_ns", "idle_ns"))
    if not since_ns + idle_ns <= at_ns <= now_ns():
        raise ValueError("a hold at a time that cannot be")
    loss = facts.get("loss")
    return HeldScript(
        since_ns,
        at_ns,
        idle_ns,
        loss=None if loss is None else float(loss),  # one that is not finite comes as a text
        device_bytes=whole_or_none(facts.get("device_bytes")),
        peak_bytes=whole_or_none(facts.get("peak_bytes")),
        threads=whole_or_none(facts.get("threads")),
        shapes=whole(facts.get("shapes")),
        redrawn=facts.get("redrawn") if isinstance(facts.get("redrawn"), bool) else None,
    )


def _environment(address: str, sets: Mapping[str, str]) -> dict[str, str]:
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = ",".join(f"{name}={value}" for name, value in sets.items())
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        kinds.ADDRESS: address,
        kinds.HOLDS: "1",
        kinds.SET: words,
    }


def _start(command: Sequence[str], environment: dict[str, str], terminal: Terminal) -> subprocess.Popen[bytes]:
    """Start the script in a session of its own, and so in a group of its own, with this terminal."""
    try:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=terminal.theirs,
            start_new_session=True,
            preexec_fn=terminal.enter(),  # noqa: PLW1509  the heat of a script has one thread
        )
    except OSError as error:
        raise LaneError(f"'{command[0]}' cannot be run: {error.strerror or error}") from None
    finally:
        os.close(terminal.theirs)


def now_ns() -> int:
    """Return the time on the clock of the agents."""
    return time.monotonic_ns()
