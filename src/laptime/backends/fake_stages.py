"""What a fake lane's step is made of: a loader, a copy and the computing, as its settings leave them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from laptime.backends.fake_script import FakeClock, Script, fail_if_told
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.signs import Signs

LEAST_MS = 0.01  # of a lane whose one stage takes no time: something has to
HAS_LOADER = ("published", "fast", "only")
HAS_COPY = ("published", "fast", "cached", "copy")
QUIET = Signs(0, reads=0.0, compiles=0, denormals=0.0, copied_bytes=0, copied_arrays=0.0, fault_ns=250.0)
NOT_PARTED = Missing("this fake step is all in one: the script names no stages")


@dataclass(frozen=True, slots=True)
class Stages:
    """The parts of a step in milliseconds; `overlaps` says that they run side by side."""

    loader: float
    copy: float
    compute: float
    overlaps: bool = False

    @property
    def step_ms(self) -> float:
        parts = (self.loader, self.copy, self.compute)
        return max(LEAST_MS, max(parts) if self.overlaps else sum(parts))

    @property
    def wait_ms(self) -> float:
        """Give what is waited for a loader that goes on while the rest is done."""
        return max(0.0, self.loader - self.copy - self.compute) if self.overlaps else self.loader


def stages_of(script: Script, order: HeatOrder, published_batch: int) -> Stages:
    """Give the parts that the lane's input leaves, as its batch, and what it is gained by, make them."""
    settings = order.lane.settings
    times = ((settings.batch or published_batch) * (settings.joined or 1)) / published_batch
    if not script.has_stages:
        share = script.batch_share or 0.0
        return _gained(Stages(0.0, 0.0, script.step_ms * (1 - share + share * times)), script, order)
    share = 1.0 if script.batch_share is None else script.batch_share
    whole = Stages(
        (script.loader_ms or 0.0) * times,
        (script.copy_ms or 0.0) * times,
        (script.compute_ms or 0.0) * (1 - share + share * times),
        script.overlap,
    )
    kind = settings.input
    left = replace(
        whole,
        loader=whole.loader if kind in HAS_LOADER else 0.0,
        copy=whole.copy if kind in HAS_COPY else 0.0,
        compute=0.0 if kind in {"copy", "only"} else whole.compute,
    )
    return _gained(left, script, order)


def words_of(order: HeatOrder) -> set[str]:
    """Give all words that a lane's settings could be written in, those that its preset has set too."""
    told = order.lane.settings
    named = set(order.lane.name.split("/")[-1].split("+"))
    plain = {told.precision, told.execution, told.layout, told.optimizer}
    keyed = ("threads", "malloc", "input", "workers", "batch", "denormals", "reads")
    return named | plain | {f"{key}={getattr(told, key)}" for key in keyed}


def _gained(stages: Stages, script: Script, order: HeatOrder) -> Stages:
    words = words_of(order)
    for word, gain in script.gains.items():
        if word in words:
            stages = _divided(stages, gain, word)
    return stages


def _divided(stages: Stages, gain: float | dict[str, float], word: str) -> Stages:
    """A plain number is a gain in computing; a table names the stage that gains."""
    by_stage = gain if isinstance(gain, dict) else {"compute": gain}
    known = {"loader", "copy", "compute"}
    if unknown := set(by_stage) - known:
        raise LaneError(
            f"LAPTIME_FAKE: gains of {word} name the stage {', '.join(sorted(unknown))}",
            f"stages: {', '.join(sorted(known))}",
        )
    return replace(stages, **{stage: getattr(stages, stage) / factor for stage, factor in by_stage.items()})


def signs_of(script: Script) -> Signs:
    """Give what the script says is seen in a step, and nothing where it says nothing."""
    if unknown := set(script.signs) - {each.name for each in fields(Signs)}:
        raise LaneError(f"LAPTIME_FAKE: signs has no {', '.join(sorted(unknown))}",
                        f"it has: {', '.join(each.name for each in fields(Signs))}")  # fmt: skip
    quiet: dict[str, Any] = msgspec.to_builtins(QUIET)
    try:
        return msgspec.convert({**quiet, **script.signs}, Signs)
    except msgspec.ValidationError as error:
        raise LaneError(f"LAPTIME_FAKE: signs cannot be read: {error}", "such as { reads = 2.0, shapes = 3 }") from None


class FakeApart:
    """A fake step in its parts, each of which passes time on the virtual clock."""

    stride = 1

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, stages: Stages, factor: float) -> None:
        self._script, self._order, self._clock, self._stages, self._factor = script, order, clock, stages, factor

    def fetch(self) -> None:
        fail_if_told(self._script, self._order, "take apart")
        self._clock.pass_ms(self._stages.wait_ms * self._factor)

    def move(self, _batch: Any) -> None:
        self._clock.pass_ms(self._stages.copy * self._factor)

    def compute(self, _batch: Any) -> None:
        self._clock.pass_ms(self._stages.compute * self._factor)

    def describe(self, _batch: Any) -> Hashable:
        return (self._order.lane.settings.batch,)

    def look(self, _steps: int, _timed: int) -> Signs:
        told = signs_of(self._script)
        if self._script.has_stages:
            return told
        times = ("wait_ns", "copy_ns", "compute_ns")
        absent: dict[str, Any] = {name: NOT_PARTED for name in times if name not in self._script.signs}
        return replace(told, **absent)
