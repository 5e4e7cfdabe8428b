"""Lines and columns: nothing wider than the page, nothing lost, no figure apart from its unit."""

from __future__ import annotations

from operator import itemgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.model.visible import cells_wide
from laptime.show.pages.layout import Cell, Column, clean, flow, lay_out_table, wrap

texts = st.text(max_size=60)


@settings(deadline=None)
@given(texts, st.integers(5, 40))
def test_a_broken_text_fits_and_loses_no_letter(text, width):
    """Lines are broken between words, and long words where they must be."""
    lines = wrap(text, width, "  ")
    assert width >= max(map(cells_wide, lines))
    assert clean(text).replace(" ", "") == "".join(lines).replace(" ", "")


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=5), st.integers(8, 40))
def test_flowing_parts_fit(parts, width):
    """Parts stand together as long as they fit."""
    assert width >= max(map(cells_wide, flow(parts, width, "all: ")))


@pytest.mark.parametrize("width", range(8, 30))
def test_a_figure_stays_with_its_unit(width):
    """`46.1` at the end of a line and `s` on the next is not a figure."""
    lines = wrap("a lap of 46.1 s and 92.2 ms in 24 GB", width)
    joined = "\n".join(lines)
    assert all(figure in joined for figure in ("46.1 s", "92.2 ms", "24 GB"))


@settings(deadline=None)
@given(texts)
def test_clean_text_has_no_control_characters(text):
    """Everything that is printed has passed here."""
    assert clean(text).isprintable()


@pytest.mark.parametrize(("expected", "text"), [(3, "abc"), (4, "训练"), (1, "e\u0301"), (5, "92 µs"), (0, "")])
def test_the_places_that_a_text_takes_on_a_terminal(expected, text):
    """A letter is not always one place wide."""
    assert expected == cells_wide(text)


def test_a_narrow_column_is_broken_where_it_may_be():
    """Only a column that says how narrow it may be is made narrower."""
    columns = [Column("lane", itemgetter(0), least=8), Column("step", itemgetter(1), right=True)]
    assert lay_out_table(columns, [("torch/cpu/threads=2", "9 ms")], 18) == [
        "lane          step",
        "torch/cpu/    9 ms",
        "threads=2",
    ]


def test_a_table_that_cannot_be_so_narrow_is_refused():
    """The caller then leaves a column out."""
    assert (
        lay_out_table([Column("lane", itemgetter(0)), Column("step", itemgetter(1))], [("a" * 20, "b" * 20)], 40)
        is None
    )


def test_a_row_may_reach_over_the_other_columns():
    """A failure is a sentence, not a figure."""
    columns = [
        Column("lane", itemgetter(0)),
        Column("step", itemgetter(1), right=True),
        Column("rate", itemgetter(2)),
    ]
    items = [("a", "9 ms", "7"), ("b", Cell("did not finish at all", spans=True))]
    assert lay_out_table(columns, items, 26) == [
        "lane    step    rate",
        "a       9 ms    7",
        "b       did not finish at",
        "        all",
    ]
