"""Events of Keras -> iterations: a batch, from its fetch to the next one's. Each training of `fit` is a loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from laptime.analysis.script_loop import LoopSummary
from laptime.analysis.script_units import Unit
from laptime.attach import kinds
from laptime.model.script import SeenLoader

WAITS_MOST = 4096  # fetches of a data loader within one batch of Keras
STEPS_MOST = 1 << 20  # of one call
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


class KerasBuilder:
    """Cuts the events of Keras into iterations. `everything` has those of all trainings."""

    def __init__(self, everything: LoopSummary) -> None:
        self._everything = everything
        self._last: Unit | None = None
        self._within: deque[tuple[int, int]] = deque(maxlen=WAITS_MOST)  # fetches of a data loader
        self._fetched: deque[tuple[int, int]] = deque(maxlen=WAITS_MOST)  # by Keras, for the next batch or within it
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
        self._iterator, self.is_used = number, True
        loader = self._made.get(number)
        key = (model, trained, loader.batch if loader else None)
        if key in self._fits or len(self._fits) < TRAININGS_MOST:
            self.now = self._fits.setdefault(key, Fit(loader))

    def fetched_within(self, begin: int, end: int) -> None:
        """Note a fetch of a data loader: those inside of a batch are its wait for data."""
        self._within.append((begin, end))

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take the next event of Keras. Raise ValueError for more steps than one call can have."""
        if kind != kinds.KERAS_FETCH and value > STEPS_MOST:
            raise ValueError("an event that no agent notes")
        if kind == kinds.KERAS_FETCH:
            if value == self._iterator:
                self._fetched.append((begin, end))
            return
        self.is_used = True
        if kind == kinds.KERAS_BATCH:
            self._batch(begin, end, value)
        elif kind == kinds.KERAS_TEST:
            self._close(begin)
            self._everything.gap("validation", begin, end)
            self.now.summary.gap("validation", begin, end)
        elif kind == kinds.KERAS_EPOCH:
            self._close(self._last.last if self._last else end)
            for each in (self._everything, self.now.summary):
                each.validated(until=end, since=begin)
            self._fetched.clear()
            self.now.epochs += 1

    def skip(self, events: Mapping[int, int]) -> None:
        """Close the last batch where it ended: events follow that were not sent, and are counted."""
        if self._last is not None:
            self._close(self._last.last)
        self.now.summary.skip(events)

    def _batch(self, begin: int, end: int, steps: int) -> None:
        first, ready = next((each for each in reversed(self._fetched) if each[0] < begin), (begin, begin))
        self._close(first)
        within = [
            each for each in self._fetched if each[0] >= begin
        ]  # on JAX; a data loader's are then inside of these
        within = within or [each for each in self._within if each[0] >= begin]
        waited = ready - first + sum(last - each for each, last in within)
        self.now.has_fetches = self.now.has_fetches or waited > 0
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
        )

    def _close(self, at: int) -> None:
        """End the last batch: the next one, a validation or the end of the epoch begins."""
        unit = self._last
        if unit is not None:
            unit.end = at
            unit.outside = at - unit.last
            self._everything.add(unit)
            self.now.summary.add(unit)
            self.now.wall_ns += unit.end - unit.begin
            self._last = None
