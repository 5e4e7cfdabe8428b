"""The loss of weights that others have trained, in the network of one training and on its items; weights as arrays.

A verdict on learning compares trainings that may differ in their batches, rates and optimizers, in the loss that they
minimise and in what they feed to it. So none of them judges itself: both are judged by the base's network, with the
base's loss, on the base's items. Only weights come from the candidate, as arrays.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laptime.engine.backends.torch.batches import count_bytes, mapped, move_leaf
from laptime.engine.backends.torch.random_numbers import seed_all
from laptime.engine.backends.torch.recipe import OwnRecipe, StepBatch, call, count_batch_items
from laptime.model.errors import TrainingError
from laptime.model.plan import HeatOrder
from laptime.model.quantities import Missing

ITEMS_MOST = 4_096
BYTES_MOST = 256 << 20
DRAW_S = 10.0  # of a lap whose items take long, those are judged that came in this time
WEIGH_S = 0.5  # of the judge's time after each leg, by the first batch: fewer items where a network takes long
TIMINGS = 4
CHOICE = 1_000_003  # the seed of the items: the same ones for all seeds of a training that has the same data
OF_NORMS = ("running_mean", "running_var", "num_batches_tracked")  # which warming up changes, and training replaces
COMPILED = "_orig_mod."  # before the names in what torch.compile returned


class TorchLossJudge:
    """Items of a user's training, with its network and its loss, on the lane's device."""

    def __init__(self, recipe: OwnRecipe, order: HeatOrder, batches: int | None = None) -> None:
        self._recipe = recipe
        self._device = torch.device(order.lane.device.name)
        self._network = recipe.network().to(self._device).eval()
        self._loss = recipe.loss_on(self._device)
        self._start = {
            name.replace(COMPILED, ""): buffer.detach().clone()
            for name, buffer in nn.Module.named_buffers(self._network)
            if not name.endswith(OF_NORMS)
        }
        held_out = recipe.training.held_out
        self.is_held_out = held_out is not None
        seed_all(CHOICE)
        if held_out is None:
            source = itertools.islice(recipe.training.data, recipe.training.steps_per_lap)
        else:
            source = iter(held_out)
        drawn = draw_items(source, random.Random(CHOICE))
        if not drawn:
            raise TrainingError(f"{recipe.name}: there is no item to judge the loss on", "give some")
        drawn = [
            mapped(
                batch,
                lambda tensor: tensor.to(self._device),
                lambda leaf: leaf if self._device.type == "cpu" else move_leaf(leaf, self._device),
                moves=True,
            )
            for batch in drawn
        ]
        if not batches:  # as many as take little time
            found_s: list[float] = []
            for _ in range(TIMINGS):  # to judge one first takes longer, and may be disturbed
                began_s = time.perf_counter()
                self._weigh(drawn[:1])
                found_s.append(time.perf_counter() - began_s)
            batches = max(1, math.floor(WEIGH_S / max(min(found_s), 1e-9)))
        self._batches = drawn[:batches]
        self.batches = len(self._batches)
        self.items = sum(map(self._count, self._batches))

    def weigh(self, weights: Any, *, are_first: bool) -> float | Missing:
        given = {name.replace(COMPILED, ""): array for name, array in as_tensors(weights).items()}
        found = dict(nn.Module.named_parameters(self._network)) | dict(nn.Module.named_buffers(self._network))
        own = {name.replace(COMPILED, ""): held for name, held in found.items()}
        if given.keys() != own.keys():
            only = sorted(given.keys() ^ own.keys())
            return Missing(f"it has {len(given)} arrays and the base {len(own)}: {only[0]} is in one of them alone")
        for name, held in own.items():
            if held.shape != given[name].shape:
                return Missing(f"its {name} is {tuple(given[name].shape)}, the base's {tuple(held.shape)}")
        if are_first:  # what is no weight, such as a mask, has to begin as it is here
            for name, start in self._start.items():
                if not torch.equal(given[name].to(start), start):
                    return Missing(f"its {name} begins with other values")
        with torch.no_grad():
            for name, held in own.items():
                held.copy_(given[name])
        return self._weigh(self._batches)

    def _count(self, batch: StepBatch) -> int:
        return count_batch_items(*self._recipe.split(batch))

    @torch.no_grad()
    def _weigh(self, batches: list[StepBatch]) -> float:
        torch.manual_seed(CHOICE)  # a loss that draws random numbers draws the same for both
        lost, items = 0.0, 0
        for batch in batches:
            inputs, targets = self._recipe.split(batch)
            count = self._count(batch)
            lost += count * float(self._loss(call(self._network, inputs), targets))
            items += count
        return lost / items


def draw_items(data: Iterable[StepBatch], chance: random.Random) -> list[StepBatch]:
    """Return copies of batches from all over a lap, each with the same chance, in a random order."""
    kept: list[StepBatch] = []
    most = 1
    began_s = time.perf_counter()
    for number, batch in enumerate(data):
        if number == 0:
            items = count_batch_items(batch, batch)
            most = max(1, min(ITEMS_MOST // items, BYTES_MOST // max(count_bytes(batch), 1)))
        place = number if number < most else chance.randrange(number + 1)
        if place < most:
            kept[place : place + 1] = [mapped(batch, Tensor.clone)]
        if time.perf_counter() - began_s > DRAW_S:
            break
    chance.shuffle(kept)
    return kept


def take_weights(network: nn.Module) -> dict[str, Any]:
    """Return a network's weights and buffers as arrays, by PyTorch's own methods: a class may have others."""
    found: dict[str, Any] = as_arrays(
        dict(nn.Module.named_parameters(network)) | dict(nn.Module.named_buffers(network))
    )
    return found


# Tensors as arrays, which a checkpoint can hold.

BFLOAT16 = "bfloat16"  # NumPy has no such type: the bits are stored as integers under this key


def as_arrays(value: Any) -> Any:
    """Convert tensors to arrays, at any depth in dicts, lists and tuples."""
    if isinstance(value, Tensor):
        array = value.detach().cpu().contiguous()
        if array.dtype == torch.bfloat16:
            return {BFLOAT16: array.view(torch.int16).numpy().copy()}
        return array.numpy().copy()
    if isinstance(value, dict):
        return {key: as_arrays(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_arrays(part) for part in value)
    return value


def as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        if value.keys() == {BFLOAT16}:
            return torch.from_numpy(value[BFLOAT16]).view(torch.bfloat16)
        return {key: as_tensors(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_tensors(part) for part in value)
    return value
