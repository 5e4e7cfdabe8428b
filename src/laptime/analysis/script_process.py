"""What one process of a watched script sent -> a `ScriptProcess`."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from laptime.analysis.script_facts import (
    count_or_none,
    read_census,
    read_hello,
    read_loader,
    read_optimizer,
    read_skipped,
    text,
    whole,
)
from laptime.analysis.script_iterations import IterationBuilder
from laptime.analysis.script_keras import KerasBuilder
from laptime.analysis.script_loop import LoopProgress, LoopSummary
from laptime.analysis.script_steps import StepsBuilder
from laptime.analysis.script_units import UnitBuilder
from laptime.attach import kinds
from laptime.model.missing import Missing
from laptime.model.script import ScriptProcess, SeenLoader, SeenOptimizer, TrainingLoop
from laptime.model.symptoms import DenormalCensus, TimedPlace

NO_LOADER = Missing("no data loader was seen")
OTHER_THREAD = Missing("another thread fetches the batches")
NO_OPTIMIZER = Missing("no optimizer was seen")
NO_COPY = Missing("no parameters of an optimizer were seen on a card, to which batches would be copied")
KERAS_FETCHES = Missing("Keras fetches inside of its step")
IN_ONE_CALL = {
    name: Missing("it runs inside of Keras's step") for name in ("optimizer_s", "backward_s", "copy_s", "no_grad_s")
}
ONE_CALL = Missing("its steps are seen as one call")
ONE_PART = {
    name: Missing("of this loop, laptime sees the fetches only")
    for name in ("backward_s", "optimizer_s", "outside_s", "copy_s", "no_grad_s")
}
DESCRIBED_MOST = 64  # loaders, and optimizers; a script may make a new one for each step
LATEST_NS = 1 << 62
PLACES_MOST = 256  # lines of the script that take time
COMPUTES = {kinds.BACKWARD, kinds.STEP}
CUT_OFF = "the process ended without a word, or still runs; up to a quarter of a second of it was not seen"


class ProcessReader:
    """Reads the facts and events of one process, in their order."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.hello = read_hello(hello)
        self._summary = LoopSummary()
        self._iterations = IterationBuilder(self._summary.add)
        self._units = UnitBuilder(self._iterations.take, self._summary.gap)
        self._keras = KerasBuilder(self._summary)
        self._by_fetch = LoopSummary()  # used where nothing that computes is seen
        self._steps = StepsBuilder(self._by_fetch.add, self._by_fetch.gap)
        self._steps_loaders: set[int] = set()
        self._computes = False
        self._optimizers: dict[int, SeenOptimizer] = {}
        self._loaders: dict[object, SeenLoader] = {}
        self._places: dict[int, str] = {}
        self.double_at: str | None = None
        self._failed: dict[str, str] = {}
        self._lost = 0
        self._sees_copies = False
        self.census: DenormalCensus | None = None
        self._has_left = False

    @property
    def iterations(self) -> int:
        return self._summary.counted or self._by_fetch.counted

    @property
    def progress(self) -> LoopProgress:
        """How far the training is, by whole iterations."""
        return (self._by_fetch if self._is_by_fetch else self._summary).progress()

    @property
    def _is_by_fetch(self) -> bool:
        """Whether only the batches of `laptime.steps` are seen, and nothing that computes."""
        return not (self._computes or self._keras.is_used) and self._by_fetch.iterations > 0

    @property
    def _trained(self) -> LoopSummary:
        """The loop that goes on now."""
        return self._keras.now.summary if self._keras.is_used else self._summary

    @property
    def losses(self) -> list[float]:
        """The losses that were seen so far."""
        return [value for _, value in self._trained.losses]

    @property
    def places(self) -> tuple[TimedPlace, ...] | Missing:
        """What took time within the iterations apart from the training, and where; the longest first."""
        if self._keras.is_used or self._is_by_fetch:
            return ONE_CALL
        found = [
            TimedPlace(self._places.get(place), kinds.PLACED[kind], self._summary.placed_times[kind, place], ns)
            for (kind, place), ns in self._summary.placed.items()
        ]
        return tuple(sorted(found, key=lambda each: -each.ns))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the numbers that the optimizers change."""
        return tuple(sorted({each for optimizer in self._optimizers.values() for each in optimizer.dtypes}))

    @property
    def parameters(self) -> dict[str, int]:
        """How many parameters the optimizers have on each device."""
        found: Counter[str] = Counter()
        for each in self._optimizers.values():
            found.update(each.parameters)
        return dict(found)

    @property
    def trained_loader(self) -> SeenLoader | None:
        """The loader whose batches are trained on, or one of several that are alike; None where no such was seen."""
        if self._keras.is_used:
            return self._keras.loader
        names: Iterable[object] = self._steps_loaders if self._is_by_fetch else self._units.trainers
        found = [self._loaders[each] for each in names if each in self._loaders]
        return found[0] if found and all(each == found[0] for each in found) else None

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        """Take one message of facts. Raise ValueError if it is none of an agent's."""
        if "versions" in facts:
            self.hello = read_hello(facts)
        elif "denormals" in facts:
            self.census = read_census(facts)
        elif "sees_copies" in facts:
            self._sees_copies = True
        elif "is_failed" in facts:
            if len(self._failed) < DESCRIBED_MOST:
                self._failed[text(facts["is_failed"])] = text(facts.get("error"))
        elif "skipped" in facts:
            self._skip(read_skipped(facts))
        elif "lost" in facts:
            self._has_left = True
            self._lost += whole(facts["lost"])
        elif not self._has_enough(facts):
            self._take_described(facts)

    def _take_described(self, facts: Mapping[str, Any]) -> None:
        """Take what the script trains with, and where."""
        if "optimizer" in facts:
            double_at = facts.get("double_at")
            self.double_at = self.double_at if double_at is None else text(double_at)
            self._optimizers[whole(facts["optimizer"])] = read_optimizer(facts)
        elif "loader" in facts:
            self._loaders[whole(facts["loader"])] = read_loader(facts)
        elif "steps_loader" in facts:
            number, batches = whole(facts["steps_loader"]), count_or_none(facts.get("batches"))
            self._steps_loaders.add(number)
            self._loaders[number] = SeenLoader(None, batches, None, kind="laptime.steps")
        elif "keras_batch" in facts:
            loader = SeenLoader(count_or_none(facts["keras_batch"]), None, None, kind=text(facts.get("keras_data")))
            self._keras.made(whole(facts.get("iterator")), loader)
        elif "keras_fit" in facts:
            self._keras.fit_begins(*(whole(facts.get(each)) for each in ("keras_fit", "model", "trained")))
        elif "place" in facts and len(self._places) < PLACES_MOST:
            self._places[whole(facts["place"])] = text(facts.get("where"))

    def _has_enough(self, facts: Mapping[str, Any]) -> bool:
        known = self._optimizers if "optimizer" in facts else self._loaders
        return len(known) >= DESCRIBED_MOST and bool({"optimizer", "loader", "steps_loader"} & facts.keys())

    def take_events(self, body: bytes) -> None:
        """Take events. Those of Keras decide what an iteration is, where there are any.

        Raise ValueError if one is none of an agent's.
        """
        for kind, begin, end, value in struct.iter_unpack(kinds.EVENT, body):
            plain = kind & kinds.KIND_MASK
            is_timed = -LATEST_NS < begin <= end < LATEST_NS
            if not is_timed or not 0 < plain < kinds.SOME or kind < 0 or (value < 0 and plain != kinds.LOSS):
                raise ValueError("an event that no agent notes")
            if plain == kinds.LOSS:
                self._trained.loss(begin, struct.unpack("<d", struct.pack("<q", value))[0])
                continue
            if plain == kinds.COMPILE:
                self._trained.compiled(begin, end)
                self._by_fetch.compiled(begin, end)
            self._computes = self._computes or plain in COMPUTES
            if self._steps_loaders and not self._computes:
                self._take_fetch(plain, begin, end, value)
            if plain in kinds.KERAS:
                self._keras.take(plain, begin, end, value)
            elif plain == kinds.FETCH and self._keras.is_used:
                self._keras.fetched_within(begin, end)
            elif not self._keras.is_used:
                self._units.take(kind, begin, end, value)

    def _skip(self, events: Mapping[int, int]) -> None:
        """Events follow that were not sent: what is open ends here, and these are counted."""
        self._units.skip()
        self._iterations.skip()
        self._keras.skip(events)
        self._steps.skip()
        for each in (self._summary, self._by_fetch):
            each.skip(events)

    def _take_fetch(self, kind: int, begin: int, end: int, value: int) -> None:
        loader = value >> kinds.ITEMS_SHIFT if kind == kinds.FETCH else value
        if loader in self._steps_loaders:
            self._steps.take(kind, begin, end, value)

    def process(self) -> ScriptProcess:
        """Return what was seen. It is called once, at the end."""
        hello = self.hello
        return ScriptProcess(
            pid=hello.pid,
            parent=hello.parent,
            python=hello.python,
            executable=hello.executable,
            loop=self._loop(),
            versions=hello.versions,
            rank=hello.rank,
            world=hello.world,
            optimizers=tuple(self._optimizers.values()),
            loaders=(*self._keras.loaders, *self._loaders.values()),
            lost=self._lost,
            failed=self._failed,
            census=self.census,
        )

    def _loop(self) -> TrainingLoop | None:
        if self._keras.is_used:
            fit = self._keras.longest()
            unseen = IN_ONE_CALL if fit.has_fetches else {**IN_ONE_CALL, "data_wait_s": KERAS_FETCHES}
            loop = fit.summary.loop("Keras batches", fit.epochs, unseen, self._unsure())
            return None if loop is None else replace(loop, trainings=self._keras.trainings)
        if not self._computes and self._by_fetch.iterations:
            return self._by_fetch.loop("steps", self._steps.epochs, ONE_PART, self._unsure())
        self._units.finish()
        self._iterations.finish()
        counted, epochs = self._iterations.counted, self._units.epochs
        unseen = {} if self._sees_copies else {"copy_s": NO_COPY}
        if not self._units.has_loader:
            unseen["data_wait_s"] = NO_LOADER
        elif self._units.fetched_elsewhere and not self._steps_loaders:
            unseen["data_wait_s"] = OTHER_THREAD
        if counted == "backward passes":
            unseen |= {"optimizer_s": NO_OPTIMIZER, "outside_s": NO_OPTIMIZER}
            unseen |= {} if self._iterations.evaluates else {"no_grad_s": NO_OPTIMIZER}
        return self._summary.loop(counted, epochs or NO_LOADER, unseen, self._unsure())

    def _unsure(self) -> str | None:
        if self._lost:
            return f"{self._lost} events were lost"
        if self._failed:
            return f"hooks failed: {'; '.join(f'{hook}: {error}' for hook, error in self._failed.items())}"
        unseen = self._summary.skipped or self._by_fetch.skipped
        if unseen:
            return f"{unseen:,} iterations were too fast to be read, and are counted by the steps that the script took"
        return self._iterations.unsure or (None if self._has_left else CUT_OFF)
