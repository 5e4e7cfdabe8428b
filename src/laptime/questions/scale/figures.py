"""The figures of a scale: the speed-ups over the counts of devices, measured and predicted, and where a step goes."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.figures.steps import step_figures
from laptime.model.figure import Axis, Curve, Figure, Part, Plane, Stack
from laptime.model.record import Record
from laptime.pages.words import short_name
from laptime.questions.race.figures import figures as race_figures
from laptime.questions.race.figures import lane_bars, proof_figures
from laptime.questions.scale.nouns import Scaling
from laptime.questions.scale.page import scaling_of
from laptime.questions.scale.words import name_loss


def figures(record: Record) -> list[Figure]:
    """Return all figures of a scale; those of a race where nothing was concluded."""
    scaling = scaling_of(record)
    if scaling is None:
        return race_figures(record)
    return [
        *_speedups(scaling),
        *_lost(scaling),
        *lane_bars(record),
        *proof_figures(record),
        *step_figures(record.lanes),
        *reading_figures(record),
        *fact_figures(record),
    ]


def _speedups(scaling: Scaling) -> list[Figure]:
    curves: list[Curve] = []
    most = 1
    for each in scaling.curves:
        name = f"{short_name(each.of)}, {each.mode}"
        points = [(float(one.devices), one.speedup.value) for one in each.points if one.speedup is not None]
        curves.append(Curve(name, tuple(points)))
        most = max(most, 1, *(one.devices for one in each.points))
        if each.beyond:
            beyond = [(float(one.devices), one.speedup.value) for one in each.beyond]
            curves.append(Curve(f"{name}, predicted", tuple(beyond), "dots"))
    curves.append(Curve("N times", ((1.0, 1.0), (float(most), float(most)))))
    across, up = Axis("devices", is_log=True, is_whole=True), Axis("times as fast as one", is_log=True)
    says = "Items per second against one device. The straight line is what nothing lost would give."
    return [Figure("What more devices bring", Plane(across, up, tuple(curves)), says)]


def _lost(scaling: Scaling) -> list[Figure]:
    rows = []
    for each in scaling.curves:
        if each.lost is None:
            continue
        parts = tuple(Part(name_loss(one.of), one.share.value) for one in each.lost.parts if one.share.value > 0)
        rows.append((f"{short_name(each.lost.lane)}", parts))
    says = "The share of a step on the largest count. Only computing is what one device alone takes."
    return [Figure("Where the time of a step goes", Stack(tuple(rows)), says)] if rows else []
