"""A user's compiled Keras model: made at one precision, from the same start; and what the proof changes in it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.initializers import random_initializers

from laptime.backends.fingerprint import scale_near
from laptime.backends.keras.own_data import Batch, UserData
from laptime.backends.keras.recipe import POLICIES
from laptime.backends.keras.sharing import OneDevice
from laptime.backends.own import call_own
from laptime.errors import TrainingError
from laptime.model.plan import HeatOrder

Draws = npt.NDArray[np.float64]
DRAWING = ("rate", "dropout", "recurrent_dropout")
ROWS = (
    "where an item comes twice, Keras on TensorFlow squares each row of an embedding's gradient on its own, and other "
    "engines square their sum"
)
# These add their epsilon, and the initial value of their sums, to a square: gradients are compared with its root.
SQUARED = (keras.optimizers.Adadelta, keras.optimizers.Adagrad)
Array = npt.NDArray[Any]


@contextlib.contextmanager
def same_initial_weights() -> Iterator[None]:
    """Make Keras's initializers draw the same numbers on every engine; their distributions stay the same."""
    held = random_initializers.random
    random_initializers.random = HostRandom(held)
    try:
        yield
    finally:
        random_initializers.random = held


class HostRandom:
    """What Keras's initializers call, in NumPy; everything else comes from the engine."""

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
    """Return a generator seeded with a number, or with the next state of one of Keras's own generators."""
    if isinstance(seed, int):
        return np.random.default_rng(seed)
    state = keras.random.SeedGenerator(seed) if seed is None else seed
    return np.random.default_rng([int(each) for each in np.ravel(keras.ops.convert_to_numpy(state.next()))])


def _truncated(generator: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Draw numbers again that are beyond two standard deviations, as Keras's engines do."""
    drawn: Draws = np.asarray(generator.standard_normal(shape))
    while (beyond := np.abs(drawn) > 2).any():
        drawn[beyond] = generator.standard_normal(int(beyond.sum()))
    return drawn


def _as_tensor(drawn: Draws, dtype: Any) -> Any:
    kind = dtype or keras.config.floatx()
    return keras.ops.convert_to_tensor(drawn, dtype=kind)


class DropoutOff:
    """Sets the rates of layers that draw masks to 0; other draws are found by running the steps twice."""

    def __init__(self, model: keras.Model) -> None:
        flat = model._flatten_layers(recursive=True)  # noqa: SLF001  Keras has no public name for it
        self.rates = [
            (layer, word, getattr(layer, word))
            for layer in flat
            for word in DRAWING
            if isinstance(vars(layer).get(word), float) and (word != "rate" or "Dropout" in type(layer).__name__)
        ]

    def begin(self) -> None:
        for layer, word, _ in self.rates:
            setattr(layer, word, 0.0)

    def undo(self) -> None:
        for layer, word, rate in self.rates:
            setattr(layer, word, rate)


class ScaledOptimizer:
    """A user's optimizer whose learning rate and gradients are multiplied by numbers.

    The numbers are variables of the optimizer during the proof, so that a new number needs no new trace. Gradients are
    multiplied after clipping, so clipping sees the original ones.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._rate = optimizer._learning_rate  # noqa: SLF001  the public name returns the current rate
        self._is_number = isinstance(self._rate, keras.Variable)
        self._start = float(self._rate.numpy()) if self._is_number else math.nan
        self._added: list[Any] = []
        self.has_rows = False
        self.scale = scale_near(_epsilon_of(optimizer))

    def begin(self) -> None:
        optimizer = self._optimizer
        self._added = [optimizer.add_variable((), "ones", name=name) for name in ("proof_rate", "proof_gradients")]
        times_rate, times = self._added
        if not self._is_number:
            optimizer.learning_rate = _slowed(self._rate, times_rate)
        clip = optimizer._clip_gradients  # noqa: SLF001  no public hook between clipping and the update

        def clip_and_multiply(gradients: Sequence[Any]) -> list[Any]:
            clipped = clip(gradients)
            self.has_rows |= any(hasattr(each, "dense_shape") for each in clipped)
            return [None if each is None else keras.ops.multiply(each, _as(each, times)) for each in clipped]

        optimizer._clip_gradients = clip_and_multiply  # noqa: SLF001

    def multiply(self, rate: float, gradients: float) -> None:
        """Set `rate` as the factor on the next step's learning rate, and `gradients` as that on its gradients."""
        times_rate, times = self._added
        times_rate.assign(rate)
        times.assign(gradients)
        if self._is_number:
            self._rate.assign(self._start * rate)

    def undo(self) -> None:
        """Restore the optimizer as the user made it."""
        if not self._added:
            return
        optimizer = self._optimizer
        optimizer.__dict__.pop("_clip_gradients", None)
        for each in self._added:
            optimizer._untrack_variable(each)  # noqa: SLF001
        self._added = []
        if not self._is_number:
            optimizer.learning_rate = self._rate


def open_optimizers(optimizer: Any) -> list[ScaledOptimizer]:
    """Return the optimizers that update weights: those inside a Keras wrapper, or the optimizer itself."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(inner, "optimizers", None)
    return [ScaledOptimizer(each) for each in (several if isinstance(several, list) else [inner])]


class _Slowed(keras.optimizers.schedules.LearningRateSchedule):
    """A user's schedule of learning rates, each multiplied by a factor."""

    def __init__(self, schedule: Any, times: Any) -> None:
        super().__init__()
        self._schedule, self._times = schedule, times

    def __call__(self, step: Any) -> Any:
        return self._schedule(step) * self._times

    def get_config(self) -> dict[str, Any]:
        return {"schedule": self._schedule, "times": self._times}


def _slowed(rate: Any, times: Any) -> Any:
    """Multiply the user's learning rate: a schedule of Keras's, or a function without arguments."""
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return _Slowed(rate, times)
    return lambda: rate() * times


def _as(gradient: Any, times: Any) -> Any:
    return keras.ops.cast(times, gradient.dtype) if hasattr(gradient, "dtype") else times


def _epsilon_of(optimizer: Any) -> float:
    """Return the gradient size below which an optimizer stops normalising; 1 for one that never normalises."""
    epsilon = getattr(optimizer, "epsilon", None)
    if not isinstance(epsilon, float | int):
        return 1.0
    if isinstance(optimizer, SQUARED):
        return math.sqrt(epsilon + getattr(optimizer, "initial_accumulator_value", 0.0))
    return float(epsilon)


class OwnModel:
    """What the user's function returned, and the initial values of all its variables."""

    def __init__(self, order: HeatOrder, precision: str, devices: OneDevice) -> None:
        subject = order.subject
        assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
        self.name = subject.name
        keras.utils.set_random_seed(order.seed)
        keras.config.set_floatx("float64" if precision == "fp64" else "float32")
        keras.config.set_dtype_policy(POLICIES[precision])
        with devices.scope(), same_initial_weights():
            training = call_own(subject.file, subject.function)
            self.model = self._checked(training.model, is_step=training.step is not None)
            self.data = UserData(training.data, training.batch, training.steps_per_lap, self.name, devices)
            if order.lane.settings.workers is not None:
                self.data.take_workers(order.lane.settings.workers)
            self.data.check_devices()
            self._build(self.data.first(1)[0])
        self.at_once = int(self.model.steps_per_execution)
        self._variables = self._find_variables()
        self.start = self._read()
        self._is_compiled = self.model.jit_compile
        self._dropout_off = DropoutOff(self.model)
        self._optimizers = open_optimizers(self.model.optimizer)

    def precisions(self) -> set[str]:
        """Return the precisions in which the layers compute."""
        flat = self.model._flatten_layers(include_self=True, recursive=True)  # noqa: SLF001  no public name
        return {str(layer.compute_dtype) for layer in flat if layer.compute_dtype}

    def weights(self) -> list[Array]:
        return [np.array(each.numpy()) for each in self.model.trainable_variables]

    def begin(self, at_once: int, *, compiled: bool) -> Any:
        """Return the model as the user's function made it, or compiled by XLA if the lane's settings say it."""
        self._restore(at_once)
        self.model.jit_compile = True if compiled else self._is_compiled
        return self.model

    def begin_proof(self) -> Any:
        """Return the model without dropout, with its optimizer ready for the proof's rates."""
        model = self._restore(at_once=1)
        self._dropout_off.begin()
        for optimizer in self._optimizers:
            optimizer.begin()
        return model

    def multiply(self, rate: float, gradients: float) -> None:
        """Set `rate` as the factor on the next proof step's learning rate, and `gradients` as that on its gradients."""
        for optimizer in self._optimizers:
            optimizer.multiply(rate, gradients)

    def scales(self) -> tuple[float, ...]:
        """Return the factors by which the proof brings gradients near each optimizer's epsilon."""
        return tuple(optimizer.scale for optimizer in self._optimizers)

    def own_way(self) -> str | None:
        """Return how the engine is known to differ from others, if the steps so far were affected."""
        return ROWS if any(optimizer.has_rows for optimizer in self._optimizers) else None

    def rewind(self, start: Sequence[Array]) -> None:
        """Set all variables that steps change to their initial values, or to other ones."""
        for variable, value in zip(self._variables, start, strict=True):
            variable.assign(value)

    def reseeded(self) -> list[Array]:
        """Return the initial values, but with other seeds for the layers that draw random numbers."""
        pairs = zip(self._variables, self.start, strict=True)
        return [value + 1 if "seed_generator" in variable.path else value for variable, value in pairs]

    def _restore(self, at_once: int) -> Any:
        """Undo all that a proof changed; the next trace uses it."""
        model = self.model
        for optimizer in self._optimizers:
            optimizer.undo()
        self._dropout_off.undo()
        self.rewind(self.start)
        model.steps_per_execution = at_once
        model.train_function = None
        model.stop_training = False
        return model

    def _find_variables(self) -> list[Any]:
        """Return all variables that a step changes, except the running means of metrics, which each epoch resets."""
        model = self.model
        metrics = {id(each) for each in model.metrics_variables}
        kept = [each for each in model.variables if id(each) not in metrics]
        return [*kept, *model.optimizer.variables]

    def _read(self) -> list[Array]:
        return [np.array(each.numpy()) for each in self._variables]

    def _build(self, batch: Batch) -> None:
        """Make what Keras would make at its first step, including the optimizer's own variables."""
        if not self.model.built:
            self.model(keras.tree.map_structure(keras.ops.convert_to_tensor, batch[0]))
        self.model.optimizer.build(self.model.trainable_variables)

    def _checked(self, model: Any, *, is_step: bool) -> Any:
        if is_step:
            raise TrainingError(f"{self.name}: gives a step function, and Keras lanes take a compiled model",
                                "race it on jax/cpu or python/cpu")  # fmt: skip
        if not isinstance(model, keras.Model):
            raise TrainingError(f"{self.name}: model is {type(model).__name__}, and Keras lanes train a keras.Model",
                                "race it on torch lanes")  # fmt: skip
        if not model.compiled or model.optimizer is None:
            raise TrainingError(f"{self.name}: the model is not compiled",
                                "call model.compile(optimizer=..., loss=...) before it is returned")  # fmt: skip
        return model
