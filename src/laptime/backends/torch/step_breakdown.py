"""A PyTorch step in parts: fetch, copy, the rest; with its reads, its compilations and its denormal numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laptime.backends.torch.batches import leaves
from laptime.backends.torch.denormals import DenormalCount, count_held, flow_counted
from laptime.backends.torch.inputs import BatchSource
from laptime.backends.torch.stepping import Stepper
from laptime.backends.torch.sync_detector import SyncDetector, count_compiled
from laptime.model.missing import Missing
from laptime.model.symptoms import DenormalCensus, StepSymptoms

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
        counted = DenormalCount()
        reads = FUSED if not stepper.is_eager else self._watch(stepper, steps, counted)
        count_held(stepper.network, stepper.optimizer, counted, gradients=isinstance(reads, Missing))
        share, whose = DenormalCensus(counted.shares()).worst
        notes = {"denormals": f"of {whose}"} if share else {}
        told = replace(told, denormals=share, notes=notes)
        if isinstance(reads, Missing):
            return replace(told, reads=reads)
        return replace(told, reads=reads.total() / steps, sites=reads.sites(steps))

    def _watch(self, stepper: Stepper, steps: int, counted: DenormalCount) -> SyncDetector:
        """Count reads in each of these steps, and the denormal numbers that flow in the first."""
        reads = SyncDetector(self._device)
        for number in range(steps):
            batch = self.move(self.fetch())
            with reads, flow_counted(stepper.network, counted) if number == 0 else contextlib.nullcontext():
                self.compute(batch)
        return reads


def _is_here(leaf: Any) -> bool:
    return not isinstance(leaf, Tensor) or leaf.device.type == "cpu"
