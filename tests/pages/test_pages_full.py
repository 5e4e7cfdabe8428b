"""The report of whole trainings: golden pages, and what must hold of every page.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from full_records import SHOWN, laps, whole
from shown import in_details

from golden import assert_agreed
from laptime.model.protocol import Moment
from laptime.model.quantities import Missing
from laptime.questions.train import page as full
from laptime.questions.train.page import live_lap_lines, moment_words
from laptime.show.pages.page import View
from laptime.show.pages.words import four_places

render = in_details(full.PART.render)

STEPPED = Moment("torch/cpu/best", None, "lap", 10, False, 2, 123, 500, 62.1, 1.5234, 0.4561, 23.4)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_as_it_was_agreed(name, width):
    """A report changes only on purpose."""
    assert_agreed(f"full-{name}", width, render(SHOWN[name](), width))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_lap_is_on_every_page(width):
    """In a table, or as sentences where none fits."""
    page = " ".join(render(whole(), width).split())
    for figure in ("52.4 s", "51.3 s", "51.9 s", "33.1 s", "31.4 s", "31.7 s", "1.6000", "0.4500", "0.6480"):
        assert figure in page


def test_a_page_without_colour_has_none():
    """And one with it has."""
    assert "\x1b" not in render(whole(), 100)
    assert "\x1b[1m" in render(whole(), 100, color=True)


def test_what_is_not_kept_does_not_say_where_it_is():
    """No name to show is given."""
    assert "laptime show" not in render(whole(), 100, kept=False)


@pytest.mark.parametrize(
    ("value", "expected"), [(0.5606, "0.5606"), (None, "-"), (Missing("nan"), "-"), (12.0, "12.0000")]
)
def test_losses_and_shares_have_four_places(value, expected):
    """As the published curves have them."""
    assert expected == four_places(value)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (STEPPED, "torch/cpu/best: lap 2 of 10"),
        (Moment("torch/cpu/as-written", 3, "validation", 10, number=2), "torch/cpu (seed 3): validation 2 of 10"),
        (Moment("", None, "computing the reference", 10, is_news=True), "computing the reference"),
        (
            Moment("torch/cpu/as-written", None, "lap", 3, True, 1, lap=laps(52.4)[0]),
            (
                "torch/cpu lap 1 of 3: 52.4 s, 105 ms a step, loss 1.6000, accuracy 0.4500, "
                "validation loss 1.4400, accuracy 0.4800"
            ),
        ),
    ],
)
def test_a_moment_is_one_line(moment, expected):
    """For a file, or above the bar."""
    assert expected == moment_words(moment)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_shows_steps_time_loss_accuracy_and_what_is_left(width):
    """On a narrow terminal, too."""
    page = "\n".join(live_lap_lines(STEPPED, View(width)))
    assert "torch/cpu/best: lap 2 of 10" in page
    for figure in ("123/500", "62.1 ms a step", "loss 1.5234", "accuracy 0.4561", "about 23 s more", "━"):
        assert figure in page
    assert max(map(len, page.splitlines())) <= width


def test_a_lap_that_has_almost_ended_is_no_budget_that_is_used_up():
    page = " ".join(live_lap_lines(replace(STEPPED, step=498, left_s=0.1), View(120)))
    assert "about 1 s more" in page
    assert "budget" not in page


def test_between_laps_the_bar_says_what_is_done():
    """Validation has no steps to show."""
    moment = Moment("torch/cpu/best", None, "validation", 10, number=2)
    assert live_lap_lines(moment, View(80)) == ["torch/cpu/best: validation 2 of 10"]
