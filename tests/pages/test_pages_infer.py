"""The report of inference: golden pages, and what must hold of every page.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

import pytest
from infer_records import SHOWN, broken, two_lanes
from shown import in_details

from golden import assert_agreed
from laptime.model.record import Progress
from laptime.questions.infer import page as infer
from laptime.questions.infer.page import live_lines
from laptime.show.pages.page import View
from laptime.store.files import row_of
from laptime.store.schema import decode, encode

render = in_details(infer.PART.render)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_as_it_was_agreed(name, width):
    """A report changes only on purpose."""
    assert_agreed(f"infer-{name}", width, render(SHOWN[name](), width))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_figure_is_on_every_page(width):
    """In a table, or as sentences where none fits."""
    page = " ".join(render(two_lanes(), width).split())
    for words in ("86.2 ms", "45.4 ms", "11.6", "24.2", "1.6 s", "2.1 s", "first answer", "Gold 6256 5 s"):
        assert words in page


def test_a_lane_that_answers_otherwise_is_not_called_faster():
    """There is no factor where the work is not the same."""
    page = render(broken(), 120)
    assert "not the same work" in page
    assert "x faster" not in page


@pytest.mark.parametrize("name", SHOWN)
def test_a_record_of_inference_is_read_as_it_was_written(name):
    """To the last figure, and nothing is lost on the way."""
    record = SHOWN[name]()
    assert decode(encode(record), "here") == record


def test_a_list_names_the_lane_that_answers_soonest():
    """In a few words."""
    assert row_of("r", two_lanes()).summary == "2 lanes, answers, torch/cpu/best 1.90x faster than torch/cpu"
    assert row_of("r", broken()).summary == "3 lanes, answers, 1 without a result"


def test_the_live_table_shows_calls_and_what_is_done():
    """As far as they are known."""
    now = Progress("round 2 of at most 3", 24.0, 36.0, lanes={"torch/cpu/best": "batches of 8"})
    page = "\n".join(live_lines(two_lanes(), now, View(100)))
    for words in ("torch/cpu/best", "86.2 ms", "batches of 8", "round 2 of at most 3", "24 s, at most 36 s more"):
        assert words in page
    assert "1.90x" not in page, "rounds to come may withdraw a factor"
