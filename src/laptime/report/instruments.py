"""What each lane took of the machine: a table below the race's own, and once the reasons for what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.usage import Usage
from laptime.report.figures import number, size
from laptime.report.layout import Cell, Column, Row, flow, lay_out, wrap
from laptime.report.phrases import short_name

Figure = Callable[[LaneResult, Usage, Record], "str | Missing"]
NONE = Missing("")
JOULE_UNITS = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    of: str
    figure: Figure


def instruments(record: Record, width: int, *, color: bool) -> list[str]:
    """Give the table, with the columns in which any lane has a figure."""
    lanes = [(lane, lane.usage) for lane in record.lanes if lane.usage is not None]
    if not lanes:
        return []
    columns = [each for each in COLUMNS if any(_is_told(each.figure(lane, usage, record)) for lane, usage in lanes)]
    shown = [[_cell(each.figure(lane, usage, record)) for each in columns] for lane, usage in lanes]
    if not columns:
        return []
    reasons = [line for sentence in _reasons(record, lanes) for line in wrap(sentence, width, "  ")]
    rows = [
        Row((Cell(short_name(lane.name)), *map(Cell, cells))) for (lane, _), cells in zip(lanes, shown, strict=True)
    ]
    heads = [Column("while timed", least=14), *(Column(each.title) for each in columns)]
    table = lay_out(heads, rows, width, color=color)
    return [*(table or _as_sentences(columns, lanes, shown, width)), *reasons]


def _as_sentences(
    columns: Sequence[_Column],
    lanes: Sequence[tuple[LaneResult, Usage]],
    shown: Sequence[Sequence[str]],
    width: int,
) -> list[str]:
    lines: list[str] = []
    for (lane, _), cells in zip(lanes, shown, strict=True):
        parts = [f"{each.title} {cell}" for each, cell in zip(columns, cells, strict=True) if cell != "-"]
        lines += flow(parts, width, f"{short_name(lane.name)} while timed: ")
    return lines


def _reasons(record: Record, lanes: Sequence[tuple[LaneResult, Usage]]) -> list[str]:
    """Say once why a column is empty everywhere that one would look for."""
    told: dict[str, list[str]] = {}
    for each in COLUMNS:
        figures = [each.figure(lane, usage, record) for lane, usage in lanes]
        missing = [figure for figure in figures if isinstance(figure, Missing)]
        if each.of and len(missing) == len(figures) and missing[0] != NONE:
            what = told.setdefault(missing[0].missing, [])
            what += [each.of] if each.of not in what else []
    return [f"- ({', '.join(what)}: {reason})" for reason, what in told.items()]


def _cell(figure: str | Missing) -> str:
    return "-" if isinstance(figure, Missing) else figure


def _is_told(figure: str | Missing) -> bool:
    return not isinstance(figure, Missing)


def _percent(value: float | Missing) -> str | Missing:
    return value if isinstance(value, Missing) else f"{value:.0f} %"


def _size(value: float | Missing) -> str | Missing:
    return value if isinstance(value, Missing) else size(value)


def _watts(value: float | Missing) -> str | Missing:
    return value if isinstance(value, Missing) else f"{number(value)} W"


def _memory(lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    """The process's own high-water mark where it told one; it has seen what fell between two readings."""
    peak = lane.peak_memory_bytes
    return _size(usage.memory_most_bytes if isinstance(peak, Missing) else float(peak))


def _card_memory(lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    """What the framework's allocator held at most, and what the driver saw in use on the card."""
    own, seen = lane.device_memory_bytes, usage.device_memory_most_bytes
    if lane.device.kind == "cpu":
        return NONE
    if isinstance(own, Missing):
        return _size(seen)
    return size(own) if isinstance(seen, Missing) else f"{size(own)} of {size(seen)} used"


def _temperature(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    most, slope = usage.temperature_most_c, usage.temperature_slope_c_per_min
    if isinstance(most, Missing):
        return most
    return f"{most:.0f} \N{DEGREE SIGN}C" + ("" if isinstance(slope, Missing) else f" {slope:+.1f}/min")


def _power(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    mean, most = _watts(usage.energy.power_w), _watts(usage.power_most_w)
    if isinstance(mean, Missing):
        return mean if isinstance(most, Missing) else f"at most {most}"
    return mean if isinstance(most, Missing) else f"{mean}, at most {most}"


def _lap_energy(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    lap, how = usage.energy.j_per_lap, usage.energy.how
    return lap if isinstance(lap, Missing) else f"{joules(lap)} {how if isinstance(how, str) else ''}".rstrip()


def _thousand(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    told = usage.energy.j_per_1000_items
    return told if isinstance(told, Missing) else joules(told)


def _items(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    told = usage.energy.items_per_j
    return told if isinstance(told, Missing) else number(told)


def _watt_hours(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    told = usage.energy.wh_per_lap
    return told if isinstance(told, Missing) else f"{number(told)} Wh"


def _money(lane: LaneResult, usage: Usage, record: Record) -> str | Missing:
    """Electricity of the device at a price a kWh, and the time of the device at a rate an hour."""
    price, rate = record.ask.price_per_kwh, record.ask.rate_per_hour
    if price is None and rate is None:
        return NONE
    if lane.lap_s is None:
        return Missing("how long a lap is was not told")
    money = 0.0
    if price is not None:
        used_wh = usage.energy.wh_per_lap
        if isinstance(used_wh, Missing):
            return used_wh
        money += price * used_wh / 1000
    return number(money + (rate or 0.0) * lane.lap_s.median / 3600)


def joules(value: float) -> str:
    unit, word = next((each for each in JOULE_UNITS if value >= each[0]), JOULE_UNITS[-1])
    return f"{number(value / unit)} {word}"


COLUMNS = (
    _Column("cores busy", "processor", lambda _lane, usage, _record: _percent(usage.processor_percent)),
    _Column("others", "", lambda _lane, usage, _record: _percent(usage.others_percent)),
    _Column("memory", "memory", _memory),
    _Column("card busy", "", lambda _lane, usage, _record: _percent(usage.device_percent)),
    _Column("of its units", "", lambda _lane, usage, _record: _percent(usage.active_percent)),
    _Column("card memory", "", _card_memory),
    _Column("hottest", "temperature", _temperature),
    _Column("power", "power", _power),
    _Column("a lap", "energy", _lap_energy),
    _Column("or", "", _watt_hours),
    _Column("1,000 items", "", _thousand),
    _Column("items/J", "", _items),
    _Column("money a lap", "money", _money),
)
