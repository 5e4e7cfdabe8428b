"""What the pages of several questions say of lanes: their table, whether they did the same work, what was published."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.missing import Missing
from laptime.model.process import AS_WRITTEN
from laptime.model.quantities import HOUR_S, number
from laptime.model.record import Comparison, InferFactor, LaneResult, Record
from laptime.model.workload import PublishedResult
from laptime.pages.layout import SEPARATOR, Cell, flow, wrap
from laptime.pages.other_trainings import trainings_compared
from laptime.pages.page import RecordColumn, fit_table
from laptime.pages.words import (
    against_first,
    against_title,
    duration,
    factor,
    failure_words,
    joined,
    lap_words,
    published_lap,
    rate_words,
    same_work,
    short_name,
    step_words,
    tiny,
)
from laptime.visible import cells_wide

PARITY_STATUSES = ("same", "differs", "unproven")
IN_ALL = " in all"
VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


def lap_cost(lane: LaneResult, record: Record) -> float | None:
    """Return what the time of a lap costs at its type's price, or None where no price was given."""
    price = next((each.per_hour for each in record.ask.prices if lane.where and each.of == lane.where.value), None)
    return None if price is None or lane.lap_s is None else price * lane.lap_s.median / HOUR_S


def cost_cell(lane: LaneResult, record: Record) -> str:
    cost = lap_cost(lane, record)
    return "-" if cost is None else number(cost)


def _against(lane: LaneResult, record: Record) -> Cell:
    """Return a lane's factor or, in its place, its failure."""
    failed = failure_words(lane)
    return Cell(failed, "bad") if failed else against_first(lane, record)


SAME_WORK = RecordColumn("same work", same_work, least=18, leaves=1, own_words=True)
RACE_COLUMNS: list[RecordColumn[LaneResult]] = [
    RecordColumn("lane", lambda lane, _: short_name(lane.name), least=14, breaks_last=True),
    RecordColumn("a lap", lambda lane, _: lap_words(lane)),
    RecordColumn("step", lambda lane, _: step_words(lane)),
    RecordColumn(lambda record: f"{record.workload.items}/s", lambda lane, _: rate_words(lane), right=True, leaves=2),
    RecordColumn("cost of a lap", cost_cell, shown=lambda record: record.ask.prices and record.ask.each),
    RecordColumn(against_title, _against, least=19, breaks_last=True),
    SAME_WORK,
]


def ends_words(found: Comparison | InferFactor) -> str:
    """Return the ends of a factor's interval in the direction of every table: the lane against the first one."""
    return "-".join(factor(end) for end in (found.low, found.high) if not isinstance(end, Missing))


def spoken_name(lane: str, other: str) -> str:
    """Return a lane's name; where only the settings differ from the other lane, the default ones are named, too."""
    place, _, preset = lane.rpartition("/")
    is_alone = other.startswith(f"{place}/") and preset == AS_WRITTEN
    return f"{place} as written" if is_alone else short_name(lane)


def lane_table(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table with the columns that fit. The proof moves below the table first; then the rate is left out."""
    lines, gone = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, failed=failure_words)
    return [*lines, *proof_lines(record, width)] if SAME_WORK in gone else lines


def proof_lines(record: Record, width: int) -> list[str]:
    """Return each lane's proof, for below the table. If all did the same work, that is one line."""
    told = [(short_name(lane.name), same_work(lane, record).text) for lane in record.lanes if not failure_words(lane)]
    if not told:
        return []
    first, others = told[0][1], {text for _, text in told[1:]}
    if first.startswith("yes") and others <= {"yes"}:
        who = ", all lanes" if len(told) == len(record.lanes) else ", all that finished"
        return wrap(f"same work: {first}{who if others else ''}", width, "  ")
    return flow((f"{name} {text}" for name, text in told), width, "same work: ")


def proof_sentence(record: Record) -> str:
    """Return whether the lanes that finished did the same work, in one sentence."""
    done = [lane for lane in record.lanes if not failure_words(lane) and lane.step_ms is not None]
    by_status = {status: [each for each in done if each.parity.status == status] for status in PARITY_STATUSES}
    proven = by_status["same"]
    said = []
    if by_status["differs"]:
        said.append(f"NOT done by {_named(by_status['differs'])}")
    if proven:
        who = "" if len(proven) == len(done) else f" for {joined([short_name(lane.name) for lane in proven])}"
        said.append(f"{first_losses(proven)}{who}" if record.workload.command else f"proven{who}{_how_proven(proven)}")
    if by_status["unproven"]:
        said.append(f"not proven for {_named(by_status['unproven'])}")
    for lane in proven:
        if lane.parity.strays is not None:
            how_far = f"{lane.parity.strays_precision or 'its precision'} strays {tiny(lane.parity.strays)}"
            said.append(f"{how_far} on {short_name(lane.name)}")
    if not said:
        return ""
    if not record.others:
        names = {lane.name for lane in proven}
        doubts = [each.same_work for each in record.answer.comparisons if {each.lane, each.reference} <= names]
        said += dict.fromkeys(f"not proven in all: {each.missing}" for each in doubts if isinstance(each, Missing))
        return f"Same work: {'; '.join(said)}."
    return f"Each training as on its own: {'; '.join(said)}. {trainings_compared(record)}"


def _how_proven(proven: list[LaneResult]) -> str:
    steps = max(lane.parity.steps for lane in proven)
    return f" ({steps} step{'s' * (steps != 1)} against float64)" if steps else ""


def first_losses(proven: list[LaneResult]) -> str:
    """Return how near the first losses of a script's lanes are to each other."""
    steps = min(lane.parity.steps for lane in proven)
    worst = max(lane.parity.worst or 0.0 for lane in proven)
    return f"its first {steps} losses {f'agree within {tiny(worst)}' if worst else 'are equal'}"


def _named(lanes: list[LaneResult]) -> str:
    return joined([f"{short_name(lane.name)} ({lane.parity.reason or 'no reason is known'})" for lane in lanes])


@dataclass(frozen=True, slots=True)
class Quoted:
    """One published result as it is shown. `lap_s` is for sorting only."""

    kind: str
    lap_s: float
    words: str


def published_line(record: Record, width: int) -> str:
    """Return the published results that fit on a line. The slowest are dropped first; the fastest of a kind stay."""
    results = record.published.results if record.published else ()
    quotes = [quote for result in results if (quote := _quoted(result, record.workload.laps))]
    while cells_wide(_published_words(quotes)) > width and (spare := _slowest_spare(quotes)):
        quotes.remove(spare)
    return _published_words(quotes)


def _quoted(result: PublishedResult, laps: int | None) -> Quoted | None:
    """Return the median lap of a result, or the whole training if no lap was published."""
    device = result.device
    for vendor in VENDORS:
        device = device.replace(vendor, "")
    if result.lap_s:
        lap_s = sorted(result.lap_s)[len(result.lap_s) // 2]
        return Quoted(result.kind, lap_s, f"{device} {published_lap(lap_s)}")
    if result.total_s is not None:
        return Quoted(result.kind, result.total_s / (laps or 1), f"{device} {duration(result.total_s)}{IN_ALL}")
    return None


def _slowest_spare(quotes: list[Quoted]) -> Quoted | None:
    fastest = {each.kind: min(other.lap_s for other in quotes if other.kind == each.kind) for each in quotes}
    spare = [each for each in quotes if each.lap_s > fastest[each.kind]]
    return max(spare, key=lambda each: each.lap_s, default=None)


def _published_words(quotes: list[Quoted]) -> str:
    if not quotes:
        return ""
    are_laps = not any(each.words.endswith(IN_ALL) for each in quotes)
    return f"Published{', a lap' * are_laps}: {SEPARATOR.join(each.words for each in quotes)}"
