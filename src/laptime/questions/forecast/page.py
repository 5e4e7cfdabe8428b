"""The page of a forecast: a row for each device that is not here, with its step, lap, training and cost as ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from laptime.model.hardware import CheckedForecast, DeviceForecast, Fits, HardwareForecast, Range
from laptime.model.quantities import Missing, number, percent, size, step
from laptime.model.record import Record
from laptime.show.pages.layout import FIELD_INDENT, Cell, Column, painted, table_or_sentences, wrap
from laptime.show.pages.page import NARROWEST, View
from laptime.show.pages.words import joined, lap, rough, short_name, short_names

PER_LAP = "lap"
HAS_NO_ROOM: Fits = "does not fit"
DOUBTS: tuple[Fits, ...] = ("may not fit", HAS_NO_ROOM)
HELD = {
    "weights": "weights", "moments": "moments", "gradients": "gradients", "others": "buffers and data",
    "made": "activations and copies",
}  # fmt: skip
REASONS_SHOWN = 3  # devices that are not predicted, each with its reason
BINDS = {
    "products": "products",
    "memory": "memory",
    "launches": "launches",
    "loader": "your loader",
    "processor": "cores",
    "python": "your Python",
}
TIME_UNITS = (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))
RANGES_SENTENCE = "Ranges hold 80 % of measured steps (docs/forecast.md)."


def render_forecast(found: HardwareForecast, view: View, by: str = "time") -> str:
    """Return the page, its rows by time or by money."""
    view = replace(view, width=max(view.width, NARROWEST))
    rows = found.rows if by == "time" else sorted(found.rows, key=_cost)
    whole: list[Column[DeviceForecast]] = []
    if found.laps > 1:
        whole = [Column(f"{found.laps} laps", lambda row: _in_one_unit(row.whole_s), right=True)]
    columns: list[Column[DeviceForecast]] = [
        Column("", lambda row: Cell(_short(row), "bad" if row.fits == HAS_NO_ROOM else ""), least=14),
        Column("step", lambda row: _ends(row.step_ms, step), right=True),
        Column(found.per, lambda row: _ends(row.lap_s, lap), right=True, least=14),
        *whole,
        Column("as fast", lambda row: span(row.factor), right=True),
        Column("binds", lambda row: "no room" if row.fits == HAS_NO_ROOM else BINDS[row.binds]),
    ]
    if not isinstance(found.loader_items_per_s, Missing):
        columns.append(Column("loader", _loading, right=True))
    if any(not isinstance(row.cost, Missing) for row in found.rows):
        columns.append(Column("cost", lambda row: "-" if isinstance(row.cost, Missing) else usd(row.cost), right=True))
    if view.details:
        columns += [
            Column("computes", lambda row: percent(row.busy_share), right=True),
            Column(
                "memory",
                lambda row: "-" if row.memory_bytes is None else _ends(row.memory_bytes, size),
                right=True,
            ),
            Column(
                "at most",
                lambda row: "-" if isinstance(row.energy_wh, Missing) else f"{number(row.energy_wh)} Wh",
                right=True,
            ),
        ]
    table = table_or_sentences(columns, rows, view.inner.width, color=view.color)
    distrust: list[str] = []
    if found.distrust is not None:
        words = f"NOT RELIABLE: {short_names(found.distrust)} Race again while the machine is quiet."
        distrust = painted(words, view.width, "bad", color=view.color)
    return (
        "\n".join(
            [
                *distrust,
                *painted(f"{found.what}: {say(found)}", view.width, "strong", color=view.color),
                "",
                *(FIELD_INDENT + line for line in table),
                "",
                *(line for note in _notes(found, view) for line in wrap(note, view.width, FIELD_INDENT)),
            ]
        )
        + "\n"
    )


def say(found: HardwareForecast) -> str:
    """Return what the cheapest device would bring, or the fastest where no price is known; and what binds."""
    fitting = [row for row in found.rows if row.fits != HAS_NO_ROOM]
    if not fitting:
        return "no device has room for it."
    faster = [forecast for forecast in fitting if forecast.factor.is_above(1)]
    if not faster:
        return f"no device would surely be faster than {short_name(found.lane)} here.{_loaders(found, fitting)}"
    priced = [forecast for forecast in faster if not isinstance(forecast.cost, Missing)]
    best = min(priced, key=_cost) if priced else faster[0]
    cost = "" if isinstance(best.cost, Missing) else f"; {_whole(found)} would cost about {usd(best.cost)}"
    per = "a lap" if found.per == PER_LAP else f"for {found.per}"
    times = f"{rough(best.factor.low)} to {rough(best.factor.high)} times"
    sentence = f"{_short(best)} would take {_ends(best.lap_s, lap, ' to ')} {per}, {times} as fast as"
    return f"{sentence} {short_name(found.lane)} here{cost}.{_loaders(found, faster)}"


def _whole(found: HardwareForecast) -> str:
    """Return what the whole training is called; that of your own is a lap, or some steps."""
    if found.laps > 1:
        return f"{found.laps} laps"
    return "a lap" if found.per == PER_LAP else found.per


def _cost(row: DeviceForecast) -> float:
    """Return what the training costs; without a price, more than with any."""
    return inf if isinstance(row.cost, Missing) else row.cost


def _loaders(found: HardwareForecast, rows: Sequence[DeviceForecast]) -> str:
    """Return which devices would wait for the loader, and how long; or that nobody knows."""
    if not found.loader_is_known:
        return " That holds if the loader keeps up, which was not timed."
    waiting = [row for row in rows if row.binds == "loader"]
    if not waiting:
        return ""
    others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return f" The loader binds {_short(waiting[0])}{others}: {_loading(waiting[0])} a step."


def _loading(row: DeviceForecast) -> str:
    return "-" if isinstance(row.loader_ms, Missing) else step(row.loader_ms)


def _short(row: DeviceForecast) -> str:
    return plain_card(row.device.name)


def _ends(found: Range, show: Callable[[float], str], between: str = "-") -> str:
    """Return both ends of a range; one unit is written once."""
    low = show(found.low)
    high = show(found.high)
    if low.count(" ") == high.count(" ") == 1 and low.split()[1] == high.split()[1]:
        return f"{low.split()[0]}{between}{high}"
    return f"{low}{between}{high}"


def _in_one_unit(found: Range) -> str:
    """Return both ends of a long time, in the largest unit of which there are two."""
    unit, unit_s = next((row for row in TIME_UNITS if found.high >= 2 * row[1]), TIME_UNITS[-1])
    return f"{rough(found.low / unit_s)}-{rough(found.high / unit_s)} {unit}"


def usd(amount: float) -> str:
    return f"{number(amount) if amount >= 0.995 else rough(amount)} USD"


def _notes(found: HardwareForecast, view: View) -> list[str]:
    loader = found.loader_items_per_s
    here = f"{short_name(found.lane)} on {found.machine}, {step(found.measured_ms)} a step ({found.record})"
    one = "s" if found.laps == 1 and found.per == PER_LAP else ""
    cost = "" if isinstance(found.cost_here, Missing) else f" and cost{one} {usd(found.cost_here)}"
    whole = f"{_whole(found)} here take{one} {lap(found.whole_here_s)}{cost}"
    refused = [f"{short}: not predicted, {why}." for short, why in found.refused.items()]
    # What a card needs, and which cards have no room for it, or may not have it
    needed = [row for row in found.rows if row.device.kind != "cpu"]
    ends = [row.memory_bytes for row in needed if row.memory_bytes is not None]
    if not ends:
        memory_note = []
    else:
        least = min(ends, key=lambda end: end.low)
        most = max(ends, key=lambda end: end.high)
        sentence = f"A step takes {_ends(Range(least.middle, least.low, most.high), size)} of a card"
        named = ((fits, joined([_short(row) for row in needed if row.fits == fits])) for fits in DOUBTS)
        memory_note = [f"{sentence}{''.join(f'; it {fits} {names}' for fits, names in named if names)}."]
    notes = [f"Measured here: {here}. {whole[0].upper()}{whole[1:]}.", *memory_note, RANGES_SENTENCE]
    if not view.details:
        if len(refused) > REASONS_SHOWN:
            ((why, often),) = Counter(found.refused.values()).most_common(1)
            refused = [f"{len(refused)} more devices are not predicted, {often} of them since {why}."]
        return [*notes, *refused, "Prices, energy, memory and notes: --details."]
    notes += [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    if found.held is not None:
        counts = sorted(((getattr(found.held, f"{name}_bytes"), word) for name, word in HELD.items()), reverse=True)
        parts = ", ".join(f"{word} {size(count)}" for count, word in counts if count)
        notes.append(f"Tensors at the fullest moment of a step: {parts}.")
    if isinstance(loader, Missing):
        notes.append(f"Loader: {loader.missing}.")
    notes += [f"{_short(row)}: {'; '.join(row.notes)}." for row in found.rows if row.notes]
    return [*notes, *refused]


def _mean_off(rows: Sequence[CheckedForecast]) -> str:
    return percent(sum(abs(row.off) for row in rows) / len(rows))


def render_checked(found: Sequence[CheckedForecast], view: View) -> str:
    """Return predictions next to what was measured, and how far off they are."""
    columns: list[Column[CheckedForecast]] = [
        Column("training", lambda row: row.what),
        Column("device", lambda row: row.device, least=12),
        Column("measured", lambda row: step(row.measured_ms), right=True),
        Column("predicted", lambda row: _ends(row.predicted_ms, step), right=True),
        Column("off", lambda row: Cell(f"{100 * row.off:+.0f} %", "" if row.is_within else "bad"), right=True),
        Column("", lambda row: "" if row.is_within else "not explained by the hardware", least=10),
        Column(
            "source",
            lambda row: (
                row.source if row.share is None else f"{row.source}; by {percent(row.share)} of its peak, as the cards"
            ),
        ),
    ]
    if not found:
        return "Nothing to check: no record and no published result is of a known device.\n"
    within = [forecast for forecast in found if forecast.is_within]
    summary = f"{len(found)} steps, off by {_mean_off(found)} on average; {len(within)} within their 80 % range"
    summary += f", off by {_mean_off(within)}." if 0 < len(within) < len(found) else "."
    table = table_or_sentences(columns, found, view.inner.width, color=view.color)
    return (
        "\n".join(
            [*painted(summary, view.width, "strong", color=view.color), "", *(FIELD_INDENT + line for line in table)]
        )
        + "\n"
    )


# What a card would bring, in a sentence, for the page of a race on a machine that has none.

WHY_HARDLY = {"loader": "the loader would bind it", "python": "its own Python takes too long between operators"}
HARDLY = 1.2  # times as fast: less is no reason to rent a card


def card_sentence(record: Record) -> list[str]:
    """Return whether a card would help, and how much; nothing where that was not predicted."""
    cards = record.cards
    if cards is None or not cards.rows:
        return []
    lane = short_name(cards.lane)
    best = max(cards.rows, key=lambda row: row.factor.middle)
    if best.factor.middle < HARDLY:
        why = WHY_HARDLY.get(best.binds, "the steps are too small")
        return [f"A card would hardly help, since {why}: {plain_card(best.card)} {span(best.factor)} as fast."]
    first, *others = (f"{plain_card(row.card)} {span(row.factor)}" for row in cards.rows)
    bound = [plain_card(row.card) for row in cards.rows if row.binds == "loader"]
    which = "each" if len(bound) == len(cards.rows) else joined(bound)
    loader = f"; the loader would bind {which}" if bound else ""
    unknown = "" if cards.loader_is_known else ", if the loader keeps up"
    words = joined([f"{first} as fast as {lane}", *others])
    return [f"Cards, as predicted: {words}{unknown}{loader} (laptime forecast {record.id})."]


def span(found: Range) -> str:
    return f"{rough(found.low)}-{rough(found.high)}x"


def plain_card(name: str) -> str:
    """Return a device's name without its maker and its family."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")
