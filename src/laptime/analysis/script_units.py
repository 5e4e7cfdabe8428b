"""Events of a watched script -> units; and iterations, as they were in time -> the middle one of them.

A unit is what follows one fetch: the fetch, the forward and backward pass, and the optimizer's step if there is one.
Units follow each other without a hole, except for gaps (validation, the time between epochs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

from laptime.attach import kinds
from laptime.model.script import GapKind, IterationSpan, SpanPart, TypicalIteration

NO_THREAD = -1
COPIES_MOST = 64  # of one iteration
WAITING_UNITS_MOST = 4096  # that wait for the end of an iteration
SAVES_MOST = 64  # behind the last work of an iteration
PASSES_MOST = 1024  # without gradients, of one iteration
LATE_MOST = 1 << 14  # optimizers that step inside of one backward pass: one for each parameter of a large model
LINES_WAIT_MOST = 1 << 14  # for the end of their iteration
SPANS_MOST = 256  # of one iteration; one that has more is not kept in time, unless its lines are timed
FETCHES = {kinds.FETCH, kinds.LOADER_END, kinds.LOADER_OPEN}
EVALUATIONS = {kinds.NO_GRAD, kinds.EVALUATED}


class NoteGap(Protocol):
    """Takes a time between iterations; of an evaluation, the loaders that it read."""

    def __call__(self, kind: GapKind, begin: int, end: int, of: frozenset[int] = ...) -> None: ...


class Placed(NamedTuple):
    """Something that takes time, in a place of the script: an evaluation, a checkpoint, a wait for the disk."""

    kind: int
    place: int
    begin: int
    end: int


SeenSpan = tuple[SpanPart, int, int]
"""What a stretch of time was spent on, from when until when; it may be within another."""


TimedLine = tuple[int, int, int]
"""The number of a line's place, and from when until when it ran."""


@dataclass(slots=True)
class Unit:
    """A stretch of a training with at most one fetch that was worked on, or several of them put together."""

    begin: int
    end: int = 0
    data: int = 0
    forward_backward: int = 0
    backward: int = 0  # of it, the backward passes
    optimizer: int = 0
    copy: int = 0  # to a card
    no_grad: int = 0  # without gradients: evaluation, metrics
    evaluated: int = 0  # of it, from `eval()` to `train()`
    checkpoint: int = 0
    outside: int = 0
    fetches: int = 0
    backwards: int = 0
    steps: int = 0
    skips: int = 0
    items: int = 0
    optimizers: set[int] = field(default_factory=set)
    placed: list[Placed] = field(default_factory=list)
    loaders: dict[int, int] = field(default_factory=dict)  # when each was first fetched from
    between: list[Placed] = field(default_factory=list)  # since the unit before
    lines: list[TimedLine] = field(default_factory=list)
    spans: list[SeenSpan] | None = None  # all that was seen of it in time; None where that was too much
    follows_fetch: bool = False
    # While it is open: since when a forward pass may run, and when its last work ended.
    mark: int = 0
    last: int = 0
    saves: list[tuple[int, int]] = field(default_factory=list)  # since its last work
    last_backward: tuple[int, int] = (0, 0)
    late_steps: list[tuple[int, int, int]] = field(default_factory=list)  # since the last backward pass

    @property
    def worked(self) -> bool:
        return self.backwards > 0 or self.updated

    @property
    def updated(self) -> bool:
        return self.steps > 0 or self.skips > 0

    def join(self, later: Unit) -> None:
        """Put the next unit behind this one. What was outside of this one's steps is now inside of an iteration."""
        self.outside = later.outside
        self.end = later.end
        for name in ("data", "forward_backward", "backward", "optimizer", "copy", "no_grad", "evaluated", "checkpoint"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for name in ("fetches", "backwards", "steps", "skips", "items"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.optimizers |= later.optimizers
        self.placed += later.placed
        self.between += later.between
        self.lines += later.lines
        whole = (self.spans or []) + (later.spans or [])
        self.spans = whole if self.spans and later.spans and len(whole) <= SPANS_MOST else None


class Passes:
    """Stretches without gradients, none within another, in their order."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int]] = []

    def add(self, begin: int, end: int) -> None:
        """Add one; it takes the place of those within it."""
        while self._found and self._found[-1][0] >= begin:
            self._found.pop()
        first = max(begin, self._found[-1][1]) if self._found else begin
        self._found = [*self._found[-PASSES_MOST:], (first, max(first, end))]

    def within(self, begin: int, end: int) -> int:
        """Return how much of a time they take."""
        return sum(max(0, min(last, end) - max(first, begin)) for first, last in self._found)

    def begun_in(self, begin: int, end: int) -> int:
        """Return how long those take that are wholly in a time."""
        return sum(last - first for first, last in self._found if begin <= first and last <= end)

    def forget(self, until: int) -> None:
        """Leave out all that ended by then."""
        if self._found and self._found[0][1] <= until:
            self._found = [(first, last) for first, last in self._found if last > until]


class UnitBuilder:
    """Cuts the events of one process into units and gaps."""

    def __init__(self, unit: Callable[[Unit], None], gap: NoteGap) -> None:
        self._emit = unit
        self._gap = gap
        self._open: Unit | None = None
        self._gap_begin: int | None = None
        self._gap_known = 0  # of the open gap: time that has another name
        self._ended: tuple[int, int] | None = None  # a loader's end, after which a prefetched batch may be worked on
        self.trainers: set[int] = set()  # loaders whose batches were trained on
        self._thread = NO_THREAD  # the one that trains
        self._last_end = 0
        self._opened: set[int] = set()  # loaders that were started, and whose batches were not yet trained on
        self._copies: list[tuple[int, int]] = []  # to a card, since the last backward pass
        self._passes = Passes()
        self._evaluated = Passes()  # of these, from `eval()` to `train()`
        self._placed: list[Placed] = []
        self._lines: list[TimedLine] = []  # whose iteration has not ended
        self._spans: list[SeenSpan] = []  # what was seen in time, since the last unit ended
        self._last_backward = 0  # its end
        self.epochs = 0  # how often a loader that was trained on was started
        self.fetched_elsewhere = False
        self._fetched: dict[int, int] = {}  # batches of each loader, since it was started
        self._items: dict[int, int] = {}  # of each loader's batch that was looked at last

    @property
    def has_loader(self) -> bool:
        """Whether batches of a loader were trained on."""
        return bool(self.trainers)

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take the next event; events come in the order of their ends."""
        thread = kind >> kinds.THREAD_SHIFT
        kind &= (1 << kinds.THREAD_SHIFT) - 1
        if kind in kinds.PLACED and self._thread == thread and begin >= self._last_backward:
            self._place(Placed(kind, value, begin, end))
        if kind == kinds.BACKWARD:
            self._backward(thread, begin, end)
        elif kind == kinds.STEP:
            self._step(begin, end, value)
        elif kind == kinds.SKIP:
            self._skip(begin, end)
        elif kind == kinds.SAVE:
            self._save(begin, end)
        elif kind == kinds.COPY:
            self._copies = [*self._copies[-COPIES_MOST:], (begin, end)]
            self._note("copy", begin, end)
        elif kind in EVALUATIONS:
            if self._thread == thread and begin >= self._last_backward:
                self._pass(kind, begin, end)
        elif kind in FETCHES and self._thread not in {NO_THREAD, thread}:
            self.fetched_elsewhere = True
        elif kind == kinds.FETCH:
            self._fetch(begin, end, value >> kinds.ITEMS_SHIFT, value & kinds.ITEMS_MASK)
        elif kind == kinds.LOADER_END:
            self._end(begin, end)
        elif kind == kinds.LOADER_OPEN:
            self._start_loader(begin, end, value)

    def line(self, place: int, begin: int, end: int) -> None:
        """Keep what a line of the script took until its iteration ends."""
        if len(self._lines) < LINES_WAIT_MOST:
            self._lines.append((place, begin, end))

    def _note(self, part: SpanPart, begin: int, end: int) -> None:
        """Keep what a stretch of the open unit, or of the next one, was spent on."""
        if len(self._spans) <= (LINES_WAIT_MOST if self._lines else SPANS_MOST):
            self._spans.append((part, begin, end))

    def _pass(self, kind: int, begin: int, end: int) -> None:
        self._note("no_grad", begin, end)
        self._passes.add(begin, end)
        if kind == kinds.EVALUATED:
            self._evaluated.add(begin, end)

    def skip(self) -> None:
        """Close the last unit: events follow that are not known. What comes after them begins without a past."""
        self.finish()
        self._gap_begin = None
        self._gap_known = 0
        self._ended = None
        self._last_end = 0
        self._copies = []
        self._spans = []

    def _place(self, new: Placed) -> None:
        """Keep what takes time until its iteration ends; it takes the place of what is within it.

        A model may stay in `eval()` while a checkpoint is written: that is no part of the evaluation.
        """
        first = len(self._placed)
        while first and self._placed[first - 1].begin >= new.begin:
            first -= 1
        within = self._placed[first:] if new.kind in EVALUATIONS else []
        inner = [placed for placed in within if placed.kind not in EVALUATIONS]
        self._placed = [*self._placed[max(0, first - WAITING_UNITS_MOST) : first], *inner, new]
        if new.kind == kinds.SYNC:
            self._note("disk", new.begin, new.end)
            if self._open is None:  # between epochs it is part of writing a checkpoint: no save waits for it itself
                self._save(new.begin, new.end)

    def finish(self) -> None:
        """Close the last unit where its work ended. A loader's batches that nobody worked on are no unit.

        Checkpoints behind the last step are no part of the training: it is over.
        """
        unit = self._open
        if unit is not None and unit.worked:
            unit.checkpoint -= sum(end - begin for begin, end in unit.saves)
            unit.saves = []
            self._close(unit, unit.last)
        self._open = None

    def _fetch(self, begin: int, end: int, loader: int, items: int) -> None:
        unit = self._open
        if unit is not None and unit.worked:
            self._close(unit, begin)
            unit = None
        elif unit is not None and loader in self.trainers and not self.trainers & unit.loaders.keys():
            self._note_evaluation(unit, begin)  # it was left in the middle
            unit = None
        if unit is None:
            unit = self._begin(begin)
            unit.follows_fetch = True
        self._fetched[loader] = self._fetched.get(loader, 0) + 1
        if items == kinds.AS_BEFORE:
            items = self._items.get(loader, 0)
        else:
            self._items[loader] = items
        if not unit.loaders or loader in unit.loaders:
            unit.items += items
        unit.loaders.setdefault(loader, begin)
        unit.fetches += 1
        unit.data += end - begin
        unit.mark = end
        self._note("data", begin, end)

    def _end(self, begin: int, end: int) -> None:
        unit = self._open
        if unit is None:
            return
        if unit.worked:
            self._close(unit, begin)
            self._gap_begin = begin
            self._ended = (begin, end)
        else:
            self._note_evaluation(unit, end)

    def _start_loader(self, begin: int, end: int, loader: int) -> None:
        self._opened.add(loader)
        unit = self._open
        fetched = self._fetched.get(loader, 0)
        self._fetched[loader] = 0
        if unit is not None and unit.worked and fetched == 1 and loader in unit.loaders:
            # It starts again for each batch, as in next(iter(loader)): then that is a part of each iteration.
            self._close(unit, begin)
            unit = self._begin(begin)
            unit.follows_fetch = True
            unit.mark = end
            unit.data = end - begin
            unit.loaders[loader] = begin
            self._note("data", begin, end)
            return
        if unit is not None:
            if unit.worked:
                self._close(unit, begin)
                self._gap_begin = begin
            else:
                self._note_evaluation(unit, begin)
        self._ended = None
        if self._gap_begin is not None and self._last_end:
            self._gap("loader start", begin, end)
            self._gap_known += end - begin

    def _backward(self, thread: int, begin: int, end: int) -> None:
        self._thread = thread
        unit = self._open
        if unit is None:
            unit = self._begin_without_fetch(begin)
        inside = [step for step in unit.late_steps if step[0] >= begin]  # optimizers that step in the backward pass
        _take_back(unit, inside)
        if unit.worked:
            self._close(unit, unit.last)
            unit = self._begin(self._last_end)
        if unit.begin > begin:  # the first one, where an optimizer stepped in it
            unit.begin = unit.mark = begin
        self._split_validation(unit)
        for first, last, optimizer in inside:
            unit.optimizer += last - first
            unit.steps += 1
            unit.optimizers.add(optimizer)
            self._note("optimizer", first, last)
        since = max(unit.mark, unit.begin)
        copies = [copy for copy in self._copies if since <= copy[0] and copy[1] <= begin]
        copied = sum(last - first - self._passes.within(first, last) for first, last in copies)
        without = self._passes.within(since, begin)
        self._copies = []
        unit.evaluated += self._evaluated.within(since, begin)
        self._forget(begin)
        unit.copy += copied
        unit.no_grad += without
        synced = sum(
            placed.end - placed.begin
            for placed in self._placed
            if placed.kind == kinds.SYNC and since <= placed.begin and placed.end <= begin
        )
        unit.outside += synced  # logging, of a loop that fetches nothing
        stepped = sum(last - first for first, last, _ in inside)
        unit.forward_backward += end - since - copied - without - synced - stepped
        unit.backward += end - begin
        unit.backwards += 1
        unit.last_backward = (begin, end)
        self._note("forward", since, begin)
        self._note("backward", begin, end)
        self._last_backward = end
        unit.late_steps = []
        unit.mark = unit.last = end
        unit.saves = []
        self.trainers |= unit.loaders.keys()
        if self._opened & unit.loaders.keys():
            self.epochs += 1
            self._opened -= unit.loaders.keys()

    def _step(self, begin: int, end: int, optimizer: int) -> None:
        unit = self._open
        if unit is None:
            unit = self._begin_without_fetch(begin)
        first, last = unit.last_backward
        started = last if begin <= first < end else max(begin, unit.last)  # a closure computes inside of the step
        unit.late_steps.append((started, end, optimizer))
        if len(unit.late_steps) > LATE_MOST:
            del unit.late_steps[: LATE_MOST // 2]
        unit.optimizer += end - started
        self._note("optimizer", started, end)
        unit.steps += 1
        unit.optimizers.add(optimizer)
        unit.last = end
        unit.saves = []

    def _skip(self, begin: int, end: int) -> None:
        unit = self._open
        if unit is None:
            return
        unit.optimizer += end - max(begin, unit.last)
        self._note("optimizer", max(begin, unit.last), end)
        unit.skips += 1
        unit.last = end
        unit.saves = []

    def _save(self, begin: int, end: int) -> None:
        unit = self._open
        if unit is not None and unit.worked:
            unit.checkpoint += end - begin
            self._note("checkpoint", begin, end)
            unit.saves = [*unit.saves[-SAVES_MOST:], (begin, end)]
        elif unit is None and self._gap_begin is not None:
            self._gap("checkpoint", begin, end)
            self._gap_known += end - begin

    def _split_validation(self, unit: Unit) -> None:
        """Leave out what was fetched, before the batch that is trained on, from loaders that never train."""
        known = [at for loader, at in unit.loaders.items() if loader in self.trainers]
        if not known or len(known) == len(unit.loaders):
            return
        first = min(known)
        foreign = {loader: at for loader, at in unit.loaders.items() if loader not in self.trainers}
        if min(foreign.values()) < first:
            self._gap("validation", unit.begin, first, frozenset(foreign))
            unit.data = max(0, min(unit.data, unit.mark - first))
            unit.begin = first
            unit.loaders = {loader: at for loader, at in unit.loaders.items() if loader in self.trainers}

    def _begin(self, at: int) -> Unit:
        if self._gap_begin is not None:
            evaluated = self._passes.begun_in(self._gap_begin, at)
            if evaluated and self._last_end:
                self._gap("validation", at - evaluated, at)
            length = at - self._gap_begin - self._gap_known - evaluated
            if length > 0 and self._last_end:
                self._gap("between epochs", at - length, at)
        self._gap_begin = None
        self._gap_known = 0
        self._ended = None
        self._spans = [span for span in self._spans if span[2] > at] if self._spans else []
        self._open = Unit(begin=at, mark=at, last=at)
        return self._open

    def _begin_without_fetch(self, begin: int) -> Unit:
        """Begin a unit whose batch was fetched before, or comes from no loader that is seen."""
        if self._ended is not None:
            ended, until = self._ended
            self._gap_begin = None
            unit = self._begin(ended)
            unit.data = until - ended
            self._note("data", ended, until)
            unit.mark = until
            unit.follows_fetch = True
            return unit
        return self._begin(self._last_end if self._gap_begin is None and self._last_end else begin)

    def _close(self, unit: Unit, at: int) -> None:
        unit.end = max(at, unit.saves[-1][1] if unit.saves else 0)
        rest = max(0, unit.end - unit.last - unit.checkpoint)
        evaluated = min(rest, self._evaluated.within(unit.last, unit.end))
        without = min(rest, self._passes.within(unit.last, unit.end)) if unit.updated else evaluated
        unit.no_grad += without
        unit.evaluated += evaluated
        if unit.updated:
            unit.outside += rest - without
            self._forget(unit.end)
        unit.placed = [placed for placed in self._placed if unit.begin <= placed.begin and placed.end <= unit.end]
        unit.between = [placed for placed in self._placed if placed.end <= unit.begin]
        self._placed = [placed for placed in self._placed if placed.begin >= unit.end]
        if self._lines:
            self._lines = take_lines(unit, self._lines)
        unit.spans = self._spans if len(self._spans) <= SPANS_MOST or unit.lines else None
        later = self._spans and self._spans[-1][2] > unit.end  # events come in the order of their ends
        self._spans = [span for span in self._spans if span[2] > unit.end] if later else []
        self._last_end = unit.end
        self._open = None
        self._emit(unit)

    def _forget(self, until: int) -> None:
        self._passes.forget(until)
        self._evaluated.forget(until)

    def _note_evaluation(self, unit: Unit, end: int) -> None:
        """Name a stretch that was no training, and go on with the gap behind it."""
        if self._last_end:
            self._gap("validation", unit.begin, end, frozenset(unit.loaders))
        self._open = None
        self._gap_begin = end
        self._gap_known = 0
        self._ended = None


def take_lines(unit: Unit, lines: list[TimedLine]) -> list[TimedLine]:
    """Move the lines that ran in an iteration, which has ended, to it. Return those that may run on in the next one."""
    unit.lines = [line for line in lines if line[1] < unit.end and line[2] > unit.begin]
    return [line for line in lines if line[2] > unit.end]


def _take_back(unit: Unit, steps: list[tuple[int, int, int]]) -> None:
    """Take steps out of a unit: they turned out to be part of the next one's backward pass."""
    if not steps:
        return
    kept = unit.late_steps[: len(unit.late_steps) - len(steps)]
    unit.steps -= len(steps)
    unit.optimizer -= sum(last - first for first, last, _ in steps)
    unit.last = kept[-1][1] if kept else unit.last_backward[1] or unit.mark
    if not unit.steps:
        unit.optimizers.clear()


# Why no training of a script was seen, and what lets laptime see it: the same words where it is watched and raced.

GO_THROUGH = "let its loop go through laptime.steps(batches)"


def why_unseen(versions: Iterable[str]) -> str:
    """Return the reason, by the packages that those of its Python processes had imported that reported."""
    known = sorted(set(versions))
    if "jax" in known and not {"torch", "keras"} & set(known):
        only = "a JAX loop of your own calls no function that laptime can see; only compilations are known"
        return f"{only}: {GO_THROUGH}"
    tools = " or ".join(known) or "PyTorch or Keras"
    return f"no training with {tools} was seen in it; for a loop of your own: {GO_THROUGH}"


# Iterations of a watched script, as they were in time -> the middle one of them, and what it was spent on when.

KEPT_MOST = 128  # iterations
WITHIN: tuple[SpanPart, ...] = (
    "data", "checkpoint", "disk", "copy", "no_grad", "optimizer", "backward", "forward", "step",
)  # fmt: skip
"""Of two things at once, the one that comes first here is within the other."""
LAST_WORK = {"optimizer", "step"}


class KeptIteration(NamedTuple):
    """An iteration as it was: the `number`th that was read."""

    number: int
    begin: int
    end: int
    spans: list[SeenSpan]


class KeptIterations:
    """Keeps some iterations in bounded memory: of very many, every second, fourth ..."""

    def __init__(self) -> None:
        self._kept: list[KeptIteration] = []
        self._every = 1

    def add(self, number: int, unit: Unit) -> None:
        """Take the next iteration. One with too many spans is left out."""
        if not unit.spans or number % self._every:
            return
        self._kept.append(KeptIteration(number, unit.begin, unit.end, unit.spans))
        if len(self._kept) > KEPT_MOST:
            self._every *= 2
            self._kept = [kept for kept in self._kept if kept.number % self._every == 0]

    def typical(self, since: int) -> TypicalIteration | None:
        """Return the middle one, by its time, of those that began since then; None where none was kept."""
        kept = [iteration for iteration in self._kept if iteration.begin >= since]
        if not kept:
            return None
        middle = sorted(kept, key=lambda iteration: iteration.end - iteration.begin)[len(kept) // 2]
        spans = laid_out(middle.begin, middle.end, middle.spans)
        return TypicalIteration(middle.number, len(kept), middle.end - middle.begin, spans)


def laid_out(begin: int, end: int, spans: Iterable[SeenSpan]) -> tuple[IterationSpan, ...]:
    """Return what each stretch was spent on; behind the last work of an iteration is what is outside of its step."""
    inside = [span for span in spans if span[1] < end and span[2] > begin]
    edges = sorted({begin, end, *(min(max(at, begin), end) for span in inside for at in span[1:])})
    worked = max((until for part, _, until in inside if part in LAST_WORK), default=end)
    found: list[IterationSpan] = []
    for first, last in pairwise(edges):
        here = {part for part, since, until in inside if since <= first and last <= until}
        usual: SpanPart = "outside" if first >= worked else "unattributed"
        part = next((part for part in WITHIN if part in here), usual)
        if found and found[-1].part == part:
            found[-1] = IterationSpan(part, found[-1].start_ns, last - begin)
        else:
            found.append(IterationSpan(part, first - begin, last - begin))
    return tuple(found)
