"""Records of one training -> one lane over time, with what changed from each record to the next."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.analysis.aggregate import ONE_HEAT, ONE_TRAINING, estimate
from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.questions.compare.differences import find_differences
from laptime.questions.compare.history_nouns import HistoryPoint
from laptime.questions.compare.nouns import LaneChange
from laptime.questions.compare.reduce import change_of, rates_of

ROW_ALPHA = 0.01  # a history has many rows, and each may seem to change by chance
Found = tuple[Record, LaneResult]
OWN_PROCESS = "settings"  # differences of these kinds have the lane's name in them


def follow_lane(found: Sequence[Found]) -> tuple[HistoryPoint, ...]:
    """Return a point for each record, in their order. Each is compared with the last before it on its machine."""
    points: list[HistoryPoint] = []
    for place, (record, lane) in enumerate(found):
        earlier = next((each for each in reversed(found[:place]) if is_same_machine(each, (record, lane))), None)
        points.append(_point(record, lane, found[place - 1] if place else None, earlier))
    return tuple(points)


def has_rate(record: Record, lane: LaneResult) -> bool:
    """Whether a record has a figure of a lane."""
    return bool(rates_of(record, lane))


def is_same_machine(one: Found, other: Found) -> bool:
    """Whether two records are of the same kind of machine and device, as far as it decides how fast a lane is."""
    return _machine(one) == _machine(other)


def _machine(found: Found) -> tuple[str, int, str]:
    record, lane = found
    chip = record.machine.processor
    return chip.name, chip.cores_usable, lane.device.label


def _point(record: Record, lane: LaneResult, before: Found | None, earlier: Found | None) -> HistoryPoint:
    rates = rates_of(record, lane)
    figure = estimate(rates, alone=ONE_TRAINING if record.question == "full" else ONE_HEAT)
    assert figure is not None
    return HistoryPoint(
        id=record.id,
        started=record.started,
        label=record.ask.label,
        machine=", ".join(dict.fromkeys([lane.device.label, record.machine.processor.name])),
        items_per_s=figure,
        heats=len(rates),
        change=None if earlier is None else _change(earlier, (record, lane)),
        marks=() if before is None else _marks(before, (record, lane)),
    )


def _change(before: Found, after: Found) -> LaneChange | None:
    return change_of(before[0], after[0], (before[1], after[1]), ROW_ALPHA)


def _marks(before: Found, after: Found) -> tuple[str, ...]:
    """Return what differs from the point before, in short: what changed, and to what."""
    differences = find_differences(before[0], after[0], [(before[1], after[1])])
    marks = [f"{each.what.removesuffix(f' of {before[1].name}')} {each.after}" for each in differences]
    same = after[1].parity.status
    return tuple(marks if same != "differs" else [*marks, "did other work"])


def is_beyond_noise(change: LaneChange | None) -> bool:
    """Whether a lane changed by more than its heats vary."""
    return change is not None and change.verdict != "not distinguishable" and not isinstance(change.low, Missing)
