"""The page of inference, and the display while it runs: latency, throughput, and the time to a first answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from laptime.model.figure import (
    Axis,
    Bar,
    Bars,
    Curve,
    Factors,
    Figure,
    Glance,
    GlanceFact,
    Plane,
    ShownFactor,
    are_far_apart,
    folded,
)
from laptime.model.quantities import Estimate, Missing, number, step
from laptime.model.record import InferAnswer, InferFactor, InferLane, Parity, Progress, Record, Wait, inference_of
from laptime.show.figures import fact_figures, reading_figures
from laptime.show.pages import footnotes
from laptime.show.pages.lanes import ends_words, money_words, spoken_name, usage_lines
from laptime.show.pages.layout import SEPARATOR, Cell, Column, flow, table_or_sentences, wrap
from laptime.show.pages.page import (
    NARROWEST,
    PageParts,
    QuestionPage,
    RecordColumn,
    Row,
    Said,
    View,
    fit_table,
    header,
    live_page,
    quiet,
)
from laptime.show.pages.summaries import factor_named, lanes_counted, lanes_failed
from laptime.show.pages.words import (
    NOT_SAME,
    about,
    above_one,
    duration,
    factor,
    joined,
    place_words,
    ratio_cell,
    short_name,
    spread,
    tiny,
)

INFERENCE_HOW = (
    "inference: one call goes from inputs in the host's memory to answers in the host's memory, in evaluation mode, "
    "with no gradient; percentiles are of single calls, each between two fences"
)
LANE: RecordColumn[InferLane] = RecordColumn("lane", lambda lane, _: short_name(lane.lane), least=14)


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    # The table of single calls, with each lane's highest throughput
    lanes = inference_of(record).lanes
    columns = [*SHORT_COLUMNS, RecordColumn(f"most {record.workload.items}/s", _most, leaves=1)]
    rows = fit_table(columns, lanes, record, view.inner.width, color=view.inner.color, failed=_failure)[0]
    # Whether all lanes answer as the reference does, in one sentence
    clauses = _answers_clauses(record)
    answers_sentence = f"Same answers: {clauses}." if clauses else ""
    answers = inference_of(record)
    heats = [sum(heat.process.status == "ok" for heat in lane.heats) for lane in answers.lanes]
    elapsed = duration(record.elapsed_s)
    if record.status != "finished":
        planned = answers.pace.heats * len(answers.lanes)
        closing = f"{footnotes.status_words(record)}: {sum(heats)} of {planned} heats kept, {elapsed}."
    else:
        calls = sum(lane.calls for lane in answers.lanes)
        fewest = min(heats, default=0)
        most = max(heats, default=0)
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        turns = " in turns" if any(heat.call_turns for lane in answers.lanes for heat in lane.heats) else ""
        short = ""
        if 0 < most < answers.pace.heats:
            short = f" The budget of {duration(record.ask.budget_s)} allowed no more of {answers.pace.heats}."
        closing = f"{count} heat{'s' * (most != 1)} each{turns}, {calls:,} single calls, {elapsed}.{short}"
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {_answer(record)}")],
        figures=rows,
        notes=_notes(record),
        done=" ".join(filter(None, [answers_sentence, closing])),
        details=_details(record, view),
        glance=glance_of(record),
    )


def glance_of(record: Record) -> Glance | None:
    """Return the factor of single calls, or the middle call of the lane that answers fastest where there is none."""
    lanes = [(lane, lane.p50_ms) for lane in inference_of(record).lanes if lane.p50_ms is not None]
    if not lanes:
        return None
    lane, middle = min(lanes, key=lambda pair: pair[1].median)
    rates = [
        (batch_result.items_per_s.median, batch_result.batch)
        for batch_result in lane.batches
        if batch_result.items_per_s is not None
    ]
    facts = []
    for other, found in lanes[:2]:
        tail = "" if other.p99_ms is None else f"; 99 of 100 within {step(other.p99_ms.median)}"
        facts.append(GlanceFact(f"{step(found.median)} a call", f"{short_name(other.lane)}{tail}"))
    if rates:
        best, batch = max(rates)
        facts.append(GlanceFact(f"{number(best)} {record.workload.items}/s", f"{short_name(lane.lane)}, batch {batch}"))
    facts.append(GlanceFact("Same answers", _answers_clauses(record)))
    fair = [
        infer_factor
        for infer_factor in inference_of(record).factors
        if infer_factor.batch is None and infer_factor.same_work is not False
    ]
    fastest = max(fair, key=lambda infer_factor: infer_factor.ratio, default=None)
    if fastest is not None and fastest.ratio > 0:
        ratio, low, high = above_one(fastest.ratio, fastest.low, fastest.high)
        if fastest.verdict == "not distinguishable":  # the ratio is that of the table, whichever seems faster
            ratio = fastest.ratio
            low = fastest.low
            high = fastest.high
        ends = "one pair, no interval"
        if not isinstance(low, Missing) and not isinstance(high, Missing):
            ends = f"{factor(low, ratio)}-{factor(high, ratio)} at 95 %"
        return Glance(f"{factor(ratio)}x", ends, _answer(record), tuple(facts))
    half = spread(middle)
    ends = f"{half} at 95 %" if half.startswith("±") else half
    return Glance(f"{number(middle.median)} ms", ends, _answer(record), tuple(facts))


def _answer(record: Record) -> str:
    """Return which lane answers faster, by how much, and how long a call takes."""
    lanes = [lane for lane in inference_of(record).lanes if lane.p50_ms is not None]
    if not lanes:
        return "no call was answered."
    fair = [
        infer_factor
        for infer_factor in inference_of(record).factors
        if infer_factor.batch is None and infer_factor.same_work is not False
    ]
    fastest = max(fair, key=lambda infer_factor: infer_factor.ratio, default=None)
    count = lanes[0].items_a_call or 1
    items = record.workload.items
    call = f"one {items.removesuffix('s')}" if count == 1 else f"a call of {count} {items}"
    if fastest is None:
        return f"{short_name(lanes[0].lane)} answers {call} in {_latency_words(lanes[0].p50_ms)} (median)."
    names = (fastest.lane, fastest.reference) if fastest.ratio >= 1 else (fastest.reference, fastest.lane)
    faster = next((lane for lane in lanes if lane.lane == names[0]), lanes[0])
    answers = f"{spoken_name(*names)} answers {call} in {_latency_words(faster.p50_ms)} (median)"
    return f"{answers}, {_factor_words(fastest, spoken_name(*reversed(names)))}."


def _factor_words(found: InferFactor, other: str) -> str:
    ratio, low, high = above_one(found.ratio, found.low, found.high)
    if isinstance(low, Missing) or isinstance(high, Missing):
        return f"{factor(ratio)}x as fast as {other} (one pair, no interval)"
    if found.verdict == "not distinguishable":
        names = f"{short_name(found.lane)} and {short_name(found.reference)}"
        return f"and no difference was found between {names} (ratio {ends_words(found)})"
    return f"{factor(ratio)}x as fast as {other} ({factor(low, ratio)}-{factor(high, ratio)})"


def _most(lane: InferLane, _record: Record) -> str:
    rates = [(batch.items_per_s.median, batch.batch) for batch in lane.batches if batch.items_per_s is not None]
    return f"{number(max(rates)[0])} at batch {max(rates)[1]}" if rates else "-"


def _notes(record: Record) -> list[str]:
    """Return what a reader must know, the most important first."""
    lanes = inference_of(record).lanes
    ended = [(lane, heat.process.dnf) for lane in lanes for heat in lane.heats[-1:] if heat.process.dnf is not None]
    failed = [f"{short_name(lane.lane)} did not finish, in {dnf.phase}: {dnf.reason}" for lane, dnf in ended if dnf]
    waits = [(short_name(lane.lane), lane.wait) for lane in lanes if lane.wait is not None]
    first = joined([f"{about(wait.first_answer_s)} on {name}" for name, wait in waits])
    return list(
        filter(
            None,
            [
                *failed,
                *record.answer.alone,
                footnotes.disturbed(_flags(record)),
                *money_words(record),
                f"A program that starts for one answer waits {first}." if first else "",
                _published(record),
            ],
        )
    )


def _answers_clauses(record: Record) -> str:
    lanes = [lane for lane in record.lanes if lane.step_ms is not None or lane.parity.status == "differs"]
    clauses = []
    for status, words in (("differs", "NOT by"), ("unproven", "not proven for")):
        names = [f"{short_name(lane.name)} ({lane.parity.reason})" for lane in lanes if lane.parity.status == status]
        clauses += [f"{words} {joined(names)}"] if names else []
    same = [short_name(lane.name) for lane in lanes if lane.parity.status == "same"]
    who = "" if len(same) == len(lanes) else f" for {joined(same)}"
    return "; ".join([*([f"proven against float64{who}"] if same else []), *clauses])


def _details(record: Record, view: View) -> list[list[str]]:
    """Return all that the record holds, in sections."""
    width = view.width
    color = view.color
    lanes = inference_of(record).lanes
    failures = [f"{short_name(lane.lane)} batch {batch.batch}: {batch.reason}"
            for lane in lanes for batch in lane.batches if batch.reason]  # fmt: skip
    # The table of percentiles of single calls, and the factors between their medians
    table, _ = fit_table(CALL_COLUMNS, inference_of(record).lanes, record, width, color=color, failed=_failure)
    latency = ["latency of one call:", *table]
    # A line a lane with its factors by batch
    batch_lines: list[str] = []
    for lane in lanes:
        mine = [
            infer_factor
            for infer_factor in inference_of(record).factors
            if infer_factor.lane == lane.lane and infer_factor.batch is not None
        ]
        if mine and all(infer_factor.same_work is not False for infer_factor in mine):
            parts = [f"batch {infer_factor.batch} {_factor(infer_factor).text}" for infer_factor in mine]
            start = f"{short_name(lane.lane)} in {record.workload.items}/s against {short_name(mine[0].reference)}: "
            batch_lines += flow(parts, width, start)
    return [
        header(record, width, color=color),
        wrap(INFERENCE_HOW, width, "  "),
        latency,
        _throughput(record, width, color=color),
        batch_lines,
        _waits(record, width, color=color),
        usage_lines(record, width, color=color),
        _same_answers(record, width),
        *(footnotes.heat_failures(lane.lane, [heat.process.dnf for heat in lane.heats], width) for lane in lanes),
        *(wrap(remark, width, "  ") for remark in [*failures, *_remarks(record)] if remark),
        quiet(wrap(_published(record), width, "  "), color=color) if _published(record) else [],
    ]


def live_lines(record: Record, progress: Progress, view: View) -> list[str]:
    """Return a running record: a row a lane with its single call so far, and what it does now."""
    rows = []
    for lane in inference_of(record).lanes:
        call = None if lane.p50_ms is None else lane.p50_ms.median
        figures = (
            Cell("" if call is None else f"{step(call)} a call"),
            Cell(progress.lanes.get(lane.lane, ""), "quiet"),
        )
        rows.append(Row(short_name(lane.lane), call, figures, _failure(lane) if lane.heats else ""))
    return live_page(joined([*record.trainings]), progress, rows, view)


def _throughput(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table of items per second by batch size."""
    lanes = inference_of(record).lanes
    sizes = sorted({batch.batch for lane in lanes for batch in lane.batches})
    columns = [LANE.of(record, breaks=True)]
    columns += [Column(f"batch {size}", partial(_rate, size=size), right=True) for size in sizes]
    title = wrap(f"{record.workload.items}/s:", width, "  ")
    table = table_or_sentences(columns, lanes, width, color=color, failed=_failure)
    return [*title, *table] if sizes else []


def _rate(lane: InferLane, size: int) -> Cell:
    found = next((batch for batch in lane.batches if batch.batch == size), None)
    if found is None:
        return Cell("-")
    if found.items_per_s is not None:
        return Cell(number(found.items_per_s.median))
    return Cell("DNF" if found.is_tried else "left out", "bad")


def _waits(record: Record, width: int, *, color: bool) -> list[str]:
    """Return how long a program takes that starts for one answer, and how long a further answer takes."""
    waits = [(short_name(lane.lane), lane.wait) for lane in inference_of(record).lanes if lane.wait is not None]
    columns: list[Column[tuple[str, Wait]]] = [
        Column("lane", lambda pair: pair[0], least=14),
        Column("process", lambda pair: _part(pair[1].process_s), right=True),
        Column("import", lambda pair: _part(pair[1].import_s), right=True),
        Column("network", lambda pair: _part(pair[1].network_s), right=True),
        Column("first call", lambda pair: _part(pair[1].first_call_s), right=True),
        Column("first answer", lambda pair: _part(pair[1].first_answer_s), right=True),
        Column(
            "a further one",
            lambda pair: "-" if isinstance(pair[1].further_call_s, Missing) else step(pair[1].further_call_s * 1e3),
            right=True,
        ),
    ]
    table = table_or_sentences(columns, waits, width, color=color)
    return [*wrap("A program that starts for one answer waits:", width, "  "), *table] if waits else []


def _part(seconds: float | Missing) -> str:
    return "-" if isinstance(seconds, Missing) else about(seconds)


def _failure(lane: InferLane) -> str:
    if any(heat.calls_ns for heat in lane.heats) or lane.wait is not None:
        return ""
    return "DNF" if lane.heats else "not asked yet"


def _latency_words(estimate: Estimate | None) -> str:
    """Return a time, with half its interval if it has one."""
    return "-" if estimate is None else f"{step(estimate.median)} {spread(estimate)}".rstrip()


def _median_words(estimate: Estimate | None) -> str:
    return "-" if estimate is None else step(estimate.median)


def _against(lane: InferLane, record: Record) -> Cell:
    """Return the factor of a lane's single calls against the first lane, unless the answers of one are wrong."""
    own = next((lane_result for lane_result in record.lanes if lane_result.name == lane.lane), None)
    if own is None:
        return Cell("-")
    first = next((lane_result for lane_result in record.lanes if lane_result.step_ms is not None), own)
    if "differs" in {own.parity.status, first.parity.status}:
        return Cell(NOT_SAME, "bad")
    factors = inference_of(record).factors
    found = next(
        (infer_factor for infer_factor in factors if infer_factor.lane == lane.lane and infer_factor.batch is None),
        None,
    )
    if found is None:
        return Cell("1" if lane.lane == first.name and own.step_ms is not None else "-")
    return _factor(found)


def _factor(found: InferFactor) -> Cell:
    return ratio_cell(found.ratio, found.low, found.high, found.verdict, "one pair, no interval")


CALL_COLUMNS: list[RecordColumn[InferLane]] = [
    LANE,
    RecordColumn("p50", lambda lane, _: _latency_words(lane.p50_ms), right=True),
    RecordColumn("p95", lambda lane, _: _latency_words(lane.p95_ms), right=True),
    RecordColumn("p99", lambda lane, _: _latency_words(lane.p99_ms), right=True),
    RecordColumn("against first", _against, least=19),
]
SHORT_COLUMNS: list[RecordColumn[InferLane]] = [
    LANE,
    RecordColumn("p50", lambda lane, _: _latency_words(lane.p50_ms), right=True),
    RecordColumn("p95", lambda lane, _: _median_words(lane.p95_ms), right=True, leaves=3),
    RecordColumn("p99", lambda lane, _: _median_words(lane.p99_ms), right=True, leaves=2),
    RecordColumn("against first", _against, least=19),
]


def _remarks(record: Record) -> list[str]:
    """Return what a reader must know before trusting the figures."""
    remarks = [
        *record.answer.alone,
        *(
            f"{short_name(lane.lane)}: a call is of {lane.items_a_call} items, the only batch that it takes."
            for lane in inference_of(record).lanes
            if lane.items_a_call not in {None, 1}
        ),
    ]
    remarks += [_steadiness(lane) for lane in inference_of(record).lanes]
    return [*remarks, footnotes.disturbed(_flags(record)), *footnotes.notes(record)]


def _flags(record: Record) -> list[str | None]:
    """Return the flag of every window. The single calls of a heat count as one window."""
    heats = [heat for lane in inference_of(record).lanes for heat in lane.heats]
    calls = [heat.calls_flag for heat in heats if heat.calls_ns]
    return [*calls, *(window.flag for heat in heats for run in heat.batches for window in run.windows)]


def _steadiness(lane: InferLane) -> str:
    odd = [f"{kind} in {count} of {sum(lane.steady.values())} heats"
           for kind, count in sorted(lane.steady.items()) if kind != "flat"]  # fmt: skip
    return f"{short_name(lane.lane)}: single calls were {', '.join(odd)}." if odd else ""


def _published(record: Record) -> str:
    """Return the published times for one item, with the times of ours to compare them with."""
    results = record.published.results if record.published else ()
    quotes = [f"{result.device} {result.infer_one_s:g} s" for result in results if result.infer_one_s is not None]
    if not quotes:
        return ""
    sentence = f"Published for one item: {SEPARATOR.join(quotes)}."
    lane = next((infer_lane for infer_lane in inference_of(record).lanes if infer_lane.wait is not None), None)
    if lane is None or lane.wait is None or isinstance(lane.wait.further_call_s, Missing):
        return sentence
    first = about(lane.wait.first_answer_s)
    further = step(lane.wait.further_call_s * 1e3)
    return f"{sentence} Here the first answer takes {first} ({short_name(lane.lane)}), a further one {further}."


def _same_answers(record: Record, width: int) -> list[str]:
    """Return whether each lane answers as the reference does, and by what measure."""
    lanes_of: dict[str, list[str]] = {}
    for lane in record.lanes:
        if lane.step_ms is not None or lane.parity.status == "differs":
            lanes_of.setdefault(_parity_words(lane.parity), []).append(short_name(lane.name))
    who = len(lanes_of) > 1 or len(record.lanes) > 1
    return flow(
        (f"{', '.join(names)} {words}" if who else words for words, names in lanes_of.items()), width, "same answers: "
    )


def _parity_words(parity: Parity) -> str:
    if parity.status != "same":
        return f"{'no' if parity.status == 'differs' else 'unproven'}: {parity.reason or 'no reason given'}"
    worst = "" if parity.worst is None or parity.tolerance is None else (
        f" ({tiny(parity.worst)} from float64, {tiny(parity.tolerance)} allowed)"
    )  # fmt: skip
    strays = "" if parity.strays is None else f"; {parity.strays_precision} strays {tiny(parity.strays)}"
    return f"yes{worst}{strays}"


# The figures of inference: factors, how long a call takes, and how many items per second at each batch size.


def figures(record: Record) -> list[Figure]:
    """Return all figures of inference, the most telling first."""
    more = folded(*reading_figures(record), *fact_figures(record))
    # The percentiles of single calls, each with its interval
    lanes = inference_of(record).lanes
    bars = tuple(bar for lane in lanes for bar in _bars(lane))
    is_log = are_far_apart(bars)
    says = "The middle call (p50), and those that 95 and 99 of 100 calls do not exceed, with 95 % intervals."
    says += " Shorter is faster." + " The scale is logarithmic." * is_log
    calls = [Figure("One call", Bars("ms", bars, is_log=is_log), says)] if lanes else []
    return [*_factor_figures(record), *calls, *_throughput_figure(record), *more]


def _factor_figures(record: Record) -> list[Figure]:
    """Return how many times as fast each lane answers as the first, in single calls and at each batch."""
    fair = [
        infer_factor
        for infer_factor in inference_of(record).factors
        if infer_factor.same_work is not False and infer_factor.ratio > 0
    ]
    if not fair:
        return []
    rows = []
    for infer_factor in fair:
        low, high = infer_factor.drawn_ends
        ends = (
            ""
            if low is None or high is None
            else f" ({factor(low, infer_factor.ratio)}-{factor(high, infer_factor.ratio)})"
        )
        lane = short_name(infer_factor.lane)
        what = "one call" if infer_factor.batch is None else f"batch {infer_factor.batch}"
        rows.append(
            ShownFactor(
                f"{lane}, {what}", infer_factor.ratio, low, high, words=f"{factor(infer_factor.ratio)}x{ends}", of=lane
            )
        )
    reference = short_name(fair[0].reference)
    title = f"How sure is {factor(fair[0].ratio)}x?" if len(fair) == 1 else f"How many times as fast as {reference}?"
    says = (
        f"In single calls, and in {record.workload.items} per second of each batch. The line is the estimate, the band"
    )
    return [Figure(title, Factors(reference, tuple(rows)), f"{says} its 95 % interval.")]


def _bars(lane: InferLane) -> list[Bar]:
    name = short_name(lane.lane)
    if lane.p50_ms is None:
        ended = [heat.process.dnf.reason for heat in lane.heats if heat.process.dnf is not None]
        return [Bar(name, None, words="; ".join(ended) or "no call was answered", kind="failed")]
    percentiles = [
        (word, estimate)
        for word, estimate in (("p50", lane.p50_ms), ("p95", lane.p95_ms), ("p99", lane.p99_ms))
        if estimate
    ]
    return [
        Bar(
            f"{name}, {word}",
            estimate.median,
            *estimate.drawn_ends,
            f"{step(estimate.median)} {spread(estimate)}".rstrip(),
            of=name,
        )
        for word, estimate in percentiles
    ]


def _throughput_figure(record: Record) -> list[Figure]:
    curves = []
    for lane in inference_of(record).lanes:
        known = [(batch.batch, batch.items_per_s) for batch in lane.batches if batch.items_per_s]
        points = tuple((float(batch), rate.median) for batch, rate in known)
        curves += [Curve(short_name(lane.lane), points, "marked", ends=tuple(rate.ends for _, rate in known))]
    shown = tuple(curve for curve in curves if curve.points)
    across = Axis("batch", is_log=True, is_whole=True)
    up = Axis(f"{record.workload.items} per second", from_zero=True)
    says = "A dot is a batch that was measured; the upright line through it is its 95 % interval."
    return [Figure("Throughput by batch", Plane(across, up, shown), says)] if shown else []


def summary(record: Record) -> list[str]:
    return [lanes_counted(record), *_fastest_answer(inference_of(record)), *lanes_failed(record)]


def _fastest_answer(infer: InferAnswer) -> list[str]:
    """Return the fastest lane's factor, if it answers faster than the reference lane."""
    single = [factor for factor in infer.factors if factor.batch is None and factor.same_work is not False]
    faster = [factor for factor in single if factor.verdict == "faster"]
    if not faster:
        return ["answers"]
    best = max(faster, key=lambda comparison: comparison.ratio)
    return [f"answers, {factor_named(best, best.ratio)}"]


PART = QuestionPage(page_parts, summary, live_lines, figures)
