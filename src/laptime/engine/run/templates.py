"""Templates: processes that have imported a framework, from which heats are forked (laptime.engine.heat.template says
how).

A template serves the lanes that have its framework and exactly its environment: a library reads its variables as it is
loaded, so another environment takes another process, but for what a fork can still take. A race takes turns with
several of them, because the heats of one share what a process draws at random as it starts. They begin with the first
scout, which is a fork of one, so that what it imports is imported once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar

from laptime.engine import wire
from laptime.engine.run.child import GUARDIAN_WORDS, Child, Silence, environment_of, sandbox_variables
from laptime.machine.look import available_memory_bytes
from laptime.model.errors import LaneError, WireError
from laptime.model.frameworks import find_framework
from laptime.model.plan import PlannedLane
from laptime.model.process import MALLOC_PARAMETERS, Sandbox, Template
from laptime.model.quantities import Missing

OF_A_LANE = 2  # templates that a lane's heats are forked from, in turn
TEMPLATES_MOST = 12  # templates at once: each holds some 250 MB, half of them memory that its forks share
ROOM_BYTES = 2 << 30  # a further template is started where more than this is free
FORK_ANSWER_S = 10.0  # a fork takes 10 ms
FORK_ANSWER_BYTES = 4096
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

TemplateKey = tuple[object, ...]


class HeatTemplate:
    """One template process, and the socket on which it is asked for heats."""

    def __init__(self, framework: str, environment: dict[str, str], number: int) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(FORK_ANSWER_S)
        with theirs:
            try:
                self._child = Child(environment, (theirs.fileno(),))
            except BaseException:
                self._socket.close()
                raise
        self._number = number
        self._child.say(wire.Warm(framework))
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
                        start_s = (phases["import"] - self._child.began_ns) / 1e9
                        import_s = (phases["held"] - phases["import"]) / 1e9
                        self.told = Template(self._number, start_s, import_s)
                    case None | wire.Failed():
                        self.is_broken = True
        except (Silence, WireError):
            self.is_broken = True
        return not self.is_broken

    def fork(self, descriptors: tuple[int, int, int], environment: Mapping[str, str]) -> int:
        """Fork a heat with these pipes, and a guardian that reports to the last one. Return the guardian's number.

        Both get these variables in addition to the template's.
        """
        variables = [f"{name}={value}" for name, value in environment.items()]
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
    """A heat that was forked from a template, below a guardian of its own.

    Its environment is the template's, and what a fork takes of that of a lane.
    """

    def __init__(
        self, template: HeatTemplate, environment: Mapping[str, str] | None = None, sandbox: Sandbox | None = None
    ) -> None:
        self._from = template
        super().__init__(_part(environment or {})[1], sandbox=sandbox)
        self.template = template.told

    def _launch(self, environment: dict[str, str], descriptors: tuple[int, ...], printing: int) -> int:
        to_child, from_child = descriptors
        return self._from.fork((to_child, from_child, printing), environment | sandbox_variables(self.sandbox))

    def _collect(self) -> tuple[int | None, int | Missing]:
        return self._from.collect(self.pid)


class HeatTemplates:
    """The templates of a question. A lane's heats are forked from OF_A_LANE of them in turn.

    All lanes begin with the same template, so that the heats of a round share it where their environments allow.
    `usual_s` is how long the last of them took to start and to import.
    """

    def __init__(self) -> None:
        self._made: dict[TemplateKey, HeatTemplate] = {}
        self._broken: list[HeatTemplate] = []
        self._forked: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def begin_for_scout(self, framework: str, environment: dict[str, str]) -> HeatTemplate | None:
        """Return a template from which a scout can be forked, or None; a second one starts on another core.

        Heats that need this environment are forked from both.
        """
        if not (sys.platform.startswith("linux") and find_framework(framework).forks_on):
            return None
        with contextlib.suppress(LaneError):  # a scout that is no fork will report it
            for place in range(min(OF_A_LANE, _count_cores())):
                self._start((place, framework, *_start_conditions(environment)), framework, environment)
        return self._made.get((0, framework, *_start_conditions(environment)))

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
        if found is not None:
            self._made[key] = found  # the last one: it was used last
        elif not self._start(key, lane.framework, lane.environment):
            return None
        self._forked[lane.name] += 1
        return self._made[key]

    def begin_ahead(self, lane: PlannedLane, heats: int) -> bool:
        """Start the template of a heat that comes after this many others. Wait for nothing; return whether it did."""
        key = self._next_key(lane, heats)
        if not may_fork(lane) or key in self._made or self._is_refused(key):
            return False
        return self._start(key, lane.framework, lane.environment)

    def settle(self, deadline: float) -> None:
        """Wait until all that were started have imported: nothing may do so while a heat is timed."""
        for template in self._made.values():
            template.make_ready(deadline)

    def missing(self, lanes: Iterable[PlannedLane]) -> int:
        """Return how many templates the next heats of these lanes would have to start."""
        wanted = {self._next_key(lane) for lane in lanes if may_fork(lane)} - self._made.keys()
        return sum(not self._is_refused(key) for key in wanted)

    @property
    def usual_s(self) -> float:
        times = [template.told for template in self._made.values() if template.told is not None]
        return times[-1].start_s + times[-1].import_s if times else 0.0

    def _start(self, key: TemplateKey, framework: str, environment: dict[str, str]) -> bool:
        """Start a template if it is not there and there is room. Return whether it is there now."""
        if key in self._made:
            return True
        if len(self._made) >= TEMPLATES_MOST:
            # End the one that was not used for longest. One whose forks are alive is kept: they would end with it.
            idle = next((other for other, template in self._made.items() if not template.forks), None)
            if idle is None:
                return False
            self._made.pop(idle).close()
        free_bytes = available_memory_bytes()
        if not isinstance(free_bytes, Missing) and free_bytes <= ROOM_BYTES:
            return False
        self._made[key] = HeatTemplate(framework, _part(environment)[0], next(self._numbers))
        return True

    def _is_refused(self, key: TemplateKey) -> bool:
        return any(template.refuses and of[1:] == key[1:] for of, template in self._made.items())

    def _next_key(self, lane: PlannedLane, heats: int = 0) -> TemplateKey:
        return ((self._forked[lane.name] + heats) % OF_A_LANE, lane.framework, *_start_conditions(lane.environment))

    def close(self) -> None:
        while self._made:
            self._broken.append(self._made.popitem()[1])
        while self._broken:
            self._broken.pop().close()


def may_fork(lane: PlannedLane) -> bool:
    """Whether a lane's heats may be forked here.

    Elsewhere than on Linux no process can adopt another, and the system's own libraries do not bear a fork.
    """
    return sys.platform.startswith("linux") and lane.may_fork


_current: ContextVar[HeatTemplates | None] = ContextVar("templates of a question", default=None)


@contextlib.contextmanager
def templates_of_a_question() -> Iterator[None]:
    """Keep the templates of its scouts for its heats, and end them all at the end."""
    templates = HeatTemplates()
    before = _current.set(templates)
    try:
        yield
    finally:
        _current.reset(before)
        templates.close()


def templates_in_use() -> HeatTemplates | None:
    """Return the templates of the question that runs; None outside of one."""
    return _current.get()


def _start_conditions(environment: dict[str, str]) -> TemplateKey:
    """Return what a process has from its start on: its environment, its folder, and its cores."""
    cores: tuple[int, ...] = ()
    with contextlib.suppress(OSError):
        cores = tuple(sorted(os.sched_getaffinity(0)))
    folder = ""
    with contextlib.suppress(OSError):
        folder = os.getcwd()  # noqa: PTH109  it may be gone
    return tuple(sorted(environment_of(_part(environment)[0]).items())), cores, folder


def _part(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Part the variables that a process needs as it starts from those that a fork can still take.

    These are malloc's parameters, and as many threads as libraries begin with in any case: one for each core.
    """
    is_usual = not any(name in os.environ for name in THREAD_VARIABLES)

    def is_late(name: str) -> bool:
        return name in MALLOC_PARAMETERS or (
            name in THREAD_VARIABLES and is_usual and environment[name] == str(_count_cores())
        )

    return (
        {name: value for name, value in environment.items() if not is_late(name)},
        {name: value for name, value in environment.items() if is_late(name)},
    )


def _count_cores() -> int:
    """Count the cores that this process may use, as OpenMP does. Forks are made on Linux alone."""
    with contextlib.suppress(OSError, AttributeError):
        return len(os.sched_getaffinity(0))
    return 1
