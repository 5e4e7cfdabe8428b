"""How long does one answer take on each lane, how many are there a second, and what does the first one cost?"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

from laptime.analysis.inference import describe_answers, find_infer_factors, summarise_infer_lane
from laptime.analysis.watched import answer_usages
from laptime.model.ask import Ask
from laptime.model.inference import AnswerReference, InferHeat, InferOrder, InferPace
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.record import SCHEMA, Inference, InferFactor, InferLane, LaneResult, Record
from laptime.model.workload import Published
from laptime.planner.inference import check_infer_lanes, choose_infer_pace
from laptime.planner.presets import KEEP_MEMORY
from laptime.questions.asking import Prepared, prepare, say_end
from laptime.questions.field import FAKE
from laptime.questions.outside import SHOWN_AT, Outside
from laptime.questions.proving import order_heat
from laptime.questions.supply import supply
from laptime.run.following import Limits
from laptime.run.inference import InferDirector
from laptime.run.scout import ask_answers
from laptime.run.watching import Watch


@dataclass(slots=True)
class Course:
    """Inference under way: its heats so far, and who is still in it."""

    plan: Plan
    pace: InferPace
    machine: Machine
    published: Published | None
    outside: Outside
    heats: dict[str, list[InferHeat]]
    running: list[PlannedLane]
    watch: Watch
    reference: AnswerReference | str | None = None
    rounds: int = 0
    journal_s: float = 0.0

    def is_done(self, round_s: float) -> bool:
        """Tell whether no further round is wanted, or none would fit; no ratio is looked at."""
        elapsed_s = time.monotonic() - self.outside.began_s
        return self.rounds >= self.pace.heats or not self.running or elapsed_s + round_s > self.plan.ask.budget_s


def prepare_infer(ask: Ask, machine: Machine) -> tuple[Prepared, InferPace]:
    """Check all that can be checked before a process is started, then scout and plan."""
    prepared = prepare(ask, machine)
    check_infer_lanes(prepared.plan)
    return prepared, choose_infer_pace(ask, len(prepared.plan.lanes))


def run_infer(prepared: Prepared, pace: InferPace, outside: Outside) -> Record:
    """Run interleaved rounds of heats; journal after each heat."""
    plan = prepared.plan
    heats: dict[str, list[InferHeat]] = {lane.name: [] for lane in plan.lanes}
    watch = Watch(plan.ask.sensors, plan.ask.sensors_hz)
    course = Course(plan, pace, prepared.machine, prepared.published, outside, heats, list(plan.lanes), watch)
    try:
        _prepare(course)
        while True:
            began_s = time.monotonic()
            _run_round(course)
            if course.is_done(time.monotonic() - began_s):
                break
        record = _make_record(course, "finished")
    except KeyboardInterrupt:
        record = _make_record(course, "interrupted")
    outside.journal(record)
    return record


def _prepare(course: Course) -> None:
    """Make files where they are asked for, since the answers to made arrays take as long; then the reference."""

    def announce(note: str) -> None:
        course.outside.show(_make_record(course, "running"), note)

    if course.plan.ask.items is not None:
        course.plan = supply(course.plan, announce)
    announce("computing the float64 answers of the proof, once")
    processor = Device("cpu", "cpu", "the processor", usable=True)
    lane = PlannedLane("reference", course.plan.lanes[0].framework, processor, Settings(input="cached"), KEEP_MEMORY)
    order = order_heat(course.plan, lane, course.plan.pace, -1)
    course.reference = ask_answers(order, course.plan.ask.patience_s)


def _run_round(course: Course) -> None:
    """Run one heat of each lane, every other round in reverse order: A B, B A, A B."""
    ask = course.plan.ask
    for lane in course.running if course.rounds % 2 == 0 else course.running[::-1]:
        # A fake's clock is its own: no reading could be laid beside its calls.
        sampler = None if lane.framework == FAKE else course.watch.sampler_for(lane.device)
        limits, cores = Limits(ask.patience_s, ask.watchdog_s), course.machine.processor.cores_usable
        director = InferDirector(limits, cores, partial(_tell, course, lane), sampler)
        number = sum(map(len, course.heats.values()))
        order = InferOrder(order_heat(course.plan, lane, course.plan.pace, number), course.pace)
        course.heats[lane.name].append(director.run_heat(order, course.rounds))
        began_s = time.monotonic()
        course.outside.journal(_make_record(course, "running"))
        course.journal_s += time.monotonic() - began_s
    course.running = [lane for lane in course.running if course.heats[lane.name][-1].status == "ok"]
    course.rounds += 1


def _tell(course: Course, lane: PlannedLane, phase: str) -> None:
    """Show progress while a child builds: from its first call on, nothing of ours runs beside it."""
    if phase == SHOWN_AT:
        done = sum(map(len, course.heats.values()))
        most = course.pace.heats * len(course.plan.lanes)
        left_s = course.plan.ask.budget_s - (time.monotonic() - course.outside.began_s)
        note = f"heat {done + 1} of at most {most}: {lane.name} answers; {say_end(left_s)}"
        course.outside.show(_make_record(course, "running"), note)


def _make_record(course: Course, status: str) -> Record:
    plan, outside = course.plan, course.outside
    answers = tuple(_describe(course, lane) for lane in plan.lanes)
    lanes = tuple(_summarise(course, lane, told) for lane, told in zip(plan.lanes, answers, strict=True))
    parameters = next((heat.parameters for heats in course.heats.values() for heat in heats if heat.parameters), None)
    reference = course.reference if isinstance(course.reference, AnswerReference) else None
    return Record(
        schema=SCHEMA,
        tool=outside.tool,
        id=outside.record_id,
        started=outside.started,
        question="infer",
        status=status,  # type: ignore[arg-type]
        ask=plan.ask,
        machine=course.machine,
        workload=replace(plan.subject, parameters=parameters or plan.subject.parameters),
        published=course.published,
        lanes=lanes,
        elapsed_s=time.monotonic() - outside.began_s,
        overhead={"parent_processor_s": time.process_time(), "journal_s": course.journal_s},
        data=plan.data,
        infer=Inference(course.pace, answers, _factors(course, lanes), reference),
    )


def _describe(course: Course, lane: PlannedLane) -> InferLane:
    told = describe_answers(lane.name, course.heats[lane.name])
    return replace(told, usages=answer_usages(told, lane.device, course.machine.processor.cores_usable))


def _summarise(course: Course, lane: PlannedLane, told: InferLane) -> LaneResult:
    """Give a lane as every record holds one: its step is a single call, and so is what it took."""
    found = summarise_infer_lane(lane, course.heats[lane.name], course.reference)
    return replace(found, usage=next((each.usage for each in told.usages if each.batch is None), None))


def _factors(course: Course, lanes: tuple[LaneResult, ...]) -> tuple[InferFactor, ...]:
    """Hold every lane that answers against the first of them."""
    answering = [lane for lane in lanes if lane.step_ms is not None]
    if not answering:
        return ()
    first, heats = answering[0], course.heats
    return tuple(
        factor
        for lane in answering[1:]
        for factor in find_infer_factors(lane, first, heats[lane.name], heats[first.name])
    )
