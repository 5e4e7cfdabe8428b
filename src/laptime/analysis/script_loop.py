"""Iterations of a watched script -> its training loop: windows that grow with its age, phases, steady state."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

from laptime.analysis.heats import ALPHA
from laptime.analysis.script_lines import LineTimes
from laptime.analysis.script_units import SPANS_MOST, KeptIterations, Placed, Unit
from laptime.attach import kinds
from laptime.model.quantities import Estimate, Missing
from laptime.model.script import CountedBy, Gap, GapKind, LoopLevels, LoopWindow, Multiplicity, Phases, TrainingLoop
from laptime.model.stats import find_steady, log_mean_interval
from laptime.model.symptoms import TimedPlace

# Which figure of the windows a part of the time is. The backward pass is within another part.
PARTS_OF = {
    "wall_s": "wall_ns",
    "data_wait_s": "data_ns",
    "copy_s": "copy_ns",
    "no_grad_s": "no_grad_ns",
    "forward_backward_s": "forward_backward_ns",
    "backward_s": "backward_ns",
    "optimizer_s": "optimizer_ns",
    "checkpoint_s": "checkpoint_ns",
    "outside_s": "outside_ns",
}
FITTED_PHASES = ("data", "copy", "forward_backward", "optimizer", "checkpoint", "outside")  # of an iteration
WINDOWS_MOST = 512
LOSSES_MOST = 1024
EVALUATIONS_MOST = 1024  # that no iteration has followed yet
KNOWN_PLACES_MOST = 256  # all further ones count as one place that is not known
FEWEST_STEADY = 3
AGE_BLOCKS = 12
OTHERWISE = {"start_ns", "end_ns", "shortest_ns", "longest_ns"}  # figures of a window that are no sums
# What is left out as a start: this many iterations, or this share of all. A training that has other times later on is
# described as a whole.
WARM_UP_MOST = 10
WARM_UP_SHARE = 0.05
CHANGES_LEVEL = {"warm-up", "slowing"}
LEVELS_APART = 1.1  # times: less is not worth a sentence
LEVEL_LEAST = 10  # iterations


@dataclass(slots=True)
class OpenWindow:
    """A `LoopWindow` that still grows: of a fast loop, laptime reads thousands of iterations a second."""

    start_ns: int
    end_ns: int
    wall_ns: int
    iterations: int
    items: int
    data_ns: int
    forward_backward_ns: int
    backward_ns: int
    optimizer_ns: int
    checkpoint_ns: int
    outside_ns: int
    shortest_ns: int
    longest_ns: int
    copy_ns: int = 0
    no_grad_ns: int = 0

    def add(self, unit: Unit) -> None:
        """Add one iteration."""
        length = unit.end - unit.begin
        self.end_ns = unit.end
        self.wall_ns += length
        self.iterations += 1
        self.items += unit.items
        self.data_ns += unit.data
        self.forward_backward_ns += unit.forward_backward
        self.backward_ns += unit.backward
        self.optimizer_ns += unit.optimizer
        self.checkpoint_ns += unit.checkpoint
        self.outside_ns += unit.outside
        self.copy_ns += unit.copy
        self.no_grad_ns += unit.no_grad
        if length < self.shortest_ns:
            self.shortest_ns = length
        elif length > self.longest_ns:
            self.longest_ns = length

    def join(self, later: OpenWindow) -> None:
        """Add the next window."""
        self.end_ns = later.end_ns
        self.shortest_ns = min(self.shortest_ns, later.shortest_ns)
        self.longest_ns = max(self.longest_ns, later.longest_ns)
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(later, name))

    def closed(self) -> LoopWindow:
        return LoopWindow(*(getattr(self, field.name) for field in fields(LoopWindow)))


SUMMED = tuple(field.name for field in fields(OpenWindow) if field.name not in OTHERWISE)


class PossibleValidation(NamedTuple):
    """A time in which batches of the loaders `of` were fetched and nothing was trained."""

    begin: int
    end: int
    of: frozenset[int]


@dataclass(frozen=True, slots=True)
class LoopProgress:
    """How far a loop is: its whole iterations, and what they consisted of. `gaps_s` is all time between iterations.

    `computing_ns` is in forward and backward passes, optimizers and copies; it and `data_ns` are of the `later`
    iterations: of all but the first, in which much is made and compiled.
    """

    iterations: int
    fetches: int
    backwards: int
    updates: int
    items: int
    data_ns: int
    computing_ns: int
    wall_ns: int
    first_ns: int
    gaps_s: float
    later: int


class PlacedTimes:
    """Adds up what took time apart from the training, by its kind and its place."""

    def __init__(self) -> None:
        self.ns: Counter[tuple[int, int]] = Counter()
        self.times: Counter[tuple[int, int]] = Counter()

    def add(self, placed: Iterable[Placed]) -> None:
        """Add what was in one iteration."""
        for stretch in placed:
            key = (stretch.kind, stretch.place if len(self.ns) < KNOWN_PLACES_MOST else 0)
            self.ns[key] += stretch.end - stretch.begin
            self.times[key] += 1

    def named(self, name: Callable[[int], str | None], besides: PlacedTimes | None = None) -> tuple[TimedPlace, ...]:
        """Return each with its line, the longest first, without what others have of it."""
        ns = self.ns if besides is None else self.ns - besides.ns
        times = self.times if besides is None else self.times - besides.times
        found = [
            TimedPlace(name(place), kinds.PLACED[kind], times[kind, place], took) for (kind, place), took in ns.items()
        ]
        return tuple(sorted(found, key=lambda timed: -timed.ns))


class LoopSummary:
    """Adds up iterations in bounded memory: when there are too many windows, each two neighbours become one."""

    def __init__(self) -> None:
        self.iterations = 0
        self._windows: list[OpenWindow] = []
        self._each = 1
        self._first: OpenWindow | None = None
        self._fetches = self._backwards = self._steps = self._skips = 0
        self._gaps: dict[GapKind, Gap] = {}
        # Those that no iteration has followed yet.
        self._evaluations: deque[PossibleValidation] = deque(maxlen=EVALUATIONS_MOST)
        self._validated: frozenset[int] = frozenset()  # the loaders of those that one has followed
        self.placed = PlacedTimes()  # within iterations
        self.between = PlacedTimes()
        self.placed_apart = PlacedTimes()  # within the first one, and those whose lines were timed
        self.lines = LineTimes()
        self._timed: list[tuple[int, int]] = []  # iterations whose lines were timed, since the last that was not
        self._losses: list[tuple[int, float]] = []
        self._every = 1
        self._losses_read = 0
        self._in_time = KeptIterations()
        self.compilations = 0
        self.compile_ns = 0
        self._unsent: Counter[int] = Counter()

    def add(self, unit: Unit) -> None:
        """Add one iteration."""
        _fit(unit)
        if self._evaluations:
            self.validated(until=unit.begin)
        self.iterations += 1
        self._fetches += unit.fetches
        self._backwards += unit.backwards
        self._steps += unit.steps
        self._skips += unit.skips
        self.placed.add(unit.placed)
        self.placed_apart.add(unit.placed if unit.lines or self._first is None else ())
        self.between.add(unit.between)
        if unit.lines:
            self.lines.add(unit)
            self._timed.append((unit.begin, unit.end))
        elif self._first is not None:
            self._in_time.add(self.iterations, unit)
            self._add_to_windows(unit)
        else:
            self._first = _window_of(unit)

    def _add_to_windows(self, unit: Unit) -> None:
        """Add one iteration to the last window, or in a new one."""
        for begin, end in self._timed:
            self.gap("timing lines", begin, end)
        self._timed = []
        if self._windows and self._windows[-1].iterations < self._each:
            self._windows[-1].add(unit)
        else:
            self._windows.append(_window_of(unit))
            if len(self._windows) > WINDOWS_MOST:
                # Make each two neighbours one window
                self._each *= 2
                for first, second in zip(self._windows[::2], self._windows[1::2], strict=False):
                    first.join(second)
                del self._windows[1::2]

    def skip(self, events: Mapping[int, int]) -> None:
        """Count events that were not sent."""
        self._unsent.update(events)

    @property
    def skipped(self) -> int:
        """How many iterations these were, by what the others consist of."""
        for read, unsent in (
            (self._steps + self._skips, self._unsent[kinds.STEP] + self._unsent[kinds.SKIP]),
            (self._backwards, self._unsent[kinds.BACKWARD]),
            (self._fetches, self._unsent[kinds.FETCH] + self._unsent[kinds.KERAS_BATCH]),
        ):
            if read:
                return round(self.iterations * unsent / read)
        return 0

    @property
    def counted(self) -> int:
        """All iterations: those that were read, and those that were not."""
        return self.iterations + self.skipped

    def gap(self, kind: GapKind, begin: int, end: int, of: frozenset[int] = frozenset()) -> None:
        """Add a time between iterations. An evaluation is a validation once an iteration follows it."""
        self._gaps.setdefault(kind, Gap(kind, 0, 0.0))
        if kind == "validation":
            self._evaluations.append(PossibleValidation(begin, end, of))
        else:
            _lengthen(self._gaps, kind, begin, end)

    def validated(self, until: int, since: int = 0) -> None:
        """Count the evaluations that began in this time: the training went on after them, or was not done yet."""
        left = []
        for evaluation in self._evaluations:
            if since <= evaluation.begin <= until:
                _lengthen(self._gaps, "validation", evaluation.begin, evaluation.end)
                self._validated |= evaluation.of
            else:
                left.append(evaluation)
        self._evaluations = deque(left, maxlen=EVALUATIONS_MOST)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The times between iterations. Behind the last one, only what was also evaluated before is a validation."""
        found = dict(self._gaps)
        for evaluation in self._evaluations:
            if evaluation.of and evaluation.of <= self._validated:
                _lengthen(found, "validation", evaluation.begin, evaluation.end)
        return tuple(gap for gap in found.values() if gap.times)

    def loss(self, at_ns: int, value: float) -> None:
        """Add a loss; of very many, every second, fourth ... is kept."""
        self._losses_read += 1
        if self._losses_read % self._every == 0:
            self._losses.append((at_ns, value))
        if len(self._losses) > LOSSES_MOST:
            self._losses = self._losses[1::2]
            self._every *= 2

    def compiled(self, begin: int, end: int) -> None:
        self.compilations += 1
        self.compile_ns += end - begin

    def progress(self) -> LoopProgress:
        """Return how far the loop is. The iteration that has not ended yet is not counted."""
        windows = [*filter(None, [self._first]), *self._windows]
        later = self._windows or windows
        return LoopProgress(
            self.iterations,
            self._fetches,
            self._backwards,
            self._steps + self._skips,
            sum(window.items for window in windows),
            sum(window.data_ns for window in later),
            sum(window.forward_backward_ns + window.optimizer_ns + window.copy_ns for window in later),
            sum(window.wall_ns for window in windows),
            self._first.wall_ns if self._first else 0,
            sum(gap.seconds for gap in self._gaps.values())
            + sum(evaluation.end - evaluation.begin for evaluation in self._evaluations) / 1e9,
            sum(window.iterations for window in later),
        )

    @property
    def losses(self) -> tuple[tuple[int, float], ...]:
        """The losses that were kept so far, each with its time."""
        return tuple(self._losses)

    def loop(
        self,
        counted: CountedBy,
        epochs: int | Missing,
        unseen: Mapping[str, Missing],
        unsure: str | None,
    ) -> TrainingLoop | None:
        """Return the loop so far, or None if there is none. `unseen` has the parts of `Phases` that were not seen."""
        if self._first is None:
            return None
        everything = [window.closed() for window in (self._first, *self._windows)]
        windows = everything[1:] or everything
        steady = find_steady([max(window.wall_ns, 1) / window.iterations for window in windows])
        begun = sum(window.iterations for window in windows[: steady.start])
        is_start = steady.kind == "warm-up" and begun <= max(WARM_UP_MOST, WARM_UP_SHARE * self.iterations)
        first = steady.start if is_start else 0
        kept = windows[first:]
        warm = everything[: len(everything) - len(kept)]
        items = sum(window.items for window in kept)
        count = sum(window.iterations for window in kept)
        wall_s = sum(window.wall_ns for window in kept) / 1e9
        sums = (self._fetches, self._backwards, self._steps, self._skips)
        return TrainingLoop(
            counted=counted,
            iterations=self.counted,
            epochs=epochs,
            first_ms=self._first.wall_ns / 1e6,
            step_ms=_estimate(kept) if self._windows else None,
            items_per_s=items / wall_s if items and self._windows else Missing("the size of its batches was not seen"),
            items_per_iteration=items / count if items else Missing("the size of its batches was not seen"),
            per_iteration=Multiplicity(*(times / self.iterations for times in sums)),
            whole=_phases(everything, unseen, per=1),
            steady=_phases(kept, unseen, per=count),
            steady_kind=steady.kind,
            steady_from=first,
            warm_iterations=sum(window.iterations for window in warm),
            warm_s=sum(window.wall_ns for window in warm) / 1e9,
            levels=_levels(windows, steady.start) if steady.kind in CHANGES_LEVEL and not is_start else None,
            windows=tuple(everything),
            gaps=self.gaps,
            compilations=self.compilations,
            compile_s=self.compile_ns / 1e9,
            losses=self.losses,
            unsure=unsure,
            typical=self._in_time.typical(since=kept[0].start_ns),
        )


def _lengthen(gaps: dict[GapKind, Gap], kind: GapKind, begin: int, end: int) -> None:
    """Add a time to those of its kind."""
    known = gaps[kind]
    gaps[kind] = Gap(kind, known.times + 1, known.seconds + (end - begin) / 1e9)


def _fit(unit: Unit) -> None:
    """Let the parts of an iteration be within its time, where events overlap: one loader may fetch from another."""
    parts = unit.data, unit.copy, unit.forward_backward, unit.optimizer, unit.checkpoint, unit.outside
    left = unit.end - unit.begin
    if sum(parts) <= left and min(parts) >= 0 <= unit.backward <= unit.forward_backward:
        return
    unit.end = max(unit.end, unit.begin)
    left = unit.end - unit.begin
    for name in FITTED_PHASES:
        part = min(max(getattr(unit, name), 0), left)
        setattr(unit, name, part)
        left -= part
    unit.backward = min(max(unit.backward, 0), unit.forward_backward)


def _window_of(unit: Unit) -> OpenWindow:
    length = unit.end - unit.begin
    return OpenWindow(
        start_ns=unit.begin,
        end_ns=unit.end,
        wall_ns=length,
        iterations=1,
        items=unit.items,
        data_ns=unit.data,
        forward_backward_ns=unit.forward_backward,
        backward_ns=unit.backward,
        optimizer_ns=unit.optimizer,
        checkpoint_ns=unit.checkpoint,
        outside_ns=unit.outside,
        shortest_ns=length,
        longest_ns=length,
        copy_ns=unit.copy,
        no_grad_ns=unit.no_grad,
    )


def _levels(windows: Sequence[LoopWindow], start: int) -> LoopLevels | None:
    """Return what iterations take before the last level of a training and in it, where that differs."""
    before = windows[:start]
    last = windows[start:]
    count = sum(window.iterations for window in last)
    if not before or count < LEVEL_LEAST:
        return None
    first_ms = _mean_ms(before)
    last_ms = _mean_ms(last)
    is_apart = max(first_ms, last_ms) >= LEVELS_APART * min(first_ms, last_ms)
    return LoopLevels(first_ms, last_ms, count) if is_apart else None


def _estimate(windows: Sequence[LoopWindow]) -> Estimate | None:
    """Return the mean iteration, with the interval of the mean of blocks: neighbours are alike.

    The parts of an iteration and the items of a second are of the same time.
    """
    if len(windows) < FEWEST_STEADY:
        return None
    size = max(1, len(windows) // AGE_BLOCKS)
    blocks = [_mean_ms(windows[first : first + size]) for first in range(0, len(windows) - size + 1, size)]
    interval = log_mean_interval(blocks, ALPHA)
    mean = _mean_ms(windows)
    return Estimate(mean, min(interval.low, mean), max(interval.high, mean))


def _mean_ms(windows: Sequence[LoopWindow]) -> float:
    return max(sum(window.wall_ns for window in windows), 1) / sum(window.iterations for window in windows) / 1e6


def _phases(windows: Sequence[LoopWindow], unseen: Mapping[str, Missing], *, per: int) -> Phases:
    """Return the parts of the time of these windows, per iteration or (`per` 1) in all."""
    sums = {part: sum(getattr(window, name) for window in windows) for part, name in PARTS_OF.items()}
    rest_ns = sums["wall_s"] - sum(sums[part] for part in sums.keys() - {"wall_s", "backward_s"})
    seconds = {part: ns / 1e9 / per for part, ns in sums.items()}
    return Phases(**{**seconds, **unseen}, unattributed_s=rest_ns / 1e9 / per)


# Units of a watched script -> iterations.
#
# Units that end in no optimizer step are put together with the next ones: gradients accumulate. So are units without a
# fetch of their own whose optimizers differ: a generator and a discriminator.

ALONE_MOST = 256  # backward passes without any optimizer step: the script updates its weights itself
INNER_MOST = 64  # updates with the same optimizer after one fetch; if there are more, they are iterations of their own


class IterationBuilder:
    """Puts units together to iterations."""

    def __init__(self, emit: Callable[[Unit], None]) -> None:
        self._emit = emit
        self._group: list[Unit] = []
        self._has_fetch = False  # the group began with a fetch
        self._is_updated = False
        self._held: list[Unit] = []  # units after the group's update that have no fetch and, yet, no update
        self.counted: CountedBy = "optimizer steps"
        self.unsure: str | None = None
        self._updates = 0
        self._is_first = True  # no iteration was emitted
        self._last: set[int] = set()  # the optimizers of the last one
        self.evaluates = False  # within iterations without an optimizer

    def take(self, unit: Unit) -> None:
        """Take the next unit."""
        self._updates += unit.updated
        if self.counted == "backward passes":
            if unit.steps:
                self.unsure = "it began to use an optimizer after many backward passes without one"
            self._emit_alone(unit)
            return
        if not self._is_updated:
            self._add(unit)
            if not self._updates and len(self._group) >= ALONE_MOST:
                self._count_backwards()
        elif unit.follows_fetch:
            self._end_group()
            self._add(unit)
        elif not unit.updated:
            _append(self._held, unit)
        elif (self._has_fetch and len(self._group) < INNER_MOST) or all(
            unit.optimizers.isdisjoint(known.optimizers) for known in self._group
        ):
            self._group += [*self._held, unit]
            self._held = []
        else:
            # Whether optimizers do not take turns, but one has ended its part of the training, and another goes on
            updates = [known.optimizers for known in self._group if known.updated]
            is_new = len(updates) > 1 and unit.optimizers.isdisjoint(updates[0])
            is_next_part = is_new and not self._has_fetch and self._last == updates[0]
            # In a group that is too long for one fetch, too, each update was an iteration.
            if is_next_part or (self._has_fetch and len(self._group) >= INNER_MOST):
                self._emit_updates(self._group)
            else:
                self._emit_joined(self._group)
            self._group = [*self._held, unit]
            self._held = []
            self._has_fetch = False

    def skip(self) -> None:
        """End the last iteration: units follow that are not known. One that has no update yet is left out."""
        if self._is_updated:
            self._end_group()
        elif self._updates:
            self._group = []

    def finish(self) -> None:
        """Emit what is left. Without any optimizer step, each backward pass was an iteration.

        Where all followed one fetch, the whole of the data was one batch: each update was an iteration.
        """
        if not self._updates:
            self._count_backwards()
        elif self._is_updated:
            updates = [unit.optimizers for unit in self._group if unit.updated]
            # Whether an optimizer steps twice in a row in the group: not each of several in its turn
            repeats = any(first & second for first, second in pairwise(updates))
            if self._is_first and repeats:
                self._emit_updates([*self._group, *self._held])
            else:
                self._end_group()

    def _add(self, unit: Unit) -> None:
        if not self._group:
            self._has_fetch = unit.follows_fetch
        if self._updates:
            _append(self._group, unit)
        else:  # without any update, each may turn out to be an iteration
            self._group.append(unit)
        self._is_updated = self._is_updated or unit.updated

    def _end_group(self) -> None:
        self._emit_joined([*self._group, *self._held])
        self._group = []
        self._held = []
        self._is_updated = False

    def _emit_updates(self, units: list[Unit]) -> None:
        part: list[Unit] = []
        for unit in units:
            part.append(unit)
            if unit.updated:
                self._emit_joined(part)
                part = []
        if part:
            self._emit_joined(part)

    def _emit_joined(self, units: list[Unit]) -> None:
        if units:
            first, *rest = units
            for unit in rest:
                first.join(unit)
            self._is_first = False
            self._last = set(first.optimizers)
            self._emit(first)

    def _count_backwards(self) -> None:
        self.counted = "backward passes"
        for unit in self._group:
            self._emit_alone(unit)
        self._group = []
        self._is_updated = False

    def _emit_alone(self, unit: Unit) -> None:
        """Emit an iteration without an optimizer: what has no gradients may be how the script updates its weights.

        Not so what is between `eval()` and `train()`.
        """
        unit.forward_backward += unit.no_grad - unit.evaluated
        unit.no_grad = unit.evaluated
        self.evaluates = self.evaluates or unit.evaluated > 0
        self._emit(unit)


def _append(units: list[Unit], unit: Unit) -> None:
    """Add a unit; one behind another without an update is put together with it, so that a list stays short."""
    if units and not units[-1].updated:
        units[-1].join(unit)
    else:
        units.append(unit)


# The batches of `laptime.steps` -> iterations, where nothing that computes was seen: a loop of JAX or of NumPy.


class StepsBuilder:
    """Cuts the fetches of `laptime.steps` into iterations, from each fetch to the next one of the same loader."""

    def __init__(self, emit: Callable[[Unit], None], gap: Callable[[GapKind, int, int], None]) -> None:
        self._emit = emit
        self._gap = gap
        self._open: Unit | None = None
        self._loader = 0  # whose fetches begin iterations now
        self._opening: tuple[int, int] | None = None
        self._ended = 0
        self._is_new_pass = False
        self.epochs = 0

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take the next event of a loader that `laptime.steps` goes through."""
        if kind == kinds.FETCH:
            self._fetch(begin, end, value >> kinds.ITEMS_SHIFT, value & kinds.ITEMS_MASK)
        elif kind == kinds.LOADER_OPEN and self._open is None:
            self._opening = (begin, end)
            self._is_new_pass = True
        elif kind == kinds.LOADER_END and value == self._loader:
            self._close(begin)

    def skip(self) -> None:
        """Leave out the last iteration: events follow that are not known."""
        self._open = None
        self._opening = None
        self._ended = 0
        self._is_new_pass = False

    def _fetch(self, begin: int, end: int, loader: int, items: int) -> None:
        unit = self._open
        if unit is not None and loader != self._loader:  # a second loader, in the same iteration
            unit.data += end - begin
            unit.fetches += 1
            unit.mark = end
            if unit.spans is not None:
                unit.spans = [*unit.spans, ("data", begin, end)] if len(unit.spans) < SPANS_MOST else None
            return
        self._close(begin)
        if self._is_new_pass:
            self.epochs += 1
            self._is_new_pass = False
            if self._ended and self._opening is not None:
                first, last = self._opening
                self._gap("loader start", first, last)
                self._gap("between epochs", self._ended + last - first, begin)
        self._loader = loader
        self._open = Unit(begin=begin, data=end - begin, fetches=1, items=items, mark=end, spans=[("data", begin, end)])

    def _close(self, at: int) -> None:
        unit = self._open
        if unit is None:
            return
        unit.end = self._ended = at
        unit.forward_backward = at - unit.begin - unit.data
        if unit.spans is not None:
            unit.spans.append(("step", unit.begin, at))
        self._emit(unit)
        self._open = None
