"""PyTorch as Keras's engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from laptime.engine.backends.keras.engines import LACKS, SharedSteps
from laptime.engine.backends.torch.devices import (
    Switches,
    TorchExercises,
    flush_denormals,
    list_devices,
    list_versions,
    peak_bytes,
    read_switches,
    set_precision,
    set_switches,
)
from laptime.engine.backends.torch.profiling import TorchProfiler
from laptime.engine.backends.torch.symptoms import DenormalCount, count_compiled, is_flushing
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.quantities import Missing
from laptime.model.symptoms import GRADIENTS, SUMS, WEIGHTS, DenormalCensus

# Settings of our own loop that Keras's does not have.
BETWEEN_LAYERS = "Keras's layers have no hooks: what flows between them was not seen"
SETTINGS_NOT_HERE = ("channels_last", "fused", "graph", "compiled_graph", "fp16")


class TorchEngine:
    marks_are_steps = True

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return tuple(
            replace(
                device,
                features=tuple(word for word in device.features if word not in SETTINGS_NOT_HERE),
                details={**device.details, **LACKS},
            )
            for device in list_devices()
        )

    def take_threads(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def threads(self) -> int:
        return torch.get_num_threads()

    def name_device(self, device: str) -> str:
        """Return PyTorch's own name: with "cpu:0", Keras would treat "cpu" as another device and lose gradients."""
        return device

    def share_out(self, _devices: Sequence[str]) -> SharedSteps:
        raise LaneError("Keras on PyTorch trains on one device", "name torch, keras-jax or keras-tf")

    def set_precision(self, precision: str) -> None:
        set_precision("tf32" if precision == "tf32" else "fp32")  # Keras itself handles bf16

    def read_precision(self) -> Switches:
        return read_switches()

    def restore_precision(self, left: Switches) -> None:
        set_switches(left)

    def await_model(self, model: Any) -> None:
        device = next((variable.value.device for variable in model.variables), torch.device("cpu"))
        module: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)
        if device.type == "mps":
            torch.mps.synchronize()
        elif module is not None:
            module.synchronize(device)

    def epochs(self, data: dict[str, Any], at_once: int) -> Any:
        from keras.src.backend.torch.trainer import TorchEpochIterator

        return TorchEpochIterator(**data, steps_per_execution=at_once)

    def census(self, model: Any) -> DenormalCensus:
        """Count in what a step leaves behind: Keras's layers have no hooks for what flows between them."""
        counted = DenormalCount()
        weights = [variable.value for variable in model.trainable_variables]
        counted.take(WEIGHTS, weights)
        counted.take(GRADIENTS, (weight.grad for weight in weights if weight.grad is not None))
        counted.take(SUMS, (variable.value for variable in model.optimizer.variables))
        types = sorted({str(weight.dtype).removeprefix("torch.") for weight in weights})
        flushed = is_flushing(next((weight.device.type for weight in weights), "cpu"))
        return DenormalCensus(counted.shares(), tuple(types), flushed, BETWEEN_LAYERS)

    def flush_denormals(self) -> None:
        flush_denormals()

    def compiled(self) -> int:
        return count_compiled()

    def allow_float64(self) -> None:
        """Do nothing: PyTorch does so by default."""

    def profiler(self, device: str, _scratch: Path) -> TorchProfiler:
        return TorchProfiler(torch.device(device))

    def peak_bytes(self, device: str) -> int | Missing:
        return peak_bytes(torch.device(device))

    def exercises(self, device: Device) -> TorchExercises:
        return TorchExercises(device)


def open_engine() -> TorchEngine:
    return TorchEngine()
