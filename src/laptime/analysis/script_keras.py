"""Events of Keras -> iterations: a batch, from its fetch to the next one's. Each training of `fit` is a loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from laptime.analysis.script_loop import LoopSummary
from laptime.analysis.script_units import LINES_WAIT_MOST, TimedLine, Unit, take_lines
from laptime.attach import kinds
from laptime.model.script import GapKind, SeenLoader

MADE_LATEST = 512  # batches whose times are kept
WAITS_MOST = 4096  # fetches of a data loader within one batch of Keras
CALL_STEPS_MOST = 1 << 20  # of one call
TRAININGS_MOST = 64  # all further ones count as the last of these
MADE_MOST = 64  # of what batches come from: a script may call `evaluate` after each step
TrainingKey = tuple[int, int, "int | None"]  # the model, how many of its variables are trained, the batch


@dataclass(slots=True)
class Fit:
    """One training of Keras. Calls of `fit` go on with it while model, batch and trained variables stay."""

    loader: SeenLoader | None = None
    summary: LoopSummary = field(default_factory=LoopSummary)
    epochs: int = 0
    wall_ns: int = 0
    has_fetches: bool = False
    at_once: int = 1  # steps that Keras gives its engine in one call
    made_ns: deque[int] = field(default_factory=lambda: deque(maxlen=MADE_LATEST))  # that a thread took for each batch
    steps_ns: deque[float] = field(default_factory=lambda: deque(maxlen=MADE_LATEST))  # what each iteration took

    @property
    def made_share(self) -> float:
        """For how much of an iteration a thread makes batches. Workers of Keras's own make them elsewhere."""
        if not self.made_ns or not self.steps_ns or (self.loader is not None and self.loader.workers):
            return 0.0
        return min(1.0, median(self.made_ns) / max(median(self.steps_ns), 1))


MADE_AHEAD_MOST = 1 << 16  # batches


class MadeAhead:
    """When the batches were ready that TensorFlow makes in a thread: each step waits for the next one of them."""

    def __init__(self) -> None:
        self._pass = 0  # through the data; one that begins takes the place of the one before
        self._ready: deque[int] = deque()
        self._is_known = False  # which of them is the next one

    def made(self, number: int, at: int) -> None:
        if number > self._pass:
            self._pass = number
            self._is_known = True
            self._ready.clear()
        if number == self._pass:
            self._ready.append(at)
        if len(self._ready) > MADE_AHEAD_MOST:
            self.lose()

    def lose(self) -> None:
        """Some were not seen: until the next pass, no one knows which batch a step takes."""
        self._ready.clear()
        self._is_known = False

    def taken(self, steps: int, begin: int, end: int) -> int | None:
        """Return how long a call waited that took this many steps, each as long as the others; None: not known.

        A step cannot begin before its batch is ready, nor before the step in front of it has ended. So the last batch
        that was waited for says how long a step is.
        """
        if not self._is_known or len(self._ready) < steps:
            self.lose()
            return None
        ready = [self._ready.popleft() for _ in range(steps)]
        step_ns = min((end - max(begin, at)) / (steps - place) for place, at in enumerate(ready))
        return end - begin - round(max(0.0, step_ns) * steps)


class KerasBuilder:
    """Cuts the events of Keras into iterations. `everything` has those of all trainings."""

    def __init__(self, everything: LoopSummary) -> None:
        self._everything = everything
        self._last: Unit | None = None
        self._epoch_ended: int | None = None  # its last batch, or the validation after it; a call of `fit` has others
        self._within: deque[tuple[int, int]] = deque(maxlen=WAITS_MOST)  # fetches of a data loader
        self._fetched: deque[tuple[int, int]] = deque(maxlen=WAITS_MOST)  # by Keras, for the next batch or within it
        self._ahead = MadeAhead()
        self._lines: list[TimedLine] = []  # whose batch has not ended
        self._made: dict[int, SeenLoader] = {}
        self._iterator = 0  # whose batches are trained on
        self._fits: dict[TrainingKey, Fit] = {}
        self.now = Fit()
        self.is_used = False

    @property
    def trainings(self) -> int:
        """How many there were."""
        return max(1, len(self._fits))

    @property
    def loader(self) -> SeenLoader | None:
        """What the batches come from that are trained on."""
        return self.now.loader or next(reversed(self._made.values()), None)

    @property
    def loaders(self) -> tuple[SeenLoader, ...]:
        """What the batches of the longest training come from."""
        loader = self.longest().loader or self.loader
        return () if loader is None else (loader,)

    def longest(self) -> Fit:
        """Return the training that took longest, with its last batch closed where it ended."""
        if self._last is not None:
            self._close(self._last.last)
        return self.lead

    @property
    def lead(self) -> Fit:
        """The training that took longest so far."""
        return max(self._fits.values(), key=lambda fit: fit.wall_ns, default=self.now)

    def made(self, number: int, loader: SeenLoader) -> None:
        """Note what batches may come from: those of a training, of a validation or of a prediction."""
        self._made[number] = loader
        if len(self._made) > MADE_MOST:
            del self._made[next(iter(self._made))]

    def fit_begins(self, number: int, model: int, trained: int) -> None:
        """Begin a training, or go on with one that has the same model, trained variables and batch."""
        if self._last is not None:
            self._close(self._last.last)
        self._fetched.clear()
        self._ahead = MadeAhead()
        self._epoch_ended = None
        self._iterator = number
        self.is_used = True
        loader = self._made.get(number)
        key = (model, trained, loader.batch if loader else None)
        if key in self._fits or len(self._fits) < TRAININGS_MOST:
            self.now = self._fits.setdefault(key, Fit(loader))

    def line(self, place: int, begin: int, end: int) -> None:
        """Keep what a line of the script took until its batch ends."""
        if len(self._lines) < LINES_WAIT_MOST:
            self._lines.append((place, begin, end))

    def fetched_within(self, begin: int, end: int) -> None:
        """Note a fetch of a data loader: those inside of a batch are its wait for data."""
        self._within.append((begin, end))

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take the next event of Keras. Raise ValueError for more steps than one call can have."""
        if kind not in {kinds.KERAS_FETCH, kinds.KERAS_MADE} and value > CALL_STEPS_MOST:
            raise ValueError("an event that no agent notes")
        if kind == kinds.KERAS_MADE:
            if value >> kinds.PASS_SHIFT == self._iterator:
                self._ahead.made(value & kinds.PASS_MASK, end)
                self.now.made_ns.append(end - begin)
            return
        if kind == kinds.KERAS_FETCH:
            if value == self._iterator:
                self._fetched.append((begin, end))
            return
        if kind == kinds.KERAS_TEST and not self.is_used:
            return  # `evaluate` next to a loop of the script's own
        self.is_used = True
        if kind == kinds.KERAS_BATCH:
            self._batch(begin, end, value)
        elif kind == kinds.KERAS_TEST:
            self._close(begin)
            self._gap("validation", begin, end)
            self._epoch_ended = end
        elif kind == kinds.KERAS_EPOCH:
            if self._last is not None:
                self._epoch_ended = self._last.last
                self._close(self._last.last)
            for loop_summary in (self._everything, self.now.summary):
                loop_summary.validated(until=end, since=begin)
            self._fetched.clear()
            self.now.epochs += 1

    def skip(self, events: Mapping[int, int]) -> None:
        """Close the last batch where it ended: events follow that were not sent, and are counted."""
        if self._last is not None:
            self._close(self._last.last)
        self._ahead.lose()
        self._epoch_ended = None
        self.now.summary.skip(events)

    def _batch(self, begin: int, end: int, steps: int) -> None:
        first, ready = next((fetch for fetch in reversed(self._fetched) if fetch[0] < begin), (begin, begin))
        self._close(first)
        if self._epoch_ended is not None:
            self._gap("between epochs", self._epoch_ended, first)
            self._epoch_ended = None
        within = [fetch for fetch in self._fetched if fetch[0] >= begin]
        if not within:  # on JAX a data loader's fetches are inside of these
            within = [fetch for fetch in self._within if fetch[0] >= begin]
        ahead_ns = self._ahead.taken(steps, begin, end)
        if ahead_ns is not None:
            within = [(begin, begin + ahead_ns)]
        waited = ready - first + sum(until - since for since, until in within)
        self.now.has_fetches = self.now.has_fetches or waited > 0 or ahead_ns is not None
        self._within.clear()
        self._fetched.clear()
        loader = self.loader
        self._last = Unit(
            begin=first,
            last=end,
            data=waited,
            forward_backward=end - first - waited,
            fetches=steps,
            backwards=steps,
            steps=steps,
            items=(loader.batch or 0) * steps if loader else 0,
            spans=[
                ("data", first, ready),
                *(("data", since, until) for since, until in within),
                ("step", begin, end),
            ],
        )

    def _gap(self, kind: GapKind, begin: int, end: int) -> None:
        for loop_summary in (self._everything, self.now.summary):
            loop_summary.gap(kind, begin, end)

    def _close(self, at: int) -> None:
        """End the last batch: the next one, a validation or the end of the epoch begins."""
        unit = self._last
        if unit is not None:
            unit.end = at
            unit.outside = at - unit.last
            if self._lines:
                self._lines = take_lines(unit, self._lines)
            self._everything.add(unit)
            self.now.summary.add(unit)
            self.now.wall_ns += unit.end - unit.begin
            self.now.steps_ns.append((unit.end - unit.begin) / max(unit.steps, 1))
            self._last = None
