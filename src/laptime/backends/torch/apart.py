"""A step of PyTorch's taken apart: fetch, copy, all else; and what is seen when one looks into it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laptime.backends.torch.denormals import Census, take_census
from laptime.backends.torch.inputs import Source
from laptime.backends.torch.looking import Reads, count_compiled
from laptime.backends.torch.stepping import Stepper
from laptime.model.missing import Missing
from laptime.model.signs import Signs

NOTHING = Missing("this lane has one stage alone, and computes nothing")
FUSED = Missing("a step that was compiled or captured is not looked into: its reads are its compiler's")


class TorchApart:
    """A training after its windows, one part after another."""

    stride = 1

    def __init__(
        self, source: Source, train: Callable[[Any], None], device: torch.device, stepper: Stepper | None
    ) -> None:
        self.fetch, self.move, self.compute = source.fetch, source.move, train
        self._device, self._stepper = device, stepper
        self._bytes = self._arrays = 0
        self._compiled = count_compiled()

    def describe(self, batch: Any) -> Hashable:
        leaves = list(_leaves(batch))
        away = [] if self._device.type == "cpu" else [each for each in leaves if _is_here(each)]
        self._bytes += sum(int(each.nbytes) for each in away)
        self._arrays += len(away)
        return tuple(tuple(each.shape) for each in leaves)

    def look(self, steps: int, timed: int) -> Signs:  # noqa: ARG002  what was copied was counted as it was
        """Reads first, by some steps more; then what these leave behind."""
        threads = torch.get_num_threads()
        told = Signs(0, copied_bytes=self._bytes, copied_arrays=float(self._arrays), threads=threads)
        if self._stepper is None:
            return replace(told, reads=NOTHING, compiles=NOTHING, denormals=NOTHING)
        told = self._read(self._stepper, steps, told)
        return replace(told, compiles=count_compiled() - self._compiled)

    def _read(self, stepper: Stepper, steps: int, told: Signs) -> Signs:
        census = Census()
        reads = FUSED if not stepper.is_eager else self._watch(stepper, steps, census)
        take_census(stepper.network, stepper.optimizer, census)
        share, whose = census.worst()
        notes = {"denormals": f"of {whose}"} if share else {}
        told = replace(told, denormals=share, notes=notes)
        if isinstance(reads, Missing):
            return replace(told, reads=reads)
        return replace(told, reads=reads.total() / steps, sites=reads.sites(steps))

    def _watch(self, stepper: Stepper, steps: int, census: Census) -> Reads:
        """Count reads in each of these steps, and what layers give in the first."""
        reads = Reads(self._device)
        for number in range(steps):
            batch = self.move(self.fetch())
            with reads, _outputs_counted(stepper.network, census) if number == 0 else contextlib.nullcontext():
                self.compute(batch)
        return reads


@contextlib.contextmanager
def _outputs_counted(network: torch.nn.Module, census: Census) -> Iterator[None]:
    """Count among what each layer gives, too."""

    def look(_module: Any, _inputs: Any, outputs: Any) -> None:
        census.take("activations", (each for each in _leaves(outputs) if isinstance(each, Tensor)))

    hooks = [each.register_forward_hook(look) for each in network.modules() if not any(each.children())]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Tensor | np.ndarray):
        yield batch
    elif isinstance(batch, dict):
        for each in batch.values():
            yield from _leaves(each)
    elif isinstance(batch, tuple | list):
        for each in batch:
            yield from _leaves(each)


def _is_here(leaf: Any) -> bool:
    return not isinstance(leaf, Tensor) or leaf.device.type == "cpu"
