"""Rounds of heats: run them, and keep the heats, proofs and results of a job's lanes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from laptime.analysis.lanes import summarise_lane
from laptime.model.lane import NO_TRAINING
from laptime.model.plan import Pace, PlannedLane
from laptime.model.profile import ProfileRun
from laptime.model.protocol import Protocol
from laptime.model.record import LaneResult
from laptime.model.sample import Heat
from laptime.questions.asking import say_end
from laptime.questions.bounds import Bounds, find_bounds, with_roofline
from laptime.questions.job import FAKE, SHOWN_AT, Job
from laptime.questions.profile import with_profile
from laptime.questions.protocol import find_protocol
from laptime.questions.proving import Proof, order_heat
from laptime.run.heats import HeatRunner
from laptime.run.prestart import Prestarter
from laptime.run.runner import Limits
from laptime.run.sensor_selection import SensorSelection

MayRun = Callable[[PlannedLane, Sequence[PlannedLane]], bool]


class HeatRounds:
    """Runs heats of a job's lanes, round by round. A lane examines test items once if `examines` is true for it."""

    def __init__(self, job: Job, pace: Pace, examines: Callable[[PlannedLane], bool] = lambda _lane: True) -> None:
        self.job, self.pace, self._examines = job, pace, examines
        self.heats: dict[str, list[Heat]] = {lane.name: [] for lane in job.plan.lanes}
        self.proof = Proof(job.services.references, job.announce)
        self.rounds = 0
        self.took_s: dict[str, float] = {}
        self._protocol: Protocol | None = None
        self._sensors = SensorSelection(("none",), 1.0)
        self._bounds: dict[str, Bounds] = {}

    def make_ready(self) -> None:
        """Prepare the items and the float64 reference before the first heat. A missing instrument is reported first."""
        job = self.job
        self._sensors = SensorSelection(job.plan.ask.sensors, job.plan.ask.sensors_hz)
        job.supply_data(job.announce)
        self._protocol = find_protocol(job.plan)
        job.plan = self.proof.make_ready(job.plan)
        self._bounds = find_bounds(job.plan, job.machine, job.services.peaks)

    def admit(self, lane: PlannedLane) -> None:
        """Add a lane to the coming rounds, if it is new."""
        job = self.job
        if lane.name not in self.heats:
            job.plan = replace(job.plan, lanes=(*job.plan.lanes, lane))
            self.heats[lane.name] = []
            self._bounds = find_bounds(job.plan, job.machine, job.services.peaks)

    def run_round(
        self,
        lanes: Sequence[PlannedLane],
        prestarter: Prestarter,
        most: int | None = None,
        *,
        apart: str | None = None,
        may_run: MayRun = lambda _lane, _after: True,
    ) -> float:
        """Run one heat of each of these lanes, every other round in reverse order: A B, B A, A B.

        The heat of the lane `apart` measures the parts of some steps after its windows. `may_run` is called with a lane
        and those after it; if it returns False, the lane is left out. Return the seconds that the round took.
        """
        began_s = time.monotonic()
        turned = list(lanes if self.rounds % 2 == 0 else reversed(lanes))
        prestarter.line_up(turned)
        for place, lane in enumerate(turned):
            if not may_run(lane, turned[place + 1 :]):
                prestarter.pass_over(lane)
                continue
            heat_began_s = time.monotonic()
            runner = self._runner(lane, most, breakdown=lane.name == apart)
            self.heats[lane.name].append(runner.run(prestarter.take(lane), self.rounds))
            self.job.save()
            self.took_s[lane.name] = time.monotonic() - heat_began_s
        self.rounds += 1
        return time.monotonic() - began_s

    def hear_appeals(self) -> None:
        """Prove each lane that seems to do other work again, but only once: its proof is the same in every heat."""
        for lane in self.job.plan.lanes:
            proofs = [heat.proofs for heat in self.heats[lane.name] if heat.proofs]
            self.proof.hear_appeal(self.job.plan, lane, proofs)

    def results(self, profiles: dict[str, ProfileRun] | None = None) -> tuple[LaneResult, ...]:
        """Return the result of each lane so far."""
        lanes = tuple(self._result(lane) for lane in self.job.plan.lanes)
        if profiles is not None:
            lanes = tuple(with_profile(lane, profiles.get(lane.name)) for lane in lanes)
        return tuple(with_roofline(each, self._bounds[each.name]) if self._bounds else each for each in lanes)

    @property
    def parameters(self) -> int | None:
        known = (heat.process.parameters for heats in self.heats.values() for heat in heats)
        return next((each for each in known if each), None)

    def _runner(self, lane: PlannedLane, most: int | None, *, breakdown: bool) -> HeatRunner:
        plan, number = self.job.plan, sum(map(len, self.heats.values()))
        order = order_heat(plan, lane, self.pace, number)
        order = replace(order, test_items=self._test_items(lane), breakdown=breakdown)
        sampler = None if lane.framework == FAKE else self._sensors.sampler_for(lane.device)
        limits = Limits(plan.ask.patience_s, plan.ask.watchdog_s)
        return HeatRunner(order, limits, self.job.cores, partial(self._show, most, lane), sampler)

    def _test_items(self, lane: PlannedLane) -> int:
        """Return how many test items the next heat examines. Each lane does this in one heat only."""
        protocol = self._protocol
        if (
            protocol is None
            or lane.settings.input in NO_TRAINING
            or not self._examines(lane)
            or any(heat.examination is not None for heat in self.heats[lane.name])
        ):
            return 0
        return max(protocol.validation_items, protocol.evaluation_items)

    def _result(self, lane: PlannedLane) -> LaneResult:
        return summarise_lane(
            self.job.plan,
            lane,
            tuple(self.heats[lane.name]),
            self.proof.reference,
            self._protocol,
            appeal=self.proof.appeals.get(lane.name),
            cores=self.job.cores,
        )

    def _show(self, most: int | None, lane: PlannedLane, phase: str) -> None:
        if phase == SHOWN_AT:
            done = sum(map(len, self.heats.values()))
            of = "" if most is None else f" of at most {most}"
            self.job.announce(f"heat {done + 1}{of}: {lane.name}; {say_end(self.job.left_s)}")
