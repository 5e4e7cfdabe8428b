"""What bounds each lane of a race: the work of its step, and its device's peaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from laptime.analysis.usage import place_under_roof
from laptime.model.hardware import NOT_MEASURED, DeviceKey, DevicePeaks, Roofline, StepWork, key_of
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.process import NO_TRAINING
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import count_step

ROOFLINE, PROFILE = "roofline", "profile"
TRAINS_NOTHING = Missing("this lane trains nothing")
WORK_NOT_COUNTED = Missing("a training of your own is counted with --profile")
Recall = Callable[[DeviceKey], "DevicePeaks | Missing"]


def nothing_measured(_key: DeviceKey) -> DevicePeaks | Missing:
    return NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Bounds:
    """The work of a lane's step, and its device's peaks, as far as each is known before the race."""

    work: StepWork | Missing
    peaks: DevicePeaks | Missing


def find_bounds(plan: Plan, machine: Machine, recall: Recall) -> dict[str, Bounds]:
    """Return each lane's bounds, by the lane's name."""
    keys = {lane.name: key_of(lane.device, lane.framework, machine.processor) for lane in plan.lanes}
    return {lane.name: Bounds(_work_of(plan, lane), recall(keys[lane.name])) for lane in plan.lanes}


def _work_of(plan: Plan, lane: PlannedLane) -> StepWork | Missing:
    if lane.settings.input in NO_TRAINING:
        return TRAINS_NOTHING
    subject = plan.subject_of(lane)
    if not subject.is_built_in:
        return WORK_NOT_COUNTED
    workload = find_workload(subject.name)
    return count_step(workload, lane.settings.batch or workload.batch, lane.settings.precision)


def with_roofline(lane: LaneResult, bounds: Bounds) -> LaneResult:
    """Return a lane with how near it comes to its limit, or why that is not known.

    If its device was never measured, the lane stays as it is; a profiled lane then has a hint to measure the device.
    """
    step_ms = _step_ms(lane)
    if lane.status != "ok" or step_ms is None:
        return lane
    profiled = lane.profile is not None or PROFILE in lane.absent
    if bounds.peaks == NOT_MEASURED and not profiled:
        return lane
    found = _roofline(lane, bounds, step_ms)
    if isinstance(found, Missing):
        return replace(lane, absent={**lane.absent, ROOFLINE: found})
    return replace(lane, roofline=found)


def _step_ms(lane: LaneResult) -> float | None:
    """Return the lane's step time: that of the race or, if it was only profiled, that of the steps without profiler."""
    if lane.step_ms is not None:
        return lane.step_ms.median
    return None if lane.profile is None else lane.profile.plain_ms


def _roofline(lane: LaneResult, bounds: Bounds, step_ms: float) -> Roofline | Missing:
    work = bounds.work
    if isinstance(work, Missing) and work == WORK_NOT_COUNTED and lane.profile is not None:
        work = lane.profile.work or lane.profile.absent.get("work", WORK_NOT_COUNTED)
    if isinstance(bounds.peaks, Missing):
        return bounds.peaks
    if isinstance(work, Missing):
        return work
    return place_under_roof(step_ms, lane.settings.precision, work, bounds.peaks)
