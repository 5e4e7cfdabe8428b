"""The page of a scale: what 2, 4, 8 devices bring, why it is not 2, 4, 8 times as much, and what more would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laptime.model.figure import Axis, Bar, Bars, Curve, Figure, Glance, GlanceFact, Plane, folded
from laptime.model.quantities import Bounded, Missing, number, percent, size, step, taken, times
from laptime.model.record import Record
from laptime.questions.scale.nouns import (
    WORTH_NAMING,
    LostPart,
    LostTo,
    Projection,
    RankRow,
    ScaleAnswer,
    ScaleCurve,
    ScalePoint,
    Scaling,
    count_words,
    gain_words,
    name_loss,
    say_curve,
)
from laptime.show.figures import fact_figures, lane_bars, proof_figures, reading_figures, step_figures
from laptime.show.pages import footnotes
from laptime.show.pages.lanes import lane_table, proof_sentence, usage_lines
from laptime.show.pages.layout import Cell, Column, table_or_sentences, wrap
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import NARROWEST, PageParts, QuestionPage, Said, View, bar, header, quiet
from laptime.show.pages.summaries import lanes_failed, summary_of_race
from laptime.show.pages.words import duration, factor, place_words, short_name

SHOWN_LEAST = 0.01  # of a step: smaller losses are in the details
DIFFERS_LEAST = 0.1  # of a step, between the profiler and the experiment
SPEEDUP_BAR = 24
WAITS: tuple[LostTo, ...] = ("straggler", "waiting")
SHOWN_BEYOND = (2, 4, 8)
MODE_WORDS = {"weak": "each with the batch as written", "strong": "the batch as written shared out"}


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    scaling = scaling_of(record)
    view = replace(view, width=max(view.width, NARROWEST))
    first = scaling.curves[0]
    # The record without the experiments, which train nothing on purpose
    lanes = tuple(lane for lane in record.lanes if lane.settings.value_of("sync") is None)
    of_training = replace(record, lanes=lanes)
    # Which rank is slower, where that is not the first loss
    if first.lost is None or first.lost.straggler is None or first.lost.first == "straggler":
        straggler_words = []
    else:
        slow = first.lost.straggler
        straggler_words = [f"Rank {slow.rank} ({slow.device}) takes {percent(slow.slower)} longer than the others."]
    whole = first.all_cores
    best = max((point.speedup.value for point in first.points if point.speedup is not None), default=0.0)
    if whole is None or whole.speedup is None or whole.speedup.value <= best:
        all_cores = []
    else:
        cores = record.machine.processor.cores_usable
        all_cores = [
            f"One process on all {cores} cores is faster: {times(whole.speedup.value)} the rate of one core's share."
        ]
    most = _most(first)
    shown = [projection for projection in first.beyond if projection.devices // most in SHOWN_BEYOND]
    if not shown:
        beyond = ""
    else:
        gains = ", ".join(f"{projection.devices:,}: {gain_words(projection.speedup)}" for projection in shown)
        held = first.held_out
        check = ""
        if held is not None:
            check = f" It predicts the measured {held.devices} within {percent(abs(held.error))}."
        beyond = f"Predicted for more {count_words(2, kind_of(record)).split()[1]} on such links: {gains}.{check}"
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {scaling.says}")],
        figures=[line for curve in scaling.curves for line in _figures(curve, record, view.inner)],
        notes=[
            *footnotes.failure_sentences(record),
            *straggler_words,
            *all_cores,
            beyond,
            *footnotes.doubts(record),
        ],
        done=" ".join(filter(None, [proof_sentence(of_training), footnotes.closing(record)])),
        then=[],
        details=_details(record, scaling, view),
        glance=glance_of(record, scaling),
    )


def scaling_of(record: Record) -> Scaling:
    """Return what was concluded: without that, a record is shown as a race."""
    assert isinstance(record.answer, ScaleAnswer)
    assert record.answer.scaling is not None
    return record.answer.scaling


def kind_of(record: Record) -> str:
    return record.lanes[0].device.kind if record.lanes else "cpu"


def _figures(curve: ScaleCurve, record: Record, view: View) -> list[str]:
    """Return a row for each count, with the speed-up as a bar out of what all devices could bring, and what is lost."""
    answer = record.answer
    several = isinstance(answer, ScaleAnswer) and answer.scaling is not None and len(answer.scaling.curves) > 1
    title = [f"{short_name(curve.of)}, {MODE_WORDS[curve.mode]}"] if several else []
    rows = [*curve.points, *([curve.all_cores] if curve.all_cores is not None else [])]
    table = table_or_sentences(_columns(curve, record, view), rows, view.width, color=view.color)
    lost: list[str] = []
    if curve.lost is not None:  # where the time of a step goes, on the largest count
        shown = [part for part in curve.lost.parts if part.share.value >= SHOWN_LEAST]
        parts = ", ".join(f"{name_loss(part.of)} {percent(part.share.value)}{_doubt(part)}" for part in shown)
        lost = ["", *wrap(f"A step on {count_words(curve.lost.devices, kind_of(record))}: {parts}.", view.width)]
    return [*title, *table, *lost, ""] if several else [*title, *table, *lost]


def _columns(curve: ScaleCurve, record: Record, view: View) -> list[Column[ScalePoint]]:
    most = _most(curve)

    def bars(point: ScalePoint) -> str:
        length = None if point.speedup is None else point.speedup.value
        return bar(length, most, SPEEDUP_BAR, blocks=view.blocks)

    return [
        Column(
            "", lambda point: "all cores" if point is curve.all_cores else count_words(point.devices, kind_of(record))
        ),
        Column("", bars, is_drawn=True),
        Column(
            "speed-up",
            _speedup_cell,
            least=19,
        ),
        Column(
            "of N",
            lambda point: (
                "" if point is curve.all_cores else "-" if point.efficiency is None else percent(point.efficiency)
            ),
            right=True,
        ),
        Column("step", lambda point: "-" if point.step_ms is None else step(point.step_ms), right=True),
        Column(
            f"{record.workload.items}/s",
            lambda point: (
                "-"
                if not point.step_ms or point.items_per_step is None
                else number(point.items_per_step * 1e3 / point.step_ms)
            ),
            right=True,
        ),
    ]


def _speedup_cell(point: ScalePoint) -> Cell:
    if point.speedup is None:
        return Cell(point.reason or "no result", "bad")
    return Cell("1" if point.devices == 1 and point.speedup.value == 1 else gain_words(point.speedup))


def _most(curve: ScaleCurve) -> int:
    """Return the largest count that was raced."""
    return max((point.devices for point in curve.points), default=1) or 1


def _doubt(part: LostPart) -> str:
    """A part that is not named as the loss, although it is large, may be chance."""
    is_sure = part.share.ends is None or part.share.is_above(0)
    return "" if is_sure or part.of == "computing" or part.share.value < WORTH_NAMING else " (not sure)"


def _details(record: Record, scaling: Scaling, view: View) -> list[list[str]]:
    """Return all that was found, in sections."""
    width = view.width
    color = view.color
    kind = kind_of(record)
    sections: list[list[str]] = [header(record, width, color=color)]
    for curve in scaling.curves:
        if curve.lost is None:
            lost_table = wrap(f"Where the time of a step goes is not known: {curve.why_not('lost')}.", width, "  ")
        else:
            columns: list[Column[LostPart]] = [
                Column("a step on all of them", lambda part: name_loss(part.of), least=18),
                Column("share", lambda part: percent(part.share.value), right=True),
                Column(
                    "between",
                    lambda part: (
                        "one round"
                        if isinstance(part.share.low, Missing) or isinstance(part.share.high, Missing)
                        else f"{percent(part.share.low)} and {percent(part.share.high)}"
                    ),
                ),
            ]
            lost_table = table_or_sentences(columns, curve.lost.parts, width, color=color)
        link = curve.link
        if link is None:
            link_words = f"What an exchange costs is not known: {curve.why_not('link')}."
        else:
            hides = (
                f"hides {taken(link.hidden_ms)} of it"
                if link.hidden_ms >= 0
                else f"adds {taken(-link.hidden_ms)} to it"
            )
            link_words = (
                f"An exchange alone: {taken(link.latency_us / 1e3)} a hop, {number(link.gb_per_s)} GB/s, "
                f"{size(link.size_bytes)} of gradients; a step {hides}."
            )
        held = curve.held_out
        if held is None:
            held_out_words = f"The prediction was not checked: {curve.why_not('held_out')}."
        else:
            held_out_words = (
                f"Checked: without {held.devices} devices, it predicts {times(held.predicted)} for them; "
                f"measured were {times(held.measured)} ({held.error * 100:+.0f} %)."
            )
        sections += [
            wrap(f"{short_name(curve.of)}, {curve.mode}: {say_curve(curve, kind)}", width, "  "),
            table_or_sentences(_columns(curve, record, view), curve.points, width, color=color),
            lost_table,
            [line for word in exchange_words(curve) for line in wrap(word, width, "  ")],
            wrap(link_words, width, "  "),
            _beyond_table(curve, width, color=color),
            wrap(held_out_words, width, "  "),
        ]
    return [
        *sections,
        _rank_table(scaling.ranks, width, color=color),
        lane_table(record, width, color=color),
        usage_lines(record, width, color=color),
        footnotes.failures(record, width),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
    ]


def exchange_words(curve: ScaleCurve) -> list[str]:
    """Return the exchange by the profiler next to that by experiment, and whether the two differ."""
    profiled = curve.profiled
    if profiled is None:
        return [f"What the profiler sees of the exchange is not known: {curve.why_not('profiled')}."]
    sentence = f"By the profiler, {_share_words(profiled.exposed)} of a step is an exchange that nothing hides"
    sentence += f", and an exchange is in progress for {percent(profiled.in_progress.value)} of a step."
    shares = {} if curve.lost is None else {part.of: part.share for part in curve.lost.parts}
    if "exchange" not in shares:
        return [f"{sentence} There is no figure by experiment."]
    found = shares["exchange"]
    waits = sum(shares[wait].value for wait in WAITS if wait in shares)
    sentence += f" By experiment, {_share_words(found)} is exchange."
    if waits >= SHOWN_LEAST:
        sentence += (
            f" The profiler may count waiting for slower processes, {percent(waits)} by experiment, as exchange."
        )
    apart = _apart(profiled.exposed, found, max(0.0, waits))
    if apart < DIFFERS_LEAST:
        return [sentence]
    more = "more" if profiled.exposed.value > found.value else "less"
    return [sentence, f"The profiler shows {apart * 100:.0f} points {more}. The answer is that of the experiment."]


def _apart(profiled: Bounded, found: Bounded, waits: float) -> float:
    """Return by how much the profiler's share surely differs from the experiment's, with any part of the waiting in it.

    It is 0 where the intervals meet.
    """
    if profiled.ends is not None and found.ends is not None:
        (low, high), (least, most) = profiled.ends, found.ends
        if low <= most + waits and least <= high:
            return 0.0
    return max(found.value - profiled.value, profiled.value - found.value - waits, 0.0)


def _share_words(share: Bounded) -> str:
    if share.ends is None:
        return percent(share.value)
    low, high = share.ends
    return f"{percent(share.value)} ({percent(max(0.0, low))} to {percent(min(1.0, high))})"


def _beyond_table(curve: ScaleCurve, width: int, *, color: bool) -> list[str]:
    if not curve.beyond:
        return wrap(f"Nothing is predicted for more devices: {curve.why_not('beyond')}.", width, "  ")
    columns: list[Column[Projection]] = [
        Column("devices", lambda projection: f"{projection.devices:,}", right=True),
        Column("predicted speed-up", lambda projection: gain_words(projection.speedup)),
        Column(
            "limited most by",
            lambda projection: "nothing" if projection.binds is None else name_loss(projection.binds),
            least=12,
        ),
    ]
    return table_or_sentences(columns, curve.beyond, width, color=color)


def _rank_table(ranks: Sequence[RankRow], width: int, *, color: bool) -> list[str]:
    columns: list[Column[RankRow]] = [
        Column("rank", lambda row: str(row.rank), right=True),
        Column("device", lambda row: row.device),
        Column("host", lambda row: row.host, least=8),
        Column("first step", lambda row: step(row.first_step_ms), right=True),
        Column("memory", lambda row: _memory(row.memory_bytes), right=True),
        Column("of the device", lambda row: _memory(row.device_memory_bytes), right=True),
    ]
    return table_or_sentences(columns, ranks, width, color=color) if ranks else []


def _memory(held: int | Missing) -> str:
    return "-" if isinstance(held, Missing) else size(held)


# The figures of a scale: the speed-ups over the counts of devices, measured and predicted, and where a step goes.


def figures(record: Record) -> list[Figure]:
    """Return all figures of a scale."""
    scaling = scaling_of(record)
    curves: list[Curve] = []
    most = 1
    for curve in scaling.curves:
        name = f"{short_name(curve.of)}, {curve.mode}"
        known = [(one.devices, one.speedup) for one in curve.points if one.speedup is not None]
        points = tuple((float(devices), speedup.value) for devices, speedup in known)
        curves.append(Curve(name, points, ends=tuple(speedup.ends for _, speedup in known)))
        most = max(most, _most(curve))
        if curve.beyond:
            beyond = tuple((float(one.devices), one.speedup.value) for one in curve.beyond)
            ends = tuple(one.speedup.ends for one in curve.beyond)
            curves.append(Curve(f"{name}, predicted", beyond, "predicted", ends=ends))
    curves.append(Curve("N times", ((1.0, 1.0), (float(most), float(most)))))
    across = Axis("devices", is_log=True, is_whole=True)
    up = Axis("times as fast as one", is_log=True)
    says = "Items per second against one device. The straight line is what nothing lost would give."
    return [
        Figure("What more devices bring", Plane(across, up, tuple(curves)), says),
        *_lost(scaling),
        *lane_bars(record),
        *folded(*proof_figures(record), *step_figures(record.lanes), *reading_figures(record), *fact_figures(record)),
    ]


def _lost(scaling: Scaling) -> list[Figure]:
    """Return the parts of a step as bars: the interval of a part may reach below 0, which a stack cannot show."""
    says = "Of a step on the largest count, with intervals. Only computing is what one device alone takes."
    return [
        Figure(
            f"Where the time of a step goes on {short_name(curve.lost.lane)}",
            Bars("% of a step", tuple(_lost_bar(name_loss(one.of), one.share) for one in curve.lost.parts)),
            says,
        )
        for curve in scaling.curves
        if curve.lost is not None
    ]


def _lost_bar(name: str, share: Bounded) -> Bar:
    ends = share.ends
    low, high = (None, None) if ends is None else (max(100 * end, 0.0) for end in ends)
    words = "" if ends is None else f" ({percent(ends[0])} to {percent(ends[1])})"
    return Bar(name, max(100 * share.value, 0.0), low, high, percent(share.value) + words)


def glance_of(record: Record, scaling: Scaling) -> Glance | None:
    """Return what the largest count brings."""
    known = [(one, one.speedup) for one in scaling.curves[0].points if one.speedup is not None and one.devices > 1]
    if not known:
        return None
    most, speedup = max(known, key=lambda pair: pair[0].devices)
    ends = speedup.ends
    words = "" if ends is None else f"{factor(ends[0], speedup.value)}-{factor(ends[1], speedup.value)} at 95 %"
    facts = [GlanceFact(f"{most.devices} devices", f"efficiency {percent(most.efficiency or 0.0)}")]
    facts += [GlanceFact(footnotes.runs_words(record), duration(record.elapsed_s))]
    says = scaling.says[:1].upper() + scaling.says[1:]
    return Glance(f"{factor(speedup.value)}x", words, says, tuple(facts))


def summary(record: Record) -> list[str]:
    answer = record.answer
    if not isinstance(answer, ScaleAnswer) or answer.scaling is None:
        return summary_of_race(record)
    points = [
        point
        for curve in answer.scaling.curves[:1]
        for point in curve.points
        if point.speedup is not None and point.devices > 1
    ]
    if not points:
        return ["no count has a result", *lanes_failed(record)]
    most = points[-1]
    assert most.speedup is not None
    return [f"{most.devices} devices {most.speedup.value:.2f}x", *lanes_failed(record)]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
