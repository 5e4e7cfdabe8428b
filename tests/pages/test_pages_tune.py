"""The page of a tuning: the sentence, what each setting is worth, and how to set the winner.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import tune_records
from shown import in_details

from golden import assert_agreed
from laptime.api.showing import report_of
from laptime.questions.tune import page as tune
from laptime.questions.tune.options import TuneAsk
from laptime.questions.tune.page import summary
from laptime.show.pages.page import View

details = in_details(tune.PART.render)


def words_of(text):
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", tune_records.SHOWN)
def test_a_page_is_as_it_was_agreed(name, width):
    assert_agreed(f"tune-{name}", width, details(tune_records.SHOWN[name](), width))
    assert_agreed(f"short-tune-{name}", width, tune.PART.render(tune_records.SHOWN[name](), View(width)))


def test_the_answer_comes_first_and_what_failed_is_in_the_details():
    record = tune_records.confirmed()
    page = words_of(tune.PART.render(record, View(100)))
    assert "torch/cpu is 1.95x (1.92-1.98) as fast with bf16+malloc=keep." in page
    assert "no compiler" not in page
    assert "compile: RuntimeError: no compiler" in words_of(details(record, 100))
    assert summary(record) == ["torch/cpu 1.95x with bf16+malloc=keep"]
    assert summary(tune_records.two_lanes())[0] == "torch/cpu 1.95x with bf16+malloc=keep"


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        (("bf16",), "bf16 was not raced alone: the budget had no room for it."),
        (("malloc=keep", "bf16"), "No setting of it was raced alone: the budget had no room for it."),
    ],
)
def test_what_of_the_winner_was_not_raced_alone_is_said_once(lost, says):
    record = tune_records.confirmed()
    (tuned,) = record.answer.tuning.lanes
    why = "the budget had no room for it"
    settings = tuple(replace(each, alone=None, reason=why) if each.word in lost else each for each in tuned.settings)
    tuning = replace(record.answer.tuning, lanes=(replace(tuned, settings=settings),))
    page = words_of(tune.PART.render(replace(record, answer=replace(record.answer, tuning=tuning)), View(120)))
    assert says in page
    assert page.count("raced alone") == 1


def test_a_winner_that_changes_arithmetic_names_the_command_that_shows_what_it_learns():
    """Once that was seen, a race of the two is next."""
    page = words_of(tune.PART.render(tune_records.confirmed(), View(120)))
    assert "Next: laptime train cifar-cnn torch/cpu torch/cpu/bf16+malloc=keep --laps 1" in page
    page = words_of(tune.PART.render(tune_records.learned(), View(120)))
    assert "Next: laptime race cifar-cnn torch/cpu torch/cpu/bf16+malloc=keep" in page
    assert "No accuracy of torch/cpu/bf16+malloc=keep: outputs and targets are not classes." in page


def test_a_page_of_another_aim_has_its_words():
    """What a lap takes is said, or why nobody knows."""
    record = tune_records.confirmed()
    record = replace(record, ask=replace(record.ask, tune=TuneAsk(aim="energy"), rate_per_hour=1.0))
    page = words_of(tune.PART.render(record, View(120)))
    assert "setting alone per joule between" in page
    assert "Energy a lap: no sensor was read." in page
    assert "Money a lap: torch/cpu 0.0236, torch/cpu/bf16+malloc=keep 0.0118." in page
    assert summary(record) == ["torch/cpu 1.95x per joule with bf16+malloc=keep"]


def test_a_report_has_a_factor_for_each_setting():
    figures = report_of(tune_records.two_lanes()).figures
    first, second = (each for each in figures if each.title.startswith("What each setting is worth"))
    assert (first.title[-9:], second.title[-12:]) == ("torch/cpu", "torch/cuda:0")
    assert all(each.low < each.value < each.high for each in first.chart.factors)


def test_the_number_of_a_report_is_the_confirmed_gain():
    report = report_of(tune_records.confirmed())
    assert report.glance.number == "1.95x"
    assert report.glance.ends == "1.92-1.98 at 95 %"
    assert "laptime.keep_memory()" in {each.says for each in report.glance.facts}


def test_one_page_has_one_count_of_what_was_raced():
    """The lane as asked is no set of settings: the page had "2 of 11 were tried" and "3 were raced"."""
    record = tune_records.confirmed()
    (tuned,) = record.answer.tuning.lanes
    tuned = replace(tuned, path=tuned.path[:2], tried=3)
    page = words_of(tune.PART.render(_with(record, tuned), View(120)))
    assert "2 sets of settings were raced." in page
    assert "1 set of settings was raced." in words_of(
        tune.PART.render(_with(record, replace(tuned, path=tuned.path[:1])), View(120))
    )


def test_the_code_of_a_winner_is_whole_or_not_there():
    """It named three settings, hid the diffs of two, and printed how to set the third."""
    record = tune_records.script()
    (tuned,) = record.answer.tuning.lanes
    page = words_of(tune.PART.render(_with(record, tuned), View(120)))
    assert "num_workers=4" in page
    assert "laptime.keep_memory()" in page
    page = words_of(tune.PART.render(_with(record, replace(tuned, standing="not confirmed", gain=None)), View(120)))
    assert "num_workers=4" not in page
    assert "keep_memory" not in page
    assert "MALLOC" not in page
    assert "Its code is shown once fresh heats have confirmed it." in page
    assert "Next: laptime tune --more r-" in page


def _with(record, tuned):
    return replace(record, answer=replace(record.answer, tuning=replace(record.answer.tuning, lanes=(tuned,))))
