"""One heat of a script that nobody changed: its agent holds it at the ends of iterations, and the loop times windows.

The script is started, and its first iterations show what one consists of: how many steps of optimizers, how many
batches. Their losses are its proof. From then on it is a training like any other, whose steps another process takes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from laptime import wire
from laptime.analysis.script_loop import LoopProgress
from laptime.analysis.script_process import ProcessReader
from laptime.analysis.script_unseen import why_unseen
from laptime.attach import kinds
from laptime.backends.base import UnseenWeights
from laptime.errors import LaneError, TrainingError
from laptime.heat.loop import Facts, ParentLine, measure, warm_up_s
from laptime.heat.script_process import HeldScript, NothingSeen, RacedScript, ScriptEnded, Visitor, now_ns
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Pace, PlannedLane
from laptime.model.sample import AS_THE_SCRIPT, ProofRun
from laptime.model.symptoms import MADE_DOUBLE, NO_INPUT, NOT_LOOKED, DenormalCensus, StepSymptoms

SET_INSIDE = ("denormals", "matmul", "workers")  # settings that the agent sets; all others are environment variables
NOT_SET = (None, "keep")
CANNOT_SET = {
    "denormals": "the script imports no PyTorch, or this processor cannot",
    "matmul": "the script imports no PyTorch",
    "workers": "the script makes no DataLoader of items by number",
}
WRONG_ARGUMENTS = 2  # the exit code of argparse, click and most others
LEARNT = 3  # whole iterations that show what one consists of
PROOF_STEPS = 10
PROOF_S = 5.0  # slow steps: so long at most, once enough was learnt
REPLAYED = {"one": 1, "cached": 8}  # batches that are fetched again and again
PREFETCHED = 2  # batches of each worker, where a loader does not say
WHOLE = 0.05  # how near to a whole number the ends per iteration have to be
NO_PARTS = Missing("a script is not taken apart: laptime watch shows the parts of its steps")
NO_DATALOADER = "its batches come from no DataLoader of PyTorch, so they cannot be replayed or fetched alone"
NO_COUNT = "no denormal numbers of it were counted: it was too short, or its weights are no float32 on a processor"
ONE_EACH = "the size of its batches was not seen: each iteration counts as one item"


class EnoughStepsError(Exception):
    """As many steps were timed as were wanted."""


class ScriptRunner(UnseenWeights):
    """Lets the script take steps. What its agent measured is the time; gaps between iterations are no steps."""

    stride = 1
    evaluator = None
    holds = False
    ranks = None

    def __init__(self, script: RacedScript, ends: float, ready: int, pace: Pace) -> None:
        self.ready_batches = ready
        self.outside_ns = 0
        self._script, self.ends = script, ends
        self._gaps_s = script.leader.reader.progress.gaps_s
        self._left = pace.steps_most
        self.last: HeldScript | None = None
        self.timed = 0  # windows that came to their end

    def run(self, steps: int) -> None:
        began_ns = now_ns()
        held = self.last = self._script.go_on(max(1, round(steps * self.ends)))
        gaps_s = self._script.leader.reader.progress.gaps_s
        in_steps_ns = held.at_ns - held.since_ns - held.idle_ns - round((gaps_s - self._gaps_s) * 1e9)
        self._gaps_s = gaps_s
        self.outside_ns += now_ns() - began_ns - in_steps_ns

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
        losses = self._script.leader.reader.losses
        return losses[-1] if losses else None if self.last is None else self.last.loss

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
    sets = {name: lane.settings.value_of(name) for name in SET_INSIDE if lane.settings.value_of(name) not in NOT_SET}
    with RacedScript(order.subject.command, {"seed": str(order.seed), **sets}, order.seen_within_s) as script:
        runner = _make_runner(script, order, set(sets), line)
        line.say(wire.Phase("timing", now_ns()))
        taken = script.leader.reader.progress.iterations
        facts = Facts(_steps_per_lap(script.leader), warm_up_s(lane.device), runner.device_memory_bytes, taken)
        try:
            _switch_input(script, runner, lane)
            measure(now_ns, runner, order.pace, line, facts)
            if order.breakdown and _is_replayable(script.leader.reader):
                script.leader.is_counted = False  # what this takes is no part of the script's iterations
                runner.last = script.go_on(1, kinds.FETCH_AGAIN)
        except ScriptEnded as ended:
            if not runner.timed:
                raise TrainingError(_why_too_short(script, ended, script.leader.reader.progress.iterations)) from None
            line.say(wire.Noted((f"the script ended {_code_words(ended)}, before it was stopped",)))
        except EnoughStepsError:
            pass
        seen = script.leader.reader
        if seen.census is not None or seen.types:
            line.say(wire.Counted(replace(seen.census or DenormalCensus(unseen=NO_COUNT), types=seen.types)))
        line.say(wire.Phase("end", now_ns()))
        if order.breakdown:
            line.say(wire.Signed(_symptoms(script.leader, runner.last, lane.device)))
    peak_bytes = None if runner.last is None else runner.last.peak_bytes
    line.say(wire.Finished(_known(peak_bytes), runner.device_memory_bytes()))


def _make_runner(script: RacedScript, order: HeatOrder, sets: set[str], line: ParentLine) -> ScriptRunner:
    """Run the first iterations, and report what the script is."""
    losses = _learn(script, line)
    visitor = script.leader
    progress = visitor.reader.progress
    _check(visitor, order.lane, sets)
    ends, notes = _ends_per_iteration(progress)
    items = round(progress.items / progress.fetches * _batches_per_step(progress)) if progress.fetches else 0
    notes = (*notes, *([] if items else [ONE_EACH]))
    parameters = sum(visitor.reader.parameters.values())
    line.say(wire.Built(parameters, items or 1, _steps_per_lap(visitor), visitor.reader.hello.versions, notes))
    line.say(wire.Proved(ProofRun(AS_THE_SCRIPT, tuple(losses), 0.0, 0.0, ())))
    line.say(wire.FirstStep(progress.first_ns))
    return ScriptRunner(script, ends, _ready_batches(visitor), order.pace)


def _learn(script: RacedScript, line: ParentLine) -> list[float]:
    """Let the script take its first steps one by one. Return their losses."""
    steps, began_s = 0, time.monotonic()
    try:
        held = script.wait()
        line.say(wire.Phase("proof", now_ns()))
        began_s, kept = time.monotonic(), [held.loss]
        while True:
            steps += 1
            seen = script.leader.reader
            enough = steps >= PROOF_STEPS or time.monotonic() - began_s > PROOF_S
            if enough and seen.progress.iterations >= LEARNT:
                break
            kept.append(script.go_on(1).loss)
    except ScriptEnded as ended:
        raise TrainingError(_why_too_short(script, ended, steps)) from None
    except NothingSeen:
        raise TrainingError(_why_nothing_seen(script, began_s)) from None
    return (seen.losses or [each for each in kept if each is not None])[:PROOF_STEPS]


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


def _check(visitor: Visitor, lane: PlannedLane, sets: set[str]) -> None:
    """Raise LaneError if the script does not do what the lane is named for."""
    unset = sorted(sets - visitor.set)
    if unset:
        raise LaneError(f"{unset[0]} was not set: {CANNOT_SET[unset[0]]}")
    kinds_used = {name.partition(":")[0] for name in visitor.reader.parameters}
    if kinds_used and lane.device.kind not in kinds_used:
        used = " and ".join(sorted(kinds_used))
        raise LaneError(
            f"the script trains on {used}, although it could see {lane.device.name}; "
            "add its own option for the device behind --"
        )


def _ends_per_iteration(progress: LoopProgress) -> tuple[float, tuple[str, ...]]:
    """Return how many ends are counted in an iteration: usually one, as often as several optimizers step otherwise."""
    ends = (progress.updates or progress.backwards or progress.iterations) / progress.iterations
    if abs(ends - round(ends)) <= WHOLE and round(ends) >= 1:
        return float(round(ends)), ()
    return ends, (f"an iteration has {ends:.1f} optimizer steps, so that a window may end within one",)


def _steps_per_lap(visitor: Visitor) -> int | None:
    loader, progress = visitor.reader.trained_loader, visitor.reader.progress
    if loader is None or not loader.batches or not progress.fetches:
        return None
    return max(1, round(loader.batches / _batches_per_step(progress)))


def _batches_per_step(progress: LoopProgress) -> int:
    """Return how many batches a step takes; the first ones may have fetched one ahead."""
    return max(1, round(progress.fetches / progress.iterations))


def _ready_batches(visitor: Visitor) -> int:
    loader = visitor.reader.trained_loader
    return (loader.workers or 0) * (loader.prefetched or PREFETCHED) if loader is not None else 0


def _switch_input(script: RacedScript, runner: ScriptRunner, lane: PlannedLane) -> None:
    """Begin to replay batches, or to fetch only, if that is the lane."""
    wanted, visitor = lane.settings.input, script.leader
    if wanted not in {*REPLAYED, "only"}:
        return
    if not _is_replayable(visitor.reader):
        raise LaneError(NO_DATALOADER)
    if wanted == "only":
        visitor.is_counted = False
        runner.ends = _batches_per_step(visitor.reader.progress)
        script.go_on(1, kinds.LOADER_ALONE)
    else:
        runner.ready_batches = REPLAYED[wanted]
        script.go_on(1, kinds.REPLAY, REPLAYED[wanted])


def _symptoms(visitor: Visitor, held: HeldScript | None, device: Device) -> StepSymptoms:
    """Return what the script's own steps show, without taking them apart.

    On a card, the times of the processor are not those of the work, and a lane of batches that are ready has these.
    """
    reader, progress = visitor.reader, visitor.reader.progress
    threads = NOT_LOOKED if held is None or held.threads is None else held.threads
    shapes = held.shapes if held is not None and held.shapes else NOT_LOOKED
    has_loader = reader.trained_loader is not None
    notes = {} if _is_replayable(reader) else {NO_INPUT: NO_DATALOADER}
    notes |= {MADE_DOUBLE: reader.double_at} if reader.double_at and "float64" in reader.types else {}
    return StepSymptoms(
        progress.later,
        wait_ns=progress.data_ns if has_loader else NOT_LOOKED,
        compute_ns=progress.computing_ns if device.kind == "cpu" else NOT_LOOKED,
        shapes=shapes if has_loader else NOT_LOOKED,
        threads=threads,
        places=reader.places,
        wall_ns=progress.wall_ns,
        redrawn=NOT_LOOKED if held is None or held.redrawn is None else held.redrawn,
        notes=notes,
    )


def _is_replayable(reader: ProcessReader) -> bool:
    return reader.trained_loader is not None and reader.trained_loader.kind == "DataLoader"


def _known(figure: int | None) -> int | Missing:
    return Missing("it was not seen in the script") if figure is None else figure
