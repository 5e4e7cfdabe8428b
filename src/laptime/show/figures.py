"""What reports draw of lanes: a bar each, the losses of their proofs, what the instruments read, and their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from math import exp, log

from laptime.analysis.heats import steady_windows
from laptime.analysis.usage import points_of
from laptime.model.figure import Axis, Band, Bar, BarKind, Bars, Curve, Figure, Plane, Point, Table
from laptime.model.hardware import COPY_EXERCISE, Roofline
from laptime.model.process import AS_WRITTEN, NO_TRAINING, Channel, Settings, Timeline
from laptime.model.quantities import Estimate, Missing, number, size
from laptime.model.record import HeatResult, InferAnswer, LaneResult, Record, TrainingAnswer
from laptime.model.sample import WATTS, Meaning, Owner, Window, meaning_of, owner_of
from laptime.model.stats import quantile
from laptime.model.watched import WatchAnswer
from laptime.show.pages.lanes import row_name
from laptime.show.pages.words import (
    against_first,
    duration,
    failure_words,
    lap_words,
    memory_words,
    processor_words,
    published_lap,
    short_name,
    step_words,
)

NO_RESULT = "no result"


def lane_bars(record: Record) -> list[Figure]:
    """Return the lanes as bars of a lap's time, with the published laps below; or of a step's or an item's time."""
    lanes = [lane for lane in record.lanes if lane.settings.input not in NO_TRAINING]
    if not lanes:
        return []
    ran = [lane for lane in lanes if lane.step_ms is not None]
    if ran and all(lane.lap_s is not None for lane in ran):
        published = record.published.results if record.published else ()
        reported = []
        for result in published:
            if result.lap_s:
                lap_s = sorted(result.lap_s)[len(result.lap_s) // 2]
                reported.append(Bar(result.device, lap_s, words=published_lap(lap_s), kind="published"))
        bars = tuple(_bar(lane, lane.lap_s, lap_words(lane), record) for lane in lanes)
        below = " Hollow circles are published results of other machines." if reported else ""
        says = f"Shorter is faster; whiskers are 95 %.{below}"
        return [Figure("A lap on each lane", Bars("s a lap", bars, tuple(reported)), says)]
    if len({lane.items_per_step for lane in ran}) <= 1:
        bars = tuple(_bar(lane, lane.step_ms, step_words(lane), record) for lane in lanes)
        return [Figure("A step on each lane", Bars("ms a step", bars), "Shorter is faster; whiskers are 95 %.")]
    bars = tuple(_bar(lane, lane.items_per_s, "", record) for lane in lanes)
    return [Figure(f"Throughput of each lane, {record.workload.items} per second", Bars("a second", bars))]


def _bar(lane: LaneResult, figure: Estimate | None, words: str, record: Record) -> Bar:
    failed = failure_words(lane)
    if failed or figure is None:
        why = [failed] if lane.reason is None or lane.reason in failed else [failed, lane.reason]
        return Bar(row_name(lane.name, record), None, words=": ".join(filter(None, why)) or NO_RESULT, kind="failed")
    words = words or against_first(lane, record).text
    low, high = figure.drawn_ends
    kind: BarKind = "lane" if lane.settings.preset == AS_WRITTEN else "best"
    return Bar(row_name(lane.name, record), figure.median, low, high, words.lstrip(", "), kind)


def proof_figures(record: Record) -> list[Figure]:
    """Return the losses of the proof: lanes that did the same work lie on each other."""
    if record.reference is None:
        return []
    runs = {"float64 reference": record.reference.exact}
    for lane in record.lanes:
        proofs = [proof for result in lane.heats for proof in result.heat.proofs if proof.precision == "fp32"]
        if proofs and lane.training in (None, record.workload.name):
            runs[short_name(lane.name)] = proofs[0]
    if len(runs) == 1:
        return []
    curves = tuple(
        Curve(name, tuple((float(step), loss) for step, loss in run.by_step.items())) for name, run in runs.items()
    )
    says = "The same steps from the same weights on the same batches. Lanes that did equal work show equal losses."
    plane = Plane(Axis("step of the proof", is_whole=True), Axis("loss"), curves)
    return [Figure("Equal work: the losses of the proof", plane, says)]


# What the instruments read while lanes ran, on one axis of time: cores, memory, temperature, power, clocks.

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
    watched = list(_watched(record))
    laps = list(_laps(record))
    return [figure for row in READINGS for figure in _figure(row, watched, laps)]


def _watched(record: Record) -> Iterator[tuple[str, Timeline]]:
    """Return each watched process with the name of its lane."""
    answer = record.answer
    if isinstance(answer, TrainingAnswer):
        yield from ((run.process.lane, watched.timeline) for run in answer.runs for watched in run.watched)
        return
    if isinstance(answer, WatchAnswer):
        if answer.timeline is not None:
            yield record.workload.name, answer.timeline
        return
    processes = [result.heat.process for lane in record.lanes for result in lane.heats]
    if isinstance(answer, InferAnswer):
        processes = [heat.process for lane in answer.lanes for heat in lane.heats]
    yield from ((process.lane, process.timeline) for process in processes if process.timeline is not None)


def _laps(record: Record) -> Iterator[Band]:
    """Return the laps of whole trainings, in seconds of the clock of the readings."""
    runs = record.answer.runs if isinstance(record.answer, TrainingAnswer) else ()
    for run in runs:
        for watched in run.watched:
            for mark, after in pairwise(watched.marks):
                if mark.name.startswith(LAP_MARK):
                    label = f"{mark.name} of {short_name(run.process.lane)}"
                    yield Band(mark.at_ns / 1e9, after.at_ns / 1e9, "part", label)


def _figure(row: ReadingRow, watched: Sequence[tuple[str, Timeline]], laps: Sequence[Band]) -> list[Figure]:
    found: list[tuple[str, tuple[Point, ...]]] = []
    for lane, timeline in watched:
        channels = [series.channel for track in timeline.tracks for series in track.series]
        for channel in filter(row.shows, channels):
            points = points_of(timeline, channel.device, channel.name)
            if isinstance(points, Missing):
                continue
            if row.grows:  # how fast a counter grew between each two readings
                points = tuple(
                    (late_s, (late - early) / (late_s - early_s))
                    for (early_s, early), (late_s, late) in pairwise(points)
                    if late_s > early_s
                )
            points = tuple((at_s, value * row.times.get(channel.unit, 1.0)) for at_s, value in points)
            of = "" if owner_of(channel.device) in ("heat", "host") else f", {channel.device}"
            found += [(f"{short_name(lane)}{of}", stretch) for stretch in _stretches(points)]
    if not found:
        return []
    began_s = min(points[0][0] for _, points in found)
    curves = tuple(Curve(name, tuple((at_s - began_s, value) for at_s, value in points)) for name, points in found)
    bands = tuple(replace(lap, start=lap.start - began_s, end=lap.end - began_s) for lap in laps[::2])
    says = "Every other lap is marked." if bands else ""
    plane = Plane(Axis("seconds since the first reading"), Axis(row.unit, from_zero=True), curves, bands)
    return [Figure(row.title, plane, says)]


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
    return [tuple(stretch) for stretch in stretches if len(stretch) > 1]


# What every report ends with: findings with their evidence, machine, versions, settings, and the tool's own cost.

FactRow = tuple[str, ...]


def fact_figures(record: Record) -> list[Figure]:
    """Return the tables of all that is not drawn."""
    findings = tuple(
        (
            finding.says,
            finding.advice,
            finding.sure,
            ", ".join(f"{name} {_value(value)}" for name, value in finding.evidence.items()),
        )
        for finding in record.findings
    )
    known = {"parent_processor_s": "processor time of laptime's own process", "journal_s": "saving the record"}
    costs: list[FactRow] = [("from the first word to the last", duration(record.elapsed_s))]
    costs += [(known.get(name, name), f"{number(value)} s") for name, value in record.overhead.items()]
    figures = []
    if findings:
        table = Table(("finding", "advice", "how sure", "evidence"), findings)
        figures.append(Figure("Findings", table, "What the instruments and the rules found next to the answer."))
    figures += [*_lanes(record), _machine(record), *_settings(record)]
    return [*figures, Figure("What laptime itself took", Table(("what", "=time"), tuple(costs)))]


def _value(value: object) -> str:
    if isinstance(value, Missing):
        return f"- ({value.missing})"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _lanes(record: Record) -> list[Figure]:
    rows: list[FactRow] = []
    for lane in record.lanes:
        memory = lane.peak_memory_bytes
        ends = (None, None) if lane.step_ms is None else lane.step_ms.drawn_ends
        rows.append(
            (
                short_name(lane.name),
                f"{lane.status}: {lane.reason}" if lane.reason else lane.status,
                str(sum(result.heat.process.status == "ok" for result in lane.heats)),
                _fact_figure(None if lane.step_ms is None else lane.step_ms.median),
                *map(_fact_figure, ends),
                _fact_figure(None if lane.items_per_s is None else lane.items_per_s.median),
                _fact_figure(None if lane.lap_s is None else lane.lap_s.median),
                "-" if isinstance(memory, Missing) else size(memory),
                f"{lane.parity.status}: {lane.parity.reason}" if lane.parity.reason else lane.parity.status,
            )
        )
    heads = ("lane", "state", "=heats", "=step, ms", "=low", "=high", "=items/s", "=lap, s", "=memory", "same work")
    return [Figure("All lanes", Table(heads, tuple(rows)))] if rows else []


def _fact_figure(value: float | None) -> str:
    return "-" if value is None else number(value)


def _machine(record: Record) -> Figure:
    machine = record.machine
    rows: list[FactRow] = [
        ("processor", processor_words(machine)),
        ("memory", memory_words(machine)),
        *(("card", card.maker if isinstance(card.name, Missing) else card.name) for card in machine.cards),
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
        field_.name
        for field_ in fields(Settings)
        if any(lane.settings.value_of(field_.name) != plain.value_of(field_.name) for lane in record.lanes)
    ]
    if not names:
        return []
    rows = tuple(
        (short_name(lane.name), *(str(lane.settings.value_of(name)) for name in names)) for lane in record.lanes
    )
    says = "Settings that are not named are as written on every lane."
    return [Figure("Settings", Table(("lane", *(name.replace("_", " ") for name in names)), rows), says)]


# Rooflines: the measured peaks of each device, and how near its lanes come to them.

DECADES = 2  # of intensity on each side of the ridge


def roofline_figures(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return a figure for each device that was measured and raced."""
    by_device: dict[str, list[tuple[str, Roofline]]] = {}
    for lane in lanes:
        if lane.roofline is not None:
            by_device.setdefault(lane.roofline.peaks.device, []).append((short_name(lane.name), lane.roofline))
    figures = []
    for device in sorted(by_device):
        rooflines = by_device[device]
        peaks = rooflines[0][1].peaks
        if COPY_EXERCISE not in peaks.peaks:
            continue
        bytes_per_s = peaks.peaks[COPY_EXERCISE].best_per_s
        roofs = []
        for precision in dict.fromkeys(roofline.precision for _, roofline in rooflines):
            if precision in peaks.peaks:
                top = peaks.peaks[precision].best_per_s
                ridge = top / bytes_per_s
                intensities = [ridge * 10 ** (step / 2) for step in range(-2 * DECADES, 2 * DECADES + 1)]
                points = tuple((intensity, min(top, intensity * bytes_per_s) / 1e9) for intensity in intensities)
                roofs.append(Curve(f"{precision} peak, measured", points))
        dots = [
            Curve(name, ((roofline.work.flops / roofline.work.bytes, roofline.flops_per_s / 1e9),), "dots")
            for name, roofline in rooflines
            if roofline.work.bytes
        ]
        plane = Plane(Axis("operations a byte", is_log=True), Axis("GFLOP/s", is_log=True), (*roofs, *dots))
        says = "The roof is what the device was measured to do at most; a lane below its slope is bound by memory."
        figures.append(Figure(f"Roofline of {peaks.label}", plane, says))
    return figures


# The steps of a race: their times over each heat, with warm-up and disturbances marked, and their distribution.

GAP_NS = 50_000_000  # a longer one between two windows is not bridged
COLUMNS = 40  # of the distribution
OUTERMOST = 0.002  # share of the steps on each side that the distribution leaves out
STEP_AXIS = Axis("ms a step", from_zero=True)


def step_figures(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return a figure for each lane that ran, and one of all their distributions."""
    ran = [lane for lane in lanes if any(result.heat.windows for result in lane.heats)]
    return [*(_over_time(lane) for lane in ran), *_distribution(ran)]


def _over_time(lane: LaneResult) -> Figure:
    heats = [result for result in lane.heats if result.heat.windows]
    curves = []
    bands = []
    at_s = 0.0
    for result in heats:
        start_ns = result.heat.windows[0].start_ns
        for stretch in _turns(result):
            points = tuple((at_s + seconds, ms) for seconds, ms in _points(stretch, start_ns))
            curves.append(Curve(f"heat {result.heat.order + 1}", points))
        bands += _bands(result, at_s)
        at_s += (result.heat.windows[-1].end_ns - start_ns) / 1e9
    says = f"{len(heats)} heat{'s' * (len(heats) != 1)}, one after another"
    if any(band.kind == "warm-up" for band in bands):
        says += "; warm-up, which does not count, is marked"
    if any(band.kind == "disturbed" for band in bands):
        says += "; disturbed windows are marked"
    plane = Plane(Axis("seconds of the lane's heats"), STEP_AXIS, tuple(curves), tuple(bands))
    return Figure(f"Steps of {short_name(lane.name)}", plane, f"{says}.")


def _turns(result: HeatResult) -> list[list[Window]]:
    """Return the windows in stretches without a gap: between two of them another heat had its turn."""
    stretches = [[result.heat.windows[0]]]
    for before, after in pairwise(result.heat.windows):
        if after.start_ns - before.end_ns > GAP_NS:
            stretches.append([])
        stretches[-1].append(after)
    return stretches


def _points(windows: Sequence[Window], start_ns: int) -> list[Point]:
    """Return when each step ended, in seconds from `start_ns`, and its time; or the windows' means."""
    points = []
    for window in windows:
        if not window.step_ns:
            middle_ns = (window.start_ns + window.end_ns) / 2
            mean_ms = (window.end_ns - window.start_ns) / 1e6 / max(window.steps, 1)
            points.append(((middle_ns - start_ns) / 1e9, mean_ms))
        at_ns = float(window.start_ns)
        for step_ns in window.step_ns:
            at_ns += step_ns
            points.append(((at_ns - start_ns) / 1e9, step_ns / 1e6))
    return points


def _bands(result: HeatResult, at_s: float) -> list[Band]:
    start_ns = result.heat.windows[0].start_ns

    def place(ns: int) -> float:
        return at_s + (ns - start_ns) / 1e9

    found = [
        Band(place(window.start_ns), place(window.end_ns), "disturbed", window.flag)
        for window in result.heat.windows
        if window.flag
    ]
    if result.steady_from:
        found.append(Band(at_s, place(result.heat.windows[result.steady_from - 1].end_ns), "warm-up", "warm-up"))
    return found


def _distribution(lanes: Sequence[LaneResult]) -> list[Figure]:
    """Return how often steps of the windows that count took how long; on a logarithmic scale if lanes are far apart."""
    steps = {}
    for lane in lanes:
        heats = [result for result in lane.heats if result.heat.process.status == "ok"]
        times = [ns / 1e6 for heat in heats for window in steady_windows(heat) for ns in window.step_ns]
        if len(times) >= COLUMNS:
            steps[short_name(lane.name)] = times
    if not steps:
        return []
    low = min(quantile(found, OUTERMOST) for found in steps.values())
    high = max(quantile(found, 1 - OUTERMOST) for found in steps.values())
    if not 0 < low < high:
        return []
    is_log = high / low > 8
    shares = [column / COLUMNS for column in range(COLUMNS + 1)]
    if is_log:
        edges = [exp(log(low) + (log(high) - log(low)) * share) for share in shares]
    else:
        edges = [low + (high - low) * share for share in shares]
    curves = tuple(Curve(name, _histogram(found, edges), "steps") for name, found in steps.items())
    count = sum(map(len, steps.values()))
    says = f"{count:,} steps of the windows that count; the outermost {200 * OUTERMOST:.1f} % are not shown."
    across = Axis("ms a step", is_log=is_log)
    return [Figure("How long steps take", Plane(across, Axis("% of the steps", from_zero=True), curves), says)]


def _histogram(values: Sequence[float], edges: Sequence[float]) -> tuple[Point, ...]:
    """Return the left edge of each column with its share in percent, and the last edge with 0."""
    ordered = sorted(values)
    counts = []
    place = 0
    while place < len(ordered) and ordered[place] < edges[0]:
        place += 1
    for _, right in pairwise(edges):
        begin = place
        while place < len(ordered) and ordered[place] < right:
            place += 1
        counts.append(place - begin)
    shares = [100 * count / len(ordered) for count in counts]
    return (*zip(edges[:-1], shares, strict=True), (edges[-1], 0.0))


# Fewer points that look the same: each stretch of a long curve keeps its lowest and its highest point.

POINTS_MOST = 12_000  # of all curves of a report together
CURVE_LEAST = 8  # points that every curve keeps


def thin(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return figures with at most `POINTS_MOST` points together, so that a file stays small."""
    curves = [curve for figure in figures if isinstance(figure.chart, Plane) for curve in figure.chart.curves]
    if sum(len(curve.points) for curve in curves) <= POINTS_MOST:
        return tuple(figures)
    # How many points a curve may keep, where short curves leave their share to the longer ones
    left = POINTS_MOST
    most = CURVE_LEAST
    lengths = sorted(len(curve.points) for curve in curves)
    for done, length in enumerate(lengths):
        most = max(left // (len(lengths) - done), CURVE_LEAST)
        if length > most:
            break
        left -= length
    thinned = []
    for figure in figures:
        if isinstance(figure.chart, Plane):
            chart = replace(figure.chart, curves=tuple(thin_curve(curve, most) for curve in figure.chart.curves))
            thinned.append(replace(figure, chart=chart))
        else:
            thinned.append(figure)
    return tuple(thinned)


def thin_curve(curve: Curve, most: int) -> Curve:
    """Return a curve with at most `most` points: the lowest and the highest of each stretch, in their order."""
    points = curve.points
    if len(points) <= most:
        return curve
    stretches = max(most // 2, 1)
    kept: list[Point] = []
    for place in range(stretches):
        stretch = points[len(points) * place // stretches : len(points) * (place + 1) // stretches]
        lowest = min(stretch, key=lambda point: point[1])
        highest = max(stretch, key=lambda point: point[1])
        kept += sorted({lowest, highest})
    return replace(curve, points=tuple(kept), of_points=max(curve.of_points, len(points)), ends=())


def thinned_words(figures: Sequence[Figure]) -> str:
    """Return a sentence on how many points are drawn of how many; empty if all are."""
    curves = [curve for figure in figures if isinstance(figure.chart, Plane) for curve in figure.chart.curves]
    if not any(curve.is_thinned for curve in curves):
        return ""
    drawn = sum(len(curve.points) for curve in curves)
    all_points = sum(max(curve.of_points, len(curve.points)) for curve in curves)
    return (
        f"Thinned: {drawn:,} of {all_points:,} points are drawn, of each stretch the lowest and the highest. "
        "The record holds all of them."
    )
