"""How long does the whole published training take on each lane, and does it learn the same? One lane after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from laptime.analysis.full import find_factor, summarise_full_lane
from laptime.analysis.learning import compare_learning, find_reached
from laptime.analysis.watched import training_usage
from laptime.errors import UsageError
from laptime.model.dataset import DataSource
from laptime.model.lane import Settings
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.protocol import FullOrder, FullRace, FullRun, Moment, Protocol
from laptime.model.record import SCHEMA, LaneResult, Record
from laptime.model.sample import Appeal, Dnf, Reference
from laptime.model.workload import Published
from laptime.questions.asking import Prepared
from laptime.questions.field import FAKE
from laptime.questions.outside import Outside
from laptime.questions.proving import Shelf, find_reference, hear_appeal, order_heat
from laptime.questions.supply import supply
from laptime.run.following import Limits
from laptime.run.marathon import Marathon, TrainingNotes, make_run
from laptime.run.watching import Watch

ORDER_OF_ONE_SEED = "one lane after another, as they were named: each has the machine to itself"
ORDER_OF_SEEDS = (
    "one training after another, seed by seed, every other seed in reverse order: each has the machine to itself, "
    "and what drifts meets the lanes alike"
)
FULL_HZ = 1.0  # a training of hours is told well enough by a reading a second, and its record stays small
READINGS_MOST = 14_400  # of an instrument and process: four hours of them, and of longer trainings as many
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """What whole trainings need of the world beside what a race needs: places for checkpoints, and who is told."""

    outside: Outside
    place: Callable[[str, int], Path]
    drop: Callable[[Path], None]
    tell: Callable[[Moment], None]


@dataclass(slots=True)
class Course:
    """Trainings under way: those of an earlier process and those of this one, and what they are held against."""

    plan: Plan
    protocol: Protocol
    machine: Machine
    published: Published | None
    stage: Stage
    watch: Watch
    runs: dict[Key, FullRun] = field(default_factory=dict)
    reference: Reference | str | None = None
    appeals: dict[str, Appeal | None] = field(default_factory=dict)
    before_s: float = 0.0
    journal_s: float = 0.0


def run_full(prepared: Prepared, protocol: Protocol, stage: Stage, before: Record | None = None) -> Record:
    """Train every lane from every seed, or what is left of that; journal after each lap."""
    ask = prepared.plan.ask
    watch = Watch(ask.sensors, FULL_HZ if ask.sensors_hz is None else ask.sensors_hz, READINGS_MOST)
    course = Course(prepared.plan, protocol, prepared.machine, prepared.published, stage, watch)
    if before is not None:
        assert before.full is not None
        course.runs = {(run.lane, run.seed): run for run in before.full.runs}
        course.reference, course.before_s = before.reference, before.elapsed_s
        course.appeals = {lane.name: lane.appeal for lane in before.lanes if lane.appeal is not None}
    try:
        _journal(course, "running")
        course.plan = supply(course.plan, partial(_tell, course))
        _check_data(course.plan.data, before)
        _prove_against(course)
        for order in list_orders(course):
            _train(course, order)
            _hear_appeal(course, order)
        record = _make_record(course, "finished")
    except KeyboardInterrupt:
        record = _make_record(course, "interrupted")
    stage.outside.journal(record)
    return record


def _check_data(data: DataSource | None, before: Record | None) -> None:
    """Refuse to go on with other images than those a training began with."""
    began_with = before.data if before is not None else None
    if began_with is not None and (data is None or data.digest != began_with.digest):
        raise UsageError(
            f"the data in {began_with.folder} is not what this training began with",
            f"it had {began_with.train_items:,} items to train and {began_with.test_items:,} to test; begin anew",
        )


def order_words(seeds: int) -> str:
    """Say in which order lanes are trained, and why."""
    return ORDER_OF_ONE_SEED if seeds == 1 else ORDER_OF_SEEDS


def list_orders(course: Course) -> list[FullOrder]:
    """Give what is left to train, in order; every lane is proven once, from the first seed."""
    orders: list[FullOrder] = []
    number, first_seed = 0, course.plan.ask.seed
    for turn in range(course.protocol.seeds):
        for lane in course.plan.lanes if turn % 2 == 0 else course.plan.lanes[::-1]:
            seed = first_seed + turn
            done = course.runs.get((lane.name, seed))
            heat = order_heat(course.plan, lane, course.plan.pace, number, seed)
            number += 1
            if done is not None and done.status == "ok":
                continue
            prove = seed == first_seed and not (done is not None and done.proofs)
            place = course.stage.place(lane.name, seed)
            protocol = replace(course.protocol, steps_per_lap=_steps(course, heat.lane.settings.batch))
            orders.append(FullOrder(heat, protocol, str(place), prove))
    return orders


def _steps(course: Course, batch: int | None) -> int | None:
    """At another batch than the workload's, take as many steps as see the same items."""
    steps, meant = course.protocol.steps_per_lap, course.plan.subject.batch
    if steps is None or batch is None or meant is None:
        return steps
    return max(1, round(steps * meant / batch))


def _prove_against(course: Course) -> None:
    if course.reference is None:
        course.reference = find_reference(course.plan, _shelf(course))


def _shelf(course: Course) -> Shelf:
    outside = course.stage.outside
    return Shelf(outside.recall, outside.keep, partial(_tell, course))


def _hear_appeal(course: Course, order: FullOrder) -> None:
    """Hear a lane that seems to do other work, once."""
    lane, proofs = order.heat.lane, course.runs[(order.heat.lane.name, order.heat.seed)].proofs
    if proofs and lane.name not in course.appeals:
        course.appeals[lane.name] = hear_appeal(course.plan, lane, [proofs], course.reference, _shelf(course))


def _tell(course: Course, note: str) -> None:
    course.stage.tell(Moment("", None, note, course.protocol.laps, is_news=True))


def _train(course: Course, order: FullOrder) -> None:
    """Train one lane from one seed; whatever becomes of it, the others have their turn."""
    key = (order.heat.lane.name, order.heat.seed)
    before = course.runs.get(key)
    notes = TrainingNotes(laps=list(before.laps) if before else [])

    def note(status: str, dnf: Dnf | None = None) -> None:
        made = make_run(order, notes, before, status, dnf)  # type: ignore[arg-type]
        course.runs[key] = replace(made, reached=find_reached(made.laps, course.protocol.until_accuracy))

    def keep() -> None:
        note("running")
        _journal(course, "running")

    ask, lane = course.plan.ask, order.heat.lane
    # A fake's clock is its own: no reading could be laid beside its laps.
    sampler = None if lane.framework == FAKE else course.watch.sampler_for(lane.device)
    try:
        dnf = Marathon(Limits(ask.patience_s, ask.watchdog_s), course.stage.tell, keep, sampler).run(order, notes)
    except KeyboardInterrupt:
        note("interrupted")
        raise
    note("dnf" if dnf else "ok", dnf)
    _journal(course, "running")
    if dnf is None:
        course.stage.drop(Path(order.checkpoint))


def _journal(course: Course, status: str) -> None:
    began_s = time.monotonic()
    course.stage.outside.journal(_make_record(course, status))
    course.journal_s += time.monotonic() - began_s


def _make_record(course: Course, status: str) -> Record:
    plan, outside = course.plan, course.stage.outside
    runs = tuple(sorted(course.runs.values(), key=lambda run: run.order))
    lanes = tuple(_summarise(course, lane, runs) for lane in plan.lanes)
    # Nobody reads between laps what a training takes, and to add up hours of readings takes its time.
    lanes = lanes if status == "running" else tuple(_add_usage(course, lane, runs) for lane in lanes)
    parameters = next((run.parameters for run in runs if run.parameters), plan.subject.parameters)
    held, others = _reference_lane(lanes)
    factors = (find_factor(lane, held, runs) for lane in others) if held else ()
    alike = [lane for lane in others if held and _learns_alike(lane.settings, held.settings)]
    findings = (compare_learning(lane.name, held.name, runs) for lane in alike) if held else ()
    order = order_words(course.protocol.seeds)
    return Record(
        schema=SCHEMA,
        tool=outside.tool,
        id=outside.record_id,
        started=outside.started,
        question="full",
        status=status,  # type: ignore[arg-type]
        ask=plan.ask,
        machine=course.machine,
        workload=replace(plan.subject, parameters=parameters),
        published=course.published,
        lanes=lanes,
        findings=tuple(each for each in findings if each is not None),
        reference=course.reference if isinstance(course.reference, Reference) else None,
        elapsed_s=course.before_s + time.monotonic() - outside.began_s,
        overhead={"parent_processor_s": time.process_time(), "journal_s": course.journal_s},
        full=FullRace(course.protocol, order, runs, tuple(each for each in factors if each is not None)),
        data=plan.data,
    )


def _summarise(course: Course, lane: PlannedLane, runs: tuple[FullRun, ...]) -> LaneResult:
    appeal = course.appeals.get(lane.name)
    return summarise_full_lane(lane, runs, course.reference, course.plan.subject.batch, appeal)


def _add_usage(course: Course, lane: LaneResult, runs: tuple[FullRun, ...]) -> LaneResult:
    mine = [run for run in runs if run.lane == lane.name]
    usage = training_usage(mine, lane.device, course.machine.processor.cores_usable, lane)
    return lane if usage is None else replace(lane, usage=usage, energy_j_per_lap=usage.energy.j_per_lap)


def _learns_alike(one: Settings, other: Settings) -> bool:
    """Tell whether two lanes were meant to learn the same: cells of a grid are not."""
    return (one.batch, one.learning_rate) == (other.batch, other.learning_rate)


def _reference_lane(lanes: tuple[LaneResult, ...]) -> tuple[LaneResult | None, list[LaneResult]]:
    """Hold every lane against the first that has trained a lap."""
    trained = [lane for lane in lanes if lane.step_ms is not None]
    return (trained[0], trained[1:]) if trained else (None, [])
