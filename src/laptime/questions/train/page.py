"""The page of whole trainings: which lane trains faster, what it learned, and what to know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from laptime.model.figure import BARS_FAR_APART, Axis, Bar, Bars, Curve, Figure, Glance, GlanceFact, Plane, folded
from laptime.model.protocol import Evaluation, FullRun, LapFactor, LapResult, Moment, Reached, Score
from laptime.model.quantities import Missing, step
from laptime.model.record import LaneResult, Progress, Record, TrainingAnswer, training_of
from laptime.show.figures import fact_figures, proof_figures, reading_figures
from laptime.show.pages import footnotes
from laptime.show.pages.lanes import (
    money_words,
    proof_at_a_glance,
    proof_lines,
    proof_sentence,
    published_line,
    spoken_name,
    usage_lines,
)
from laptime.show.pages.layout import Cell, Column, flow, lay_out_table, painted, wrap, wrap_all
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import (
    NARROWEST,
    PageParts,
    QuestionPage,
    RecordColumn,
    Row,
    Said,
    View,
    bar_rows,
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
    faster_or_slower,
    four_places,
    joined,
    over,
    place_words,
    ratio_cell,
    short_name,
    times_as_fast,
    training_lap,
)


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    # What a reader must know, the most important first
    notes = [
        *_ended_runs(record),
        *[footnotes.finding_words(finding) for finding in record.findings if finding.rule == "learning"],
        *footnotes.doubts(record),
        *footnotes.notes(record),
        *money_words(record),
        *filter(None, [first_lap_words(record), reached_words(record), published_laps(record, view.width)]),
    ]
    full = training_of(record)
    laps = sum(map(count_checkpoints, full.runs))
    elapsed = duration(record.elapsed_s)
    if _is_whole(record):
        closing = f"{laps:,} lap{'s' * (laps != 1)}, {elapsed}."
    else:
        wanted = full.protocol.laps * full.protocol.seeds * len(record.lanes)
        begin = "" if record.status == "finished" else f"{footnotes.status_words(record)}: "
        closing = f"{begin}{laps:,} of {wanted:,} laps kept, {elapsed}."
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {_answer(record)}")],
        figures=_bars(record, view.inner),
        notes=notes,
        done=" ".join(filter(None, [proof_sentence(record), closing])),
        details=training_details(record, view),
        command="laptime show" if _is_whole(record) else "to go on: laptime resume",
        glance=glance_of(record),
    )


def _answer(record: Record) -> str:
    """Return which lane trained faster and by how much or, of a single lane, how long it took."""
    full = training_of(record)
    trained = [lane for lane in record.lanes if runs_of(record, lane.name)]
    if not trained:
        return "no lap was trained."
    count = full.protocol.laps
    laps = f"{count:,} lap{'s' * (count != 1)}"
    fair = [(lap_factor, lap_factor.later_laps) for lap_factor in full.factors if lap_factor.same_work is not False]
    known = [(lap_factor, ratio) for lap_factor, ratio in fair if isinstance(ratio, float)]
    if not known:
        whole = all(total(lane, record).style == "" for lane in trained)
        times = joined([f"{total(lane, record).text} on {short_name(lane.name)}" for lane in trained])
        return f"{laps} took {times}." if whole else f"not finished; trained are {times}."
    fastest, ratio = max(known, key=lambda pair: pair[1])
    names = (fastest.lane, fastest.reference) if ratio >= 1 else (fastest.reference, fastest.lane)
    faster = spoken_name(names[0], names[1])
    slower = spoken_name(names[1], names[0])
    totals = {lane.name: total(lane, record).text for lane in trained}
    took = f"{totals.get(names[0], '-')} against {totals.get(names[1], '-')}"
    how_much = f"{factor(max(ratio, over(1, ratio)))}x as fast as {slower}{_between(fastest, ratio)}"
    a_lap = {lane.name: later_lap_words(lane, record) for lane in trained}
    later = f"a later lap takes {a_lap.get(names[0], '-')} against {a_lap.get(names[1], '-')}"
    return f"{faster} trains {how_much}: {later}; {'both laps' if count == 2 else f'all {laps}'} took {took}."


def glance_of(record: Record) -> Glance | None:
    """Return by what factor the faster lane trains or, of lanes that are not compared, what the first one takes."""
    full = training_of(record)
    trained = [lane for lane in record.lanes if runs_of(record, lane.name)]
    if not trained:
        return None
    facts = []
    for lane in trained[:3]:
        accuracy = final_score_words(lane, record, "accuracy")
        learned = "" if accuracy == "-" else f", accuracy {accuracy}"
        facts.append(GlanceFact(short_name(lane.name), f"{total(lane, record).text}{learned}"))
    facts.append(GlanceFact("Same work", proof_at_a_glance(record)))
    fair = [(lap_factor, lap_factor.later_laps) for lap_factor in full.factors if lap_factor.same_work is not False]
    known = [(lap_factor, ratio) for lap_factor, ratio in fair if isinstance(ratio, float)]
    sentence = _answer(record)
    if not known:
        place = f"on {short_name(trained[0].name)}"
        return Glance(total(trained[0], record).text, place, sentence[:1].upper() + sentence[1:], tuple(facts))
    found, ratio = max(known, key=lambda pair: pair[1])
    ends = _between(found, ratio).strip(" ()") + " at 95 %" * (found.ends is not None)
    return Glance(f"{factor(max(ratio, over(1, ratio)))}x", ends, sentence, tuple(facts))


def _between(found: LapFactor, ratio: float) -> str:
    size, low, high = above_one(ratio, found.low, found.high)
    if isinstance(low, Missing) or isinstance(high, Missing):
        return " (one training of each)"
    return f" ({factor(low, size)}-{factor(high, size)})"


def _bars(record: Record, view: View) -> list[str]:
    """Return a row a lane: the time of its later laps as a bar, all laps, and what it learned."""
    rows = []
    for lane in record.lanes:
        trained = runs_of(record, lane.name)
        later = [lap.train_s for run in trained for lap in run.laps if not lap.fresh]
        whole = total(lane, record) if trained else Cell("")
        against = against_first_lane(lane, record)
        accuracy = final_score_words(lane, record, "accuracy") if ends_with(record) else "-"
        figures = (
            Cell(f"{later_lap_words(lane, record)} a lap" if later else ""),
            Cell("") if against.text in {"1", "-"} else replace(against, text=against.brief or against.text),
            replace(whole, text=f"{whole.text} in all" if whole.text and not whole.style else whole.text),
            Cell("" if accuracy == "-" else f"{ends_with(record)} accuracy {accuracy}"),
        )
        failed = "" if trained else "DNF" if lane.status == "dnf" else "not trained"
        rows.append(Row(short_name(lane.name), mean(later), figures, failed))
    return bar_rows(rows, view)


def _ended_runs(record: Record) -> list[str]:
    """Return why trainings ended early, a sentence each."""
    full = training_of(record)
    ended = [(run, run.process.dnf) for run in full.runs if run.process.dnf is not None]
    sentences = [
        f"{training_name(run, full)} did not finish, in {dnf.phase}: {dnf.reason}"
        for run, dnf in ended
        if dnf is not None
    ]
    lanes = {run.process.lane for run, _ in ended}
    others = [lane for lane in record.lanes if lane.status == "dnf" and lane.name not in lanes]
    return [*sentences, *(f"{short_name(lane.name)} did not finish: {lane.reason}" for lane in others)]


def _is_whole(record: Record) -> bool:
    return record.status == "finished" and all(run.process.status == "ok" for run in training_of(record).runs)


# Whole trainings in all details: every lap, each lane's total, factor and final scores; and the live bar of a lap.


def live_lap_lines(moment: Moment, view: View) -> list[str]:
    """Return the current lap with the bar of its time and its figures, or between laps what is being done."""
    if not moment.steps or moment.lap is not None:
        return painted(moment_words(moment), view.width, "quiet", color=view.color)
    figures = (
        f"{moment.step:,}/{moment.steps:,}",
        f"{step(moment.step_ms)} a step" if moment.step_ms is not None else "",
        f"loss {four_places(moment.loss)}",
        f"accuracy {four_places(moment.accuracy)}",
    )
    passed_s = moment.step * (moment.step_ms or 0.0) / 1e3
    left_s = None if moment.left_s is None else max(moment.left_s, 1.0)  # of the lap: no budget ends with it
    progress = Progress(moment_words(moment), passed_s, left_s, is_most=False, notes=tuple(filter(None, figures)))
    return live_page("", progress, (), view)


def moment_words(moment: Moment) -> str:
    """Return a moment in one line, for a file or above the bar."""
    who = short_name(moment.lane) + (f" (seed {moment.seed})" if moment.seed is not None else "")
    if moment.lap is not None:
        return f"{who} {_lap_words(moment.lap, moment.laps)}"
    where = f" {moment.number} of {moment.laps}" if moment.number else ""
    return f"{who}{': ' if who else ''}{moment.doing}{where}"


def lap_step_words(moment: Moment) -> str:
    """Return a moment in one line, with the step of the lap that is being trained."""
    is_step = moment.steps and moment.lap is None
    return f"{moment_words(moment)}{f', step {moment.step:,} of {moment.steps:,}' if is_step else ''}"


def _laps(run: FullRun, full: TrainingAnswer, width: int, *, color: bool) -> list[str]:
    """Return one training as a table of laps, or as a sentence per lap if no table fits."""
    words = [short_name(run.process.lane)]
    words += [f"seed {run.seed}"] if full.protocol.seeds > 1 else []
    words += [f"taken up {run.processes - 1} time{'s' * (run.processes != 2)}"] if run.processes > 1 else []
    done = count_checkpoints(run)
    title = painted(
        ", ".join([*words, *([f"{done} of {full.protocol.laps} laps"] if done < full.protocol.laps else [])]),
        width,
        "strong",
        color=color,
    )
    if not run.laps:
        return title
    several = any(not isinstance(lap.score.whole, Missing) for lap in run.laps)
    validated = any(lap.validation is not None for lap in run.laps)
    columns: list[Column[LapResult]] = [
        Column("lap", lambda lap: str(lap.number), right=True),
        Column("time", lambda lap: training_lap(lap.train_s), right=True),
        Column("step", lambda lap: step(lap.train_s * 1e3 / lap.steps), right=True),
        Column("loss", lambda lap: four_places(lap.score.loss), right=True),
        Column("accuracy", lambda lap: four_places(lap.score.accuracy), right=True),
    ]
    columns += [Column("whole", lambda lap: four_places(lap.score.whole), right=True)] if several else []
    if validated:
        columns.append(Column("val. loss", lambda lap: four_places(_seen_in(lap, "loss")), right=True))
        columns.append(Column("val. accuracy", lambda lap: four_places(_seen_in(lap, "accuracy")), right=True))
        columns += [Column("whole", lambda lap: four_places(_seen_in(lap, "whole")), right=True)] if several else []
    table = lay_out_table(columns, run.laps, width, color=color)
    return [*title, *(table or wrap_all([_lap_words(lap, full.protocol.laps) for lap in run.laps], width))]


def _seen_in(lap: LapResult, figure: str) -> float | Missing | None:
    """Return a figure of a lap's validation."""
    return getattr(lap.validation.score, figure) if lap.validation else None


def _totals(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table of lanes, with means over seeds."""

    def failed(lane: LaneResult) -> str:
        return "" if runs_of(record, lane.name) else "DNF" if lane.status == "dnf" else "not trained"

    return fit_table(TOTAL_COLUMNS, record.lanes, record, width, color=color, failed=failed)[0]


def later_lap_words(lane: LaneResult, record: Record) -> str:
    """Return the time of a lap without a first step, of which the factors are quotients."""
    known = any(not lap.fresh for run in runs_of(record, lane.name) for lap in run.laps)
    return training_lap(lane.lap_s.median) if known and lane.lap_s is not None else "-"


def _mean_time(seconds: Sequence[float]) -> str:
    found = mean(seconds)
    return "-" if found is None else training_lap(found)


def total(lane: LaneResult, record: Record) -> Cell:
    """Return the time of all laps, or how many laps there are if a training is not complete."""
    runs = runs_of(record, lane.name)
    wanted = training_of(record).protocol.laps
    short = next((run for run in runs if count_checkpoints(run) < wanted), None)
    if short is not None:
        return Cell(f"{count_checkpoints(short)} of {wanted} laps", "bad")
    return Cell(_mean_time([run.train_s for run in runs]))


def against_first_lane(lane: LaneResult, record: Record) -> Cell:
    """Return the factor of the later laps against the first lane, unless one of the two did other work."""
    found = next((lap_factor for lap_factor in training_of(record).factors if lap_factor.lane == lane.name), None)
    first = next((lane_result for lane_result in record.lanes if lane_result.step_ms is not None), lane)
    if "differs" in {lane.parity.status, first.parity.status}:
        return Cell(NOT_SAME, "bad")
    if found is None:
        return Cell("1" if lane.name == first.name and len(record.lanes) > 1 else "-")
    ratio = found.later_laps
    low = found.low
    high = found.high
    if isinstance(ratio, Missing):
        return Cell("-")
    if isinstance(low, Missing) or isinstance(high, Missing):
        return Cell(faster_or_slower(ratio), brief=times_as_fast(ratio))
    return ratio_cell(ratio, low, high, "not distinguishable" if low <= 1 <= high else "faster")


def count_checkpoints(run: FullRun) -> int:
    """Count the laps that have or had a checkpoint: a lap without a finite loss has none."""
    return sum(not isinstance(lap.score.loss, Missing) for lap in run.laps)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def runs_of(record: Record, lane: str) -> list[FullRun]:
    return [run for run in training_of(record).runs if run.process.lane == lane and run.laps]


def _is_tested(record: Record) -> bool:
    return any(run.test is not None for run in training_of(record).runs)


def ends_with(record: Record) -> str:
    """Return what the final figures come from: "test", "val.", or "" if there are none."""
    if not any(_finals(record, lane.name) for lane in record.lanes):
        return ""
    return "test" if _is_tested(record) else "val."


def final_score_words(lane: LaneResult, record: Record, figure: Literal["loss", "accuracy"]) -> str:
    values = [score.loss if figure == "loss" else score.accuracy for score in _finals(record, lane.name)]
    return four_places(mean([value for value in values if not isinstance(value, Missing)]))


def _finals(record: Record, lane: str) -> list[Score]:
    """Return a lane's final scores: its tests or, without a test, the last validation of each seed."""
    tested = _is_tested(record)
    runs = [run for run in runs_of(record, lane) if run.process.status == "ok" or not tested]
    looks = [run.test if tested else run.laps[-1].validation for run in runs]
    return [look.score for look in looks if look is not None]


TOTAL_COLUMNS: list[RecordColumn[LaneResult]] = [
    RecordColumn("lane", lambda lane, _: short_name(lane.name), least=14),
    RecordColumn("total", total, right=True),
    RecordColumn(
        "first lap",
        lambda lane, record: _mean_time([run.laps[0].train_s for run in runs_of(record, lane.name)]),
        right=True,
    ),
    RecordColumn("later laps", later_lap_words, right=True),
    RecordColumn("against first", against_first_lane, least=12),
    RecordColumn(
        lambda record: f"{ends_with(record)} loss",
        lambda lane, record: final_score_words(lane, record, "loss"),
        right=True,
        leaves=1,
        shown=ends_with,
    ),
    RecordColumn(
        "accuracy", lambda lane, record: final_score_words(lane, record, "accuracy"), right=True, shown=ends_with
    ),
]


def _protocol(record: Record) -> str:
    asked = training_of(record).protocol
    items = record.workload.items
    laps = f"whole training: {asked.laps:,} lap{'s' * (asked.laps != 1)}"
    steps = f" of {asked.steps_per_lap:,} steps" if asked.steps_per_lap else ""
    seeds = f", {asked.seeds} seeds" if asked.seeds > 1 else ""
    if not record.workload.is_built_in:
        return f"{laps}{steps}{seeds}; no validation and no test: a training of your own brings none in this version"
    runs = training_of(record).runs
    validations = (lap.validation for run in runs for lap in run.laps)
    tests = (run.test for run in runs)
    looks = f", validation on {_counted(validations, asked.validation_items)} {items}" if asked.validation_items else ""
    held = f", test on {_counted(tests, asked.evaluation_items)} {items}" if asked.evaluation_items else ""
    return f"{laps}{steps}{seeds}{looks}{held}"


def _counted(looks: Iterable[Evaluation | None], published: int) -> str:
    """Return how many items were examined, and the published number if it differs."""
    items = next((look.score.items for look in looks if look), published)
    return f"{items:,}" if items == published else f"{items:,} (published: {published:,})"


def _lap_words(lap: LapResult, laps: int) -> str:
    words = [
        f"lap {lap.number} of {laps}: {training_lap(lap.train_s)}",
        f"{step(lap.train_s * 1e3 / lap.steps)} a step",
        f"loss {four_places(lap.score.loss)}",
        f"accuracy {four_places(lap.score.accuracy)}{_whole(lap.score)}",
    ]
    if lap.validation is not None:
        score = lap.validation.score
        words += [
            f"validation loss {four_places(score.loss)}",
            f"accuracy {four_places(score.accuracy)}{_whole(score)}",
        ]
    return ", ".join(words)


def _whole(score: Score) -> str:
    return "" if isinstance(score.whole, Missing) else f" (whole {four_places(score.whole)})"


def first_lap_words(record: Record) -> str:
    factors = [lap_factor for lap_factor in training_of(record).factors if lap_factor.same_work is not False]
    first = [(short_name(lap_factor.lane), lap_factor.first_lap) for lap_factor in factors]
    words = [f"{name} {faster_or_slower(ratio)}" for name, ratio in first if not isinstance(ratio, Missing)]
    head = "The factor is of later laps; in the first, with the first step in it: "
    return f"{head}{', '.join(words)}." if words else ""


def reached_words(record: Record) -> str:
    until = training_of(record).protocol.until_accuracy
    if until is None:
        return ""
    where = "validation" if training_of(record).protocol.validation_items else "training"
    words = [f"{training_name(run, training_of(record))} {_when(run.reached)}" for run in training_of(record).runs]
    return f"Accuracy {until:g} in {where}: {'; '.join(words)}."


def training_name(run: FullRun, full: TrainingAnswer) -> str:
    return short_name(run.process.lane) + (f" (seed {run.seed})" if full.protocol.seeds > 1 else "")


def _when(reached: Reached | None) -> str:
    if reached is None:
        return "was not looked for"
    if isinstance(reached.accuracy, Missing):
        return f"cannot be told: {reached.accuracy.missing}"
    if reached.lap is None or reached.train_s is None:
        return f"never reached; the best was {four_places(reached.accuracy)}"
    return f"in lap {reached.lap}, after {training_lap(reached.train_s)} of training"


def _predictions(record: Record, width: int) -> list[str]:
    """Return the class numbers that each lane predicts, below the true ones."""
    runs = [run for run in training_of(record).runs if run.predictions is not None and run.predictions.truth]
    if not runs:
        return []
    rows = [("truth", runs[0].predictions.truth)]  # type: ignore[union-attr]
    rows += [(training_name(run, training_of(record)), run.predictions.predicted) for run in runs]  # type: ignore[union-attr]
    wide = max(len(name) for name, _ in rows)
    lines = [f"predictions of the first {len(rows[0][1])} test {record.workload.items}, by class number:"]
    lines += [
        f"  {name:<{wide}}  {' '.join('-'.join(map(str, number)) for number in numbers)}" for name, numbers in rows
    ]
    return [broken for line in lines for broken in wrap(line, width, " " * (wide + 4))]


def _beside(record: Record, width: int) -> list[str]:
    """Return the time of everything that is not training. It is in no lap and in no factor."""
    parts = []
    for run in training_of(record).runs:
        kept = [lap.checkpoint_s for lap in run.laps if not isinstance(lap.checkpoint_s, Missing)]
        times = [f"validation {about(run.validation_s)}"] if run.validation_s else []
        times += [f"checkpoints {about(sum(kept))}"] if kept else []
        times += [f"test {about(run.test.seconds)}"] if run.test else []
        parts += [f"{training_name(run, training_of(record))} {', '.join(times)}"] if times else []
    return flow(parts, width, "besides the laps: ") if parts else []


def _wholes(record: Record, width: int) -> list[str]:
    """Return the time that a user waits, from the start of the process to the end of the test."""
    full = training_of(record)
    parts = [f"{training_name(run, full)} {duration(run.whole_s)}" for run in full.runs if run.process.status == "ok"]
    return flow(parts, width, "from start to end, without proof and checkpoints: ") if parts else []


def published_laps(record: Record, width: int) -> str:
    """Return the published laps, if these laps are as long."""
    steps = training_of(record).protocol.steps_per_lap
    published = record.workload.steps_per_lap
    words = published_line(record, width)
    if not words or steps is None or published is None or steps == published:
        return words
    return f"Published laps are not shown: they are of {published:,} steps, and these of {steps:,}."


def training_details(record: Record, view: View) -> list[list[str]]:
    """Return all that the record holds, in sections."""
    width = view.width
    color = view.color
    full = training_of(record)
    asked = replace(record.workload, steps_per_lap=full.protocol.steps_per_lap or record.workload.steps_per_lap)
    # Where and why each unfinished training ended
    failures: list[str] = []
    for run in full.runs:
        if run.process.dnf is not None:
            laps = f"; {count_checkpoints(run)} lap{'s' * (count_checkpoints(run) != 1)} kept"
            failures += footnotes.end_lines(training_name(run, full), run.process.dnf, width, laps)
    return [
        header(replace(record, workload=asked), width, color=color),
        wrap_all([_protocol(record)], width),
        *(_laps(run, full, width, color=color) for run in full.runs),
        _totals(record, width, color=color),
        usage_lines(record, width, color=color),
        proof_lines(record, width),
        failures,
        *(wrap(sentence, width, "  ") for sentence in (first_lap_words(record), reached_words(record)) if sentence),
        _predictions(record, width),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
        quiet(_beside(record, width), color=color),
        quiet(footnotes.starts(record, width), color=color),
        _wholes(record, width),
        *(wrap(sentence, width, "  ") for sentence in (published_laps(record, width), f"{full.order}.") if sentence),
    ]


# The figures of whole trainings: their time, loss and accuracy of each lap, each lap's time, and readings.

LapValue = Callable[[LapResult], float | Missing]
NOT_EVALUATED = Missing("not measured")


def figures(record: Record) -> list[Figure]:
    """Return all figures of whole trainings, the most telling first."""
    runs = training_of(record).runs
    bars = tuple(_bar(run, runs) for run in runs)
    says = "From the start of the process to the end of the test, without what only laptime does."
    times = Figure("Whole trainings", Bars("s", bars), says)
    # Loss and accuracy by lap, in training and in validation: lanes that learn alike lie on each other
    curves = [
        *_by_lap("Loss of each lap", "loss", runs, lambda lap: lap.score.loss),
        *_by_lap("Validation loss of each lap", "loss", runs, lambda lap: _validated(lap, "loss")),
        *_by_lap("Accuracy of each lap", "accuracy", runs, lambda lap: lap.score.accuracy),
        *_by_lap("Validation accuracy of each lap", "accuracy", runs, lambda lap: _validated(lap, "accuracy")),
    ]
    laps_figure = _by_lap("Training time of each lap", "seconds", runs, lambda lap: lap.train_s, from_zero=True)
    return [
        times,
        *_over_time(record, runs),
        *laps_figure,
        *folded(*curves),
        *folded(*proof_figures(record), *reading_figures(record), *fact_figures(record)),
    ]


def _name(run: FullRun, runs: Sequence[FullRun]) -> str:
    several = len({full_run.seed for full_run in runs}) > 1
    return short_name(run.process.lane) + (f", seed {run.seed}" if several else "")


def _bar(run: FullRun, runs: Sequence[FullRun]) -> Bar:
    lane = short_name(run.process.lane)
    if run.process.status != "ok":
        why = run.process.dnf.reason if run.process.dnf else run.process.status
        kept = f"{count_checkpoints(run)} lap{'s' * (count_checkpoints(run) != 1)}, then: {why}"
        return Bar(_name(run, runs), None, words=kept, kind="failed", of=lane)
    accuracy = NOT_EVALUATED if run.test is None else run.test.score.accuracy
    learned = "" if isinstance(accuracy, Missing) else f", test accuracy {100 * accuracy:.2f} %"
    return Bar(_name(run, runs), run.whole_s, words=f"{duration(run.whole_s)}{learned}", of=lane)


OVER_TIME: tuple[tuple[Literal["accuracy", "loss"], Literal["validation", "training"], str], ...] = (
    ("accuracy", "validation", "val_accuracy"),
    ("accuracy", "training", "accuracy"),
    ("loss", "validation", ""),
    ("loss", "training", "loss"),
)
"""A figure of a lap's score, over what, and the field of a published result that has the same."""


def _over_time(record: Record, runs: Sequence[FullRun]) -> list[Figure]:
    """Return accuracy and loss over seconds, all lanes and published curves on one clock; a second figure is folded.

    Of accuracy in validation and in training, the one comes first that has a published curve, then the one in
    validation.
    """
    found: list[tuple[bool, Figure]] = []
    steps = training_of(record).protocol.steps_per_lap
    published_steps = record.workload.steps_per_lap
    is_as_long = steps is None or steps == published_steps  # other laps are other points of a training
    for figure, over_what, field in OVER_TIME:
        curves = [Curve(short_name(run.process.lane), _in_time(run, figure, over_what), "marked") for run in runs]
        curves = [curve for curve in curves if curve.points]
        others = _published_curves(record, field) if curves and field and is_as_long else []
        if not curves:
            continue
        ends = [curve.points[-1][0] for curve in (*curves, *others)]
        is_log = min(ends) > 0 and max(ends) > BARS_FAR_APART * min(ends)
        across = Axis("seconds of training", is_log=is_log, from_zero=not is_log)
        says = "A dot is the end of a lap. Seconds of training alone: no start, validation or checkpoints."
        says += " A lane has a curve for each seed." if len({run.seed for run in runs}) > 1 else ""
        says += " Published curves are of other machines." if others else ""
        title = f"{figure.capitalize()} in {over_what}, over time"
        found.append((bool(others), Figure(title, Plane(across, Axis(figure), (*curves, *others)), says)))
    shown = []
    for figure in ("accuracy", "loss"):
        mine = [pair for pair in found if pair[1].title.lower().startswith(figure)]
        mine.sort(key=lambda pair: not pair[0])
        shown += [replace(drawn, more=place > 0) for place, (_, drawn) in enumerate(mine)]
    return shown


def _in_time(run: FullRun, figure: str, over_what: str) -> tuple[tuple[float, float], ...]:
    """Return a score at the end of each lap, by how long the lane had trained."""
    ends_s = accumulate(lap.train_s for lap in run.laps)
    values = [_validated(lap, figure) if over_what == "validation" else getattr(lap.score, figure) for lap in run.laps]
    return tuple((end_s, value) for end_s, value in zip(ends_s, values, strict=True) if not isinstance(value, Missing))


def _published_curves(record: Record, field: str) -> list[Curve]:
    """Return what others reported of each lap, where they also reported what each lap took."""
    curves = []
    for result in record.published.results if record.published else ():
        values: tuple[float, ...] = getattr(result, field)
        if len(values) > 1 and len(values) == len(result.lap_s):
            points = tuple(zip(accumulate(result.lap_s), values, strict=True))
            curves.append(Curve(f"published: {result.device}", points, "marked"))
    return curves


def _validated(lap: LapResult, name: str) -> float | Missing:
    found: float | Missing = NOT_EVALUATED if lap.validation is None else getattr(lap.validation.score, name)
    return found


def _by_lap(title: str, up: str, runs: Sequence[FullRun], value: LapValue, *, from_zero: bool = False) -> list[Figure]:
    curves = []
    for run in runs:
        points = ((float(lap.number), value(lap)) for lap in run.laps)
        known = tuple((number, height) for number, height in points if not isinstance(height, Missing))
        curves.append(Curve(short_name(run.process.lane), known))
    shown = tuple(curve for curve in curves if curve.points)
    return [Figure(title, Plane(Axis("lap", is_whole=True), Axis(up, from_zero=from_zero), shown))] if shown else []


def summary(record: Record) -> list[str]:
    answer = training_of(record)
    laps = f"{sum(len(run.laps) for run in answer.runs)} whole laps"
    # The fastest lane's factor, if it trains faster than the reference lane
    shown = [factor for factor in answer.factors if factor.same_work is not False]
    known = [(factor.later_laps, factor) for factor in shown if isinstance(factor.later_laps, float)]
    ratio, best = max(known, key=lambda pair: pair[0], default=(1.0, None))
    fastest_training = [factor_named(best, ratio)] if best and ratio > 1 else []
    return [lanes_counted(record), laps, *fastest_training, *lanes_failed(record)]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
