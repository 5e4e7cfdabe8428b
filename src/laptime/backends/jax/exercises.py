"""JAX's products, and its copy in a device's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from laptime.backends.exercise import IN_PLACE, PRODUCT, Exercise, copy_work, product_work
from laptime.backends.jax.devices import find_device, set_precision  # before JAX itself
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.room import free_memory_bytes

import jax  # isort: skip  devices.py says how much of a card it may take
import jax.numpy as jnp  # isort: skip

TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}


class JaxExercises:
    products = (PRODUCT,)
    copies = (IN_PLACE,)

    def __init__(self, device: Device) -> None:
        self.by = f"jax {jax.__version__}"
        self._device = find_device(device.name)

    @property
    def free_bytes(self) -> int | Missing:
        if self._device.platform == "cpu":
            return free_memory_bytes()
        told = self._device.memory_stats() or {}
        if "bytes_limit" not in told:
            return Missing("JAX does not tell")
        return int(told["bytes_limit"] - told.get("bytes_in_use", 0))

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is one
        """JAX gives a new matrix each time, of which the last is kept to wait for."""
        set_precision(precision)
        random = np.random.default_rng(0)
        drawn = (random.standard_normal((rows, rows), np.float32) for _ in range(2))
        left, right = (jax.device_put(each, self._device).astype(TYPES[precision]) for each in drawn)
        multiply = jax.jit(jnp.matmul)
        last = left

        def once() -> Any:
            nonlocal last
            last = multiply(left, right)
            return last

        return Exercise(once, lambda: jax.block_until_ready(last), product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        """Give the array away each time, so that what comes of it lies where it lay."""
        held = jax.device_put(jnp.ones(size_bytes // 4, jnp.float32, device=self._device), self._device)
        turn = jax.jit(jnp.negative, donate_argnums=0)

        def once() -> Any:
            nonlocal held
            held = turn(held)
            return held

        return Exercise(once, lambda: jax.block_until_ready(held), copy_work(held.nbytes))
