"""JAX: runs a user's own step function on the order's device. JAX has no training loop and no model of its own."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from laptime.backends.fingerprint import FloatArray, seed_globals
from laptime.backends.jax.devices import (
    JaxExercises,
    JaxProfiler,
    compile_counter,
    find_device,
    join,
    list_cards,
    list_versions,
    open_placement,
    open_profiler,
    peak_bytes,
    set_precision,
)
from laptime.backends.steps import (
    StepBackend,
    StepRunner,
    StepTraining,
    SupplyRunner,
    call_for_steps,
    compare_with_float64,
    count_items,
    join_batches,
    start_runner,
    supply_batches,
    take_steps,
)
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference


class JaxTraining(StepTraining):
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder) -> None:
        self._order = order
        self._steps = UserSteps(order)
        self.data = self._steps.own.data
        self.items_per_step = self._steps.items_per_step()
        self.steps_per_lap = self._steps.timed.steps_per_lap

    def prove(self, precision: str) -> ProofRun:
        return prove(self._steps, precision)

    def reference(self) -> Reference:
        return refer(self._steps)

    def start(self) -> StepRunner | SupplyRunner:
        self._steps.restore_precision()
        kind = self._order.lane.settings.input
        return start_runner(self._steps, kind, self._steps.supply(kind), self._steps.place, StepRunner)

    def profiler(self, scratch: Path) -> JaxProfiler | Missing:
        return open_profiler(self._order.lane.device.name, scratch)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted in PyTorch's own lanes only")

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._order.lane.device.name)


class JaxBackend(StepBackend):
    name = "jax"

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return (Device("cpu", "cpu", "the processor", usable=True, features=("malloc",)), *list_cards())

    def build(self, order: HeatOrder) -> JaxTraining:
        jax.config.update("jax_default_device", find_device(order.lane.device.name))
        return JaxTraining(order)

    def exercises(self, device: Device) -> JaxExercises:
        return JaxExercises(device)


def open_room(_framework: str = "jax") -> JaxBackend:
    return JaxBackend()


# A user's step in JAX: its state is kept on the host and put on the device for each run, since a step may consume it.
#
# The proof runs in true float32, and in float64 with the random numbers of float32.

NARROW_TYPES = {"float64": jnp.float32, "complex128": jnp.complex64, "int64": jnp.int32, "uint64": jnp.uint32}
# These have no parameter for the type in which they draw: it is the type of this argument.
BY_ARGUMENT = {"bernoulli": "p", "categorical": "logits"}
KEY_OPERATORS = {"bits", "key", "wrap_key_data"}


class HostKey:
    """A JAX random key, stored on the host."""

    def __init__(self, key: Any) -> None:
        self._data, self._kind = np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)

    def lift(self) -> Any:
        return jax.random.wrap_key_data(jax.numpy.asarray(self._data), impl=self._kind)


class UserSteps:
    """What the user's function returned, with its state on the host."""

    def __init__(self, order: HeatOrder) -> None:
        seed_globals(order.seed)
        self._placement = open_placement(order.lane)
        own, training = call_for_steps(order, "JAX")
        self.own = replace(own, step=self._placement.spread(own.step))
        self._times = order.lane.batches_a_step
        self.timed = join_batches(self.own, self._times, join)
        self._start = jax.tree.map(_lay_down, training.state)
        self._written = jax.config.jax_default_matmul_precision
        compile_counter()  # it counts from here on

    def items_per_step(self) -> int:
        """Return the items of a step, after the first batch; one that does not fit the lane's devices is refused."""
        first = next(self.own.batches())
        self._placement.check_items(count_items(self.leaves(first)))
        joined = join([first] * self._times) if self._times > 1 else first
        return count_items(self.leaves(joined))

    def place(self, batch: Any) -> Any:
        return self._placement.put_batch(batch)

    def leaves(self, batch: Any) -> list[Any]:
        leaves: list[Any] = jax.tree.leaves(batch)
        return leaves

    def await_batch(self, batch: Any) -> None:
        jax.block_until_ready(batch)

    def compiled(self) -> int:
        return compile_counter().times

    def fresh_state(self, *, wide: bool = False) -> Any:
        state = jax.tree.map(self._lift, self._start)
        return self.widen(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return jax.tree.map(_widen, batch)

    def floats(self, state: Any) -> list[FloatArray]:
        leaves = (leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array))
        return [np.array(leaf) for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]

    def number(self, loss: Any) -> float:
        return self.own.number(loss)

    def fence(self, state: Any, loss: Any) -> None:
        if self.own.fence is not None:
            self.own.fence(state)
        jax.block_until_ready((state, loss))

    def restore_precision(self) -> None:
        """Compute float32 products at the precision that the user's code set; the proof has changed it."""
        jax.config.update("jax_default_matmul_precision", self._written)

    def supply(self, kind: str) -> Callable[[], Any]:
        """Return a function that returns the next batch: of the user's data, or of some kept on host or device."""
        return supply_batches(self.timed, kind, self.place if kind in {"resident", "one"} else _leave)

    def _lift(self, leaf: Any) -> Any:
        if isinstance(leaf, HostKey):
            return self._placement.put_state(leaf.lift())
        return self._placement.put_state(leaf) if isinstance(leaf, np.ndarray) else leaf


def _leave(batch: Any) -> Any:
    return batch


def _lay_down(leaf: Any) -> Any:
    """Copy an array to the host; leave everything else, such as a number or a function of the model, as it is."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return HostKey(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.array(leaf)


def _widen(leaf: Any) -> Any:
    is_floats = isinstance(leaf, jax.Array | np.ndarray) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.numpy.asarray(leaf, np.float64) if is_floats else leaf


@contextlib.contextmanager
def draw_in_float32() -> Iterator[None]:
    """Make what a step calls as `jax.random.normal(...)` draw the same numbers as without 64 bits."""
    found = {
        name: each for name, each in vars(jax.random).items() if inspect.isfunction(each) and name not in KEY_OPERATORS
    }
    with contextlib.ExitStack() as undo:
        for name, each in found.items():
            if (other := _narrowed(name, each)) is not None:
                undo.callback(setattr, jax.random, name, each)
                setattr(jax.random, name, other)
        yield


def _narrowed(name: str, draw: Callable[..., Any]) -> Callable[..., Any] | None:
    told = inspect.signature(draw)
    argument = BY_ARGUMENT.get(name)
    if "dtype" not in told.parameters and argument not in told.parameters:
        return None

    @functools.wraps(draw)
    def drawn(*args: Any, **words: Any) -> Any:
        given = told.bind(*args, **words)
        given.apply_defaults()
        if argument is not None:
            given.arguments[argument] = _narrow(jnp.asarray(given.arguments[argument]))
            return draw(*given.args, **given.kwargs)
        wanted = jax.eval_shape(lambda: draw(*given.args, **given.kwargs)).dtype
        given.arguments["dtype"] = NARROW_TYPES.get(wanted.name, wanted)
        return draw(*given.args, **given.kwargs).astype(wanted)

    return drawn


def _narrow(value: Any) -> Any:
    return value.astype(NARROW_TYPES.get(value.dtype.name, value.dtype))


def prove(steps: UserSteps, precision: str, batches: list[Any] | None = None) -> ProofRun:
    """Run the proof's steps as the lane runs them, but without TF32."""
    set_precision(precision)
    return take_steps(steps, precision, batches)


def refer(steps: UserSteps) -> Reference:
    return compare_with_float64(steps, partial(prove, steps, "fp32"), partial(_take_in_float64, steps))


def _take_in_float64(steps: UserSteps, batches: list[Any]) -> ProofRun:
    jax.config.update("jax_enable_x64", True)
    with draw_in_float32():
        return take_steps(steps, "fp64", batches, wide=True)
