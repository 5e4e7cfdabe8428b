"""JAX's products, and its copy in a device's memory."""

from __future__ import annotations

from typing import Any

from laptime.backends.exercise import Exercise, copy_work, product_work
from laptime.backends.jax.devices import find_device, set_precision  # before JAX itself
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.room import free_memory_bytes

import jax  # isort: skip  devices.py says how much of a card it may take
import jax.numpy as jnp  # isort: skip

TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}
MATRICES = "product"


class JaxExercises:
    ways: tuple[str, ...] = (MATRICES,)

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

    def product(self, precision: str, rows: int, way: str) -> Exercise:  # noqa: ARG002  there is one
        set_precision(precision)
        keys = jax.random.split(jax.random.key(0))
        matrices = (jax.random.normal(key, (rows, rows)).astype(TYPES[precision]) for key in keys)
        left, right = (jax.device_put(each, self._device) for each in matrices)
        return _again(jax.jit(jnp.matmul), (left, right), product_work(rows))

    def copy(self, size_bytes: int) -> Exercise:
        """Turn every sign: XLA leaves a copy out, whose source nobody changes."""
        source = jax.device_put(jnp.ones(size_bytes // 4, jnp.float32, device=self._device), self._device)
        return _again(jax.jit(jnp.negative), (source,), copy_work(source.nbytes))


def _again(function: Any, given: tuple[Any, ...], work: float) -> Exercise:
    """JAX gives new arrays each time, of which the last is kept to wait for."""
    last: list[Any] = list(given)

    def once() -> None:
        last[:] = [function(*given)]

    return Exercise(once, lambda: jax.block_until_ready(last), work)
