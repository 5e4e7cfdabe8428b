"""Which lane is faster, by how much, and did they learn the same: interleaved heats until the answer stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from laptime.analysis.compare import compare_lanes
from laptime.diagnosis.placement.rules import find_unseen
from laptime.diagnosis.rules import find_findings
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.record import Comparison, Finding, LaneResult, Record
from laptime.model.workload import Published
from laptime.planner.pace import shorten_pace
from laptime.questions.field import Field
from laptime.questions.outside import Outside
from laptime.questions.profile import profile_lane
from laptime.run.ahead import Ahead
from laptime.stats import FIRST_LOOK, alpha_for_look


@dataclass(slots=True)
class Course(Field):
    """A race under way: who is still in it, and how long the next round may take."""

    running: list[PlannedLane] = field(default_factory=list)
    published: Published | None = None
    next_round_s: float = 0.0

    @property
    def heats_most(self) -> int:
        return self.plan.pace.heats_max * len(self.plan.lanes)

    def is_done(self) -> bool:
        """Tell whether no further round is wanted, or none would fit; decided without looking at any ratio."""
        no_more = self.rounds >= self.plan.pace.heats_max or not self.running
        return no_more or self.next_round_s > self.left_s

    def end_round(self, round_s: float) -> None:
        """See who is out, and fit the rounds to come into what is left of the budget."""
        timed_s = [self.heats[lane.name][-1].phases_s.get("timing", 0.0) for lane in self.running]
        looked_s = sum(self.heats[lane.name][-1].phases_s.get("look ahead", 0.0) for lane in self.running)
        round_s -= looked_s  # once a lane, and not again
        self.running = [lane for lane in self.running if self.heats[lane.name][-1].status == "ok"]
        rounds_left = self.plan.pace.heats_max - self.rounds
        shorter = shorten_pace(self.pace, timed_s, round_s, self.left_s, rounds_left)
        self.next_round_s = round_s - sum(timed_s) * (1 - shorter.measure_s / self.pace.measure_s)
        self.pace = shorter

    def report(self) -> Record:
        """Give the record of a race that still runs."""
        return _make_record(self, "running", final=False)


def run_race(plan: Plan, machine: Machine, published: Published | None, outside: Outside) -> Record:
    """Run the plan's heats in interleaved rounds; journal after each; stop by margin or budget."""
    heats = {lane.name: [] for lane in plan.lanes}  # type: ignore[var-annotated]
    course = Course(plan, machine, outside, heats, plan.pace, running=list(plan.lanes), published=published)
    final = True  # whoever interrupts a race has made the look before it the last
    try:
        course.make_ready(course.report)
        with Ahead(machine.processor.cores_usable, plan.ask.patience_s) as ahead:
            while True:
                course.end_round(course.run_round(course.running, ahead, course.report, course.heats_most))
                course.hear_appeals(course.report)
                # Whether this look is the last is decided before any ratio is looked at.
                last = course.is_done()
                if last or _is_settled(course.report(), course):
                    break
        final = last
        if plan.ask.profile:
            _profile(course)
        record = _make_record(course, "finished", final=final)
    except KeyboardInterrupt:
        record = _make_record(course, "interrupted", final=final)
    outside.journal(record)
    return record


def _profile(course: Course) -> None:
    """Profile each lane that finished, off the clock: nothing is raced any more."""
    course.profiles = {}
    finished = [number for number, lane in enumerate(course.plan.lanes) if _has_finished(course, lane)]
    for place, number in enumerate(finished):
        name = course.plan.lanes[number].name
        course.outside.show(course.report(), f"profile {place + 1} of {len(finished)}: {name}")
        course.profiles[name] = profile_lane(course.plan, course.machine, number, course.outside, lambda _phase: None)


def _has_finished(course: Course, lane: PlannedLane) -> bool:
    heats = course.heats[lane.name]
    return bool(heats) and all(heat.status == "ok" for heat in heats)


def _is_settled(record: Record, course: Course) -> bool:
    """Tell whether every ratio's interval is within the margin, at the price that this look costs."""
    if not course.plan.pace.adaptive or course.rounds < FIRST_LOOK:
        return False
    return bool(record.comparisons) and all(each.settled for each in record.comparisons)


def _make_record(course: Course, status: str, *, final: bool) -> Record:
    record = course.record("race", status, course.published)
    return replace(
        record,
        comparisons=_compare(record.lanes, course, final=final),
        findings=_judge(record.lanes, course.machine) if status != "running" else (),
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
