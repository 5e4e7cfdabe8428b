"""Where does a lane's step go, operator by operator? Some of its steps under the framework's own profiler."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from laptime.analysis.across import startup_s
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import Plan, PlannedLane
from laptime.model.profile import ProfileOrder, ProfileRun
from laptime.model.record import SCHEMA, LaneResult, Parity, Record
from laptime.model.workload import Published
from laptime.questions.asking import Prepared, prepare, with_lane
from laptime.questions.bounds import Bounds, find_bounds, with_roofline
from laptime.questions.outside import SHOWN_AT, Outside
from laptime.questions.proving import order_heat
from laptime.questions.subject import find_subject
from laptime.questions.supply import supply
from laptime.run.profiling import run_profile

NOT_ASKED = Parity("unproven", reason="it was profiled, and not raced")
NO_TURN = Missing("the run was ended before its turn came")
NOT_FINISHED = Missing("the lane did not finish")


@dataclass(slots=True)
class Course:
    """Profiles under way: what came of the lanes so far."""

    plan: Plan
    machine: Machine
    published: Published | None
    outside: Outside
    bounds: dict[str, Bounds]
    runs: dict[str, ProfileRun] = field(default_factory=dict)
    journal_s: float = 0.0


def prepare_profile(ask: Ask, machine: Machine) -> Prepared:
    """Scout and plan. With no lane it is the one that a framework's bare name means: its card, if there is one."""
    return prepare(with_lane(ask, machine, find_subject(ask.what)[0]), machine)


def run_profiles(prepared: Prepared, outside: Outside) -> Record:
    """Profile one lane after another; journal after each. No lane's failure stops the others."""
    bounds = find_bounds(prepared.plan, prepared.machine, outside.peaks)
    course = Course(prepared.plan, prepared.machine, prepared.published, outside, bounds)
    try:
        course.plan = supply(course.plan, lambda note: outside.show(_make_record(course, "running"), note))
        for number, lane in enumerate(course.plan.lanes):
            course.runs[lane.name] = profile_lane(
                course.plan, course.machine, number, outside, partial(_tell, course, lane)
            )
            _journal(course)
        record = _make_record(course, "finished")
    except KeyboardInterrupt:
        record = _make_record(course, "interrupted")
    outside.journal(record)
    return record


def profile_lane(
    plan: Plan, machine: Machine, number: int, outside: Outside, tell: Callable[[str], None]
) -> ProfileRun:
    """Profile the plan's lane of this number as it is raced: same environment, same settings, same input."""
    lane, cores = plan.lanes[number], machine.processor.cores_usable
    with tempfile.TemporaryDirectory(prefix="laptime-", ignore_cleanup_errors=True) as scratch:
        heat = order_heat(plan, lane, plan.pace, number)
        order = ProfileOrder(heat, str(outside.place_trace(lane.name)), scratch)
        return run_profile(order, plan.ask.patience_s, cores, tell)


def with_profile(lane: LaneResult, run: ProfileRun | None) -> LaneResult:
    """Give a lane with its profile, or with the reason why it has none."""
    if run is not None and run.profile is not None:
        return replace(lane, profile=run.profile)
    if run is None:
        reason = NO_TURN if lane.status == "ok" else NOT_FINISHED
    else:
        reason = Missing(run.reason or "the child told nothing")
    return replace(lane, absent={**lane.absent, "profile": reason})


def _tell(course: Course, lane: PlannedLane, phase: str) -> None:
    """Show progress while a child builds: from its first step on, nothing of ours runs beside it."""
    if phase == SHOWN_AT:
        note = f"profile {len(course.runs) + 1} of {len(course.plan.lanes)}: {lane.name}"
        course.outside.show(_make_record(course, "running"), note)


def _journal(course: Course) -> None:
    began_s = time.monotonic()
    course.outside.journal(_make_record(course, "running"))
    course.journal_s += time.monotonic() - began_s


def _make_record(course: Course, status: str) -> Record:
    plan, outside = course.plan, course.outside
    known = [run.parameters for run in course.runs.values() if run.parameters]
    return Record(
        schema=SCHEMA,
        tool=outside.tool,
        id=outside.record_id,
        started=outside.started,
        question="profile",
        status=status,  # type: ignore[arg-type]
        ask=plan.ask,
        machine=course.machine,
        workload=replace(plan.subject, parameters=next(iter(known), plan.subject.parameters)),
        published=course.published,
        lanes=tuple(
            with_roofline(_describe(lane, course.runs.get(lane.name)), course.bounds[lane.name]) for lane in plan.lanes
        ),
        elapsed_s=time.monotonic() - outside.began_s,
        overhead={"parent_processor_s": time.process_time(), "journal_s": course.journal_s},
        data=plan.data,
    )


def _describe(lane: PlannedLane, run: ProfileRun | None) -> LaneResult:
    """Give a lane as every record holds one; a step of it is in its profile."""
    failed = run if run is not None and run.profile is None else None
    made = LaneResult(
        name=lane.name,
        framework=run.versions if run else {},
        device=lane.device,
        settings=lane.settings,
        status="ok" if failed is None else "dnf" if failed.is_dnf else "unusable",
        reason=None if failed is None else failed.reason,
        step_ms=None,
        lap_s=None,
        items_per_s=None,
        first_step_ms=run.first_step_ns / 1e6 if run and run.first_step_ns is not None else None,
        startup_s=startup_s(run.phases_s) if run else None,
        peak_memory_bytes=run.peak_memory_bytes if run else NO_TURN,
        device_memory_bytes=run.device_memory_bytes if run else NO_TURN,
        energy_j_per_lap=Missing("no instrument was read"),
        parity=NOT_ASKED,
        items_per_step=run.items_per_step if run else None,
        notes=(*lane.notes, *(run.notes if run else ())),
    )
    return with_profile(made, run)
