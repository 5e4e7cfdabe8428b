"""The field: lanes with their heats so far. Runs rounds of heats, hears appeals, tells what is known of each lane."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from laptime.analysis.lanes import summarise_lane
from laptime.model.lane import NO_TRAINING
from laptime.model.machine import Machine
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.profile import ProfileRun
from laptime.model.protocol import Protocol
from laptime.model.record import SCHEMA, LaneResult, Record
from laptime.model.sample import Appeal, Heat, Reference
from laptime.model.workload import Published
from laptime.questions.asking import say_end
from laptime.questions.bounds import Bounds, find_bounds, with_roofline
from laptime.questions.outside import SHOWN_AT, Outside
from laptime.questions.profile import with_profile
from laptime.questions.protocol import find_protocol
from laptime.questions.proving import Shelf, find_reference, hear_appeal, order_heat
from laptime.questions.supply import supply
from laptime.run.ahead import Ahead
from laptime.run.director import Director, Limits
from laptime.run.watching import Watch

FAKE = "fake"
Report = Callable[[], Record]
MayRun = Callable[[PlannedLane, Sequence[PlannedLane]], bool]


@dataclass(slots=True)
class Field:
    """The lanes of a plan, their heats so far, and all that is needed to run and to judge more of them."""

    plan: Plan
    machine: Machine
    outside: Outside
    heats: dict[str, list[Heat]]
    pace: Pace
    reference: Reference | str | None = None
    appeals: dict[str, Appeal | None] = field(default_factory=dict)
    protocol: Protocol | None = None
    rounds: int = 0
    journal_s: float = 0.0
    watch: Watch = field(default_factory=lambda: Watch(("none",), 1.0))
    bounds: dict[str, Bounds] = field(default_factory=dict)
    profiles: dict[str, ProfileRun] | None = None
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.outside.began_s

    @property
    def left_s(self) -> float:
        return self.plan.ask.budget_s - self.elapsed_s

    def make_ready(self, report: Report) -> None:
        """Have the items at hand and the float64 reference, before the first heat."""
        announce = partial(self._announce, report)
        self.plan = supply(self.plan, announce)
        self.protocol = find_protocol(self.plan)
        self.reference = find_reference(self.plan, self.shelf(report))
        self.bounds = find_bounds(self.plan, self.machine, self.outside.peaks)
        self.watch = Watch(self.plan.ask.sensors, self.plan.ask.sensors_hz)

    def admit(self, lane: PlannedLane) -> None:
        """Let a lane take part in the rounds to come, unless it does."""
        if lane.name not in self.heats:
            self.plan = replace(self.plan, lanes=(*self.plan.lanes, lane))
            self.heats[lane.name] = []
            self.bounds = find_bounds(self.plan, self.machine, self.outside.peaks)

    def shelf(self, report: Report) -> Shelf:
        return Shelf(self.outside.recall, self.outside.keep, partial(self._announce, report))

    def run_round(
        self,
        lanes: Sequence[PlannedLane],
        ahead: Ahead,
        report: Report,
        most: int | None = None,
        *,
        apart: str | None = None,
        may_run: MayRun = lambda _lane, _after: True,
    ) -> float:
        """Run one heat of each of these lanes, every other round in reverse order: A B, B A, A B.

        The heat of the lane `apart` takes some steps apart after its windows. A lane that may not run any more, with
        those that come after it, is left out of the round. Gives the seconds that the round took.
        """
        began_s = time.monotonic()
        ask = self.plan.ask
        limits = Limits(ask.patience_s, ask.watchdog_s)
        turned = list(lanes if self.rounds % 2 == 0 else reversed(lanes))
        ahead.line_up(turned)
        for place, lane in enumerate(turned):
            if not may_run(lane, turned[place + 1 :]):
                ahead.pass_over(lane)
                continue
            heat_began_s = time.monotonic()
            # A fake's clock is its own: no reading could be laid beside its windows.
            sampler = None if lane.framework == FAKE else self.watch.sampler_for(lane.device)
            director = Director(
                limits, self.machine.processor.cores_usable, partial(self._tell, report, most, lane), sampler
            )
            number = sum(map(len, self.heats.values()))
            order = order_heat(self.plan, lane, self.pace, number)
            order = replace(order, test_items=self.looked_at(lane), takes_apart=lane.name == apart)
            self.heats[lane.name].append(director.run_heat(order, self.rounds, ahead.take(lane)))
            begun_s = time.monotonic()
            self.outside.journal(report())
            self.journal_s += time.monotonic() - begun_s
            self.took_s[lane.name] = time.monotonic() - heat_began_s
        self.rounds += 1
        return time.monotonic() - began_s

    def hear_appeals(self, report: Report) -> None:
        """Hear every lane that seems to do other work, once: its proof is the same in every heat."""
        for lane in self.plan.lanes:
            proofs = [heat.proofs for heat in self.heats[lane.name] if heat.proofs]
            if proofs and lane.name not in self.appeals:
                self.appeals[lane.name] = hear_appeal(self.plan, lane, proofs, self.reference, self.shelf(report))

    def results(self) -> tuple[LaneResult, ...]:
        """Give what is known of each lane by now."""
        lanes = tuple(self._result(lane) for lane in self.plan.lanes)
        if self.profiles is not None:
            lanes = tuple(with_profile(lane, self.profiles.get(lane.name)) for lane in lanes)
        return tuple(with_roofline(each, self.bounds[each.name]) if self.bounds else each for each in lanes)

    def record(self, question: str, status: str, published: Published | None) -> Record:
        """Give the record of all heats so far; what is concluded from them is for the question to add."""
        plan = self.plan
        parameters = next((heat.parameters for heats in self.heats.values() for heat in heats if heat.parameters), None)
        return Record(
            schema=SCHEMA,
            tool=self.outside.tool,
            id=self.outside.record_id,
            started=self.outside.started,
            question=question,
            status=status,  # type: ignore[arg-type]
            ask=plan.ask,
            machine=self.machine,
            workload=replace(plan.subject, parameters=parameters or plan.subject.parameters),
            published=published,
            lanes=self.results(),
            reference=self.reference if isinstance(self.reference, Reference) else None,
            elapsed_s=self.elapsed_s,
            overhead={"parent_processor_s": time.process_time(), "journal_s": self.journal_s},
            data=plan.data,
        )

    def looked_at(self, lane: PlannedLane) -> int:
        """Have each lane look at test items once: that is little of a training, and little is enough."""
        protocol = self.protocol
        if (
            protocol is None
            or lane.settings.input in NO_TRAINING
            or any(heat.examination is not None for heat in self.heats[lane.name])
        ):
            return 0
        return max(protocol.validation_items, protocol.evaluation_items)

    def _result(self, lane: PlannedLane) -> LaneResult:
        return summarise_lane(
            self.plan,
            lane,
            tuple(self.heats[lane.name]),
            self.reference,
            self.protocol,
            appeal=self.appeals.get(lane.name),
            cores=self.machine.processor.cores_usable,
        )

    def _announce(self, report: Report, note: str) -> None:
        self.outside.show(report(), note)

    def _tell(self, report: Report, most: int | None, lane: PlannedLane, phase: str) -> None:
        if phase == SHOWN_AT:
            done = sum(map(len, self.heats.values()))
            of = "" if most is None else f" of at most {most}"
            self.outside.show(report(), f"heat {done + 1}{of}: {lane.name}; {say_end(self.left_s)}")
