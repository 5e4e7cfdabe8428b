"""What Keras itself does not provide: how to wait for an engine's device, the list of devices, and peak memory."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from laptime.backends.base import Exercises, Profiler
from laptime.model.frameworks import find_framework
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.symptoms import DenormalCensus

FEATURES = ("bf16", "compile", "progress")
AMPERE = (8, 0)
LACKS = {"no fp16": "Keras scales the loss on its own there and leaves out steps, which no proof here allows for yet"}


class SharedSteps(Protocol):
    """How the devices of a group share each step."""

    several_at_once: bool
    """Whether Keras can give them several steps at once."""

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which Keras makes and trains a model on all of them; each thread must enter its own."""

    def take(self, model: Any, batch: Sequence[Any]) -> dict[str, Any]:
        """Take one step on a batch that is shared out as `fit` does it, and return what Keras says of it."""

    def problem(self, model: Any) -> str | None:
        """Return why they compute something else than one device, or None."""


class Engine(Protocol):
    """One of the frameworks that Keras computes with."""

    marks_are_steps: bool
    """Whether a batch is done when the host starts the next one; if not, only windows can be timed."""

    def versions(self) -> dict[str, str]:
        """Return the engine's version first, then the versions of its libraries."""

    def devices(self) -> tuple[Device, ...]:
        """Return every device that the engine sees."""

    def take_threads(self, threads: int) -> None:
        """Use this many threads; called before anything is computed."""

    def threads(self) -> int | Missing:
        """Return how many threads it computes with, or why that is not known."""

    def name_device(self, device: str) -> str:
        """Return Keras's name of a device, as `keras.device` takes it with this engine."""

    def share_out(self, devices: Sequence[str]) -> SharedSteps:
        """Have several devices share each step; called before anything is computed."""

    def set_precision(self, precision: str) -> None:
        """Set what float32 means from here on: by default, engines use TF32 on NVIDIA GPUs, in part or throughout."""

    def read_precision(self) -> Any:
        """Return what float32 means now, by the engine's default or as a user's code has set it."""

    def restore_precision(self, left: Any) -> None:
        """Restore what `read_precision` returned."""

    def await_model(self, model: Any) -> None:
        """Wait until all work started on this model is done."""

    def epochs(self, data: dict[str, Any], at_once: int) -> Any:
        """Return the iterator over epochs that `fit` would make from these arguments for its data."""

    def census(self, model: Any) -> DenormalCensus | Missing:
        """Count denormal numbers in a model and its optimizer, or return why they are not counted."""

    def flush_denormals(self) -> None:
        """Treat denormal numbers as 0 from here on. Only PyTorch needs this; the others do it by default."""

    def compiled(self) -> int | Missing:
        """Return how often it has compiled so far, or why that is not known."""

    def allow_float64(self) -> None:
        """Compute in float64 where Keras requests it."""

    def profiler(self, device: str, scratch: Path) -> Profiler | Missing:
        """Return the engine's own profiler, which may write into a folder, or why there is none."""

    def peak_bytes(self, device: str) -> int | Missing:
        """Return the most memory that the engine's allocator held on the device."""

    def exercises(self, device: Device) -> Exercises:
        """Prepare the device for measuring its limits."""


def card_features(capability: str) -> tuple[str, ...]:
    """Return the features of a card with a compute capability such as "9.0"; without a number, TF32 is left out."""
    numbers = tuple(int(each) for each in capability.split(".") if each.isdecimal())
    return (*FEATURES, "tf32") if numbers >= AMPERE else FEATURES


def processor(*more: str) -> Device:
    """Return the processor as TensorFlow and JAX support it, with the features that only one of them has."""
    return Device("cpu", "cpu", "the processor", usable=True, features=(*FEATURES, "malloc", *more), details=LACKS)


def open_engine(framework: str) -> Engine:
    """Choose Keras's engine before Keras is imported, and return our object for it."""
    name = find_framework(framework).engine.name
    os.environ["KERAS_BACKEND"] = name
    engine: Engine = importlib.import_module(f"laptime.backends.keras.on_{name}").open_engine()
    return engine
