"""The figures of a sweep: the rate of each lane over the first axis."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.model.figure import Axis, Curve, Figure, Plane
from laptime.model.record import Record
from laptime.pages.words import short_name
from laptime.questions.race.figures import figures as race_figures
from laptime.questions.race.figures import proof_figures
from laptime.questions.sweep.nouns import Sweep
from laptime.questions.sweep.page import lanes_of, sweep_of


def figures(record: Record) -> list[Figure]:
    """Return all figures of a sweep; those of a race where nothing was concluded."""
    sweep = sweep_of(record)
    if sweep is None:
        return race_figures(record)
    return [
        *_curves(sweep, record.workload.items, "rate"),
        *_curves(sweep, record.workload.items, "step"),
        *proof_figures(record),
        *fact_figures(record),
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
