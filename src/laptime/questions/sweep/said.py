"""What a sweep found: cells, curves, crossovers, and the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from laptime.analysis.lanes import compare_lanes
from laptime.analysis.memory import memory_of
from laptime.model.digits import brief
from laptime.model.memory_errors import find_refusal
from laptime.model.missing import Missing
from laptime.model.process import Dnf
from laptime.model.record import LaneResult
from laptime.questions.scale.nouns import Bounded
from laptime.questions.sweep.cells import At, pairs_of
from laptime.questions.sweep.nouns import WIDTH, Crossover, Sweep, SweepAxis, SweepCell, SweepCurve
from laptime.questions.sweep.reduce import ALPHA, ONE_ROUND, find_crossovers, find_empty_step, find_knee, point_of

NOT_BATCH = Missing("only batches say what a step without items takes")
NOT_A_WIDTH = Missing("a wider network computes more for each item")
FITS_ALL = Missing("all batches fit")
TOO_LONG = Missing("larger batches would take longer than the budget")
NOT_FOUND = Missing("the budget ended before the largest batch that fits was found")
MORE_HEATS = "That is of one heat each: a longer --budget gives intervals."
Place = tuple[str, At]


@dataclass(frozen=True, slots=True)
class Swept:
    """What was raced: the names of the cells' lanes, why some have none, and the largest batches that fit.

    `estimates` are of the memory of cells, each from before it ran. Those that are `too_large` were left out for it,
    those that are `too_long` for the time of a heat.
    """

    axes: tuple[SweepAxis, ...]
    asked: tuple[str, ...]
    names: Mapping[Place, str]
    reasons: Mapping[Place, str]
    largest: Mapping[tuple[str, str | None], int]
    estimates: Mapping[Place, int | Missing]
    too_large: frozenset[Place]
    too_long: frozenset[Place]


def describe_sweep(swept: Swept, lanes: Sequence[LaneResult]) -> Sweep:
    """Return the whole answer from the lanes that raced."""
    axes, asked, names, reasons = swept.axes, swept.asked, swept.names, swept.reasons
    found = {lane.name: lane for lane in lanes}
    places = sorted({*names, *reasons}, key=lambda place: (asked.index(place[0]), [float(each) for each in place[1]]))
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
    crossovers: list[Crossover] = []
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
        for name, each in row.items():
            mine = [cell for cell in cells if cell.of == name and cell.at[1:] == rest]
            is_full = any(cell.too_large or cell.out_of_memory for cell in mine)
            why_not = NOT_FOUND if is_full else TOO_LONG if any(cell.too_long for cell in mine) else FITS_ALL
            largest = swept.largest.get((name, along)) or why_not
            curve = _curve(name, along, axes[0], each, largest)
            curves += [] if curve is None else [curve]
        crossovers += _crossovers(row, along)
    sweep = Sweep("", axes, cells, tuple(curves), tuple(crossovers))
    return replace(sweep, says=_say(sweep, found))


def _cell(
    place: Place, names: Mapping[Place, str], reasons: Mapping[Place, str], found: Mapping[str, LaneResult]
) -> SweepCell:
    name, at = place
    if place in reasons:
        return SweepCell(name, at, None, reason=reasons[place])
    lane = found[names[place]]
    if lane.step_ms is None or lane.items_per_s is None:
        dnfs = [heat.process.dnf for heat in lane.heats if heat.process.dnf is not None]
        no_room = any(map(is_out_of_memory, dnfs))
        return SweepCell(name, at, lane.name, reason=lane.reason or "it was not raced", out_of_memory=no_room)
    counted = (heat.process.parameters for heat in lane.heats)
    return SweepCell(
        name, at, lane.name, lane.step_ms.median, lane.items_per_s.median, memory_of(lane),
        parameters=next((each for each in counted if each is not None), None),
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
    knee = NOT_A_WIDTH if axis.name == WIDTH else find_knee(rates)
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
        absent={key: each for key, each in found if isinstance(each, Missing)},
    )


def _crossovers(row: Mapping[str, Sequence[tuple[str, LaneResult]]], along: str | None) -> list[Crossover]:
    """Return where each lane overtakes each other one."""
    found: list[Crossover] = []
    for first, second in pairs_of(tuple(row)):
        others = dict(row[first])
        points = [
            point_of(float(value), compared)
            for value, lane in row[second]
            if float(value) > 0
            and value in others
            and (compared := compare_lanes(lane, others[value], margin=0.05, alpha=ALPHA)) is not None
        ]
        for at, rises in find_crossovers(points):
            lane, against = (second, first) if rises else (first, second)
            found.append(Crossover(lane, against, at, along))
    return found


def bounded_words(at: Bounded) -> str:
    """Return a place on an axis with its interval: 48 (40-58)."""
    if isinstance(at.low, Missing) or isinstance(at.high, Missing):
        return f"about {brief(at.value)}"
    return f"{brief(at.value)} ({brief(at.low)}-{brief(at.high)})"


def short(name: str) -> str:
    return name.removesuffix("/as-written")


def _say(sweep: Sweep, found: Mapping[str, LaneResult]) -> str:
    """Return the crossovers, or the best value where there is none; of one heat each, only what seems so."""
    axis = sweep.axes[0].name
    if not sweep.curves:
        return "nothing finished."
    told = [
        f"{short(each.lane)} {'may overtake' if _is_of_one_heat(each) else 'overtakes'} {short(each.against)} at {axis}"
        f" {bounded_words(each.at)}{_along(sweep, each.along)}."
        for each in sweep.crossovers
    ]
    if told:
        return " ".join([*told, *([MORE_HEATS] if any(map(_is_of_one_heat, sweep.crossovers)) else [])])
    best = max(sweep.curves, key=lambda each: each.best_items_per_s)
    at = (best.best_at,) if best.along is None else (best.best_at, best.along)
    step = next(found[cell.lane].step_ms for cell in sweep.cells if (cell.of, cell.at) == (best.of, at) and cell.lane)
    is_sure = step is not None and not isinstance(step.low, Missing)
    says = f"{short(best.of)} {'is' if is_sure else 'seems'} fastest at {axis} {at[0]}{_along(sweep, best.along)}"
    if best.knee is not None and best.knee != best.best_at:
        says += f", and has 90 % of that rate from {axis} {best.knee} on"
    if len({each.of for each in sweep.curves}) > 1:
        says += "; no lane overtakes another"
    return f"{says}." if is_sure else f"{says}. {MORE_HEATS}"


def _is_of_one_heat(crossover: Crossover) -> bool:
    return ONE_ROUND in {crossover.at.low, crossover.at.high}


def _along(sweep: Sweep, along: str | None) -> str:
    return "" if along is None else f" with {sweep.axes[1].name} {along}"
