"""The page of a comparison: for people, and in Markdown; what comes from records does nothing in either."""

from __future__ import annotations

from dataclasses import replace

import pytest
import watch_records
from records import lane, record

from laptime.model.errors import UsageError
from laptime.model.watched import WatchAnswer
from laptime.questions.compare.nouns import Compared, Side
from laptime.questions.compare.page import markdown, render_compared
from laptime.questions.compare.reduce import compare_records
from laptime.show.pages.page import View

CPU, CUDA = "torch/cpu/as-written", "torch/cuda:0/best"
EVIL = "x|<script>alert(1)</script>`@all`[a](http://b)\x1b[31m\u202e"


def two(after_ms=120.0, **changes):
    before = record((lane(CPU, 100.0, 0.01), lane(CUDA, 10.0, 0.01)), id="r-2026-11-20-aaaa")
    after = record((lane(CPU, after_ms, 0.01), lane(CUDA, 9.0, 0.01)), id="r-2026-11-21-bbbb")
    return compare_records(before, replace(after, **changes), 0.05)


def test_the_answer_is_first():
    page = render_compared(two(), View())
    assert page.splitlines()[0].startswith("Gate FAILED: slower by more than 5 %: torch/cpu (by at least ")
    assert "torch/cpu in r-2026-11-21-bbbb is 1.20x slower than r-2026-11-20-aaaa (1.1" in " ".join(page.split())
    assert "torch/cuda:0/best in r-2026-11-21-bbbb is 1.11x faster" in " ".join(page.split())


@pytest.mark.parametrize("width", [40, 60, 100])
def test_it_fits_any_page(width):
    assert max(map(len, render_compared(two(tool={"version": "9"}), View(width)).splitlines())) <= width


def test_many_lanes_are_counted():
    found = two()
    many = replace(found, fail_above=None, failing=(), lanes=found.lanes * 3)
    assert "against r-2026-11-20-aaaa, 6 lanes: 3 slower and 3 faster." in render_compared(many, View())


def test_what_differs_is_named_once():
    page = " ".join(render_compared(two(tool={"version": "0.2"}), View()).split())
    assert "Also different: laptime not set before, 0.2 after." in page


def test_hostile_names_do_nothing():
    """Neither in a terminal nor in a pull request."""
    side = Side("r-2026-11-20-aaaa", "", EVIL, "finished", EVIL)
    found = two()
    lanes = tuple(replace(each, lane=EVIL, training=EVIL) for each in found.lanes)
    hostile = Compared("race", side, side, True, lanes, (), (EVIL,), (EVIL,), 0.05, (EVIL,), (EVIL,))
    page, summary = render_compared(replace(hostile, failing=()), View()), markdown(replace(hostile, failing=()))
    for text in (page, summary):
        assert "\x1b" not in text
        assert "\u202e" not in text
    bare = "".join(part for number, part in enumerate(summary.split("`")) if number % 2 == 0)
    assert "<" not in bare.replace("\\<", "")
    assert "@all" not in bare
    assert "[a]" not in bare
    assert {line.replace("\\|", "").count("|") for line in summary.splitlines() if line.startswith("|")} == {6}


def test_a_gate_that_passes_says_what_it_does_not_rule_out():
    wide = record((lane(CPU, 100.0, 0.2),), id="r-2026-11-20-aaaa")
    found = compare_records(wide, record((lane(CPU, 100.0, 0.2),), id="r-2026-11-21-bbbb"), 0.05)
    first = " ".join(render_compared(found, View()).split())
    assert first.startswith("Gate passed: no lane is slower by more than 5 % for certain, but up to 1")
    assert "not ruled out" not in render_compared(two(100.0), View())


def test_several_trainings_have_a_column():
    """A page of one race: each further training against the first."""
    side = Side("r-2026-11-20-aaaa", "", None, "finished", "a.py:f")
    lanes = tuple(replace(each, training=f"{name}.py:f") for each, name in zip(two().lanes, "bc", strict=True))
    page = render_compared(Compared("race", side, replace(side, training="b.py:f and c.py:f"), True, lanes), View())
    assert page.startswith("b.py:f on torch/cpu is 1.20x slower than a.py:f (1.1")
    assert "c.py:f" in next(line for line in page.splitlines() if line.startswith("  torch/cuda:0/best"))
    assert "in turns within one race" in page
    assert "--gate" not in page


def test_a_threshold_within_one_race_names_the_gate_that_has_a_twin():
    side = Side("r-2026-11-20-aaaa", "", None, "finished", "a.py:f")
    found = Compared("race", side, replace(side, training="b.py:f"), True, two().lanes, fail_above=0.05)
    page = " ".join(render_compared(found, View()).split())
    assert "races the first training against itself, too, on one lane: laptime verdict A B LANE --gate." in page


def watched_twice(wait_after_ms=1.0, **changes):
    before = replace(watch_records.waits(), id="r-2026-11-20-aaaa")
    loop = watch_records.process(watch_records.epochs(wait_after_ms), watch_records.LOADER, watch_records.OPTIMIZER)
    answer = WatchAnswer(watch_records.COMMAND, 0, 12.5, (loop,))
    return compare_records(before, replace(watch_records.watched(answer), id="r-2026-11-21-bbbb", **changes), 0.05)


def test_two_watches_of_a_script_are_compared_with_the_parts_of_an_iteration():
    """They were refused, with two hints that sent to each other."""
    found = watched_twice()
    page = " ".join(render_compared(found, View()).split())
    assert "train.py in r-2026-11-21-bbbb is 2.94x faster than r-2026-11-20-aaaa (2.9" in page
    assert "In an iteration: waiting for data from 8.00 ms to 1.00 ms." in page
    assert "laptime verdict BASE.py CANDIDATE.py" in page
    assert "waiting for data from 8.00 ms" in markdown(found)
    assert (found.failing, found.lanes[0].ratio) == ((), pytest.approx(10.602 / 3.602, rel=1e-3))
    assert watched_twice(9.0).failing == ("train.py",)


def test_a_watch_that_saw_no_training_has_nothing_to_compare():
    with pytest.raises(UsageError, match="no training with enough iterations was seen in r-"):
        compare_records(watch_records.waits(), replace(watch_records.unseen(), id="r-2"))
