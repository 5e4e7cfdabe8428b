"""A user's state in JAX: kept on the host, laid onto the device for each run, as the step may use it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from laptime.backends.fingerprint import Array
from laptime.backends.jax.compiling import compiler
from laptime.backends.steps import call_for_steps, count_items, supply_batches
from laptime.model.plan import HeatOrder


class HostKey:
    """A random key of JAX's, laid down on the host."""

    def __init__(self, key: Any) -> None:
        self._data, self._kind = np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)

    def lift(self) -> Any:
        return jax.random.wrap_key_data(jax.numpy.asarray(self._data), impl=self._kind)


class UserSteps:
    """What the user's function returned, with its state on the host."""

    def __init__(self, order: HeatOrder) -> None:
        self.own, training = call_for_steps(order, "JAX")
        self._start = jax.tree.map(_lay_down, training.state)
        self._written = jax.config.jax_default_matmul_precision
        compiler()  # it counts from here on

    def items_per_step(self) -> int:
        return count_items(self.leaves(next(self.own.batches())))

    def leaves(self, batch: Any) -> list[Any]:
        leaves: list[Any] = jax.tree.leaves(batch)
        return leaves

    def await_batch(self, batch: Any) -> None:
        jax.block_until_ready(batch)

    def compiled(self) -> int:
        return compiler().times

    def fresh_state(self, *, wide: bool = False) -> Any:
        state = jax.tree.map(_lift, self._start)
        return self.widen(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return jax.tree.map(_widen, batch)

    def floats(self, state: Any) -> list[Array]:
        leaves = (leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array))
        return [np.array(leaf) for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]

    def number(self, loss: Any) -> float:
        return self.own.number(loss)

    def fence(self, state: Any, loss: Any) -> None:
        if self.own.fence is not None:
            self.own.fence(state)
        jax.block_until_ready((state, loss))

    def restore_precision(self) -> None:
        """Take float32 products as the user's code has them; the proof has had them otherwise."""
        jax.config.update("jax_default_matmul_precision", self._written)

    def supply(self, kind: str) -> Callable[[], Any]:
        """Give batches from the user's data; kept on the host, or on the device, where the lane says so."""
        return supply_batches(self.own, kind, place if kind in {"resident", "one"} else _leave)


def place(batch: Any) -> Any:
    return jax.tree.map(jax.device_put, batch)


def _leave(batch: Any) -> Any:
    return batch


def _lay_down(leaf: Any) -> Any:
    """Bring an array to the host; what is no array (a number, a function of the model's) stays as it is."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return HostKey(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.array(leaf)


def _lift(leaf: Any) -> Any:
    if isinstance(leaf, HostKey):
        return leaf.lift()
    return jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf


def _widen(leaf: Any) -> Any:
    is_floats = isinstance(leaf, jax.Array | np.ndarray) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.numpy.asarray(leaf, np.float64) if is_floats else leaf
