"""What Keras itself does not tell: how an engine's device is awaited, what there is, and what its memory held."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Protocol

from laptime.backends.base import Profiler
from laptime.backends.exercise import Exercises
from laptime.model.machine import Device
from laptime.model.missing import Missing

FEATURES = ("bf16", "compile")
AMPERE = (8, 0)
LACKS = {"no fp16": "Keras scales the loss by itself there and leaves out steps, which no proof here allows for yet"}
MODULES = {
    "keras-tf": ("tensorflow", "laptime.backends.keras.on_tensorflow"),
    "keras-jax": ("jax", "laptime.backends.keras.on_jax"),
    "keras-torch": ("torch", "laptime.backends.keras.on_torch"),
}


class Engine(Protocol):
    """One of the frameworks that Keras computes with."""

    marks_are_steps: bool
    """Whether the host, between two batches, has seen the first of them done; else only windows can be timed."""

    def versions(self) -> dict[str, str]:
        """Give the engine's version first, then those of what it stands on."""

    def devices(self) -> tuple[Device, ...]:
        """Give every device that the engine sees."""

    def take_threads(self, threads: int) -> None:
        """Keep to so many threads; called before anything is computed."""

    def threads(self) -> int | Missing:
        """Give how many it computes with, or why that is not known."""

    def name_device(self, device: str) -> str:
        """Give Keras's name of a device, as its `device` takes it with this engine."""

    def set_precision(self, precision: str) -> None:
        """Say what float32 means from here on: engines take TF32 unasked on NVIDIA GPUs, in part or throughout."""

    def read_precision(self) -> Any:
        """Tell what float32 means now, as the engine has it unasked or as a user's code has set it."""

    def restore_precision(self, left: Any) -> None:
        """Have it mean what it did."""

    def await_model(self, model: Any) -> None:
        """Wait until all that was started on this model is done."""

    def epochs(self, data: dict[str, Any], at_once: int) -> Any:
        """Give what `fit` would walk through, epoch after epoch, from what it is told of its data."""

    def flush_denormals(self) -> None:
        """Take denormal numbers for nought from here on; asked of PyTorch alone, the others do so unasked."""

    def compiled(self) -> int | Missing:
        """Give how often it has compiled so far, or why that is not known."""

    def allow_float64(self) -> None:
        """Compute in float64 where Keras asks for it."""

    def profiler(self, device: str, scratch: Path) -> Profiler | Missing:
        """Give the engine's own profiler, which may write into a folder, or why there is none."""

    def peak_bytes(self, device: str) -> int | Missing:
        """Give the most that the engine's allocator held on the device."""

    def exercises(self, device: Device) -> Exercises:
        """Make the device ready to show what it can do at most."""


def card_features(capability: str) -> tuple[str, ...]:
    """Give what a card of this compute capability, such as "9.0", can do; a word that is no number has no TF32."""
    numbers = tuple(int(each) for each in capability.split(".") if each.isdecimal())
    return (*FEATURES, "tf32") if numbers >= AMPERE else FEATURES


def processor() -> Device:
    """Give the processor as TensorFlow and JAX have it."""
    return Device("cpu", "cpu", "the processor", usable=True, features=(*FEATURES, "malloc"), details=LACKS)


def open_engine(framework: str) -> Engine:
    """Choose Keras's engine, before Keras is imported, and give what knows it."""
    backend, room = MODULES[framework]
    os.environ["KERAS_BACKEND"] = backend
    engine: Engine = importlib.import_module(room).open_engine()
    return engine
