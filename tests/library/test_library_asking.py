"""Arguments become an ask: as the command line reads them, with its names and its defaults."""

from __future__ import annotations

import inspect
from pathlib import Path

import click
import pytest

import laptime
from laptime.cli.main import find_command
from laptime.library.asking import check_call, make_ask, options_as_arguments
from laptime.model.ask import Ask, TypePrice
from laptime.model.errors import UsageError
from laptime.model.options import options_of
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.sweep.options import SweepAsk
from laptime.questions.train.options import FullAsk
from laptime.questions.tune.options import TuneAsk


def test_what_is_left_out_is_as_on_the_command_line():
    assert make_ask("cifar-cnn", ()) == Ask()


def test_arguments_are_texts_or_numbers():
    asked = make_ask(
        Path("my.py:training"), ["cpu", "cuda/best"], budget="1m", margin="5%", heats=3, seed=2, items="all",
        data=Path("/data"), patience=90, watchdog="2.5s", sensors="host,rapl", sensor_rate=2, alone=True, every=False,
        price=0.3, rate=2, profile=True,
    )  # fmt: skip
    assert asked == Ask(
        "my.py:training", ("cpu", "cuda/best"), heats=3, budget_s=60.0, margin=0.05, seed=2, patience_s=90.0,
        watchdog_s=2.5, data="/data", items=0, sensors=("host", "rapl"), sensors_hz=2.0, price_per_kwh=0.3,
        rate_per_hour=2.0, profile=True, alone=True,
    )  # fmt: skip


def test_a_cluster_is_named_as_on_the_command_line():
    assert make_ask("cifar-cnn", "torch/cuda", on="ray://head:10001").on == "ray://head:10001"


def test_types_of_nodes_have_prices():
    asked = make_ask("cifar-cnn", "torch/cpu", on="ray", each="machine", prices={"small": 0.1, "big": 1})
    assert (asked.each, asked.prices) == ("machine", (TypePrice("small", 0.1), TypePrice("big", 1.0)))
    with pytest.raises(UsageError, match="expected a price for each type"):
        make_ask("cifar-cnn", "torch/cpu", prices="small=0.1")


def test_a_list_of_trainings_races_these():
    asked = make_ask(["my.py:before", Path("new/my.py:after")], "cpu")
    assert asked == Ask("my.py:before", ("cpu",), others=("new/my.py:after",))
    with pytest.raises(UsageError, match="an empty list names no training"):
        make_ask([], "cpu")


def test_whole_trainings_have_arguments_of_their_own():
    asked = make_ask("cifar-cnn", "cpu", "train", laps=2, lr=1e-3, batch=[64, 128], until_accuracy="70%", seeds=3)
    assert (asked.lanes, asked.full) == (("cpu",), FullAsk(2, None, 3, 0.7, (1e-3,), (64, 128)))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"budget": "long"}, "budget='long': 'long' is not a length of time; such as 60s, 2m or 1h"),
        ({"budget": [1]}, "budget=[1]: expected seconds, or a text such as '60s', '2m' or '1h'"),
        ({"margin": True}, "margin=True: expected a number such as 0.03, or a text such as '3%'"),
        ({"margin": 5}, "margin=5: '5' is 500%; did you mean 5%?"),
        ({"margin": -0.1}, "margin=-0.1: '-0.1' is not a share; such as 3% or 0.03"),
        ({"heats": 2.5}, "heats=2.5: expected a whole number"),
        ({"items": "some"}, "items='some': expected a whole number from 1, or 'all'"),
        ({"sensors": 3}, "sensors=3: expected names, such as ['host', 'rapl']"),
        ({"data": 3}, "data=3: expected a path"),
        ({"alone": 1}, "alone=1: expected True or False"),
        ({"lanes": [1]}, "lanes=[1]: expected the names of lanes"),
        ({"on": "cuda"}, "on='cuda': expected 'ray', 'ray://host:10001' or 'slurm'; devices are named as lanes"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(given, says):
    with pytest.raises(UsageError) as caught:
        make_ask("cifar-cnn", **{"lanes": (), **given})
    assert says == caught.value.says


def test_an_ask_stays_as_it_is_and_takes_no_other_argument():
    asked = Ask("cifar-mlp", ("cpu",), heats=2)
    assert make_ask(asked, (), heats=None, alone=False) is asked
    with pytest.raises(UsageError, match="an Ask has all arguments in it, and heats, lanes was given too"):
        make_ask(asked, ["cpu"], heats=3)


@pytest.mark.parametrize(
    ("asked", "call", "meant"),
    [
        (Ask(full=FullAsk()), "race", "laptime.train"),
        (Ask(full=FullAsk()), "infer", "laptime.train"),
        (Ask(infer=True), "race", "laptime.infer"),
        (Ask(infer=True), "why", "laptime.infer"),
    ],
)
def test_an_ask_for_another_function_is_refused_with_that_function(asked, call, meant):
    """It ran a plain race, in silence."""
    with pytest.raises(UsageError) as caught:
        check_call(asked, call)
    assert f"laptime.{call} does not run" in caught.value.says
    assert meant in caught.value.hint


def test_a_script_has_arguments_of_its_own():
    ask = make_ask("train.py", ["cpu"], arguments=["--epochs", "3"], steps=5)
    assert (ask.what, ask.command, ask.steps) == ("train.py", ("--epochs", "3"), 5)
    with pytest.raises(UsageError, match="expected a list of words"):
        make_ask("train.py", (), arguments="--epochs 3")


def test_refusals_name_arguments_and_not_options():
    with pytest.raises(UsageError) as caught, options_as_arguments():
        raise UsageError("--sensor-rate 900: expected 0.01 to 100 a second", "or `laptime show ID --json`, --heats 3")
    assert caught.value.says == "sensor_rate 900: expected 0.01 to 100 a second"
    assert caught.value.hint == "or `laptime show ID --json`, heats 3"


OF_THE_TERMINAL = {"json", "md", "q", "quiet", "details", "dry_run", "more"}
OF_LANES = {"set"}  # what it adds has a name as a lane
OF_THE_LIBRARY = {"progress", "arguments"}  # on the command line, a script's arguments are behind --
SHORT = {"o"}


@pytest.mark.parametrize(
    "name", ["race", "train", "infer", "why", "scale", "profile", "resume", "compare", "history", "report"]
)
def test_a_call_has_the_options_of_its_command(name):
    """By their names, but for what is of a terminal; `progress` is the library's own."""
    told = [each for each in find_command(name).params if isinstance(each, click.Option)]
    options = {word.lstrip("-").replace("-", "_") for each in told for word in each.opts}
    given = inspect.signature(getattr(laptime, name)).parameters.values()
    named = {each.name for each in given if each.kind is each.KEYWORD_ONLY} - OF_THE_LIBRARY
    assert options - OF_THE_TERMINAL - OF_LANES - SHORT == named


@pytest.mark.parametrize(
    "name", ["race", "train", "infer", "why", "scale", "tune", "sweep", "profile", "plan", "watch"]
)
def test_a_signature_has_the_options_of_the_table(name):
    """At run time, with their types: `help(laptime.race)` lists them."""
    given = inspect.signature(getattr(laptime, name)).parameters.values()
    named = {each.name: each.annotation for each in given if each.kind is each.KEYWORD_ONLY}
    assert list(named) == [row.name for row in options_of(name) if row.only != "command"]
    assert named["label"] == "str | None"
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in given}


def test_what_no_function_takes_is_an_error_of_python():
    with pytest.raises(TypeError, match=r"laptime.infer\(\) got an unexpected keyword argument 'margin'"):
        laptime.infer("cifar-cnn", "fake/cpu", margin=0.1)


@pytest.mark.parametrize("name", ["race", "infer", "why", "scale", "tune", "sweep"])
def test_a_budget_is_by_default_that_of_the_command(name):
    (budget,) = [each for each in find_command(name).params if each.name == "budget"]
    assert budget.type.convert(budget.default, None, None) == make_ask("cifar-cnn", (), name).budget_s


@pytest.mark.parametrize(
    ("question", "given", "asked"),
    [
        ("scale", {"devices": [1, 2], "both": True}, Ask(scale=ScaleAsk((1, 2), ("both",)))),
        (
            "tune",
            {"allow": "batch,precision", "aim": "energy"},
            Ask(tune=TuneAsk(("batch", "precision"), (), None, "energy")),
        ),
        ("sweep", {"batch": [8, 16], "items": 500}, Ask(items=500, sweep=SweepAsk(batch="8,16"))),
        ("sweep", {"items": "500,1000", "width": [0.5, 2]}, Ask(sweep=SweepAsk(items="500,1000", width="0.5,2"))),
        ("train", {"laps": 3}, Ask(full=FullAsk(laps=3))),
        ("infer", {}, Ask(infer=True)),
        ("profile", {}, Ask(profile=True)),
    ],
)
def test_a_question_has_options_of_its_own(question, given, asked):
    """Also of an Ask that does not say them yet."""
    assert make_ask(Ask(items=asked.items), (), question, **{k: v for k, v in given.items() if v != 500}) == asked
    assert (
        make_ask(
            "cifar-cnn", (), question, **given, **({"budget": 60} if question in {"scale", "tune", "sweep"} else {})
        )
        == asked
    )


def test_an_ask_that_says_them_takes_no_others():
    with pytest.raises(UsageError) as caught:
        make_ask(Ask(scale=ScaleAsk((1, 2))), (), "scale", devices=[1, 4])
    assert caught.value.hint == "Set them in its ScaleAsk."


def test_an_axis_is_a_text_or_a_list():
    with pytest.raises(UsageError, match=r"batch=8: expected a text such as '1..64', or a list of numbers"):
        make_ask("cifar-cnn", (), "sweep", batch=8)
