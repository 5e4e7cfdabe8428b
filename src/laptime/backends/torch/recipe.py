"""What a training is made of, be it built in or a user's own: fresh networks, optimizers, batches for the proof."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from laptime.backends import own
from laptime.backends.items import BuiltInItems
from laptime.backends.torch.networks import build_network, load_pretrained, load_weights, make_loss
from laptime.errors import TrainingError
from laptime.model.lane import Settings
from laptime.model.plan import HeatOrder, Subject
from laptime.model.workload import Adam, ProofPlan, Training
from laptime.workloads.data import Items
from laptime.workloads.weights import make_weights

Batch = tuple[Any, Any]
ADAM_LOSS_SCALE = 1e-4


class Recipe(Protocol):
    """All that the room needs to make a training, again and again, from the same starting weights."""

    loss: Callable[..., Tensor]
    proof: ProofPlan
    notes: tuple[str, ...]
    steps_per_lap: int | None

    def network(self) -> nn.Module:
        """Give a fresh network with the starting weights, in float32 on the processor."""

    def answering(self) -> nn.Module:
        """Give one whose outputs are what its user is told."""

    def optimizer(self, network: nn.Module, *, rate: float, options: dict[str, Any]) -> torch.optim.Optimizer:
        """Give an optimizer on this network at `rate` times the learning rate."""

    def rate(self, settings: Settings) -> float:
        """Give what the learning rate is multiplied by in the training itself; the proof has its own."""

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Set what changes from step to step (counted from 1); only the proof calls this."""

    def proof_batches(self) -> list[Batch]:
        """Give the proof's batches, on the processor, images as (item, channel, height, width)."""


class BuiltIn(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self._seed, self._pretrained = order.seed, order.pretrained
        self.loss = make_loss(self.workload)
        self.steps_per_lap: int | None = self.workload.steps_per_lap
        self.notes: tuple[str, ...] = ()

    def network(self) -> nn.Module:
        torch.manual_seed(self._seed)
        network = build_network(self.workload)
        load_weights(network, self.workload, make_weights(self.workload, self._seed))
        if self._pretrained:
            self.notes = (f"weights: {load_pretrained(network, self.workload)}",)
        return network

    def answering(self) -> nn.Module:
        """End with the sigmoids that the authors' network has, and PyTorch's has in its loss."""
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

    def rate(self, settings: Settings) -> float:
        named = settings.learning_rate
        return 1.0 if named is None else named / self.workload.optimizer.learning_rate

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Give PyTorch's Adam the epsilon that makes it Keras's where the authors used Keras's.

        Keras adds epsilon before the bias correction, PyTorch after it; eps / sqrt(1 - beta2^t) makes them one.
        """
        wanted = self.workload.optimizer
        if isinstance(wanted, Adam) and wanted.epsilon_placement == "before":
            for group in optimizer.param_groups:
                group["eps"] = wanted.epsilon / math.sqrt(1 - wanted.beta2**step)

    def proof_batches(self) -> list[Batch]:
        return list(batches_of(self.proof_items(), self.proof.batch))


class Own:
    """A user's training. Its model is copied once, so that every run starts from the weights it came with."""

    def __init__(self, order: HeatOrder) -> None:
        subject: Subject = order.subject
        assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
        torch.manual_seed(order.seed)
        self.training: Training = own.call_own(subject.file, subject.function)
        self.name = subject.name
        self._check()
        self._start = copy.deepcopy(self.training.model)
        assert self.training.loss is not None  # call_own has looked
        self.loss = self.training.loss
        self.notes: tuple[str, ...] = ()
        scale = ADAM_LOSS_SCALE if self._is_adam() else 1.0
        plan = order.proof
        self.proof = ProofPlan(plan.steps, plan.batch, plan.learning_rate_scale, scale)
        self.steps_per_lap = self.training.steps_per_lap or own.length_of(self.training.data)
        self.optimizer(self.network(), rate=1.0, options={})  # refuse a stranger's optimizer now, not in the proof

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
        """A user's optimizer is taken as it is."""

    def proof_batches(self) -> list[Batch]:
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

    def _is_adam(self) -> bool:
        probe = self.training.optimizer
        if not isinstance(probe, torch.optim.Optimizer):
            probe = self._make_optimizer(self.training.model, {})
        return "betas" in probe.defaults and "eps" in probe.defaults

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
        taken = inspect.signature(type(given)).parameters  # AdamW's defaults hold a key that its own class refuses
        defaults = {key: value for key, value in given.defaults.items() if key in taken}
        remade: torch.optim.Optimizer = type(given)(groups, **{**defaults, **wanted})
        return remade

    def _groups_on(self, network: nn.Module, given: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """Point the user's parameter groups at the copy's parameters."""
        twins = dict(zip(map(id, self.training.model.parameters()), network.parameters(), strict=True))
        groups: list[dict[str, Any]] = []
        for group in given.param_groups:
            if any(id(each) not in twins for each in group["params"]):
                raise TrainingError(f"{self.name}: the optimizer holds parameters that the model does not have")
            groups.append({**group, "params": [twins[id(each)] for each in group["params"]]})
        return groups


def open_recipe(order: HeatOrder) -> BuiltIn | Own:
    return Own(order) if order.subject.file is not None else BuiltIn(order)


def batches_of(items: Items, batch: int) -> Iterator[Batch]:
    """Cut decoded items into whole batches, as tensors of (item, channel, height, width)."""
    images = torch.from_numpy(items.images).permute(0, 3, 1, 2)
    labels = torch.from_numpy(items.labels)
    for start in range(0, len(labels) - batch + 1, batch):
        yield images[start : start + batch], labels[start : start + batch]


def endless(data: Iterable[Any], name: str) -> Iterator[Batch]:
    """Iterate a user's pairs again and again, and say what is wrong with one in words."""
    for batch in own.endless(data, name):
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise TrainingError(f"{name}: a batch is {_shape_of(batch)}, expected a pair (inputs, targets)")
        yield batch[0], batch[1]


def _shape_of(batch: Any) -> str:
    return f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, tuple | list) else type(batch).__name__
