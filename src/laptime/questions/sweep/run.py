"""How fast are lanes over a range of batches, threads, workers or widths, and where does one overtake another?

At each value of the axes, all lanes race each other in turns, in short heats. What surely does not fit into memory is
left out, and so is a heat that would take longer than the budget. Where a lane has no memory left, larger batches are
left out, too. The largest that fits is found by halving, from the largest by its estimate on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from laptime.diagnosis.findings import find_unreliable
from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.lane import Lane
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane, Subject
from laptime.model.questions import SweepAnswer
from laptime.planner.groups import refuse_group_for
from laptime.planner.lanes import parse_lane
from laptime.planner.pace import HEATS_USUAL, shortest_pace
from laptime.planner.plan import pace_of, plan_lane, with_training
from laptime.questions.asking import Prepared, facts_of, prepare
from laptime.questions.doctor.checkup import find_unseen_cards
from laptime.questions.fitting import Fitting
from laptime.questions.heat_rounds import HeatRounds
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.subject import find_subject, find_widths
from laptime.questions.sweep.cells import At, between, grid, lane_at, read_axes
from laptime.questions.sweep.nouns import WIDTH, SweepAsk, SweepAxis
from laptime.questions.sweep.said import Swept, describe_sweep, is_out_of_memory
from laptime.questions.tune.lanes import PlanLane
from laptime.run.prestart import Prestarter

HEATS_VARY = 1.1
PlanCell = Callable[[Lane, At], "PlannedLane | UsageError"]
"""Returns a lane at a value of each axis, or why it cannot be."""
Place = tuple[str, At]
"""An asked lane, and a value of each axis."""


@dataclass(frozen=True, slots=True)
class SweepPrepared(Prepared):
    """A prepared sweep: its axes, the asked lanes by name, and what cannot be planned."""

    axes: tuple[SweepAxis, ...]
    lanes: dict[str, Lane]
    cells: dict[Place, PlannedLane | UsageError]
    plan_cell: PlanCell


def prepare_sweep(ask: Ask, machine: Machine) -> SweepPrepared:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    axes = read_axes(ask.sweep or SweepAsk())
    if ask.every:
        raise UsageError("laptime sweep takes lanes, and --every races all that is installed", "name lanes")
    ask = replace(ask, sweep=ask.sweep or SweepAsk())
    subject, workload = find_subject(ask.what)
    widths = _find_widths(ask, axes, subject)
    prepared = prepare(ask, machine, one_lane=True)
    for planned in prepared.plan.lanes:
        refuse_group_for("sweep", planned)
    given = facts_of(prepared, workload)
    plan = partial(_plan_cell, axes, widths, partial(plan_lane, machine=prepared.machine, subject=given))
    names = [planned.name for planned in prepared.plan.lanes]
    lanes = {
        name: replace(parse_lane(text), device=planned.device.name)
        for name, text, planned in zip(names, prepared.plan.ask.lanes or names, prepared.plan.lanes, strict=True)
    }
    cells = {(name, at): plan(lane, at) for at in grid(axes) for name, lane in lanes.items()}
    planned_cells = tuple(each for each in cells.values() if isinstance(each, PlannedLane))
    if not planned_cells:
        why = next(each for each in cells.values() if isinstance(each, UsageError))
        raise UsageError(f"laptime sweep: no cell can be: {why.says}", why.hint or "name other lanes or values")
    alone, pace = pace_of(ask, prepared.machine, planned_cells)
    others = tuple(each for each in widths.values() if each != prepared.plan.subject)
    whole = replace(prepared.plan, lanes=planned_cells, alone=alone, pace=pace, others=others)
    return SweepPrepared(whole, prepared.machine, prepared.published, axes, lanes, cells, plan)


def _find_widths(ask: Ask, axes: Sequence[SweepAxis], subject: Subject) -> dict[str, Subject]:
    """Return the training at each width that the axes name."""
    wanted = next((axis.values for axis in axes if axis.name == WIDTH), ())
    if wanted and ask.pretrained:
        raise UsageError("--width: there are no pre-trained weights of other widths", "leave --pretrained out")
    return find_widths(subject, wanted) if wanted else {}


def _plan_cell(
    axes: Sequence[SweepAxis], widths: Mapping[str, Subject], plan: PlanLane, lane: Lane, at: At
) -> PlannedLane | UsageError:
    planned = lane_at(lane, axes, at, plan)
    width = next((value for axis, value in zip(axes, at, strict=True) if axis.name == WIDTH), None)
    return planned if isinstance(planned, UsageError) or width is None else with_training(planned, widths[width])


class SweepRace:
    """A running sweep: the cells, which of them have failed, and the halving of batches that do not fit."""

    def __init__(self, job: Job, prepared: SweepPrepared) -> None:
        self._job, self._prepared = job, prepared
        pace = shortest_pace(job.plan.pace, takes_turns=job.plan.alone is None)
        self._rounds = HeatRounds(job, pace, examines=lambda _lane: False)
        self._fitting = Fitting(self._rounds)
        self._left_out: dict[Place, str] = {}
        self._too_large: set[Place] = set()
        self._too_long: set[Place] = set()
        self._estimates: dict[Place, int | Missing] = {}
        self._largest: dict[tuple[str, str | None], int] = {}
        self._round_s = 0.0

    def run(self) -> None:
        """Race every value once, then again as long as the budget allows."""
        rounds, values = self._rounds, grid(self._prepared.axes)
        with rounds.prestarter() as prestarter:
            rounds.make_ready(prestarter)
            for number in range(HEATS_USUAL):
                began_s = self._job.left_s
                for at in values if number % 2 == 0 else values[::-1]:
                    if number == 0 or self._round_s / len(values) <= self._job.left_s:
                        self._race(at, prestarter)
                if number == 0:
                    self._find_largest(prestarter)
                self._round_s = HEATS_VARY * (began_s - self._job.left_s)
                if self._round_s > self._job.left_s:
                    break

    def reduce(self, status: RecordStatus) -> Outcome:
        lanes, rounds, prepared = self._rounds.results(), self._rounds, self._prepared
        sweep = None
        if status != "running":
            refused = {place: each.says for place, each in prepared.cells.items() if isinstance(each, UsageError)}
            reasons = refused | self._left_out
            names = {place: each.name for place, each in prepared.cells.items() if isinstance(each, PlannedLane)}
            swept = Swept(
                prepared.axes, tuple(prepared.lanes), names, reasons, self._largest, self._estimates,
                frozenset(self._too_large), frozenset(self._too_long),
            )  # fmt: skip
            sweep = describe_sweep(swept, lanes)
        return Outcome(
            lanes,
            SweepAnswer(sweep, rounds.why_alone),
            (*find_unreliable(lanes), *find_unseen_cards(self._job.machine)) if status != "running" else (),
            rounds.proof.kept_reference(self._job.plan.subject),
            rounds.parameters,
        )

    def _race(self, at: At, prestarter: Prestarter) -> None:
        """Race all lanes that can be at these values."""
        wanted = []
        for name in self._prepared.lanes:
            planned = self._prepared.cells[name, at]
            if isinstance(planned, PlannedLane) and (name, at) not in self._left_out:
                is_new = not self._rounds.heats[planned.name]  # what has run once did fit
                if self._has_failed(planned) or (is_new and not self._may_fit(name, at, planned)):
                    continue
                wanted.append(planned)
        if wanted:
            self._rounds.run_round(wanted, prestarter)
            self._rounds.hear_appeals()

    def _may_fit(self, name: str, at: At, lane: PlannedLane) -> bool:
        """Estimate the memory and time of a cell before it runs, and leave it out if it surely does not fit."""
        if self._fails_before(name, at):
            self._left_out[name, at] = "a smaller batch had no room in memory"
            return False
        self._estimates[name, at] = self._fitting.estimate(lane)
        why = self._fitting.why_too_large(lane)
        if why is not None:
            self._left_out[name, at] = why
            self._too_large.add((name, at))
        elif (why := self._why_too_long(lane, self._job.plan.ask.budget_s)) is not None:
            self._left_out[name, at] = why
            self._too_long.add((name, at))
        return why is None

    def _why_too_long(self, lane: PlannedLane, room_s: float) -> str | None:
        """Return why a heat does not fit into so much time, by its steps at other batches, or None."""
        heat_s = self._fitting.heat_s(lane)
        if isinstance(heat_s, Missing) or heat_s <= room_s:
            return None
        return f"a heat would take about {heat_s:,.0f} s, and the budget is {self._job.plan.ask.budget_s:,.0f} s"

    def _has_failed(self, lane: PlannedLane) -> bool:
        return any(heat.process.status != "ok" for heat in self._rounds.heats[lane.name])

    def _fails_before(self, name: str, at: At) -> bool:
        """Whether a smaller batch of this lane had no room in memory."""
        axes = self._prepared.axes
        if axes[0].name != "batch":
            return False
        smaller = axes[0].values[: axes[0].values.index(at[0])]
        return any(self._has_no_room(name, (value, *at[1:])) for value in smaller)

    def _has_no_room(self, name: str, at: At) -> bool:
        planned = self._prepared.cells.get((name, at))
        if not isinstance(planned, PlannedLane):
            return False
        dnfs = [heat.process.dnf for heat in self._rounds.heats[planned.name]]
        return any(dnf is not None and is_out_of_memory(dnf) for dnf in dnfs)

    def _find_largest(self, prestarter: Prestarter) -> None:
        """Halve between the largest batch that fits and the smallest that does not, until they are within 5 %."""
        axes = self._prepared.axes
        if axes[0].name != "batch":
            return
        for name, lane in self._prepared.lanes.items():
            for along in axes[1].values if len(axes) > 1 else (None,):
                rest = () if along is None else (along,)
                self._halve(name, lane, rest, prestarter)

    def _halve(self, name: str, lane: Lane, rest: At, prestarter: Prestarter) -> None:
        """Find the largest batch of a lane, unless the budget ends before."""
        values = self._prepared.axes[0].values
        full = [int(value) for value in values if self._does_not_fit(name, (value, *rest))]
        if not full:
            return
        fits = max((int(value) for value in values if self._fits(name, (value, *rest))), default=0)
        fails = min(full)
        value = self._likely_largest(lane, rest, fits, fails) or between(fits, fails)
        while value is not None and self._job.left_s > 0:
            planned = self._prepared.plan_cell(lane, (str(value), *rest))
            if isinstance(planned, UsageError) or self._why_too_long(planned, self._job.left_s) is not None:
                return
            fits, fails = (value, fails) if self._tries(planned, prestarter) else (fits, value)
            value = between(fits, fails)
        if fits and value is None:
            self._largest[name, rest[0] if rest else None] = fits

    def _likely_largest(self, lane: Lane, rest: At, fits: int, fails: int) -> int | None:
        """Return the largest batch that fits by its estimate, if it is between one that does and one that does not."""
        planned = self._prepared.plan_cell(lane, (str(fails), *rest))
        likely = None if isinstance(planned, UsageError) else self._fitting.largest_batch(planned)
        return likely if likely is not None and fits < likely < fails else None

    def _tries(self, planned: PlannedLane, prestarter: Prestarter) -> bool:
        """Whether a lane runs at a batch; one that surely does not fit is not started."""
        if self._fitting.why_too_large(planned) is not None:
            return False
        self._rounds.admit(planned)
        self._rounds.run_apart([planned], prestarter)
        return not self._has_failed(planned)

    def _does_not_fit(self, name: str, at: At) -> bool:
        return (name, at) in self._too_large or self._has_no_room(name, at)

    def _fits(self, name: str, at: At) -> bool:
        planned = self._prepared.cells.get((name, at))
        return isinstance(planned, PlannedLane) and any(
            heat.process.status == "ok" for heat in self._rounds.heats[planned.name]
        )
