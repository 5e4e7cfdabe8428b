"""Where does the time of a lane's step go, operator by operator? Run some steps under the framework's own profiler."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from laptime.analysis.heats import startup_s
from laptime.engine.run.answers import ProfileRunner
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Parity, ProfileAnswer
from laptime.model.symptoms import ProfileOrder, ProfileRun
from laptime.questions.asking import Prepared, prepare
from laptime.questions.bounds import find_bounds, with_roofline
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.proving import order_heat

PROFILED_ONLY = Parity("unproven", reason="it was profiled, and not raced")
NO_TURN = Missing("the run was ended before its turn came")
LANE_NOT_FINISHED = Missing("the lane did not finish")


def prepare_profile(ask: Ask, machine: Machine) -> Prepared:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    return prepare(ask, machine, one_lane=True)


class Profiles:
    """Profiles the lanes one after another. If one fails, the others still run."""

    def __init__(self, job: Job, _prepared: Prepared) -> None:
        self._job = job
        self._bounds = find_bounds(job.plan, job.machine, job.services.peaks)
        self._runs: dict[str, ProfileRun] = {}

    def run(self) -> None:
        job = self._job
        job.supply_data(job.announce)
        for number, lane in enumerate(job.plan.lanes):
            self._runs[lane.name] = profile_lane(job, number, partial(self._show, lane))
            job.save()

    def reduce(self, _status: RecordStatus) -> Outcome:
        """Describe the lanes, each with its profile."""
        lanes = (_describe(lane, self._runs.get(lane.name)) for lane in self._job.plan.lanes)
        known = (run.process.parameters for run in self._runs.values() if run.process.parameters)
        return Outcome(
            tuple(with_roofline(lane, self._bounds[lane.name]) for lane in lanes),
            ProfileAnswer(),
            parameters=next(known, None),
        )

    def _show(self, lane: PlannedLane, phase: str) -> None:
        if phase == "build":  # from its first step on, nothing of laptime runs next to it
            self._job.announce(f"profile {len(self._runs) + 1} of {len(self._job.plan.lanes)}: {lane.name}")


def profile_lane(job: Job, number: int, tell: Callable[[str], None]) -> ProfileRun:
    """Profile the plan's lane at index `number` as it is raced: same environment, same settings, same input."""
    plan = job.plan
    lane = job.plan.lanes[number]
    with tempfile.TemporaryDirectory(prefix="laptime-", ignore_cleanup_errors=True) as scratch:
        heat = order_heat(plan, lane, plan.pace, number)
        order = ProfileOrder(heat, str(job.services.place_trace(lane.name)), scratch)
        runner = ProfileRunner(order, plan.ask.patience_s, job.cores, tell)
        run = runner.run()
        job.own_code.look_at(lane, runner)
        return run


def with_profile(lane: LaneResult, run: ProfileRun | None) -> LaneResult:
    """Return a lane with its profile, or with the reason why it has none."""
    if run is not None and run.profile is not None:
        return replace(lane, profile=run.profile)
    if run is None:
        reason = NO_TURN if lane.status == "ok" else LANE_NOT_FINISHED
    else:
        reason = Missing(run.reason or "the child told nothing")
    return replace(lane, absent={**lane.absent, "profile": reason})


def _describe(lane: PlannedLane, run: ProfileRun | None) -> LaneResult:
    """Return a lane's result as all records have it. Its step time is in the profile only."""
    failed = run if run is not None and run.profile is None else None
    process = run.process if run else None
    made = LaneResult(
        name=lane.name,
        framework=process.versions if process else {},
        device=lane.device,
        settings=lane.settings,
        status="ok" if failed is None else "dnf" if failed.is_dnf else "unusable",
        reason=None if failed is None else failed.reason,
        step_ms=None,
        lap_s=None,
        items_per_s=None,
        first_step_ms=run.first_step_ns / 1e6 if run and run.first_step_ns is not None else None,
        startup_s=startup_s(process.phases_s) if process else None,
        peak_memory_bytes=process.peak_memory_bytes if process else NO_TURN,
        device_memory_bytes=process.device_memory_bytes if process else NO_TURN,
        energy_j_per_lap=Missing("no instrument was read"),
        parity=PROFILED_ONLY,
        items_per_step=process.items_per_step if process else None,
        notes=(*lane.notes, *(process.notes if process else ())),
    )
    return with_profile(made, run)


PART = QuestionRun(prepare_profile, Profiles)
