"""`python -m laptime.run.node HOST PORT TICKET`: the agent that runs one heat of a race on a node of a cluster.

It connects to the parent, starts a usual `Child` and relays what both say. It pauses, continues and ends the child when
the parent asks for it, and reads the noise of its own node as each window closes. If the parent or the process that
started this one is gone, it ends the child with all that it started. If the agent itself is killed, the guardian above
the heat does that. The secret of the race is in an environment variable, which no other process inherits. The parent
proves that it knows the secret before the agent does anything for it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

from laptime import wire
from laptime.authentication import derive
from laptime.errors import LaptimeError, WireError
from laptime.machine import CardSearch, add_cards, look_at_machine, time_core
from laptime.model.launchers import NODE_VARIABLES
from laptime.model.missing import Missing
from laptime.model.plan import NODE_ADDRESS, RANKS_SECRET
from laptime.run.child import Child, Ended, Silence, WindowReader
from laptime.run.node_messages import (
    SECRET,
    Around,
    BeginChild,
    ChildBegan,
    ChildEnded,
    ChildGone,
    ContinueChild,
    Done,
    EndChild,
    FromNode,
    Heard,
    LookAround,
    NodeLink,
    PauseChild,
    ToChild,
    ToNode,
    Trouble,
    connect_to_parent,
    raw,
)
from laptime.sensors.cgroup import allowed_cores
from laptime.streams import fill_closed_streams

STARTER = 0  # the process that started the agent holds the other end of its standard input, and writes nothing
UNREACHABLE = 3


class NodeAgent:
    """Runs one child for the parent at the other end of a link."""

    def __init__(self, link: NodeLink, secret: str) -> None:
        self._link, self._secret = link, secret
        self._child: Child | None = None
        self._ended: Ended | None = None
        self._instruments: WindowReader | None = None
        self._is_gone = False  # the child says no more
        self._is_over = False
        self._poll = select.poll()
        self._poll.register(link.fileno(), select.POLLIN)
        self._poll.register(STARTER, 0)  # only a hang-up is reported

    def serve(self) -> None:
        """Relay until the parent has what it wants, or is gone, or the process that started this one is gone."""
        try:
            while not self._is_over:
                ready = dict(self._poll.poll())
                if ready.get(STARTER, 0) & select.POLLHUP:
                    return
                if self._link.fileno() in ready:
                    self._hear_parent()
                if self._child is not None and not self._is_gone:
                    self._relay(self._child)
        except WireError as error:
            with contextlib.suppress(OSError):
                self._link.say(Trouble(error.says))
        except (EOFError, OSError):
            return  # the parent is gone
        finally:
            if self._child is not None and self._ended is None:
                self._child.abandon()

    def _hear_parent(self) -> None:
        with contextlib.suppress(Silence):
            while not self._is_over:
                report = self._answer(self._link.hear(0))
                if report is not None:
                    self._link.say(report)

    def _answer(self, message: ToNode) -> FromNode | None:
        """Do what the parent asks for, and return what to report."""
        try:
            match message, self._child:
                case BeginChild() as begin, None:
                    return self._begin(begin)
                case LookAround(drivers=drivers), _:
                    machine = time_core(look_at_machine())
                    return Around(add_cards(machine, CardSearch().end()) if drivers else machine)
                case ToChild() | PauseChild() | ContinueChild(), _ if self._ended is not None:
                    return None if isinstance(message, ToChild) else Done()
                case ToChild(message=said), Child() as child:
                    return self._pass_on(child, wire.read_from_parent(bytes(said)))
                case PauseChild(), Child() as child:
                    child.pause()
                    return Done()
                case ContinueChild(), Child() as child:
                    child.go_on()
                    if self._instruments is not None:
                        self._instruments.reopen()
                    return Done()
                case EndChild(grace_s=grace_s), Child() as child:
                    self._is_over = True
                    return ChildEnded(self._end(child, grace_s))
                case _:
                    self._is_over = True
                    return None
        except LaptimeError as error:
            return Trouble(error.says)

    def _begin(self, begin: BeginChild) -> FromNode:
        other = sorted(begin.environment.keys() - NODE_VARIABLES)
        if other:
            return Trouble(f"an agent does not set {other[0]}: it sets {', '.join(sorted(NODE_VARIABLES))}")
        os.environ.update(begin.environment)
        own = {NODE_ADDRESS: self._link.own_address}
        if begin.is_spread:
            own[RANKS_SECRET] = derive(self._secret, b"ranks").hex()
        child = self._child = Child(begin.environment | own)
        for descriptor in child.descriptors:
            self._poll.register(descriptor, select.POLLIN)
        return ChildBegan(child.pid, child.began_ns)

    def _pass_on(self, child: Child, message: wire.FromParent) -> FromNode | None:
        """Pass a message on to the child, unless it is an order for files that this node does not have."""
        absent = next((path for path in paths_in(message) if not Path(path).exists()), None)
        if absent is None:
            child.say(message)
            return None
        self._stop_hearing(child)
        self._end(child, 0)
        says = f"{absent} is not on {socket.gethostname()}: a race on a cluster needs it at the same path on all nodes"
        return Heard(raw(wire.Failed("start", says, "files", Missing("it was not started"))), time.monotonic_ns())

    def _relay(self, child: Child) -> None:
        """Send the parent all that the child has said."""
        try:
            while (message := child.hear(0)) is not None:
                self._link.say(self._with_noise(child, message))
        except Silence:
            return
        except WireError as error:
            self._link.say(Trouble(error.says))
        else:
            self._link.say(ChildGone())
        self._stop_hearing(child)

    def _stop_hearing(self, child: Child) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        for descriptor in child.descriptors:
            self._poll.unregister(descriptor)

    def _end(self, child: Child, grace_s: float) -> Ended:
        """End the child, once, and return how it ended."""
        if self._ended is None:
            self._ended = child.end(grace_s=grace_s)
        return self._ended

    def _with_noise(self, child: Child, message: wire.FromChild) -> Heard:
        """Read the noise of this node if the message closes a window."""
        at_ns = time.monotonic_ns()
        match message, self._instruments:
            case wire.Phase(name="timing"), _:
                if self._instruments is not None:
                    self._instruments.close()
                self._instruments = child.open_instruments(len(allowed_cores()))
            case wire.Closed(window=window), instruments if instruments is not None:
                noise = instruments.close_window()
                flag = instruments.judge(noise, window.end_ns - window.start_ns)
                return Heard(raw(message), at_ns, noise, flag)
            case _:
                pass
        return Heard(raw(message), at_ns)


def paths_in(message: wire.FromParent) -> list[str]:
    """Return the files and folders that an order needs: a user's own file, data, and the folder of kept batches."""
    order = getattr(message, "order", message)
    subject, data, kept = (getattr(order, name, None) for name in ("subject", "data", "kept_batches"))
    found = [None if subject is None else subject.file, None if data is None else data.folder]
    return [path for path in (*found, str(Path(kept).parent) if kept else None) if path]


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a Ctrl-C at its terminal, the parent ends it in order
    host, port, ticket = sys.argv[1:]
    secret = os.environ.pop(SECRET, "")
    fill_closed_streams()
    if not secret:
        sys.stderr.write(f"{SECRET} is not set: laptime starts this program on a node, and sets it\n")
        return UNREACHABLE
    try:
        link = connect_to_parent(host, int(port), secret, ticket)
    except (OSError, WireError) as error:
        sys.stderr.write(f"{socket.gethostname()} cannot reach the parent at {host}:{port}: {error}\n")
        return UNREACHABLE
    NodeAgent(link, secret).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
