"""The line of a history, and its page of at most forty lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import lane, record

from laptime.pages.page import View
from laptime.questions.compare.nouns import History
from laptime.questions.compare.page import line_of, render_history
from laptime.questions.compare.reduce import follow_lane

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
