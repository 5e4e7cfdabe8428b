"""One optimizer update in the lane's way: precision, execution, and how a gradient is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.model.lane import Settings

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
Weigh = Callable[[Tensor], Tensor]


class Stepper:
    """A network, its optimizer and the function that takes one batch through both.

    `weigh` turns the loss into what is differentiated; the timed training takes the loss itself.
    """

    def __init__(
        self,
        recipe: BuiltIn | Own,
        settings: Settings,
        device: torch.device,
        rate: float = 1.0,
        *,
        dropout: bool = True,
    ) -> None:
        network = recipe.network()
        if not dropout:
            switch_off_dropout(network)
        self.network = self._place(network, settings, device)
        self.optimizer = recipe.optimizer(self.network, rate=rate, options=optimizer_options(settings, device))
        self.network.train()
        self._scaler = torch.amp.GradScaler(device.type) if settings.precision == "fp16" else None
        self._forward = self._make_forward(recipe.loss, settings, device)
        self.weigh: Weigh | None = None

    def __call__(self, batch: Batch) -> Tensor:
        """Take one step and give its loss, still on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._forward(batch[0], batch[1])
        told = loss if self.weigh is None else self.weigh(loss)
        if self._scaler is None:
            told.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        else:
            self._scaler.scale(told).backward()  # type: ignore[no-untyped-call]
            self._scaler.step(self.optimizer)
            self._scaler.update()
        return loss.detach()

    def _place(self, network: nn.Module, settings: Settings, device: torch.device) -> nn.Module:
        if settings.layout == "channels_last":
            return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
        return network.to(device)

    def _make_forward(
        self, loss: Callable[..., Tensor], settings: Settings, device: torch.device
    ) -> Callable[[Any, Any], Tensor]:
        network, low = self.network, AUTOCAST.get(settings.precision)

        def forward(inputs: Any, targets: Any) -> Tensor:
            return loss(network(inputs), targets)

        def forward_low(inputs: Any, targets: Any) -> Tensor:
            with torch.autocast(device.type, dtype=low):
                outputs = network(inputs)
            return loss(as_float(outputs), targets)

        chosen = forward if low is None else forward_low
        return torch.compile(chosen) if settings.execution == "compile" else chosen


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


def set_precision(precision: str) -> None:
    """Say what float32 means: on NVIDIA GPUs PyTorch's convolutions would otherwise take TF32 unasked."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
