"""First weights of a user's model, drawn by NumPy: Keras's engines would each draw others from the same seed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.initializers import random_initializers

Draws = npt.NDArray[np.float64]


@contextlib.contextmanager
def drawn_alike() -> Iterator[None]:
    """Have Keras's initializers draw the same numbers on every engine; the distributions are their own."""
    held = random_initializers.random
    random_initializers.random = HostDraws(held)
    try:
        yield
    finally:
        random_initializers.random = held


class HostDraws:
    """What Keras's initializers call, in NumPy; all else is the engine's."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def normal(
        self, shape: Sequence[int], mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
    ) -> Any:
        return _as_tensor(mean + stddev * _open(seed).standard_normal(tuple(shape)), dtype)

    def uniform(
        self, shape: Sequence[int], minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None
    ) -> Any:
        return _as_tensor(_open(seed).uniform(minval, maxval, tuple(shape)), dtype)

    def truncated_normal(
        self, shape: Sequence[int], mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
    ) -> Any:
        return _as_tensor(mean + stddev * _truncated(_open(seed), tuple(shape)), dtype)


def _open(seed: Any) -> np.random.Generator:
    """Take a number, or the next state of one of Keras's own generators."""
    if isinstance(seed, int):
        return np.random.default_rng(seed)
    state = keras.random.SeedGenerator(seed) if seed is None else seed
    return np.random.default_rng([int(each) for each in np.ravel(keras.ops.convert_to_numpy(state.next()))])


def _truncated(generator: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Draw again what lies beyond two standard deviations, as Keras's engines do."""
    drawn: Draws = np.asarray(generator.standard_normal(shape))
    while (beyond := np.abs(drawn) > 2).any():
        drawn[beyond] = generator.standard_normal(int(beyond.sum()))
    return drawn


def _as_tensor(drawn: Draws, dtype: Any) -> Any:
    kind = dtype or keras.config.floatx()
    return keras.ops.convert_to_tensor(drawn, dtype=kind)
