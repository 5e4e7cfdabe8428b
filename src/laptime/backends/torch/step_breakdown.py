"""A PyTorch step in parts: fetch, copy, the rest; with its reads, its compilations and its denormal numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laptime.backends.torch.batches import leaves, tensors
from laptime.backends.torch.inputs import BatchSource
from laptime.backends.torch.stepping import Stepper
from laptime.backends.torch.sync_detector import SyncDetector, count_compiled
from laptime.model.missing import Missing
from laptime.model.symptoms import StepSymptoms

CHUNK = 1 << 22
# A number is denormal if all bits of its exponent are 0 and its fraction is not 0.
BITS: dict[torch.dtype, tuple[torch.dtype, int, int]] = {
    torch.float32: (torch.int32, 0x7F800000, 0x007FFFFF),
    torch.float64: (torch.int64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    torch.bfloat16: (torch.int16, 0x7F80, 0x007F),
    torch.float16: (torch.int16, 0x7C00, 0x03FF),
}
NOTHING = Missing("this lane has one stage alone, and computes nothing")
FUSED = Missing("a step that was compiled or captured is not looked into: its reads are its compiler's")


class TorchStepParts:
    """A training after its windows, run part by part."""

    stride = 1

    def __init__(
        self, source: BatchSource, train: Callable[[Any], None], device: torch.device, stepper: Stepper | None
    ) -> None:
        self.fetch, self.move, self.compute = source.fetch, source.move, train
        self._device, self._stepper = device, stepper
        self._bytes = self._arrays = 0
        self._compiled = count_compiled()

    def describe(self, batch: Any) -> Hashable:
        arrays = [each for each in leaves(batch) if isinstance(each, Tensor | np.ndarray)]
        away = [] if self._device.type == "cpu" else [each for each in arrays if _is_here(each)]
        self._bytes += sum(int(each.nbytes) for each in away)
        self._arrays += len(away)
        return tuple(tuple(each.shape) for each in arrays)

    def look(self, steps: int, timed: int) -> StepSymptoms:  # noqa: ARG002  copies were counted in `describe`
        """Count reads in some more steps first; then inspect what these steps leave behind."""
        threads = torch.get_num_threads()
        told = StepSymptoms(0, copied_bytes=self._bytes, copied_arrays=float(self._arrays), threads=threads)
        if self._stepper is None:
            return replace(told, reads=NOTHING, compiles=NOTHING, denormals=NOTHING)
        told = self._read(self._stepper, steps, told)
        return replace(told, compiles=count_compiled() - self._compiled)

    def _read(self, stepper: Stepper, steps: int, told: StepSymptoms) -> StepSymptoms:
        census = DenormalCount()
        reads = FUSED if not stepper.is_eager else self._watch(stepper, steps, census)
        count_denormals(stepper.network, stepper.optimizer, census)
        share, whose = census.worst()
        notes = {"denormals": f"of {whose}"} if share else {}
        told = replace(told, denormals=share, notes=notes)
        if isinstance(reads, Missing):
            return replace(told, reads=reads)
        return replace(told, reads=reads.total() / steps, sites=reads.sites(steps))

    def _watch(self, stepper: Stepper, steps: int, census: DenormalCount) -> SyncDetector:
        """Count reads in each of these steps, and the denormal layer outputs of the first."""
        reads = SyncDetector(self._device)
        for number in range(steps):
            batch = self.move(self.fetch())
            with reads, _outputs_counted(stepper.network, census) if number == 0 else contextlib.nullcontext():
                self.compute(batch)
        return reads


def count(values: Tensor) -> Tensor:
    """Count the denormal numbers by their bits: where they are flushed, a comparison also treats them as 0.

    The count works on one part at a time, so that it does not set the training's peak memory.
    """
    kind, exponent, fraction = BITS[values.dtype]
    bits = _in_a_row(values.detach()).view(kind)
    found = torch.zeros((), dtype=torch.int64, device=values.device)
    for start in range(0, bits.numel(), CHUNK):
        part = bits[start : start + CHUNK]
        found += ((part & exponent == 0) & (part & fraction != 0)).sum()
    return found


def _in_a_row(values: Tensor) -> Tensor:
    if values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last):
        values = values.permute(0, 2, 3, 1)
    return values.reshape(-1)


class DenormalCount:
    """How many numbers of each kind are denormal, summed on their device."""

    def __init__(self) -> None:
        self._found: dict[str, list[Tensor]] = {}
        self._all: dict[str, int] = {}

    def take(self, kind: str, tensors: Iterable[Tensor]) -> None:
        for each in tensors:
            if each.dtype in BITS and each.layout == torch.strided and each.numel():
                self._found.setdefault(kind, []).append(count(each))
                self._all[kind] = self._all.get(kind, 0) + each.numel()

    def worst(self) -> tuple[float, str]:
        """Return the largest share of all kinds, and the name of that kind."""
        shares = {kind: sum(int(each) for each in found) / self._all[kind] for kind, found in self._found.items()}
        kind = max(shares, key=lambda each: shares[each], default="")
        return shares.get(kind, 0.0), kind


def count_denormals(network: nn.Module, optimizer: torch.optim.Optimizer, census: DenormalCount) -> None:
    """Count denormal numbers in everything that a step leaves behind."""
    weights = list(network.parameters())
    census.take("weights", weights)
    census.take("gradients", (each.grad for each in weights if each.grad is not None))
    census.take("the optimizer's sums", _tensors(optimizer.state))
    census.take("running statistics", network.buffers())


def _tensors(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        for each in held.values():
            yield from _tensors(each)


@contextlib.contextmanager
def _outputs_counted(network: torch.nn.Module, census: DenormalCount) -> Iterator[None]:
    """Count denormal numbers in the outputs of each layer, too."""

    def look(_module: Any, _inputs: Any, outputs: Any) -> None:
        census.take("activations", tensors(outputs))

    hooks = [each.register_forward_hook(look) for each in network.modules() if not any(each.children())]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _is_here(leaf: Any) -> bool:
    return not isinstance(leaf, Tensor) or leaf.device.type == "cpu"
