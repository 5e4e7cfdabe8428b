"""The page of a race, and its live view: which lane was faster, by what factor, and whether all did the same work."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from laptime.model.lane import AS_WRITTEN, NO_TRAINING, parts_of
from laptime.model.missing import Missing
from laptime.model.record import Comparison, InferFactor, LaneResult, Record
from laptime.model.workload import PublishedResult
from laptime.pages import footnotes
from laptime.pages.bars import Row, bar_rows
from laptime.pages.layout import SEPARATOR, Cell, flow, wrap
from laptime.pages.numbers import duration, factor, lap, over, percent, published_lap, step, tiny
from laptime.pages.page import (
    NARROWEST,
    PageParts,
    RecordColumn,
    Said,
    View,
    fit_table,
    header,
    live_page,
    quiet,
    rendered,
)
from laptime.pages.usage import money_words, usage_lines
from laptime.pages.words import (
    above_one,
    against_first,
    against_title,
    failure_words,
    joined,
    lap_words,
    place_words,
    rate_words,
    reference_name,
    same_work,
    short_name,
    step_words,
)
from laptime.questions.doctor.nouns import CARD_NOT_SEEN
from laptime.questions.forecast.cards_page import card_sentence
from laptime.questions.profile.page import limit_lines, profile_figures, profiles
from laptime.questions.race.fleet_page import cost_cell, fleet_words, node_lines, price_words
from laptime.questions.race.others_page import is_other_work, most_telling, names_of_trainings, trainings_compared
from laptime.visible import cells_wide

STATUSES = ("same", "differs", "unproven")
IN_ALL = " in all"
PROFILES_MOST = 2  # on the short page
VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


def _against(lane: LaneResult, record: Record) -> Cell:
    """Return a lane's factor or, in its place, its failure."""
    failed = failure_words(lane)
    return Cell(failed, "bad") if failed else against_first(lane, record)


def _heats(lane: LaneResult, _record: Record) -> str:
    return str(sum(heat.process.status == "ok" for heat in lane.heats))


SAME_WORK = RecordColumn("same work", same_work, least=18, leaves=1, view="page")
RACE_COLUMNS: list[RecordColumn[LaneResult]] = [
    RecordColumn("lane", lambda lane, _: short_name(lane.name), least=14, breaks_last=True),
    RecordColumn("heats", _heats, right=True, view="live"),
    RecordColumn("a lap", lambda lane, _: lap_words(lane)),
    RecordColumn("step", lambda lane, _: step_words(lane)),
    RecordColumn(lambda record: f"{record.workload.items}/s", lambda lane, _: rate_words(lane), right=True, leaves=2),
    RecordColumn("cost of a lap", cost_cell, shown=lambda record: record.ask.prices and record.ask.each),
    RecordColumn(against_title, _against, least=19, breaks_last=True),
    SAME_WORK,
]


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    return PageParts(
        answer=[
            *footnotes.distrust(record),
            *(Said(each, "bad") for each in fleet_words(record)),
            Said(f"{place_words(record)}: {_answer(record)}"),
            *(Said(each, "") for each in unseen_words(record)),
        ],
        figures=[*_bars(record, view.inner), *_profiles(record, view.inner)],
        notes=_notes(record, view.width),
        done=" ".join(filter(None, [proof_sentence(record), footnotes.closing(record)])),
        then=_then(record),
        details=_details(record, view),
    )


render = rendered(page_parts)


def _answer(record: Record) -> str:
    """Return which lane is faster, by how much, and how sure that is."""
    ran = [lane for lane in record.lanes if lane.step_ms is not None]
    if not ran:
        return "no lane has a result."
    compared = record.answer.comparisons
    fair = [each for each in compared if each.same_work is not False]
    if fair:
        told = most_telling(fair)
        return compared_words(told, record) + " The two do other work." * is_other_work(told, record)
    if compared:
        differing = [short_name(lane.name) for lane in ran if lane.parity.status == "differs"]
        return f"no factor, because {joined(differing)} did not do the same work."
    lap_ = "" if ran[0].lap_s is None else f", {lap_words(ran[0])} a lap"
    return f"{short_name(ran[0].name)} takes {step_words(ran[0])} a step{lap_}."


def compared_words(found: Comparison, record: Record) -> str:
    """Return a sentence on the faster of two lanes."""
    lanes = (found.lane, found.reference)
    faster, slower = lanes if found.ratio >= 1 else lanes[::-1]
    ratio, low, high = above_one(found.ratio, found.low, found.high)
    one, other = names_of_trainings(faster, slower) or (spoken_name(faster, slower), spoken_name(slower, faster))
    names = f"{one} is {{}} as {other}"
    if isinstance(low, Missing) or isinstance(high, Missing):
        why = "one pair, no interval" if found.pairs == 1 else "no interval"
        return names.format(f"{factor(ratio)}x as fast") + f" ({why})."
    if found.verdict == "not distinguishable":  # the ratio is that of the table, whichever seems faster
        names = f"{short_name(found.lane)} and {short_name(found.reference)}"
        return f"no difference was found between {names} (ratio {ends_words(found)})."
    between = f"{factor(low, ratio)}-{factor(high, ratio)}"
    settled = "" if found.settled else f", not settled within {percent(record.ask.margin)}"
    return names.format(f"{factor(ratio)}x as fast") + f" ({between}{settled})."


def ends_words(found: Comparison | InferFactor) -> str:
    """Return the ends of a factor's interval in the direction of every table: the lane against the first one."""
    return "-".join(factor(end) for end in (found.low, found.high) if not isinstance(end, Missing))


def spoken_name(lane: str, other: str) -> str:
    """Return a lane's name; where only the settings differ from the other lane, the default ones are named, too."""
    place, _, preset = lane.rpartition("/")
    is_alone = other.startswith(f"{place}/") and preset == AS_WRITTEN
    return f"{place} as written" if is_alone else short_name(lane)


def _bars(record: Record, view: View) -> list[str]:
    """Return a row a lane: its time for an item as a bar, its step, its lap, and its factor."""
    first = next((lane.name for lane in record.lanes if lane.step_ms is not None), "")
    rows = []
    for lane in record.lanes:
        rate, is_first = lane.items_per_s, lane.name == first
        step_, lap_ = (
            "" if each is None else tell(each.median) for each, tell in ((lane.step_ms, step), (lane.lap_s, lap))
        )
        against = Cell("") if lane.name == reference_name(record) else against_first(lane, record)
        figures = (
            Cell(step_ + " a step" * (is_first and bool(step_))),
            Cell(lap_ + " a lap" * (is_first and bool(lap_))),
            Cell("") if against.text == "-" else replace(against, text=against.text.replace("x faster", "x")),
        )
        length = None if rate is None else over(1, rate.median)
        rows.append(Row(short_name(lane.name), length, figures, failure_words(lane)))
    return bar_rows(rows, view)


def _profiles(record: Record, view: View) -> list[str]:
    """Return the first lines of the profiles that were asked for with the race."""
    lines = profile_figures(record, view, lanes=PROFILES_MOST)
    return ["", *lines] if lines else []


def _notes(record: Record, width: int) -> list[str]:
    """Return what a reader must know to trust the answer or to act on it, the most important first."""
    return [
        *footnotes.failure_sentences(record),
        *footnotes.doubts(record),
        *price_words(record),
        *money_words(record),
        *footnotes.forecast_sentence(record),
        *card_sentence(record),
        published_line(record, width),
    ]


def _then(record: Record) -> list[str]:
    """Return the command that finds what limits the fastest lane."""
    done = [lane for lane in record.lanes if lane.status == "ok" and lane.parity.status != "differs"]
    ran = [lane for lane in done if lane.items_per_s is not None and lane.settings.input not in NO_TRAINING]
    fastest = max(ran, key=lambda lane: lane.items_per_s.median if lane.items_per_s else 0.0, default=None)
    if fastest is None or record.status != "finished":
        return []
    what = record.trainings[fastest.training or record.workload.name]
    place = short_name(parts_of(fastest.name)[0])
    behind = ["--", *record.ask.command] if record.ask.command else []
    return [f"Next: {shlex.join(['laptime', 'why', *filter(None, [what]), place, *behind])}"]


def _details(record: Record, view: View) -> list[list[str]]:
    """Return all that the record holds, in sections."""
    width, color = view.width, view.color
    return [
        header(record, width, color=color),
        lane_table(record, width, color=color),
        node_lines(record, width),
        usage_lines(record, width, color=color),
        limit_lines(record, width),
        footnotes.failures(record, width),
        *(wrap(each, width, "  ") for each in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
        quiet(footnotes.origins(record, width), color=color),
        footnotes.forecasts(record, width),
        *(wrap(each, width, "  ") for each in card_sentence(record)),
        wrap(published_line(record, width), width, "  "),
        *profiles(record, width, color=color),
    ]


def live_lines(record: Record, note: str, width: int, *, color: bool = False) -> list[str]:
    """Return a running record as a table and, below it, what is being done now."""
    table, _ = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, view="live")
    return live_page(record, note, table, width, color=color)


def unseen_words(record: Record) -> list[str]:
    """Return, for the top of the page, which card is here but was not used, and how to fix that."""
    found = [f"{each.says} {each.advice}" for each in record.findings if each.rule == CARD_NOT_SEEN]
    return [*found, "laptime doctor says more."] if found else []


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
    by_status = {status: [each for each in done if each.parity.status == status] for status in STATUSES}
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
