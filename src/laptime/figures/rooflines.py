"""Rooflines: the measured peaks of each device, and how near its lanes come to them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from laptime.model.figure import Axis, Curve, Figure, Plane
from laptime.model.limits import COPY
from laptime.model.record import LaneResult
from laptime.pages.words import short_name

DECADES = 2  # of intensity on each side of the ridge


def roofline_figures(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return a figure for each device that was measured and raced."""
    known = [lane for lane in lanes if lane.roofline is not None]
    known.sort(key=lambda lane: lane.roofline.peaks.device if lane.roofline else "")
    grouped = groupby(known, key=lambda lane: lane.roofline.peaks.device if lane.roofline else "")
    return [figure for _, mine in grouped for figure in _of_device(list(mine))]


def _of_device(lanes: Sequence[LaneResult]) -> list[Figure]:
    rooflines = [(short_name(lane.name), lane.roofline) for lane in lanes if lane.roofline is not None]
    peaks = rooflines[0][1].peaks
    bytes_per_s = peaks.peaks[COPY].best_per_s if COPY in peaks.peaks else None
    if bytes_per_s is None:
        return []
    roofs = []
    for precision in dict.fromkeys(each.precision for _, each in rooflines):
        if precision in peaks.peaks:
            top = peaks.peaks[precision].best_per_s
            ridge = top / bytes_per_s
            intensities = [ridge * 10 ** (step / 2) for step in range(-2 * DECADES, 2 * DECADES + 1)]
            points = tuple((each, min(top, each * bytes_per_s) / 1e9) for each in intensities)
            roofs.append(Curve(f"{precision} peak, measured", points))
    dots = tuple(
        Curve(name, ((each.work.flops / each.work.bytes, each.flops_per_s / 1e9),), "dots")
        for name, each in rooflines
        if each.work.bytes
    )
    across, up = Axis("operations a byte", is_log=True), Axis("GFLOP/s", is_log=True)
    says = "The roof is what the device was measured to do at most; a lane below its slope is bound by memory."
    return [Figure(f"Roofline of {peaks.label}", Plane(across, up, (*roofs, *dots)), says)]
