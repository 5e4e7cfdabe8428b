"""Reads that are deferred give the values of an earlier step, to the user's own code in a step and to nobody else."""

from __future__ import annotations

from pathlib import Path

import planted_orders
import pytest
import torch
from torch import Tensor

from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.runners import STALE, DeferredReads
from laptime.model.process import Settings

FILE = str(Path(__file__).with_name("own_counterfactuals.py"))


def start(function, **settings):
    training = TorchTraining(planted_orders.own_order(FILE, function, Settings(**settings)))
    return training, training.start()


def noted(function, steps, **settings):
    """Return what a user's loss was told in each step, and what it was."""
    training, runner = start(function, **settings)
    told = training._recipe.training.loss.__globals__["TOLD"]
    told.clear()
    losses = []
    for _ in range(steps):
        runner.run(1)
        losses.append(runner.loss())
    runner.close()
    return told, losses


def test_a_step_is_told_the_value_of_the_step_before():
    """The very first is waited for; the loss that laptime reads is the step's own."""
    told, losses = noted("reads", 6, reads="deferred")
    assert told == pytest.approx([losses[0], *losses[:-1]])
    assert noted("reads", 6)[0] == pytest.approx(losses)


def test_the_training_itself_is_the_same():
    """Where its code makes nothing of what it reads."""
    _, runner = start("reads")
    runner.run(8)
    _, deferred = start("reads", reads="deferred")
    deferred.run(8)
    assert deferred.loss() == runner.loss()
    runner.close()
    deferred.close()


def test_a_loop_ends_as_it_did_before():
    """Each read of the line gets that of the same turn, a step ago."""
    training, runner = start("loops_until", reads="deferred")
    turns = training._recipe.training.loss.__globals__["LOOPS"]
    turns.clear()
    runner.run(5)
    runner.close()
    assert turns == [3] * 5


def test_it_is_noted():
    """With the reason."""
    training, runner = start("reads", reads="deferred")
    runner.close()
    assert STALE in training.notes
    assert STALE not in start("reads")[0].notes


def test_tensors_are_as_they_were_afterwards():
    """Nothing stays deferred when the lane ends."""
    before = {name: getattr(Tensor, name) for name in ("item", "tolist", "__float__", "__bool__")}
    _, runner = start("reads", reads="deferred")
    assert Tensor.item is not before["item"]
    runner.close()
    assert before == {name: getattr(Tensor, name) for name in before}


def test_other_shapes_are_read_at_once():
    """A line that reads tensors of several shapes gets none of another."""
    deferred = DeferredReads(torch.device("cpu"))
    deferred.begin()
    try:
        told = []
        for length in (2, 2, 3):
            with deferred:
                told.append(torch.full((length,), float(length)).tolist())
    finally:
        deferred.end()
    assert told == [[2.0, 2.0], [2.0, 2.0], [3.0, 3.0, 3.0]]
