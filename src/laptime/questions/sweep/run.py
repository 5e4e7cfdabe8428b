"""How fast are lanes over a range of batches, threads, workers or widths, and where does one overtake another? The
axes, their lanes, and the rounds over them.

At each value of the axes, all lanes race each other in turns, in short heats. What surely does not fit into memory is
left out, and so is a heat that would take longer than the budget. Where a lane has no memory left, larger batches are
left out, too. The largest that fits is found by halving, from the largest by its estimate on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from laptime.analysis.diagnosis.findings import find_unreliable
from laptime.analysis.heats import ALPHA, memory_of
from laptime.analysis.lanes import compare_lanes
from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane, Subject
from laptime.model.process import Dnf, Lane
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Progress
from laptime.model.symptoms import find_refusal
from laptime.model.workload import is_width
from laptime.planner.groups import HEATS_USUAL, refuse_group_for, shortest_pace
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import PlanLane, pace_of, plan_lane, with_training
from laptime.planner.settings import SETTINGS
from laptime.questions.asking import Prepared, facts_of, prepare
from laptime.questions.doctor.checkup import find_unseen_cards
from laptime.questions.heat_rounds import HEATS_VARY, Fitting, HeatRounds
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.subject import find_subject, find_widths
from laptime.questions.sweep.nouns import (
    AXES,
    WIDTH_AXIS,
    Crossover,
    Sweep,
    SweepAnswer,
    SweepAxis,
    SweepCell,
    SweepCurve,
    SweepFactor,
)
from laptime.questions.sweep.options import SweepAsk
from laptime.questions.sweep.reduce import (
    RatioPoint,
    bounded_words,
    find_crossovers,
    find_empty_step,
    find_knee,
    is_of_one_round,
)

# The axes and the lanes of `laptime sweep`.

NUMBER_FORM = r"([0-9]{0,7}\.?[0-9]{1,7})"
RANGE = re.compile(rf"{NUMBER_FORM}\.\.{NUMBER_FORM}")
DEFAULT_AXIS = SweepAxis("batch", tuple(str(1 << power) for power in range(11)))
VALUES_MOST, CELLS_MOST = 40, 400
At = tuple[str, ...]
"""A value of each axis."""


def read_axes(ask: SweepAsk) -> tuple[SweepAxis, ...]:
    """Return the axes; by default batches from 1 to 1,024."""
    given = [(name, text) for name in AXES if (text := getattr(ask, name)) is not None]
    if len(given) > 2:
        raise UsageError(f"laptime sweep has one axis or two, and {len(given)} are given", "leave some out")
    return tuple(SweepAxis(name, _read_values(name, text)) for name, text in given) or (DEFAULT_AXIS,)


def _read_values(name: str, text: str) -> At:
    """Return the values that a text means: doubled from the first to the last, or a list."""
    if (found := RANGE.fullmatch(text)) is not None:
        first, last = map(float, found.groups())
        if first >= last:
            raise UsageError(f"--{name} {text}: the first value has to be less than the last", "such as 1..1024")
        values = [str(int(value)) if value.is_integer() else f"{value:g}" for value in _doubled(first, last)]
    else:
        values = text.split(",")
    for value in values:
        can_be = is_width(value) if name == WIDTH_AXIS else SETTINGS[name].can_be(value) and not value.endswith("x")
        if not can_be:
            raise UsageError(f"--{name} {text}: '{value}' cannot be", f"such as --{name} 1..64 or --{name} 1,2,3")
    if len(set(map(float, values))) < len(values):
        raise UsageError(f"--{name} {text}: a value is named twice", "name each once")
    if not 2 <= len(values) <= VALUES_MOST:
        raise UsageError(f"--{name} {text}: expected 2 to {VALUES_MOST} values", f"such as --{name} 1..64")
    return tuple(sorted(values, key=float))


def _doubled(first: float, last: float) -> list[float]:
    values = [first]
    while (following := 2 * values[-1] or 1.0) < last:
        values.append(following)
    return [*values, last]


def grid(axes: Sequence[SweepAxis]) -> list[At]:
    """Return every combination, the first axis slowest within each value of the second."""
    first, *others = axes
    if not others:
        return [(value,) for value in first.values]
    found: list[At] = [(value, other) for other in others[0].values for value in first.values]
    if len(found) > CELLS_MOST:
        raise UsageError(f"laptime sweep: {len(found)} cells, expected at most {CELLS_MOST}", "shorten an axis")
    return found


def lane_at(lane: Lane, axes: Sequence[SweepAxis], at: At, plan: PlanLane) -> PlannedLane | UsageError:
    """Return a lane at one value of each axis, or why it cannot be. A width is no setting of a lane."""
    named = dict(lane.overrides)
    for axis in axes:
        if axis.name in named:
            raise UsageError(f"--{axis.name}: the lane names {axis.name} itself", "leave one of the two out")
    words = tuple((axis.name, value) for axis, value in zip(axes, at, strict=True) if axis.name != WIDTH_AXIS)
    try:
        return plan(replace(lane, overrides=(*lane.overrides, *words)))
    except UsageError as error:
        return error


def size_between(fits: int, fails: int) -> int | None:
    """Return the next value to try between one that fits and one that does not; None within 5 %."""
    return None if fails - fits <= max(1, 0.05 * fits) else (fits + fails) // 2


def pairs_of(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.combinations(names, 2))


PlanCell = Callable[[Lane, At], "PlannedLane | UsageError"]
"""Returns a lane at a value of each axis, or why it cannot be."""
CellPlace = tuple[str, At]
"""An asked lane, and a value of each axis."""


@dataclass(frozen=True, slots=True)
class SweepPrepared(Prepared):
    """A prepared sweep: its axes, the asked lanes by name, and what cannot be planned."""

    axes: tuple[SweepAxis, ...]
    lanes: dict[str, Lane]
    cells: dict[CellPlace, PlannedLane | UsageError]
    plan_cell: PlanCell


def prepare_sweep(ask: Ask, machine: Machine) -> SweepPrepared:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    axes = read_axes(ask.sweep or SweepAsk())
    if ask.every:
        raise UsageError("laptime sweep takes lanes, and --every races all that is installed", "name lanes")
    ask = replace(ask, sweep=ask.sweep or SweepAsk())
    subject, workload = find_subject(ask.what)
    # The training at each width that the axes name
    wanted = next((axis.values for axis in axes if axis.name == WIDTH_AXIS), ())
    if wanted and ask.pretrained:
        raise UsageError("--width: there are no pre-trained weights of other widths", "leave --pretrained out")
    widths = find_widths(subject, wanted) if wanted else {}
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
    planned_cells = tuple(cell for cell in cells.values() if isinstance(cell, PlannedLane))
    if not planned_cells:
        why = next(cell for cell in cells.values() if isinstance(cell, UsageError))
        raise UsageError(f"laptime sweep: no cell can be: {why.says}", why.hint or "name other lanes or values")
    alone, pace = pace_of(ask, prepared.machine, planned_cells)
    others = tuple(width for width in widths.values() if width != prepared.plan.subject)
    whole = replace(prepared.plan, lanes=planned_cells, alone=alone, pace=pace, others=others)
    return SweepPrepared(whole, prepared.machine, prepared.published, axes, lanes, cells, plan)


def _plan_cell(
    axes: Sequence[SweepAxis], widths: Mapping[str, Subject], plan: PlanLane, lane: Lane, at: At
) -> PlannedLane | UsageError:
    planned = lane_at(lane, axes, at, plan)
    width = next((value for axis, value in zip(axes, at, strict=True) if axis.name == WIDTH_AXIS), None)
    return planned if isinstance(planned, UsageError) or width is None else with_training(planned, widths[width])


class SweepRace:
    """A running sweep: the cells, which of them have failed, and the halving of batches that do not fit."""

    def __init__(self, job: Job, prepared: SweepPrepared) -> None:
        self._job = job
        self._prepared = prepared
        pace = shortest_pace(job.plan.pace, takes_turns=job.plan.alone is None)
        self._rounds = HeatRounds(job, pace, examines=lambda _lane: False)
        self._fitting = Fitting(self._rounds)
        self._left_out: dict[CellPlace, str] = {}
        self._too_large: set[CellPlace] = set()
        self._too_long: set[CellPlace] = set()
        self._estimates: dict[CellPlace, int | Missing] = {}
        self._largest: dict[tuple[str, str | None], int] = {}
        self._round_s = 0.0
        self._doing, self._is_news = "", True
        self._rounds.describe = self._describe

    def run(self) -> None:
        """Race every value once, then again as long as the budget allows."""
        rounds = self._rounds
        axes = self._prepared.axes
        values = grid(axes)
        with rounds.prestarter() as prestarter:
            rounds.make_ready(prestarter)
            for number in range(HEATS_USUAL):
                began_s = self._job.left_s
                for place, at in enumerate(values if number % 2 == 0 else values[::-1], 1):
                    again = f"pass {number + 1}, " if number else ""
                    where = ", ".join(f"{axis.name} {value}" for axis, value in zip(axes, at, strict=True))
                    self._doing = f"{again}cell {place} of {len(values)}: {where}"
                    self._is_news = number == 0 or place == 1  # a line a cell where there is no terminal, once
                    if number == 0 or self._round_s / len(values) <= self._job.left_s:
                        self._race(at, prestarter)
                if number == 0:
                    self._find_largest(prestarter)
                self._round_s = HEATS_VARY * (began_s - self._job.left_s)
                if self._round_s > self._job.left_s:
                    break

    def reduce(self, status: RecordStatus) -> Outcome:
        lanes = self._rounds.results()
        rounds = self._rounds
        prepared = self._prepared
        sweep = None
        if status != "running":
            refused = {place: cell.says for place, cell in prepared.cells.items() if isinstance(cell, UsageError)}
            reasons = refused | self._left_out
            names = {place: cell.name for place, cell in prepared.cells.items() if isinstance(cell, PlannedLane)}
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

    def _describe(self) -> Progress:
        job = self._job
        return Progress(self._doing, job.elapsed_s, max(job.left_s, 0.0), is_most=False, is_news=self._is_news)

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
        # Whether a smaller batch of this lane had no room in memory
        axes = self._prepared.axes
        if axes[0].name != "batch":
            fails_before = False
        else:
            smaller = axes[0].values[: axes[0].values.index(at[0])]
            fails_before = any(self._has_no_room(name, (value, *at[1:])) for value in smaller)
        if fails_before:
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
        cells = {value: (value, *rest) for value in values}
        full = [
            int(value) for value, at in cells.items() if (name, at) in self._too_large or self._has_no_room(name, at)
        ]
        if not full:
            return
        fits = max((int(value) for value in values if self._fits(name, (value, *rest))), default=0)
        fails = min(full)
        # By its estimate, the largest batch may be between one that fits and one that does not
        smallest_full = self._prepared.plan_cell(lane, (str(fails), *rest))
        likely = None if isinstance(smallest_full, UsageError) else self._fitting.largest_batch(smallest_full)
        value = (likely if likely is not None and fits < likely < fails else None) or size_between(fits, fails)
        while value is not None and self._job.left_s > 0:
            self._doing = f"largest batch of {short(name)} that fits: {value}?"
            self._is_news = True
            planned = self._prepared.plan_cell(lane, (str(value), *rest))
            if isinstance(planned, UsageError) or self._why_too_long(planned, self._job.left_s) is not None:
                return
            # Whether a lane runs at a batch; one that surely does not fit is not started
            if self._fitting.why_too_large(planned) is not None:
                tries = False
            else:
                self._rounds.admit(planned)
                self._rounds.run_apart([planned], prestarter)
                tries = not self._has_failed(planned)
            fits, fails = (value, fails) if tries else (fits, value)
            value = size_between(fits, fails)
        if fits and value is None:
            self._largest[name, rest[0] if rest else None] = fits

    def _fits(self, name: str, at: At) -> bool:
        planned = self._prepared.cells.get((name, at))
        return isinstance(planned, PlannedLane) and any(
            heat.process.status == "ok" for heat in self._rounds.heats[planned.name]
        )


# What a sweep found: cells, curves, crossovers, and the verdict in words.

NOT_BATCH = Missing("only batches say what a step without items takes")
NOT_A_WIDTH = Missing("a wider network computes more for each item")
FITS_ALL = Missing("all batches fit")
TOO_LONG = Missing("larger batches would take longer than the budget")
NOT_FOUND = Missing("the budget ended before the largest batch that fits was found")
MORE_HEATS = "That is of one heat each: a longer --budget gives intervals."


@dataclass(frozen=True, slots=True)
class Swept:
    """What was raced: the names of the cells' lanes, why some have none, and the largest batches that fit.

    `estimates` are of the memory of cells, each from before it ran. Those that are `too_large` were left out for it,
    those that are `too_long` for the time of a heat.
    """

    axes: tuple[SweepAxis, ...]
    asked: tuple[str, ...]
    names: Mapping[CellPlace, str]
    reasons: Mapping[CellPlace, str]
    largest: Mapping[tuple[str, str | None], int]
    estimates: Mapping[CellPlace, int | Missing]
    too_large: frozenset[CellPlace]
    too_long: frozenset[CellPlace]


def describe_sweep(swept: Swept, lanes: Sequence[LaneResult]) -> Sweep:
    """Return the whole answer from the lanes that raced."""
    axes = swept.axes
    asked = swept.asked
    names = swept.names
    reasons = swept.reasons
    found = {lane.name: lane for lane in lanes}
    places = sorted({*names, *reasons}, key=lambda place: (asked.index(place[0]), [float(word) for word in place[1]]))
    cells = tuple(
        replace(
            _cell(place, names, reasons, found),
            estimated_memory_bytes=swept.estimates.get(place),
            too_large=place in swept.too_large,
            too_long=place in swept.too_long,
        )
        for place in places
    )
    curves: list[SweepCurve] = []
    factors: list[SweepFactor] = []
    for along in axes[1].values if len(axes) > 1 else (None,):
        rest = () if along is None else (along,)
        row = {
            name: [
                (value, found[names[name, (value, *rest)]])
                for value in axes[0].values
                if (name, (value, *rest)) in names
            ]
            for name in asked
        }
        for name, results in row.items():
            mine = [cell for cell in cells if cell.of == name and cell.at[1:] == rest]
            is_full = any(cell.too_large or cell.out_of_memory for cell in mine)
            why_not = NOT_FOUND if is_full else TOO_LONG if any(cell.too_long for cell in mine) else FITS_ALL
            largest = swept.largest.get((name, along)) or why_not
            curve = _curve(name, along, axes[0], results, largest)
            curves += [] if curve is None else [curve]
        factors += _factors(row, along)
    sweep = Sweep("", axes, cells, tuple(curves), tuple(_crossovers(factors)), tuple(factors))
    return replace(sweep, says=_say(sweep, found))


def _cell(
    place: CellPlace, names: Mapping[CellPlace, str], reasons: Mapping[CellPlace, str], found: Mapping[str, LaneResult]
) -> SweepCell:
    name, at = place
    if place in reasons:
        return SweepCell(name, at, None, reason=reasons[place])
    lane = found[names[place]]
    if lane.step_ms is None or lane.items_per_s is None:
        dnfs = [result.heat.process.dnf for result in lane.heats if result.heat.process.dnf is not None]
        no_room = any(map(is_out_of_memory, dnfs))
        return SweepCell(name, at, lane.name, reason=lane.reason or "it was not raced", out_of_memory=no_room)
    counted = (result.heat.process.parameters for result in lane.heats)
    return SweepCell(
        name, at, lane.name, lane.step_ms.median, lane.items_per_s.median, memory_of(lane),
        parameters=next((count for count in counted if count is not None), None),
    )  # fmt: skip


def is_out_of_memory(dnf: Dnf) -> bool:
    return "MemoryError" in dnf.reason or bool(find_refusal(f"{dnf.reason}\n{dnf.stderr_tail}"))


def _curve(
    name: str, along: str | None, axis: SweepAxis, row: Sequence[tuple[str, LaneResult]], largest: int | Missing
) -> SweepCurve | None:
    rates = [(value, lane.items_per_s.median) for value, lane in row if lane.items_per_s is not None]
    if not rates:
        return None
    best_at, best = max(rates, key=lambda pair: pair[1])
    knee = NOT_A_WIDTH if axis.name == WIDTH_AXIS else find_knee(rates)
    empty = (
        NOT_BATCH
        if axis.name != "batch"
        else find_empty_step([(float(value), lane.heats) for value, lane in row if lane.step_ms])
    )
    found = (("knee", knee), ("empty_ms", empty), ("largest", largest))
    return SweepCurve(
        name,
        along,
        best_at,
        best,
        knee=None if isinstance(knee, Missing) else knee,
        largest=None if isinstance(largest, Missing) else largest,
        empty_ms=None if isinstance(empty, Missing) else empty,
        absent={key: figure for key, figure in found if isinstance(figure, Missing)},
    )


def _factors(row: Mapping[str, Sequence[tuple[str, LaneResult]]], along: str | None) -> list[SweepFactor]:
    """Return how many times as fast each lane is as each one before it, at each value that both raced at."""
    found: list[SweepFactor] = []
    for first, second in pairs_of(tuple(row)):
        others = dict(row[first])
        for value, lane in row[second]:
            compared = compare_lanes(lane, others[value], margin=0.05, alpha=ALPHA) if value in others else None
            if compared is not None:
                ends = compared.low, compared.high
                found.append(SweepFactor(second, first, value, compared.ratio, *ends, along))
    return found


def _crossovers(factors: Sequence[SweepFactor]) -> list[Crossover]:
    """Return where each lane overtakes each other one."""
    found: list[Crossover] = []
    for lane, against, along in dict.fromkeys((factor.lane, factor.against, factor.along) for factor in factors):
        points = [
            RatioPoint(float(factor.at), factor.ratio, factor.low, factor.high)
            for factor in factors
            if (factor.lane, factor.against, factor.along) == (lane, against, along) and float(factor.at) > 0
        ]
        for at, rises in find_crossovers(points):
            one, other = (lane, against) if rises else (against, lane)
            found.append(Crossover(one, other, at, along))
    return found


def short(name: str) -> str:
    return name.removesuffix("/as-written")


def _say(sweep: Sweep, found: Mapping[str, LaneResult]) -> str:
    """Return the crossovers, or the best value where there is none; of one heat each, only what seems so."""
    axis = sweep.axes[0].name
    if not sweep.curves:
        return "nothing finished."
    sentences = [
        f"{short(crossover.lane)} {'may overtake' if is_of_one_round(crossover.at) else 'overtakes'} "
        f"{short(crossover.against)} at {axis} {bounded_words(crossover.at)}{_along(sweep, crossover.along)}."
        for crossover in sweep.crossovers
    ]
    if sentences:
        more = [MORE_HEATS] if any(is_of_one_round(crossover.at) for crossover in sweep.crossovers) else []
        return " ".join([*sentences, *more])
    best = max(sweep.curves, key=lambda curve: curve.best_items_per_s)
    at = (best.best_at,) if best.along is None else (best.best_at, best.along)
    step = next(found[cell.lane].step_ms for cell in sweep.cells if (cell.of, cell.at) == (best.of, at) and cell.lane)
    is_sure = step is not None and step.ends is not None
    says = f"{short(best.of)} {'is' if is_sure else 'seems'} fastest at {axis} {at[0]}{_along(sweep, best.along)}"
    if best.knee is not None and best.knee != best.best_at:
        says += f", and has 90 % of that rate from {axis} {best.knee} on"
    if len({curve.of for curve in sweep.curves}) > 1:
        says += "; no lane overtakes another"
    return f"{says}." if is_sure else f"{says}. {MORE_HEATS}"


def _along(sweep: Sweep, along: str | None) -> str:
    return "" if along is None else f" with {sweep.axes[1].name} {along}"


PART = QuestionRun(prepare_sweep, SweepRace)
