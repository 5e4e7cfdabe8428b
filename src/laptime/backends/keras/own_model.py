"""A user's compiled Keras model: called for at one precision, then always from the same start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from laptime.backends.keras.own_data import Batch, UserData
from laptime.backends.keras.own_draws import drawn_alike
from laptime.backends.keras.recipe import POLICIES
from laptime.backends.own import call_own
from laptime.errors import TrainingError
from laptime.model.plan import HeatOrder

DRAWING = ("rate", "dropout", "recurrent_dropout")
ADAM_LOSS_SCALE = 1e-4
Array = npt.NDArray[Any]


class OwnModel:
    """What the user's function returned, and the start of all its variables."""

    def __init__(self, order: HeatOrder, precision: str, device: Callable[[], Any]) -> None:
        subject = order.subject
        assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
        self.name = subject.name
        keras.utils.set_random_seed(order.seed)
        keras.config.set_floatx("float64" if precision == "fp64" else "float32")
        keras.config.set_dtype_policy(POLICIES[precision])
        with device(), drawn_alike():
            training = call_own(subject.file, subject.function)
            self.model = self._checked(training.model, is_step=training.step is not None)
            self.data = UserData(training.data, training.batch, training.steps_per_lap, self.name)
            if order.lane.settings.workers is not None:
                self.data.take_workers(order.lane.settings.workers)
            self._build(self.data.first(1)[0])
        self.at_once = int(self.model.steps_per_execution)
        self.start = self._read()
        self._is_compiled = self.model.jit_compile
        self._schedule = _schedule_of(self.model.optimizer)
        self._rates = [(layer, word, getattr(layer, word)) for layer, word in self._draws()]

    @property
    def is_adam(self) -> bool:
        return hasattr(self.model.optimizer, "beta_2") and hasattr(self.model.optimizer, "epsilon")

    def precisions(self) -> set[str]:
        """Give in what the layers compute."""
        flat = self.model._flatten_layers(include_self=True, recursive=True)  # noqa: SLF001  Keras has no other word
        return {str(layer.compute_dtype) for layer in flat if layer.compute_dtype}

    def weights(self) -> list[Array]:
        return [np.array(each.numpy()) for each in self.model.trainable_variables]

    def begin(self, at_once: int, *, compiled: bool) -> Any:
        """Give the model as the user's function gave it, or compiled by XLA where the lane says so."""
        self._restore(self.start, at_once)
        self.model.jit_compile = True if compiled else self._is_compiled
        return self.model

    def begin_proof(self, rate: float, start: Sequence[Array] | None = None) -> Any:
        """Give it with a small learning rate and no dropout; with Adam, gradients are brought near its epsilon."""
        model = self._restore(self.start if start is None else start, at_once=1)
        _slow_down(model.optimizer, rate)
        for layer, word, _ in self._rates:
            setattr(layer, word, 0.0)
        if self.is_adam:
            apply = model.optimizer.apply
            model.optimizer.apply = lambda gradients, variables=None: apply(
                [None if each is None else each * ADAM_LOSS_SCALE for each in gradients], variables
            )
        return model

    def reseeded(self) -> list[Array]:
        """Give its start, but for the seeds that its layers draw random numbers from."""
        pairs = zip(self._variables(), self.start, strict=True)
        return [value + 1 if "seed_generator" in variable.path else value for variable, value in pairs]

    def _restore(self, start: Sequence[Array], at_once: int) -> Any:
        """Undo all that a proof changed; what is traced anew sees it."""
        model = self.model
        model.optimizer.__dict__.pop("apply", None)
        if self._schedule is not None:
            model.optimizer.learning_rate = self._schedule
        for layer, word, rate in self._rates:
            setattr(layer, word, rate)
        for variable, value in zip(self._variables(), start, strict=True):
            variable.assign(value)
        model.steps_per_execution = at_once
        model.train_function = None
        model.stop_training = False
        return model

    def _variables(self) -> list[Any]:
        """Give all that a step changes but the running means of metrics, which each epoch begins anew."""
        model = self.model
        metrics = {id(each) for each in model.metrics_variables}
        kept = [each for each in model.variables if id(each) not in metrics]
        return [*kept, *model.optimizer.variables]

    def _read(self) -> list[Array]:
        return [np.array(each.numpy()) for each in self._variables()]

    def _draws(self) -> list[tuple[Any, str]]:
        """Find the layers that draw masks; what else draws is found out by taking the steps twice."""
        flat = self.model._flatten_layers(recursive=True)  # noqa: SLF001  Keras has no other word for it
        return [
            (layer, word)
            for layer in flat
            for word in DRAWING
            if isinstance(vars(layer).get(word), float) and (word != "rate" or "Dropout" in type(layer).__name__)
        ]

    def _build(self, batch: Batch) -> None:
        """Have what Keras makes at its first step made now, among it the optimizer's own variables."""
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


class Slowed(keras.optimizers.schedules.LearningRateSchedule):
    """A user's schedule of learning rates, at a share of each."""

    def __init__(self, schedule: Any, rate: float) -> None:
        super().__init__()
        self._schedule, self._rate = schedule, rate

    def __call__(self, step: Any) -> Any:
        return self._schedule(step) * self._rate

    def get_config(self) -> dict[str, Any]:
        return {"schedule": self._schedule, "rate": self._rate}


def _slow_down(optimizer: Any, rate: float) -> None:
    schedule = _schedule_of(optimizer)
    if schedule is not None:
        optimizer.learning_rate = Slowed(schedule, rate)
    else:
        optimizer.learning_rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate)) * rate


def _schedule_of(optimizer: Any) -> Any:
    """Give its schedule of rates, if it has one; the public word gives the rate of this moment."""
    held = optimizer._learning_rate  # noqa: SLF001
    return held if isinstance(held, keras.optimizers.schedules.LearningRateSchedule) else None
