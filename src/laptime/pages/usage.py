"""The table of what each lane used: processor and card, memory, temperature, power, energy, money."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from laptime.model.answers import InferAnswer, TrainingAnswer, inference_of, training_of
from laptime.model.missing import Missing
from laptime.model.quantities import HOUR_S, number, size
from laptime.model.record import LaneResult, Record
from laptime.model.sample import AnswerUsage, CardUsage, Energy, Usage
from laptime.pages.layout import Column, flow, lay_out, table_or_sentences, wrap_all
from laptime.pages.words import over, short_name
from laptime.questions.tune.options import LanePrices

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
    columns = [each for each in USAGE_COLUMNS if _kind(record) in each.shown]
    known = [each for each in columns if any(not isinstance(each.figure(row), Missing) for row in rows)]
    if not known:
        return []
    shown = [Column(each.title, each.cell) for each in known]
    table = lay_out([Column("while timed", lambda row: row.name, least=14), *shown], rows, width, color=color)
    told = [*(table or _as_sentences(known, rows, width)), *wrap_all(_reasons(columns, rows), width)]
    return [*told, *_card_lines(rows, width, color=color)]


def _card_lines(rows: Sequence[UsageRow], width: int, *, color: bool) -> list[str]:
    """Return a row for each card of the lanes that compute on several."""
    cards = [(row, card) for row in rows for card in row.usage.cards]
    columns: list[Column[tuple[UsageRow, CardUsage]]] = [
        Column("each card", lambda each: f"{each[0].name}: {each[1].device}", least=14),
        Column("busy", lambda each: _or_dash(each[1].busy_percent, PERCENT)),
        Column("memory", lambda each: _or_dash(each[1].memory_most_bytes, size)),
        Column("hottest", lambda each: _or_dash(each[1].temperature_most_c, DEGREES)),
        Column("power", lambda each: _or_dash(each[1].power_w, lambda watts: f"{number(watts)} W")),
    ]
    return table_or_sentences(columns, cards, width, color=color) if cards else []


def _or_dash(value: float | Missing, words: Callable[[float], str]) -> str:
    return "-" if isinstance(value, Missing) else words(value)


def money_words(record: Record) -> list[str]:
    """Return what a lap, a training or 1,000 answers cost on each lane, where a price was given."""
    rows = _rows(record)
    if not any(_is_priced(_prices(row)) for row in rows):
        return []
    columns = [each for each in USAGE_COLUMNS if each.title.startswith("money") and _kind(record) in each.shown]
    return [_column_words(each.title, each, rows) for each in columns]


def energy_words(record: Record) -> list[str]:
    """Return the energy of a lap on each lane, or why it is not known."""
    rows, column = _rows(record), next(each for each in USAGE_COLUMNS if each.of == "energy")
    return [_column_words("energy a lap", column, rows)] if rows else []


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
    return _answers(record) if isinstance(record.answer, InferAnswer) else _lanes(record)


def _lanes(record: Record) -> list[UsageRow]:
    """Return a row for each lane that was watched and, where the time itself has a price, for each that finished."""
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
    for answers in (each for each in inference_of(record).lanes if each.lane in lanes):
        lane = replace(lanes[answers.lane], peak_memory_bytes=NO_FIGURE, device_memory_bytes=NO_FIGURE, lap_s=None)
        rates = {each.batch: each.items_per_s for each in answers.batches if each.items_per_s is not None}
        fastest = max(rates, key=lambda batch: rates[batch].median, default=None)
        unwatched = (
            [AnswerUsage(batch, USAGE_NOT_WATCHED) for batch in (None, fastest)] if record.ask.rate_per_hour else []
        )
        for each in answers.usages or unwatched:
            if each.batch is None:
                part = replace(lane, name=f"{short_name(lane.name)}, single calls")
            elif each.batch == fastest:
                name = f"{short_name(lane.name)}, batch {each.batch}"
                part = replace(lane, name=name, items_per_s=rates[each.batch])
            else:
                continue
            rows.append(UsageRow(part, each.usage, record))
    return rows


def _as_sentences(columns: Sequence[UsageColumn], rows: Sequence[UsageRow], width: int) -> list[str]:
    lines: list[str] = []
    for row in rows:
        parts = [f"{each.title} {each.cell(row)}" for each in columns if each.cell(row) != "-"]
        lines += flow(parts, width, f"{row.name} while timed: ")
    return lines


def _reasons(columns: Sequence[UsageColumn], rows: Sequence[UsageRow]) -> list[str]:
    """Return why columns are empty in all rows, each reason once."""
    told: dict[str, list[str]] = {}
    for each in columns:
        figures = [each.figure(row) for row in rows]
        missing = [figure for figure in figures if isinstance(figure, Missing)]
        if each.of and len(missing) == len(figures) and missing[0] != NO_FIGURE:
            what = told.setdefault(missing[0].missing, [])
            what += [each.of] if each.of not in what else []
    return [f"- ({', '.join(what)}: {reason})" for reason, what in told.items()]


def _said(value: float | Missing, words: Callable[[float], str]) -> str | Missing:
    return value if isinstance(value, Missing) else words(value)


def _watt_hours(value: float) -> str:
    return f"{number(value)} Wh"


def joules(value: float) -> str:
    unit, word = next((each for each in JOULE_UNITS if value >= each[0]), JOULE_UNITS[-1])
    return f"{number(value / unit)} {word}"


def _memory(row: UsageRow) -> str | Missing:
    """Return the larger of two peaks: the process's own also covers moments between readings, the readings' covers all
    processes.

    In records until 2026-11-22 a lane's peak is the process's own only.
    """
    both = (row.lane.peak_memory_bytes, row.usage.memory_most_bytes)
    known = [each for each in both if not isinstance(each, Missing)]
    return size(max(known)) if known else _said(row.usage.memory_most_bytes, size)


def _card_memory(row: UsageRow) -> str | Missing:
    """Return the most that the framework's allocator held, and the most that the driver saw in use on the card."""
    own, most = row.lane.device_memory_bytes, row.usage.device_memory_most_bytes
    if row.lane.device.kind == "cpu":
        return NO_FIGURE
    if isinstance(own, Missing):
        return _said(most, size)
    return size(own) if isinstance(most, Missing) else f"{size(own)} of {size(most)} used"


def _temperature(row: UsageRow) -> str | Missing:
    most, slope = row.usage.temperature_most_c, row.usage.temperature_slope_c_per_min
    if isinstance(most, Missing):
        return most
    return DEGREES(most) + ("" if isinstance(slope, Missing) else f" {slope:+.1f}/min")


def _power(row: UsageRow) -> str | Missing:
    mean, most = (_said(each, lambda watts: f"{number(watts)} W")
                  for each in (row.usage.energy.power_w, row.usage.power_most_w))  # fmt: skip
    if isinstance(mean, Missing):
        return mean if isinstance(most, Missing) else f"at most {most}"
    return mean if isinstance(most, Missing) else f"{mean}, at most {most}"


def _energy(value: float | Missing, how: str | Missing) -> str | Missing:
    return _said(value, lambda each: f"{joules(each)} {how if isinstance(how, str) else ''}".rstrip())


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
    used, pace = row.usage.energy.j_per_1000_items, row.lane.items_per_s
    seconds = Missing("how many answers there are a second was not told") if pace is None else over(1000, pace.median)
    return _cost(row, used if isinstance(used, Missing) else used / HOUR_S, seconds)


def _cost(row: UsageRow, used_wh: float | Missing, seconds: float | Missing) -> str | Missing:
    """Return the cost of electricity, plus that of the time at the hourly rate."""
    prices = _prices(row)
    price, rate = prices.per_kwh, prices.per_hour
    if not _is_priced(prices):
        return NO_FIGURE
    if isinstance(seconds, Missing):
        return seconds
    if price is not None and isinstance(used_wh, Missing):
        return used_wh
    electricity = 0.0 if price is None or isinstance(used_wh, Missing) else price * used_wh / 1000
    return number(electricity + (rate or 0.0) * seconds / HOUR_S)


OF_LAPS, OF_TRAININGS, OF_ANSWERS = "laps", "trainings", "answers"
USAGE_COLUMNS = [
    UsageColumn("cores busy", lambda row: _said(row.usage.processor_percent, PERCENT), "processor"),
    UsageColumn("others", lambda row: _said(row.usage.others_percent, PERCENT)),
    UsageColumn("memory", _memory, "memory"),
    UsageColumn("card busy", lambda row: _said(row.usage.device_percent, PERCENT)),
    UsageColumn("of its units", lambda row: _said(row.usage.active_percent, PERCENT)),
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
    UsageColumn("or", lambda row: _said(row.usage.energy.wh_per_lap, _watt_hours), shown=(OF_LAPS,)),
    UsageColumn("or", lambda row: _said(row.usage.energy.wh_whole, _watt_hours), shown=(OF_TRAININGS,)),
    UsageColumn(
        "1,000 items", lambda row: _said(row.usage.energy.j_per_1000_items, joules), shown=(OF_LAPS, OF_TRAININGS)
    ),
    UsageColumn("items/J", lambda row: _said(row.usage.energy.items_per_j, number), shown=(OF_LAPS,)),
    UsageColumn("money a lap", _money, "money", (OF_LAPS, OF_TRAININGS)),
    UsageColumn("money for it", _whole_money, "money for the whole", (OF_TRAININGS,)),
    UsageColumn("1,000 answers", lambda row: _said(row.usage.energy.j_per_1000_items, joules), "energy", (OF_ANSWERS,)),
    UsageColumn("answers/J", lambda row: _said(row.usage.energy.items_per_j, number), shown=(OF_ANSWERS,)),
    UsageColumn("money for 1,000", _thousand_money, "money", (OF_ANSWERS,)),
]
