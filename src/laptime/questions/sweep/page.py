"""The page of a sweep: a row for each value, with the rate of each lane, and where one overtakes another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laptime.model.figure import Axis, Band, Curve, Figure, Glance, GlanceFact, Plane, folded
from laptime.model.quantities import Bounded, Missing, brief, number, size, step, taken
from laptime.model.record import Record
from laptime.questions.sweep.nouns import WIDTH_AXIS, Sweep, SweepAnswer, SweepCell, SweepCurve
from laptime.questions.sweep.reduce import bounded_words, is_of_one_round
from laptime.show.figures import fact_figures, proof_figures
from laptime.show.pages import footnotes
from laptime.show.pages.layout import Cell, Column, lay_out_table, table_or_sentences, wrap
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import NARROWEST, PageParts, QuestionPage, Said, View, bar, header, quiet
from laptime.show.pages.summaries import summary_of_race
from laptime.show.pages.words import place_words, short_name, spread

RATE_BAR = 16
ONE_HEAT_EACH = "Each is of one heat, which shows no interval."
SweepRow = tuple[str, list[SweepCell | None]]
"""A value of the first axis, and the cell of each lane there."""


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    sweep = sweep_of(record)
    view = replace(view, width=max(view.width, NARROWEST))
    lines: list[str] = []
    for along in _alongs(sweep):
        lines += [] if along is None else [f"{sweep.axes[-1].name} {along}"]
        found = {(cell.of, cell.at): cell for cell in sweep.cells}
        rest = () if along is None else (along,)
        rows = [
            (value, [found.get((lane, (value, *rest))) for lane in lanes_of(sweep)]) for value in sweep.axes[0].values
        ]
        drawn = lay_out_table(
            _columns(sweep, record, view.inner, has_bars=True), rows, view.inner.width, color=view.inner.color
        )
        plain = _columns(sweep, record, view.inner, has_bars=False)
        lines += drawn or table_or_sentences(plain, rows, view.inner.width, color=view.inner.color)
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {sweep.says}")],
        figures=lines,
        notes=[*(note for curve in sweep.curves for note in _notes(curve, sweep)), *footnotes.doubts(record)],
        done=" ".join(filter(None, [f"{_raced(sweep)} cells have a result.", footnotes.closing(record)])),
        then=[],
        details=_details(record, sweep, view),
        glance=glance_of(record, sweep),
        drawn=[_curve_name(of, along, sweep) for of in lanes_of(sweep) for along in _alongs(sweep)],
    )


def sweep_of(record: Record) -> Sweep:
    """Return what was concluded: without that, a record is shown as a race."""
    assert isinstance(record.answer, SweepAnswer)
    assert record.answer.sweep is not None
    return record.answer.sweep


def lanes_of(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(cell.of for cell in sweep.cells))


def _alongs(sweep: Sweep) -> tuple[str | None, ...]:
    return sweep.axes[1].values if len(sweep.axes) > 1 else (None,)


def _columns(sweep: Sweep, record: Record, view: View, *, has_bars: bool) -> list[Column[SweepRow]]:
    lanes = lanes_of(sweep)
    most = max((cell.items_per_s for cell in sweep.cells if cell.items_per_s), default=1.0)

    def rate_bar(cell: SweepCell | None) -> str:
        return bar(None if cell is None else cell.items_per_s, most, RATE_BAR, blocks=view.blocks)

    columns: list[Column[SweepRow]] = [Column(sweep.axes[0].name, lambda row: row[0], right=True)]
    for place, lane in enumerate(lanes):
        name = short_name(lane)
        rate = f"{record.workload.items}/s"
        if has_bars:
            columns.append(Column(name, _of(place, rate_bar)))
        columns.append(Column(rate if has_bars else f"{name} {rate}", _of(place, _rate), right=True, least=8))
        if len(lanes) == 1:
            columns.append(Column("step", _of(place, _step), right=True))
            columns.append(Column("memory", _of(place, _memory), right=True))
    return columns


def _of(place: int, show: Callable[[SweepCell | None], Cell | str]) -> Callable[[SweepRow], Cell | str]:
    """Return what shows the cell of one lane in a row."""
    return lambda row: show(row[1][place])


def _rate(cell: SweepCell | None) -> Cell:
    if cell is None or cell.items_per_s is None:
        if cell is None:
            why_no_rate = "-"
        else:
            why = (("no memory", cell.out_of_memory), ("too large", cell.too_large), ("too slow", cell.too_long))
            why_no_rate = next((words for words, holds in why if holds), "-")
        return Cell(why_no_rate, "bad")
    return Cell(number(cell.items_per_s))


def _step(cell: SweepCell | None) -> str:
    return "-" if cell is None or cell.step_ms is None else step(cell.step_ms)


def _memory(cell: SweepCell | None) -> str:
    return "-" if cell is None else _size(cell.memory_bytes)


def _size(count_bytes: int | Missing | None) -> str:
    return "-" if count_bytes is None or isinstance(count_bytes, Missing) else size(count_bytes)


def _notes(curve: SweepCurve, sweep: Sweep) -> list[str]:
    """Return the knee, what an empty step takes, and the largest batch that fits."""
    axis = sweep.axes[0].name
    name = short_name(curve.of)
    along = "" if curve.along is None else f" with {sweep.axes[-1].name} {curve.along}"
    notes = []
    if curve.knee is not None:
        notes.append(f"{name}{along} has 90 % of its highest rate from {axis} {curve.knee} on.")
    if curve.empty_ms is not None and (empty := _empty(curve.empty_ms)):
        notes.append(f"A step of {name}{along} with nothing in it would take {empty}.")
    if curve.largest is not None:
        notes.append(f"The largest batch of {name}{along} that fits into memory is {curve.largest} (within 5 %).")
    return [*notes, *_left_out(curve, sweep, f"{name}{along}")]


def _left_out(curve: SweepCurve, sweep: Sweep, name: str) -> list[str]:
    """Return what of a lane was not run because it surely does not fit, and by which estimate."""
    rest = () if curve.along is None else (curve.along,)
    mine = [cell for cell in sweep.cells if cell.of == curve.of and cell.at[1:] == rest]
    large = [cell for cell in mine if cell.too_large]
    long = [cell for cell in mine if cell.too_long]
    notes = []
    for cells in filter(None, (long, large)):
        from_on = " and above" if len(cells) > 1 else ""
        notes.append(f"{name} was left out at {sweep.axes[0].name} {cells[0].at[0]}{from_on}: {cells[0].reason}.")
    why_not_found = curve.absent.get("largest")
    return (
        [" ".join([*notes, f"For {name}, {why_not_found.missing}."])] if large and why_not_found is not None else notes
    )


def _empty(empty: Bounded) -> str:
    """Return the figure with its interval, or nothing where one round alone gives none."""
    if empty.ends is None or empty.value <= 0:
        return ""
    low, high = empty.ends
    return f"{taken(empty.value)} ({brief(max(0.0, low))}-{brief(high)} ms)"


def _raced(sweep: Sweep) -> str:
    return f"{sum(cell.items_per_s is not None for cell in sweep.cells)} of {len(sweep.cells)}"


def _details(record: Record, sweep: Sweep, view: View) -> list[list[str]]:
    """Return every cell, and why some have no result."""
    width = view.width
    color = view.color
    columns: list[Column[SweepCell]] = [
        Column("lane", lambda cell: short_name(cell.of), least=12),
        Column(", ".join(axis.name for axis in sweep.axes), lambda cell: ", ".join(cell.at), right=True),
        Column("step", _step, right=True),
        Column(f"{record.workload.items}/s", _rate, right=True),
        Column("memory", _memory, right=True),
    ]
    if any(axis.name == WIDTH_AXIS for axis in sweep.axes):
        columns.insert(
            2, Column("parameters", lambda cell: "-" if cell.parameters is None else f"{cell.parameters:,}", right=True)
        )
    if any(isinstance(cell.estimated_memory_bytes, int) for cell in sweep.cells):
        columns.append(Column("estimated before", lambda cell: _size(cell.estimated_memory_bytes), right=True))
    reasons = dict.fromkeys(
        f"{short_name(cell.of)}, {', '.join(cell.at)}: {cell.reason}" for cell in sweep.cells if cell.reason
    )
    return [
        header(record, width, color=color),
        table_or_sentences(columns, sweep.cells, width, color=color),
        *(wrap(f"- {reason}", width, "    ") for reason in reasons),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
    ]


# The figures of a sweep: the factor between lanes, and the rate and step of each over the first axis.


def figures(record: Record) -> list[Figure]:
    """Return all figures of a sweep."""
    sweep = sweep_of(record)
    return [
        *_curves(sweep, record, "rate"),
        *_factor_figures(sweep),
        *_curves(sweep, record, "step"),
        *folded(*proof_figures(record), *fact_figures(record)),
    ]


def _across(sweep: Sweep) -> Axis:
    """Return the first axis, in powers of two where its values are counts."""
    values = [float(value) for value in sweep.axes[0].values]
    return Axis(
        sweep.axes[0].name, is_log=min(values) > 0, is_whole=all(value >= 1 and value == int(value) for value in values)
    )


def _curve_name(lane: str, along: str | None, sweep: Sweep) -> str:
    return short_name(lane) if along is None else f"{short_name(lane)}, {sweep.axes[-1].name} {along}"


def _curves(sweep: Sweep, record: Record, what: str) -> list[Figure]:
    """Return the rate or the step of each lane over the first axis, each with the interval of its lane."""
    lanes = {lane.name: lane for lane in record.lanes}
    curves = []
    for of in lanes_of(sweep):
        for along in _alongs(sweep):
            cells = [
                sweep_cell
                for sweep_cell in sweep.cells
                if sweep_cell.of == of and (along is None or sweep_cell.at[1] == along)
            ]
            points = []
            ends = []
            for cell in cells:
                lane = lanes.get(cell.lane or "")
                value = cell.items_per_s if what == "rate" else cell.step_ms
                estimate = None if lane is None else lane.items_per_s if what == "rate" else lane.step_ms
                if value is not None:
                    points.append((float(cell.at[0]), value))
                    ends.append(None if estimate is None or estimate.median != value else estimate.ends)
            name = _curve_name(of, along, sweep)
            curves += [Curve(name, tuple(points), "marked", ends=tuple(ends))] if points else []
    up = Axis(f"{record.workload.items} a second" if what == "rate" else "ms a step", is_log=True)
    title = f"{'Rate' if what == 'rate' else 'Step'} over {sweep.axes[0].name}"
    has_ends = any(end for curve in curves for end in curve.ends)
    says = "A dot is a value that was raced" + (
        "; the upright line through it is its 95 % interval." if has_ends else f". {ONE_HEAT_EACH}"
    )
    return [Figure(title, Plane(_across(sweep), up, tuple(curves)), says)] if curves else []


def _factor_figures(sweep: Sweep) -> list[Figure]:
    """Return how many times as fast a lane is as another over the first axis, and where it overtakes."""
    found = []
    axis = sweep.axes[0].name
    for lane, against in dict.fromkeys((factor.lane, factor.against) for factor in sweep.factors):
        curves = []
        for along in _alongs(sweep):
            mine = [
                factor
                for factor in sweep.factors
                if (factor.lane, factor.against, factor.along) == (lane, against, along)
            ]
            mine = [factor for factor in mine if factor.ratio > 0]
            points = tuple((float(factor.at), factor.ratio) for factor in mine)
            name = _curve_name(lane, along, sweep)
            curves += [Curve(name, points, "banded", ends=tuple(factor.ends for factor in mine))] if points else []
        crossed = [
            crossover for crossover in sweep.crossovers if {crossover.lane, crossover.against} == {lane, against}
        ]
        bands = tuple(
            Band(
                *(crossover.at.ends or (crossover.at.value, crossover.at.value)),
                "crossover",
                f"{axis} {bounded_words(crossover.at)}",
            )
            for crossover in crossed
        )
        sentences = [
            f"{short_name(crossover.lane)} {'may overtake' if is_of_one_round(crossover.at) else 'overtakes'} "
            f"{short_name(crossover.against)} at {axis} {bounded_words(crossover.at)}"
            + (f" with {sweep.axes[-1].name} {crossover.along}." if crossover.along is not None else ".")
            for crossover in crossed
        ]
        has_ends = any(ends for curve in curves for ends in curve.ends)
        band = "The band is the 95 % interval." if has_ends else ONE_HEAT_EACH
        says = " ".join([*sentences, f"Above the line at 1, {short_name(lane)} is faster.", band])
        up = Axis("times as fast", is_log=True)
        title = f"How many times as fast is {short_name(lane)} as {short_name(against)}?"
        found += [Figure(title, Plane(_across(sweep), up, tuple(curves), bands, at=1.0), says)] if curves else []
    return found


def glance_of(record: Record, sweep: Sweep) -> Glance | None:
    """Return where the first lane that overtakes another does, else the highest rate."""
    best = max(sweep.curves, key=lambda curve: curve.best_items_per_s, default=None)
    if best is None:
        return None
    axis = sweep.axes[0].name
    items = record.workload.items
    along = "" if best.along is None else f", {sweep.axes[-1].name} {best.along}"
    fact = GlanceFact(
        f"{number(best.best_items_per_s)} {items}/s", f"{short_name(best.of)} at {axis} {best.best_at}{along}"
    )
    raced = GlanceFact(_raced(sweep), "cells have a result")
    if sweep.crossovers:
        at = sweep.crossovers[0].at
        ends = "no interval" if at.ends is None else f"{'-'.join(brief(end) for end in at.ends)} at 95 %"
        return Glance(brief(at.value), f"{axis}, {ends}", sweep.says, (fact, raced))
    same = (
        sweep_cell
        for sweep_cell in sweep.cells
        if sweep_cell.of == best.of and sweep_cell.items_per_s == best.best_items_per_s
    )
    cell = next(same, None)
    lane = next(
        (lane_result for lane_result in record.lanes if cell is not None and lane_result.name == cell.lane), None
    )
    ends = "" if lane is None or lane.items_per_s is None else spread(lane.items_per_s)
    ends = f"{items} a second, {ends} at 95 %" if ends else f"{items} a second"
    return Glance(number(best.best_items_per_s), ends, sweep.says, (raced,))


def summary(record: Record) -> list[str]:
    """Return the result in a few words, for a list."""
    answer = record.answer
    if not isinstance(answer, SweepAnswer) or answer.sweep is None:
        return summary_of_race(record)
    return [f"{len(answer.sweep.cells)} cells", answer.sweep.says.partition(". ")[0].removesuffix(".")]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
