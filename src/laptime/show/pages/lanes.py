"""What the pages of several questions say of lanes: their tables, what each used, whether they did the same work, what
was published; and which of several trainings to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from laptime.model.process import AS_WRITTEN
from laptime.model.quantities import HOUR_S, Missing, number, size
from laptime.model.record import (
    Comparison,
    InferAnswer,
    InferFactor,
    LaneResult,
    Record,
    TrainingAnswer,
    inference_of,
    training_of,
)
from laptime.model.rows import OF_TRAINING
from laptime.model.sample import AnswerUsage, CardUsage, Energy, Usage
from laptime.model.visible import cells_wide
from laptime.model.workload import PublishedResult
from laptime.questions.tune.options import LanePrices
from laptime.show.pages.layout import SEPARATOR, Cell, Column, flow, lay_out_table, table_or_sentences, wrap, wrap_all
from laptime.show.pages.page import RecordColumn, fit_table
from laptime.show.pages.words import (
    against_first,
    against_title,
    duration,
    factor,
    failure_words,
    joined,
    lap_words,
    over,
    published_lap,
    rate_words,
    same_work,
    short_name,
    step_words,
    tiny,
)

VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


def lap_cost(lane: LaneResult, record: Record) -> float | None:
    """Return what the time of a lap costs at its type's price, or None where no price was given."""
    for price in record.ask.prices:
        if lane.where and price.of == lane.where.value and lane.lap_s is not None:
            return price.per_hour * lane.lap_s.median / HOUR_S
    return None


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
    proofs = [(short_name(lane.name), same_work(lane, record).text) for lane in record.lanes if not failure_words(lane)]
    if not proofs:
        return []
    first = proofs[0][1]
    others = {text for _, text in proofs[1:]}
    if first.startswith("yes") and others <= {"yes"}:
        who = ", all lanes" if len(proofs) == len(record.lanes) else ", all that finished"
        return wrap(f"same work: {first}{who if others else ''}", width, "  ")
    return flow((f"{name} {text}" for name, text in proofs), width, "same work: ")


def proof_sentence(record: Record) -> str:
    """Return whether the lanes that finished did the same work, in one sentence."""
    clauses = "; ".join(_proof_clauses(record))
    if not clauses:
        return ""
    if not record.others:
        return f"Same work: {clauses}."
    return f"Each training as on its own: {clauses}. {trainings_compared(record)}"


def proof_at_a_glance(record: Record) -> str:
    """Return the same under a title that says "Same work"."""
    return proof_sentence(record).rstrip(".") if record.others else "; ".join(_proof_clauses(record))


def _proof_clauses(record: Record) -> list[str]:
    done = [lane for lane in record.lanes if not failure_words(lane) and lane.step_ms is not None]
    differing = [lane for lane in done if lane.parity.status == "differs"]
    proven = [lane for lane in done if lane.parity.status == "same"]
    unproven = [lane for lane in done if lane.parity.status == "unproven"]
    clauses = []
    if differing:
        clauses.append(f"NOT done by {_named(differing)}")
    if proven:
        who = "" if len(proven) == len(done) else f" for {joined([short_name(lane.name) for lane in proven])}"
        steps = max(lane.parity.steps for lane in proven)
        how = f" ({steps} step{'s' * (steps != 1)} against float64)" if steps else ""
        clauses.append(f"{first_losses(proven)}{who}" if record.workload.command else f"proven{who}{how}")
    if unproven:
        clauses.append(f"not proven for {_named(unproven)}")
    for lane in proven:
        if lane.parity.strays is not None:
            how_far = f"{lane.parity.strays_precision or 'its precision'} strays {tiny(lane.parity.strays)}"
            clauses.append(f"{how_far} on {short_name(lane.name)}")
    if clauses and not record.others:
        names = {lane.name for lane in proven}
        doubts = [
            comparison.same_work
            for comparison in record.answer.comparisons
            if {comparison.lane, comparison.reference} <= names
        ]
        clauses += dict.fromkeys(
            f"not proven in all: {doubt.missing}" for doubt in doubts if isinstance(doubt, Missing)
        )
    return clauses


def first_losses(proven: list[LaneResult]) -> str:
    """Return how near the first losses of a script's lanes are to each other."""
    steps = min(lane.parity.steps for lane in proven)
    worst = max(lane.parity.worst or 0.0 for lane in proven)
    return f"its first {steps} losses {f'agree within {tiny(worst)}' if worst else 'are equal'}"


def _named(lanes: list[LaneResult]) -> str:
    return joined([f"{short_name(lane.name)} ({lane.parity.reason or 'no reason is known'})" for lane in lanes])


@dataclass(frozen=True, slots=True)
class Quoted:
    """One published result as it is shown: of a lap, or of the whole training. `lap_s` is for sorting only."""

    kind: str
    lap_s: float
    words: str
    is_lap: bool = True


def published_line(record: Record, width: int) -> str:
    """Return the published results that fit on a line. The slowest are dropped first; the fastest of a kind stay."""
    results = record.published.results if record.published else ()
    quotes = [quote for result in results if (quote := _quoted(result, record.workload.laps))]
    while cells_wide(_published_words(quotes)) > width:
        fastest = {quote.kind: min(other.lap_s for other in quotes if other.kind == quote.kind) for quote in quotes}
        spare = [quote for quote in quotes if quote.lap_s > fastest[quote.kind]]
        if not spare:
            break
        quotes.remove(max(spare, key=lambda quote: quote.lap_s))
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
        whole = f"{device} {duration(result.total_s)} in all"
        return Quoted(result.kind, result.total_s / (laps or 1), whole, is_lap=False)
    return None


def _published_words(quotes: list[Quoted]) -> str:
    if not quotes:
        return ""
    are_laps = all(quote.is_lap for quote in quotes)
    return f"Published{', a lap' * are_laps}: {SEPARATOR.join(quote.words for quote in quotes)}"


# The table of what each lane used: processor and card, memory, temperature, power, energy, money.

NO_FIGURE = Missing("")
NO_SENSOR = Missing("no sensor was read")
NO_ENERGY = Energy("", NO_SENSOR, NO_SENSOR, NO_SENSOR, NO_SENSOR, NO_SENSOR)
USAGE_NOT_WATCHED = Usage(
    processor_percent=NO_SENSOR,
    others_percent=NO_SENSOR,
    memory_most_bytes=NO_SENSOR,
    device_percent=NO_SENSOR,
    active_percent=NO_SENSOR,
    device_memory_most_bytes=NO_SENSOR,
    temperature_of="",
    temperature_most_c=NO_SENSOR,
    temperature_slope_c_per_min=NO_SENSOR,
    power_most_w=NO_SENSOR,
    energy=NO_ENERGY,
)
PERCENT = "{:.0f} %".format
DEGREES = "{:.0f} \N{DEGREE SIGN}C".format
JOULE_UNITS = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The content of a row: a lane, or a part of one, with its usage."""

    lane: LaneResult
    usage: Usage
    record: Record

    @property
    def name(self) -> str:
        return short_name(self.lane.name)


@dataclass(frozen=True, slots=True)
class UsageColumn:
    """One column. If it is empty, `of` names it in the line with the reason. `shown` are the kinds of pages."""

    title: str
    figure: Callable[[UsageRow], str | Missing]
    of: str = ""
    shown: tuple[str, ...] = ("laps", "trainings", "answers")

    def cell(self, row: UsageRow) -> str:
        figure = self.figure(row)
        return "-" if isinstance(figure, Missing) else figure


def usage_lines(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table with those columns in which any lane has a figure, and the reasons for empty ones."""
    rows = _rows(record)
    columns = [column for column in USAGE_COLUMNS if _kind(record) in column.shown]
    known = [column for column in columns if any(not isinstance(column.figure(row), Missing) for row in rows)]
    if not known:
        return []
    shown = [Column(column.title, column.cell) for column in known]
    table = lay_out_table([Column("while timed", lambda row: row.name, least=14), *shown], rows, width, color=color)
    if table is None:
        table = []
        for row in rows:
            parts = [f"{column.title} {column.cell(row)}" for column in known if column.cell(row) != "-"]
            table += flow(parts, width, f"{row.name} while timed: ")
    lines = [*table, *wrap_all(_reasons(columns, rows), width)]
    # A row for each card of the lanes that compute on several
    cards = [(row, card) for row in rows for card in row.usage.cards]
    card_columns: list[Column[tuple[UsageRow, CardUsage]]] = [
        Column("each card", lambda pair: f"{pair[0].name}: {pair[1].device}", least=14),
        Column("busy", lambda pair: _or_dash(pair[1].busy_percent, PERCENT)),
        Column("memory", lambda pair: _or_dash(pair[1].memory_most_bytes, size)),
        Column("hottest", lambda pair: _or_dash(pair[1].temperature_most_c, DEGREES)),
        Column("power", lambda pair: _or_dash(pair[1].power_w, _watts)),
    ]
    return [*lines, *table_or_sentences(card_columns, cards, width, color=color)] if cards else lines


def _or_dash(value: float | Missing, words: Callable[[float], str]) -> str:
    return "-" if isinstance(value, Missing) else words(value)


def money_words(record: Record) -> list[str]:
    """Return what a lap, a training or 1,000 answers cost on each lane, where a price was given."""
    rows = _rows(record)
    if not any(_is_priced(_prices(row)) for row in rows):
        return []
    columns = [column for column in USAGE_COLUMNS if column.title.startswith("money") and _kind(record) in column.shown]
    return [_column_words(column.title, column, rows) for column in columns]


def energy_words(record: Record) -> list[str]:
    """Return the energy of a lap on each lane, or why it is not known."""
    rows = _rows(record)
    columns = [column for column in USAGE_COLUMNS if column.of == "energy"]
    return [_column_words("energy a lap", columns[0], rows)] if rows else []


def _column_words(title: str, column: UsageColumn, rows: Sequence[UsageRow]) -> str:
    """Return the figures of a column in a sentence."""
    figures = [(row.name, column.figure(row)) for row in rows]
    known = [f"{name} {figure}" for name, figure in figures if not isinstance(figure, Missing)]
    missing = {figure.missing for _, figure in figures if isinstance(figure, Missing)}
    return f"{title[0].upper()}{title[1:]}: {', '.join(known) if known else '; '.join(sorted(missing))}."


def _prices(row: UsageRow) -> LanePrices:
    """Return what a lane costs. The price of a type of nodes has a column of its own."""
    ask = row.record.ask
    return ask.prices_of(row.lane.device) if ask.each is None else LanePrices(ask.rate_per_hour, ask.price_per_kwh)


def _is_priced(prices: LanePrices) -> bool:
    return prices.per_hour is not None or prices.per_kwh is not None


def _kind(record: Record) -> str:
    """Return the kind of page: energy and money are per lap, per lap and training, or per 1,000 answers."""
    if isinstance(record.answer, InferAnswer):
        return OF_ANSWERS
    return OF_TRAININGS if isinstance(record.answer, TrainingAnswer) else OF_LAPS


def _rows(record: Record) -> list[UsageRow]:
    """Return a row for each lane that was watched and, where the time itself has a price, for each that finished."""
    if isinstance(record.answer, InferAnswer):
        return _answers(record)
    rows = [UsageRow(lane, lane.usage or USAGE_NOT_WATCHED, record) for lane in record.lanes]
    return [
        row
        for row in rows
        if row.lane.usage is not None or (_prices(row).per_hour is not None and row.lane.lap_s is not None)
    ]


def _answers(record: Record) -> list[UsageRow]:
    """Return rows for each lane's single calls, and for its batch size with the most answers, each with its memory."""
    lanes = {lane.name: lane for lane in record.lanes}
    rows: list[UsageRow] = []
    for answers in inference_of(record).lanes:
        if answers.lane not in lanes:
            continue
        lane = replace(lanes[answers.lane], peak_memory_bytes=NO_FIGURE, device_memory_bytes=NO_FIGURE, lap_s=None)
        rates = {batch.batch: batch.items_per_s for batch in answers.batches if batch.items_per_s is not None}
        fastest = max(rates, key=lambda batch: rates[batch].median, default=None)
        unwatched = (
            [AnswerUsage(batch, USAGE_NOT_WATCHED) for batch in (None, fastest)] if record.ask.rate_per_hour else []
        )
        for usage in answers.usages or unwatched:
            if usage.batch is None:
                part = replace(lane, name=f"{short_name(lane.name)}, single calls")
            elif usage.batch == fastest:
                name = f"{short_name(lane.name)}, batch {usage.batch}"
                part = replace(lane, name=name, items_per_s=rates[usage.batch])
            else:
                continue
            rows.append(UsageRow(part, usage.usage, record))
    return rows


def _reasons(columns: Sequence[UsageColumn], rows: Sequence[UsageRow]) -> list[str]:
    """Return why columns are empty in all rows, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        figures = [column.figure(row) for row in rows]
        missing = [figure for figure in figures if isinstance(figure, Missing)]
        if column.of and len(missing) == len(figures) and missing[0] != NO_FIGURE:
            what = by_reason.setdefault(missing[0].missing, [])
            if column.of not in what:
                what.append(column.of)
    return [f"- ({', '.join(what)}: {reason})" for reason, what in by_reason.items()]


def _in_words(value: float | Missing, words: Callable[[float], str]) -> str | Missing:
    return value if isinstance(value, Missing) else words(value)


def _watt_hours(value: float) -> str:
    return f"{number(value)} Wh"


def _watts(value: float) -> str:
    return f"{number(value)} W"


def joules(value: float) -> str:
    fitting = [row for row in JOULE_UNITS if value >= row[0]] or JOULE_UNITS[-1:]
    unit, word = fitting[0]
    return f"{number(value / unit)} {word}"


def _memory(row: UsageRow) -> str | Missing:
    """Return the larger of two peaks: the process's own also covers moments between readings, the readings' covers all
    processes.

    In records until 2026-11-22 a lane's peak is the process's own only.
    """
    both = (row.lane.peak_memory_bytes, row.usage.memory_most_bytes)
    known = [peak for peak in both if not isinstance(peak, Missing)]
    return size(max(known)) if known else _in_words(row.usage.memory_most_bytes, size)


def _card_memory(row: UsageRow) -> str | Missing:
    """Return the most that the framework's allocator held, and the most that the driver saw in use on the card."""
    own = row.lane.device_memory_bytes
    most = row.usage.device_memory_most_bytes
    if row.lane.device.kind == "cpu":
        return NO_FIGURE
    if isinstance(own, Missing):
        return _in_words(most, size)
    return size(own) if isinstance(most, Missing) else f"{size(own)} of {size(most)} used"


def _temperature(row: UsageRow) -> str | Missing:
    most = row.usage.temperature_most_c
    slope = row.usage.temperature_slope_c_per_min
    if isinstance(most, Missing):
        return most
    return DEGREES(most) + ("" if isinstance(slope, Missing) else f" {slope:+.1f}/min")


def _power(row: UsageRow) -> str | Missing:
    mean = _in_words(row.usage.energy.power_w, _watts)
    most = _in_words(row.usage.power_most_w, _watts)
    if isinstance(mean, Missing):
        return mean if isinstance(most, Missing) else f"at most {most}"
    return mean if isinstance(most, Missing) else f"{mean}, at most {most}"


def _energy(value: float | Missing, how: str | Missing) -> str | Missing:
    return _in_words(value, lambda used: f"{joules(used)} {how if isinstance(how, str) else ''}".rstrip())


def _money(row: UsageRow) -> str | Missing:
    lap = row.lane.lap_s
    seconds = Missing("how long a lap is was not told") if lap is None else lap.median
    return _cost(row, row.usage.energy.wh_per_lap, seconds)


def _whole_money(row: UsageRow) -> str | Missing:
    """Return the cost of a whole training of median length. The machine is paid from the start of the process on."""
    full = training_of(row.record)
    mine = [run for run in full.runs if run.process.lane == row.lane.name]
    taken = sorted(run.whole_s for run in mine if run.process.status == "ok")
    seconds = taken[len(taken) // 2] if taken else Missing("no training was whole")
    return _cost(row, row.usage.energy.wh_whole, seconds)


def _thousand_money(row: UsageRow) -> str | Missing:
    used = row.usage.energy.j_per_1000_items
    pace = row.lane.items_per_s
    seconds = Missing("how many answers there are a second was not told") if pace is None else over(1000, pace.median)
    return _cost(row, used if isinstance(used, Missing) else used / HOUR_S, seconds)


def _cost(row: UsageRow, used_wh: float | Missing, seconds: float | Missing) -> str | Missing:
    """Return the cost of electricity, plus that of the time at the hourly rate."""
    prices = _prices(row)
    price = prices.per_kwh
    if not _is_priced(prices):
        return NO_FIGURE
    if isinstance(seconds, Missing):
        return seconds
    if price is not None and isinstance(used_wh, Missing):
        return used_wh
    electricity = 0.0 if price is None or isinstance(used_wh, Missing) else price * used_wh / 1000
    return number(electricity + (prices.per_hour or 0.0) * seconds / HOUR_S)


OF_LAPS = "laps"
OF_TRAININGS = "trainings"
OF_ANSWERS = "answers"
USAGE_COLUMNS = [
    UsageColumn("cores busy", lambda row: _in_words(row.usage.processor_percent, PERCENT), "processor"),
    UsageColumn("others", lambda row: _in_words(row.usage.others_percent, PERCENT)),
    UsageColumn("memory", _memory, "memory"),
    UsageColumn("card busy", lambda row: _in_words(row.usage.device_percent, PERCENT)),
    UsageColumn("of its units", lambda row: _in_words(row.usage.active_percent, PERCENT)),
    UsageColumn("card memory", _card_memory),
    UsageColumn("hottest", _temperature, "temperature"),
    UsageColumn("power", _power, "power"),
    UsageColumn(
        "a lap",
        lambda row: _energy(row.usage.energy.j_per_lap, row.usage.energy.how),
        "energy",
        (OF_LAPS, OF_TRAININGS),
    ),
    UsageColumn(
        "whole training",
        lambda row: _energy(row.usage.energy.j_whole, row.usage.energy.how),
        "energy of the whole",
        (OF_TRAININGS,),
    ),
    UsageColumn("or", lambda row: _in_words(row.usage.energy.wh_per_lap, _watt_hours), shown=(OF_LAPS,)),
    UsageColumn("or", lambda row: _in_words(row.usage.energy.wh_whole, _watt_hours), shown=(OF_TRAININGS,)),
    UsageColumn(
        "1,000 items", lambda row: _in_words(row.usage.energy.j_per_1000_items, joules), shown=(OF_LAPS, OF_TRAININGS)
    ),
    UsageColumn("items/J", lambda row: _in_words(row.usage.energy.items_per_j, number), shown=(OF_LAPS,)),
    UsageColumn("money a lap", _money, "money", (OF_LAPS, OF_TRAININGS)),
    UsageColumn("money for it", _whole_money, "money for the whole", (OF_TRAININGS,)),
    UsageColumn(
        "1,000 answers", lambda row: _in_words(row.usage.energy.j_per_1000_items, joules), "energy", (OF_ANSWERS,)
    ),
    UsageColumn("answers/J", lambda row: _in_words(row.usage.energy.items_per_j, number), shown=(OF_ANSWERS,)),
    UsageColumn("money for 1,000", _thousand_money, "money", (OF_ANSWERS,)),
]


# The page of a race of several trainings: which two to compare, their names, and whether their work is the same.


def most_telling(compared: Sequence[Comparison]) -> Comparison:
    """Return the lane that is fastest against the first. Where trainings race, it is another training's, if any is.

    One that does the same work comes first, then one on the first lane's own device and settings.
    """

    def order(found: Comparison) -> tuple[bool, bool, bool, float]:
        place, training = _split(found.lane)
        other_place, other = _split(found.reference)
        is_other = training != other
        return is_other, is_other and found.same_work is True, is_other and place == other_place, found.ratio

    return max(compared, key=order)


def _split(lane: str) -> tuple[str, str]:
    """Return the device and settings of a lane, and its training where a race has several."""
    place, _, training = lane.partition(OF_TRAINING)
    return place, training


def is_other_work(found: Comparison, record: Record) -> bool:
    """Whether a comparison is of two trainings that are known to do other work."""
    differ = {other.subject.name for other in record.others if isinstance(other.differs, str)}
    trainings = {_split(found.lane)[1], _split(found.reference)[1]}
    return len(trainings) > 1 and bool(trainings & differ)


def names_of_trainings(faster: str, slower: str) -> tuple[str, str] | None:
    """Return the names of two trainings on one lane for a sentence, the lane once; None if the lanes differ, too."""
    place, of, training = faster.partition(OF_TRAINING)
    other_place, _, other = slower.partition(OF_TRAINING)
    return (f"{training} on {short_name(place)}", other) if of and place == other_place else None


def row_name(lane: str, record: Record) -> str:
    """Return a lane's name for its row: the training alone, where all lanes are on one place that is said elsewhere."""
    places = {_split(other.name)[0] for other in record.lanes}
    place, training = _split(lane)
    return training if training and places == {place} else short_name(lane)


def trainings_compared(record: Record) -> str:
    """Return, for each training after the first, whether it does the same work as the first."""
    first = record.workload.name
    sentences = []
    for other in record.others:
        name = other.subject.name
        if other.differs is None:
            sentences.append(f"{name} does the same work as {first}.")
        elif isinstance(other.differs, Missing):
            why = other.differs.missing
            sentences.append(f"Whether {name} does the same work as {first} is not known: {why}.")
        else:
            sentences.append(f"{name} does other work than {first}: {other.differs}.")
    return " ".join(sentences)
