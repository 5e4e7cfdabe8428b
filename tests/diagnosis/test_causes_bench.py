"""What bench/causes.py counts: every cause is planted or says why not, and its figures are those of its cases."""

from __future__ import annotations

import pytest
from cases import case_of, lane_of

import causes
from causes_cards import STATES, STEP_MS, explain_replay, script_of
from laptime.questions.why.causes import judge_causes

RIGHT = {"cause": "input pipeline", "how": "-", "training": "cnn", "first": ["input pipeline"], "seconds": 60.0,
         "standings": {"input pipeline": "proven"}, "recommended": "decode", "predicted": 4.0, "measured": 4.4,
         "budget_s": 60.0}  # fmt: skip
SECOND = {**RIGHT, "first": ["poor kernels", "input pipeline"], "predicted": 4.0, "measured": 8.0,
          "standings": {"input pipeline": "likely", "poor kernels": "proven"}}  # fmt: skip
CLEAN = {**RIGHT, "cause": "none", "first": [], "standings": {"input pipeline": "ruled out"}, "recommended": None,
         "predicted": None, "measured": None}  # fmt: skip
FAILED = {"cause": "input pipeline", "how": "-", "training": "mlp", "failed": "exit code 3"}
SKIPPED = {"cause": "several devices", "how": "-", "training": "-", "skipped": "one device"}


def test_every_cause_is_planted_or_says_why_not():
    names = {each.cause for each in judge_causes(case_of(lane_of(100.0)))}
    assert {plant.cause for plant in causes.PLANTS} - {causes.NONE} == names
    assert len({causes.key_of(plant, "") for plant in causes.PLANTS}) == len(causes.PLANTS)


def test_figures_count_what_was_named():
    """A case that failed was not named; one that was skipped is none."""
    told = {each.name: each.value for each in causes.figures_of([RIGHT, SECOND, CLEAN, FAILED, SKIPPED])}
    assert told["cases with a planted cause"] == 3
    assert told["cases that failed"] == 1
    assert told["planted cause named first"] == pytest.approx(1 / 3)
    assert told["planted cause named first or second"] == pytest.approx(2 / 3)
    assert told["no other cause called proven"] == pytest.approx(2 / 3)
    assert told["nothing planted: nothing proven"] == 1
    assert told["recommended remedy within 20 % of its prediction"] == pytest.approx(1 / 2)


@pytest.mark.parametrize("cause", STATES)
def test_a_replayed_sensor_proves_its_state(cause):
    """The shipped sensor's readings through the real rules: nothing else is proven."""
    why = explain_replay(cause, "cifar-mlp")
    assert why.first[0] == cause
    assert [each.cause for each in why.causes if each.standing == "proven"] == [cause]


@pytest.mark.parametrize("training", STEP_MS)
def test_scripts_of_cards_are_toml(training):
    import tomllib

    table = tomllib.loads(script_of("copy to the device", training))["fake/*"]
    assert table["copy_ms"] == STEP_MS[training]
