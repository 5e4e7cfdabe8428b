"""A census of denormal numbers: in weights, gradients and moments, and in what flows through the layers, both ways.

It is taken in one step that is not timed. What flows backwards shows most: steps were ten times as slow where only 1 %
of the weights' gradients were denormal. It counts on any processor, also on one that computes denormals at full speed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.torch.batches import tensors
from laptime.model.symptoms import FLOW, GRADIENTS, OUTPUTS, STATISTICS, SUMS, WEIGHTS, DenormalCensus

SAMPLE = 1 << 16  # numbers of a tensor: a share of 0.1 % is then known to an eighth of it
# A number is denormal if all bits of its exponent are 0 and its fraction is not 0.
TORCH_FLOAT_BITS: dict[torch.dtype, tuple[torch.dtype, int, int]] = {
    torch.float32: (torch.int32, 0x7F800000, 0x007FFFFF),
    torch.float64: (torch.int64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    torch.bfloat16: (torch.int16, 0x7F80, 0x007F),
    torch.float16: (torch.int16, 0x7C00, 0x03FF),
}
TINY = torch.finfo(torch.float32).tiny
LAYERS_NOT_SEEN = "its step was compiled or captured: what flows between its layers was not seen"
NO_LAYERS = "it has no layers that are PyTorch's modules"


def count(values: Tensor) -> Tensor:
    """Count the denormal numbers by their bits: where they are flushed, a comparison also treats them as 0."""
    kind, exponent, fraction = TORCH_FLOAT_BITS[values.dtype]
    bits = values.view(kind)
    return ((bits & exponent == 0) & (bits & fraction != 0)).sum()


def sample(values: Tensor) -> Tensor:
    """Return up to `SAMPLE` evenly spaced numbers, in the order in which they are in memory, so that nothing is copied.

    The spacing shares no divisor with a dimension: else it might meet a single channel or column only.
    """
    values = values.detach()
    for place, stride in enumerate(values.stride()):
        if stride == 0 and values.shape[place]:
            values = values.narrow(place, 0, 1)  # an expanded dimension repeats the same numbers
    order = sorted(range(values.dim()), key=values.stride, reverse=True)
    flat = values.permute(order).reshape(-1)
    spacing = max(1, math.ceil(flat.numel() / SAMPLE))
    while any(math.gcd(spacing, size) > 1 for size in values.shape if size > 1) and spacing > 1:
        spacing += 1
    return flat[::spacing].contiguous()


class DenormalCount:
    """How many numbers of each kind are denormal, summed on their device."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[Tensor, float]]] = {}
        self._all: dict[str, int] = {}

    def take(self, kind: str, found: Iterable[Tensor]) -> None:
        for each in found:
            if each.dtype in TORCH_FLOAT_BITS and each.layout == torch.strided and each.numel():
                taken = sample(each)
                self._found.setdefault(kind, []).append((count(taken), each.numel() / taken.numel()))
                self._all[kind] = self._all.get(kind, 0) + each.numel()

    def shares(self) -> dict[str, float]:
        """Return the share of each kind, each tensor by its size."""
        return {
            kind: sum(int(number) * stands_for for number, stands_for in found) / self._all[kind]
            for kind, found in self._found.items()
        }


def take_census(stepper: Any, step: Callable[[], object]) -> DenormalCensus:
    """Count in one more step; a compiled or captured one is not taken, and what the last one left is counted."""
    counted = DenormalCount()
    has_layers = any(True for each in stepper.network.modules() if not any(each.children()))
    if stepper.is_eager:
        with flow_counted(stepper.network, counted):
            step()
    count_held(stepper.network, stepper.optimizer, counted, gradients=not stepper.is_eager)
    return DenormalCensus(
        counted.shares(),
        sorted_types(stepper.network),
        is_flushing(next((each.device.type for each in stepper.network.parameters()), "cpu")),
        (LAYERS_NOT_SEEN if not stepper.is_eager else None) if has_layers else NO_LAYERS,
    )


def sorted_types(network: nn.Module) -> tuple[str, ...]:
    return tuple(sorted({str(each.dtype).removeprefix("torch.") for each in network.parameters()}))


def is_flushing(device: str) -> bool:
    """Whether the thread that trains treats denormal numbers as 0; a card computes them at full speed."""
    return device == "cpu" and int(count(torch.full((1,), TINY) / 2)) == 0


def count_held(network: nn.Module, optimizer: Any, counted: DenormalCount, *, gradients: bool = True) -> None:
    """Count in everything that a step leaves behind."""
    weights = list(network.parameters())
    counted.take(WEIGHTS, weights)
    if gradients:
        counted.take(GRADIENTS, (each.grad for each in weights if each.grad is not None))
    counted.take(SUMS, _tensors(optimizer.state))
    counted.take(STATISTICS, network.buffers())


def _tensors(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        for each in held.values():
            yield from _tensors(each)


@contextlib.contextmanager
def flow_counted(network: nn.Module, counted: DenormalCount) -> Iterator[None]:
    """Count in the outputs of each layer, in the gradients that flow back to them, and in those of the weights.

    The hooks are on outputs and weights, not on modules: hooks of a module refuse outputs that the next layer changes
    in place. A weight's gradient is counted as soon as it is there: a training may clear it at the end of its step.
    """

    def look(_module: Any, _inputs: Any, outputs: Any) -> None:
        for each in tensors(outputs):
            counted.take(OUTPUTS, [each])
            if each.requires_grad and not each.is_leaf:  # a hook on a leaf would stay
                each.register_hook(lambda gradient: counted.take(FLOW, [gradient]))  # type: ignore[no-untyped-call]

    def look_at_gradient(weight: Tensor) -> None:
        if weight.grad is not None:
            counted.take(GRADIENTS, [weight.grad])

    hooks = [each.register_forward_hook(look) for each in network.modules() if not any(each.children())]
    hooks += [
        each.register_post_accumulate_grad_hook(look_at_gradient)  # type: ignore[no-untyped-call]
        for each in network.parameters()
        if each.requires_grad and each.is_leaf
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
