"""The page of why: the verdict first, a bar that adds up, ceilings, remedies, and by which figure what is ruled out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import with_heat
from shown import in_details
from why_records import (
    CACHED,
    COMPILED,
    DECODE,
    LARGER,
    NOT_PREDICTED,
    SHOWN,
    failed_remedy,
    loader_bound,
    not_trusted,
    nothing_found,
)

from golden import assert_agreed
from laptime.model.quantities import Factor, Missing
from laptime.model.record import CodeChange
from laptime.model.symptoms import LONGEST_LINES, StepSymptoms
from laptime.questions.why import page as why
from laptime.questions.why.nouns import NOT_PROMISING, StepPart
from laptime.questions.why.page import PART_BLOCKS, PART_LETTERS, bar_lines, measured_words
from laptime.show.pages.page import View
from laptime.store.files import row_of

render = in_details(why.PART.render)


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_as_it_was_agreed_on(name, width):
    assert_agreed(f"why-{name}", width, render(SHOWN[name](), width))


def test_the_order_of_the_page():
    """The verdict, the bar, the ceilings, the remedies, then what was ruled out."""
    page = render(loader_bound(), 160)
    words = (
        "the loader bounds",
        "a step 3.37 s",
        "96 %",
        "ceilings: ",
        "remedy",
        "proven: ",
        "ruled out: ",
        "Saved as",
    )
    places = [page.index(each) for each in words]
    assert places == sorted(places)


def test_a_failed_remedy_is_a_row_with_its_reason():
    page = render(failed_remedy(), 120)
    row = next(line for line in page.splitlines() if line.startswith("batch 128 -> 512"))
    assert "failed: CUDA out of memory: 64 GB were asked for" in row
    assert "The budget had no room for: compile, graph." in page


def test_a_page_says_why_what_keeps_items_is_not_recommended():
    """Where an item differed as it was fetched again in a heat of the lane itself."""
    record = loader_bound()
    heat = with_heat(record.lanes[0].heats[0], signs=StepSymptoms(3, redrawn=True))
    drawn = replace(record, lanes=(replace(record.lanes[0], heats=(heat,)), *record.lanes[1:]))
    says = "An item of the data set differs when it is fetched again, so to keep items changes the learning."
    for view in (View(100), View(100, details=True)):
        assert [says in " ".join(why.PART.render(each, view).split()) for each in (record, drawn)] == [False, True]


def test_the_cause_that_is_named_has_its_fix_though_no_experiment_was_made():
    """With its place in the code, and the command; not what nothing pointed to."""
    change = CodeChange("workers=4", "train.py", 9, "0" * 64, "", "train.py")
    no_room = "the budget had no room for it"
    untested = replace(DECODE, measured=None, lane=None, recommended=False, reason=no_room, change=change)
    page = why.PART.render(loader_bound(replace(CACHED, measured=None, reason=NOT_PROMISING), untested), View(100))
    assert "Not tested here: decode in 4 worker processes." in page
    assert f"    {DECODE.code}\n  train.py:9: laptime apply r-" in page
    assert "--remedy 1" in page
    assert "laptime.cached" not in page
    assert "Not tested" not in why.PART.render(loader_bound(DECODE), View(100))


def test_the_longest_lines_are_named_where_the_cause_has_none():
    record = loader_bound()
    signs = StepSymptoms(3, notes={LONGEST_LINES: "train.py:20 (58 %), train.py:21 (30 %)"})
    heat = with_heat(record.lanes[0].heats[0], signs=signs)
    timed = replace(record, lanes=(replace(record.lanes[0], heats=(heat,)), *record.lanes[1:]))
    says = "Of a step, most is in train.py:20 (58 %), train.py:21 (30 %)."
    for view in (View(100), View(100, details=True)):
        assert says in " ".join(why.PART.render(timed, view).split())


def test_noise_is_told_before_the_verdict():
    page = render(not_trusted(), 100)
    assert page.startswith("NOT RELIABLE: the step of the lane as it is varies by 84 % from heat to heat")


def test_colour_is_only_where_it_may_be():
    assert "\x1b" not in render(loader_bound(), 120)
    assert "\x1b[1m" in render(loader_bound(), 120, color=True)
    plain = re.sub(r"\x1b\[\d*m", "", render(loader_bound(), 120, color=True))
    assert plain == render(loader_bound(), 120)


def test_letters_stand_for_blocks_where_there_are_none():
    page = render(loader_bound(), 100, blocks=False)
    assert "####" in page
    assert not set(PART_BLOCKS.values()) - {"·"} & set(page)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(20, 200))
def test_bar_and_percentages_add_up(weights, width):
    """To the whole width and to 100, whatever the shares are."""
    whole = sum(weights) or 1.0
    shares = [weight / whole for weight in weights] if sum(weights) else [1.0]
    kinds = list(PART_BLOCKS)[-len(shares) :]
    bar, *legend = bar_lines([StepPart(of, share) for of, share in zip(kinds, shares, strict=True)], width)
    assert len(bar) == width
    assert sum(int(each) for each in re.findall(r"(\d+) %", " ".join(legend))) == 100


def test_a_bar_in_letters_is_as_long():
    (bar, *_), (letters, *_) = (bar_lines([StepPart("loader", 0.9), StepPart("unattributed", 0.1)], 40, blocks=each)
                                for each in (True, False))  # fmt: skip
    assert (bar.count("█"), letters.count(PART_LETTERS["loader"])) == (36, 36)


@pytest.mark.parametrize(
    ("expected", "measured"),
    [
        ("3.70x ±0.20", Factor(3.7, 3.5, 3.9)),
        ("98.0x ±6.0", Factor(98.0, 92.0, 104.0)),
        ("1.30x (one pair)", Factor(1.3, Missing("one pair"), Missing("one pair"))),
    ],
)
def test_a_gain_has_its_interval(expected, measured):
    assert measured_words(measured) == expected


@pytest.mark.parametrize(
    ("expected", "made"),
    [
        ("why torch/cuda:0: input pipeline (proven), decode in 4 worker processes 3.70x", loader_bound),
        ("why torch/cpu: no cause found", nothing_found),
        ("NOT RELIABLE, why torch/cpu: device shared (likely)", not_trusted),
    ],
)
def test_a_list_names_the_cause_and_the_remedy(expected, made):
    assert row_of("r-1", made()).summary == expected


def test_a_line_of_code_is_never_broken():
    """On a narrow page it is below the table."""
    page = render(loader_bound(replace(DECODE, code="DataLoader(" + "x" * 90 + ")")), 80)
    assert f"    DataLoader({'x' * 90})" in page.splitlines()


def table_of(shown, title):
    """Return the remedies in a table of the report."""
    return [row[0] for figure in why.figures(shown) if figure.title == title for row in figure.chart.rows]


def test_a_remedy_that_failed_was_tried_in_the_report_too():
    """The page had it among those that were tried, and the report among those that were not."""
    unknown = replace(LARGER, predicted=NOT_PREDICTED, measured=None, reason="out of memory")
    shown = loader_bound(CACHED, unknown, COMPILED)
    assert table_of(shown, "What may be changed") == [CACHED.says, unknown.says]
    assert table_of(shown, "What was not tried") == [COMPILED.says]


def test_page_and_report_have_the_gains_in_one_order():
    """What changes the learning is last in both, whatever it gains."""
    learns = replace(LARGER, measured=Factor(500.0, 485.0, 515.0))
    shown = loader_bound(learns, CACHED, DECODE)
    wanted = [f"{DECODE.says} (recommended)", CACHED.says, learns.says]
    (gains,) = [figure for figure in why.figures(shown) if figure.title.startswith("What it would gain")]
    assert [each.label for each in gains.chart.factors] == wanted
    page = why.PART.render(shown, View(200))
    assert sorted(wanted, key=page.index) == wanted
