"""The table of options: every row fills a field that there is, and says the same as the ask and the planner."""

from __future__ import annotations

import pytest

from laptime.model import option_kinds, options
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.options import ASK_PARTS, OPTIONS, find_option, make_ask, options_of
from laptime.model.quantities import parse_duration
from laptime.planner.plan import check_ask, check_ranges
from laptime.planner.refusals import LARGEST_COUNT
from laptime.planner.settings import LARGEST_RATE
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.train.options import FullAsk
from laptime.questions.tune.options import TuneAsk


@pytest.mark.parametrize("row", [row for row in OPTIONS if row.fills], ids=lambda row: f"{row.questions[0]} {row.name}")
def test_a_row_fills_a_field_that_there_is(row):
    owner = ASK_PARTS[row.part] if row.part else Ask
    assert row.fills.rpartition(".")[2] in owner.__dataclass_fields__


@pytest.mark.parametrize("question", [*options.TRAINED, "watch", "forecast"])
def test_a_question_has_an_option_once(question):
    rows = options_of(question)
    assert len({row.name for row in rows}) == len({row.option for row in rows}) == len(rows)


def test_the_defaults_of_a_race_are_those_of_an_ask():
    assert make_ask("race", {}) == Ask()
    budgets = {name: find_option(name, "budget").default_of(name) for name in options.TIMED}
    assert budgets == {
        "race": "60s",
        "infer": "60s",
        "why": "2m",
        "scale": "2m",
        "tune": "5m",
        "sweep": "5m",
        "verdict": "90s",
    }
    assert all(make_ask(name, {}).budget_s == parse_duration(text) for name, text in budgets.items())


def test_a_question_that_a_package_adds_has_the_options_of_a_subject():
    names = [row.name for row in options_of("first-step") if row.only != "library"]
    assert names == ["every", "data", "items", "pretrained", "seed", "patience", "label"]


def test_what_a_lane_may_name_an_option_may_name_too():
    assert find_option("train", "lr").range.most == LARGEST_RATE
    assert find_option("race", "batch").range.most == LARGEST_COUNT


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Ask(heats=0), "--heats 0: expected a whole number from 1 to 1,000"),
        (Ask(heats=10**400), "expected a whole number from 1 to 1,000"),
        (Ask(budget_s=float("nan")), "--budget nans: expected 1s to 7d"),
        (Ask(margin=2.0), "--margin 200.000%: expected 0.1% to 100%"),
        (Ask(seed=1 << 32), "--seed 4294967296: expected a whole number from 0 to 4,294,967,295"),
        (Ask(batches=(64, 0)), "--batch 0: expected whole numbers from 1 to 1,000,000"),
        (Ask(price_per_kwh=float("inf")), "--price inf: expected 0 or more"),
        (Ask(sensors_hz=900.0), "--sensor-rate 900: expected 0.01 to 100 a second"),
        (Ask(watchdog_s=0.0), "--watchdog 0s: expected 0.1s to 7d"),
        (Ask(steps=0), "--steps 0: expected a whole number from 1 on"),
        (FullAsk(until_accuracy=0.0), "--until-accuracy 0: expected a share above 0 and up to 1"),
        (FullAsk(learning_rates=(0.1, 0.0)), "--lr 0: expected numbers above 0 and up to 100"),
        (TuneAsk(laps=0), "--laps 0: expected a whole number from 1 to 100,000"),
        (ScaleAsk((1, 5000)), "--devices 5000: expected counts from 1 to 4,096"),
    ],
)
def test_what_is_out_of_range_is_refused_by_its_option(asked, says):
    with pytest.raises(UsageError) as caught:
        (check_ask if isinstance(asked, Ask) else check_ranges)(asked)
    assert says in caught.value.says
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (option_kinds.DURATION, 123456.789),
        (option_kinds.SHARE, 0.000012345),
        (option_kinds.NUMBER, 1 / 3),
        (option_kinds.NUMBERS, (1e-7, 0.1)),
        (option_kinds.ITEMS, 0),
    ],
    ids=lambda each: getattr(each, "name", str(each)),
)
def test_a_value_is_written_as_it_is_read(kind, value):
    """With all its digits, and no power of ten."""
    assert kind.of_text(kind.write(value)) == value
