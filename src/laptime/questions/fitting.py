"""Does a lane fit into memory, and into the time, at another batch? Estimated before it runs, from its heats at others,
and for memory from its shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laptime.analysis.memory import estimate_memory, find_largest_batch, memory_of
from laptime.machine.processor import available_memory_bytes
from laptime.model.lane import NO_TRAINING
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.record import LaneResult
from laptime.model.workload import Workload
from laptime.planner.duets import LINE_MAY_BE_OFF, SHAPES_MAY_BE_OFF, room_for, why_too_large
from laptime.questions.heat_rounds import HeatRounds
from laptime.workloads import find_workload
from laptime.workloads.memory import count_heat_memory, count_step_memory

FULL_PRECISION = ("fp32", "tf32")
STEPS_LEAST = 14  # of a heat, however slow: ten of the proof, the first one, and three windows
NOT_COUNTED = Missing("only built-in trainings in PyTorch hold what their shapes say, in float32 and not compiled")


class Fitting:
    """Estimates the memory and the time of lanes at batches that have not run, and says which surely do not fit."""

    def __init__(self, rounds: HeatRounds) -> None:
        self._rounds = rounds

    def estimate(self, lane: PlannedLane) -> int | Missing:
        """Return what a heat of a lane would hold, from heats of the same lane at other batches."""
        batch = self._batch_of(lane)
        return batch if isinstance(batch, Missing) else self._estimator(lane)(batch)

    def why_too_large(self, lane: PlannedLane) -> str | None:
        """Return why a lane surely does not fit into memory, or None. Before it has run, its shapes alone count."""
        needed = self.estimate(lane)
        if isinstance(needed, Missing):
            needed = self._least(lane)
        if isinstance(needed, Missing):
            return None
        may_be_off = LINE_MAY_BE_OFF if isinstance(self._counted(lane), Missing) else SHAPES_MAY_BE_OFF
        return why_too_large(lane.device, needed, may_be_off, available_memory_bytes())

    def largest_batch(self, lane: PlannedLane) -> int | None:
        """Return the largest batch of a lane that fits by its estimate, or None if that is not known."""
        room = room_for(lane.device, available_memory_bytes())
        return None if isinstance(room, Missing) else find_largest_batch(room, self._estimator(lane))

    def heat_s(self, lane: PlannedLane) -> float | Missing:
        """Return how long a heat of a lane would take, by steps on the line through the two largest that have run."""
        batch = self._batch_of(lane)
        if isinstance(batch, Missing):
            return batch
        steps = {each.items_per_step: each.step_ms.median for each in self._finished(lane) if each.step_ms}
        known = sorted(each for each in steps if each)
        if len(known) < 2:
            return Missing("fewer than two batches of this lane have run")
        small, large = known[-2:]
        item_ms = max(0.0, (steps[large] - steps[small]) / (large - small))
        return STEPS_LEAST * (steps[large] + item_ms * (batch - large)) / 1e3

    def _estimator(self, lane: PlannedLane) -> Callable[[int], int | Missing]:
        peaks, workload = self._peaks(lane), self._counted(lane)
        if isinstance(workload, Missing):
            return lambda batch: estimate_memory(batch, peaks, workload)
        kind = lane.device.kind
        return lambda batch: estimate_memory(
            batch, peaks, lambda each: count_heat_memory(workload, replace(lane.settings, batch=each), kind)
        )

    def _least(self, lane: PlannedLane) -> int | Missing:
        """Return what a step holds by its shapes, without what the framework takes."""
        workload, batch = self._counted(lane), self._batch_of(lane)
        if isinstance(workload, Missing) or isinstance(batch, Missing):
            return NOT_COUNTED
        return count_step_memory(workload, batch, lane.device.kind)

    def _counted(self, lane: PlannedLane) -> Workload | Missing:
        """Return the workload of a lane whose steps hold what its shapes say."""
        subject, settings = self._rounds.job.plan.subject_of(lane), lane.settings
        is_plain = settings.execution == "eager" and settings.precision in FULL_PRECISION
        trains = lane.framework == "torch" and settings.input not in NO_TRAINING
        if not (subject.is_built_in and trains and is_plain):
            return NOT_COUNTED
        return find_workload(subject.name)

    def _peaks(self, lane: PlannedLane) -> dict[int, int]:
        """Return the most that was held at each batch at which the lane has finished a heat."""
        known = ((each.items_per_step, memory_of(each)) for each in self._finished(lane))
        return {batch: held for batch, held in known if batch is not None and not isinstance(held, Missing)}

    def _batch_of(self, lane: PlannedLane) -> int | Missing:
        """Return the items of a step. Where batches are joined, those of the lane as it is written are known."""
        own = lane.settings.batch or self._rounds.job.plan.subject_of(lane).batch
        if own is None:
            settings = ((each.settings, each.items_per_step) for each in self._finished(lane))
            own = next((items for each, items in settings if each.joined is None and each.batch is None), None)
        return Missing("its batch is not known yet") if own is None else own * (lane.settings.joined or 1)

    def _finished(self, lane: PlannedLane) -> list[LaneResult]:
        """Return the results of this lane at all batches that have finished a heat."""
        rounds, wanted = self._rounds, _all_but_batch(lane)
        alike = (each for each in rounds.job.plan.lanes if rounds.heats[each.name] and _all_but_batch(each) == wanted)
        return [result for result in map(rounds.result_of, alike) if result.status == "ok"]


def _all_but_batch(lane: PlannedLane) -> tuple[object, ...]:
    """Return what else decides how much a lane holds."""
    settings = replace(lane.settings, batch=None, joined=None, learning_rate=None)
    return lane.framework, lane.device.name, lane.training, settings
