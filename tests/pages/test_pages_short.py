"""The pages that people see first: the answer, its figures, a few notes, and what to type next."""

from __future__ import annotations

import re

import full_records
import infer_records
import pytest
import records
import verdict_records
import watch_records
import why_records
from test_pages_profile import page_of

from golden import assert_agreed
from laptime.model.ask import Ask
from laptime.model.record import NOT_RELIABLE, Finding
from laptime.model.visible import cells_wide
from laptime.questions.infer import page as infer
from laptime.questions.profile import page as profile
from laptime.questions.race import page as race
from laptime.questions.train import page as full
from laptime.questions.verdict import page as verdict
from laptime.questions.watch import page as watch
from laptime.questions.why import page as why
from laptime.show.pages.page import View

PAGES = {
    **{f"race-{name}": (race, make) for name, make in records.SHOWN.items()},
    **{f"full-{name}": (full, make) for name, make in full_records.SHOWN.items()},
    **{f"infer-{name}": (infer, make) for name, make in infer_records.SHOWN.items()},
    **{f"why-{name}": (why, make) for name, make in why_records.SHOWN.items()},
    **{f"watch-{name}": (watch, make) for name, make in watch_records.SHOWN.items()},
    **{f"verdict-{name}": (verdict, make) for name, make in verdict_records.SHOWN.items()},
    "profile": (profile, page_of),
}
UNBROKEN = ("    ", "  trace:", "trace:")  # code and names of files, to be copied
ANSI = re.compile(r"\x1b\[\d+m")
MOST_LINES = 40
ONE_OF_EACH = tuple({name.split("-")[0]: name for name in reversed(PAGES)}.values())
HOW = {"colour": {"color": True}, "ascii": {"blocks": False}}


def page(name: str, width: int = 100, **how: bool) -> str:
    module, make = PAGES[name]
    return module.PART.render(make(), View(width, **how))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", PAGES)
def test_a_short_page_is_as_it_was_agreed(name, width):
    """A page changes only on purpose."""
    assert_agreed(f"short-{name}", width, page(name, width))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_page_in_colour_and_in_ascii_is_as_it_was_agreed(name, how, width):
    assert_agreed(f"short-{name}-{how}", width, page(name, width, **HOW[how]))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_screen(name):
    """What does not fit is behind --details, as the last line says."""
    lines = page(name).splitlines()
    assert len(lines) <= MOST_LINES
    assert "" not in {line.strip() for line in lines[-2:]}
    assert "--details" in lines[-1] or "laptime resume" in lines[-1]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("details", [False, True])
def test_no_line_is_wider_than_the_page(name, details):
    """Lines of code and file names alone may be: they are copied."""
    for width in (*range(40, 130, 3), 160, 200):
        lines = [line for line in page(name, width, details=details).splitlines() if not line.startswith(UNBROKEN)]
        assert width >= max(map(cells_wide, lines)), width


@pytest.mark.parametrize("name", PAGES)
def test_colour_and_blocks_change_no_word(name):
    """A page in a file, on a terminal and on one without block characters say the same."""
    plain = page(name)
    assert ANSI.sub("", page(name, color=True)) == plain
    letters = page(name, blocks=False)
    assert letters.isascii() or not set(letters) & set("█▓▒░▏▎▍▌▋▊▉")
    assert re.findall(r"[\d.,]+x", letters) == re.findall(r"[\d.,]+x", plain)


def test_five_questions_are_answered_at_once():
    """Which lane, by what factor, how sure: in the first lines. The same work, what next: in the last two."""
    lines = page("race-other-batch").splitlines()
    first, last = " ".join(lines[:2]), " ".join(lines[-3:])
    assert "torch/cpu/batch=400 is 1.23x as fast as torch/cpu as written (1.18-1.28)." in " ".join(first.split())
    assert "Same work: proven (10 steps against float64). 5 heats each, 58 s, settled within 5 %." in " ".join(
        last.split()
    )
    assert "Next: laptime why cifar-cnn torch/cpu/batch=400" in last


def test_a_lane_that_is_slower_is_the_one_that_is_named_second():
    """Where the first lane is the fastest, the sentence is about it."""
    slower = records.comparison("torch/cpu/best", 0.5, 0.4, 0.6)
    made = records.record((records.FIRST, records.lane("torch/cpu/best", 184.0)), (slower,))
    said = " ".join(race.PART.render(made, View(140)).split())
    assert "torch/cpu as written is 2.00x as fast as torch/cpu/best (1.67-2.50)." in said
    assert "2.00x slower (1.67-2.50)" in said


def test_no_factor_is_named_between_different_trainings():
    """Neither in the sentence nor in the rows."""
    said = page("race-differing")
    assert "2.30x" not in said
    assert "NOT done by torch/cpu/compile" in said


def test_figures_of_a_busy_machine_are_called_not_reliable():
    """In the first words of the page."""
    busy = Finding(NOT_RELIABLE, "45 of 50 windows of torch/cpu were disturbed.", {}, "Race again.", "proven")
    made = records.record((records.FIRST, records.BEST), (records.FASTER,), findings=(busy,))
    assert race.PART.render(made, View()).startswith(
        "NOT RELIABLE: 45 of 50 windows of torch/cpu were disturbed. Race again.\n"
    )


def test_a_price_per_hour_needs_no_sensor():
    """The cost of a lap is its time: 46.1 s at 2 an hour."""
    made = records.record((records.FIRST, records.BEST), (records.FASTER,), ask=Ask(rate_per_hour=2.0))
    assert "Money a lap: torch/cpu 0.0256, torch/cpu/best 0.0172." in race.PART.render(made, View())


def test_a_loader_that_is_no_limit_is_named_with_its_rate():
    """A training that computing limits has a sentence on its loader, too."""
    assert "The loader is no limit: it gives 290,000 images/s, you use 581." in page("why-nothing")


def test_a_loader_that_is_a_cause_is_not_called_no_limit():
    """Without worker processes the loader alone is faster than the training, and still adds to each step."""
    record = why_records.loader_bound(
        ceilings=(why_records.ceiling("loader", 100.0), why_records.ceiling("compute", 61.0))
    )
    said = " ".join(why.PART.render(record, View()).split())
    assert "The loader is no limit" not in said
    assert "The loader alone gives 100 images/s; a step waits for it and then computes, so the times add up." in said


def test_published_laps_of_another_length_are_not_shown_beside_ours():
    """100 steps are no lap of 500."""
    made = full_records.full((full_records.run("torch/cpu/as-written", 0, 10.1, 10.0),),
                             protocol=full_records.Protocol(2, 100, 0, 0, 0))  # fmt: skip
    said = full.PART.render(made, View())
    assert "GTX 1080" not in said
    assert "Published laps are not shown: they are of 500 steps, and these of 100." in said
    assert "100 steps a lap" in full.PART.render(made, View(details=True)).splitlines()[1]


def test_sentence_and_table_give_an_interval_in_one_direction():
    """Also where the second lane seems slower: 0.33-2.35 in the table is not 0.43-3.06 above it."""
    compared = records.comparison(
        "torch/cpu/threads=1", 0.88, 0.33, 2.35, settled=False, ratios=(0.35, 2.2), in_turns=True
    )
    lanes = (records.FIRST, records.lane("torch/cpu/threads=1", 100.0))
    shown = race.PART.render(records.record(lanes, (compared,)), View(120))
    assert shown.count("(ratio 0.33-2.35)") == shown.count("not distinguishable (0.33-2.35)") == 1
    assert "torch/cpu/threads=1 by a factor of 6.29" in " ".join(shown.split())
