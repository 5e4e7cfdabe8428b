"""The setting `onednn` once more: its row, its switch in PyTorch, its variable. Without them nothing knows of it."""

from __future__ import annotations

import pytest
from replay import ask, copy_without, files_naming

PLACES = {
    "planner/settings.py": ("onednn", "onednn_to_try", "of_onednn", "WITHOUT_ONEDNN"),
    "engine/backends/torch/devices.py": ("onednn",),
    "model/plan.py": ("TF_ENABLE_ONEDNN_OPTS",),  # the variables that agents of nodes set
}
NAME_ITS_VERSION = {
    "show/pages/listing.py",
    "engine/backends/torch/devices.py",
}  # that of the library, whatever a lane sets

PLANNED = """
import json
from dataclasses import asdict, replace
from functools import partial

from planner_machines import CPU, machine_with, plan_for

from laptime.cli.help import lanes_text
from laptime.model.errors import UsageError
from laptime.model.machine import Framework
from laptime.model.plan import NODE_VARIABLES
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.planner.settings import settings_table, with_settings
from laptime.questions.tune.lanes import find_tunable
from laptime.questions.tune.options import TuneAsk
from laptime.questions.why.experiments import AskedTraining, ExperimentRow
from laptime.questions.why.run import AskedLane, check_experiments
from laptime.trainings.workloads import find_workload

machine, facts, bare = machine_with(CPU), SubjectFacts(find_workload("cifar-cnn")), replace(CPU, features=())
plan = partial(plan_lane, machine=machine, subject=facts)
asked, row = parse_lane("torch/cpu"), ExperimentRow("off", "onednn=off", "no oneDNN", "without oneDNN")


def said(make):
    try:
        return make()
    except UsageError as error:
        return error.says


def experiment():
    training = AskedTraining(plan(asked), machine, facts.workload)
    (checked,) = check_experiments(AskedLane(asked, training.planned, plan), [row.make("kernels", training)])
    return checked.absent if checked.absent is None else checked.absent.missing


def lane(device):
    planned = plan_for(machine_with(device), "torch/cpu/onednn=off").lanes[0]
    return [planned.settings.extra, planned.environment]


print(json.dumps({
    "has it": [name for name in ("torch", "keras-tf", "keras-torch", "jax", "fake")
               if "onednn" in with_settings(Framework(name, "1", {}, (bare,))).devices[0].features],
    "tune tries": find_tunable(parse_lane("torch/cpu"), machine, facts, plan, TuneAsk()).values.get("onednn"),
    "why": said(experiment),
    "lane": said(lambda: lane(CPU)),
    "refused": said(lambda: lane(bare)),
    "in help": "onednn=off" in lanes_text(),
    "in docs": "| onednn | `onednn=off` |" in settings_table(),
    "agents set": "TF_ENABLE_ONEDNN_OPTS" in NODE_VARIABLES,
}))
"""
COMPUTED = """
import json
from types import SimpleNamespace

import torch

from laptime.engine.backends.torch.devices import SWITCHES, take_device
from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.process import Settings


def products(value):
    device = Device("cpu", "cpu", "processor", usable=True)
    take_device(SimpleNamespace(lane=PlannedLane("a lane", "torch", device, Settings(extra={"onednn": value}))))
    return torch.backends.mkldnn.enabled


print(json.dumps({"on": products("on"), "off": products("off"), "switches": list(SWITCHES)}))
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return copy_without(tmp_path_factory.mktemp("source"), PLACES)


def test_it_is_in_three_files():
    assert files_naming("onednn", "ONEDNN") == set(PLACES) | NAME_ITS_VERSION
    assert len(PLACES) == 3


@pytest.mark.long
def test_the_planner_tune_why_help_and_docs_know_it_by_its_row():
    assert ask(PLANNED) == {
        "has it": ["torch", "keras-tf"],
        "tune tries": ["off"],
        "why": None,
        "lane": [{"onednn": "off"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}],
        "refused": "onednn=off: there is no such switch on torch/cpu",
        "in help": True,
        "in docs": True,
        "agents set": True,
    }


def test_without_its_three_places_nothing_knows_it(without):
    unknown = "lane 'torch/cpu/onednn=off': 'onednn=off' is not a setting"
    assert ask(PLANNED, without) == {
        "has it": [],
        "tune tries": None,
        "why": "lane 'cpu/onednn=off': 'onednn=off' is not a setting",
        "lane": unknown,
        "refused": unknown,
        "in help": False,
        "in docs": False,
        "agents set": False,
    }


@pytest.mark.long
@pytest.mark.framework
def test_its_switch_is_called_by_its_name():
    assert ask(COMPUTED) == {"on": True, "off": False, "switches": ["onednn"]}
