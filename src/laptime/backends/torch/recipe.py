"""What a training needs, built in or a user's own: fresh networks, optimizers, batches for the proof."""

from __future__ import annotations

import copy
import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends import own
from laptime.backends.fingerprint import scale_near
from laptime.backends.items import BuiltInItems
from laptime.backends.returned import is_keras
from laptime.backends.torch.batches import digest_batches, hollow, keep_batches, load_batches
from laptime.backends.torch.calling import Calling, OwnLoss, count_batch_items
from laptime.backends.torch.networks import build_network, load_pretrained, load_weights, make_loss
from laptime.backends.torch.own_batches import with_batch
from laptime.backends.torch.own_optimizer import COUPLED, OwnOptimizer
from laptime.backends.torch.random_numbers import restored_generators, seed_all
from laptime.backends.torch.ranks import open_group
from laptime.errors import TrainingError
from laptime.model.lane import Settings
from laptime.model.plan import HeatOrder, Subject
from laptime.model.workload import Adam, Training
from laptime.workloads.data import Items
from laptime.workloads.weights import make_weights

Batch = Any


class BuiltInRecipe(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self._seed, self._pretrained = order.seed, order.pretrained
        self.loss: Callable[[Any, Any], Tensor] = make_loss(self.workload)
        self.steps_per_lap: int | None = self.workload.steps_per_lap
        self.notes: tuple[str, ...] = ()
        self.needs_closure = False
        self.group = open_group(order)

    def split(self, batch: Batch) -> tuple[Any, Any]:
        """Return the inputs of the network, and the targets of its loss."""
        inputs, targets = batch
        return inputs, targets

    def loss_on(self, _device: torch.device) -> Callable[[Any, Any], Tensor]:
        return self.loss

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


class OwnData:
    """The data of a user's training, with a model or with a step of its own, and the batches of its proof."""

    def __init__(self, order: HeatOrder, training: Training) -> None:
        self.seed, self.name, self.training = order.seed, order.subject.name, training
        self.proof = order.proof
        self.notes: tuple[str, ...] = ()
        self.steps_per_lap = training.steps_per_lap or own.length_of(training.data)
        self._kept = None if order.kept_batches is None else Path(order.kept_batches)
        self._pattern: Batch | None = None
        self.group = open_group(order)

    def rate(self, _settings: Settings) -> float:
        return 1.0

    def first_batch(self) -> Batch:
        """Draw the first batch of a lap, and remember the structure that holds its tensors."""
        batch = next(own.endless(self.training.data, self.name))
        self._pattern = hollow(batch)
        return batch

    def split(self, batch: Batch) -> tuple[Any, Any]:
        """Return the batch twice: a step of your own takes it as it is."""
        return batch, batch

    def count_items(self) -> int:
        return count_batch_items(*self.split(self.first_batch()))

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
        return list(itertools.islice(own.endless(self.training.data, self.name), self.proof.steps))


class OwnRecipe(OwnData):
    """A user's model, optimizer and loss. The model is copied once: every run starts from its initial weights."""

    def __init__(self, order: HeatOrder, training: Training | None = None) -> None:
        super().__init__(order, call_training(order) if training is None else training)
        model = self._checked_model()
        self._start = self._copied(model)
        self._optimizer = OwnOptimizer(self.name, self.training.optimizer, model)
        self._calling = Calling(self.name, model, has_loss=self.training.loss is not None)
        self.loss = OwnLoss(self.name, self.training.loss)
        self.needs_closure = self._optimizer.needs_closure
        self.proof = replace(order.proof, loss_scale=scale_near(self._optimizer.epsilon))
        if self.needs_closure:  # its step is many, and has no size that follows from its rate
            self.proof = replace(self.proof, single_step_scale=None)
        if order.lane.settings.optimizer == "fused" and self._optimizer.unfused is not None:
            self.notes = (f"{self._optimizer.unfused} has no fused form",)
        self.optimizer(self.network(), rate=1.0, options={})  # refuse an unknown optimizer now, not in the proof

    def split(self, batch: Batch) -> tuple[Any, Any]:
        """Return the inputs of the model, and the targets of the loss."""
        return self._calling.split(batch)

    def network(self) -> nn.Module:
        return self._copied(self._start)

    def answering(self) -> nn.Module:
        return self.network()

    def loss_on(self, device: torch.device) -> OwnLoss:
        return self.loss.on(device)

    def optimizer(self, network: nn.Module, *, rate: float, options: dict[str, Any]) -> torch.optim.Optimizer:
        made = self._optimizer.make(network, options)
        for group in made.param_groups:
            group["lr"] = group["lr"] * rate
        return made

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Scale a weight decay that is part of the gradient like the loss, so that the two keep their ratio."""
        if type(optimizer) not in COUPLED:
            return
        for group in optimizer.param_groups:
            if not group.get("decoupled_weight_decay"):
                given = group.setdefault("given_weight_decay", group["weight_decay"])
                group["weight_decay"] = given * self.proof.scale_of(step - 1)

    def first_batch(self) -> Batch:
        """Draw the first batch, and check that the model can be called on it."""
        batch = super().first_batch()
        self._calling.check(batch)
        return batch

    def _checked_model(self) -> nn.Module:
        model, loss = self.training.model, self.training.loss
        if is_keras(model):
            raise TrainingError(f"{self.name}: gives a Keras model", "race it on keras-tf, keras-jax or keras-torch")
        if not isinstance(model, nn.Module):
            says = f"model is {_kind_of(model)}, and the torch back end trains a torch.nn.Module"
            raise TrainingError(f"{self.name}: {says}", "give model=, or a step of your own: step=, state= and data=")
        if isinstance(loss, type):
            raise TrainingError(f"{self.name}: loss is {_kind_of(loss)}", f"give one of it: {loss.__name__}()")
        if any(getattr(each, "_compiled_call_impl", None) is not None for each in model.modules()):
            raise TrainingError(
                f"{self.name}: its model was compiled in place, by its method compile(), which no copy keeps",
                "give torch.compile(model), or leave it uncompiled and race the lane torch/cpu/compile",
            )
        return model

    def _copied(self, model: nn.Module) -> nn.Module:
        try:
            fresh: nn.Module = copy.deepcopy(model)
        except Exception as error:
            raise TrainingError(
                f"{self.name}: its model cannot be copied: {type(error).__name__}: {error}",
                "each run begins from a copy: keep files, locks, generators and results of earlier steps out of it",
            ) from error
        return fresh


TorchRecipe = BuiltInRecipe | OwnRecipe


def call_training(order: HeatOrder) -> Training:
    """Call the user's function from the order's seed, with the lane's device where its code may look for it.

    The lane may set the batch of its data.
    """
    subject: Subject = order.subject
    assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
    seed_all(order.seed)
    os.environ["LAPTIME_DEVICE"] = order.lane.device.name
    return with_batch(own.call_own(subject.file, subject.function), order.lane.settings.batch, subject.name)


def open_recipe(order: HeatOrder) -> TorchRecipe | OwnData:
    """Return what is trained; `OwnData` alone where a step of the user's own trains it."""
    if order.subject.file is None:
        return BuiltInRecipe(order)
    training = call_training(order)
    return OwnRecipe(order, training) if training.step is None else OwnData(order, training)


def batches_of(items: Items, batch: int) -> Iterator[Batch]:
    """Cut decoded items into whole batches, as tensors of (item, channel, height, width)."""
    images = torch.from_numpy(items.images).permute(0, 3, 1, 2)
    labels = torch.from_numpy(items.labels)
    for start in range(0, len(labels) - batch + 1, batch):
        yield images[start : start + batch], labels[start : start + batch]


def _kind_of(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
