"""The page of a sweep: a row for each value, with the rate of each lane, and where one overtakes another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laptime.figures.lanes import proof_figures
from laptime.figures.readings import fact_figures
from laptime.model.figure import Axis, Curve, Figure, Plane, folded
from laptime.model.interval import Bounded
from laptime.model.missing import Missing
from laptime.model.quantities import brief, taken
from laptime.model.record import Record
from laptime.pages import footnotes
from laptime.pages.layout import Cell, Column, table_or_sentences, wrap
from laptime.pages.listing import of_race
from laptime.pages.page import NARROWEST, PageParts, Said, View, bar, header, quiet, rendered
from laptime.pages.words import number, place_words, short_name, size, step
from laptime.questions.sweep.nouns import WIDTH, Sweep, SweepAnswer, SweepCell, SweepCurve

BAR = 16
Row = tuple[str, list[SweepCell | None]]
"""A value of the first axis, and the cell of each lane there."""


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    sweep = sweep_of(record)
    view = replace(view, width=max(view.width, NARROWEST))
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {sweep.says}")],
        figures=_figures(sweep, record, view.inner),
        notes=[*(note for each in sweep.curves for note in _notes(each, sweep)), *footnotes.doubts(record)],
        done=" ".join(filter(None, [_done(sweep), footnotes.closing(record)])),
        then=[],
        details=_details(record, sweep, view),
    )


render = rendered(page_parts)


def sweep_of(record: Record) -> Sweep:
    """Return what was concluded: without that, a record is shown as a race."""
    assert isinstance(record.answer, SweepAnswer)
    assert record.answer.sweep is not None
    return record.answer.sweep


def lanes_of(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(each.of for each in sweep.cells))


def _alongs(sweep: Sweep) -> tuple[str | None, ...]:
    return sweep.axes[1].values if len(sweep.axes) > 1 else (None,)


def _figures(sweep: Sweep, record: Record, view: View) -> list[str]:
    """Return a table of rates for each value of the second axis, with bars of one scale."""
    columns = _columns(sweep, record, view)
    lines: list[str] = []
    for along in _alongs(sweep):
        lines += [] if along is None else [f"{sweep.axes[1].name} {along}"]
        rows = _rows(sweep, along)
        lines += table_or_sentences(columns, rows, view.width, color=view.color)
    return lines


def _rows(sweep: Sweep, along: str | None) -> list[Row]:
    found = {(each.of, each.at): each for each in sweep.cells}
    rest = () if along is None else (along,)
    return [(value, [found.get((lane, (value, *rest))) for lane in lanes_of(sweep)]) for value in sweep.axes[0].values]


def _columns(sweep: Sweep, record: Record, view: View) -> list[Column[Row]]:
    lanes = lanes_of(sweep)
    most = max((cell.items_per_s for cell in sweep.cells if cell.items_per_s), default=1.0)
    columns: list[Column[Row]] = [Column(sweep.axes[0].name, lambda row: row[0], right=True)]
    for place, lane in enumerate(lanes):
        columns.append(Column(short_name(lane), _of(place, lambda cell: _bar(cell, most, view))))
        columns.append(Column(f"{record.workload.items}/s", _of(place, _rate), right=True))
        if len(lanes) == 1:
            columns.append(Column("step", _of(place, _step), right=True))
            columns.append(Column("memory", _of(place, _memory), right=True))
    return columns


def _of(place: int, show: Callable[[SweepCell | None], Cell | str]) -> Callable[[Row], Cell | str]:
    """Return what shows the cell of one lane in a row."""
    return lambda row: show(row[1][place])


def _bar(cell: SweepCell | None, most: float, view: View) -> str:
    return bar(None if cell is None else cell.items_per_s, most, BAR, blocks=view.blocks)


def _rate(cell: SweepCell | None) -> Cell:
    if cell is None or cell.items_per_s is None:
        return Cell(_why_no_rate(cell), "bad")
    return Cell(number(cell.items_per_s))


def _why_no_rate(cell: SweepCell | None) -> str:
    if cell is None:
        return "-"
    why = (("no memory", cell.out_of_memory), ("too large", cell.too_large), ("too slow", cell.too_long))
    return next((words for words, holds in why if holds), "-")


def _step(cell: SweepCell | None) -> str:
    return "-" if cell is None or cell.step_ms is None else step(cell.step_ms)


def _parameters(cell: SweepCell) -> str:
    return "-" if cell.parameters is None else f"{cell.parameters:,}"


def _memory(cell: SweepCell | None) -> str:
    return "-" if cell is None else _size(cell.memory_bytes)


def _size(count_bytes: int | Missing | None) -> str:
    return "-" if count_bytes is None or isinstance(count_bytes, Missing) else size(count_bytes)


def _notes(curve: SweepCurve, sweep: Sweep) -> list[str]:
    """Return the knee, what an empty step takes, and the largest batch that fits."""
    axis, name = sweep.axes[0].name, short_name(curve.of)
    along = "" if curve.along is None else f" with {sweep.axes[1].name} {curve.along}"
    told = []
    if curve.knee is not None:
        told.append(f"{name}{along} has 90 % of its highest rate from {axis} {curve.knee} on.")
    if curve.empty_ms is not None and (empty := _empty(curve.empty_ms)):
        told.append(f"A step of {name}{along} with nothing in it would take {empty}.")
    if curve.largest is not None:
        told.append(f"The largest batch of {name}{along} that fits into memory is {curve.largest} (within 5 %).")
    return [*told, *_left_out(curve, sweep, f"{name}{along}")]


def _left_out(curve: SweepCurve, sweep: Sweep, name: str) -> list[str]:
    """Return what of a lane was not run because it surely does not fit, and by which estimate."""
    mine = [each for each in sweep.cells if each.of == curve.of and each.at[1:] == _rest(curve)]
    large, long = [each for each in mine if each.too_large], [each for each in mine if each.too_long]
    told = []
    for cells in filter(None, (long, large)):
        from_on = " and above" if len(cells) > 1 else ""
        told.append(f"{name} was left out at {sweep.axes[0].name} {cells[0].at[0]}{from_on}: {cells[0].reason}.")
    why_not_found = curve.absent.get("largest")
    return [" ".join([*told, f"For {name}, {why_not_found.missing}."])] if large and why_not_found is not None else told


def _rest(curve: SweepCurve) -> tuple[str, ...]:
    return () if curve.along is None else (curve.along,)


def _empty(empty: Bounded) -> str:
    """Return the figure with its interval, or nothing where one round alone gives none."""
    if empty.ends is None or empty.value <= 0:
        return ""
    low, high = empty.ends
    return f"{taken(empty.value)} ({brief(max(0.0, low))}-{brief(high)} ms)"


def _done(sweep: Sweep) -> str:
    raced = sum(each.items_per_s is not None for each in sweep.cells)
    return f"{raced} of {len(sweep.cells)} cells have a result."


def _details(record: Record, sweep: Sweep, view: View) -> list[list[str]]:
    """Return every cell, and why some have no result."""
    width, color = view.width, view.color
    columns: list[Column[SweepCell]] = [
        Column("lane", lambda each: short_name(each.of), least=12),
        Column(", ".join(axis.name for axis in sweep.axes), lambda each: ", ".join(each.at), right=True),
        Column("step", _step, right=True),
        Column(f"{record.workload.items}/s", _rate, right=True),
        Column("memory", _memory, right=True),
    ]
    if any(axis.name == WIDTH for axis in sweep.axes):
        columns.insert(2, Column("parameters", _parameters, right=True))
    if any(isinstance(each.estimated_memory_bytes, int) for each in sweep.cells):
        columns.append(Column("estimated before", lambda each: _size(each.estimated_memory_bytes), right=True))
    reasons = dict.fromkeys(
        f"{short_name(each.of)}, {', '.join(each.at)}: {each.reason}" for each in sweep.cells if each.reason
    )
    return [
        header(record, width, color=color),
        table_or_sentences(columns, sweep.cells, width, color=color),
        *(wrap(f"- {each}", width, "    ") for each in reasons),
        *(wrap(each, width, "  ") for each in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
    ]


# The figures of a sweep: the rate of each lane over the first axis.


def figures(record: Record) -> list[Figure]:
    """Return all figures of a sweep."""
    sweep = sweep_of(record)
    return [
        *_curves(sweep, record.workload.items, "rate"),
        *_curves(sweep, record.workload.items, "step"),
        *folded(*proof_figures(record), *fact_figures(record)),
    ]


def _curves(sweep: Sweep, items: str, what: str) -> list[Figure]:
    curves = []
    for lane in lanes_of(sweep):
        for along in sweep.axes[1].values if len(sweep.axes) > 1 else (None,):
            cells = [each for each in sweep.cells if each.of == lane and (along is None or each.at[1] == along)]
            told = [(each.at[0], each.items_per_s if what == "rate" else each.step_ms) for each in cells]
            points = tuple((float(value), figure) for value, figure in told if figure is not None)
            name = short_name(lane) if along is None else f"{short_name(lane)}, {sweep.axes[1].name} {along}"
            curves += [Curve(name, points)] if points else []
    across = Axis(sweep.axes[0].name, is_log=True)
    up = Axis(f"{items} a second" if what == "rate" else "ms a step", is_log=True)
    title = f"{'Rate' if what == 'rate' else 'Step'} over {sweep.axes[0].name}"
    return [Figure(title, Plane(across, up, tuple(curves)), "")] if curves else []


def summary(record: Record) -> list[str]:
    """Return the result in a few words, for a list."""
    answer = record.answer
    if not isinstance(answer, SweepAnswer) or answer.sweep is None:
        return of_race(record)
    return [f"{len(answer.sweep.cells)} cells", answer.sweep.says.partition(". ")[0].removesuffix(".")]
