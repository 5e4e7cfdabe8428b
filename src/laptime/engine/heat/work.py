"""Count the work of one step, off every clock. That may fail in many ways, and must lose nothing else."""

from __future__ import annotations

import math
import mmap
import resource
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from laptime.engine import wire
from laptime.engine.backends.arrays import list_leaves, read_array
from laptime.engine.backends.base import BuiltTraining, Evaluator, Runner, StepParts
from laptime.engine.backends.replay import StateRewinder
from laptime.engine.heat.kept_turn import TurnKeeper
from laptime.model.hardware import StepWork
from laptime.model.process import RankTimes
from laptime.model.quantities import Missing
from laptime.model.sample import Examination, LateStep, SeenBatch, Updates
from laptime.model.symptoms import NOT_LOOKED, DenormalCensus, StepSymptoms


def count_step(training: BuiltTraining) -> StepWork | Missing:
    """Return what one step computes and moves; where that cannot be counted, the reason."""
    try:
        return training.work()
    except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
        reason = str(error).splitlines()[0] if str(error) else "-"
        return Missing(f"counting ended in {type(error).__name__}: {reason}")


# The first losses of a heat: by them it is known to be the training that an earlier heat of its lane has proven.
#
# All heats of a lane train from the same weights on the same batches with the same random numbers. So what one heat has
# proven is proven for all whose first losses are the same: the first one depends on the weights, the batch and the
# loss, the later ones on the optimizer's updates. The lane's own steps are compared at its own rate, as they are timed.

WORK_STEPS = 2
# Relative. Two processes compute the same sums, but threads may add them up in another order. Heats of PyTorch's lanes
# on a processor had the same losses to the last bit (docs/proof.md). A heat beyond this is not refused, but proven.
REPEATED_TOLERANCE = 1e-5


def take_losses(runner: Runner) -> tuple[float, ...]:
    """Return the loss of the step that was taken and of some more; nothing where they are not seen, or not finite.

    A loader that holds its items is not asked for more: its fresh ones are timed.
    """
    losses: list[float | None] = [runner.loss()]
    for _ in range(0 if runner.holds else WORK_STEPS - 1):
        runner.run(runner.stride)
        runner.fence()
        losses.append(runner.loss())
    found = tuple(loss for loss in losses if loss is not None and math.isfinite(loss))
    return found if len(found) == len(losses) else ()


def find_distance(losses: Sequence[float], known: Sequence[float]) -> float:
    """Return the largest relative distance between two heats' first losses; infinite if they cannot be compared."""
    if not losses or len(losses) != len(known):
        return math.inf
    return max(abs(mine - theirs) / max(abs(theirs), 1e-30) for mine, theirs in zip(losses, known, strict=True))


# A training that counts its steps, so that each window knows which ones it holds.
#
# The steps before the first window are timed, too, as long as they are few. No figure is made of them; but a training
# may become slow before its windows open, and then they are the only steps that show how fast it was.

EARLY_MOST = 128  # steps before the first window that are timed one by one


class CountedRunner:
    """Counts the steps that are taken through it. All else is left to the runner; `keeper` notes where turns begin."""

    keeper: TurnKeeper | None = None

    def __init__(self, runner: Runner, taken: int = 0) -> None:
        self._runner = runner
        self.taken = taken
        self._first: Updates | None = None  # what the first step changed, and its rate
        self._marks: Sequence[object] = ()
        self._is_early = taken == 0
        self.early_ns: tuple[int, ...] = ()
        self.stride = runner.stride
        self.ready_batches = runner.ready_batches
        self.holds = runner.holds
        self.step_ns = runner.step_ns
        self.loss = runner.loss
        self.repeat = runner.repeat

    @property
    def evaluator(self) -> Evaluator | None:
        return self._runner.evaluator

    @property
    def outside_ns(self) -> int:
        return self._runner.outside_ns

    @outside_ns.setter
    def outside_ns(self, ns: int) -> None:
        self._runner.outside_ns = ns

    @property
    def ranks(self) -> RankTimes | None:
        return self._runner.ranks

    def updates(self) -> Updates | None:
        return self._runner.updates()

    def weights(self) -> Any | None:
        return self._runner.weights()

    def take_late_step(self) -> LateStep | None:
        return self._runner.take_late_step()

    def take_seen(self) -> SeenBatch | None:
        return self._runner.take_seen()

    def rewinder(self) -> StateRewinder | Missing:
        return self._runner.rewinder()

    def compare_updates(self, before: Updates | None, steps: int) -> tuple[float | None, float | None]:
        """Return how often each of these last steps changed the weights, and the rate now, next to the first step."""
        now = self.updates()
        first = self._first
        if now is None or before is None or first is None:
            return None, None
        updates = (now.count - before.count) / steps / first.count if first.count else None
        return updates, now.rate / first.rate if first.rate else None

    def run(self, steps: int) -> None:
        before = None if self.taken else self.updates()
        if self._is_early and self.taken + steps <= EARLY_MOST:
            self._marks = self._runner.run_marked(steps)
        else:
            self._is_early = False
            self._runner.run(steps)
        self.taken += steps
        if before is not None and (now := self.updates()) is not None:
            self._first = Updates((now.count - before.count) / steps, now.rate)

    def fence(self) -> None:
        self._runner.fence()
        if self._marks:
            self.early_ns += self._runner.step_ns(self._marks)
            self._marks = ()
            # Times that do not belong to one step each cannot be numbered.
            self._is_early = len(self.early_ns) == self.taken

    def run_marked(self, steps: int) -> Sequence[object]:
        self._is_early = False
        self.taken += steps
        return self._runner.run_marked(steps)

    def parts(self) -> StepParts | Missing:
        return self._runner.parts()

    def census(self) -> DenormalCensus | Missing:
        self.taken += 1
        return self._runner.census()

    def close(self) -> tuple[str, ...]:
        return self._runner.close()


# Does a user's data set return another item when it is asked for the same one again? Then no item may be kept.
#
# Asked after the windows, in the process of the heat: an item that is fetched draws from the same random numbers as
# any.

LOOKED_ITEMS, LOOKED_TIMES = 8, 4  # a flip of every second item differs in all but one of some thousand looks
NO_ITEMS = Missing("its data have no items by number")


def find_redrawn(data: Any, clock: Callable[[], int]) -> bool | Missing:
    """Fetch some items several times, for about a second; return whether any of them came out different."""
    items = getattr(data, "dataset", data)
    if not (hasattr(items, "__getitem__") and hasattr(items, "__len__")) or isinstance(items, dict):
        return NO_ITEMS
    if type(items) in {list, tuple} or hasattr(items, "shape"):
        return False  # it holds its items, which may be large
    began_ns = clock()
    try:
        for number in range(min(LOOKED_ITEMS, len(items))):
            first = _values_of(items[number])
            for _ in range(LOOKED_TIMES - 1):
                if _values_of(items[number]) != first:
                    return True
                if clock() - began_ns > ENOUGH_NS:
                    return False
    except Exception as error:  # noqa: BLE001  whatever a user's data set raises where its loader is not
        return Missing(f"fetching an item a second time ended in {type(error).__name__}: {error}")
    return False


def _values_of(item: Any) -> list[Any]:
    """Return all numbers and words of an item, to be compared."""
    return [
        (tuple(leaf.shape), read_array(leaf).tobytes()) if hasattr(leaf, "shape") else leaf
        for leaf in list_leaves(item)
    ]


# After the windows: the time to evaluate test items, which predicts that of a whole training's validations.

EXAMINED_NS = 500_000_000
Say = Callable[[wire.FromChild], None]


def look_ahead(clock: Clock, runner: Runner, items: int, batch: int, say: Say) -> tuple[str, ...]:
    """Measure what a whole training has and windows do not: evaluation. If that fails, keep the timing and note why."""
    if not items or runner.evaluator is None:
        return ()
    say(wire.Phase("look ahead", clock()))
    try:
        say(wire.Examined(time_evaluation(clock, runner, runner.evaluator, batch, items)))
    except Exception as error:  # noqa: BLE001  whatever a framework raises: what was asked for is the timing
        return (f"no forecast of the whole training: looking ahead ended in {type(error).__name__}: {error}",)
    return ()


def time_evaluation(clock: Clock, runner: Runner, evaluator: Evaluator, batch: int, most: int) -> Examination:
    """Evaluate one batch to warm up, the same batch again to learn the speed, then about half a second of batches."""
    few = min(batch, most)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(few))
    cold_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    warm_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    first_ns = max(0, cold_ns - warm_ns)
    many = min(most, round(few * EXAMINED_NS / max(warm_ns, 1)))
    if many < 2 * few:
        return Examination(few, warm_ns, first_ns, read_ns)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(many))
    return Examination(many, _time_work(clock, runner, lambda: evaluator.score(many)), first_ns, read_ns)


def _time_work(clock: Clock, runner: Runner, work: Callable[[], object]) -> int:
    runner.fence()
    start_ns = clock()
    work()
    runner.fence()
    return clock() - start_ns


# The most memory that this process held.


def peak_memory_bytes() -> int | Missing:
    """Return the most memory that this process held: the kernel's high-water mark, or getrusage without one."""
    status = Path("/proc/self/status")
    if status.exists():
        for row in status.read_text().splitlines():
            if row.startswith("VmHWM:"):
                return int(row.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# Break down some steps: how long the loader, the copy and the rest of a step take, each between two fences.

ENOUGH_NS = 1_000_000_000
DENORMAL_STEPS_LEAST, DENORMAL_STEPS_MOST = 3, 50
MORE_STEPS_LOOKED_AT = 3  # additional steps, inspected off the clock because inspecting takes time
SLOW_STEP_NS = 1_000_000_000  # of steps that take longer, one is enough
FAULT_CHUNK_BYTES = 1 << 20  # too small for huge pages, where one fault maps hundreds of small pages
CHUNKS = 24
NO_TIME = Missing("this clock did not move while pages were fetched")

Clock = Callable[[], int]


def break_down_steps(clock: Clock, fence: Callable[[], None], apart: StepParts, least: int = 1) -> StepSymptoms:
    """Time the parts of about one second of steps, then inspect a few more for symptoms that need no clock.

    `least` is how many steps must be timed when a loader delivers that many batches at once.
    """
    calls_least = max(DENORMAL_STEPS_LEAST, least // apart.stride)
    spent = [0, 0, 0]
    shapes: set[Hashable] = set()
    calls = 0
    while calls < calls_least or (sum(spent) < ENOUGH_NS and calls < DENORMAL_STEPS_MOST):
        for part, ns in enumerate(_time_parts(clock, fence, apart, shapes)):
            spent[part] += ns
        calls += 1
    symptoms = apart.look(1 if sum(spent) / calls > SLOW_STEP_NS else MORE_STEPS_LOOKED_AT, calls)
    return replace(
        symptoms,
        steps=calls * apart.stride,
        wait_ns=_unless_reported(symptoms.wait_ns, spent[0]),
        copy_ns=_unless_reported(symptoms.copy_ns, spent[1]),
        compute_ns=_unless_reported(symptoms.compute_ns, spent[2]),
        shapes=_unless_reported(symptoms.shapes, len(shapes)),
        fault_ns=time_fault_ns(clock) if symptoms.fault_ns == NOT_LOOKED else symptoms.fault_ns,
    )


def _time_parts(
    clock: Clock, fence: Callable[[], None], apart: StepParts, shapes: set[Hashable]
) -> tuple[int, int, int]:
    fence()
    start_ns = clock()
    batch = apart.fetch()
    fence()
    fetched_ns = clock()
    placed = apart.move(batch)
    fence()
    moved_ns = clock()
    apart.compute(placed)
    fence()
    done_ns = clock()
    shapes.add(apart.describe(batch))
    return fetched_ns - start_ns, moved_ns - fetched_ns, done_ns - moved_ns


def _unless_reported(reported: int | Missing, found: int) -> int | Missing:
    """Return what the back end reported, a reason included; where it did not look, return what the clock measured."""
    return found if reported == NOT_LOOKED else reported


def time_fault_ns(clock: Clock) -> float | Missing:
    """Return the nanoseconds of one page fault, from mapping and clearing a page to freeing it: a median over 24 MiB.

    Memory is written twice: the first write maps each page, the second maps none.
    """
    ink = bytes(FAULT_CHUNK_BYTES)
    pages = FAULT_CHUNK_BYTES // mmap.PAGESIZE
    costs: list[int] = []
    for _ in range(CHUNKS):
        start_ns = clock()
        memory = mmap.mmap(-1, FAULT_CHUNK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = ink
        fetched_ns = clock()
        memory[:] = ink
        written_ns = clock()
        memory.close()
        ended_ns = clock()
        costs.append((fetched_ns - start_ns) - (written_ns - fetched_ns) + (ended_ns - written_ns))
    cost = sorted(costs)[CHUNKS // 2] / pages
    return cost if cost > 0 else NO_TIME
