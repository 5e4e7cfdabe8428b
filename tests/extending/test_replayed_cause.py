"""The cause `float64` once more: its row, its rule and its gain. Without them `why` neither tries nor names it."""

from __future__ import annotations

import pytest
from replay import ask, copy_without, files_naming

PLACES = {
    "questions/why/causes.py": ("compute_causes.FLOAT64",),
    "questions/why/compute_causes.py": ("FLOAT64", "double_numbers", "name_double"),
    "questions/why/gains.py": ("expect_single_numbers",),
}

ASKED = """
import json
from dataclasses import replace

from cases import MACHINE, case_of, lane_of, trial
from measured import with_heat

from laptime.model.symptoms import DenormalCensus
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import list_experiments, rank_experiments
from laptime.questions.why.experiments import AskedTraining
from planner_machines import CPU, machine_with

lane, stages = lane_of(100.0), {"loader": 1.0, "compute": 99.0}
census = DenormalCensus({"weights": 0.0}, ("float64",))
lane = replace(lane, heats=tuple(with_heat(heat, census=census) for heat in lane.heats))
machine = machine_with(CPU)
planned = plan_lane(parse_lane("torch/cpu"), machine, SubjectFacts(None))
made = {each.name: each for each in list_experiments(AskedTraining(planned, machine, None))}
single = made.get("single")
tried = trial("single", 2.0) if single is None else replace(trial("single", 2.0), experiment=single)
answer = explain(case_of(lane, tried, stages=stages))
print(json.dumps({
    "experiment": None if single is None else [single.cause, *single.settings, single.code],
    "tried first": next(iter(rank_experiments(case_of(lane, stages=stages)))),
    "causes": [each.cause for each in answer.causes if each.cause == "float64"],
    "says": answer.says,
    "remedies": [each.code for each in answer.remedies if each.code],
    "judged": len(answer.causes),
}))
"""


def test_it_is_in_three_files():
    assert files_naming("_causes.FLOAT64", "double_numbers", "single_numbers", '"numbers=single"') == set(PLACES)
    assert len(PLACES) == 3


@pytest.mark.long
def test_its_row_has_it_tried_judged_and_named():
    assert ask(ASKED) == {
        "experiment": ["float64", "numbers=single", "model.float(), and batches of float32"],
        "tried first": "single",
        "causes": ["float64"],
        "says": "torch/cpu: it computes in float64 (proven). 1,000 items/s of a possible 2,000.",
        "remedies": ["model.float(), and batches of float32"],
        "judged": 16,
    }


def test_without_its_three_places_nothing_tries_or_names_it(tmp_path):
    assert ask(ASKED, copy_without(tmp_path, PLACES)) == {
        "experiment": None,
        "tried first": "layout",
        "causes": [],
        "says": "torch/cpu: nothing that was tried makes it faster; how near it comes to what its device can do is not "
        "known. 1,000 items/s. 7 causes could not be tested.",
        "remedies": [],
        "judged": 15,
    }
