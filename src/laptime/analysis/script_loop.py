"""Iterations of a watched script -> its training loop: windows that grow with its age, phases, steady state."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from laptime.analysis.script_units import Unit
from laptime.attach import kinds
from laptime.model.missing import Missing
from laptime.model.record import Estimate
from laptime.model.script import Counted, Gap, GapKind, LoopWindow, Multiplicity, Phases, TrainingLoop
from laptime.stats import find_steady, log_mean_interval

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
FITTED = ("data", "copy", "forward_backward", "optimizer", "checkpoint", "outside")  # of an iteration
WINDOWS_MOST = 512
LOSSES_MOST = 1024
EVALUATIONS_MOST = 1024  # that no iteration has followed yet
PLACES_MOST = 256  # all further ones count as one place that is not known
FEWEST_STEADY = 3
ALPHA = 0.05
BLOCKS = 12
OTHERWISE = {"start_ns", "end_ns", "shortest_ns", "longest_ns"}  # figures of a window that are no sums
KNOWN_START = {"flat", "warm-up"}  # a training that slows down, or is never steady, is described as a whole


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
        return LoopWindow(*(getattr(self, each.name) for each in fields(LoopWindow)))


SUMMED = tuple(each.name for each in fields(OpenWindow) if each.name not in OTHERWISE)


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


class LoopSummary:
    """Adds up iterations in bounded memory: when there are too many windows, each two neighbours become one."""

    def __init__(self) -> None:
        self.iterations = 0
        self._windows: list[OpenWindow] = []
        self._each = 1
        self._first: OpenWindow | None = None
        self._fetches = self._backwards = self._steps = self._skips = 0
        self._gaps: dict[GapKind, Gap] = {}
        self._evaluations: deque[PossibleValidation] = deque(
            maxlen=EVALUATIONS_MOST
        )  # that no iteration has followed yet
        self._validated: frozenset[int] = frozenset()  # the loaders of those that one has followed
        self.placed: Counter[tuple[int, int]] = Counter()  # nanoseconds, by kind and place
        self.placed_times: Counter[tuple[int, int]] = Counter()
        self._losses: list[tuple[int, float]] = []
        self._every, self._seen = 1, 0
        self.compilations, self.compile_ns = 0, 0
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
        for each in unit.placed:
            key = (each.kind, each.place if len(self.placed) < PLACES_MOST else 0)
            self.placed[key] += each.end - each.begin
            self.placed_times[key] += 1
        if self._first is None:
            self._first = _window_of(unit)
        elif self._windows and self._windows[-1].iterations < self._each:
            self._windows[-1].add(unit)
        else:
            self._windows.append(_window_of(unit))
            if len(self._windows) > WINDOWS_MOST:
                self._merge()

    def skip(self, events: Mapping[int, int]) -> None:
        """Count events that were not sent."""
        self._unsent.update(events)

    @property
    def skipped(self) -> int:
        """How many iterations these were, by what the others consist of."""
        for seen, unsent in (
            (self._steps + self._skips, self._unsent[kinds.STEP] + self._unsent[kinds.SKIP]),
            (self._backwards, self._unsent[kinds.BACKWARD]),
            (self._fetches, self._unsent[kinds.FETCH] + self._unsent[kinds.KERAS_BATCH]),
        ):
            if seen:
                return round(self.iterations * unsent / seen)
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
        for each in self._evaluations:
            if since <= each.begin <= until:
                _lengthen(self._gaps, "validation", each.begin, each.end)
                self._validated |= each.of
            else:
                left.append(each)
        self._evaluations = deque(left, maxlen=EVALUATIONS_MOST)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The times between iterations. Behind the last one, only what was also evaluated before is a validation."""
        found = dict(self._gaps)
        for each in self._evaluations:
            if each.of and each.of <= self._validated:
                _lengthen(found, "validation", each.begin, each.end)
        return tuple(each for each in found.values() if each.times)

    def loss(self, at_ns: int, value: float) -> None:
        """Add a loss; of very many, every second, fourth ... is kept."""
        self._seen += 1
        if self._seen % self._every == 0:
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
            sum(each.items for each in windows),
            sum(each.data_ns for each in later),
            sum(each.forward_backward_ns + each.optimizer_ns + each.copy_ns for each in later),
            sum(each.wall_ns for each in windows),
            self._first.wall_ns if self._first else 0,
            sum(each.seconds for each in self._gaps.values())
            + sum(each.end - each.begin for each in self._evaluations) / 1e9,
            sum(each.iterations for each in later),
        )

    @property
    def losses(self) -> tuple[tuple[int, float], ...]:
        """The losses that were kept so far, each with its time."""
        return tuple(self._losses)

    def loop(
        self,
        counted: Counted,
        epochs: int | Missing,
        unseen: Mapping[str, Missing],
        unsure: str | None,
    ) -> TrainingLoop | None:
        """Return the loop so far, or None if there is none. `unseen` has the parts of `Phases` that were not seen."""
        if self._first is None:
            return None
        everything = [each.closed() for each in (self._first, *self._windows)]
        windows = everything[1:] or everything
        times = [max(each.wall_ns, 1) / each.iterations for each in windows]
        steady = find_steady(times)
        first = steady.start if steady.kind in KNOWN_START else 0
        kept = windows[first:]
        items = sum(each.items for each in kept)
        count = sum(each.iterations for each in kept)
        wall_s = sum(each.wall_ns for each in kept) / 1e9
        sums = (self._fetches, self._backwards, self._steps, self._skips)
        return TrainingLoop(
            counted=counted,
            iterations=self.counted,
            epochs=epochs,
            first_ms=self._first.wall_ns / 1e6,
            step_ms=_estimate(kept) if self._windows else None,
            items_per_s=items / wall_s if items and self._windows else Missing("the size of its batches was not seen"),
            items_per_iteration=items / count if items else Missing("the size of its batches was not seen"),
            per_iteration=Multiplicity(*(each / self.iterations for each in sums)),
            whole=_phases(everything, unseen, per=1),
            steady=_phases(kept, unseen, per=count),
            steady_kind=steady.kind,
            steady_from=first,
            windows=tuple(everything),
            gaps=self.gaps,
            compilations=self.compilations,
            compile_s=self.compile_ns / 1e9,
            losses=self.losses,
            unsure=unsure,
        )

    def _merge(self) -> None:
        """Make each two neighbours one window."""
        self._each *= 2
        for first, second in zip(self._windows[::2], self._windows[1::2], strict=False):
            first.join(second)
        del self._windows[1::2]


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
    for name in FITTED:
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


def _estimate(windows: Sequence[LoopWindow]) -> Estimate | None:
    """Return the mean iteration, with the interval of the mean of blocks: neighbours are alike.

    The parts of an iteration and the items of a second are of the same time.
    """
    if len(windows) < FEWEST_STEADY:
        return None
    size = max(1, len(windows) // BLOCKS)
    blocks = [_mean_ms(windows[first : first + size]) for first in range(0, len(windows) - size + 1, size)]
    interval, mean = log_mean_interval(blocks, ALPHA), _mean_ms(windows)
    return Estimate(mean, min(interval.low, mean), max(interval.high, mean))


def _mean_ms(windows: Sequence[LoopWindow]) -> float:
    return max(sum(each.wall_ns for each in windows), 1) / sum(each.iterations for each in windows) / 1e6


def _phases(windows: Sequence[LoopWindow], unseen: Mapping[str, Missing], *, per: int) -> Phases:
    """Return the parts of the time of these windows, per iteration or (`per` 1) in all."""
    sums = {part: sum(getattr(each, name) for each in windows) for part, name in PARTS_OF.items()}
    rest_ns = sums["wall_s"] - sum(sums[part] for part in sums.keys() - {"wall_s", "backward_s"})
    seconds = {part: ns / 1e9 / per for part, ns in sums.items()}
    return Phases(**{**seconds, **unseen}, unattributed_s=rest_ns / 1e9 / per)
