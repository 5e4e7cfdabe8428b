"""A setting is added from outside by one row: it is read, listed, refused, in its lane's process and in the record."""

from __future__ import annotations

import pytest

from laptime import api
from laptime.cli.help import lanes_text
from laptime.engine.run.scout import ask_proof
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.planner.lanes import parse_lane
from laptime.planner.refusals import Setting
from laptime.planner.settings import SETTINGS, settings_table
from laptime.questions.proving import order_heat

STEP = """\
import os

import laptime

def count(state, batch):
    return state + batch, float(len(os.environ["SHOUT"]))

def training():
    return laptime.Training(step=count, state=0, data=[1, 2, 3])
"""


def refuse_shout(settings, lane):
    if settings.value_of("shout") and not lane.on_processor:
        raise UsageError(f"shout={settings.value_of('shout')}: {lane.device.name} has no voice", "leave it out")


def set_shout(settings, _device):
    return {"SHOUT": settings.value_of("shout")} if settings.value_of("shout") else {}


@pytest.fixture(autouse=True)
def shout(monkeypatch, tmp_path):
    """Add the row, as a program that uses laptime would."""
    row = Setting(
        "shout",
        ("loud", "louder"),
        "how a step is announced",
        takes="loud or louder",
        changes="learning",
        refuse=refuse_shout,
        environment=set_shout,
    )
    monkeypatch.setitem(SETTINGS, row.name, row)
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAPTIME_FAKE", "1")


def test_it_is_read_and_listed():
    assert parse_lane("cpu/best+shout=louder").overrides == (("shout", "louder"),)
    assert "shout=loud shout=louder" in lanes_text()
    assert "| shout | `shout=loud` `shout=louder` | how a step is announced | the learning |" in settings_table()


@pytest.mark.parametrize(
    ("lane", "says", "hint"),
    [
        ("fake/cpu/shout=soft", "lane 'fake/cpu/shout=soft': shout=soft cannot be", "shout takes loud or louder"),
        ("fake/cuda/shout=loud", "shout=loud: cuda:0 has no voice", "leave it out"),
    ],
)
def test_it_is_refused_in_words(lane, says, hint):
    with pytest.raises(UsageError) as caught:
        api.outline(Ask(lanes=(lane,)))
    assert (caught.value.says, caught.value.hint) == (says, hint)


def test_it_reaches_the_back_end(tmp_path):
    """By the environment of its lane's process, where a step reads it."""
    (tmp_path / "own.py").write_text(STEP)
    plan = api.outline(Ask(f"{tmp_path / 'own.py'}:training", ("python/cpu/shout=louder",)))
    order = order_heat(plan, plan.lanes[0], plan.pace, 0)
    (run, *_) = ask_proof(order, plan.ask.patience_s)
    assert set(run.losses) == {6.0}


def test_it_is_in_the_record():
    """Under the name that it has in a lane."""
    api.race(Ask(lanes=("fake/cpu/shout=loud",), heats=1))
    (lane,) = api.load("latest").lanes
    assert lane.name == "fake/cpu/shout=loud"
    assert lane.settings.value_of("shout") == "loud"
