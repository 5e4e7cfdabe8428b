"""What a training needs, built in or a user's own: fresh networks, optimizers, batches for the proof."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from laptime.engine.backends import own
from laptime.engine.backends.arrays import scale_near
from laptime.engine.backends.items import BuiltInItems
from laptime.engine.backends.own import is_keras
from laptime.engine.backends.torch.batches import (
    COUPLED,
    OwnOptimizer,
    digest_batches,
    hollow,
    keep_batches,
    load_batches,
    tensors,
    with_batch,
)
from laptime.engine.backends.torch.random_numbers import restored_generators, seed_all
from laptime.engine.backends.torch.ranks import open_group
from laptime.model import hardware as layers
from laptime.model.errors import LaneError, TrainingError
from laptime.model.plan import HeatOrder, Subject
from laptime.model.process import Settings
from laptime.model.workload import Adam, Training, Workload
from laptime.trainings.workloads.data import Items, make_weights
from laptime.trainings.workloads.shapes import WeightSpec, list_weights, output_shape

StepBatch = Any
Split = Callable[[StepBatch], tuple[Any, Any]]


class BuiltInRecipe(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self._seed = order.seed
        self._pretrained = order.pretrained
        self.loss: Callable[[Any, Any], Tensor] = make_loss(self.workload)
        self.steps_per_lap: int | None = self.workload.steps_per_lap
        self.notes: tuple[str, ...] = ()
        self.needs_closure = False
        self.takes_pairs = True
        self.group = open_group(order)

    def split(self, batch: StepBatch) -> tuple[Any, Any]:
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
        network = self.network()
        ends_in_sigmoids = self.workload.loss == "sigmoid_crossentropy"
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

    def proof_batches(self) -> list[StepBatch]:
        """Return the proof's batches on the processor, images as (item, channel, height, width)."""
        return list(batches_of(self.proof_items(), self.proof.batch))


class OwnData:
    """The data of a user's training, with a model or with a step of its own, and the batches of its proof.

    `split` returns the inputs of the model, and the targets of the loss.
    """

    def __init__(self, order: HeatOrder, training: Training) -> None:
        self.seed = order.seed
        self.name = order.subject.name
        self.training = training
        self.proof = order.proof
        self.notes: tuple[str, ...] = ()
        self.steps_per_lap = training.steps_per_lap or own.length_of(training.data)
        self._kept = None if order.kept_batches is None else Path(order.kept_batches)
        self._pattern: StepBatch | None = None
        self.laps = own.LapNotes(seed_all, order.seed, training.data) if order.replays else None
        self.group = open_group(order)
        self.split: Split = lambda batch: (batch, batch)  # a step of your own takes it as it is

    def rate(self, _settings: Settings) -> float:
        return 1.0

    def first_batch(self) -> StepBatch:
        """Draw the first batch of a lap, and remember the structure that holds its tensors."""
        batch = next(own.endless(self.training.data, self.name))
        self._pattern = hollow(batch)
        return batch

    def count_items(self) -> int:
        return count_batch_items(*self.split(self.first_batch()))

    def proof_batches(self) -> list[StepBatch]:
        return self.told_batches()[0]

    def told_batches(self) -> tuple[list[StepBatch], str]:
        """Return the proof's batches and their digest: those kept for all lanes, or else drawn from the seed."""
        with restored_generators():
            found = None
            if self._kept is not None and self._kept.exists() and self._kept.stat().st_size:
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

    def _draw_batches(self) -> list[StepBatch]:
        seed_all(self.seed)
        return list(itertools.islice(own.endless(self.training.data, self.name), self.proof.steps))


class OwnRecipe(OwnData):
    """A user's model, optimizer and loss. The model is copied once: every run starts from its initial weights."""

    def __init__(self, order: HeatOrder, training: Training | None = None) -> None:
        super().__init__(order, call_training(order) if training is None else training)
        model = self.training.model
        loss = self.training.loss
        if is_keras(model):
            raise TrainingError(f"{self.name}: gives a Keras model", "race it on keras-tf, keras-jax or keras-torch")
        if not isinstance(model, nn.Module):
            says = f"model is {_kind_of(model)}, and the torch back end trains a torch.nn.Module"
            raise TrainingError(f"{self.name}: {says}", "give model=, or a step of your own: step=, state= and data=")
        if isinstance(loss, type):
            raise TrainingError(f"{self.name}: loss is {_kind_of(loss)}", f"give one of it: {loss.__name__}()")
        if any(getattr(module, "_compiled_call_impl", None) is not None for module in model.modules()):
            raise TrainingError(
                f"{self.name}: its model was compiled in place, by its method compile(), which no copy keeps",
                "give torch.compile(model), or leave it uncompiled and race the lane torch/cpu/compile",
            )
        self._start = self._copied(model)
        self._optimizer = OwnOptimizer(self.name, self.training.optimizer, model)
        self._calling = Calling(self.name, model, has_loss=loss is not None)
        self.split = self._calling.split
        self.takes_pairs = loss is not None
        self.loss = OwnLoss(self.name, loss)
        self.needs_closure = self._optimizer.needs_closure
        self.proof = replace(order.proof, loss_scale=scale_near(self._optimizer.epsilon))
        if self.needs_closure:  # its step is many, and has no size that follows from its rate
            self.proof = replace(self.proof, single_step_scale=None)
        if order.lane.settings.optimizer == "fused" and self._optimizer.unfused is not None:
            self.notes = (f"{self._optimizer.unfused} has no fused form",)
        self.optimizer(self.network(), rate=1.0, options={})  # refuse an unknown optimizer now, not in the proof

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

    def first_batch(self) -> StepBatch:
        """Draw the first batch, and check that the model can be called on it."""
        batch = super().first_batch()
        self._calling.check(batch)
        return batch

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


def batches_of(items: Items, batch: int) -> Iterator[StepBatch]:
    """Cut decoded items into whole batches, as tensors of (item, channel, height, width)."""
    images = torch.from_numpy(items.images).permute(0, 3, 1, 2)
    labels = torch.from_numpy(items.labels)
    for start in range(0, len(labels) - batch + 1, batch):
        yield images[start : start + batch], labels[start : start + batch]


def _kind_of(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


# The catalogue's networks as PyTorch modules: layers, weights, loss, and a fast dropout for processors.
#
# Dropout: on a processor, PyTorch draws one number per value on a single thread. That takes 5.8 ms for the 819,200
# values of cifar-cnn, a seventh of its step in bf16. `WordDropout` gives each value the same chance with 16-bit numbers
# drawn four at a time: 1.4 ms (two EPYC cores, PyTorch 2.13.0, 2026-11-20). Rates are exact to 1/65,536.

SCHEDULE_STEPS = 1 << 16
WORD_VALUES = 4
LEAST_WORD = -(1 << 63)


class SwapLastAxes(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.transpose(-1, -2)


class DenseLayer(nn.Module):
    """One layer of a dense block: norm, relu, 1x1, norm, relu, 3x3, on all earlier outputs concatenated."""

    def __init__(self, channels: int, block: layers.DenseBlock) -> None:
        super().__init__()
        middle = block.bottleneck * block.growth
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, middle, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, block.growth, 3, padding=1, bias=False)

    def forward(self, joined: Tensor) -> Tensor:
        narrow = self.conv1(nn.functional.relu(self.norm1(joined), inplace=True))
        new: Tensor = self.conv2(nn.functional.relu(self.norm2(narrow), inplace=True))
        return new


class TorchDenseBlock(nn.Module):
    """DenseNet's block: the output of each layer is concatenated to all earlier ones."""

    def __init__(self, channels: int, block: layers.DenseBlock) -> None:
        super().__init__()
        widths = (channels + index * block.growth for index in range(block.layers))
        self.layers = nn.ModuleList(DenseLayer(width, block) for width in widths)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = [inputs]
        for layer in self.layers:
            outputs.append(layer(torch.cat(outputs, 1)))
        return torch.cat(outputs, 1)


def build_network(workload: Workload) -> nn.Sequential:
    """Build the network with PyTorch's own starting weights; `load_weights` loads the canonical ones."""
    modules: list[nn.Module] = []
    shape: tuple[int, ...] = workload.image_shape
    for layer in workload.layers:
        modules.extend(_modules_for(layer, shape))
        shape = output_shape(layer, shape)
    return nn.Sequential(*modules)


def load_weights(network: nn.Module, workload: Workload, weights: Sequence[npt.NDArray[np.float32]]) -> None:
    """Copy the canonical weights into the network, converted to PyTorch's layouts."""
    specs = list_weights(workload)
    parameters = list(network.parameters())
    if len(parameters) != len(specs):
        raise LaneError(f"{workload.name}: {len(parameters)} arrays in the network, {len(specs)} in the catalogue")
    with torch.no_grad():
        for parameter, spec, array in zip(parameters, specs, weights, strict=True):
            parameter.copy_(torch.from_numpy(to_torch_layout(array, spec)))


def to_torch_layout(array: npt.NDArray[np.float32], spec: WeightSpec) -> npt.NDArray[np.float32]:
    """Convert one canonical array to the layout of PyTorch's layer."""
    if spec.kind == "conv":
        return np.ascontiguousarray(array.transpose(3, 2, 0, 1))
    if spec.kind == "dense" and spec.flattened_from is not None:
        height, width, channels = spec.flattened_from
        places = array.reshape(height, width, channels, -1).transpose(3, 2, 0, 1)
        return np.ascontiguousarray(places.reshape(places.shape[0], -1))
    if spec.kind == "dense":
        return np.ascontiguousarray(array.T)
    return array


def load_pretrained(network: nn.Module, workload: Workload) -> str:
    """Load the weights of torchvision's pre-trained DenseNet121, except the head, and return their name."""
    if workload.name != "pets-densenet":
        raise LaneError(f"--pretrained: there are no pre-trained weights for {workload.name}, only for pets-densenet")
    try:
        from torchvision.models import DenseNet121_Weights, densenet121
    except ImportError:
        raise LaneError(
            "--pretrained: torchvision is not installed, and the pre-trained weights come with it",
            "pip install torchvision, or leave out --pretrained",
        ) from None
    donor = densenet121(weights=DenseNet121_Weights.IMAGENET1K_V1)
    with torch.no_grad():
        for mine, given in list(zip(network.parameters(), donor.parameters(), strict=True))[:-2]:
            mine.copy_(given)
        for kept, given in zip(network.buffers(), donor.buffers(), strict=True):
            kept.copy_(given)
    return str(DenseNet121_Weights.IMAGENET1K_V1)


def make_loss(workload: Workload) -> Any:
    """Return the loss as a function of outputs and class numbers."""
    return _sigmoid_crossentropy if workload.loss == "sigmoid_crossentropy" else _softmax_crossentropy


def _softmax_crossentropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def _sigmoid_crossentropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Categorical cross-entropy of sigmoid outputs as Keras has it: scaled to sum 1, clipped at 1e-7."""
    likely = outputs.sigmoid()
    shares = likely / likely.sum(-1, keepdim=True)
    chosen = shares.gather(-1, labels.unsqueeze(-1)).clamp(1e-7, 1 - 1e-7)
    return -chosen.log().mean()


def _modules_for(layer: layers.Layer, shape: tuple[int, ...]) -> Iterator[nn.Module]:  # noqa: PLR0912  one case a layer
    match layer:
        case layers.Conv():
            yield nn.Conv2d(
                shape[-1], layer.filters, layer.kernel, layer.stride, padding=layer.padding, bias=layer.bias
            )
            yield from _activation(layer.activation)
        case layers.Dense():
            yield nn.Linear(shape[-1], layer.units)
            yield from _activation(layer.activation)
        case layers.MaxPool():
            yield nn.MaxPool2d(layer.size, layer.stride, layer.padding)
        case layers.AveragePool():
            yield nn.AvgPool2d(layer.size)
        case layers.GlobalAveragePool():
            yield nn.AdaptiveAvgPool2d(1)
            yield nn.Flatten()
        case layers.BatchNorm():
            yield nn.BatchNorm2d(shape[-1], layer.epsilon, layer.momentum)
        case layers.Relu():
            yield nn.ReLU(inplace=True)
        case layers.Flatten():
            yield nn.Flatten()
        case layers.Dropout():
            yield nn.Dropout(layer.rate)
        case layers.Reshape():
            yield nn.Unflatten(1, layer.shape)
        case layers.SwapAxes():
            yield SwapLastAxes()
        case layers.DenseBlock():
            yield TorchDenseBlock(shape[-1], layer)
        case layers.Transition():
            yield nn.BatchNorm2d(shape[-1])
            yield nn.ReLU(inplace=True)
            yield nn.Conv2d(shape[-1], shape[-1] // 2, 1, bias=False)
            yield nn.AvgPool2d(2)


def _activation(name: layers.Activation) -> Iterator[nn.Module]:
    if name == "relu":
        yield nn.ReLU()


class WordDropout(nn.Dropout):
    """Dropout whose mask comes from whole random words."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return inputs
        if self.p == 1.0:  # nothing is kept, and no factor could compensate
            mask = torch.zeros_like(inputs)
        else:
            count = inputs.numel()
            words = torch.empty(-(-count // WORD_VALUES), dtype=torch.int64).random_(LEAST_WORD, None)
            threshold = SCHEDULE_STEPS // 2 - round((1 - self.p) * SCHEDULE_STEPS)
            kept = words.view(torch.int16)[:count].view(inputs.shape) >= threshold
            mask = kept.to(inputs.dtype) * (1 / (1 - self.p))
        return inputs.mul_(mask) if self.inplace else inputs * mask


def speed_up_dropout(network: nn.Module) -> bool:
    """Replace every plain dropout layer; return whether there was any."""
    found = False
    for module in network.modules():
        if type(module) is nn.Dropout:
            module.__class__ = WordDropout
            found = True
    return found


# How a user's model is called on a batch, and where its loss is.
#
# | batch | with a `loss` | without |
# |---|---|---|
# | a tuple or list of two or more | model(all but the last), loss(outputs, the last) | model(*batch) |
# | a dict | model(**what its forward names), loss(outputs, batch) | model(**batch) |
# | anything else, alone or in a tuple of one | model(batch), loss(outputs, batch) | model(batch) |
#
# Without a `loss`, what the model returns is or holds its loss.

BATCH_WAYS = (
    "a tuple gives model(all but the last) and loss(outputs, the last), a dict model(**batch) and "
    "loss(outputs, batch), anything else model(batch); without a loss, a tuple gives model(*batch)"
)
GIVE_A_LOSS = (
    "return its loss from its forward (of several, their sum), or give loss=, a function of (outputs, targets)"
)
PARAMETER = inspect.Parameter
PAIRS = (tuple, list)


class Inputs(NamedTuple):
    """What a model is called with, where that is not one value."""

    args: tuple[Any, ...]
    words: dict[str, Any]


def call(network: Callable[..., Any], inputs: Any) -> Any:
    return network(*inputs.args, **inputs.words) if type(inputs) is Inputs else network(inputs)


class Calling:
    """Splits the batches of one training into what the model gets and what its loss gets."""

    def __init__(self, name: str, model: nn.Module, *, has_loss: bool) -> None:
        self._name = name
        self._has_loss = has_loss
        self._signature: inspect.Signature | None = None
        with contextlib.suppress(TypeError, ValueError):  # the forward of a compiled model takes anything
            self._signature = inspect.signature(getattr(model, "_orig_mod", model).forward)
        # The names that the forward takes; None if it takes any.
        self._named: frozenset[str] | None = None
        if has_loss and self._signature is not None:
            parameters = self._signature.parameters.values()
            if not any(parameter.kind is PARAMETER.VAR_KEYWORD for parameter in parameters):
                by_name = {PARAMETER.POSITIONAL_OR_KEYWORD, PARAMETER.KEYWORD_ONLY}
                self._named = frozenset(parameter.name for parameter in parameters if parameter.kind in by_name)

    def split(self, batch: Any) -> tuple[Any, Any]:
        """Return the inputs of the model, and the targets of the loss."""
        # Most batches: the other tests take a microsecond.
        if self._has_loss and type(batch) in PAIRS and len(batch) == 2:
            return batch[0], batch[1]
        if isinstance(batch, Mapping):
            named = self._named
            return Inputs((), {key: batch[key] for key in batch if named is None or key in named}), batch
        if not isinstance(batch, tuple | list) or isinstance(batch, PackedSequence):
            return batch, batch
        if len(batch) == 1:
            return batch[0], batch[0]
        if not self._has_loss:
            return Inputs(tuple(batch), {}), batch
        return batch[0] if len(batch) == 2 else Inputs(tuple(batch[:-1]), {}), batch[-1]

    def check(self, batch: Any) -> None:
        """Raise an error in words if the model cannot be called on this batch."""
        inputs, _ = self.split(batch)
        if isinstance(batch, tuple | list) and not batch:
            raise TrainingError(f"{self._name}: a batch is an empty {type(batch).__name__}", BATCH_WAYS)
        if self._signature is None:
            return
        try:
            call(self._signature.bind, inputs)
        except TypeError as error:
            called = "batch"
            if type(inputs) is Inputs:
                called = ", ".join((*map(_describe, inputs.args), *(f"{key}=..." for key in inputs.words)))
            raise TrainingError(
                f"{self._name}: a batch is {_describe(batch)}, so that it is called as model({called}), and the "
                f"model's forward{self._signature} does not take that: {error}",
                BATCH_WAYS,
            ) from None


class OwnLoss:
    """A user's loss, or the one that the model has computed; checked to be one number."""

    def __init__(self, name: str, given: Callable[..., Any] | None) -> None:
        self._name = name
        self.given = given

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        return self.check(find_loss(outputs) if self.given is None else self.given(outputs, targets), outputs)

    def check(self, loss: Any, outputs: Any = None) -> Tensor:
        """Return the loss, if it is one number."""
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return loss
        if self.given is None:
            raise TrainingError(
                f"{self._name}: gives no loss, and its model returned {_describe(outputs)}: expected its loss as one "
                "number, as the first of a tuple, or as .loss or ['loss']",
                GIVE_A_LOSS,
            )
        raise TrainingError(
            f"{self._name}: loss returned {_describe(loss)}, expected a tensor of one number", "such as its mean"
        )

    def on(self, device: torch.device) -> OwnLoss:
        """Return the loss with its own weights, if it has any, on the device."""
        if not isinstance(self.given, nn.Module):
            return self
        return OwnLoss(self._name, copy.deepcopy(self.given).to(device))

    def widen(self) -> None:
        if isinstance(self.given, nn.Module):
            self.given.double()

    def narrow(self) -> None:
        if isinstance(self.given, nn.Module):
            self.given.float()


def find_loss(outputs: Any) -> Any:
    """Return the loss in what a model returned, or None."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping) and "loss" in outputs:
        return outputs["loss"]
    if hasattr(outputs, "loss"):
        return outputs.loss
    return outputs[0] if isinstance(outputs, tuple | list) and outputs else None


def count_batch_items(inputs: Any, targets: Any) -> int:
    """Return how many items a batch has: the length that its targets have in common, or most of its tensors."""
    lengths: list[int] = []
    for value in (targets, inputs):
        lengths = [len(tensor) for tensor in tensors(value) if tensor.dim()]
        if len(set(lengths)) == 1 and lengths[0]:
            return lengths[0]
    usual = Counter(filter(None, lengths)).most_common(1)
    return usual[0][0] if usual else 1


def _describe(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, Tensor):
        return f"a tensor of {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return f"{kind} of {', '.join(map(str, value))}"
    return f"{kind} of {len(value)}" if isinstance(value, tuple | list) else kind
