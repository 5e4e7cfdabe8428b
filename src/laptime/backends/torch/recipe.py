"""What a training needs, built in or a user's own: fresh networks, optimizers, batches for the proof."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn, optim

from laptime.backends import own
from laptime.backends.fingerprint import scale_near
from laptime.backends.items import BuiltInItems
from laptime.backends.torch.batches import digest_batches, hollow, keep_batches, load_batches
from laptime.backends.torch.networks import build_network, load_pretrained, load_weights, make_loss
from laptime.backends.torch.random_numbers import restored_generators, seed_all
from laptime.errors import TrainingError
from laptime.model.lane import Settings
from laptime.model.plan import HeatOrder, Subject
from laptime.model.workload import Adam, Training
from laptime.workloads.data import Items
from laptime.workloads.weights import make_weights

Batch = tuple[Any, Any]
# These add weight decay to the gradient by default, then divide both by statistics of the gradient.
COUPLED = (optim.Adam, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta, optim.RMSprop)


class BuiltInRecipe(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self._seed, self._pretrained = order.seed, order.pretrained
        self.loss = make_loss(self.workload)
        self.steps_per_lap: int | None = self.workload.steps_per_lap
        self.notes: tuple[str, ...] = ()

    def network(self) -> nn.Module:
        """Return a fresh network with the starting weights, in float32 on the processor."""
        torch.manual_seed(self._seed)
        network = build_network(self.workload)
        load_weights(network, self.workload, make_weights(self.workload, self._seed))
        if self._pretrained:
            self.notes = (f"weights: {load_pretrained(network, self.workload)}",)
        return network

    def answering(self) -> nn.Module:
        """Return the network with the final sigmoids that the authors have; in training, the loss includes them."""
        network, ends_in_sigmoids = self.network(), self.workload.loss == "sigmoid_crossentropy"
        return nn.Sequential(*network.children(), nn.Sigmoid()) if ends_in_sigmoids else network

    def optimizer(self, network: nn.Module, *, rate: float, options: dict[str, Any]) -> torch.optim.Optimizer:
        wanted = self.workload.optimizer
        learning_rate = wanted.learning_rate * rate
        if isinstance(wanted, Adam):
            return torch.optim.Adam(
                network.parameters(),
                lr=learning_rate,
                betas=(wanted.beta1, wanted.beta2),
                eps=wanted.epsilon,
                weight_decay=wanted.weight_decay,
                **options,
            )
        options.pop("capturable", None)
        return torch.optim.SGD(network.parameters(), lr=learning_rate, weight_decay=wanted.weight_decay, **options)

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Set the epsilon that makes PyTorch's Adam equal to Keras's, where the authors used Keras.

        Keras adds epsilon before the bias correction, PyTorch after it; eps / sqrt(1 - beta2^t) makes them the same.
        """
        wanted = self.workload.optimizer
        if isinstance(wanted, Adam) and wanted.epsilon_placement == "before":
            for group in optimizer.param_groups:
                group["eps"] = wanted.epsilon / math.sqrt(1 - wanted.beta2**step)

    def proof_batches(self) -> list[Batch]:
        """Return the proof's batches on the processor, images as (item, channel, height, width)."""
        return list(batches_of(self.proof_items(), self.proof.batch))


class OwnRecipe:
    """A user's training. Its model is copied once, so that every run starts from its initial weights."""

    def __init__(self, order: HeatOrder) -> None:
        subject: Subject = order.subject
        assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
        self.seed = order.seed
        seed_all(self.seed)
        self.training: Training = own.call_own(subject.file, subject.function, order.lane.settings.batch)
        self.name = subject.name
        self._check()
        self._start = copy.deepcopy(self.training.model)
        self._kept = None if order.kept_batches is None else Path(order.kept_batches)
        self._pattern: Batch | None = None
        assert self.training.loss is not None  # call_own has checked it
        self.loss = self.training.loss
        self.notes: tuple[str, ...] = ()
        self.proof = replace(order.proof, loss_scale=scale_near(self._epsilon()))
        self.steps_per_lap = self.training.steps_per_lap or own.length_of(self.training.data)
        self.optimizer(self.network(), rate=1.0, options={})  # refuse an unknown optimizer now, not in the proof

    def network(self) -> nn.Module:
        fresh: nn.Module = copy.deepcopy(self._start)
        return fresh

    def answering(self) -> nn.Module:
        return self.network()

    def optimizer(self, network: nn.Module, *, rate: float, options: dict[str, Any]) -> torch.optim.Optimizer:
        made = self._make_optimizer(network, options)
        for group in made.param_groups:
            group["lr"] = group["lr"] * rate
        return made

    def rate(self, _settings: Settings) -> float:
        return 1.0

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Scale a weight decay that is part of the gradient like the loss, so that the two keep their ratio."""
        if type(optimizer) not in COUPLED:
            return
        for group in optimizer.param_groups:
            if not group.get("decoupled_weight_decay"):
                given = group.setdefault("given_weight_decay", group["weight_decay"])
                group["weight_decay"] = given * self.proof.scale_of(step - 1)

    def first_batch(self) -> Batch:
        """Draw the first batch of a lap, and remember the structure that holds its tensors."""
        batch = next(endless(self.training.data, self.name))
        self._pattern = hollow(batch)
        return batch

    def proof_batches(self) -> list[Batch]:
        return self.told_batches()[0]

    def told_batches(self) -> tuple[list[Batch], str]:
        """Return the proof's batches and their digest: those kept for all lanes, or else drawn from the seed."""
        with restored_generators():
            found = None
            if self._kept is not None and self._kept.exists():
                if self._pattern is None:
                    self.first_batch()
                found = load_batches(self._kept, self._pattern)
            if found is not None:
                return found
            batches = self._draw_batches()
        return batches, digest_batches(batches)

    def keep_batches(self) -> str | None:
        """Draw the proof's batches once for all lanes; return why the lanes cannot get the same batches, or None."""
        with restored_generators():
            batches = self._draw_batches()
            why = "no file was named" if self._kept is None else keep_batches(self._kept, batches)
            if why is None or digest_batches(batches) == digest_batches(self._draw_batches()):
                return None
        return f"its data give other batches each time, from the same seeds too, and these cannot be kept: {why}"

    def _draw_batches(self) -> list[Batch]:
        seed_all(self.seed)
        return list(itertools.islice(endless(self.training.data, self.name), self.proof.steps))

    def _check(self) -> None:
        if self.training.step is not None:
            raise TrainingError(
                f"{self.name}: gives a step function, which JAX lanes run, and python lanes in any other framework",
                "race it on jax/cpu or python/cpu",
            )
        if own.is_keras(self.training.model):
            raise TrainingError(f"{self.name}: gives a Keras model", "race it on keras-tf, keras-jax or keras-torch")
        if not isinstance(self.training.model, nn.Module):
            kind = type(self.training.model).__name__
            raise TrainingError(f"{self.name}: model is {kind}, and the torch back end trains a torch.nn.Module")
        optimizer = self.training.optimizer
        if not (isinstance(optimizer, torch.optim.Optimizer) or callable(optimizer)):
            kind = type(optimizer).__name__
            raise TrainingError(f"{self.name}: optimizer is {kind}", "give a torch.optim.Optimizer or a function")

    def _epsilon(self) -> float:
        """Return the gradient size below which the optimizer stops normalising; 1 for one that never normalises."""
        probe = self.training.optimizer
        if not isinstance(probe, torch.optim.Optimizer):
            probe = self._make_optimizer(self.training.model, {})
        epsilon = probe.defaults.get("eps")
        if not isinstance(epsilon, float | int):
            return 1.0
        return math.sqrt(epsilon) if isinstance(probe, optim.Adadelta) else float(epsilon)

    def _make_optimizer(self, network: nn.Module, options: dict[str, Any]) -> torch.optim.Optimizer:
        given = self.training.optimizer
        if not isinstance(given, torch.optim.Optimizer):
            made = given(network.parameters())
            if not isinstance(made, torch.optim.Optimizer):
                raise TrainingError(f"{self.name}: optimizer returned {type(made).__name__}, not an optimizer")
            given, groups = made, made.param_groups
        else:
            groups = self._groups_on(network, given)
        wanted = {key: value for key, value in options.items() if key in given.defaults}
        if "fused" in options and "fused" not in wanted:
            self.notes = (f"{type(given).__name__} has no fused form",)
        if "fused" in wanted:
            wanted["foreach"] = None
        groups = [{**group, **wanted} for group in groups]
        taken = inspect.signature(type(given)).parameters  # AdamW's defaults have a key that its own class refuses
        defaults = {key: value for key, value in given.defaults.items() if key in taken}
        remade: torch.optim.Optimizer = type(given)(groups, **{**defaults, **wanted})
        return remade

    def _groups_on(self, network: nn.Module, given: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """Replace the parameters in the user's parameter groups by those of the copy."""
        twins = dict(zip(map(id, self.training.model.parameters()), network.parameters(), strict=True))
        groups: list[dict[str, Any]] = []
        for group in given.param_groups:
            if any(id(each) not in twins for each in group["params"]):
                raise TrainingError(f"{self.name}: the optimizer holds parameters that the model does not have")
            groups.append({**group, "params": [twins[id(each)] for each in group["params"]]})
        return groups


TorchRecipe = BuiltInRecipe | OwnRecipe


def open_recipe(order: HeatOrder) -> TorchRecipe:
    return OwnRecipe(order) if order.subject.file is not None else BuiltInRecipe(order)


def batches_of(items: Items, batch: int) -> Iterator[Batch]:
    """Cut decoded items into whole batches, as tensors of (item, channel, height, width)."""
    images = torch.from_numpy(items.images).permute(0, 3, 1, 2)
    labels = torch.from_numpy(items.labels)
    for start in range(0, len(labels) - batch + 1, batch):
        yield images[start : start + batch], labels[start : start + batch]


def endless(data: Iterable[Any], name: str) -> Iterator[Batch]:
    """Iterate a user's pairs again and again; raise an error in words for a batch that is no pair."""
    for batch in own.endless(data, name):
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise TrainingError(f"{name}: a batch is {_shape_of(batch)}, expected a pair (inputs, targets)")
        yield batch[0], batch[1]


def _shape_of(batch: Any) -> str:
    return f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
