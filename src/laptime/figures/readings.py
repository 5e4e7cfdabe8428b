"""What the instruments read while lanes ran, on one axis of time: cores, memory, temperature, power, clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby, pairwise

from laptime.analysis.readings import points_of
from laptime.model.answers import InferAnswer, TrainingAnswer
from laptime.model.figure import Axis, Band, Curve, Figure, Plane, Point, Table
from laptime.model.limits import COPY_EXERCISE
from laptime.model.missing import Missing
from laptime.model.process import Settings
from laptime.model.quantities import number, size
from laptime.model.record import LaneResult, Record
from laptime.model.sample import WATTS, Meaning, Owner, meaning_of, owner_of
from laptime.model.script import WatchAnswer
from laptime.model.timeline import Channel, Timeline
from laptime.pages.words import duration, memory_words, processor_words, short_name

LAP_MARK = "lap "  # how the mark of a lap begins
GAP_READINGS = 5  # a longer gap than this many usual ones breaks a curve


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """One kind of reading: what its channels mean and whose they are (default: anyone's), and the unit of its axis.

    `times` is what a reading is multiplied by; it has no entry where channels have the unit of the axis.
    """

    title: str
    unit: str
    means: Meaning
    of: Owner | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    grows: bool = False

    def shows(self, channel: Channel) -> bool:
        return meaning_of(channel) == self.means and self.of in {None, owner_of(channel.device)}


READINGS: list[ReadingRow] = [
    ReadingRow("Busy cores", "cores", "busy time", "heat", grows=True),
    ReadingRow("Busy device", "%", "busy"),
    ReadingRow("Memory of the processes", "GB", "memory", "heat", {"bytes": 1e-9}),
    ReadingRow("Memory of the device", "GB", "memory", "card", {"bytes": 1e-9}),
    ReadingRow("Temperature", "°C", "temperature"),
    ReadingRow("Power", "W", "power", times=WATTS),
    ReadingRow("Clocks", "MHz", "clock"),
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
    processes = [result.heat.process for lane in record.lanes for result in lane.heats]
    if isinstance(answer, InferAnswer):
        processes = [heat.process for lane in answer.lanes for heat in lane.heats]
    yield from ((each.lane, each.timeline) for each in processes if each.timeline is not None)


def _laps(record: Record) -> Iterator[Band]:
    """Return the laps of whole trainings, in seconds of the clock of the readings."""
    runs = record.answer.runs if isinstance(record.answer, TrainingAnswer) else ()
    for run in runs:
        for each in run.watched:
            for mark, after in pairwise(each.marks):
                if mark.name.startswith(LAP_MARK):
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
            points = tuple((at_s, value * row.times.get(channel.unit, 1.0)) for at_s, value in points)
            of = "" if owner_of(channel.device) in ("heat", "host") else f", {channel.device}"
            found += [(f"{short_name(lane)}{of}", each) for each in _stretches(points)]
    if not found:
        return []
    began_s = min(points[0][0] for _, points in found)
    curves = tuple(Curve(name, tuple((at_s - began_s, value) for at_s, value in points)) for name, points in found)
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


# What every report ends with: findings with their evidence, machine, versions, settings, and the tool's own cost.

FactRow = tuple[str, ...]


def fact_figures(record: Record) -> list[Figure]:
    """Return the tables of all that is not drawn."""
    return [*_findings(record), *_lanes(record), _machine(record), *_settings(record), _own_cost(record)]


def _findings(record: Record) -> list[Figure]:
    rows = tuple((each.says, each.advice, each.sure, _evidence(each.evidence)) for each in record.findings)
    table = Table(("finding", "advice", "how sure", "evidence"), rows)
    return [Figure("Findings", table, "What the instruments and the rules found next to the answer.")] if rows else []


def _evidence(evidence: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in evidence.items())


def _value(value: object) -> str:
    if isinstance(value, Missing):
        return f"- ({value.missing})"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _lanes(record: Record) -> list[Figure]:
    rows = tuple(_lane_row(lane) for lane in record.lanes)
    heads = ("lane", "state", "=heats", "=step, ms", "=low", "=high", "=items/s", "=lap, s", "=memory", "same work")
    return [Figure("All lanes", Table(heads, rows))] if rows else []


def _lane_row(lane: LaneResult) -> FactRow:
    step, rate, lap = lane.step_ms, lane.items_per_s, lane.lap_s
    memory = lane.peak_memory_bytes
    ends = (None, None) if step is None else step.drawn_ends
    return (
        short_name(lane.name),
        f"{lane.status}: {lane.reason}" if lane.reason else lane.status,
        str(sum(result.heat.process.status == "ok" for result in lane.heats)),
        _fact_figure(None if step is None else step.median),
        *map(_fact_figure, ends),
        _fact_figure(None if rate is None else rate.median),
        _fact_figure(None if lap is None else lap.median),
        "-" if isinstance(memory, Missing) else size(memory),
        f"{lane.parity.status}: {lane.parity.reason}" if lane.parity.reason else lane.parity.status,
    )


def _fact_figure(value: float | None) -> str:
    return "-" if value is None else number(value)


def _machine(record: Record) -> Figure:
    machine = record.machine
    rows: list[FactRow] = [
        ("processor", processor_words(machine)),
        ("memory", memory_words(machine)),
        *(("card", each.maker if isinstance(each.name, Missing) else each.name) for each in machine.cards),
        ("system", machine.system),
        ("Python", machine.python),
        *((name, version) for name, version in record.tool.items() if name != "name"),
        *sorted({(name, version) for lane in record.lanes for name, version in lane.framework.items()}),
    ]
    rows += [("data", f"{record.data.folder}, {record.data.train_items:,} items")] if record.data is not None else []
    return Figure("Machine and versions", Table(("what", "which"), tuple(rows)))


def _settings(record: Record) -> list[Figure]:
    """Return the settings in which any lane differs from a lane as written."""
    plain = Settings()
    names = [
        each.name
        for each in fields(Settings)
        if any(lane.settings.value_of(each.name) != plain.value_of(each.name) for lane in record.lanes)
    ]
    if not names:
        return []
    rows = tuple(
        (short_name(lane.name), *(str(lane.settings.value_of(name)) for name in names)) for lane in record.lanes
    )
    says = "Settings that are not named are as written on every lane."
    return [Figure("Settings", Table(("lane", *(name.replace("_", " ") for name in names)), rows), says)]


def _own_cost(record: Record) -> Figure:
    known = {"parent_processor_s": "processor time of laptime's own process", "journal_s": "saving the record"}
    rows: list[FactRow] = [("from the first word to the last", duration(record.elapsed_s))]
    rows += [(known.get(name, name), f"{number(value)} s") for name, value in record.overhead.items()]
    return Figure("What laptime itself took", Table(("what", "=time"), tuple(rows)))


# Rooflines: the measured peaks of each device, and how near its lanes come to them.

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
    bytes_per_s = peaks.peaks[COPY_EXERCISE].best_per_s if COPY_EXERCISE in peaks.peaks else None
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
