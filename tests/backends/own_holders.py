"""Trainings whose batches hold their tensors in everything that people hold tensors in."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from typing import NamedTuple

import torch
from torch import nn

import laptime

ITEMS, SIDES = 12, (3, 6, 6)


class Pair(NamedTuple):
    image: torch.Tensor
    scale: torch.Tensor


class NamedPair(Pair):
    """A named tuple with a method of its own."""

    def total(self):
        return self.image.sum() + self.scale.sum()


@dataclasses.dataclass(frozen=True)
class Held:
    image: torch.Tensor
    scale: torch.Tensor


class Encoding(UserDict):
    """As a tokenizer gives: a dict that is none, with more than what it holds."""

    def __init__(self, data):
        super().__init__(data)
        self.words = "kept"


HOLDERS = {
    "named": Pair,
    "named_again": NamedPair,
    "plain": lambda image, scale: {"image": image, "scale": scale},
    "ordered": lambda image, scale: OrderedDict(image=image, scale=scale),
    "held": Held,
    "encoding": lambda image, scale: Encoding({"image": image, "scale": scale}),
    "nested": lambda image, scale: [Pair(image, scale), {"more": (Held(image, scale), None)}],
}


def image_and_scale(inputs):
    """Read both, as each holder has them."""
    if isinstance(inputs, list):
        assert inputs[1]["more"][1] is None
        inputs = inputs[1]["more"][0]
    if isinstance(inputs, dict | UserDict):
        assert not isinstance(inputs, UserDict) or inputs.words == "kept"
        return inputs["image"], inputs["scale"]
    return inputs.image, inputs.scale


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.dense = nn.Conv2d(3, 4, 3), nn.Linear(64, 3)

    def forward(self, inputs):
        image, scale = image_and_scale(inputs)
        return {"rows": self.dense(torch.relu(self.convolution(image) * scale[:, None, None, None]).flatten(1))}


def _loss(outputs, targets):
    return nn.functional.cross_entropy(outputs["rows"], targets["label"])


def _training(kind):
    model = Scaled()
    batches = []
    for number in range(6):
        drawn = torch.Generator().manual_seed(number)
        image, scale = torch.randn(ITEMS, *SIDES, generator=drawn), torch.rand(ITEMS, generator=drawn)
        labels = OrderedDict(label=torch.randint(0, 3, (ITEMS,), generator=drawn))
        batches.append((HOLDERS[kind](image, scale), labels))
    return laptime.Training(model, _loss, torch.optim.SGD(model.parameters(), lr=0.1), batches)


def named():
    return _training("named")


def named_again():
    return _training("named_again")


def plain():
    return _training("plain")


def ordered():
    return _training("ordered")


def held():
    return _training("held")


def encoding():
    return _training("encoding")


def nested():
    return _training("nested")
