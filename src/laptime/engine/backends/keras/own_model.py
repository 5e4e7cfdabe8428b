"""A user's compiled Keras model: made at one precision, from the same start; and what the proof changes in it."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.initializers import random_initializers
from keras.src.trainers.data_adapters import get_data_adapter

from laptime.attach.keras_setting import FIT_BATCH
from laptime.engine.backends.arrays import scale_near
from laptime.engine.backends.keras.engines import OneDevice
from laptime.engine.backends.keras.feeds import ON_DEVICE, Feed
from laptime.engine.backends.keras.fit import ENDLESS
from laptime.engine.backends.keras.recipe import POLICIES
from laptime.engine.backends.own import call_own, endless, length_of
from laptime.engine.backends.steps import KEPT_BATCHES
from laptime.model.errors import LaneError, LaptimeError, TrainingError
from laptime.model.plan import HeatOrder
from laptime.model.process import KEPT_INPUTS, Settings

Draws = npt.NDArray[np.float64]
DRAWING = ("rate", "dropout", "recurrent_dropout")
EMBEDDING_ROWS = (
    "where an item comes twice, Keras on TensorFlow squares each row of an embedding's gradient on its own, and other "
    "engines square their sum"
)
# These add their epsilon, and the initial value of their sums, to a square: gradients are compared with its root.
SQUARED = (keras.optimizers.Adadelta, keras.optimizers.Adagrad)
KerasArray = npt.NDArray[Any]


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
        generator = _open(seed)
        drawn: Draws = np.asarray(generator.standard_normal(tuple(shape)))
        while (beyond := np.abs(drawn) > 2).any():  # drawn again beyond two standard deviations, as Keras's engines do
            drawn[beyond] = generator.standard_normal(int(beyond.sum()))
        return _as_tensor(mean + stddev * drawn, dtype)


def _open(seed: Any) -> np.random.Generator:
    """Return a generator seeded with a number, or with the next state of one of Keras's own generators."""
    if isinstance(seed, int):
        return np.random.default_rng(seed)
    state = keras.random.SeedGenerator(seed) if seed is None else seed
    return np.random.default_rng([int(number) for number in np.ravel(keras.ops.convert_to_numpy(state.next()))])


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
        rate = self._rate
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            optimizer.learning_rate = _Slowed(rate, times_rate)
        elif not self._is_number:  # a function without arguments
            optimizer.learning_rate = lambda: rate() * times_rate
        clip = optimizer._clip_gradients  # noqa: SLF001  no public hook between clipping and the update

        def clip_and_multiply(gradients: Sequence[Any]) -> list[Any]:
            clipped = clip(gradients)
            self.has_rows |= any(hasattr(gradient, "dense_shape") for gradient in clipped)
            multiplied: list[Any] = []
            for gradient in clipped:
                factor = keras.ops.cast(times, gradient.dtype) if hasattr(gradient, "dtype") else times
                multiplied.append(None if gradient is None else keras.ops.multiply(gradient, factor))
            return multiplied

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
        for variable in self._added:
            optimizer._untrack_variable(variable)  # noqa: SLF001
        self._added = []
        if not self._is_number:
            optimizer.learning_rate = self._rate


def open_optimizers(optimizer: Any) -> list[ScaledOptimizer]:
    """Return the optimizers that update weights: those inside a Keras wrapper, or the optimizer itself."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    several = getattr(inner, "optimizers", None)
    return [ScaledOptimizer(found) for found in (several if isinstance(several, list) else [inner])]


class _Slowed(keras.optimizers.schedules.LearningRateSchedule):
    """A user's schedule of learning rates, each multiplied by a factor."""

    def __init__(self, schedule: Any, times: Any) -> None:
        super().__init__()
        self._schedule = schedule
        self._times = times

    def __call__(self, step: Any) -> Any:
        return self._schedule(step) * self._times

    def get_config(self) -> dict[str, Any]:
        return {"schedule": self._schedule, "times": self._times}


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
            # What Keras would make at its first step, including the optimizer's own variables.
            batch = self.data.first(1)[0]
            if not self.model.built:
                self.model(keras.tree.map_structure(keras.ops.convert_to_tensor, batch[0]))
            self.model.optimizer.build(self.model.trainable_variables)
        self.at_once = int(self.model.steps_per_execution)
        # What a step changes, except the running means of metrics, which each epoch resets.
        metrics = {id(variable) for variable in self.model.metrics_variables}
        kept = [variable for variable in self.model.variables if id(variable) not in metrics]
        self._variables = [*kept, *self.model.optimizer.variables]
        self.start = self._read()
        self._is_compiled = self.model.jit_compile
        self._dropout_off = DropoutOff(self.model)
        self._optimizers = open_optimizers(self.model.optimizer)

    def precisions(self) -> set[str]:
        """Return the precisions in which the layers compute."""
        flat = self.model._flatten_layers(include_self=True, recursive=True)  # noqa: SLF001  no public name
        return {str(layer.compute_dtype) for layer in flat if layer.compute_dtype}

    def weights(self) -> list[KerasArray]:
        return [np.array(variable.numpy()) for variable in self.model.trainable_variables]

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
        return EMBEDDING_ROWS if any(optimizer.has_rows for optimizer in self._optimizers) else None

    def rewind(self, start: Sequence[KerasArray]) -> None:
        """Set all variables that steps change to their initial values, or to other ones."""
        for variable, value in zip(self._variables, start, strict=True):
            variable.assign(value)

    def reseeded(self) -> list[KerasArray]:
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

    def _read(self) -> list[KerasArray]:
        return [np.array(variable.numpy()) for variable in self._variables]

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


# A user's data as `fit` takes them: as the user passes them, or the first batches kept on the host or the device.

BATCH_PART_COUNTS = (1, 2, 3)  # inputs, targets, and the weight of each item
BatchParts = tuple[Any, ...]


class UserData:
    """The user's data; `trouble` is the error that occurred in them, if any."""

    def __init__(self, data: Any, batch: int | None, steps_per_lap: int | None, name: str, devices: OneDevice) -> None:
        self.given = self._data = data
        self._name = name
        self._devices = devices
        self.times = devices.times
        self._batch = batch or FIT_BATCH
        # A tuple (inputs, targets) whose first part is no tuple. A list is batches.
        is_parts = isinstance(data, tuple) and len(data) in BATCH_PART_COUNTS
        self.is_arrays = is_parts and not isinstance(data[0], tuple | list)
        self._is_spent_once = hasattr(data, "__next__")
        self.trouble: LaptimeError | None = None
        self._adapter = None if self._is_spent_once else self._adapt()
        length = length_of(data) if self._adapter is None else self._adapter.num_batches
        lap = steps_per_lap or (None if length is None else int(length))
        self.lap = lap if lap is None else max(1, round(lap / self.times))
        self._taken: list[BatchParts] = []

    def first(self, count: int) -> list[BatchParts]:
        """Return the first batches, on the host; data that can be iterated only once continue after them."""
        if len(self._taken) < count:
            source = self._walk() if self._adapter is None else iter(self._adapter.get_numpy_iterator())
            held = self._taken if self._is_spent_once else []
            self._taken = [*held, *map(self._checked, itertools.islice(source, count - len(held)))]
        if not self._taken:
            raise TrainingError(f"{self._name}: data gave no batch at all: it is empty", "give at least one batch")
        return self._taken[:count]

    def words(self, at_once: int) -> dict[str, Any]:
        """Return the arguments of `fit` for the data."""
        if self.is_arrays:
            x, y, *weights = (*self._data, None)[:3]
            words = {"x": x, "y": y, "batch_size": self._batch * self.times, "shuffle": True}
            return words | ({"sample_weight": weights[0]} if weights[0] is not None else {})
        if self._adapter is None:
            return {"x": self._steps(), "steps_per_epoch": self._epoch(at_once), "shuffle": False}
        is_numbered = isinstance(self._data, keras.utils.PyDataset) and self._adapter.num_batches is not None
        words = {"x": self._data, "shuffle": is_numbered}
        return words if self._adapter.num_batches else words | {"steps_per_epoch": self._epoch(at_once)}

    def take_workers(self, workers: int) -> None:
        """Make its batches in this many threads, or in processes if the data set asks for them."""
        if not isinstance(self._data, keras.utils.PyDataset):
            kind = type(self._data).__name__
            raise TrainingError(
                f"workers={workers}: the data of {self._name} are {kind}, and no PyDataset of Keras's",
                "give a keras.utils.PyDataset, or leave workers out",
            )
        self._data.workers = workers

    def ready_batches(self) -> int:
        """Return how many batches Keras's own workers may hold ready."""
        data = self._data
        if not isinstance(data, keras.utils.PyDataset):
            return 0
        has_queue = data.workers > 1 or (data.workers > 0 and data.use_multiprocessing)
        return int(data.max_queue_size + data.workers) if has_queue else 0

    def epoch_steps(self, at_once: int) -> int:
        """Return how many steps Keras counts as an epoch here."""
        count = self._adapter.num_batches if self._adapter is not None else None
        if count and self.is_arrays:
            count = math.ceil(self._items() / (self._batch * self.times))
        if count and count % at_once:
            raise TrainingError(
                f"{self._name}: its data are {count} batches, no whole number of the {at_once} that are taken at once",
                "give steps_per_execution a divisor of their number",
            )
        return count or self._epoch(at_once)

    def _epoch(self, at_once: int) -> int:
        return max(1, (self.lap or ENDLESS) // at_once) * at_once

    def _items(self) -> int:
        """Return how many items arrays have."""
        return items_of(self._data)

    def check_devices(self) -> None:
        """Refuse what the lane's devices cannot share."""
        if self.times > 1 and self._adapter is not None and not self.is_arrays:
            raise LaneError(
                f"weak: the data of {self._name} are {type(self._data).__name__}, whose batches laptime does not join",
                "name strong, and give it larger batches; or give arrays or a list of batches",
            )
        self._devices.check_items(items_of(self.first(1)[0]))
        if self.is_arrays:
            self._devices.check_items(self._items() % (self._batch * self.times))

    def _adapt(self) -> Any:
        """Return Keras's adapter for the data; None for lists of batches and other kinds that Keras does not know."""
        if not self.is_arrays and isinstance(self._data, list | tuple):
            return None
        words = {"batch_size": self._batch} if self.is_arrays else {}
        parts = self._data if self.is_arrays else (self._data,)
        try:
            return get_data_adapter(*parts, **words)
        except ValueError as error:
            if "Unrecognized data type" in str(error):
                return None
            raise TrainingError(f"{self._name}: {error}") from error

    def _steps(self) -> Iterator[BatchParts]:
        """Yield the batches of one step after another."""
        batches = self._walk()
        while True:
            taken = [next(batches) for _ in range(self.times)]
            batch = taken[0] if self.times == 1 else join(taken)
            try:
                self._devices.check_items(items_of(batch))
            except LaneError as error:
                self.trouble = error
                raise
            yield batch

    def _walk(self) -> Iterator[BatchParts]:
        """Yield one batch after another without end, and keep an error: the engine would report it in its own words."""
        number = len(self._taken) if self._is_spent_once else 0
        try:
            for batch in self._data if self._is_spent_once else endless(self._data, self._name):
                number += 1
                yield self._checked(batch)
        except Exception as error:
            self.trouble = _said(error, self._name, number + 1)
            raise self.trouble from error
        says = f"{self._name}: data ended after {number} batches: a generator can be walked through only once"
        self.trouble = TrainingError(says, "give a generator without end, a list, a PyDataset or a tf.data.Dataset")
        raise self.trouble

    def _checked(self, batch: Any) -> BatchParts:
        if isinstance(batch, list | tuple) and len(batch) in BATCH_PART_COUNTS:
            return tuple(batch)
        kind = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, list | tuple) else type(batch).__name__
        raise TrainingError(
            f"{self._name}: a batch is {kind}, expected (inputs, targets)",
            "give (inputs, targets) or (inputs, targets, sample weights), of which inputs and targets may be dicts",
        )


def items_of(batch: BatchParts) -> int:
    """Return the length of the first array in a batch that has one."""
    for part in batch:
        for array in keras.tree.flatten(part):
            shape = np.shape(array)
            if shape:
                return int(shape[0])
    return 1


def _said(error: Exception, name: str, number: int) -> LaptimeError:
    if isinstance(error, LaptimeError):
        return error
    return TrainingError(f"{name}: data raised {type(error).__name__} at batch {number}: {error}")


class UserFeed(Feed):
    """The user's data, unchanged."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(items_of(data.first(1)[0]) * data.times, at_once, settings, device)
        self._data = data
        self.ready_batches = data.ready_batches()

    def epoch_steps(self) -> int:
        return self._data.epoch_steps(self.at_once)

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  the user's data decide where they continue
        return self._data.words(self.at_once)

    def sample(self) -> tuple[Any, Any]:
        inputs, targets, *_ = (*self._data.first(1)[0], None)
        return inputs, targets

    def trouble(self) -> LaptimeError | None:
        return self._data.trouble


class KeptFeed(Feed):
    """The first batches, concatenated to one array and used again and again."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        most = 1 if settings.input == "one" else min(KEPT_BATCHES, data.lap or KEPT_BATCHES)
        batches = data.first(most * data.times)
        size = items_of(batches[0])
        kept = [batch for batch in batches if items_of(batch) == size]  # a shorter last one would be another step
        super().__init__(size * data.times, at_once, settings, device)
        self._steps = max(1, len(kept) // data.times // at_once) * at_once
        self._parts = list(join([kept[number % len(kept)] for number in range(self._steps * data.times)]))
        if settings.input in ON_DEVICE:
            with device():
                self._parts = [keras.tree.map_structure(keras.ops.convert_to_tensor, part) for part in self._parts]

    def epoch_steps(self) -> int:
        return self._steps

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  the same few batches at any step
        names = ("x", "y", "sample_weight")
        parts = {name: part for name, part in zip(names, self._parts, strict=False) if part is not None}
        return {**parts, "batch_size": self.batch, "shuffle": False}

    def sample(self) -> tuple[Any, Any]:
        first = [keras.tree.map_structure(lambda array: np.asarray(array)[: self.batch], part) for part in self._parts]
        return first[0], first[1] if len(first) > 1 else None


def open_own_feed(data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> Feed:
    """Return the feed that the lane's settings name."""
    feed = KeptFeed if settings.input in KEPT_INPUTS else UserFeed
    return feed(data, at_once, settings, device)


def join(batches: Sequence[BatchParts]) -> BatchParts:
    """Return one batch of several."""
    return tuple(_joined([batch[part] for batch in batches]) for part in range(len(batches[0])))


def _joined(parts: list[Any]) -> Any:
    if parts[0] is None:
        return None
    return keras.tree.map_structure(lambda *arrays: np.concatenate([np.asarray(array) for array in arrays]), *parts)
