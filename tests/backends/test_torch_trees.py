"""Batches are trained, joined, kept and proven in whatever holds their tensors."""

from collections import OrderedDict
from pathlib import Path

import own_holders
import planted_orders
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.torch import inputs as own_inputs
from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.batches import count_bytes, describe, filled, leaves, mapped
from laptime.engine.backends.torch.inputs import open_source
from laptime.engine.backends.torch.recipe import OwnRecipe
from laptime.engine.heat.loop import take_proof
from laptime.model.process import Settings

FILE = str(Path(own_holders.__file__))
CPU = torch.device("cpu")
CHANNELS_LAST = {"preset": "best", "layout": "channels_last"}


def order(function, **settings):
    return planted_orders.own_order(FILE, function, Settings(**settings))


def made(kind):
    return own_holders.HOLDERS[kind](torch.ones(2, 3), torch.zeros(2))


@pytest.mark.parametrize("kind", own_holders.HOLDERS)
def test_every_holder_is_mapped_into_its_own_kind(kind):
    """Its tensors are changed, and all else that it has stays."""
    given = made(kind)
    found = mapped(given, torch.Tensor.double)
    assert (type(found), describe(found)) == (type(given), describe(given))
    image, scale = own_holders.image_and_scale(found)
    assert (image.dtype, scale.dtype) == (torch.float64, torch.float64)
    assert own_holders.image_and_scale(given)[0].dtype == torch.float32
    assert count_bytes(found) == 2 * count_bytes(given)
    again = filled(given, leaves(found))
    assert own_holders.image_and_scale(again)[0] is image


def test_the_sizes_of_a_packed_batch_stay_where_they_have_to_be():
    """On the processor, as whole numbers."""
    packed = pack_sequence([torch.ones(3, 2), torch.zeros(1, 2)])
    found = mapped(packed, lambda each: each.to("meta"))
    assert (found.data.device.type, found.batch_sizes.tolist()) == ("meta", [2, 1, 1])


@pytest.mark.parametrize("kind", own_holders.HOLDERS)
def test_a_training_is_proven_in_every_holder(kind):
    """Channels last and in bf16, which both look into a batch and into what the network gives."""
    reference = TorchTraining(order(kind)).reference()
    assert reference.problem is None
    settings = Settings(**CHANNELS_LAST, precision="bf16")
    training = TorchTraining(order(kind, **CHANNELS_LAST, precision="bf16"))
    assert training.items_per_step == own_holders.ITEMS
    assert judge_parity(settings, [take_proof(training, settings)], reference).status == "same"
    runner = training.start()
    runner.run(2)
    assert 0 < runner.loss() < 10


@pytest.mark.parametrize("kind", own_holders.HOLDERS)
def test_batches_are_joined_in_every_holder(kind):
    """Two of its own are one of the lane's."""
    source = open_source(OwnRecipe(order(kind, joined=2)), Settings(joined=2), CPU, 0)
    inputs, targets = source()
    image, scale = own_holders.image_and_scale(inputs)
    assert (len(image), len(scale), len(targets["label"])) == (24, 24, 24)
    assert isinstance(targets, OrderedDict)


@pytest.mark.parametrize("kind", own_holders.HOLDERS)
def test_what_is_kept_is_bounded_in_every_holder(kind, monkeypatch):
    """The second batch goes past the bound; dicts once went past it unseen."""
    monkeypatch.setattr(own_inputs, "CACHED_MOST_BYTES", 12 * 3 * 36 * 4 + 500)
    kept = own_inputs.keep_own(OwnRecipe(order(kind)), Settings(input="cached"))
    assert len(kept) == (1 if kind == "nested" else 2)
