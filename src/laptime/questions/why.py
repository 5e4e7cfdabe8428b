"""Why is a lane as fast as it is? It races against itself with one stage alone, then with what may be the cause gone.

The lane and its three ceilings take a first heat each. What these show tells which experiments are worth their time;
they then race beside the lane, as many as fit the budget, and so on with those that are left. A cause is proven by the
time that its removal moved, never by its signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import util
from typing import get_args

from laptime.analysis.compare import compare_lanes
from laptime.analysis.lanes import steps_of_lap
from laptime.diagnosis.causes.answer import explain, order_experiments
from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.placement.rules import find_unseen
from laptime.diagnosis.rules import find_findings
from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.lane import NO_TRAINING
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.record import Comparison, LaneResult, Record
from laptime.model.why import Experiment, Factor, Stage, Trial
from laptime.planner.experiments import CEILINGS, Base, list_experiments, plan_experiment
from laptime.planner.lanes import parse_lane
from laptime.planner.pace import HEATS_LEAST, MEASURE_LEAST_S, WINDOWS_A_HEAT
from laptime.planner.presets import Given
from laptime.questions.asking import Prepared, prepare, with_lane
from laptime.questions.field import Field
from laptime.questions.outside import Outside
from laptime.questions.subject import find_subject
from laptime.run.ahead import Ahead

ROUNDS_LEAST = 2  # two pairs bound a large factor; three bound a small one
ALPHA = 0.05
NO_BUDGET = "the budget had no room for it"
NOT_PROMISING = "nothing pointed to it"
HEATS_VARY = 1.1  # what a heat may take of what the dearest of its lane took
FIRST_ALONE = ("look ahead", "take apart")  # phases of a lane's first heat
WAITING = "held"  # for its turn, while another is timed
READY = ("cached", "resident", "one")  # inputs that leave nothing but the computing


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is asked, ready to run: one lane, and all experiments that there are for it."""

    prepared: Prepared
    base: Base
    experiments: tuple[Experiment, ...]

    def named(self, name: str) -> Experiment:
        return next(each for each in self.experiments if each.name == name)


def prepare_why(ask: Ask, machine: Machine) -> Inquiry:
    """Scout and plan. With no lane it is the one that a framework's bare name means: its card, if there is one."""
    if ask.every or len(ask.lanes) > 1:
        raise UsageError("why looks at one lane, and several are asked for", "name one: laptime why WHAT torch/cpu")
    subject, workload = find_subject(ask.what)
    ask = with_lane(ask, machine, subject)
    prepared = prepare(ask, machine)
    planned = prepared.plan.lanes[0]
    if planned.settings.input in NO_TRAINING:
        raise UsageError(f"why: {planned.name} trains nothing", "name the lane of a training")
    given = Given(workload, util.find_spec("PIL") is not None)
    lane = replace(parse_lane(ask.lanes[0]), device=planned.device.name)
    base = Base(lane, planned, prepared.machine, subject, given)
    return Inquiry(prepared, base, list_experiments(base))


@dataclass(slots=True)
class Search(Field):
    """An inquiry under way: which experiment has which lane, and what a heat of each took at most."""

    inquiry: Inquiry | None = None
    lanes: dict[str, str] = field(default_factory=dict)
    heat_s: dict[str, float] = field(default_factory=dict)

    @property
    def asked(self) -> Inquiry:
        assert self.inquiry is not None
        return self.inquiry

    @property
    def base(self) -> PlannedLane:
        return self.plan.lanes[0]

    def add(self, experiment: Experiment) -> None:
        """Let an experiment take part; one of the same settings as another shares its lane."""
        lane = plan_experiment(self.asked.base, experiment)
        same = [each for each in self.asked.experiments if each.settings == experiment.settings and each.absent is None]
        self.lanes |= {each.name: lane.name for each in same}
        self.admit(lane)

    def lanes_of(self, names: Sequence[str]) -> list[PlannedLane]:
        """Give the lanes of these experiments that have not failed, each once, the lane itself first."""
        wanted = {self.base.name, *(self.lanes[name] for name in names if name in self.lanes)}
        return [lane for lane in self.plan.lanes if lane.name in wanted and self._stands(lane)]

    def cost_s(self, lanes: Sequence[PlannedLane]) -> float:
        """Give what a round of these may take: what a lane has not shown yet is reckoned by the lane asked about."""
        usual = self.heat_s.get(self.base.name, 0.0)
        return HEATS_VARY * sum(self.heat_s.get(lane.name, usual) for lane in lanes)

    def affordable(self, names: Sequence[str]) -> list[PlannedLane]:
        """Give the lane itself and those of these experiments for which a pair with it still fits what is left."""
        base, *others = self.lanes_of(names)
        if base != self.base:
            return []  # it has failed meanwhile, and there is nothing to pair with
        return [base, *(each for each in others if self.cost_s([base, each]) <= self.left_s)]

    def run_first(self, lanes: Sequence[PlannedLane], ahead: Ahead) -> None:
        """Run the first heat of the lane and of its ceilings, whatever they take: without them there is no answer."""
        self.run_round(lanes, ahead, self.report, apart=self.base.name)
        self._learn_costs(lanes)

    def run_fitting(self, lanes: Sequence[PlannedLane], ahead: Ahead) -> None:
        """Run a round, and leave out those for which it turns out that there is no time; the lane itself has to fit."""

        def may_run(lane: PlannedLane, after: Sequence[PlannedLane]) -> bool:
            return self.cost_s([lane, *(each for each in after if each == self.base)]) <= self.left_s

        self.run_round(lanes, ahead, self.report, may_run=may_run)
        self._learn_costs(lanes)

    def _learn_costs(self, lanes: Sequence[PlannedLane]) -> None:
        """Take the dearest heat of each for what the next one takes: by our clock, or by the fake's own."""
        for lane in lanes:
            for heat in self.heats[lane.name][-1:]:
                told_s = sum(took_s for name, took_s in heat.phases_s.items() if name != WAITING)
                once_s = sum(heat.phases_s.get(name, 0.0) for name in FIRST_ALONE)
                took_s = max(told_s, self.took_s[lane.name]) - once_s
                self.heat_s[lane.name] = max(self.heat_s.get(lane.name, 0.0), took_s)

    def looked_at(self, lane: PlannedLane) -> int:
        """Only of the lane itself it is asked what a validation takes."""
        return Field.looked_at(self, lane) if lane == self.base else 0

    def report(self) -> Record:
        return _make_record(self, "running")

    def _stands(self, lane: PlannedLane) -> bool:
        return all(heat.status == "ok" for heat in self.heats[lane.name])


def run_why(inquiry: Inquiry, outside: Outside) -> Record:
    """Measure the lane and its ceilings, then the experiments that they point to; journal after each heat."""
    plan, machine = inquiry.prepared.plan, inquiry.prepared.machine
    pace = replace(plan.pace, measure_s=MEASURE_LEAST_S, window_s=MEASURE_LEAST_S / WINDOWS_A_HEAT, adaptive=False)
    search = Search(plan, machine, outside, {plan.lanes[0].name: []}, pace, inquiry=inquiry)
    try:
        for name in CEILINGS:
            if inquiry.named(name).absent is None:
                search.add(inquiry.named(name))
        search.make_ready(search.report)
        with Ahead(machine.processor.cores_usable, plan.ask.patience_s) as ahead:
            search.run_first(search.lanes_of(CEILINGS), ahead)
            search.hear_appeals(search.report)
            while _go_on(search, ahead):
                search.hear_appeals(search.report)
        record = _make_record(search, "finished")
    except KeyboardInterrupt:
        record = _make_record(search, "interrupted")
    outside.journal(record)
    return record


def _go_on(search: Search, ahead: Ahead) -> bool:
    """Race the most promising experiments of those left beside the lane; tell whether anything was done."""
    if search.base not in search.lanes_of(()):
        return False  # the lane itself did not finish
    group = _fitting(search, _promising(search))
    rounds = HEATS_LEAST if search.cost_s(_with(search, group)) * HEATS_LEAST <= search.left_s else ROUNDS_LEAST
    if not group and not _wants_ceilings(search, HEATS_LEAST):
        return False
    for name in group:
        search.add(search.asked.named(name))
    done = 0
    for _ in range(rounds):
        wanted = CEILINGS if _wants_ceilings(search, ROUNDS_LEAST if group else HEATS_LEAST) else ()
        lanes = search.affordable((*group, *wanted))
        if search.cost_s(lanes) > search.left_s:
            lanes = search.affordable(group)
        if len(lanes) < 2:
            break
        search.run_fitting(lanes, ahead)
        done += 1
    return done > 0


def _promising(search: Search) -> list[str]:
    """Give the experiments that are worth their time and were not begun, most promising first."""
    case = _make_case(search, search.results())
    possible = {each.name for each in search.asked.experiments if each.absent is None and each.name not in search.lanes}
    return [name for name in order_experiments(case) if name in possible]


def _fitting(search: Search, names: list[str]) -> list[str]:
    """Give as many of these, in order, as fit what is left of the budget with the fewest rounds that tell anything.

    Where there is room for three rounds of some, more are not squeezed in.
    """
    for rounds in (HEATS_LEAST, ROUNDS_LEAST):
        group: list[str] = []
        for name in names:
            if rounds * search.cost_s(_with(search, [*group, name])) <= search.left_s:
                group.append(name)
        if group:
            return group
    return []


def _with(search: Search, names: Sequence[str]) -> list[PlannedLane]:
    """Give the lanes of a round with these experiments, whether they were begun or not."""
    inquiry, known = search.asked, {lane.name: lane for lane in search.lanes_of(names)}
    for name in names:
        lane = plan_experiment(inquiry.base, inquiry.named(name))
        known.setdefault(lane.name, lane)
    return list(known.values())


def _wants_ceilings(search: Search, least: int) -> bool:
    """A ceiling has an interval from its second heat on; a third comes after all experiments."""
    return any(len(search.heats[lane.name]) < least for lane in search.affordable(CEILINGS)[1:])


def _make_record(search: Search, status: str) -> Record:
    record = search.record("why", status, search.asked.prepared.published)
    if status == "running" or not search.heats[search.base.name]:
        return record
    missing = _promising(search)
    case = _make_case(search, record.lanes, missing)
    return replace(
        record,
        comparisons=tuple(each for lane in record.lanes[1:] if (each := _compare(record.lanes[0], lane))),
        findings=(*find_unseen(search.machine), *find_findings(record.lanes[:1], search.machine)),
        why=explain(case, tuple(missing)),
    )


def _make_case(search: Search, lanes: Sequence[LaneResult], missing: Sequence[str] = ()) -> Case:
    """Put together all that the rules may look at; for `missing` experiments there was no room."""
    found, base = {lane.name: lane for lane in lanes}, lanes[0]
    stages: dict[Stage, LaneResult] = {
        stage: found[search.lanes[stage]] for stage in get_args(Stage) if stage in search.lanes
    }
    if base.settings.input in READY:
        stages.setdefault("compute", base)
    subject = search.plan.subject
    return Case(
        lane=base,
        machine=search.machine,
        trials={each.name: _make_trial(search, each, found, missing) for each in search.asked.experiments},
        unseen=find_unseen(search.machine),
        ceilings_lanes=stages,
        what=subject.name,
        items=subject.items,
        lap_steps=steps_of_lap(search.plan, search.base, _told_steps(search)),
    )


def _told_steps(search: Search) -> int | None:
    return next((heat.steps_per_lap for heat in search.heats[search.base.name] if heat.steps_per_lap), None)


def _make_trial(search: Search, experiment: Experiment, found: dict[str, LaneResult], missing: Sequence[str]) -> Trial:
    if experiment.absent is not None:
        return Trial(experiment, None, None, experiment.absent.missing)
    if experiment.name not in search.lanes:
        return Trial(experiment, None, None, NO_BUDGET if experiment.name in missing else NOT_PROMISING)
    name = search.lanes[experiment.name]
    lane, base = found[name], found[search.base.name]
    compared = _compare(base, lane)
    if lane.status != "ok":
        return Trial(experiment, name, None, lane.reason)
    if compared is None:
        return Trial(experiment, name, None, NO_BUDGET)
    return Trial(experiment, name, Factor(compared.ratio, compared.low, compared.high))


def _compare(base: LaneResult, lane: LaneResult) -> Comparison | None:
    """Hold a lane against the one that is asked about; nothing, where either has no heat that finished."""
    if base.status != "ok" or lane.status != "ok":
        return None
    return compare_lanes(lane, base, margin=0.05, alpha=ALPHA)
