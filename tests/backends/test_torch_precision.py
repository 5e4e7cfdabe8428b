"""PyTorch's switches for float32: exact for the proof, and for a user's training as the user's code left them."""

from pathlib import Path

import planted_orders
import pytest
import torch

from laptime.engine.backends.torch import devices
from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.devices import (
    SWITCHES,
    LanePrecision,
    Switches,
    compute_as,
    read_switches,
    set_precision,
    set_switches,
)
from laptime.model.machine import Device
from laptime.model.process import Settings

FILE = str(Path(__file__).with_name("own_trainings.py"))
CARD = Device("cuda:0", "cuda", "a card", usable=True, features=("tf32", "bf16"))
OLD_CARD = Device("cuda:0", "cuda", "a card", usable=True, features=("fp16",))


AS_PYTORCH_BEGINS = Switches(
    (False, True), ("none",) * 3 + ("tf32", "tf32") + ("none",) * 4 if devices.HAS_NEW_WORDS else ()
)


@pytest.fixture(autouse=True)
def _switches():
    """Begin as PyTorch does, and leave them as they were."""
    before = read_switches()
    set_switches(AS_PYTORCH_BEGINS)
    yield
    set_switches(before)


def leave_alone():
    """Change nothing."""


def say_old():
    torch.backends.cuda.matmul.allow_tf32 = True


def say_high():
    torch.set_float32_matmul_precision("high")


def say_new():
    torch.backends.fp32_precision = "tf32"


WAYS = [leave_alone, say_old, say_high, say_new]


@pytest.mark.parametrize("say", WAYS)
def test_what_a_user_said_is_put_back_in_the_users_words(say):
    """PyTorch has two sets of words for them, and refuses to read in one what was said in the other."""
    say()
    left = read_switches()
    for wanted in ("fp32", "tf32", "bf16"):
        set_precision(wanted)
    assert read_switches() != left
    set_switches(left)
    assert read_switches() == left


@pytest.mark.parametrize("say", WAYS)
def test_float32_is_exact_whatever_was_said(say):
    """By default, PyTorch's convolutions take TF32 on a card that can."""
    say()
    assert read_switches().take_tf32()
    set_precision("fp32")
    assert not read_switches().take_tf32()
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (False, False)
    set_precision("tf32")
    assert read_switches().take_tf32()


def test_a_users_training_is_timed_as_its_code_has_it_and_proven_exactly():
    """The answer is how long this training takes, not how long it would with other switches."""
    training = TorchTraining(planted_orders.own_order(FILE, "with_tf32", Settings()))
    seen = training._recipe.training.loss.__globals__["SEEN"]
    training.prove("fp32")
    assert set(seen) == {False}
    seen.clear()
    runner = training.start()
    runner.run(1)
    assert seen == [True]


@pytest.mark.parametrize("name", ["cifar-mlp", "cifar-cnn"])
def test_a_built_in_training_is_float32_proper(name):
    """Its authors' cards had no TF32; a lane that is to have it names it."""
    TorchTraining(planted_orders.built_in_order(name, Settings())).start()
    assert not read_switches().take_tf32()


def test_tf32_is_told_where_it_is_taken():
    """Not on a card that has none, not on a processor, and not where a precision was named."""
    by_default = "in TF32, as PyTorch and this code have it: convolutions and recurrent layers; its proof is taken in"
    assert LanePrecision(Settings(), is_own=True).notes(CARD) == (f"{by_default} float32 proper",)
    torch.backends.cuda.matmul.allow_tf32 = True
    (told,) = LanePrecision(Settings(), is_own=True).notes(CARD)
    assert "have it: products, convolutions and recurrent layers; its" in told
    torch.backends.cuda.matmul.allow_tf32 = False
    assert LanePrecision(Settings(), is_own=True).notes(OLD_CARD) == ()
    assert LanePrecision(Settings(precision="bf16"), is_own=True).notes(CARD) == ()
    assert LanePrecision(Settings(), is_own=False).notes(CARD) == ()


@pytest.mark.parametrize("is_own", [False, True])
def test_a_switch_of_a_lane_outlasts_its_precision(monkeypatch, is_own):
    """The recipe's `cudnn.allow_tf32`: the precision, which the proof and the training set again, once set it back."""
    monkeypatch.setitem(
        SWITCHES, "cudnn_tf32", lambda value: setattr(torch.backends.cudnn, "allow_tf32", value == "on")
    )
    before, settings = read_switches(), Settings(extra={"cudnn_tf32": "on"})
    try:
        set_precision("fp32")
        precision = LanePrecision(settings, is_own=is_own)
        for apply in (lambda: compute_as(settings), precision.apply):
            set_precision("fp32")
            apply()
            assert read_switches().in_tf32() == ("convolutions and recurrent layers",)
    finally:
        set_switches(before)
