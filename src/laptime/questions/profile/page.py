"""The page of profiles (operators, kernels, the profiler's cost), and how near lanes come to their devices' peaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from laptime.model.figure import Bar, Bars, Figure, Glance, GlanceFact, folded
from laptime.model.hardware import COPY_EXERCISE, NOT_MEASURED, Roofline
from laptime.model.quantities import Missing, number, percent, size, step
from laptime.model.record import LaneResult, Record
from laptime.model.symptoms import Operator, Profile
from laptime.model.visible import cells_wide
from laptime.show.figures import fact_figures, roofline_figures
from laptime.show.pages import footnotes
from laptime.show.pages.layout import Column, clean, flow, painted, table_or_sentences, wrap, wrap_all
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import COLUMN_GAP, NARROWEST, PageParts, QuestionPage, Said, View, header
from laptime.show.pages.summaries import lanes_counted, lanes_failed
from laptime.show.pages.words import (
    BYTES_UNIT,
    FLOPS_UNIT,
    duration,
    factor,
    joined,
    over,
    place_words,
    rates,
    short_name,
)

TOP_BELOW_A_RACE = 5
LANES_SHOWN = 3  # on the short page
LONGEST_OPERATOR = 60
TOP_OF_MEMORY = 5
WORTH_A_ROW = 0.01  # share of what the operator with the most memory allocated
LEAST_NAME = 16
ELLIPSIS = "…"
SCOPES = re.compile(r"(?:(?:\w+|\(anonymous namespace\))::)+")
WORKER = re.compile(r"\b(?:\w+Functor|\w+_kernel(?:_cuda)?)\b")  # what a kernel for any operation is made for
OPERATOR_WORD = re.compile(r"\b[A-Za-z_]\w*")
OPENS_IN = "open in https://ui.perfetto.dev or chrome://tracing"
FLOP_UNITS = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))
TOP_ALONE = 15
OVER = {
    "memory": "; more than its memory moves, so some of it stayed in caches",
    "products": "; more than the product that was measured, so it is no limit here",
}


def profiles(record: Record, width: int, top: int = TOP_BELOW_A_RACE, *, color: bool) -> list[list[str]]:
    """Return every lane's profile with its `top` operators, or the reason why it has none."""
    sections: list[list[str]] = []
    for lane in record.lanes:
        absent = lane.absent.get("profile")
        if lane.profile is not None:
            sections.append(_of_lane(lane, lane.profile, width, top, color=color))
        elif absent is not None:
            sections.append(wrap(f"{short_name(lane.name)}: - (profile: {absent.missing})", width, "  "))
    return sections


def _of_lane(lane: LaneResult, profile: Profile, width: int, top: int, *, color: bool) -> list[str]:
    title = f"{short_name(lane.name)}: {profile.steps} steps under {profile.by}"
    cost = f"a step {step(profile.profiled_ms)}, without it {step(profile.plain_ms)} ({factor(profile.cost)} times)"
    lines = [*painted(title, width, "strong", color=color), *wrap(cost, width, "  ")]
    shown = profile.operators[:top]
    lines += _table(lane, profile, shown, width, color=color)
    rest = profile.operators[len(shown) :]
    if not rest:
        others = ""
    else:
        together = sum(operator.own_ms for operator in rest)
        others = f"and {len(rest)} more, {step(together)} together"
    lines += wrap(others, width, "  ")
    known = [
        (operator, operator.memory_bytes)
        for operator in profile.operators
        if not isinstance(operator.memory_bytes, Missing)
    ]
    largest = max((taken for _, taken in known), default=0.0)
    takers = [(taken, operator) for operator, taken in known if taken > 0 and taken >= WORTH_A_ROW * largest]
    most = sorted(takers, key=lambda pair: -pair[0])[:TOP_OF_MEMORY]
    if most:
        memory = flow(
            (f"{cut_middle(operator.name, 40)} {size(taken)}" for taken, operator in most), width, "most memory: "
        )
    else:
        reasons = {
            operator.memory_bytes.missing
            for operator in profile.operators
            if isinstance(operator.memory_bytes, Missing)
        }
        memory = wrap(f"- (memory: {'; '.join(sorted(reasons))})", width, "  ") if reasons and not known else []
    lines += memory
    busy = profile.device_busy
    own = profile.device_ms
    if isinstance(busy, Missing):
        device = f"- (device: {busy.missing})"
    else:
        words = f"device busy {percent(busy)} of the profiled time"
        if not isinstance(own, Missing):
            words += f": {step(own)} a step, {percent(min(1.0, own / profile.plain_ms))} of one without the profiler"
        if isinstance(profile.kernels, Missing) or isinstance(profile.kernel_mean_us, Missing):
            device = words
        else:
            device = (
                f"{words}; {_count(profile.kernels)} kernels a step of {step(profile.kernel_mean_us / 1e3)} on average"
            )
    lines += [] if lane.device.kind == "cpu" else wrap(device, width, "  ")
    lines += [] if profile.work is None and lane.roofline is not None else wrap(_work(profile), width, "  ")
    return [*lines, *wrap_all(profile.notes, width), *_trace(profile, width)]


def _table(lane: LaneResult, profile: Profile, shown: Sequence[Operator], width: int, *, color: bool) -> list[str]:
    """Return the table of operators. Names are shortened in the middle so that it fits."""
    figures: list[Column[Operator]] = [
        *([Column("where", lambda operator: operator.where)] if lane.device.kind != "cpu" else []),
        Column("own time", lambda operator: step(operator.own_ms), right=True),
        Column("share", lambda operator: percent(operator.own_ms / profile.profiled_ms), right=True),
        Column("calls", lambda operator: _count(operator.calls), right=True),
        Column("memory", lambda operator: _bytes(operator.memory_bytes), right=True),
    ]
    taken = sum(
        COLUMN_GAP
        + max(cells_wide(text) for text in (column.title, *(str(column.value(operator)) for operator in shown)))
        for column in figures
    )
    least = max(width - taken, LEAST_NAME)
    names: Column[Operator] = Column("operator", lambda operator: cut_middle(kernel_name(clean(operator.name)), least))
    return table_or_sentences([names, *figures], shown, width, color=color)


def kernel_name(name: str) -> str:
    """Return what a card's kernel is and computes, without the types and arguments of C++ around it."""
    outer, is_template, inner = SCOPES.sub("", name.removeprefix("void ")).partition("<")
    if not name.startswith("void ") or not is_template:
        return name
    types = inner.rpartition(">(")[0] or inner
    made_for = WORKER.search(types) or OPERATOR_WORD.search(types)
    return outer if made_for is None else f"{outer}: {made_for[0]}"


def cut_middle(name: str, places: int) -> str:
    """Shorten a name in the middle: kernels' names begin alike, and what they compute is at the end."""
    if cells_wide(name) <= places:
        return name
    head = (places - 1) // 2
    tail = places - 1 - head
    return name[:head] + ELLIPSIS + name[len(name) - tail :]


def _work(profile: Profile) -> str:
    if profile.work is None:
        reason = profile.absent.get("work")
        return f"- (work of a step: {reason.missing})" if reason else ""
    flops = profile.work.flops
    per_unit, unit = next((flop_unit for flop_unit in FLOP_UNITS if flops >= flop_unit[0]), (1.0, "FLOP"))
    return f"work of a step: {number(flops / per_unit)} {unit} in products, {size(profile.work.bytes)} in and out"


def _trace(profile: Profile, width: int) -> list[str]:
    """Return the trace's file name, unbroken at any width so that it can be copied."""
    if isinstance(profile.trace, Missing):
        return wrap(f"- (trace: {profile.trace.missing})", width, "  ")
    line = f"trace: {clean(profile.trace)} ({OPENS_IN})"
    return (
        [line] if cells_wide(line) <= width else [f"trace: {clean(profile.trace)}", *wrap(f"  {OPENS_IN}", width, "  ")]
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if isfinite(value) and abs(value - round(value)) < 0.005 else number(value)


def _bytes(value: float | Missing) -> str:
    if isinstance(value, Missing):
        return "-"
    return "0" if not value else f"{'-' * (value < 0)}{size(abs(value))}"


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    reasons = [(lane, lane.absent.get("profile")) for lane in record.lanes if lane.profile is None]
    absent = [f"{short_name(lane.name)} has no profile: {why.missing}" for lane, why in reasons if why is not None]
    # All that the record holds, in sections
    width = view.width
    color = view.color
    details = [
        header(record, width, color=color),
        *profiles(record, width, TOP_ALONE, color=color),
        limit_lines(record, width),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
    ]
    done = sum(lane.profile is not None for lane in record.lanes)
    lanes = len(record.lanes)
    count = str(done) if done == lanes else f"{done} of {lanes}"
    sentence = f"{count} lane{'s' * (lanes != 1)} profiled, {duration(record.elapsed_s)}."
    closing = sentence if record.status == "finished" else f"{footnotes.status_words(record)}: {sentence}"
    return PageParts(
        answer=[Said(f"{place_words(record)}: {_answer(record)}")],
        figures=profile_figures(record, view.inner),
        notes=[*footnotes.failure_sentences(record), *absent, *footnotes.doubts(record)],
        done=closing,
        details=details,
        glance=glance_of(record),
    )


def glance_of(record: Record) -> Glance | None:
    """Return the share of the slowest operator on the first lane that was profiled, and of the others as facts."""
    slowest = [(lane, lane.profile, lane.profile.operators[0]) for lane in record.lanes
               if lane.profile is not None and lane.profile.operators]  # fmt: skip
    if not slowest:
        return None
    shares = [percent(over(most.own_ms, profile.profiled_ms)) for _, profile, most in slowest]
    names = [cut_middle(kernel_name(clean(most.name)), LONGEST_OPERATOR) for *_, most in slowest]
    (lane, profile, _), *others = slowest
    facts = [
        GlanceFact(f"{step(profile.plain_ms)} a step", "without the profiler"),
        GlanceFact(f"{factor(profile.cost)} times as long", f"under the profiler, in {profile.steps} steps"),
    ]
    facts += [
        GlanceFact(f"{share} on {short_name(other.name)}", name)
        for (other, *_), share, name in zip(others, shares[1:], names[1:], strict=True)
    ]
    says = f"{names[0]} takes the most of a step on {short_name(lane.name)}."
    return Glance(shares[0], "of a step", says, tuple(facts[:4]))


def _answer(record: Record) -> str:
    """Return the operator that takes most of a step, for each lane with a profile."""
    slowest = [(lane, lane.profile, lane.profile.operators[0]) for lane in record.lanes
            if lane.profile is not None and lane.profile.operators]  # fmt: skip
    if not slowest:
        return "no lane has a profile."
    words = [
        f"{cut_middle(kernel_name(clean(most.name)), LONGEST_OPERATOR)} takes"
        f" {percent(over(most.own_ms, profile.profiled_ms))}"
        f" of a step on {short_name(lane.name)} ({step(profile.plain_ms)})"
        for lane, profile, most in slowest
    ]
    return f"{joined(words)}."


def profile_figures(record: Record, view: View, lanes: int = LANES_SHOWN) -> list[str]:
    """Return the operators with the most time of the first lanes, and where their traces are."""
    lines: list[str] = []
    shown = [(lane, lane.profile) for lane in record.lanes if lane.profile is not None]
    for lane, profile in shown[:lanes]:
        if len(record.lanes) > 1:
            lines += painted(short_name(lane.name), view.width, "strong", color=view.color)
        lines += _table(lane, profile, profile.operators[:TOP_BELOW_A_RACE], view.width, color=view.color)
        lines += [] if isinstance(profile.trace, Missing) else _trace(profile, view.width)
    return lines


LIMIT_HEAD, LIMIT_INDENT = "limit: ", "  "


def limit_lines(record: Record, width: int) -> list[str]:
    """Return how near each lane comes to its limit, with a hint if a profiled lane's device was not measured."""
    reasons = [lane.absent.get("roofline") for lane in record.lanes]
    limits = [line for line in map(_lane_words, record.lanes) if line]
    if NOT_MEASURED in reasons:
        limits.append(NOT_MEASURED.missing)
    heads = [LIMIT_HEAD, *[LIMIT_INDENT] * len(limits)]
    return [
        line for head, words in zip(heads, limits, strict=False) for line in wrap(head + words, width, LIMIT_INDENT)
    ]


def _lane_words(lane: LaneResult) -> str:
    if lane.roofline is not None and {lane.roofline.precision, COPY_EXERCISE} <= lane.roofline.peaks.peaks.keys():
        return f"{short_name(lane.name)} {_near(lane.roofline)}"
    why = lane.absent.get("roofline", NOT_MEASURED)
    return "" if why == NOT_MEASURED else f"{short_name(lane.name)} - ({why.missing})"


def _near(found: Roofline) -> str:
    """Return a lane's share of its limit: first the side that binds, with its rates, then the other."""
    peaks = found.peaks.peaks
    sides = {
        "products": f"{rates((found.flops_per_s, peaks[found.precision].best_per_s), FLOPS_UNIT)} {found.precision}",
        "memory": rates((found.bytes_per_s, peaks[COPY_EXERCISE].best_per_s), BYTES_UNIT),
    }
    bound = sides.pop(found.binds)
    (free,) = sides.values()
    over = OVER[found.binds] if found.share > 1 else ""
    allows = "allow" if found.binds == "products" else "allows"
    return f"{percent(found.share)} of what its {found.binds} {allows} ({bound}; {free}{over})"


# The figures of a profile: the operators that take a step's time, on each lane.

OPERATORS_MOST = 15


def figures(record: Record) -> list[Figure]:
    """Return all figures of a profile."""
    profiled = [figure for lane in record.lanes if lane.profile is not None for figure in _of(lane, lane.profile)]
    return [*profiled, *folded(*roofline_figures(record.lanes), *fact_figures(record))]


def _of(lane: LaneResult, profile: Profile) -> list[Figure]:
    shown = profile.operators[:OPERATORS_MOST]
    bars = tuple(
        Bar(
            kernel_name(operator.name),
            operator.own_ms,
            words=f"{number(operator.own_ms)} ms, {number(operator.calls)} calls, {operator.where}",
        )
        for operator in shown
    )
    busy = "" if isinstance(profile.device_busy, Missing) else f" The device was busy {percent(profile.device_busy)}."
    says = f"Own time a step in {profile.steps} steps under {profile.by}, {profile.cost:.2f} times a plain step.{busy}"
    return [Figure(f"Operators of {short_name(lane.name)}", Bars("ms a step", bars), says)] if bars else []


def summary(record: Record) -> list[str]:
    return [lanes_counted(record), *_heaviest_operator(record), *lanes_failed(record)]


def _heaviest_operator(record: Record) -> list[str]:
    """Return the operator that takes most of a step, on the first lane with a profile."""
    profile = next((lane.profile for lane in record.lanes if lane.profile is not None), None)
    if profile is None or not profile.operators:
        return ["no profile"]
    most = profile.operators[0]
    return [f"profile, most in {most.name[:40]} ({100 * most.own_ms / profile.profiled_ms:.0f} % of a step)"]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
