"""What a table of instruments shows of each lane, by what was asked: work, memory, heat, power, energy, money."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.usage import Usage
from laptime.report.figures import number, size

Figure = Callable[[LaneResult, Usage, Record], "str | Missing"]
NONE = Missing("")
JOULE_UNITS = ((1e6, "MJ"), (1e3, "kJ"), (1.0, "J"))


@dataclass(frozen=True, slots=True)
class UsageColumn:
    title: str
    of: str
    figure: Figure


def columns_of(record: Record) -> tuple[UsageColumn, ...]:
    """What is asked decides of what energy and money are told: a lap, a training besides, a thousand answers."""
    if record.infer is not None:
        return (*WORK, *OF_ANSWERS)
    return (*WORK, *OF_LAPS) if record.full is None else (*WORK, *OF_TRAININGS)


def joules(value: float) -> str:
    unit, word = next((each for each in JOULE_UNITS if value >= each[0]), JOULE_UNITS[-1])
    return f"{number(value / unit)} {word}"


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


def _whole_energy(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    whole, how = usage.energy.j_whole, usage.energy.how
    return whole if isinstance(whole, Missing) else f"{joules(whole)} {how if isinstance(how, str) else ''}".rstrip()


def _whole_watt_hours(_lane: LaneResult, usage: Usage, _record: Record) -> str | Missing:
    told = usage.energy.wh_whole
    return told if isinstance(told, Missing) else f"{number(told)} Wh"


def _money(lane: LaneResult, usage: Usage, record: Record) -> str | Missing:
    seconds = Missing("how long a lap is was not told") if lane.lap_s is None else lane.lap_s.median
    return _cost(record, usage.energy.wh_per_lap, seconds)


def _whole_money(lane: LaneResult, usage: Usage, record: Record) -> str | Missing:
    """The machine is paid for from the start of the process on, as long as a training takes in the middle."""
    assert record.full is not None
    taken = sorted(run.whole_s for run in record.full.runs if run.lane == lane.name and run.status == "ok")
    seconds = taken[len(taken) // 2] if taken else Missing("no training was whole")
    return _cost(record, usage.energy.wh_whole, seconds)


def _thousand_money(lane: LaneResult, usage: Usage, record: Record) -> str | Missing:
    used, pace = usage.energy.j_per_1000_items, lane.items_per_s
    seconds = Missing("how many answers there are a second was not told") if pace is None else 1000 / pace.median
    return _cost(record, used if isinstance(used, Missing) else used / 3600, seconds)


def _cost(record: Record, used_wh: float | Missing, seconds: float | Missing) -> str | Missing:
    """Electricity of the device at a price a kWh, and the time of the device at a rate an hour."""
    price, rate = record.ask.price_per_kwh, record.ask.rate_per_hour
    if price is None and rate is None:
        return NONE
    if isinstance(seconds, Missing):
        return seconds
    if price is not None and isinstance(used_wh, Missing):
        return used_wh
    electricity = 0.0 if price is None or isinstance(used_wh, Missing) else price * used_wh / 1000
    return number(electricity + (rate or 0.0) * seconds / 3600)


WORK = (
    UsageColumn("cores busy", "processor", lambda _lane, usage, _record: _percent(usage.processor_percent)),
    UsageColumn("others", "", lambda _lane, usage, _record: _percent(usage.others_percent)),
    UsageColumn("memory", "memory", _memory),
    UsageColumn("card busy", "", lambda _lane, usage, _record: _percent(usage.device_percent)),
    UsageColumn("of its units", "", lambda _lane, usage, _record: _percent(usage.active_percent)),
    UsageColumn("card memory", "", _card_memory),
    UsageColumn("hottest", "temperature", _temperature),
    UsageColumn("power", "power", _power),
)
OF_LAPS = (
    UsageColumn("a lap", "energy", _lap_energy),
    UsageColumn("or", "", _watt_hours),
    UsageColumn("1,000 items", "", _thousand),
    UsageColumn("items/J", "", _items),
    UsageColumn("money a lap", "money", _money),
)
OF_TRAININGS = (
    UsageColumn("a lap", "energy", _lap_energy),
    UsageColumn("whole training", "energy of the whole", _whole_energy),
    UsageColumn("or", "", _whole_watt_hours),
    UsageColumn("1,000 items", "", _thousand),
    UsageColumn("money a lap", "money", _money),
    UsageColumn("money for it", "money for the whole", _whole_money),
)
OF_ANSWERS = (
    UsageColumn("1,000 answers", "energy", _thousand),
    UsageColumn("answers/J", "", _items),
    UsageColumn("money for 1,000", "money", _thousand_money),
)
