"""Templates: processes that have imported a framework, from which heats are forked (laptime.heat.template says how).

A template serves the lanes that have its framework and exactly its environment: a library reads its variables as it is
loaded, so another environment takes another process. A race takes turns with several of them, because the heats of one
share what a process draws at random as it starts.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable

from laptime import wire
from laptime.errors import LaneError, WireError
from laptime.machine.look import available_memory_bytes
from laptime.model.plan import PlannedLane
from laptime.model.process import Sandbox, Template
from laptime.model.quantities import Missing
from laptime.run.child import GUARDIAN_WORDS, Child, Silence, environment_of, sandbox_variables

OF_A_LANE = 2  # templates that a lane's heats are forked from, in turn
TEMPLATES_MOST = 12  # templates at once: each holds some 250 MB, half of them memory that its forks share
ROOM_BYTES = 2 << 30  # a further template is started where more than this is free
FORK_ANSWER_S = 10.0  # a fork takes 10 ms
FORK_ANSWER_BYTES = 4096

TemplateKey = tuple[object, ...]


class HeatTemplate:
    """One template process, and the socket on which it is asked for heats."""

    def __init__(self, lane: PlannedLane, number: int) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(FORK_ANSWER_S)
        with theirs:
            try:
                self._child = Child(lane.environment, (theirs.fileno(),))
            except BaseException:
                self._socket.close()
                raise
        self._number = number
        self._child.say(wire.Warm(lane.framework))
        self.told: Template | None = None
        self.is_broken = False  # no further heat can be forked
        self.refuses = False  # no other template of its kind will fork either
        self.forks = 0  # that have not ended
        self._is_gone = self._is_closed = False

    def make_ready(self, deadline: float) -> bool:
        """Wait until it has imported what heats need. Return whether it has."""
        phases: dict[str, int] = {}
        try:
            while self.told is None and not self.is_broken:
                match self._child.hear(deadline - time.monotonic()):
                    case wire.Phase(name=name, at_ns=at_ns):
                        phases[name] = at_ns
                    case wire.Warmed():
                        began_ns, ended_ns = phases["import"], phases["held"]
                        start_s = (began_ns - self._child.began_ns) / 1e9
                        self.told = Template(self._number, start_s, (ended_ns - began_ns) / 1e9)
                    case None | wire.Failed():
                        self.is_broken = True
        except (Silence, WireError):
            self.is_broken = True
        return not self.is_broken

    def fork(self, descriptors: tuple[int, int, int], sandbox: Sandbox | None = None) -> int:
        """Fork a heat with these pipes, and a guardian that reports to the last one. Return the guardian's number."""
        variables = [f"{name}={value}" for name, value in sandbox_variables(sandbox).items()]
        words = (str(len(variables)), *variables, *GUARDIAN_WORDS)
        answer = self._ask(b"\0".join((b"fork", *map(os.fsencode, words))), descriptors)
        if not answer.isdigit():
            self.is_broken = True
            self.refuses = answer.startswith(b"refused")
            raise LaneError(f"no heat could be forked: {answer.decode(errors='replace') or 'the template is gone'}")
        self.forks += 1
        return int(answer)

    def collect(self, guardian: int) -> tuple[int | None, int | Missing]:
        """Wait for an ended guardian. Return its status, and the most memory as the system counts it."""
        self.forks -= 1
        answer = self._ask(f"wait\0{guardian}".encode())
        if not answer:
            return None, Missing("the process from which it was forked is gone")
        status, peak = answer.split(b"\0")
        return int(status), int(peak)

    def close(self) -> None:
        """End the template, and with it all that was forked from it."""
        if not self._is_closed:
            self._is_closed = True
            self._socket.close()
            self._child.abandon()

    def _ask(self, request: bytes, descriptors: tuple[int, ...] = ()) -> bytes:
        """Send a request. Return the answer; it is empty if the template is gone."""
        answer = b""
        if not self._is_gone:
            with contextlib.suppress(OSError):
                socket.send_fds(self._socket, [request], descriptors)
                answer = self._socket.recv(FORK_ANSWER_BYTES)
        if not answer:
            self._is_gone = self.is_broken = True
        return answer


class ForkedChild(Child):
    """A heat that was forked from a template, below a guardian of its own. Its environment is the template's."""

    def __init__(self, template: HeatTemplate, sandbox: Sandbox | None = None) -> None:
        self._from = template
        super().__init__({}, sandbox=sandbox)
        self.template = template.told

    def _launch(self, _environment: dict[str, str], descriptors: tuple[int, ...], printing: int) -> int:
        to_child, from_child = descriptors
        return self._from.fork((to_child, from_child, printing), self.sandbox)

    def _collect(self) -> tuple[int | None, int | Missing]:
        return self._from.collect(self.pid)


class HeatTemplates:
    """The templates of a question. A lane's heats are forked from OF_A_LANE of them in turn.

    The first heats of a lane start these templates, so they take no longer than fresh processes. All lanes begin with
    the same template, so that the heats of a round share it where their environments allow.
    """

    def __init__(self) -> None:
        self._made: dict[TemplateKey, HeatTemplate] = {}
        self._broken: list[HeatTemplate] = []
        self._forked: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def begin(self, lane: PlannedLane) -> HeatTemplate | None:
        """Return the template of a lane's next heat, started if it is not there; None if the heat is no fork."""
        if not may_fork(lane):
            return None
        key = self._next_key(lane)
        if self._is_refused(key):
            return None
        found = self._made.pop(key, None)
        if found is not None and found.is_broken:
            self._broken.append(found)
            found = None
        if found is None:
            if not self._make_room():
                return None
            found = HeatTemplate(lane, next(self._numbers))
        self._made[key] = found  # the last one: it was used last
        self._forked[lane.name] += 1
        return found

    def begin_ahead(self, lane: PlannedLane) -> bool:
        """Start the template of a lane's next heat, and wait for nothing. Return whether one was started."""
        key = self._next_key(lane)
        if not may_fork(lane) or key in self._made or self._is_refused(key) or not self._make_room():
            return False
        self._made[key] = HeatTemplate(lane, next(self._numbers))
        return True

    def missing(self, lanes: Iterable[PlannedLane]) -> int:
        """Return how many templates the next heats of these lanes would have to start."""
        wanted = {self._next_key(lane) for lane in lanes if may_fork(lane)} - self._made.keys()
        return sum(not self._is_refused(key) for key in wanted)

    def _is_refused(self, key: TemplateKey) -> bool:
        return any(each.refuses and of[1:] == key[1:] for of, each in self._made.items())

    def _next_key(self, lane: PlannedLane) -> TemplateKey:
        return (self._forked[lane.name] % OF_A_LANE, lane.framework, *_start_conditions(lane))

    def close(self) -> None:
        """End all templates."""
        while self._made:
            self._broken.append(self._made.popitem()[1])
        while self._broken:
            self._broken.pop().close()

    def _make_room(self) -> bool:
        """Return whether there is room for another one. That may end the one that was not used for longest.

        One that has forks which are alive is kept: they would end with it.
        """
        if len(self._made) >= TEMPLATES_MOST:
            idle = next((key for key, each in self._made.items() if not each.forks), None)
            if idle is None:
                return False
            self._made.pop(idle).close()
        free_bytes = available_memory_bytes()
        return isinstance(free_bytes, Missing) or free_bytes > ROOM_BYTES


def may_fork(lane: PlannedLane) -> bool:
    """Whether a lane's heats may be forked here.

    Elsewhere than on Linux no process can adopt another, and the system's own libraries do not bear a fork.
    """
    return sys.platform.startswith("linux") and lane.may_fork


def _start_conditions(lane: PlannedLane) -> TemplateKey:
    """Return what a process has from its start on: its environment, its folder, and its cores."""
    cores: tuple[int, ...] = ()
    with contextlib.suppress(OSError):
        cores = tuple(sorted(os.sched_getaffinity(0)))
    folder = ""
    with contextlib.suppress(OSError):
        folder = os.getcwd()  # noqa: PTH109  it may be gone
    return tuple(sorted(environment_of(lane.environment).items())), cores, folder
