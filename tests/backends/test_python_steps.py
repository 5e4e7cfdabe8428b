"""A plain step of a user's own: its state is copied, read and widened without knowing whose arrays they are."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import planted_orders
import pytest
import torch

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.arrays import list_arrays, read_array, widen_batch, widen_state
from laptime.engine.backends.python.backend import PythonBackend, list_devices, list_versions
from laptime.model.errors import TrainingError
from laptime.model.machine import Device
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from long_cases import cases

FILE = str(Path(__file__).with_name("own_loops.py"))
PLAIN = str(Path(__file__).parents[1] / "contracts" / "own_plain_steps.py")
CARD = Device("cuda:0", "cuda", "a card", usable=True)


def build(function, file=FILE, device=None, **settings):
    made = planted_orders.own_order(file, function, Settings(**settings))
    lane = replace(made.lane, framework="python", device=device or made.lane.device)
    return PythonBackend().build(replace(made, lane=lane))


@pytest.mark.parametrize(
    ("function", "weights"),
    cases(
        ("in_numpy", 27),
        ("with_tensor", 24),
        ("drawn_globally", 27),
        long=[("with_module", 67), ("with_validation", 67)],
    ),
)
def test_loops_of_ones_own_are_proven(function, weights):
    """Weights in any nesting; a network and its optimizer, which hold the same tensors, in float64 too."""
    training = build(function)
    reference = training.reference()
    assert reference.problem is None
    assert reference.exact.losses != reference.twin.losses
    parity = judge_parity(Settings(), [(build(function).prove("fp32"),)], reference)
    assert (parity.status, parity.steps) == ("same", 4)
    assert reference.weights == weights


def test_what_a_step_holds_in_float32_is_held_in_float64_by_its_reference_alone():
    """Validation data of a closure, a global and a helper; afterwards all are as they were."""
    training = build("with_validation")
    assert training.reference().problem is None
    step = training._steps.own.step
    helper = dict(zip(step.__code__.co_freevars, (cell.cell_contents for cell in step.__closure__), strict=True))[
        "validate"
    ]
    (held,) = (cell.cell_contents for cell in helper.__closure__)
    assert [each.dtype for each in (*held, helper.__globals__["VALIDATED"])] == [torch.float32] * 3


def test_a_step_that_makes_float32_is_unproven_and_its_line_is_named():
    problem = build("narrow_within").reference().problem
    assert re.match(r"it cannot run in float64: own_loops\.py, line \d+, in step: RuntimeError: .*dtype", problem)


def test_weights_that_cannot_be_widened_are_unproven_and_timed():
    """As Keras's are."""
    training = build("with_holder")
    assert training.reference().problem == "it cannot run in float64: LaneError: laptime cannot widen Holder to float64"
    runner = training.start()
    runner.run(3)
    runner.fence()
    assert runner.loss() > 0


def test_a_loss_in_a_type_that_numpy_has_not_is_read():
    runner = build("in_bfloat16").start()
    runner.run(1)
    runner.fence()
    assert 0 < runner.loss() < 10


def test_without_a_fence_each_step_is_timed():
    """On a processor it is done when it returns; where there is something to wait for, only windows are timed."""
    runner = build("in_numpy").start()
    spans = runner.step_ns(runner.run_marked(5))
    assert len(spans) == 5
    assert min(spans) > 0
    fenced = build("sound", PLAIN).start()
    assert fenced.step_ns(fenced.run_marked(5)) == ()


def test_every_run_begins_from_the_state_that_was_given():
    """Though a step changes what it is given."""
    training = build("sound", PLAIN)
    before = [array.copy() for array in list_arrays(training._steps._start)]
    assert training.prove("fp32").moves == training.prove("fp32").moves
    assert all(map(np.array_equal, before, list_arrays(training._steps._start)))


@pytest.mark.parametrize(
    ("function", "says", "hint"),
    [
        ("with_lock", "its state cannot be copied: TypeError: cannot pickle", "keep files, locks and generators out"),
        ("loss_is_a_word", "the loss is str, expected a number", ""),
    ],
)
def test_what_cannot_be_run_is_said(function, says, hint):
    with pytest.raises(TrainingError) as caught:
        build(function).prove("fp32")
    assert says in caught.value.says
    assert hint in caught.value.hint


def test_a_card_needs_a_fence():
    """A step returns there before it is done; and that its own code has to go there is noted."""
    with pytest.raises(TrainingError) as caught:
        build("in_numpy", device=CARD)
    assert "gives no fence, and on cuda:0 a step may still be running when it returns" in caught.value.says
    assert "fence=" in caught.value.hint
    training = build("sound", PLAIN, device=CARD)
    assert training.notes == ("its code was told LAPTIME_DEVICE=cuda:0; laptime does not place it",)
    assert isinstance(training.device_memory_bytes(), Missing)


@pytest.mark.parametrize(
    ("nodes", "visible", "wanted"),
    [
        (("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"), None, ["cuda:0", "cuda:1"]),
        (("nvidia0", "nvidia1"), "1", ["cuda:0"]),
        (("nvidia0", "nvidia1"), "0,-1,1", ["cuda:0"]),
        (("nvidia0",), "", "CUDA_VISIBLE_DEVICES hides every card"),
        (("nvidiactl",), None, "there is no NVIDIA card here: no /dev/nvidia0"),
    ],
)
def test_cards_are_found_by_their_nodes(tmp_path, nodes, visible, wanted):
    """No framework is asked; what CUDA does not show is not counted."""
    for node in nodes:
        (tmp_path / node).touch()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    processor, *cards = list_devices(tmp_path, environment)
    assert (processor.name, processor.usable) == ("cpu", True)
    if isinstance(wanted, str):
        assert [(card.name, card.usable, card.reason) for card in cards] == [("cuda", False, wanted)]
    else:
        assert [card.name for card in cards if card.usable] == wanted


def test_versions_are_those_of_what_was_imported():
    build("with_module")
    assert list(list_versions())[:3] == ["python", "numpy", "torch"]


def test_leaves_come_in_the_order_of_their_keys():
    """As JAX has it, so that lanes of both can be held against each other; keys that have no order keep theirs."""
    one, two, three = (np.full(1, value, np.float32) for value in (1, 2, 3))
    tree = {"b": [two, "word", None, 7], "a": one, "c": (OrderedDict(z=three),)}
    assert [float(leaf[0]) for leaf in list_arrays(tree)] == [1, 2, 3]
    assert [float(leaf[0]) for leaf in list_arrays({"x": two, 1: one})] == [2, 1]


def test_a_batch_is_widened_and_left_as_it_is():
    """Whole numbers stay; the user's own data are not touched."""
    rows, labels = np.ones(3, np.float32), np.ones(3, np.int64)
    wide = widen_batch({"rows": rows, "labels": labels, "name": "a"})
    assert (wide["rows"].dtype, wide["labels"].dtype, wide["name"]) == (np.float64, np.int64, "a")
    assert rows.dtype == np.float32


def test_what_is_held_twice_is_widened_once():
    """Tied weights stay tied."""
    tied = np.ones(3, np.float32)
    wide = widen_state({"first": tied, "last": [tied]})
    assert wide["first"] is wide["last"][0]
    assert wide["first"].dtype == np.float64


def test_numbers_are_copied():
    """A step that changes its arrays in place does not change what was read before it."""
    array = np.ones(3, np.float32)
    read = read_array(array)
    array += 1
    assert read.tolist() == [1, 1, 1]
    assert float(read_array(0.5)) == 0.5
