"""TensorFlow's products, and its copy in a device's memory; those of Keras's other engines are in their own rooms."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from laptime.backends.exercise import Exercise, copy_work, product_work
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.room import free_memory_bytes

TYPES = {"fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
MATRICES = "product"


class TensorFlowExercises:
    ways: tuple[str, ...] = (MATRICES,)

    def __init__(self, device: Device) -> None:
        self.by = f"tensorflow {tf.__version__}"
        self._place = device.name.replace("cuda", "GPU")

    @property
    def free_bytes(self) -> int | Missing:
        return free_memory_bytes() if self._place == "cpu" else Missing("TensorFlow does not tell")

    def product(self, precision: str, rows: int, way: str) -> Exercise:  # noqa: ARG002  there is one
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        with tf.device(self._place):
            left, right = (tf.cast(tf.random.normal((rows, rows)), TYPES[precision]) for _ in range(2))
        return self._again(lambda: tf.linalg.matmul(left, right), product_work(rows))

    def copy(self, size_bytes: int) -> Exercise:
        """Turn every sign: TensorFlow's own copies share the memory of what nobody changes."""
        with tf.device(self._place):
            source = tf.ones(size_bytes // 4, tf.float32)
        return self._again(lambda: tf.negative(source), copy_work(4 * (size_bytes // 4)))

    def _again(self, compute: Any, work: float) -> Exercise:
        def once() -> None:
            with tf.device(self._place):
                compute()

        return Exercise(once, tf.test.experimental.sync_devices, work)
