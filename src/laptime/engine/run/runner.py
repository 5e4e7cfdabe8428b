"""Follow one child to its end, whether it finishes or not: the common part of all process runs.

Each kind of run (`HeatRunner`, `InferenceRunner`, `TrainingRunner`, `ProfileRunner` and others) stores what its
messages hold, answers them, and decides how long the next silence may be.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from laptime.engine import wire
from laptime.engine.run.child import AnyChild, Ended, Silence, Tell, WindowReader, hear_with_signs
from laptime.engine.run.instruments import Sampler, flag_halts
from laptime.model.errors import NodeGoneError, WireError
from laptime.model.hardware import StepWork
from laptime.model.plan import HeatOrder
from laptime.model.process import PROCESS_NOT_FINISHED, Dnf, ProcessRun, ProcessStatus, Timeline
from laptime.model.quantities import Missing, brief
from laptime.model.sample import Examination, FreshSteps, Heat, LateStep, Noise, ProofRun, Window
from laptime.model.script import ScriptProcess
from laptime.model.secrets import hide, list_secrets
from laptime.model.symptoms import DenormalCensus, StepSymptoms, find_refusal

MEDIANS_OF_SILENCE = 20
FIRST_STEPS_OF_SILENCE = 12  # at first only the first step is known, and it may have used a ready batch
UNTIMED = {"import", "held", "build", "proof"}
COMPILING_EXECUTIONS = ("compile", "compiled_graph")  # executions whose first step compiles
OWN_CLOCK = Missing("the heat has a clock of its own: no reading can be matched with its windows")
NO_WATCH = Missing("no reading before the window")
NOISE_NOT_WATCHED = Noise(NO_WATCH, NO_WATCH, NO_WATCH)
CRASHES = {"SIGSEGV", "SIGABRT", "SIGBUS"}


@dataclass(frozen=True, slots=True)
class Started:
    """A child without an order yet: its messages so far, and what broke the connection, if that happened."""

    child: AnyChild
    heard: tuple[wire.FromChild, ...] = ()
    broken: WireError | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a message: `patience_s` until timing begins, then `watchdog_s` (or 20 medians)."""

    patience_s: float = 600.0
    watchdog_s: float = 60.0


class ProcessRunner:
    """Runs one order in one child, and stores what the child reports."""

    def __init__(self, lane: str, limits: Limits, sampler: Sampler | None = None) -> None:
        self.lane = lane
        self.limits = limits
        self.sampler = sampler
        self.started_ns = 0
        self.built: wire.Built | None = None
        self.proofs: list[ProofRun] = []
        self.first_step_ns: int | None = None
        self.phases: list[tuple[str, int]] = []
        self.noted: tuple[str, ...] = ()
        self.reaches: tuple[str, ...] | None = None
        self.finished: wire.Finished | None = None
        self.failed: wire.Failed | None = None
        self.shares_our_clock = True
        self.turn: int | None = None  # the one that is played; None where the heat runs alone
        self._paused_ns: Counter[str] = Counter()  # by the phase in which it was
        self.device_memory_bytes: int | Missing = wire.NOT_TOLD
        self.timeline: Timeline | None = None
        self.printed = ""  # the end of what the child printed, once it has ended
        self.secrets: tuple[str, ...] = ()  # of the command that it runs, which may print them
        self._child: AnyChild | None = None
        self._broken: WireError | None = None
        self._is_gone = False
        self._is_ended = False

    def note(self, message: wire.FromChild) -> None:
        """Store what a message holds. Subclasses store more."""
        match message:
            case wire.Phase(name=name, at_ns=at_ns):
                self.phases.append((name, at_ns))
                self.shares_our_clock &= self.child.has_lived_at(at_ns)
            case wire.Confined(reaches=reaches):
                self.reaches = reaches
            case wire.Built():
                self.built = message
            case wire.Proved(run=run):
                self.proofs.append(run)
            case wire.FirstStep(ns=ns):
                self.first_step_ns = ns
            case wire.Noted(notes=notes):
                self.noted = (*self.noted, *notes)
            case wire.Ready(device_memory_bytes=held):
                self.device_memory_bytes = held
            case wire.Finished():
                self.finished = message
            case wire.Failed(reason=reason, source=source):
                self.failed = msgspec.structs.replace(
                    message, reason=hide(reason, self.secrets), source=hide(source, self.secrets)
                )
            case _:
                pass

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        """React to a message that was noted."""

    def wait_s(self) -> float:
        """Return how long to wait for the next message."""
        return self.limits.patience_s

    def end(self) -> None:
        """Close what was opened for the run."""

    @property
    def may_show(self) -> bool:
        """Whether nothing is timed in the child, so that something may be shown next to it."""
        return False

    def show(self) -> None:
        """Show that the child still works."""

    @property
    def works(self) -> bool:
        """Whether the training ran its proof, or took its first step."""
        return bool(self.proofs) or self.first_step_ns is not None

    def count_pause(self, ns: int) -> None:
        """Count a pause that has ended: it is no time of the phase in which it was."""
        self._paused_ns[self.phase] += ns

    @property
    def paused_ns(self) -> int:
        return self._paused_ns.total()

    @property
    def phase(self) -> str:
        return self.phases[-1][0] if self.phases else "start"

    def follow(self, started: Started, order: wire.FromParent) -> Dnf | None:
        """Send a child its order and follow it to its end. Return why it did not finish, or None."""
        try:
            self.begin(started, order)
            self.hear_on()
        except BaseException:
            self.abandon()
            raise
        return self.finish()

    def begin(self, started: Started, order: wire.FromParent) -> None:
        self._child = started.child
        self._broken = started.broken
        self.started_ns = started.child.started_ns
        if self.sampler is not None:
            self.sampler.begin(started.child.pid)
        for message in started.heard:
            self.note(message)
        if self._broken is None:
            started.child.say(order)

    def hear_on(self, until: type[object] | None = None) -> Sequence[wire.FromChild]:
        """Follow the child until it sends such a message, or until it is over. Return what it sent."""
        heard: list[wire.FromChild] = []
        try:
            while not self.is_over:
                message = (
                    hear_with_signs(self.child, self.wait_s(), self.show)
                    if self.may_show
                    else self.child.hear(self.wait_s())
                )
                if message is None:
                    self._is_gone = True
                    break
                heard.append(message)
                self.note(message)
                self.answer(self.child, message)
                if until is not None and isinstance(message, until):
                    break
        except Silence:
            self._broken = WireError(f"no message for {brief(self.wait_s())} s; stopped")
        except WireError as error:
            self._broken = error
        return heard

    def give_up(self, why: WireError) -> None:
        """Hear no more of the child."""
        self._broken = why

    def finish(self) -> Dnf | None:
        """End the child, and return why it did not finish, or None."""
        try:
            ended = self.child.end(grace_s=0 if self._broken else 5)
            ended = replace(ended, stderr_tail=hide(ended.stderr_tail, self.secrets))
            self.printed = ended.stderr_tail
            return self._judge(ended, self._broken)
        finally:
            self._is_ended = True
            self._close()

    def abandon(self) -> None:
        """End the child at once, if it was started and has not ended."""
        if self._child is not None and not self._is_ended:
            self._is_ended = True
            self._child.abandon()
            self._close()

    @property
    def child(self) -> AnyChild:
        assert self._child is not None
        return self._child

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come: the child finished or failed, or it cannot be heard any more."""
        has_ended = self.finished is not None or self.failed is not None
        return has_ended or self._is_gone or self._broken is not None

    def _close(self) -> None:
        self.end()
        if self.sampler is not None:
            self.timeline = self._on_one_clock(self.sampler.end())

    def process_run(self, dnf: Dnf | None, status: ProcessStatus | None = None) -> ProcessRun:
        """Return what is known of the process so far."""
        built = self.built
        finished = self.finished
        child = self._child
        return ProcessRun(
            lane=self.lane,
            status=status or ("dnf" if dnf else "ok"),
            versions={**built.versions, **(child.versions if child else {})} if built else {},
            parameters=built.parameters if built else None,
            items_per_step=built.items_per_step if built else None,
            phases_s=self._phases_s(),
            notes=tuple(dict.fromkeys((*built.notes, *self.noted))) if built else (),
            dnf=dnf,
            peak_memory_bytes=finished.peak_memory_bytes if finished else PROCESS_NOT_FINISHED,
            device_memory_bytes=finished.device_memory_bytes if finished else PROCESS_NOT_FINISHED,
            timeline=self.timeline,
            node=child.node if child else None,
            template=child.template if child else None,
            reaches=self.reaches,
        )

    def _phases_s(self) -> dict[str, float]:
        """Return how long each phase took, without pauses. `start` is the time until the first phase begins."""
        if not self.phases:
            return {}
        spans = {"start": (self.phases[0][1] - self.child.began_ns) / 1e9}
        for (name, begin), (_, end) in zip(self.phases, self.phases[1:], strict=False):
            spans[name] = spans.get(name, 0.0) + (end - begin) / 1e9
        if self.shares_our_clock:
            spans = {name: took_s - self._paused_ns[name] / 1e9 for name, took_s in spans.items()}
        template = self.child.template
        if template is None:
            return spans
        fork_s = spans.pop("start") + spans.pop("import", 0.0)
        return {"start": template.start_s, "import": template.import_s, "fork": fork_s, **spans}

    def _on_one_clock(self, timeline: Timeline) -> Timeline:
        """Mark the readings if they cannot be compared: a child with its own clock reports times outside the run."""
        return timeline if self.shares_our_clock else replace(timeline, clock=OWN_CLOCK)

    def _judge(self, ended: Ended, broken: WireError | None) -> Dnf | None:
        tail = ended.stderr_tail
        if self.failed is not None:
            failed = self.failed
            peak_bytes = failed.peak_memory_bytes
            return Dnf(failed.phase, failed.reason, None, ended.exit_code, peak_bytes, tail, failed.kind)
        if broken is None and self.finished is not None:
            return None
        if broken is not None:
            sent = None
            reason = str(broken)
            kind = "node" if isinstance(broken, NodeGoneError) else type(broken).__name__
        else:
            sent = ended.signal
            # Why a process ended that sent no reason itself, and of what kind that is. TensorFlow's convolutions on a
            # processor print that memory was refused, go on without it, and end in a SIGSEGV.
            refusal = find_refusal(tail) if ended.signal in CRASHES else ""
            kind = "memory" if refusal or ended.signal == "SIGKILL" else ""
            if refusal:
                reason = f"out of memory: {refusal.rstrip('.')}; a smaller batch needs less"
            elif ended.signal == "SIGKILL":
                reason = "killed by SIGKILL: most often the system ran out of memory"
            else:
                reason = f"ended by {ended.signal}" if ended.signal else "the process ended on its own"
        return Dnf(self.phase, reason, sent, ended.exit_code, ended.peak_memory_bytes, tail, kind)


class WindowWatch:
    """Reads the instruments as each window closes, and flags the windows that were disturbed.

    They are those of the machine on which the heat runs: its child opens them.
    """

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._instruments: WindowReader | None = None

    def open(self, child: AnyChild) -> None:
        self.end()
        self._instruments = child.open_instruments(self._cores)

    def reopen(self) -> None:
        """Forget what happened since the last window: the heat was paused."""
        if self._instruments is not None:
            self._instruments.reopen()

    def close_span(self, ns: int) -> tuple[Noise, str | None]:
        """Return the noise since the last call, and why the span counts as disturbed, or None."""
        if self._instruments is None:
            return NOISE_NOT_WATCHED, None
        noise = self._instruments.close_window()
        return noise, self._instruments.judge(noise, ns)

    def close_window(self, window: Window) -> Window:
        noise, flag = self.close_span(window.end_ns - window.start_ns)
        return replace(window, noise=noise, flag=flag)

    def end(self) -> None:
        if self._instruments is not None:
            self._instruments.close()


def judge_windows(windows: list[Window], *, shares_our_clock: bool) -> tuple[Window, ...]:
    """Flag the window in which the run stood still. With a virtual clock this cannot be seen."""
    return flag_halts(windows) if shares_our_clock else tuple(windows)


# Run one heat of a race in one child. Read the machine's noise after each window; return a Heat whatever happens.

TURN_ANSWERS = (wire.Closed, wire.TurnKept, wire.TurnShown, wire.TurnReplayed)
ANSWERED_FOR = ("laptime.engine.heat",)  # what was replaced, where other code answers
FIRST_WINDOWS_OF_SILENCE = 3  # the child reports before it how long the first one should take


class HeatRunner(ProcessRunner):
    """Runs one heat. `tell` is called with each phase, and each second with one in which nothing is timed."""

    def __init__(
        self, order: HeatOrder, limits: Limits, cores: int, tell: Tell, sampler: Sampler | None = None
    ) -> None:
        super().__init__(order.lane.name, limits, sampler)
        self.secrets = list_secrets(order.subject.command)
        self.order = order
        self._tell = tell
        self._watch = WindowWatch(cores)
        self._windows: list[Window] = []
        self._losses: list[float] = []
        self._first_losses: tuple[float, ...] = ()
        self._examination: Examination | None = None
        self._fresh: FreshSteps | None = None
        self._burst: int | None = None
        self._window_ns = 0
        self.needs: wire.TurnNeeds | None = None
        self.taken = 0
        self._signs: StepSymptoms | None = None
        self._script: ScriptProcess | None = None
        self._census: DenormalCensus | None = None
        self._work: StepWork | None = None
        self._uncounted: str | None = None
        self._late_step: LateStep | None = None
        self.steps_asked: int | None = None  # of the turn that is played
        self.begins: list[int | None] = []  # how many steps it had taken as each turn began
        self.digests: list[str] = []  # of the training's state at the end of each window
        self.replays: list[wire.TurnReplayed] = []  # what came of turns of this heat
        self._early_ns: tuple[int, ...] = ()
        self._between_ms: float | None = None
        self.breached: tuple[str, ...] = ()
        self._reruns = 0
        self._reopened_ns = 0  # by this process's clock; 0 where the heat takes no turns

    def run(self, started: Started, round_number: int) -> Heat:
        """Run the heat in a started child to its end, whether it finishes or not."""
        return self.heat(self.follow(started, self.message), round_number)

    @property
    def message(self) -> wire.Run:
        return wire.Run(self.order)

    def heat(self, dnf: Dnf | None, round_number: int) -> Heat:
        """Return what is known of the heat."""
        return Heat(
            process=self.process_run(dnf),
            order=self.order.number,
            round=round_number,
            steps_per_lap=self.built.steps_per_lap if self.built else None,
            first_step_ns=self.first_step_ns,
            proofs=tuple(self.proofs),
            windows=self._judged_windows(),
            losses=tuple(self._losses),
            examination=self._examination,
            fresh=self._fresh,
            burst=self._burst,
            signs=self._signs,
            script=self._script,
            census=self._census,
            work=self._work,
            uncounted=self._uncounted,
            ranks=self.finished.ranks if self.finished else (),
            exchanges=self.finished.exchanges if self.finished else (),
            first_losses=self._first_losses,
            late_step=self._late_step,
            replays=tuple(replay.replay for replay in self.replays if replay.replay is not None),
            unreplayed=next((replay.reason for replay in self.replays if replay.replay is None), None),
            seed=self.order.seed if self.order.is_fresh else None,
            early_ns=self._early_ns,
            between_ms=self._between_ms,
            changed=(*self.breached, *(self.finished.changed if self.finished else ())),
        )

    def check_answers(self, heard: Sequence[wire.FromChild], wanted: type[wire.FromChild] | None) -> None:
        """End a heat that answers as no code of laptime's does: another's speaks in its name.

        A script may come to its end in any turn.
        """
        if self.order.subject.command or self._broken or self.failed or self._is_gone:
            return
        counts = Counter(map(type, heard))
        if self.finished is not None and wanted is not wire.Finished:
            self._breach("it told its end before it was asked to end")
        elif any(counts[kind] != (kind is wanted) for kind in TURN_ANSWERS):
            answers = sum(counts[kind] for kind in TURN_ANSWERS)
            self._breach(f"it gave {answers} answers where {int(wanted in TURN_ANSWERS)} was asked for")

    def _breach(self, says: str) -> None:
        self.breached = ANSWERED_FOR
        self.give_up(WireError(says))

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        match message:
            case wire.Phase(name=name):
                self._tell(name)
                if name == "timing":
                    self._watch.open(child)
            case wire.Closed(window=window, loss=loss, digest=digest):
                self.digests.append(digest)
                took_ns = time.monotonic_ns() - self._reopened_ns if self._reopened_ns else None
                window = replace(window, turn=self.turn, turn_ns=took_ns if self.shares_our_clock else None)
                self._windows.append(self._watch.close_window(window))
                if self.steps_asked not in {None, window.steps} and not self.order.subject.command:
                    self._breach(f"it was asked to time {self.steps_asked} steps, and reported {window.steps}")
                if loss is not None:
                    self._losses.append(loss)
            case wire.Ready(steps=taken):
                self.taken = taken
                if self.turn is None:
                    # Another window for each disturbed one, up to a limit. The record keeps the disturbed ones.
                    quiet = sum(window.flag is None for window in self._judged_windows())
                    missing = len(self._windows) - self._reruns - quiet
                    wanted = max(0, min(missing, self.order.pace.reruns_max - self._reruns))
                    self._reruns += wanted
                    child.say(wire.Again(wanted) if wanted else wire.Enough())
            case _:
                self._keep(message)

    def _keep(self, message: wire.FromChild) -> None:
        """Store what needs no answer."""
        match message:
            case wire.Examined(examination=examination):
                self._examination = examination
            case wire.Fresh(steps=fresh):
                self._fresh = fresh
            case wire.Paced(window_ns=window_ns, burst=burst, needs=needs):
                self._window_ns = window_ns
                self._burst = burst
                self.needs = needs
            case wire.Counted(census=census):
                self._census = replace(census, step=self.taken + 1)
            case wire.Worked(work=work, uncounted=uncounted):
                self._work = work
                self._uncounted = uncounted
            case wire.Between(ns=ns, steps=steps) if steps > 0:
                self._between_ms = ns / steps / 1e6
            case wire.Early(step_ns=step_ns):
                self._early_ns = step_ns
            case wire.TookLate(step=step):
                self._late_step = step
            case wire.Signed(signs=signs, script=script):
                self._signs = signs
                self._script = script
            case wire.FirstStep(losses=losses):
                self._first_losses = losses
            case _:
                pass

    def wait_s(self) -> float:
        """Return how long to wait. Compiling and first steps may take long; later, 20 median windows are a hang."""
        if self.phase != "timing":
            return self.limits.patience_s
        if not self._windows:
            steps_ns = FIRST_STEPS_OF_SILENCE * (self.first_step_ns or 0)
            return max(self.limits.watchdog_s, steps_ns / 1e9, FIRST_WINDOWS_OF_SILENCE * self._window_ns / 1e9)
        median_ns = statistics.median(window.end_ns - window.start_ns for window in self._windows)
        return max(self.limits.watchdog_s, MEDIANS_OF_SILENCE * median_ns / 1e9)

    def reopen(self) -> None:
        self._reopened_ns = time.monotonic_ns()
        self._watch.reopen()

    @property
    def may_show(self) -> bool:
        compiles = self.phase == "first step" and self.order.lane.settings.execution in COMPILING_EXECUTIONS
        return compiles or self.phase in UNTIMED

    def show(self) -> None:
        self._tell(self.phase)

    def end(self) -> None:
        self._watch.end()

    @property
    def works(self) -> bool:
        """Whether the training works; of a script nothing is known before steps of it were timed."""
        return super().works and (bool(self._windows) or not self.order.subject.command)

    @property
    def windows(self) -> Sequence[Window]:
        return self._windows

    @property
    def is_bursty(self) -> bool:
        """Whether its loader works in bursts, so that the time of a single window is chance."""
        return self._burst is not None

    @property
    def usual_step_ns(self) -> float | None:
        """How long a step takes, for later heats of the lane; None where each has to find bursts of its loader."""
        needs = self.needs
        if needs is None or needs.least > needs.stride or not self._windows:
            return None
        return statistics.median((window.end_ns - window.start_ns) / window.steps for window in self._windows)

    def retime(self, windows: Sequence[Window]) -> None:
        """Take the same windows with other times."""
        self._windows = list(windows)

    def flag_window(self, number: int, flag: str) -> None:
        """Flag a window that nothing else flagged."""
        window = self._windows[number]
        self._windows[number] = replace(window, flag=window.flag or flag)

    def _judged_windows(self) -> tuple[Window, ...]:
        return judge_windows(self._windows, shares_our_clock=self.shares_our_clock)
