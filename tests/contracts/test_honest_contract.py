"""Some rows of `bench/honest.py`: across engines no honest model is accused, and what is planted is caught."""

from __future__ import annotations

import pytest
from rooms_here import INSTALLED, XLA_FLAGS

import honest

pytestmark = pytest.mark.long

KERAS = honest.GROUPS["keras"]
SOUND = ("mlp adamw", "batch norm rmsprop", "embedding adam")
PLANTED = {"mlp adamw: no decay": "mlp adamw"}
REPEATED = "repeated tokens adam"


@pytest.fixture(scope="module")
def answers():
    """Every lane answers in a process of its own; two of them at once. The first computes the references as well."""
    if not set(KERAS.lanes) <= set(INSTALLED):
        pytest.skip("it takes every engine of Keras")
    names = (*SOUND, *PLANTED, REPEATED)
    tasks = [honest.Task(KERAS.file, lane, names, 0, refers=lane == "keras-tf") for lane in KERAS.lanes]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XLA_FLAGS", XLA_FLAGS)
        return dict(zip(KERAS.lanes, honest.ask_all(tasks), strict=True))


def verdicts(answers, name, base):
    return [honest.judge(lane, answers[lane][name], answers["keras-tf"][base]) for lane in KERAS.lanes]


@pytest.mark.parametrize("name", SOUND)
def test_engines_agree_on_a_model_of_ones_own(answers, name):
    """These were accused of other work, or unproven."""
    assert [(each.status, each.reason) for each in verdicts(answers, name, name)] == [("same", None)] * 3


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_in_it_is_caught_on_every_engine(answers, name):
    assert [each.status for each in verdicts(answers, name, PLANTED[name])] == ["differs"] * 3


def test_what_one_engine_does_in_its_own_way_is_named(answers):
    """TensorFlow agrees with itself; the others are told from it, and why."""
    first, *others = verdicts(answers, REPEATED, REPEATED)
    assert first.status == "same"
    assert {each.status for each in others} == {"differs"}
    assert all("squares each row of an embedding's gradient" in each.reason for each in others)
