"""One heat of a script that nobody changed: its agent holds it at the ends of iterations, and the loop times windows.

The script is started, and its first iterations show what one consists of: how many steps of optimizers, how many
batches. Their losses are its proof. From then on it is a training like any other, whose steps another process takes.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from laptime.analysis.script_process import ProcessReader, read_hello
from laptime.analysis.script_units import why_unseen
from laptime.attach import kinds
from laptime.attach.listener import ListeningSocket, Mailbox
from laptime.attach.setting import LOOK_ONLY
from laptime.engine import wire
from laptime.engine.backends.base import UnseenWeights
from laptime.engine.heat import script_settings
from laptime.engine.heat.loop import ParentLine, PartFacts, measure, warm_up_s
from laptime.engine.heat.script_symptoms import NO_DATALOADER, is_replayable, read_symptoms, seen_of
from laptime.engine.heat.script_terminal import Terminal
from laptime.engine.heat.script_visitor import HeldScript, Visitor, now_ns
from laptime.engine.heat.script_work import NOT_COUNTABLE, find_loading
from laptime.model.errors import LaneError, TrainingError
from laptime.model.plan import HeatOrder, Pace, PlannedLane
from laptime.model.quantities import Missing
from laptime.model.sample import AS_THE_SCRIPT, ProofRun
from laptime.model.symptoms import (
    DenormalCensus,
)

WRONG_ARGUMENTS = 2  # the exit code of argparse, click and most others
LEARNT = 3  # whole iterations, which show what one consists of
PROOF_STEPS = 10  # whose losses are compared
LINES_ITERATIONS = 4  # in which the lines of a script are timed: from behind a step to behind the next but one
LATER_STEP = 32  # whose loss is read as well, where the first steps took less than LATER_S
LATER_S = 1.0
PROOF_S = 5.0  # slow steps: so long at most, once enough was learnt
REPLAYED = {"one": 1, "cached": 8}  # batches that are fetched again and again
PREFETCHED = 2  # batches of a worker by default
WHOLE_ENDS = 0.05  # how near to a whole number the ends per iteration are
NO_PARTS = Missing("a script is not taken apart: laptime watch shows the parts of its steps")
NO_COUNT = "no denormal numbers of it were counted: it was too short, or its weights are no float32 on a processor"
ONE_EACH = "the size of its batches was not seen: each iteration counts as one item"


class EnoughStepsError(Exception):
    """As many steps were timed as were wanted."""


class ScriptRunner(UnseenWeights):
    """Lets the script take steps. What its agent measured is the time; gaps between iterations are no steps."""

    evaluator = None
    holds = False
    ranks = None

    def __init__(self, script: RacedScript, ends: float, ready: int, pace: Pace) -> None:
        self.ready_batches = ready
        self.outside_ns = 0
        self._script = script
        self.ends = ends
        self.stride = script.leader.reader.at_once
        self._taken = 0 if script.leader.held is None else script.leader.held.taken
        self._gaps_s = script.leader.reader.progress.gaps_s
        self._left = pace.steps_most
        self.last: HeldScript | None = None
        self.timed = 0  # windows that came to their end
        self.steps = 0  # so far
        self.between_s = 0.0  # what the script did between them

    def run(self, steps: int) -> None:
        began_ns = now_ns()
        held = self.last = self._script.go_on(max(1, round(steps * self.ends)))
        gaps_s = self._script.leader.reader.progress.gaps_s
        in_steps_ns = held.at_ns - held.since_ns - held.idle_ns - round((gaps_s - self._gaps_s) * 1e9)
        self.steps += steps
        self.between_s += gaps_s - self._gaps_s
        self._gaps_s = gaps_s
        if held.taken > self._taken:  # Keras's last call of an epoch takes fewer steps: as if it took as many as all
            in_steps_ns = round(in_steps_ns * steps / (held.taken - self._taken))
            self._taken = held.taken
        self.outside_ns += now_ns() - began_ns - in_steps_ns

    def time_lines(self) -> None:
        """Let the script take a few iterations whose lines are timed. They count in no window."""
        self._script.go_on(max(1, round(LINES_ITERATIONS * self.ends)), kinds.TIME_LINES)
        held = self.last = self._script.go_on(math.ceil(2 * self.ends))  # past the gap that these are
        self._taken = max(held.taken, self._taken)
        self._gaps_s = self._script.leader.reader.progress.gaps_s

    def run_marked(self, steps: int) -> Sequence[object]:
        if self._left is not None:
            if self._left <= 0:
                raise EnoughStepsError
            self._left -= steps
        self.run(steps)
        self.timed += 1
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def fence(self) -> None:
        """The agent waits for the devices before it asks how to go on."""

    def loss(self) -> float | None:
        """Return the loss of the last iteration, where it was read there; else the last one that was seen."""
        if self.last is not None and self.last.loss is not None:
            return self.last.loss
        losses = self._script.leader.reader.losses
        return losses[-1] if losses else None

    def device_memory_bytes(self) -> int | Missing:
        return _known(None if self.last is None else self.last.device_bytes)

    def repeat(self) -> None:
        raise AssertionError("a script's loader keeps no items that laptime knows of")

    def parts(self) -> Missing:
        return NO_PARTS

    def close(self) -> tuple[str, ...]:
        return ()


def run_script(order: HeatOrder, line: ParentLine) -> None:
    """Run the script until the parent has heard enough, or to its end, and report the memory that it held."""
    lane = order.lane
    line.say(wire.Phase("build", now_ns()))
    sets = script_settings.list_sets(lane.settings)
    words = {"seed": str(order.seed), **sets, **({LOOK_ONLY: "1"} if order.breakdown else {})}
    own = os.path.dirname(order.subject.file or "")  # noqa: PTH120  of a whole command, nothing is known
    with RacedScript(order.subject.command, words, order.seen_within_s, own) as script:
        runner = _make_runner(script, order, line)
        line.say(wire.Phase("timing", now_ns()))
        reader = script.leader.reader
        try:
            is_own_loop = not isinstance(reader.places, Missing)
            if order.breakdown and is_own_loop:
                runner.time_lines()  # now: the script may end in its windows
            facts = PartFacts(
                _steps_per_lap(script.leader), warm_up_s(lane.device), runner.device_memory_bytes, _steps_taken(reader)
            )
            _switch_input(script, runner, lane)
            measure(now_ns, runner, order.pace, line, facts)
            if order.breakdown and reader.trained_loader is not None:
                if not is_own_loop:
                    runner.time_lines()  # they count as all others do there
                script.leader.is_counted = False  # what follows is no part of the script's iterations
                if is_replayable(reader):
                    runner.last = script.go_on(1, kinds.FETCH_AGAIN)
            if order.counts_work:
                script.leader.is_counted = False
                line.say(_count_work(script, runner))
        except ScriptEnded as ended:
            if not runner.timed:
                raise TrainingError(_why_too_short(script, ended, script.leader.reader.progress.iterations)) from None
            line.say(wire.Noted((f"the script ended {_code_words(ended)}, before it was stopped",)))
        except EnoughStepsError:
            pass
        if reader.census is not None or reader.types:
            line.say(wire.Counted(replace(reader.census or DenormalCensus(unseen=NO_COUNT), types=reader.types)))
        line.say(wire.Between(round(runner.between_s * 1e9), runner.steps))
        line.say(wire.Phase("end", now_ns()))
        if order.breakdown:
            line.say(wire.Signed(read_symptoms(script.leader, runner.last, lane.device), seen_of(script.leader)))
    peak_bytes = None if runner.last is None else runner.last.peak_bytes
    line.say(wire.Finished(_known(peak_bytes), runner.device_memory_bytes()))


def _count_work(script: RacedScript, runner: ScriptRunner) -> wire.Worked:
    """Count the operators of an iteration, which no window has. The agent can, where PyTorch computes."""
    loading = find_loading(script.leader.reader)  # before the counted iteration, which takes longer
    runner.last = held = script.go_on(max(1, round(runner.ends)), kinds.COUNT_WORK)
    if held.work is None:
        return wire.Worked(None, NOT_COUNTABLE)
    return wire.Worked(replace(held.work, loading=loading))


def _make_runner(script: RacedScript, order: HeatOrder, line: ParentLine) -> ScriptRunner:
    """Run the first iterations, and report what the script is."""
    proof = _learn(script, line, waits=order.pace.takes_turns)
    visitor = script.leader
    progress = visitor.reader.progress
    _check(visitor, order.lane)
    ends, notes = _ends_per_step(visitor.reader)
    items = round(progress.items / progress.fetches * _batches_per_step(visitor.reader)) if progress.fetches else 0
    notes = (*notes, *([] if items else [ONE_EACH]))
    parameters = sum(visitor.reader.parameters.values())
    line.say(wire.Built(parameters, items or 1, _steps_per_lap(visitor), visitor.reader.hello.versions, notes))
    line.say(wire.Proved(proof))
    line.say(wire.FirstStep(progress.first_ns))
    loader = visitor.reader.trained_loader
    ready = 0
    if loader is not None:
        workers = loader.workers or 0
        ready = workers * (loader.prefetched or PREFETCHED) if loader.queue is None else loader.queue + workers
    return ScriptRunner(script, ends, ready, order.pace)


def _learn(script: RacedScript, line: ParentLine, *, waits: bool) -> ProofRun:
    """Let the script take its first steps one by one. Return their losses, and how the lengths of its weights changed.

    One that takes turns `waits` after the first step: the others still start, and nothing is to run next to a proof.

    Where Keras's logs have the losses, the one of a later step is read, too: what takes that many steps in a call is
    compared there.

    Lengths are of the first hold and the last one: what trains less, or at another rate, changes them otherwise.
    """
    steps = 0
    began_s = time.monotonic()
    try:
        holds = [script.wait()]
        if waits:
            line.say(wire.Ready())
            line.listen()
        line.say(wire.Phase("proof", now_ns()))
        began_s = time.monotonic()
        while True:
            reader = script.leader.reader
            steps = holds[-1].taken or len(holds)
            enough = steps >= PROOF_STEPS or time.monotonic() - began_s > PROOF_S
            if enough and reader.progress.iterations >= LEARNT:
                break
            holds.append(script.go_on(1))
        held = holds[-1]
        later: list[HeldScript] = []
        is_fast = time.monotonic() - began_s < LATER_S
        if held.taken and reader.at_once == 1 and not reader.losses and is_fast and held.taken < LATER_STEP:
            later.append(script.go_on(LATER_STEP - held.taken))
    except ScriptEnded as ended:
        raise TrainingError(_why_too_short(script, ended, steps)) from None
    except NothingSeen:
        raise TrainingError(_why_nothing_seen(script, began_s)) from None
    losses = tuple(reader.losses[:PROOF_STEPS])
    after: tuple[int, ...] = ()
    if not losses:
        read = [(hold.taken, hold.loss) for hold in (*holds[:PROOF_STEPS], *later) if hold.loss is not None]
        losses = tuple(loss for _, loss in read)
        after = tuple(step for step, _ in read) if held.taken else ()
    first = holds[0].lengths
    is_measured = len(first) == len(held.lengths)
    moves = tuple(last - before for before, last in zip(first, held.lengths, strict=True)) if is_measured else ()
    return ProofRun(AS_THE_SCRIPT, losses, math.hypot(*first), 0.0, moves, after=after)


def _why_too_short(script: RacedScript, ended: ScriptEnded, steps: int) -> str:
    how = _code_words(ended)
    if not script.has_greeted:
        return f"the script ended {how}, and no Python process of it reported to laptime"
    if not steps:
        python = script.first.reader.hello
        ran_in = f"it ran in {python.executable} (Python {python.python})"
        wrong = ". Its own arguments go behind --" if ended.code == WRONG_ARGUMENTS else ""
        if ended.code:
            return f"the script failed: it ended {how} before it trained; {ran_in}{wrong}"
        return f"the script ended {how}, and {why_unseen(script.versions)}; {ran_in}"
    if ended.code:
        return f"the script failed: it ended {how} before a step of it was timed"
    return f"the script ended {how} after {steps} steps, too few to time: give it more epochs or data"


def _why_nothing_seen(script: RacedScript, began_s: float) -> str:
    passed = f"after {time.monotonic() - began_s:.0f} s"
    if not script.has_greeted:
        return f"{passed}, no Python process of the script had reported to laptime"
    return f"{passed}, {why_unseen(script.versions)}. If it begins later, give the race a longer budget: --budget 10m"


def _code_words(ended: ScriptEnded) -> str:
    return "its training" if ended.code is None else f"with exit code {ended.code}"


def _check(visitor: Visitor, lane: PlannedLane) -> None:
    """Raise LaneError if the script does not do what the lane is named for."""
    threads = None if visitor.held is None or lane.device.kind != "cpu" else visitor.held.threads
    why = script_settings.find_unset(
        lane.settings, visitor.set, visitor.not_set, visitor.reader.trained_loader, threads
    )
    if why is not None:
        raise LaneError(why)
    kinds_used = {name.partition(":")[0] for name in visitor.reader.parameters}
    if kinds_used and lane.device.kind not in kinds_used:
        used = " and ".join(sorted(kinds_used))
        raise LaneError(
            f"the script trains on {used}, although it could see {lane.device.name}; "
            "add its own option for the device behind --"
        )


def _ends_per_step(reader: ProcessReader) -> tuple[float, tuple[str, ...]]:
    """Return how many ends are counted in a step: usually one, as often as several optimizers step otherwise.

    Where Keras takes several steps in a call, an end is that of a call.
    """
    progress = reader.progress
    if reader.at_once > 1:
        return 1 / reader.at_once, ()
    ends = (progress.updates or progress.backwards or progress.iterations) / progress.iterations
    if abs(ends - round(ends)) <= WHOLE_ENDS and round(ends) >= 1:
        return float(round(ends)), ()
    return ends, (f"an iteration has {ends:.1f} optimizer steps, so that a window may end within one",)


def _steps_per_lap(visitor: Visitor) -> int | None:
    loader = visitor.reader.trained_loader
    progress = visitor.reader.progress
    if loader is None or not loader.batches or not progress.fetches:
        return None
    return max(1, round(loader.batches / _batches_per_step(visitor.reader)))


def _steps_taken(reader: ProcessReader) -> int:
    return reader.progress.updates if reader.at_once > 1 else reader.progress.iterations


def _batches_per_step(reader: ProcessReader) -> int:
    """Return how many batches a step takes; the first ones may have fetched one ahead."""
    return max(1, round(reader.progress.fetches / _steps_taken(reader)))


def _switch_input(script: RacedScript, runner: ScriptRunner, lane: PlannedLane) -> None:
    """Begin to replay batches, or to fetch only, if that is the lane."""
    wanted = lane.settings.input
    visitor = script.leader
    if wanted not in {*REPLAYED, "only"}:
        return
    if not is_replayable(visitor.reader):
        raise LaneError(NO_DATALOADER)
    if wanted == "only":
        visitor.is_counted = False
        runner.ends = _batches_per_step(visitor.reader)
        script.go_on(1, kinds.LOADER_ALONE)
    else:
        runner.ready_batches = REPLAYED[wanted]
        script.go_on(1, kinds.REPLAY, REPLAYED[wanted])


def _known(figure: int | None) -> int | Missing:
    return Missing("it was not seen in the script") if figure is None else figure


# A script that is raced: start it, hear its agents, let it go on for some iterations, and stop it.

AGENT_SITE = Path(kinds.__file__).parent / "site"
SCRIPT_CHUNK_BYTES = 1 << 18
SCRIPT_LOOK_S = 0.5  # how long at most until the script's end is seen
SCRIPT_LAST_WORDS_S = 0.2  # after its end, what it sent is on its way
CALLS_AGAIN_S = 2.0  # a script may close the connection of its agent, which then calls again
SCRIPT_LEAVES_S = 10.0  # to leave with its exit code once its training has ended: an error is said by that alone
SIGNAL_GRACE_S = 3.0  # after each of the signals that ask it to end
ENDS_BY = (signal.SIGINT, signal.SIGTERM)


class ScriptEnded(Exception):  # noqa: N818  it is not one of laptime's errors
    """The script ended, or what trains in it did. `code` is its exit code, if it has one."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class NothingSeen(Exception):  # noqa: N818  it is not one of laptime's errors
    """The script runs, and no training of it began in time."""


class RacedScript:
    """One run of a script. One of its processes is held between windows: the first that trains, of rank 0."""

    def __init__(
        self, command: Sequence[str], sets: Mapping[str, str], seen_within_s: float | None = None, own: str = ""
    ) -> None:
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
            command = script_settings.change_a_line(command, sets)
            paths = [str(AGENT_SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                kinds.ADDRESS: self._server.address,
                kinds.HOLDS_VARIABLE: "1",
                kinds.OWN_MODULES: own,
                kinds.SET: ",".join(f"{name}={value}" for name, value in sets.items()),
            }
            self._process = _start(command, environment, self._terminal)
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
        return {name for visitor in self._visitors.values() for name in visitor.reader.hello.versions}

    def wait(self) -> HeldScript:
        """Wait until the script is held. Raise ScriptEnded if it ends before, NothingSeen if it trains too late."""
        while True:
            self._hear_all(SCRIPT_LOOK_S)
            if self._leader is not None and self._leader.held is not None:
                return self._leader.held
            code = self._process.poll()
            if code is not None:
                self._hear_all(SCRIPT_LAST_WORDS_S)
                if self._leader is None or self._leader.held is None:
                    raise ScriptEnded(code)
            is_gone = self._peer is None and time.monotonic() > self._hung_up_s + CALLS_AGAIN_S
            if self._leader is not None and (self._leader.has_left or is_gone):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._process.wait(SCRIPT_LEAVES_S)
                raise ScriptEnded(code)
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
                    self._process.wait(SIGNAL_GRACE_S)
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
                with contextlib.suppress(OSError):
                    peer = self._server.accept()
                    if peer is not None:
                        self._selector.register(peer, selectors.EVENT_READ, Mailbox(self))
            elif not self._terminal.hear():
                self._selector.unregister(key.fileobj)

    def _hear(self, key: selectors.SelectorKey) -> None:
        peer: socket.socket = key.fileobj  # type: ignore[assignment]
        mailbox: Mailbox = key.data
        try:
            data = peer.recv(SCRIPT_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or not mailbox.take(data):
            self._selector.unregister(peer)
            peer.close()
            if peer is self._peer:
                self._peer = None
                self._hung_up_s = time.monotonic()
            return
        visitor = mailbox.reader
        if self._leader is not None and visitor is self._leader:
            self._peer = peer
        if isinstance(visitor, Visitor) and visitor.held is not None and visitor is not self._leader:
            # The first that may lead does so, and all others go on for good.
            if self._leader is None and visitor.may_lead:
                self._leader = visitor
                self._peer = peer
            else:
                visitor.held = None
                self._answer(peer, kinds.FREE, 0, 0)

    def _answer(self, peer: socket.socket, *numbers: int) -> None:
        with contextlib.suppress(OSError):  # it is gone, and its end is seen next
            peer.sendall(struct.pack(kinds.ANSWER, *numbers))


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
