"""One optimizer update in the lane's way: precision, execution, and how a gradient is taken."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.torch.dropout import quicken_dropout
from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.model.lane import Settings

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
Weigh = Callable[[Tensor], Tensor]
Look = Callable[[Tensor, Any, Any], None]
# Measured on two EPYC (Zen 5) cores: 3,072 x 3,000 gains an eighth of the step; with more inputs than this, oneDNN's
# rounding as it reads is slower than a copy (82,944 x 512: 150 ms a step for 108).
WIDE_WEIGHTS = 2_000_000
MOST_INPUTS = 8_192


class Stepper:
    """A network, its optimizer and the function that takes one batch through both.

    `weigh` turns the loss into what is differentiated; the timed training takes the loss itself. `look` is shown
    loss, outputs and targets of each step.
    """

    def __init__(
        self,
        recipe: BuiltIn | Own,
        settings: Settings,
        device: torch.device,
        rate: float = 1.0,
        *,
        dropout: bool = True,
        look: Look | None = None,
    ) -> None:
        network = recipe.network()
        if not dropout:
            switch_off_dropout(network)
        if draws_words(settings, device):
            quicken_dropout(network)
        self.network = place_network(network, settings, device)
        self.optimizer = recipe.optimizer(self.network, rate=rate, options=optimizer_options(settings, device))
        self.network.train()
        if settings.precision == "bf16" and device.type == "cpu":
            spare_wide_layers_the_casts(self.network)
        self.scaler = torch.amp.GradScaler(device.type) if settings.precision == "fp16" else None
        self.is_eager = settings.execution == "eager"
        self._forward = self._make_forward(recipe.loss, settings, device, look)
        self.weigh: Weigh | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """Take one step and give its loss, still on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._forward(batch[0], batch[1])
        told = loss if self.weigh is None else self.weigh(loss)
        if self.scaler is None:
            told.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        else:
            self.scaler.scale(told).backward()  # type: ignore[no-untyped-call]
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss.detach()

    def _make_forward(
        self, loss: Callable[..., Tensor], settings: Settings, device: torch.device, look: Look | None
    ) -> Callable[[Any, Any], Tensor]:
        network, low = self.network, AUTOCAST.get(settings.precision)
        finish = torch.compile if settings.execution == "compile" else _as_it_is

        def answer(inputs: Any) -> Any:
            if low is None:
                return network(inputs)
            with torch.autocast(device.type, dtype=low):
                outputs = network(inputs)
            return as_float(outputs)

        def forward(inputs: Any, targets: Any) -> Tensor:
            return loss(answer(inputs), targets)

        def forward_both(inputs: Any, targets: Any) -> tuple[Tensor, Any]:
            outputs = answer(inputs)
            return loss(outputs, targets), outputs

        return finish(forward) if look is None else _shown(finish(forward_both), look)


def place_network(network: nn.Module, settings: Settings, device: torch.device) -> nn.Module:
    """Bring a network to the device, its weights in the lane's layout."""
    if settings.layout == "channels_last":
        return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return network.to(device)


def _as_it_is(forward: Any) -> Any:
    return forward


def _shown(forward: Callable[[Any, Any], tuple[Tensor, Any]], look: Look) -> Callable[[Any, Any], Tensor]:
    """Show a step's figures outside of what is compiled: a compiler may drop what nobody returns."""

    def shown(inputs: Any, targets: Any) -> Tensor:
        loss, outputs = forward(inputs, targets)
        look(loss.detach(), outputs, targets)
        return loss

    return shown


def draws_words(settings: Settings, device: torch.device) -> bool:
    """A processor at its best draws its dropout quickly; as written it draws as PyTorch does."""
    return device.type == "cpu" and settings.preset != "as-written"


def as_float(outputs: Any) -> Any:
    """Take losses in float32, whatever the network computed in."""
    if isinstance(outputs, Tensor) and outputs.is_floating_point():
        return outputs.float()
    return outputs


def optimizer_options(settings: Settings, device: torch.device) -> dict[str, Any]:
    options: dict[str, Any] = {"fused": True} if settings.optimizer == "fused" else {}
    if settings.execution == "graph" and device.type == "cuda":
        options["capturable"] = True
    return options


def switch_off_dropout(network: nn.Module) -> None:
    """Set every dropout rate to nothing, and leave batch norm in training: the proof wants no chance, but all else."""
    for module in network.modules():
        for name in ("p", "dropout"):
            if isinstance(getattr(module, name, None), float):
                with contextlib.suppress(AttributeError):
                    setattr(module, name, 0.0)


def spare_wide_layers_the_casts(network: nn.Module) -> None:
    """Let a processor's wide dense layers multiply in bf16 on their float32 weights.

    Autocast writes a bf16 copy of each weight in every step and casts its gradient back; where a layer has millions
    of weights and few rows pass through it, those copies are half of all memory traffic. oneDNN can take float32
    and round as it reads: the same products in bf16 with float32 sums, and no copies.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):
        return  # PyTorch before 2.9 cannot be told so
    for module in network.modules():
        if type(module) is nn.Linear and _gains_without_casts(module):
            module.forward = functools.partial(_multiply_uncast, module)  # type: ignore[method-assign]


def _gains_without_casts(layer: nn.Linear) -> bool:
    return layer.weight.numel() >= WIDE_WEIGHTS and layer.in_features <= MOST_INPUTS


def _multiply_uncast(layer: nn.Linear, inputs: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return nn.functional.linear(inputs.float(), layer.weight, layer.bias)
