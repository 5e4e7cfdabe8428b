"""A user's step function, its state and its batches: from the same start for each run, on the order's device."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from laptime.backends.own import call_own, endless, length_of
from laptime.errors import TrainingError
from laptime.model.plan import HeatOrder

KEPT_BATCHES = 64


class HostKey:
    """A random key of JAX's, laid down on the host."""

    def __init__(self, key: Any) -> None:
        self._data, self._kind = np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)

    def lift(self) -> Any:
        return jax.random.wrap_key_data(jax.numpy.asarray(self._data), impl=self._kind)


class UserSteps:
    """What the user's function returned. Its step may use up the state that it is given: each run gets a fresh one."""

    def __init__(self, order: HeatOrder) -> None:
        subject = order.subject
        assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
        self.name, self.proof_steps = subject.name, order.proof.steps
        training = call_own(subject.file, subject.function)
        if training.step is None:
            raise TrainingError(
                f"{self.name}: gives a model, and JAX lanes take a step",
                "race it on torch or Keras lanes, or return laptime.Training(step=..., state=..., data=...)",
            )
        self._step, self._fence, self.data = training.step, training.fence, training.data
        self._start = jax.tree.map(_lay_down, training.state)
        self._written = jax.config.jax_default_matmul_precision
        self.steps_per_lap = training.steps_per_lap or length_of(training.data)

    def batches(self) -> Iterator[Any]:
        return endless(self.data, self.name)

    def items_per_step(self) -> int:
        sizes = (np.shape(leaf) for leaf in jax.tree.leaves(next(self.batches())))
        return next((int(shape[0]) for shape in sizes if shape), 1)

    def fresh_state(self, lift: Any = None) -> Any:
        """Give the state that the user's function gave, on the device."""
        state = jax.tree.map(_lift, self._start)
        return state if lift is None else jax.tree.map(lift, state)

    def take(self, state: Any, batch: Any) -> tuple[Any, Any]:
        told = self._step(state, batch)
        if not (isinstance(told, tuple) and len(told) == 2):
            raise TrainingError(f"{self.name}: step returned {type(told).__name__}, expected a pair (state, loss)")
        return told

    def fence(self, state: Any, loss: Any) -> None:
        if self._fence is not None:
            self._fence(state)
        jax.block_until_ready((state, loss))

    def restore_precision(self) -> None:
        """Take float32 products as the user's code has them; the proof has had them otherwise."""
        jax.config.update("jax_default_matmul_precision", self._written)

    def number(self, loss: Any) -> float:
        if np.size(loss) != 1:
            raise TrainingError(f"{self.name}: the loss has {np.size(loss)} numbers, expected one")
        return float(np.asarray(loss).reshape(()))


class Supply:
    """Batches as the user's data gives them; kept on the host, or on the device, where the lane says so."""

    def __init__(self, steps: UserSteps, kind: str) -> None:
        self._next = steps.batches().__next__
        if kind in {"cached", "resident"}:
            count = min(KEPT_BATCHES, steps.steps_per_lap or KEPT_BATCHES)
            kept = list(itertools.islice(steps.batches(), count))
            if kind == "resident":
                kept = [jax.tree.map(jax.device_put, batch) for batch in kept]
            self._next = itertools.cycle(kept).__next__

    def __call__(self) -> Any:
        return self._next()


class StepRunner:
    """The training, ready to be timed. JAX computes behind the host's back: only windows are, and no single steps."""

    ready_batches = 0
    holds = False
    stride = 1
    examiner = None

    def __init__(self, steps: UserSteps, supply: Supply) -> None:
        self._steps, self._supply = steps, supply
        self._state, self._loss = steps.fresh_state(), None

    def run(self, steps: int) -> None:
        take, supply = self._steps.take, self._supply
        for _ in range(steps):
            self._state, self._loss = take(self._state, supply())

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def fence(self) -> None:
        self._steps.fence(self._state, self._loss)

    def loss(self) -> float:
        return self._steps.number(self._loss)

    def repeat(self) -> None:
        """A batch costs the same each time."""

    def close(self) -> tuple[str, ...]:
        return ()


def _lay_down(leaf: Any) -> Any:
    """Bring an array to the host; what is no array (a number, a function of the model's) stays as it is."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return HostKey(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.array(leaf)


def _lift(leaf: Any) -> Any:
    if isinstance(leaf, HostKey):
        return leaf.lift()
    return jax.device_put(leaf) if isinstance(leaf, np.ndarray) else leaf
