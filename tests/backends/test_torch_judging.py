"""The judge of a loss in PyTorch: which items it draws, and which weights it weighs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from own_judged import BATCHES, Masked
from planted_orders import own_order
from torch import nn

from laptime.engine.backends.torch.backend import TorchBackend
from laptime.engine.backends.torch.judging import as_arrays, as_tensors, draw_items, take_weights
from laptime.model.errors import TrainingError
from laptime.model.process import Settings
from laptime.model.quantities import Missing

FILE = str(Path(__file__).parent / "own_judged.py")


def judge_of(function):
    return TorchBackend().judge(own_order(FILE, function, Settings(threads=1)))


def loss_of(network, batches):
    """The loss in evaluation, over all items."""
    network.eval()
    with torch.no_grad():
        return sum(float(nn.functional.cross_entropy(network(rows), labels)) for rows, labels in batches) / len(batches)


def network():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3))


def test_the_loss_is_that_of_the_given_weights_on_what_is_held_out():
    judge, own = judge_of("held_out"), network()
    assert (judge.items, judge.is_held_out) == (8 * 16, True)
    found = judge.weigh(take_weights(own), are_first=True)
    assert found == pytest.approx(loss_of(own, BATCHES[32:]), rel=1e-5)


def test_without_them_it_is_on_the_data_and_what_is_trained_changes_it():
    judge, own = judge_of("plain"), network()
    assert (judge.items, judge.is_held_out) == (40 * 16, False)
    before = judge.weigh(take_weights(own), are_first=True)
    own.train()
    own(BATCHES[0][0])  # its running means
    with torch.no_grad():
        own[0].weight[:3, :3] += 2 * torch.eye(3)
    after = judge.weigh(take_weights(own), are_first=False)
    assert after == pytest.approx(loss_of(own, BATCHES), rel=1e-5)
    assert after < before


def test_a_lap_without_a_length_has_the_steps_that_are_given():
    assert judge_of("made_for_each_lap").items == 10 * 16


def test_weights_of_another_network_are_told_from_these():
    judge = judge_of("plain")
    wider = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    assert judge.weigh(take_weights(wider), are_first=True) == Missing("its 0.weight is (4, 8), the base's (3, 8)")
    longer = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    found = judge.weigh(take_weights(longer), are_first=True)
    assert found == Missing("it has 9 arrays and the base 7: 2.bias is in one of them alone")


def test_a_mask_that_begins_otherwise_is_no_weight():
    """It would let the base's network see what it is not to see."""
    judge, own = judge_of("masked"), Masked()
    assert isinstance(judge.weigh(take_weights(own), are_first=True), float)
    own.mask.fill_(1.0)
    assert judge.weigh(take_weights(own), are_first=True) == Missing("its mask begins with other values")


def test_a_compiled_network_is_the_same_network():
    weights = take_weights(torch.compile(network(), backend="eager"))
    assert any("_orig_mod" in name for name in weights)
    assert judge_of("plain").weigh(weights, are_first=True) == pytest.approx(
        judge_of("compiled").weigh(take_weights(network()), are_first=True)
    )


def test_a_class_cannot_train_where_its_weights_are_read():
    class Sly(nn.Linear):
        def state_dict(self, *_words, **_more):
            raise AssertionError("code of the candidate ran off the clock")

    assert take_weights(Sly(2, 1)).keys() == {"weight", "bias"}


def test_a_step_of_its_own_has_no_judge():
    assert isinstance(judge_of("own_step"), Missing)


@pytest.mark.parametrize(
    ("function", "says"), [("step_with_held_out", "gives held_out"), ("held_out_once", "held_out is")]
)
def test_batches_that_cannot_be_held_out_are_refused(function, says):
    with pytest.raises(TrainingError, match=says):
        judge_of(function)


def test_items_come_from_all_over_a_lap():
    """Not the first ones, which a candidate may learn by heart: each batch as often as any other."""
    lap = [torch.full((1024, 1), float(number)) for number in range(12)]
    seen = Counter(int(batch[0, 0]) for seed in range(300) for batch in draw_items(iter(lap), random.Random(seed)))
    assert set(seen) == set(range(12))
    assert sum(seen.values()) == 300 * 4
    assert 60 < min(seen.values()) <= max(seen.values()) < 145


def test_items_are_copies():
    """A generator may fill the same tensor again and again."""
    same = torch.zeros(4, 1)
    kept = draw_items((same.fill_(number) for number in range(3)), random.Random(0))
    assert sorted(float(batch[0]) for batch in kept) == [0.0, 1.0, 2.0]


def test_weights_in_16_bits_come_back():
    value = {"a": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "b": torch.ones(2, dtype=torch.int64)}
    back = as_tensors(as_arrays(value))
    assert all(torch.equal(back[name], value[name]) for name in value)
