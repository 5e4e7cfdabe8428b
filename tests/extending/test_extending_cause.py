"""A cause and its experiment are added from outside by one row: planned, tried, judged, named, shown and kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from card_machines import machine
from cases import case_of, lane_of, trial
from why_records import why_record

from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import CAUSES, CauseRow, rank_experiments
from laptime.questions.why.experiments import AskedTraining, ExperimentRow
from laptime.questions.why.facts import Signature, judge
from laptime.questions.why.page import PART
from laptime.questions.why.run import AskedLane, list_possible, plan_experiment
from laptime.show.pages.page import View
from laptime.store.schema import decode, encode

CROWDED = "crowded bus"
STAGES = {"loader": 1.0, "compute": 99.0}


def crowded_bus(facts):
    return judge(facts, CROWDED, Signature(None, "how busy the bus is cannot be read"), ["three threads"])


@pytest.fixture(autouse=True)
def row():
    """Append it, as a program that uses laptime would."""
    experiment = ExperimentRow(
        "three threads",
        "threads=3",
        "leave room on the bus",
        "with three threads",
        code={"torch": "torch.set_num_threads(3)", "": "OMP_NUM_THREADS=3"},
        expects=lambda _facts: 1.5,
        predicts=lambda facts, _experiment: 1.0 + facts.margin,
    )
    CAUSES.append(CauseRow(CROWDED, crowded_bus, "the bus is crowded", experiments=(experiment,)))
    yield
    CAUSES.pop()


@pytest.fixture
def experiment():
    """Return it as the planner made it for a lane of PyTorch."""
    lane, here, given = parse_lane("torch/cpu"), machine(), SubjectFacts(None)
    planned = plan_lane(lane, here, given)
    asked = AskedLane(replace(lane, device="cpu"), planned, partial(plan_lane, machine=here, subject=given))
    made = next(
        each for each in list_possible(asked, AskedTraining(planned, here, None)) if each.name == "three threads"
    )
    assert plan_experiment(asked, made).settings.threads == 3
    return made


def tried(experiment, ratio):
    return replace(trial("three threads", ratio), experiment=experiment)


def test_it_is_planned(experiment):
    assert (experiment.settings, experiment.absent) == (("threads=3",), None)
    assert experiment.code == "torch.set_num_threads(3)"


def test_it_is_worth_a_lane_until_it_has_one(experiment):
    facts = case_of(lane_of(100.0), stages=STAGES)
    assert next(iter(rank_experiments(facts))) == "three threads"
    assert "three threads" not in rank_experiments(case_of(lane_of(100.0), tried(experiment, 2.0), stages=STAGES))


@pytest.mark.parametrize(("ratio", "standing"), [(2.0, "proven"), (1.0, "ruled out"), (None, "not tested")])
def test_it_is_judged(experiment, ratio, standing):
    answer = explain(case_of(lane_of(100.0), tried(experiment, ratio), stages=STAGES))
    verdict = answer.causes[-1]
    assert (verdict.cause, verdict.standing) == (CROWDED, standing)
    assert (answer.first == (CROWDED,)) is (standing == "proven")


def test_the_verdict_names_it_and_shows_its_remedy(experiment):
    answer = explain(case_of(lane_of(100.0), tried(experiment, 2.0), stages=STAGES))
    assert answer.says.startswith("torch/cpu: the bus is crowded (proven).")
    assert (
        answer.causes[-1].says
        == "how busy the bus is cannot be read; with three threads it is 2.00x (1.96 to 2.04) as fast"
    )
    (remedy,) = answer.remedies
    assert (remedy.cause, remedy.says, remedy.recommended) == (CROWDED, "leave room on the bus", True)
    assert remedy.predicted == pytest.approx(1.05)


def test_a_record_keeps_it_and_the_page_shows_it(experiment):
    lane = lane_of(100.0)
    answer = explain(case_of(lane, tried(experiment, 2.0), stages=STAGES))
    record = why_record(answer, lane)
    assert decode(encode(record), "here").answer.why == answer
    page = PART.render(record, View(120, details=True))
    assert "proven: crowded bus (how busy the bus is cannot be read; with three threads" in page
    assert "leave room on the bus (recommended)" in page
    assert "torch.set_num_threads(3)" in page
