"""The devices of a Keras lane: one, or several that share each step as Keras's own distribution has it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras

from laptime.backends.keras.engines import Engine
from laptime.errors import LaneError
from laptime.model.plan import PlannedLane

Batch = Sequence[Any]


class OneDevice:
    """The lane's device computes each step."""

    count = times = 1

    def __init__(self, lane: PlannedLane, engine: Engine) -> None:
        self._name = engine.name_device(lane.device.name)

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which Keras computes on the lane's devices; each thread must enter its own."""
        device: AbstractContextManager[Any] = keras.device(self._name)
        return device

    def take(self, model: Any, batch: Batch) -> dict[str, Any]:
        """Run one step of the proof on a batch."""
        told: dict[str, Any] = model.train_on_batch(*batch, return_dict=True)
        return told

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
        self._lane, self._shared = lane.name, engine.share_out([each.name for each in lane.devices])
        self.count, self.times = len(lane.devices), lane.batches_a_step

    def scope(self) -> AbstractContextManager[Any]:
        return self._shared.scope()

    def take(self, model: Any, batch: Batch) -> dict[str, Any]:
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
