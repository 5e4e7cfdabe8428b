"""PyTorch's predictor on your own networks, and where answers are planted to be wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from own_predictors import DATA
from planted_orders import built_in_order, own_order

from laptime.engine.backends.torch.backend import TorchBackend
from laptime.engine.backends.torch.batches import mapped
from laptime.engine.heat.inference import run_inference
from laptime.model.process import Settings
from laptime.model.protocol import InferOrder, InferPace
from laptime.questions.infer.reduce import judge_answers

FILE = str(Path(__file__).parent / "own_predictors.py")
PACE = InferPace(1, 0.01, 0.002, 30.0, (1, 8, 64), calls_min=3, windows_min=3)


class Listener:
    """Keeps all that a heat says."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def of(self, name):
        return [each for each in self.said if type(each).__name__ == name]


def asked(function, settings=None):
    """Let your own network answer; return what was said, and the verdict on its answers."""
    order = own_order(FILE, function, settings or Settings())
    reference = TorchBackend().predict(order).reference()
    line = Listener()
    run_inference(TorchBackend(), InferOrder(order, PACE), line)
    proofs = tuple(each.run for each in line.of("Answered"))
    return line, judge_answers([proofs], reference)


def test_a_batch_of_ones_own_is_cut_and_repeated():
    """Six rows are one item, eight, and sixty-four."""
    line, parity = asked("plain")
    assert [each.batch for each in line.of("BatchDone")] == [1, 8, 64]
    assert {each.reason for each in line.of("BatchDone")} == {None}
    assert parity.status == "same"


def test_inputs_in_a_dictionary_are_cut_alike():
    """Each tensor of it by its first axis; answers in a tuple are proven whole."""
    line, parity = asked("named")
    assert line.of("FirstCall")[0].items == 1
    assert (parity.status, line.of("Answered")[0].run.count) == ("same", 8 * 3 + 8)


@pytest.mark.parametrize("function", ["fixed", "uneven"])
def test_a_network_that_takes_no_other_batch_is_asked_in_its_own(function):
    """Whether it refuses one item, or its inputs cannot be cut: six are a call, and a note names them."""
    line, parity = asked(function)
    assert (line.of("FirstCall")[0].items, parity.status) == (6, "same")
    assert [each.batch for each in line.of("BatchDone")] == [6]
    if function == "fixed":
        assert line.of("Noted")[0].notes[0].startswith("it takes no batch but its own, of 6: shape")


def test_a_network_that_draws_random_numbers_is_unproven():
    """Even in evaluation mode: no two answers are alike."""
    _, parity = asked("chancy")
    assert (parity.status, parity.reason) == ("unproven", "it draws random numbers even when it only answers")


@pytest.mark.long
@pytest.mark.parametrize("change", ["weight", "activation"])
def test_planted_differences_are_caught(change):
    """One bias among twelve million weights moved by a hundredth, or a rectifier left out."""
    order = built_in_order("cifar-mlp", Settings())
    reference = TorchBackend().predict(order).reference()
    predictor = TorchBackend().predict(order)
    predictor.read_items(8)
    network = predictor._network
    if change == "weight":
        with torch.no_grad():
            network[-2].bias[3] += 0.01
    else:
        network[2] = torch.nn.Identity()
    assert judge_answers([(predictor.prove("fp32", 8),)], reference).status == "differs"


def test_bf16_is_not_accused():
    """Twice proven: in float32, and in its own rounding."""
    order = built_in_order("plates-cnn", Settings(precision="bf16", layout="channels_last"))
    plain = replace(order, lane=replace(order.lane, settings=Settings()))
    reference = TorchBackend().predict(plain).reference()
    predictor = TorchBackend().predict(order)
    predictor.read_items(8)
    parity = judge_answers([(predictor.prove("fp32", 8), predictor.prove("bf16", 8))], reference)
    assert (parity.status, parity.strays > 1e-4) == ("same", True)


def test_tensors_are_found_deep_inside():
    """In dicts, lists and tuples; all else stays."""
    found = mapped({"rows": [DATA[0][0]], "name": "x", "more": (1, DATA[0][1])}, lambda each: each.dim())
    assert found == {"rows": [3], "name": "x", "more": (1, 1)}
