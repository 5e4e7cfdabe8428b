"""Experiments on one lane: each can be raced, or says in words why not; none changes what the lane was asked to be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from planner_machines import AMPERE, CPU, PLAIN_CPU, machine_with

from laptime.model.machine import Machine
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.why.experiments import AskedTraining
from laptime.questions.why.nouns import STEP_STAGES
from laptime.questions.why.run import AskedLane, list_possible, plan_experiment
from laptime.trainings.workloads import find_workload

CARD, HOST = machine_with(CPU, AMPERE), machine_with(CPU)


def base_of(text: str, machine: Machine = HOST, what: str | None = "plates-cnn") -> AskedLane:
    workload = find_workload(what) if what else None
    given = SubjectFacts(workload)
    lane = parse_lane(text)
    planned = plan_lane(lane, machine, given)
    return AskedLane(
        replace(lane, device=planned.device.name), planned, partial(plan_lane, machine=machine, subject=given)
    )


def possible(base: AskedLane):
    given = base.plan.keywords
    return list_possible(base, AskedTraining(base.planned, given["machine"], given["subject"].workload))


def named(base: AskedLane, name: str):
    return next(each for each in possible(base) if each.name == name)


@pytest.mark.parametrize("what", ["plates-cnn", "cifar-mlp", None])
@pytest.mark.parametrize("text", ["torch/cpu", "torch/cpu/best", "torch/cuda:0", "torch/cuda/fastest", "cpu/threads=2"])
def test_every_experiment_can_be_planned_or_has_a_reason(text, what):
    base = base_of(text, CARD, what)
    found = possible(base)
    assert len({each.name for each in found}) == len(found)
    for each in found:
        if each.absent is None:
            planned = plan_experiment(base, each)
            assert planned.settings != base.planned.settings
            assert planned.device == base.planned.device
        else:
            assert len(each.absent.missing) > 10
        assert each.code or not each.is_remedy


def test_only_what_the_experiment_is_about_is_otherwise():
    base = base_of("torch/cpu/best+threads=2+batch=64")
    planned = plan_experiment(base, named(base, "bf16"))
    assert planned.settings == replace(base.planned.settings, precision="bf16")
    assert planned.name == "torch/cpu/best+threads=2+batch=64+bf16"


def test_a_lane_that_has_it_already_is_not_raced_against_itself():
    keep = named(base_of("torch/cpu/malloc=keep"), "keep")
    assert keep.absent is not None
    assert "has malloc=keep already" in keep.absent.missing


def test_on_a_processor_there_is_nothing_to_copy():
    base = base_of("torch/cpu")
    assert named(base, "copy").absent is not None
    decoded, compute = named(base, "decoded"), named(base, "compute")
    assert plan_experiment(base, decoded).name == plan_experiment(base, compute).name
    assert (decoded.is_remedy, compute.is_remedy) == (True, False)


def test_on_a_card_the_three_ceilings_are_three_lanes():
    base = base_of("torch/cuda", CARD)
    inputs = [plan_experiment(base, named(base, name)).settings.input for name in STEP_STAGES]
    assert inputs == ["only", "copy", "resident"]


def test_as_many_workers_as_the_quota_has_cores():
    """More would be held back, whatever the machine has."""
    machine = replace(HOST, processor=replace(HOST.processor, quota_cores=3.5, cores_usable=3))
    base = base_of("torch/cpu", machine)
    assert plan_experiment(base, named(base, "workers")).settings.workers == 3
    assert named(base, "threads").settings == ("threads=3",)


def test_a_batch_is_told_in_the_workloads_own_numbers():
    base = base_of("torch/cpu")
    assert plan_experiment(base, named(base, "batch 4x")).settings.batch == 512
    assert plan_experiment(base, named(base, "half batch")).settings.batch == 64
    assert named(base, "batch 4x").says == "batch 128 -> 512"


def test_what_a_device_cannot_do_is_said_in_the_planners_words():
    absent = named(base_of("torch/cpu", machine_with(PLAIN_CPU)), "bf16").absent
    assert absent is not None
    assert "bf16 cannot be had on torch/cpu" in absent.missing


def test_the_code_of_best_is_that_of_all_that_it_sets():
    """What has no code of its own but a lane is left out."""
    best = named(base_of("torch/cpu", what="plates-cnn"), "best")
    parts = best.code.split("; ")
    assert "laptime.keep_memory()" in parts
    assert not [part for part in parts if part.startswith("laptime race")]
    assert all(
        any(part in each.code for each in possible(base_of("torch/cpu")) if each.name != "best") for part in parts
    )


def test_the_code_of_best_leaves_out_what_the_lane_has_already():
    assert "keep_memory" not in named(base_of("torch/cpu/malloc=keep"), "best").code
