"""What a cause is judged by: a lane as it is, its ceilings, what was tried, and what process and instruments told."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.diagnosis.seen import Seen, see
from laptime.diagnosis.steps import Pauses, find_pauses, mean_ms
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.record import Finding, LaneResult
from laptime.model.signs import NOT_LOOKED, Signs
from laptime.model.why import Factor, Stage, Trial

NOT_MEASURED = Missing("it was not measured")
NO_STEP = Missing("the lane has no step: no heat of it finished")


@dataclass(frozen=True, slots=True)
class Case:
    """One lane with all that is known of it. `trials` are the experiments by their names, each against the lane as it
    is; `ceilings_lanes` are the lanes of one stage alone. `unseen` tells of cards that are here and are not used.

    A gain up to `margin` is none. `what` and `items` are the subject's words.
    """

    lane: LaneResult
    machine: Machine
    trials: dict[str, Trial] = field(default_factory=dict)
    unseen: tuple[Finding, ...] = ()
    margin: float = 0.05
    ceilings_lanes: dict[Stage, LaneResult] = field(default_factory=dict)
    what: str = ""
    items: str = "items"
    lap_steps: float | None = None

    @property
    def on_processor(self) -> bool:
        return self.lane.device.kind == "cpu"

    @property
    def cores(self) -> int:
        return self.machine.processor.cores_usable

    @property
    def step_ms(self) -> float | None:
        return None if self.lane.step_ms is None else self.lane.step_ms.median

    @property
    def signs(self) -> Signs | None:
        """Give the signs of the first heat that has some."""
        return next((heat.signs for heat in self.lane.heats if heat.signs is not None), None)

    def sign(self, name: str) -> float | Missing:
        """Give one of the signs, or why it is not known."""
        told: float | Missing = NOT_LOOKED if self.signs is None else getattr(self.signs, name)
        return told

    def seen(self) -> Seen:
        return see(self.lane, self.machine)

    def factor(self, name: str) -> Factor | None:
        trial = self.trials.get(name)
        return None if trial is None else trial.factor

    def moved(self, name: str, least: float | None = None) -> bool:
        """Tell whether an experiment's whole interval lies above: what it changed was a cause."""
        factor = self.factor(name)
        bound = 1 + self.margin if least is None else least
        return factor is not None and not isinstance(factor.low, Missing) and factor.low > bound

    def stays(self, name: str, least: float | None = None) -> bool:
        """Tell whether an experiment's whole interval lies below: what it changed is no cause."""
        factor = self.factor(name)
        bound = 1 + self.margin if least is None else least
        return factor is not None and not isinstance(factor.high, Missing) and factor.high < bound

    def pauses(self) -> Pauses | None:
        return find_pauses(self.lane)

    def whole_ms(self) -> float | None:
        """Give all that a step takes, pauses between steps with it."""
        pauses = self.pauses()
        if pauses is None or self.step_ms is None:
            return self.step_ms
        return mean_ms(self.lane)

    def stage_ms(self, stage: Stage) -> float | Missing:
        """Give a step of one stage alone: its lane's, else what its trial tells, else of the steps taken apart."""
        if self.step_ms is None:
            return NO_STEP
        if stage == "copy" and self.on_processor:
            return 0.0
        alone = self.ceilings_lanes.get(stage)
        if alone is not None and alone.status == "ok" and alone.step_ms is not None:
            return usual_ms(alone) * self._as_many_items(alone)
        factor = self.factor(stage)
        return self.apart_ms(stage) if factor is None else self.step_ms / factor.ratio

    def apart_ms(self, stage: Stage) -> float | Missing:
        """Give a stage's part of the steps that were taken apart: of the loader, what the step had to wait for it."""
        told = self.sign({"loader": "wait_ns", "copy": "copy_ns", "compute": "compute_ns"}[stage])
        if isinstance(told, Missing) or self.signs is None or not self.signs.steps:
            return told if isinstance(told, Missing) else NOT_MEASURED
        return told / self.signs.steps / 1e6

    def busy(self, lane: LaneResult | None = None) -> float | Missing:
        """Give the share of the time in which the device had anything to do; for a processor it says nothing."""
        of = self.lane if lane is None else lane
        if of.device.kind == "cpu":
            return Missing("this lane computes on the processor")
        if of.usage is not None and not isinstance(of.usage.device_percent, Missing):
            return of.usage.device_percent / 100
        if of.profile is not None and not isinstance(of.profile.device_ms, Missing):
            return min(1.0, of.profile.device_ms / of.profile.plain_ms)
        return Missing("no instrument was read") if of.usage is None else _why(of.usage.device_percent)

    def busy_cores(self, lane: LaneResult | None = None) -> float | Missing:
        """Give how many cores a lane's own processes kept busy."""
        usage = (self.lane if lane is None else lane).usage
        if usage is None:
            return Missing("no instrument was read")
        told = usage.processor_percent
        return told if isinstance(told, Missing) else told / 100 * self.cores

    def steps_per_lap(self) -> float | None:
        """Give the steps of a lap, where nobody told as many as its time holds."""
        if self.lap_steps is not None:
            return self.lap_steps
        mean = mean_ms(self.lane)
        lap = self.lane.lap_s
        return None if lap is None or not mean else 1e3 * lap.median / mean

    def _as_many_items(self, other: LaneResult) -> float:
        ours, theirs = self.lane.items_per_step, other.items_per_step
        return ours / theirs if ours and theirs else 1.0


def usual_ms(lane: LaneResult) -> float:
    """Give a lane's step without its pauses."""
    assert lane.step_ms is not None
    pauses, mean = find_pauses(lane), mean_ms(lane)
    return lane.step_ms.median if pauses is None or mean is None else mean * (1 - pauses.share)


def _why(told: float | Missing) -> Missing:
    return told if isinstance(told, Missing) else NOT_MEASURED
