"""Which lane is faster, by how much, and did they learn the same: interleaved heats until the answer stands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from laptime.analysis.compare import compare_lanes
from laptime.analysis.lanes import summarise_lane
from laptime.diagnosis.placement.rules import find_unseen
from laptime.diagnosis.rules import find_findings
from laptime.model.lane import NO_TRAINING
from laptime.model.machine import Machine
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.profile import ProfileRun
from laptime.model.protocol import Protocol
from laptime.model.record import SCHEMA, Comparison, Finding, LaneResult, Record
from laptime.model.sample import Appeal, Heat, Reference
from laptime.model.workload import Published
from laptime.planner.pace import shorten_pace
from laptime.questions.asking import say_end
from laptime.questions.bounds import Bounds, find_bounds, with_roofline
from laptime.questions.outside import SHOWN_AT, Outside
from laptime.questions.profile import profile_lane, with_profile
from laptime.questions.protocol import find_protocol
from laptime.questions.proving import Shelf, find_reference, hear_appeal, order_heat
from laptime.questions.supply import supply
from laptime.run.ahead import Ahead
from laptime.run.director import Director, Limits
from laptime.run.watching import Watch
from laptime.stats import FIRST_LOOK, alpha_for_look

FAKE = "fake"


@dataclass(slots=True)
class Course:
    """A race under way: its heats so far, who is still in it, and the pace of the heats to come."""

    plan: Plan
    machine: Machine
    heats: dict[str, list[Heat]]
    running: list[PlannedLane]
    pace: Pace
    reference: Reference | str | None = None
    appeals: dict[str, Appeal | None] = field(default_factory=dict)
    protocol: Protocol | None = None
    rounds: int = 0
    next_round_s: float = 0.0
    journal_s: float = 0.0
    watch: Watch = field(default_factory=lambda: Watch(("none",), 1.0))
    bounds: dict[str, Bounds] = field(default_factory=dict)
    profiles: dict[str, ProfileRun] | None = None

    def is_done(self, elapsed_s: float) -> bool:
        """Tell whether no further round is wanted, or none would fit; decided without looking at any ratio."""
        no_more = self.rounds >= self.plan.pace.heats_max or not self.running
        return no_more or elapsed_s + self.next_round_s > self.plan.ask.budget_s

    def end_round(self, round_s: float, elapsed_s: float) -> None:
        """Count a round, and fit those to come into what is left of the budget."""
        timed_s = [self.heats[lane.name][-1].phases_s.get("timing", 0.0) for lane in self.running]
        looked_s = sum(self.heats[lane.name][-1].phases_s.get("look ahead", 0.0) for lane in self.running)
        round_s -= looked_s  # once a lane, and not again
        self.running = [lane for lane in self.running if self.heats[lane.name][-1].status == "ok"]
        self.rounds += 1
        left_s = self.plan.ask.budget_s - elapsed_s
        shorter = shorten_pace(self.pace, timed_s, round_s, left_s, self.plan.pace.heats_max - self.rounds)
        self.next_round_s = round_s - sum(timed_s) * (1 - shorter.measure_s / self.pace.measure_s)
        self.pace = shorter


def run_race(plan: Plan, machine: Machine, published: Published | None, outside: Outside) -> Record:
    """Run the plan's heats in interleaved rounds; journal after each; stop by margin or budget."""
    course = Course(plan, machine, {lane.name: [] for lane in plan.lanes}, list(plan.lanes), plan.pace)

    def report(status: str, *, final: bool) -> Record:
        return _make_record(course, published, outside, status, final=final)

    def tell(lane: PlannedLane, phase: str) -> None:
        if phase == SHOWN_AT:
            outside.show(report("running", final=False), _note(course, lane, outside))

    final = True  # whoever interrupts a race has made the look before it the last
    try:
        announce = partial(_tell, outside, report)
        course.plan = supply(plan, announce)
        course.protocol = find_protocol(course.plan)
        shelf = Shelf(outside.recall, outside.keep, announce)
        course.reference = find_reference(course.plan, shelf)
        course.bounds = find_bounds(course.plan, machine, outside.peaks)
        course.watch = Watch(plan.ask.sensors, plan.ask.sensors_hz)
        with Ahead(course.machine.processor.cores_usable, plan.ask.patience_s) as ahead:
            while True:
                _run_round(course, outside, ahead, tell, report)
                _hear_appeals(course, shelf)
                # Whether this look is the last is decided before any ratio is looked at.
                last = course.is_done(time.monotonic() - outside.began_s)
                if last or _is_settled(report("running", final=False), course):
                    break
        final = last
        if plan.ask.profile:
            _profile(course, outside, announce)
        record = report("finished", final=final)
    except KeyboardInterrupt:
        record = report("interrupted", final=final)
    outside.journal(record)
    return record


def _profile(course: Course, outside: Outside, announce: Callable[[str], None]) -> None:
    """Profile each lane that finished, off the clock: nothing is raced any more."""
    course.profiles = {}
    finished = [number for number, lane in enumerate(course.plan.lanes) if _has_finished(course, lane)]
    for place, number in enumerate(finished):
        name = course.plan.lanes[number].name
        announce(f"profile {place + 1} of {len(finished)}: {name}")
        course.profiles[name] = profile_lane(course.plan, course.machine, number, outside, lambda _phase: None)


def _has_finished(course: Course, lane: PlannedLane) -> bool:
    heats = course.heats[lane.name]
    return bool(heats) and all(heat.status == "ok" for heat in heats)


def _tell(outside: Outside, report: Callable[..., Record], note: str) -> None:
    outside.show(report("running", final=False), note)


def _run_round(
    course: Course,
    outside: Outside,
    ahead: Ahead,
    tell: Callable[[PlannedLane, str], None],
    report: Callable[..., Record],
) -> None:
    """Run one heat of each lane, every other round in reverse order: A B, B A, A B."""
    began_s = time.monotonic()
    ask = course.plan.ask
    limits = Limits(ask.patience_s, ask.watchdog_s)
    lanes = course.running if course.rounds % 2 == 0 else course.running[::-1]
    ahead.line_up(lanes)
    for lane in lanes:
        # A fake's clock is its own: no reading could be laid beside its windows.
        sampler = None if lane.framework == FAKE else course.watch.sampler_for(lane.device)
        director = Director(limits, course.machine.processor.cores_usable, partial(tell, lane), sampler)
        number = sum(map(len, course.heats.values()))
        order = replace(order_heat(course.plan, lane, course.pace, number), test_items=_looked_at(course, lane))
        course.heats[lane.name].append(director.run_heat(order, course.rounds, ahead.take(lane)))
        begun_s = time.monotonic()
        outside.journal(report("running", final=False))
        course.journal_s += time.monotonic() - begun_s
    ended_s = time.monotonic()
    course.end_round(ended_s - began_s, ended_s - outside.began_s)


def _hear_appeals(course: Course, shelf: Shelf) -> None:
    """Hear every lane that seems to do other work, once: its proof is the same in every heat."""
    for lane in course.plan.lanes:
        proofs = [heat.proofs for heat in course.heats[lane.name] if heat.proofs]
        if proofs and lane.name not in course.appeals:
            course.appeals[lane.name] = hear_appeal(course.plan, lane, proofs, course.reference, shelf)


def _looked_at(course: Course, lane: PlannedLane) -> int:
    """Have each lane look at test items once: that is little of a training, and little is enough."""
    protocol = course.protocol
    if (
        protocol is None
        or lane.settings.input in NO_TRAINING
        or any(heat.examination is not None for heat in course.heats[lane.name])
    ):
        return 0
    return max(protocol.validation_items, protocol.evaluation_items)


def _is_settled(record: Record, course: Course) -> bool:
    """Tell whether every ratio's interval is within the margin, at the price that this look costs."""
    if not course.plan.pace.adaptive or course.rounds < FIRST_LOOK:
        return False
    return bool(record.comparisons) and all(each.settled for each in record.comparisons)


def _make_record(
    course: Course,
    published: Published | None,
    outside: Outside,
    status: str,
    *,
    final: bool,
) -> Record:
    plan = course.plan
    lanes = tuple(
        summarise_lane(
            plan,
            lane,
            tuple(course.heats[lane.name]),
            course.reference,
            course.protocol,
            appeal=course.appeals.get(lane.name),
            cores=course.machine.processor.cores_usable,
        )
        for lane in plan.lanes
    )
    if course.profiles is not None:
        lanes = tuple(with_profile(lane, course.profiles.get(lane.name)) for lane in lanes)
    lanes = tuple(with_roofline(each, course.bounds[each.name]) if course.bounds else each for each in lanes)
    parameters = next((heat.parameters for heats in course.heats.values() for heat in heats if heat.parameters), None)
    return Record(
        schema=SCHEMA,
        tool=outside.tool,
        id=outside.record_id,
        started=outside.started,
        question="race",
        status=status,  # type: ignore[arg-type]
        ask=plan.ask,
        machine=course.machine,
        workload=replace(plan.subject, parameters=parameters or plan.subject.parameters),
        published=published,
        lanes=lanes,
        comparisons=_compare(lanes, course, final=final),
        findings=_judge(lanes, course.machine) if status != "running" else (),
        reference=course.reference if isinstance(course.reference, Reference) else None,
        elapsed_s=time.monotonic() - outside.began_s,
        overhead={"parent_processor_s": time.process_time(), "journal_s": course.journal_s},
        data=plan.data,
    )


def _judge(lanes: tuple[LaneResult, ...], machine: Machine) -> tuple[Finding, ...]:
    """Say first which cards are here and were not raced on."""
    return (*find_unseen(machine), *find_findings(lanes, machine))


def _compare(lanes: tuple[LaneResult, ...], course: Course, *, final: bool) -> tuple[Comparison, ...]:
    """Hold every lane that is still in the race against the first of them."""
    racing = [lane for lane in lanes if lane.status == "ok" and lane.step_ms is not None]
    if len(racing) < 2:
        return ()
    plan, rounds = course.plan, max(course.rounds, 1)
    early = rounds < FIRST_LOOK
    alpha = alpha_for_look(
        min(rounds, plan.pace.heats_max),
        planned=plan.pace.heats_max,
        final=final or early,
        adaptive=plan.pace.adaptive,
    )
    found = (compare_lanes(lane, racing[0], plan.ask.margin, alpha) for lane in racing[1:])
    return tuple(each for each in found if each is not None)


def _note(course: Course, lane: PlannedLane, outside: Outside) -> str:
    done = sum(map(len, course.heats.values()))
    most = course.plan.pace.heats_max * len(course.plan.lanes)
    left_s = course.plan.ask.budget_s - (time.monotonic() - outside.began_s)
    return f"heat {done + 1} of at most {most}: {lane.name}; {say_end(left_s)}"
