"""Keras on TensorFlow on several devices: Keras makes and trains a model in the scope of a MirroredStrategy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from laptime.errors import LaneError

BY_PARTS = "its batch norm sees each device's part of a batch alone, and so computes something else than on one device"


class Mirrored:
    """A strategy with all weights on each device. The gradients of the parts of a batch are summed.

    By default, TensorFlow sums them by its collective operators, which fail in its loop over several steps (TensorFlow
    2.21). On a processor the first device sums them instead, which is as fast and has no such limit.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self.several_at_once = devices[0] == "cpu"
        if devices[0] == "cpu":
            _split_processor(len(devices))
            names = [f"CPU:{number}" for number in range(len(devices))]
            self._strategy = tf.distribute.MirroredStrategy(names, tf.distribute.ReductionToOneDevice())
        else:
            self._strategy = tf.distribute.MirroredStrategy([each.replace("cuda", "GPU") for each in devices])

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def take(self, model: Any, batch: Sequence[Any]) -> dict[str, Any]:
        """Call `fit` for one step: `train_on_batch` gives each device the whole batch."""
        x, y, weights = (*batch, None, None)[:3]
        items = int(np.shape(tf.nest.flatten(x)[0])[0])
        told = model.fit(x, y, sample_weight=weights, batch_size=items, shuffle=False, verbose=0)
        return {name: values[-1] for name, values in told.history.items()}

    def problem(self, model: Any) -> str | None:
        from keras.layers import BatchNormalization  # its engine is chosen by now

        flat = model._flatten_layers(recursive=True)  # noqa: SLF001  Keras has no public name for it
        alone = any(isinstance(each, BatchNormalization) and not each.synchronized for each in flat)
        return BY_PARTS if alone else None


def _split_processor(count: int) -> None:
    """Make several devices of the processor, which TensorFlow can do only before it has computed anything."""
    processor = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(processor) or ()) == count:
        return
    try:
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise LaneError(f"TensorFlow cannot make {count} devices of the processor: {error}") from error
