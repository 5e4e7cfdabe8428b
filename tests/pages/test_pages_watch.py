"""The page of a watched command: where the time of an iteration goes, and what was not seen.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import watch_records
from shown import in_details

from golden import assert_agreed
from laptime.api.showing import report_of
from laptime.model.figure import Bars, Plane, Stack
from laptime.model.script import SeenLoader
from laptime.model.watched import watch_of
from laptime.questions.watch import page as watch
from laptime.questions.watch.page import summary
from laptime.show.pages.page import View

details = in_details(watch.PART.render)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", watch_records.SHOWN)
def test_a_page_in_details_is_as_it_was_agreed(name, width):
    assert_agreed(f"watch-{name}", width, details(watch_records.SHOWN[name](), width))


def test_the_answer_has_the_time_and_what_is_conspicuous():
    page = watch.PART.render(watch_records.waits(), View(100))
    assert page.startswith("train.py takes 10.6 ms ±")
    assert "75 % of an iteration is waiting for data." in page
    assert summary(watch_records.waits()) == ["80 iterations", "10.6 ms each"]
    assert summary(watch_records.unseen()) == ["12 s, no training seen"]


def test_the_command_that_repeats_it_is_the_one_that_was_watched():
    assert report_of(watch_records.waits()).command == "laptime watch -- python train.py --epochs 2"


def test_a_rank_that_others_wait_for_is_named():
    page = " ".join(watch.PART.render(watch_records.ranks(), View(100)).split())
    assert "The other ranks wait for rank 1: its own part of an iteration takes 2.0 times" in page


def test_the_charts_hold_the_records_numbers():
    record = watch_records.waits()
    loop = watch_of(record).processes[0].loop
    assert loop is not None
    figures = {each.title: each.chart for each in report_of(record).figures}
    stack = figures["Where the time of an iteration goes"]
    assert isinstance(stack, Stack)
    assert sum(part.share for part in stack.rows[0][1]) == pytest.approx(1, abs=1e-3)
    over_time, losses, gaps = figures["Iterations over time"], figures["Loss"], figures["Between iterations"]
    assert isinstance(over_time, Plane)
    assert isinstance(losses, Plane)
    assert isinstance(gaps, Bars)
    assert [round(up, 3) for _, up in over_time.curves[0].points][:2] == [170.6, 10.601]
    assert losses.curves[0].points[-1][1] == pytest.approx(2.3 / 80)
    assert {each.label: each.value for each in gaps.bars}["checkpoints"] == pytest.approx(0.08)


def test_several_trainings_of_keras_are_told_and_equal_loaders_once():
    """On PyTorch, Keras makes a loader of its own for each epoch and each `evaluate`."""
    record = watch_records.keras()
    (process,) = record.answer.processes
    loader = SeenLoader(None, 30, 0)
    twice = replace(process, loop=replace(process.loop, trainings=2), loaders=(loader, loader))
    shown = details(replace(record, answer=replace(record.answer, processes=(twice,))), 120)
    assert shown.count("DataLoader: batch ?, 30 batches, 0 workers.") == 1
    assert "fit trained 2 times, with another model or batch; the figures are of the longest training." in shown
    assert "fit trained" not in details(record, 120)


def test_where_no_finding_says_what_takes_the_time_the_longest_lines_are_named():
    """A dozen copies in a forward pass, an odd loss: no rule knows them all."""
    seen = replace(watch_records.lines(), findings=())
    page = " ".join(watch.PART.render(seen, View(100)).split())
    assert "Of an iteration, most is in data.py:12 (69 %), train.py:36 (9 %), train.py:42 (0.8 %)." in page
    assert "most is in" not in watch.PART.render(watch_records.lines(), View(100))
