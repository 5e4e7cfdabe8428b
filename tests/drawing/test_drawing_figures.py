"""What reports draw is what the record says: of every question, every number, every interval, every whole."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from math import log10
from pathlib import Path

import drawn_records
import infer_records
import pytest
import tune_records
import watch_records
from sound_records import literals

from laptime.api.showing import report_of
from laptime.model.figure import Bars, Factors, Figure, Gantt, Plane, Report, Stack, Table
from laptime.model.quantities import Missing
from laptime.model.questions import QUESTIONS
from laptime.model.record import Record
from laptime.questions.tune.page import PART
from laptime.show.drawing import svg
from laptime.show.drawing.html import PAGE_MOST, as_html
from laptime.show.drawing.rows import draw
from laptime.show.drawing.svg import Scale
from laptime.show.drawing.words import as_csv, as_markdown
from laptime.show.pages.page import View
from laptime.store import schema

ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "tests" / "recordings").glob("*/*.json.gz"))

DRAWN_ALREADY = re.compile(r"(race|full|infer) (?!watched|with)")


@cache
def reports() -> dict[str, tuple[Record, Report]]:
    """Return records of every question as literals, and real ones that were kept; each with its report."""
    found = {name: make() for name, make in drawn_records.SHOWN.items() if name != "million"}
    others = {name: data for name, data in literals().items() if not DRAWN_ALREADY.match(name)}
    found |= {f"sound {name}": schema.decode(data, name) for name, data in others.items()}
    found |= {place.name: schema.decode(gzip.decompress(place.read_bytes()), place.name) for place in KEPT}
    return {name: (record, report_of(record)) for name, record in found.items()}


def figures(kind: type, name: str = "") -> list[tuple[str, Figure]]:
    """Return the figures of a kind in all reports, or in one, each with the name of its record."""
    return [
        (each, figure)
        for each, (_, report) in reports().items()
        for figure in report.figures
        if isinstance(figure.chart, kind) and name in {"", each}
    ]


def titled(name: str, begin: str) -> Figure:
    return next(each for each in reports()[name][1].figures if each.title.startswith(begin))


def test_every_question_has_a_report_that_can_be_drawn():
    assert {row.name for row in QUESTIONS} == {record.question for record, _ in reports().values()}
    for record, report in reports().values():
        page = as_html([report])
        assert report.answer or report.glance, record.id
        assert len(page.encode()) <= PAGE_MOST


def test_parts_of_a_whole_come_to_one():
    stacks = figures(Stack)
    assert len(stacks) > 5
    for name, figure in stacks:
        for label, parts in figure.chart.rows:
            assert sum(part.share for part in parts) == pytest.approx(1, abs=0.01), (name, label)


def numbers_in(tree: object) -> Iterator[float]:
    if isinstance(tree, dict):
        tree = [*tree.values()]
    if isinstance(tree, list):
        for each in tree:
            yield from numbers_in(each)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield float(tree)


def intervals_in(tree: object) -> Iterator[tuple[float, float, float]]:
    """Yield each figure of a record that has an interval: itself, and both ends."""
    if isinstance(tree, dict):
        low, high = tree.get("low"), tree.get("high")
        if isinstance(low, float) and isinstance(high, float):
            for name in ("median", "ratio", "value", "items_per_s"):
                if isinstance(tree.get(name), float):
                    yield tree[name], low, high
        tree = [*tree.values()]
    if isinstance(tree, list):
        for each in tree:
            yield from intervals_in(each)


@cache
def said_by(name: str) -> tuple[set[float], set[tuple[float, float, float]]]:
    """Return every number of a record, and every figure that has an interval."""
    tree = json.loads(schema.encode(reports()[name][0]))
    return set(numbers_in(tree)), set(intervals_in(tree))


# Figures that are computed of several numbers of a record: how, is in tests of their own.
COMPUTED = ("Whole trainings", "Where the time of a step goes on", "Operators of")


@pytest.mark.parametrize("kind", [Bars, Factors])
def test_every_number_and_interval_of_a_chart_is_the_records(kind):
    """No value is rounded or made up, and none loses the interval that its record has."""
    seen = 0
    for name, figure in figures(kind):
        numbers, ends = said_by(name)
        known = {value for value, _, _ in ends}
        rows = figure.chart.bars if isinstance(figure.chart, Bars) else figure.chart.factors
        for row in rows:
            if row.value is None or figure.title.startswith(COMPUTED):
                continue
            assert row.value in numbers, (name, figure.title, row)
            if row.value in known:
                assert (row.value, row.low, row.high) in ends, (name, figure.title, row)
                seen += 1
    assert seen > 20


def test_a_timeline_of_a_watched_script_is_its_middle_iteration():
    record, report = reports()["watch"]
    figure = titled("watch", "What waits for what")
    (loop,) = (each.loop for each in record.answer.processes)
    spans = sorted((each.start, each.end) for row in figure.chart.rows for each in row.spans)
    assert spans == [(each.start_ns / 1e6, each.end_ns / 1e6) for each in loop.typical.spans]
    assert (spans[0][0], spans[-1][1]) == (0, figure.chart.length)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert f"Iteration {loop.typical.number} took" in figure.says
    stack = titled("watch", "Where the time of an iteration goes")
    ((_, parts),) = stack.chart.rows
    assert all(part.low is not None and part.low <= part.share <= part.high for part in parts)
    waits = next(row for row in figure.chart.rows if row.label == "waiting for data")
    assert parts[waits.part].label == "waiting for data"
    assert {row.label for row in figure.chart.rows} >= {"forward", "backward", "optimizer"}
    for word in ("forward", "backward"):
        row = next(each for each in figure.chart.rows if each.label == word)
        assert parts[row.part].label == "forward + backward"
    assert report.figures.index(stack) + 1 == report.figures.index(figure)


def test_time_of_a_part_that_was_not_seen_is_unattributed():
    """A loop without an optimizer has no outside of its step, although its script waited for a disk: all come to 1."""
    answer = watch_records.waits().answer
    (process,) = answer.processes
    steady = replace(process.loop.steady, data_wait_s=Missing("another thread fetches the batches"))
    changed = replace(answer, processes=(replace(process, loop=replace(process.loop, steady=steady)),))
    report = report_of(replace(watch_records.waits(), answer=changed))
    ((_, parts),) = next(each.chart for each in report.figures if isinstance(each.chart, Stack)).rows
    assert sum(part.share for part in parts) == pytest.approx(1)
    rest = next(part for part in parts if part.label == "unattributed")
    waited = steady.wall_s - steady.forward_backward_s - steady.optimizer_s - steady.outside_s
    assert rest.share == pytest.approx(waited / steady.wall_s)
    assert rest.low <= rest.share <= rest.high
    assert "unattributed" in as_html([report])


def test_each_rank_has_its_timeline_and_a_loop_of_one_call_its_step():
    drawn = [each.title for each in reports()["ranks"][1].figures if isinstance(each.chart, Gantt)]
    assert drawn == [f"What waits for what: one iteration of rank {rank}" for rank in (0, 1)]
    rows = titled("keras", "What waits for what").chart.rows
    assert [row.label for row in rows] == ["the step", "outside the step"]
    ((_, parts),) = titled("keras", "Where the time of an iteration goes").chart.rows
    assert parts[rows[0].part].label == "the step"


def test_a_record_of_before_has_no_timeline():
    answer = watch_records.waits().answer
    (process,) = answer.processes
    old = replace(answer, processes=(replace(process, loop=replace(process.loop, typical=None)),))
    drawn = report_of(replace(watch_records.waits(), answer=old)).figures
    assert not any(isinstance(each.chart, Gantt) for each in drawn)
    assert any(isinstance(each.chart, Stack) for each in drawn)


def test_the_path_of_a_search_is_drawn_in_its_order_and_ends_with_what_was_confirmed():
    figure = titled("tune", "The search on torch/cpu, in its order")
    rows = figure.chart.factors
    assert [row.label for row in rows] == [
        "1. channels_last", "2. malloc=keep", "3. bf16", "4. fused", "6. bf16+malloc=keep", "again: bf16+malloc=keep"
    ]  # fmt: skip
    assert [row.kind for row in rows] == ["left", "kept", "left", "left", "kept", "confirmed"]
    assert [row.words for row in rows][0::5] == ["0.96x (0.93-0.99), not kept", "1.95x (1.92-1.98), confirmed"]
    assert figure.chart.reference == "torch/cpu"
    record = reports()["tune"][0]
    raced = replace(record, lanes=(*record.lanes, replace(record.lanes[0], name="torch/cpu/fused")))
    bars = next(each.chart.bars for each in report_of(raced).figures if each.title == "A lap on each lane")
    assert [bar.label for bar in bars] == ["torch/cpu", "torch/cpu/bf16+malloc=keep"]


def test_the_report_of_a_tuned_script_has_the_lines_of_its_diff():
    figure = next(each for each in report_of(tune_records.script()).figures if each.title == "The lines of train.py")
    assert figure.chart.heads == ("`from line 25 on",)
    assert [row[0].strip()[:1] for row in figure.chart.rows] == ["-", "+"]
    assert figure.chart.rows[1][0].endswith("num_workers=4, persistent_workers=True)")
    assert figure.says == "They do in train.py what malloc=keep+workers=4 does on cpu."


def test_a_long_search_draws_what_was_kept_and_says_how_many_it_leaves_out():
    path = tuple(replace(tune_records.PATH[number % 2], words=(f"threads={number}",)) for number in range(60))
    record = tune_records.tuned("says", replace(tune_records.WINNER, path=path))
    figure = next(each for each in report_of(record).figures if each.title.startswith("The search on"))
    assert [row.kind for row in figure.chart.factors].count("kept") == 30
    assert "30 that were not kept are not drawn" in figure.says


def test_only_what_fresh_heats_confirmed_is_called_taken():
    """The best of the search has a setting of 0.96x in it, and fresh heats show no gain: nothing is taken."""
    record = tune_records.unconfirmed()
    page = PART.render(record, View(120, details=True))
    row = next(line for line in page.splitlines() if line.strip().startswith("threads=1"))
    assert "0.96x" in row
    assert "yes" not in row
    worth = titled("unconfirmed-tune", "What each setting is worth")
    assert not any("taken" in row.label for row in worth.chart.factors)
    assert [row.kind for row in titled("unconfirmed-tune", "The search").chart.factors][-1] == "confirmed"
    assert titled("unconfirmed-tune", "The search").chart.factors[-1].words.endswith(", no gain")
    taken = [row.label for row in titled("tune", "What each setting is worth").chart.factors if "taken" in row.label]
    assert taken == ["malloc=keep (taken)", "bf16 (taken)"]


def test_scores_are_drawn_over_seconds_with_published_curves_and_one_colour_a_lane():
    record, report = reports()["published-training"]
    runs = record.answer.runs
    shown = [each for each in report.figures if "over time" in each.title and not each.more]
    assert [each.title for each in shown] == ["Accuracy in training, over time", "Loss in training, over time"]
    for figure, name in zip(shown, ("accuracy", "loss"), strict=True):
        *mine, others = figure.chart.curves
        assert [each.label for each in mine] == [run.process.lane.removesuffix("/as-written") for run in runs]
        for curve, run in zip(mine, runs, strict=True):
            ends_s = accumulate(lap.train_s for lap in run.laps)
            assert curve.points == tuple(zip(ends_s, (getattr(lap.score, name) for lap in run.laps), strict=True))
            assert curve.kind == "marked"
        assert others.label == "published: GPU (not named)"
        assert [x for x, _ in others.points] == [13.0, 22.0, 31.0]
    validated = [each.title for each in reports()["training"][1].figures if "over time" in each.title and not each.more]
    assert validated == ["Accuracy in validation, over time", "Loss in validation, over time"]


def test_trainings_that_did_not_end_say_how_many_laps_are_kept_and_have_no_scale():
    """The lap in which the loss became nan is none; an axis without a bar would be of nothing."""
    bars = titled("broken-training", "Whole trainings").chart
    assert [bar.words.partition(", then")[0] for bar in bars.bars] == ["1 lap", "2 laps"]
    assert "grid" not in draw(bars, 820, {}).inside
    assert reports()["published-training"][1].glance.ends == "1.95-2.08 at 95 %"


def test_a_published_curve_of_other_laps_is_not_drawn():
    record = reports()["published-training"][0]
    answer = replace(record.answer, protocol=replace(record.answer.protocol, steps_per_lap=5))
    drawn = report_of(replace(record, answer=answer)).figures
    assert not any(
        "published" in curve.label for each in drawn if isinstance(each.chart, Plane) for curve in each.chart.curves
    )


def test_a_sweep_has_the_factor_between_lanes_and_names_where_it_passes_one():
    record, report = reports()["sweep"]
    (crossover,), factors = record.answer.sweep.crossovers, record.answer.sweep.factors
    figure = titled("sweep", "How many times as fast is torch/cuda:0 as torch/cpu?")
    (curve,), (band,) = figure.chart.curves, figure.chart.bands
    assert curve.points == tuple((float(each.at), each.ratio) for each in factors)
    assert curve.ends == tuple((each.low, each.high) for each in factors)
    assert (band.kind, band.start, band.end) == ("crossover", crossover.at.low, crossover.at.high)
    assert (figure.chart.at, figure.chart.across.is_log, figure.chart.across.is_whole) == (1.0, True, True)
    assert figure.says.startswith("torch/cuda:0 overtakes torch/cpu at batch 7.")
    for name, of in (("Rate over batch", "items_per_s"), ("Step over batch", "step_ms")):
        lanes = {each.name: getattr(each, of) for each in record.lanes}
        cells = {(each.of, float(each.at[0])): lanes[each.lane] for each in record.answer.sweep.cells}
        for curve, lane in zip(titled("sweep", name).chart.curves, ("torch/cpu", "torch/cuda:0"), strict=True):
            known = [cells[f"{lane}/as-written", x] for x, _ in curve.points]
            assert [y for _, y in curve.points] == [each.median for each in known]
            assert list(curve.ends) == [(each.low, each.high) for each in known]
    assert report.glance.number == "7.49"
    assert "logarithmic" in as_html([report])


@pytest.mark.parametrize(
    ("least", "most", "ticks"), [(1, 8, ["1", "2", "4", "8"]), (48, 96, ["50", "60", "80"]), (5, 7, ["5", "6"])]
)
def test_an_axis_of_counts_has_ticks_also_where_none_is_doubled(least, most, ticks):
    scale = Scale(log10(least), log10(most), is_log=True, is_whole=True)
    assert [told for _, told in scale.ticks()] == ticks


def test_inference_has_its_factors_first_and_every_percentile_with_its_interval():
    record, report = reports()["inference"]
    first, second, third = report.figures[:3]
    assert [row.label for row in first.chart.factors][:2] == ["torch/cpu/best, one call", "torch/cpu/best, batch 1"]
    assert report.glance.number == "1.90x"
    assert report.glance.ends == "1.84-1.96 at 95 %"
    told = [(f"{lane.lane.removesuffix('/as-written')}, {word}", each.median, each.low, each.high)
            for lane in record.answer.lanes
            for word, each in (("p50", lane.p50_ms), ("p95", lane.p95_ms), ("p99", lane.p99_ms))]  # fmt: skip
    assert [(bar.label, bar.value, bar.low, bar.high) for bar in second.chart.bars] == told
    rates = [each.items_per_s for lane in record.answer.lanes for each in lane.batches if each.items_per_s]
    assert [end for curve in third.chart.curves for end in curve.ends] == [(each.low, each.high) for each in rates]
    alone = report_of(infer_records.inferred((record.answer.lanes[0],)))
    assert alone.glance.number == "86.2 ms"


# The files that a page holds, and Markdown.

LINK = re.compile(r'<a download="([^"]+)" title="([^"]+)" href="data:([^;]+);charset=utf-8;base64,([^"]+)">')


def downloads(page: str) -> dict[str, str]:
    return {name: base64.b64decode(data).decode() for name, _, _, data in LINK.findall(page)}


def test_a_page_holds_the_record_its_figures_and_its_text():
    record, report = reports()["turns"]
    held = downloads(as_html([report]))
    assert list(held) == [f"{record.id}.json", f"{record.id}.csv", f"{record.id}.txt"]
    assert schema.decode(held[f"{record.id}.json"].encode(), "page") == record
    assert held[f"{record.id}.csv"] == as_csv([report])
    assert "torch/cpu/best" in held[f"{record.id}.txt"]


def test_a_download_for_which_a_page_has_no_room_is_left_out_and_its_command_named():
    record = drawn_records.long_race(100_000)
    page = as_html([report_of(record)])
    assert len(page.encode()) <= PAGE_MOST
    assert f"{record.id}.json" not in downloads(page)
    assert f"<code>laptime show {record.id} --json</code>" in page
    several = as_html([reports()[name][1] for name in ("race", "training", "why", "scale", "tune", "watch")])
    assert len(several.encode()) <= PAGE_MOST


@pytest.mark.parametrize("question", [row.name for row in QUESTIONS])
def test_markdown_begins_with_the_answer_and_has_pictures_in_words(question):
    """Each chart that a page does not fold is a block of code with its figures; tables stay tables."""
    record, report = next(each for each in reports().values() if each[0].question == question and each[1].figures)
    text = as_markdown([report])
    first = re.sub(r"\W", "", report.answer[0])[:30]
    assert re.sub(r"\W", "", text.splitlines()[0]).startswith(first)
    blocks = re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    drawn = [each for each in report.figures if not each.more and not isinstance(each.chart, Table)]
    assert len(blocks) == len(drawn) >= 1, record.id
    assert all(re.search("[█▁-▇]", block) for block in blocks)
    for block, figure in zip(blocks, drawn, strict=True):
        rows = figure.chart.factors if isinstance(figure.chart, Factors) else ()
        assert all(f"{end:.2f}" in block for row in rows for end in (row.low, row.high) if end and end < 90), record.id


def test_ticks_of_one_axis_are_written_alike():
    """10 to the power of 3.30103 is not quite 2,000."""
    assert [svg.words(10 ** log10(value)) for value in (500, 1000, 2000, 20_000, 1024, 2.5)] == [
        *("500", "1k", "2k", "20k", "1024", "2.5"),
    ]
