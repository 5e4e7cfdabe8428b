"""The line of a history, and its page of at most forty lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
import watch_records
from records import lane, record

from laptime.model.ask import Ask
from laptime.model.watched import WatchAnswer
from laptime.questions.compare.nouns import History
from laptime.questions.compare.page import line_of, render_history
from laptime.questions.compare.reduce import follow_lane, follow_watches
from laptime.show.pages.page import View

CPU = "torch/cpu/as-written"


def followed(count=3):
    """Return the history of one lane in N records."""
    found = [
        (made := replace(record((lane(CPU, 100.0),)), id=f"r-2026-11-20-{number:04x}"), made.lanes[0])
        for number in range(count)
    ]
    return History("cifar-cnn", CPU, "race", follow_lane(found))


@pytest.mark.parametrize(
    ("values", "blocks", "line"),
    [([1, 2, 4], True, "▁▅█"), ([4, 4], True, "▄▄"), ([100, 101], True, "▄▄"), ([1, 9], False, "_@"), ([3], True, "▄")],
)
def test_a_line_is_as_high_as_its_largest(values, blocks, line):
    assert line == line_of(values, blocks=blocks)


def test_a_long_history_has_forty_lines_and_says_what_it_leaves_out():
    page = render_history(followed(60), View())
    assert len(page.splitlines()) == 40
    assert "r-2026-11-20-003b" in page
    assert "older records not shown: --limit 0 shows all." in page
    assert len(render_history(followed(60), View(), lines_most=None).splitlines()) > 60


def test_a_watched_script_has_its_course():
    """It was refused: a watch has no lane. Twice the wait is a change, and the first finding says what it is."""
    first = replace(watch_records.waits(), id="r-2026-11-20-aaaa", ask=Ask(label="main"))
    slower = watch_records.process(watch_records.epochs(20.0), watch_records.LOADER, watch_records.OPTIMIZER)
    answer = WatchAnswer(watch_records.COMMAND, 0, 12.5, (slower,))
    later = [
        replace(watch_records.watched(answer), id=f"r-2026-11-2{day}-bbbb", started=f"2026-11-2{day}T10:00:00+00:00")
        for day in (1, 2)
    ]
    points = follow_watches([first, *later])
    same = "not distinguishable"
    assert [each.change and each.change.verdict for each in points] == [None, "slower", same]
    assert points[1].step_ms == later[0].answer.processes[0].loop.step_ms
    page = " ".join(render_history(History("train.py", "watch", "watch", points), View(160)).split())
    assert page.startswith("train.py takes 22.6 ms")
    assert "per iteration in the newest of 3 records." in page
    assert "Last change beyond noise: 2.13x slower on 2026-11-21 (r-2026-11-21-bbbb)" in page
    assert "first finding" in page
    assert "88 % of an iteration is waiting for data" in page
    assert "@main" in page
