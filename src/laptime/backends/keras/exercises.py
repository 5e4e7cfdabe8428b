"""TensorFlow's products, and its copy in a device's memory; those of Keras's other engines are in their own rooms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from laptime.backends.exercise import PRODUCT, Exercise, product_work
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.room import free_memory_bytes

TYPES = {"fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
ADDED = "added in place"


class TensorFlowExercises:
    products = (PRODUCT,)
    copies = (ADDED,)

    def __init__(self, device: Device) -> None:
        self.by = f"tensorflow {tf.__version__}"
        self._place = device.name.replace("cuda", "GPU")

    @property
    def free_bytes(self) -> int | Missing:
        return free_memory_bytes() if self._place == "cpu" else Missing("TensorFlow does not tell")

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is one
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        with tf.device(self._place):
            left, right = (tf.cast(tf.random.normal((rows, rows)), TYPES[precision]) for _ in range(2))
        return self._again(lambda: tf.linalg.matmul(left, right), product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        """Read two arrays and write one: TensorFlow's plain copies share memory, or take new memory each time."""
        with tf.device(self._place):
            added = tf.ones(size_bytes // 4, tf.float32)
            held = tf.Variable(added)
        return self._again(lambda: held.assign_add(added, read_value=False), 3.0 * 4 * (size_bytes // 4))

    def _again(self, compute: Callable[[], Any], work: float) -> Exercise:
        def once() -> Any:
            with tf.device(self._place):
                return compute()

        return Exercise(once, tf.test.experimental.sync_devices, work)
