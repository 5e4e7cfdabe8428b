"""A user's own code that fails ends a question once; what may be one lane's failure does not."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from laptime.engine.run.scout import Failure
from laptime.model.ask import Ask
from laptime.model.errors import TrainingError, UsageError
from laptime.model.machine import Device, Framework, Machine, Processor
from laptime.model.plan import OwnBatches, OwnTraining, Pace, Plan, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan
from laptime.questions.asking import prepare
from laptime.questions.subject import Inspection, OwnCode, family_of, find_subject, inspect_training

OWN = Subject("my.py:training", "", None, None, None, None, "items", "/my.py", "training")
PLACED = Failure("my.py, line 3, in training: ValueError: no", "own", "3 | raise ValueError")
ON_LOAD = replace(PLACED, kind="load")
MEMORY = Failure("out of memory: 8 GB", "memory")
BARE = Failure("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 9x2)", "error")
MACHINE = Machine(
    Processor("a processor", "x86_64", 2, 2, Missing("none")),
    1 << 34,
    Missing("none"),
    "Linux 6.1",
    "3.11.7",
    None,
    (Framework("torch", "2"), Framework("python", "3.11.7"), Framework("jax", "1")),
)


PACE = Pace(1, 1, adaptive=False, measure_s=1, window_s=1)


def lane_of(name):
    framework, device, *_ = name.split("/")
    return PlannedLane(name, framework, Device(device, device.split(":")[0], "", usable=True), Settings())


def watched(*names, subject=OWN):
    lanes = tuple(map(lane_of, names))
    return OwnCode(Plan(Ask("my.py:training"), subject, lanes, ProofPlan(), PACE))


@pytest.mark.parametrize(
    ("lanes", "failed", "failure"),
    [
        (("torch/cpu", "torch/cpu/best"), "torch/cpu", PLACED),
        (("torch/cpu", "torch/cuda:0"), "torch/cpu", ON_LOAD),
        (("torch/cpu",), "torch/cpu", Failure("its code ended the process: sys.exit(2)", "exit")),
    ],
)
def test_code_that_no_lane_can_run_ends_the_question(lanes, failed, failure):
    with pytest.raises(TrainingError) as caught:
        watched(*lanes).note_failure(lane_of(failed), failure)
    assert caught.value.says.endswith(failure.reason)
    assert caught.value.hint == failure.source


@pytest.mark.parametrize(
    ("lanes", "failed", "failure"),
    [
        (("torch/cpu", "torch/cuda:0"), "torch/cpu", PLACED),
        (("python/cpu", "python/cuda:0"), "python/cpu", ON_LOAD),
        (("keras-tf/cpu", "keras-jax/cpu"), "keras-tf/cpu", PLACED),
        (("torch/cpu",), "torch/cpu", MEMORY),
        (("torch/cpu",), "torch/cpu", Failure("no answer within 600 s")),
        (("torch/cpu",), "torch/cpu", Failure("it draws random numbers", "LaneError")),
    ],
)
def test_what_another_lane_may_survive_ends_nothing(lanes, failed, failure):
    watched(*lanes).note_failure(lane_of(failed), failure)


def test_code_that_has_worked_once_fails_for_its_lane_alone():
    """The reference ran its first steps."""
    code = watched("torch/cpu", "torch/cpu/best")
    code.note_success(lane_of("reference/cpu"))
    code.note_failure(lane_of("torch/cpu/best"), PLACED)


def test_a_second_training_that_fails_ends_a_race_in_which_the_first_works():
    """There is nothing left to compare it with."""
    second = replace(OWN, name="my.py:second", function="second")
    lanes = [replace(lane_of(f"torch/cpu/{each.function}"), training=each) for each in (OWN, second)]
    plan = Plan(Ask("my.py:training"), OWN, tuple(lanes), ProofPlan(), PACE, others=(second,))
    code = OwnCode(plan)
    code.note_success(lanes[0])
    code.note_failure(lanes[0], BARE)
    with pytest.raises(TrainingError, match=r"^my.py:second: RuntimeError: mat1 and mat2"):
        code.note_failure(lanes[1], BARE)


def test_code_that_fails_wherever_it_is_tried_ends_the_question():
    code = watched("torch/cpu", "torch/cuda:0")
    code.note_failure(lane_of("torch/cpu"), PLACED)
    with pytest.raises(TrainingError):
        code.note_failure(lane_of("torch/cuda:0"), PLACED)


def test_an_error_without_a_place_names_the_training():
    with pytest.raises(TrainingError, match=r"^my.py:training: RuntimeError: mat1 and mat2"):
        watched("torch/cpu").note_failure(lane_of("torch/cpu"), BARE)


def test_a_built_in_workload_is_no_users_code():
    watched("torch/cpu", subject=replace(OWN, file=None)).note_failure(lane_of("torch/cpu"), BARE)


@pytest.mark.parametrize(
    ("kind", "guess", "family"),
    [("torch", None, "torch"), ("keras", "torch", "keras"), ("step", None, "python"), ("step", "jax", "jax"),
     ("step", "torch", "torch"), ("other", "torch", "torch")],
)  # fmt: skip
def test_what_a_function_returns_decides_its_frameworks(kind, guess, family):
    told = OwnTraining(kind, "list", takes_workers=False, batches=OwnBatches("no list"), has_fence=False)
    assert family_of(told, replace(OWN, written_for=guess)) == family


STEPS = """\
from elsewhere_of_mine import make

def training():
    return make()

def fails():
    return make(1 / 0)
"""
MAKER = """\
import sys
import laptime

def make(number=0):
    assert len(sys.argv) == 1 and sys.argv[0].endswith("hidden_steps.py"), sys.argv
    return laptime.Training(step=print, data=[number])
"""


@pytest.fixture
def hidden(tmp_path):
    """Return a file whose text does not say what its function returns."""
    (tmp_path / "hidden_steps.py").write_text(STEPS)
    (tmp_path / "elsewhere_of_mine.py").write_text(MAKER)
    return str(tmp_path / "hidden_steps.py")


def test_a_function_is_called_where_its_text_does_not_say_what_it_returns(hidden):
    """In a child, whose arguments are those of `python file.py`, not ours."""
    subject = find_subject(f"{hidden}:training")[0]
    found = inspect_training(Ask(subject.name, ("python/cpu",)), MACHINE, subject)
    uncut = OwnBatches("only torch lanes cut and join them, and it holds nothing of PyTorch's")
    assert found.own == OwnTraining("step", "list", takes_workers=False, batches=uncut, has_fence=False)


@pytest.mark.long
@pytest.mark.parametrize("ending", ["os._exit(3)", "signal.pause()"])
def test_code_that_ends_or_holds_its_process_leaves_what_was_scouted(tmp_path, ending):
    """A lane will show what is wrong with it; what the framework sees was sent before it ran."""
    (tmp_path / "ends.py").write_text(
        f"import os, signal\ndef training():\n    print('on', flush=True)\n    {ending}\n    return made\n"
    )
    subject = find_subject(f"{tmp_path / 'ends.py'}:training")[0]
    found = inspect_training(Ask(subject.name, ("python/cpu",), patience_s=3), MACHINE, subject)
    assert found.own is None
    assert [each.name for each in found.seen.devices if each.usable][:1] == ["cpu"]


COUNTING = """\
import os, sys

class Watch:
    def find_spec(self, name, path, target=None):
        if name in ("torch._C", "jax.numpy"):
            with open(os.environ["IMPORTED_IN"], "a") as log:
                log.write(f"{name} {os.getpid()}\\n")

sys.meta_path.insert(0, Watch())
"""
TORCH = """\
import os
from torch import nn, ones, optim, utils
import laptime

def training():
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    model = nn.Linear(4, 2)
    data = utils.data.DataLoader(utils.data.TensorDataset(ones(8, 4), ones(8, 2)))
    return laptime.Training(
        model=model, loss=nn.functional.cross_entropy, optimizer=optim.SGD(model.parameters()), data=data
    )
"""
JAX = """\
from jax import config
import laptime

config.update("jax_num_cpu_devices", 2)

def training():
    return laptime.Training(step=lambda state, batch: state, state=0.0, data=[0.0])
"""


@pytest.fixture
def imports(tmp_path, monkeypatch):
    """Return a function that lists which processes have imported a module since the test began."""
    (tmp_path / "sitecustomize.py").write_text(COUNTING)
    log = tmp_path / "imported"
    log.touch()
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("IMPORTED_IN", str(log))
    return lambda name: {line for line in log.read_text().splitlines() if line.startswith(f"{name} ")}


@pytest.mark.long
@pytest.mark.framework
def test_one_process_imports_the_framework_before_the_heats(tmp_path, imports):
    """It scouts, then calls the function, which two settings of the lanes make necessary."""
    (tmp_path / "plain.py").write_text(TORCH)
    prepared = prepare(Ask(f"{tmp_path / 'plain.py'}:training", ("torch/cpu", "torch/cpu/batch=8")), MACHINE)
    assert len(imports("torch._C")) == 1
    assert prepared.plan.subject.written_for == "torch"
    assert "torch" in prepared.machine.framework("torch").versions


@pytest.mark.long
@pytest.mark.framework
def test_code_that_a_scout_disturbs_has_a_process_of_its_own(tmp_path, imports):
    """JAX takes this setting only before its devices have been listed."""
    (tmp_path / "early.py").write_text(JAX)
    subject = replace(find_subject(f"{tmp_path / 'early.py'}:training")[0], written_for=None)
    found = inspect_training(Ask(subject.name, ("jax/cpu",)), MACHINE, subject)
    assert (found.own.kind, "jax" in found.seen.versions) == ("step", True)
    assert len(imports("jax.numpy")) == 2


def test_a_lane_that_cannot_run_it_is_refused_before_anything_runs(hidden):
    with pytest.raises(UsageError) as caught:
        prepare(Ask(f"{hidden}:training", ("python/cpu", "keras-torch/cpu")), MACHINE)
    assert caught.value.says == "keras-torch cannot run hidden_steps.py:training: its function returns a step function"
    assert caught.value.hint == "race it on python/cpu, or on torch/cpu or jax/cpu if it is theirs"


def test_an_error_of_its_code_ends_the_plan(hidden):
    with pytest.raises(TrainingError) as caught:
        prepare(Ask(f"{hidden}:fails", ("python/cpu",)), MACHINE)
    assert caught.value.says == "hidden_steps.py, line 7, in fails: ZeroDivisionError: division by zero"
    assert caught.value.hint == "7 | return make(1 / 0)"


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        ("import torch\ndef training():\n    return laptime.Training(model=net)\n", ("torch/cpu", "cpu/best")),
        ("def training():\n    return laptime.Training(step=step)\n", ("python/cpu", "jax/cpu")),
        ("import torch\ndef training():\n    return laptime.Training(model=net)\n", ()),
        ("def training():\n    return make()\n", ("fake/cpu",)),
    ],
)
def test_a_function_is_not_called_where_its_text_fits_the_lanes(tmp_path, text, lanes):
    """It would cost its start-up."""
    place = tmp_path / "plain.py"
    place.write_text(f"raise SystemExit('nobody may run this')\n{text}")
    subject = find_subject(f"{place}:training")[0]
    assert inspect_training(Ask(subject.name, lanes), MACHINE, subject) == Inspection()
