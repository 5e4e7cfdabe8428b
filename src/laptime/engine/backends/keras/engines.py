"""What Keras itself does not provide: how to wait for an engine's device, the list of devices, and peak memory."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from laptime.engine.backends.base import Exercises, Profiler
from laptime.engine.backends.cuda import AMPERE
from laptime.model.errors import LaneError
from laptime.model.frameworks import find_framework
from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.quantities import Missing
from laptime.model.symptoms import DenormalCensus

ENGINE_FEATURES = ("bf16", "compile")
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
    numbers = tuple(int(number) for number in capability.split(".") if number.isdecimal())
    return (*ENGINE_FEATURES, "tf32") if numbers >= AMPERE else ENGINE_FEATURES


def processor() -> Device:
    """Return the processor as TensorFlow and JAX support it."""
    return Device("cpu", "cpu", "the processor", usable=True, features=(*ENGINE_FEATURES, "malloc"), details=LACKS)


def open_engine(framework: str) -> Engine:
    """Choose Keras's engine before Keras is imported, and return our object for it."""
    name = find_framework(framework).engine.name
    os.environ["KERAS_BACKEND"] = name
    engine: Engine = importlib.import_module(f"laptime.engine.backends.keras.on_{name}").open_engine()
    import keras  # not before: it reads the variable once, and its engine what the line above has set

    if keras.backend.backend() != name:
        raise LaneError(
            f"{framework}: Keras was imported before its engine was chosen, and computes with {keras.backend.backend()}"
        )
    return engine


# The one thread in which a process uses Keras.
#
# It does all computing: building, proof, `fit` and test items. `fit` cannot run in the heat's own thread, which
# times it. With PyTorch, each computing thread gets its own OpenMP helpers. With two sets of helpers on one processor,
# both are slow to wake: when the proof ran in another thread than `fit`, a step took 30 % longer than in a script.
# Keras, too, keeps its settings per thread.

T = TypeVar("T")


class KerasThread:
    """Runs one task after another in one thread.

    It is a daemon thread, so a call of `fit` that was not ended does not keep the process alive, as it would in a pool
    of the standard library.
    """

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        Thread(target=self._run, name="keras", daemon=True).start()
        self._end_the_last: Callable[[], None] | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Run a task and wait for it; end a call of `fit` first if one holds the thread."""
        self._free()
        return self._ask(work).result()

    def begin(self, work: Callable[[], None], end: Callable[[], None]) -> Future[None]:
        """Start a task that will hold the thread until `end` is called."""
        self._free()
        self._end_the_last = end
        return self._ask(work)

    def _ask(self, work: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()
        self._asked.put((work, answer))
        return answer

    def _run(self) -> None:
        while True:
            work, answer = self._asked.get()
            try:
                answer.set_result(work())
            except BaseException as error:  # noqa: BLE001  its caller raises it
                answer.set_exception(error)

    def _free(self) -> None:
        end = self._end_the_last
        self._end_the_last = None
        if end is not None:
            end()


# The devices of a Keras lane: one, or several that share each step as Keras's own distribution has it.

SharedBatch = Sequence[Any]


class OneDevice:
    """The lane's device computes each step."""

    count = times = 1

    def __init__(self, lane: PlannedLane, engine: Engine) -> None:
        self._name = engine.name_device(lane.device.name)

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which Keras computes on the lane's devices; each thread must enter its own."""
        import keras  # its engine is chosen by now

        device: AbstractContextManager[Any] = keras.device(self._name)
        return device

    def take(self, model: Any, batch: SharedBatch) -> dict[str, Any]:
        """Run one step of the proof on a batch."""
        means: dict[str, Any] = model.train_on_batch(*batch, return_dict=True)
        return means

    def check_items(self, items: int) -> None:
        """Refuse a batch of this many items, if the devices cannot share it."""

    def check_at_once(self, steps: int) -> None:
        """Refuse this many steps at once, if the devices cannot take them."""

    def problem(self, model: Any) -> str | None:  # noqa: ARG002  it depends on the model where there are several
        """Return why the devices compute something else than one device, or None."""
        return None


class SeveralDevices(OneDevice):
    """Several devices share each batch; `times` is how many batches, as they are written, make one step."""

    def __init__(self, lane: PlannedLane, engine: Engine) -> None:
        self._lane = lane.name
        self._shared = engine.share_out([device.name for device in lane.devices])
        self.count = len(lane.devices)
        self.times = lane.batches_a_step

    def scope(self) -> AbstractContextManager[Any]:
        return self._shared.scope()

    def take(self, model: Any, batch: SharedBatch) -> dict[str, Any]:
        return self._shared.take(model, batch)

    def check_items(self, items: int) -> None:
        if items % self.count:
            raise LaneError(
                f"{self._lane}: a batch of {items} cannot be shared out to {self.count} devices",
                "give batches whose length is a multiple of their number, the last of the data too",
            )

    def check_at_once(self, steps: int) -> None:
        if steps > 1 and not self._shared.several_at_once:
            raise LaneError(
                f"{self._lane}: it takes {steps} steps at once, expected 1 where TensorFlow shares a step out",
                "compile it with steps_per_execution=1 for this lane, or race keras-jax",
            )

    def problem(self, model: Any) -> str | None:
        return self._shared.problem(model) if self.count > 1 else None


def open_devices(lane: PlannedLane, engine: Engine) -> OneDevice:
    """Return the lane's devices. Called before anything is computed: an engine may have to be told of them."""
    return SeveralDevices(lane, engine) if lane.devices else OneDevice(lane, engine)
