"""Whole trainings in PyTorch: every setting of a lane can be put down and taken up, and the account is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from laptime.engine.backends.torch.backend import TorchBackend
from laptime.engine.backends.torch.stepping import RunningScore, are_classes
from laptime.model.errors import LaneError
from laptime.model.hardware import Conv, Dense, Dropout, Flatten, MaxPool
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan
from laptime.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from laptime.trainings.workloads import CATALOGUE, find_workload

CPU = Device("cpu", "cpu", "processor", usable=True)
PACE = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
OWN = Path(__file__).with_name("own_trainings.py")


def order_for(name="cifar-cnn", seed=0, **settings):
    workload = find_workload(name)
    lane = PlannedLane("torch/cpu/x", "torch", CPU, Settings(**{"batch": 4, **settings}))
    subject = Subject(name, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    return HeatOrder(subject, lane, seed, ProofPlan(steps=2, batch=2), PACE, 0)


def own_order(function, **settings):
    lane = PlannedLane("torch/cpu/x", "torch", CPU, Settings(**settings))
    subject = Subject(f"own:{function}", "", None, None, None, None, "items", str(OWN), function)
    return HeatOrder(subject, lane, 0, ProofPlan(steps=2, batch=2), PACE, 0)


def begin(order, steps_done=0, state=None):
    learner = TorchBackend().build(order).learn()
    learner.begin(steps_done, state)
    return learner


def train(learner, steps=2):
    learner.reset_score()
    learner.run(steps)
    learner.fence()
    return learner.score()


def goes_on_alike(order, path):
    """Whether a training that was put down and taken up goes on as the unbroken one."""
    whole = begin(order)
    train(whole)
    write_checkpoint(path, Checkpoint({}, (), whole.state()))
    unbroken = [train(whole), train(whole)]  # one after the other: random numbers belong to the process
    rest = begin(order, 2, read_checkpoint(path, {}).state)
    return [train(rest), train(rest)] == unbroken


@pytest.fixture
def small(monkeypatch):
    """Leave a smaller sister of cifar-cnn in its place: how it is put down does not depend on its size."""
    layers = (Conv(8, 3, padding="same"), MaxPool(), Dropout(0.25), Flatten(), Dense(16, "relu"), Dense(10))
    monkeypatch.setitem(CATALOGUE, "cifar-cnn", replace(find_workload("cifar-cnn"), layers=layers))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "best", "layout": "channels_last", "optimizer": "fused"},
        {"precision": "bf16"},
        {"precision": "fp16", "batch": 1},
        {"input": "cached"},
        {"input": "fast"},
        {"input": "resident"},
    ],
    ids=str,
)
def test_every_setting_can_be_taken_up_again(settings, tmp_path):
    """The fused step walks through weights and moments alike, so they must lie in memory alike."""
    assert goes_on_alike(order_for(**settings), tmp_path / "lane.npz")


@pytest.mark.long
@pytest.mark.parametrize("name", ["cifar-mlp", "plates-cnn"])
def test_other_workloads_too(name, tmp_path):
    """Plain SGD has no state of its own; plates have eight labels an item."""
    assert goes_on_alike(order_for(name, input="cached"), tmp_path / "lane.npz")


@pytest.mark.long
def test_a_rate_changes_what_is_learned_and_not_the_proof():
    """The proof has a rate of its own, so both do the same work; a hundredth of the rate learns slower."""
    orders = [order_for("cifar-mlp", batch=32, input="one", learning_rate=rate) for rate in (1e-2, 1e-4)]
    quick, slow = (train(begin(order), 10).loss for order in orders)
    assert quick < slow - 0.01
    proofs = [TorchBackend().build(order).prove("fp32") for order in orders]
    assert (proofs[0].losses, proofs[0].moves) == (proofs[1].losses, proofs[1].moves)


def test_batch_norm_keeps_its_running_means(tmp_path):
    """Buffers are no weights, and belong to the state all the same."""
    assert goes_on_alike(own_order("with_batch_norm"), tmp_path / "lane.npz")


def test_plates_have_two_accuracies():
    """The share of characters that are right, and the share of plates with all eight."""
    learner = begin(order_for("plates-cnn", input="cached"))
    score = train(learner)
    assert 0 <= score.whole <= score.accuracy < 1
    assert len(learner.evaluator.predict(2).predicted[0]) == 8
    assert learner.evaluator.score(5).items == 5


def test_the_account_is_what_the_outputs_say():
    """Two batches of different size: means over items, not over batches."""
    account = RunningScore(torch.device("cpu"))
    batches = [
        (torch.tensor([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([0, 0, 0])),
        (torch.tensor([[0.0, 1.0]]), torch.tensor([1])),
    ]
    losses = []
    for outputs, targets in batches:
        loss = nn.functional.cross_entropy(outputs, targets)
        account(loss, outputs, targets)
        losses.append(float(loss) * len(targets))
        account.note(targets)
    score = account.score()
    assert (score.items, score.accuracy) == (4, 0.75)
    assert score.loss == pytest.approx(sum(losses) / 4)
    account.clear()
    assert account.score().items == 0


def test_an_account_without_classes_says_so():
    """A regression has a loss, and no accuracy."""
    account = RunningScore(torch.device("cpu"))
    account(torch.tensor(1.0), torch.zeros(3, 1), torch.ones(3, 1))
    account.note(torch.ones(3, 1))
    assert account.score().loss == pytest.approx(1.0)
    assert account.score().accuracy == Missing("its outputs and targets are no classes")


def test_a_loss_that_is_no_number_is_missing_with_its_reason():
    """One such step spoils the lap."""
    account = RunningScore(torch.device("cpu"))
    account(torch.tensor(float("nan")), torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    assert account.score().loss == Missing("the loss became nan")


@pytest.mark.parametrize(
    ("outputs", "targets", "expected"),
    [
        (torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), True),
        (torch.zeros(3, 8, 36), torch.zeros(3, 8, dtype=torch.int64), True),
        (torch.zeros(3, 2), torch.zeros(3), False),
        (torch.zeros(3), torch.zeros(3, dtype=torch.int64), False),
        (torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int64), False),
        ({"logits": torch.zeros(3, 2)}, torch.zeros(3, dtype=torch.int64), False),
    ],
)
def test_classes_are_told_by_their_shapes(outputs, targets, expected):
    """A class number for each row of outputs."""
    assert are_classes(outputs, targets) is expected


def test_a_training_of_ones_own_can_be_taken_up_again(tmp_path):
    """Its optimizer is whatever its author likes."""
    assert goes_on_alike(own_order("by_factory"), tmp_path / "lane.npz")


def test_a_training_of_ones_own_has_no_test():
    """Said in words, should anybody ask."""
    with pytest.raises(LaneError, match="a training of your own has no test items in this version"):
        begin(own_order("by_factory")).evaluator.score(10)


def test_a_loader_alone_trains_nothing():
    """Refused in words."""
    with pytest.raises(LaneError, match="input=only trains nothing"):
        begin(order_for(input="only"))


def test_a_state_of_another_network_is_refused():
    """Better than a curve that is nobody's."""
    state = begin(own_order("by_factory")).state()
    with pytest.raises(LaneError, match="the checkpoint is of another network"):
        begin(order_for("cifar-cnn"), 2, state)
