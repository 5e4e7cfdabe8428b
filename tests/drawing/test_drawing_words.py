"""Reports as words: Markdown, CSV and a terminal, with hostile strings, at any width, and thinned curves."""

from __future__ import annotations

import csv
import io
import re
import sys
from dataclasses import replace
from functools import cache
from math import log

import drawn_records
import pytest

from laptime.api import showing
from laptime.api.showing import report_of
from laptime.cli.printing import printable
from laptime.model.figure import Axis, Bar, Bars, Curve, Factors, Figure, Plane, ShownFactor
from laptime.model.visible import cells_wide
from laptime.show.drawing.words import as_charts, as_csv, as_markdown
from laptime.show.figures import CURVE_LEAST, POINTS_MOST, thin, thin_curve, thinned_words
from laptime.store import schema
from long_cases import cases


def test_a_terminal_obeys_no_name():
    for record in drawn_records.hostile():
        page = printable(as_charts(report_of(record), 80, blocks=True))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", page)


@cache
def report_on(name):
    return report_of(drawn_records.SHOWN[name]())


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", cases(*(each for each in drawn_records.SHOWN if each != "million"), long=["million"]))
def test_charts_keep_to_the_page(name, width):
    lines = as_charts(report_on(name), width, blocks=True).splitlines()
    assert lines
    assert max(map(cells_wide, lines)) <= width


def test_markdown_takes_no_name_for_markup():
    """Every row of a table has as many cells as its head, and no link is made."""
    text = as_markdown([report_of(each) for each in drawn_records.hostile()])
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)  # the command is code
    text, blocks = re.subn(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)  # so are pictures
    assert blocks > 5
    assert "```" not in text
    assert not re.search(r"(?<!\\)\](?=\()", text)
    assert not re.search(r"(?<!\\)<", text)
    for table in re.findall(r"(?:^\|.*\|$\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_no_cell_of_a_name_begins_a_formula():
    rows = list(csv.reader(io.StringIO(as_csv([report_of(each) for each in drawn_records.hostile()]))))
    assert [row for row in rows if row[2].startswith(("=", "+", "-", "@"))] == []


def plane(*lengths):
    curves = tuple(
        Curve(str(number), tuple((float(x), float(x * 7919 % 1000)) for x in range(length)))
        for number, length in enumerate(lengths)
    )
    return Figure("steps", Plane(Axis("x"), Axis("y"), curves))


def test_a_thinned_curve_keeps_its_highest_and_its_lowest_point():
    (curve,) = plane(100_000).chart.curves
    thinned = thin_curve(curve, 500)
    assert len(thinned.points) <= 500
    assert thinned.of_points == 100_000
    assert {min(thinned.points, key=lambda each: each[1])[1], max(thinned.points, key=lambda each: each[1])[1]} == {
        0,
        999,
    }
    assert list(thinned.points) == sorted(thinned.points)
    assert set(thinned.points) <= set(curve.points)


def test_short_curves_leave_their_share_to_long_ones():
    figures = thin([plane(10, 20, 500_000)])
    lengths = [len(curve.points) for curve in figures[0].chart.curves]
    assert lengths[:2] == [10, 20]
    assert POINTS_MOST * 0.9 < sum(lengths) <= POINTS_MOST
    assert thinned_words(figures).startswith(f"Thinned: {sum(lengths):,} of 500,030 points are drawn")


def test_very_many_curves_keep_a_few_points_each():
    figures = thin([plane(*[100] * 2_000)])
    assert {len(curve.points) for curve in figures[0].chart.curves} == {CURVE_LEAST}


def test_what_is_small_is_not_thinned():
    figures = (plane(100, 100),)
    assert thin(figures) == figures
    assert thinned_words(figures) == ""


def test_no_cell_of_a_csv_is_a_formula():
    """Whichever text of a figure begins like one."""
    bars = Bars("=unit", (Bar("=bar", 1.0),))
    plane = Plane(Axis("x"), Axis("=up"), (Curve("=curve", ((0.0, -1.0),)),))
    report = replace(report_of(drawn_records.hostile()[0]), figures=(Figure("=title", bars), Figure("+title", plane)))
    rows = list(csv.reader(io.StringIO(as_csv([report]))))
    assert rows[1][1:] == ["'=title", "'=bar", "", "1.0", "", "", "'=unit"]
    assert rows[2][1:] == ["'+title", "'=curve", "0.0", "-1.0", "", "", "'=up"]


def test_factors_in_words_are_around_one_and_a_long_label_has_its_own_line():
    rows = (
        ShownFactor("slower", 0.5, 0.4, 0.6, words="0.50x (0.40-0.60)"),
        ShownFactor("a label that is far longer than its column may be", 4.0, 2.0, 8.0),
    )
    report = replace(report_on("race"), figures=(Figure("factors", Factors("as asked", rows)),))
    _, slower, label, faster = as_charts(report, 60, blocks=True).splitlines()
    assert label.strip() == "a label that is far longer than its column may be"
    assert slower.index("─") < slower.index("█") < slower.index("│") == faster.index("│") < faster.index("█")
    assert faster.endswith("4 times (2.00-8.00)")
    assert "#" in as_charts(report, 60, blocks=False)


def test_bars_in_words_are_as_long_as_their_scale_says():
    """Values a thousand times apart, on a logarithmic scale: a third of the way from 1 to 1,000 is 10."""
    bars = tuple(Bar(f"{value:g}", value) for value in (3.0, 30.0, 3000.0))
    report = replace(report_on("race"), figures=(Figure("bars", Bars("ms", bars, is_log=True)),))
    lengths = [line.count("█") for line in as_charts(report, 120, blocks=True).splitlines()[1:]]
    assert lengths[2] == 40
    assert [each / 40 for each in lengths] == pytest.approx([log(3) / log(3000), log(30) / log(3000), 1], abs=0.02)


def test_only_a_page_of_html_holds_the_whole_record():
    """It is encoded once for the format that has it, and never for another: a long record takes long."""
    record, encoded = drawn_records.SHOWN["race"](), []

    def count(frame, event, _given):
        if event == "call" and frame.f_code is schema.encode.__code__:
            encoded.append(frame)

    sys.setprofile(count)
    try:
        found = {form: (showing.as_files([record], form), len(encoded)) for form in ("md", "csv", "svg")}
        showing.as_notebook(record), showing.as_picture(record, "card"), showing.as_charts(record, 80, blocks=True)
        before = len(encoded)
        showing.as_html(record)
    finally:
        sys.setprofile(None)
    assert [count for _, count in found.values()] == [0, 0, 0]
    assert (before, len(encoded)) == (0, 1)
