"""One optimizer update as the lane says: its precision, its execution, and its gradient."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from laptime.engine.backends.base import ONE_LABEL
from laptime.engine.backends.torch.batches import mapped, tensors
from laptime.engine.backends.torch.recipe import (
    PAIRS,
    BuiltInRecipe,
    OwnLoss,
    OwnRecipe,
    Split,
    StepBatch,
    TorchRecipe,
    call,
    speed_up_dropout,
)
from laptime.engine.pipelines.making import read_batches
from laptime.model.errors import LaneError
from laptime.model.process import Settings
from laptime.model.protocol import Predictions, Score
from laptime.model.quantities import Missing
from laptime.model.sample import LateStep

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
Weigh = Callable[[Tensor], Tensor]
LookAtStep = Callable[[Tensor, Any, Any], None]
# Measured on two EPYC (Zen 5) cores. 3,072 x 3,000 gains an eighth of the step. With more inputs than this, oneDNN's
# rounding while it reads is slower than a copy (82,944 x 512: 150 ms a step instead of 108).
WIDE_WEIGHTS = 2_000_000
MOST_INPUTS = 8_192


class Stepper:
    """A network, its optimizer and the function that runs one batch through both.

    `weigh` turns the loss into the value that is differentiated; the timed training uses the loss itself. `look` gets
    the loss, outputs and targets of each step. An optimizer that takes a closure, as LBFGS does, computes the loss of
    one step several times: the first one counts.
    """

    def __init__(
        self,
        recipe: TorchRecipe,
        settings: Settings,
        device: torch.device,
        rate: float = 1.0,
        *,
        dropout: bool = True,
        look: LookAtStep | None = None,
    ) -> None:
        network = recipe.network()
        self._is_single = settings.value_of("numbers") == "single"
        if self._is_single:
            network.float()
        if not dropout:
            switch_off_dropout(network)
        if uses_word_dropout(settings, device):
            speed_up_dropout(network)
        self.network = place_network(network, settings, device)
        recipe.group.spread(self.network)
        self._called = recipe.group.wrap(self.network)
        self.optimizer = recipe.optimizer(self.network, rate=rate, options=optimizer_options(settings, device))
        self.network.train()
        if settings.precision == "bf16" and device.type == "cpu":
            avoid_weight_casts(self.network)
        self.scaler = torch.amp.GradScaler(device.type) if settings.precision == "fp16" else None
        self.is_eager = settings.execution == "eager"
        self.precision = settings.precision
        # A loss scaler leaves out steps in which a gradient overflows, an optimizer that takes a closure decides how
        # often it changes the weights, and a graph does not count its changes.
        self.counts_updates = self.scaler is None and not (recipe.needs_closure or settings.is_captured)
        self.take_late_step: Callable[[], LateStep | None] = lambda: None
        self._needs_closure = recipe.needs_closure
        if self._needs_closure:
            refuse_closure(settings)
        self._loss = recipe.loss_on(device)
        if self._is_single and isinstance(self._loss, OwnLoss):
            self._loss.narrow()
        self._compute = self._make_compute(recipe.split, settings, device, look)
        self.weigh: Weigh | None = None
        is_changed = self._is_single or settings.is_compiled or settings.precision in AUTOCAST
        self._is_plain = recipe.takes_pairs and not (is_changed or self._needs_closure or look)

    def __call__(self, batch: StepBatch) -> Tensor:
        """Run one step and return its loss, which stays on the device, as it was differentiated."""
        if self._needs_closure:
            return self._step_by_closure(batch)
        self.optimizer.zero_grad()
        loss = self._compute(batch)
        weighed = loss if self.weigh is None else self.weigh(loss)
        if self.scaler is None:
            weighed.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        else:
            self.scaler.scale(weighed).backward()  # type: ignore[no-untyped-call]
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss

    def held(self) -> Any:
        """Return all objects that a step changes; they are put back in place."""
        return self.network, self.optimizer, self.scaler, self._loss.given if isinstance(self._loss, OwnLoss) else None

    def hold(self, state: Any) -> None:
        """Take the same objects again, which are as they were."""

    def widen(self) -> None:
        """Compute in float64 from now on."""
        self.network.double()
        if isinstance(self._loss, OwnLoss):
            self._loss.widen()

    def _step_by_closure(self, batch: StepBatch) -> Tensor:
        losses: list[Tensor] = []

        def compute_again() -> Tensor:
            self.optimizer.zero_grad()
            loss = self._compute(batch, is_shown=not losses)
            losses.append(loss.detach())
            weighed = loss if self.weigh is None else self.weigh(loss)
            weighed.backward()  # type: ignore[no-untyped-call]
            return weighed

        self.optimizer.step(compute_again)  # type: ignore[arg-type]  # PyTorch's own take tensors
        return losses[0]

    def _make_compute(
        self, split: Split, settings: Settings, device: torch.device, look: LookAtStep | None
    ) -> Callable[..., Tensor]:
        """Return the function that computes the loss of a batch; with `is_shown=False`, `look` does not get it."""
        loss = self._loss
        is_single = self._is_single
        answer = forward_of(self._called, settings, device)

        def forward(inputs: Any, targets: Any) -> tuple[Tensor, Any]:
            outputs = answer(inputs)
            return loss(outputs, targets), None if look is None else outputs

        called = torch.compile(forward) if settings.is_compiled else forward

        def compute(batch: StepBatch, *, is_shown: bool = True) -> Tensor:
            inputs, targets = split(as_single(batch) if is_single else batch)
            value, outputs = called(inputs, targets)
            if look is not None and is_shown:
                # Outside the compiled code: a compiler may drop what is not returned.
                look(value.detach(), outputs, targets)
            return value

        return compute

    def as_timed(self) -> Callable[[StepBatch], Tensor]:
        """Return what does the same as a call, where nothing is weighed, in as few calls as a plain script.

        Next to a step of 0.2 ms each further function costs half a percent: its code is no longer in the processor's
        caches (docs/evidence.md).
        """
        if not self._is_plain:
            return self
        network = self._called
        optimizer = self.optimizer
        loss = self._loss
        given, check = (loss.given, loss.check) if isinstance(loss, OwnLoss) else (loss, None)
        assert given is not None  # else a batch of two would be all for the model

        def step(batch: StepBatch) -> Tensor:
            if type(batch) not in PAIRS or len(batch) != 2:
                return self(batch)
            inputs, targets = batch
            optimizer.zero_grad()
            lost: Tensor = given(network(inputs), targets)
            if check is not None and (type(lost) is not Tensor or lost.numel() != 1):
                check(lost)
            lost.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return lost

        return step


def refuse_closure(settings: Settings) -> None:
    """Refuse what cannot follow an optimizer that computes the loss several times a step."""
    if settings.precision == "fp16":
        raise LaneError("fp16: its optimizer computes the loss several times a step, and a loss scaler scales one",
                        "race it in fp32 or bf16")  # fmt: skip
    if settings.is_captured:
        raise LaneError(
            f"execution={settings.execution}: its optimizer reads the loss to decide how often to compute it",
            "use eager",
        )


def place_network(network: nn.Module, settings: Settings, device: torch.device) -> nn.Module:
    """Move a network to the device, with its weights in the lane's layout."""
    if settings.layout == "channels_last":
        return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return network.to(device)


def forward_of(network: nn.Module, settings: Settings, device: torch.device) -> Callable[[Any], Any]:
    """Return the network in the lane's precision, with answers in float32."""
    low = AUTOCAST.get(settings.precision)

    def answer(inputs: Any) -> Any:
        if low is None:
            return call(network, inputs)
        with torch.autocast(device.type, dtype=low):
            outputs = call(network, inputs)
        return as_float(outputs)

    return answer


def uses_word_dropout(settings: Settings, device: torch.device) -> bool:
    """Whether dropout is the fast one, which draws whole random words, and not PyTorch's."""
    return device.type == "cpu" and settings.value_of("dropout") == "fast"


def as_float(outputs: Any) -> Any:
    """Convert floating-point outputs to float32, so that losses are float32 at any precision of the network."""
    return mapped(outputs, lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)


def as_single(batch: StepBatch) -> StepBatch:
    """Convert float64 to float32, and nothing else."""
    return mapped(batch, lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor)


def optimizer_options(settings: Settings, device: torch.device) -> dict[str, Any]:
    options: dict[str, Any] = {"fused": True} if settings.optimizer == "fused" else {}
    if settings.is_captured and device.type == "cuda":
        options["capturable"] = True
    return options


def switch_off_dropout(network: nn.Module) -> None:
    """Set every dropout rate to 0, and keep batch norm in training mode: the proof excludes only random draws."""
    for module in network.modules():
        for name in ("p", "dropout"):
            if isinstance(getattr(module, name, None), float):
                with contextlib.suppress(AttributeError):
                    setattr(module, name, 0.0)


def avoid_weight_casts(network: nn.Module) -> None:
    """Make a processor's wide dense layers multiply in bf16 directly from their float32 weights.

    Autocast writes a bf16 copy of each weight in every step and casts its gradient back. If a layer has millions of
    weights and few rows pass through it, those copies are half of all memory traffic. oneDNN can read float32 and round
    while it reads: the same products in bf16 with float32 sums, without copies.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):
        return  # PyTorch before 2.9 has no such switch
    for module in network.modules():
        if type(module) is not nn.Linear:
            continue
        if module.weight.numel() >= WIDE_WEIGHTS and module.in_features <= MOST_INPUTS:
            module.forward = functools.partial(_multiply_uncast, module)  # type: ignore[method-assign]


def _multiply_uncast(layer: nn.Linear, inputs: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return nn.functional.linear(inputs.float(), layer.weight, layer.bias)


# Loss and correct answers: summed on the device while a network trains, and over test items.

NO_CLASSES = Missing("its outputs and targets are no classes")


class RunningScore:
    """Gets loss, outputs and targets of each step, and sums the losses and the correct answers.

    The sums are updated in place, so that a CUDA graph that was captured once keeps updating them.
    """

    def __init__(self, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self._lost = torch.zeros((), dtype=exact, device=device)
        self._right = torch.zeros((), dtype=torch.int64, device=device)
        self._whole = torch.zeros((), dtype=torch.int64, device=device)
        self._sums = (self._lost, self._right, self._whole)
        self._labels_an_item: int | None = None
        self._items = 0

    @torch.no_grad()
    def __call__(self, loss: Tensor, outputs: Any, targets: Any) -> None:
        self._lost.add_(loss, alpha=count_items(targets))
        if are_classes(outputs, targets):
            self._labels_an_item = math.prod(targets.shape[1:])
            right = outputs.argmax(-1) == targets
            self._right.add_(right.sum())
            if right.dim() > 1:
                self._whole.add_(right.flatten(1).all(1).sum())

    def note(self, targets: Any) -> None:
        """Count a batch's items on the host, without waiting for the device."""
        self._items += count_items(targets)

    def clear(self) -> None:
        for tensor in self._sums:
            tensor.zero_()
        self._items = 0

    def score(self) -> Score:
        """Return the means over all batches so far."""
        items = max(self._items, 1)
        lost, right, whole = (float(tensor.item()) for tensor in self._sums)
        loss: float | Missing = lost / items
        if not math.isfinite(lost):
            loss = Missing(f"the loss became {lost}")
        if self._labels_an_item is None:
            return Score(self._items, loss, NO_CLASSES, NO_CLASSES)
        several = self._labels_an_item > 1
        accuracy = right / (items * self._labels_an_item)
        return Score(self._items, loss, accuracy, whole / items if several else ONE_LABEL)


def are_classes(outputs: Any, targets: Any) -> bool:
    """Whether each target is the index of one output on the last axis."""
    if not (isinstance(outputs, Tensor) and isinstance(targets, Tensor)) or targets.is_floating_point():
        return False
    return outputs.dim() > 1 and outputs.shape[:-1] == targets.shape


def count_items(value: Any) -> int:
    """Return the length of the first axis, of the first tensor that has one; a value without axes is one item."""
    for tensor in tensors(value):
        if tensor.dim():
            return len(tensor)
    return 1


class TorchEvaluator:
    """Evaluates one network on the test items, at the lane's own precision. Arrays are read once, then kept."""

    def __init__(self, recipe: TorchRecipe, network: nn.Module, settings: Settings, device: torch.device) -> None:
        self._recipe = recipe
        self._network = network
        self._settings = settings
        self._device = device
        self._images = self._labels = torch.empty(0)
        self._asked = 0
        self._answer = forward_of(network, settings, device)

    def read(self, items: int) -> None:
        if not self._decodes and items > self._asked:
            found = self._built_in.test_items(items)
            self._images = torch.from_numpy(found.images)
            self._labels = torch.from_numpy(found.labels)
            self._asked = items

    def score(self, items: int) -> Score:
        account = RunningScore(self._device)
        with self._looking():
            for inputs, targets in self._batches(items):
                outputs = self._answer(inputs)
                account(self._recipe.loss(outputs, targets), outputs, targets)
                account.note(targets)
        return account.score()

    def predict(self, items: int) -> Predictions:
        predicted: list[tuple[int, ...]] = []
        truth: list[tuple[int, ...]] = []
        with self._looking():
            for inputs, targets in self._batches(items):
                outputs = self._answer(inputs)
                if not are_classes(outputs, targets):
                    return Predictions()
                predicted += _as_rows(outputs.argmax(-1))
                truth += _as_rows(targets)
        return Predictions(tuple(predicted), tuple(truth))

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Switch off what only training does, and switch it on again afterwards."""
        self._network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._network.train()

    def _batches(self, items: int) -> Iterator[StepBatch]:
        layout = torch.channels_last if self._settings.layout == "channels_last" else torch.contiguous_format
        give = self._decoded if self._decodes else self._kept
        for images, labels in give(items, self._settings.batch or self._built_in.workload.batch):
            placed = images.permute(0, 3, 1, 2).to(self._device)
            yield placed.contiguous(memory_format=layout), labels.to(self._device)

    def _kept(self, items: int, batch: int) -> Iterator[StepBatch]:
        self.read(items)
        for start in range(0, min(items, count_items(self._labels)), batch):
            end = min(start + batch, items)
            yield self._images[start:end], self._labels[start:end]

    def _decoded(self, items: int, batch: int) -> Iterator[StepBatch]:
        """Decode test images again for each evaluation: memory may be too small to hold them."""
        data = self._built_in.data
        assert data is not None
        for found in read_batches(self._built_in.workload, data, "test", items, batch):
            yield torch.from_numpy(found.images), torch.from_numpy(found.labels)

    @property
    def _decodes(self) -> bool:
        data = self._built_in.data
        return data is not None and data.layout != "archive"

    @property
    def _built_in(self) -> BuiltInRecipe:
        if isinstance(self._recipe, OwnRecipe):
            raise LaneError("a training of your own has no test items in this version")
        return self._recipe


def _as_rows(numbers: Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in numbers.reshape(len(numbers), -1).tolist()]
