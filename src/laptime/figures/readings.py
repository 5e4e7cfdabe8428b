"""What the instruments read while lanes ran, on one axis of time: cores, memory, temperature, power, clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from laptime.analysis.readings import points_of
from laptime.model.figure import Axis, Band, Curve, Figure, Plane, Point
from laptime.model.missing import Missing
from laptime.model.questions import InferAnswer, TrainingAnswer
from laptime.model.record import Record
from laptime.model.script import WatchAnswer
from laptime.model.timeline import Channel, Timeline
from laptime.pages.words import short_name

LAP = "lap "  # how the mark of a lap begins
GAP_READINGS = 5  # a longer gap than this many usual ones breaks a curve


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """One kind of reading: the channels that show it, its unit, and what a reading is multiplied by."""

    title: str
    unit: str
    times: float
    shows: Callable[[Channel], bool]
    grows: bool = False


READINGS: list[ReadingRow] = [
    ReadingRow("Busy cores", "cores", 1.0, lambda each: (each.device, each.name) == ("heat", "busy_s"), grows=True),
    ReadingRow("Busy device", "%", 1.0, lambda each: each.name == "busy_percent"),
    ReadingRow("Memory of the processes", "GB", 1e-9, lambda each: each.name == "resident_bytes"),
    ReadingRow("Memory of the device", "GB", 1e-9, lambda each: each.name == "memory_used_bytes"),
    ReadingRow("Temperature", "°C", 1.0, lambda each: each.unit == "C"),
    ReadingRow("Power", "W", 1e-3, lambda each: each.unit == "mW"),
    ReadingRow("Clocks", "MHz", 1.0, lambda each: each.unit == "MHz" and not each.name.endswith("most_mhz")),
]


def reading_figures(record: Record) -> list[Figure]:
    """Return a figure for each kind of reading that any instrument showed."""
    watched, laps = list(_watched(record)), list(_laps(record))
    return [figure for row in READINGS for figure in _figure(row, watched, laps)]


def _watched(record: Record) -> Iterator[tuple[str, Timeline]]:
    """Return each watched process with the name of its lane."""
    answer = record.answer
    if isinstance(answer, TrainingAnswer):
        yield from ((run.process.lane, each.timeline) for run in answer.runs for each in run.watched)
        return
    if isinstance(answer, WatchAnswer):
        yield from ((record.workload.name, each) for each in (answer.timeline,) if each is not None)
        return
    processes = [heat.process for lane in record.lanes for heat in lane.heats]
    if isinstance(answer, InferAnswer):
        processes = [heat.process for lane in answer.lanes for heat in lane.heats]
    yield from ((each.lane, each.timeline) for each in processes if each.timeline is not None)


def _laps(record: Record) -> Iterator[Band]:
    """Return the laps of whole trainings, in seconds of the clock of the readings."""
    runs = record.answer.runs if isinstance(record.answer, TrainingAnswer) else ()
    for run in runs:
        for each in run.watched:
            for mark, after in pairwise(each.marks):
                if mark.name.startswith(LAP):
                    label = f"{mark.name} of {short_name(run.process.lane)}"
                    yield Band(mark.at_ns / 1e9, after.at_ns / 1e9, "part", label)


def _figure(row: ReadingRow, watched: Sequence[tuple[str, Timeline]], laps: Sequence[Band]) -> list[Figure]:
    found: list[tuple[str, tuple[Point, ...]]] = []
    for lane, timeline in watched:
        for channel in _channels(timeline, row):
            points = points_of(timeline, channel.device, channel.name)
            if isinstance(points, Missing):
                continue
            points = _growth(points) if row.grows else points
            of = "" if channel.device in ("heat", "host") else f", {channel.device}"
            found += [(f"{short_name(lane)}{of}", each) for each in _stretches(points)]
    if not found:
        return []
    began_s = min(points[0][0] for _, points in found)
    curves = tuple(
        Curve(name, tuple((at_s - began_s, value * row.times) for at_s, value in points)) for name, points in found
    )
    bands = tuple(replace(each, start=each.start - began_s, end=each.end - began_s) for each in laps[::2])
    says = "Every other lap is marked." if bands else ""
    plane = Plane(Axis("seconds since the first reading"), Axis(row.unit, from_zero=True), curves, bands)
    return [Figure(row.title, plane, says)]


def _channels(timeline: Timeline, row: ReadingRow) -> Iterator[Channel]:
    for track in timeline.tracks:
        yield from (series.channel for series in track.series if row.shows(series.channel))


def _growth(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return how fast a counter grew between each two readings."""
    return tuple(
        (late_s, (late - early) / (late_s - early_s))
        for (early_s, early), (late_s, late) in pairwise(points)
        if late_s > early_s
    )


def _stretches(points: Sequence[Point]) -> list[tuple[Point, ...]]:
    """Split readings where nothing was read for a while: there the heat had no turn."""
    if len(points) < 2:
        return []
    apart = sorted(late - early for (early, _), (late, _) in pairwise(points))
    most = GAP_READINGS * apart[len(apart) // 2]
    stretches: list[list[Point]] = [[points[0]]]
    for before, after in pairwise(points):
        if after[0] - before[0] > most:
            stretches.append([])
        stretches[-1].append(after)
    return [tuple(each) for each in stretches if len(each) > 1]
