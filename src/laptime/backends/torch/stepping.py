"""One optimizer update as the lane says: its precision, its execution, and its gradient."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.torch.batches import mapped
from laptime.backends.torch.calling import OwnLoss, call
from laptime.backends.torch.networks import speed_up_dropout
from laptime.backends.torch.recipe import Batch, TorchRecipe
from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.sample import LateStep

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
Weigh = Callable[[Tensor], Tensor]
Look = Callable[[Tensor, Any, Any], None]
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
        look: Look | None = None,
    ) -> None:
        network = recipe.network()
        if settings.value_of("numbers") == "single":
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
        self._is_single = settings.value_of("numbers") == "single"
        if settings.precision == "bf16" and device.type == "cpu":
            avoid_weight_casts(self.network)
        self.scaler = torch.amp.GradScaler(device.type) if settings.precision == "fp16" else None
        self.is_eager = settings.execution == "eager"
        # A loss scaler leaves out steps in which a gradient overflows, an optimizer that takes a closure decides how
        # often it changes the weights, and a graph does not count its changes.
        self.counts_updates = self.scaler is None and not (recipe.needs_closure or settings.is_captured)
        self.take_late_step: Callable[[], LateStep | None] = lambda: None
        self._needs_closure, self._split, self._look = recipe.needs_closure, recipe.split, look
        if self._needs_closure:
            refuse_closure(settings)
        self._loss = recipe.loss_on(device)
        if self._is_single and isinstance(self._loss, OwnLoss):
            self._loss.narrow()
        self._forward = self._make_forward(settings, device)
        self.weigh: Weigh | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """Run one step and return its loss, which stays on the device, as it was differentiated."""
        if self._needs_closure:
            return self._step_by_closure(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._compute(batch)
        told = loss if self.weigh is None else self.weigh(loss)
        if self.scaler is None:
            told.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        else:
            self.scaler.scale(told).backward()  # type: ignore[no-untyped-call]
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss

    def widen(self) -> None:
        """Compute in float64 from now on."""
        self.network.double()
        if isinstance(self._loss, OwnLoss):
            self._loss.widen()

    def _step_by_closure(self, batch: Batch) -> Tensor:
        losses: list[Tensor] = []

        def compute_again() -> Tensor:
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._compute(batch, is_shown=not losses)
            losses.append(loss.detach())
            told = loss if self.weigh is None else self.weigh(loss)
            told.backward()  # type: ignore[no-untyped-call]
            return told

        self.optimizer.step(compute_again)  # type: ignore[arg-type]  # PyTorch's own take tensors
        return losses[0]

    def _compute(self, batch: Batch, *, is_shown: bool = True) -> Tensor:
        inputs, targets = self._split(as_single(batch) if self._is_single else batch)
        loss, outputs = self._forward(inputs, targets)
        if self._look is not None and is_shown:
            # Outside the compiled code: a compiler may drop what is not returned.
            self._look(loss.detach(), outputs, targets)
        return loss

    def _make_forward(self, settings: Settings, device: torch.device) -> Callable[[Any, Any], tuple[Tensor, Any]]:
        network, loss, keeps = self._called, self._loss, self._look is not None
        answer = forward_of(network, settings, device)

        def forward(inputs: Any, targets: Any) -> tuple[Tensor, Any]:
            outputs = answer(inputs)
            return loss(outputs, targets), outputs if keeps else None

        def forward_plainly(inputs: Any, targets: Any) -> tuple[Tensor, Any]:
            """Do the same with fewer calls: next to a step of 0.1 ms each of them is seen."""
            return loss(call(network, inputs), targets), None

        if settings.is_compiled:
            return torch.compile(forward)
        return forward if keeps or settings.precision in AUTOCAST else forward_plainly


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
    return mapped(outputs, lambda each: each.float() if each.is_floating_point() else each)


def as_single(batch: Batch) -> Batch:
    """Convert float64 to float32, and nothing else."""
    return mapped(batch, lambda each: each.float() if each.dtype == torch.float64 else each)


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
        if type(module) is nn.Linear and _gains_without_casts(module):
            module.forward = functools.partial(_multiply_uncast, module)  # type: ignore[method-assign]


def _gains_without_casts(layer: nn.Linear) -> bool:
    return layer.weight.numel() >= WIDE_WEIGHTS and layer.in_features <= MOST_INPUTS


def _multiply_uncast(layer: nn.Linear, inputs: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return nn.functional.linear(inputs.float(), layer.weight, layer.bias)
