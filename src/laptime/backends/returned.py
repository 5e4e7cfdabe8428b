"""What a user's function returned: a training that can be run, or a sentence that says what to return instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from laptime.errors import TrainingError
from laptime.model.workload import Training

WHOLE = "laptime.Training(model=..., loss=..., optimizer=..., data=...)"
RETURN_A_TRAINING = f"return {WHOLE}, or a Keras model and its data"
OF_A_TRAINER = (
    "return its model and its data loader: laptime.Training(model=trainer.model, "
    "optimizer=torch.optim.AdamW(trainer.model.parameters(), lr=...), data=trainer.get_train_dataloader()); "
    "a model that computes its loss needs no loss="
)
STEP = "laptime.Training(step=step, state=state, data=data), where step(state, batch) returns (new state, loss)"


class MadeAgain:
    """Data that a user's function makes: it is called for each lap."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make, self._name = make, name

    def __iter__(self) -> Iterator[Any]:
        made = self._make()
        if not hasattr(made, "__iter__"):
            says = f"{self._name}: data is a function, and it returned {type(made).__name__}"
            raise TrainingError(f"{says}, which cannot be iterated", "let it return a generator or a list of batches")
        return iter(made)


def is_keras(model: Any) -> bool:
    """Whether a model is a Keras model, found without importing Keras."""
    return _is_of(model, "keras")


def as_training(returned: Any, name: str) -> Training:
    """Return the training; raise an error in words if it cannot be run."""
    if isinstance(returned, tuple) and len(returned) == 2 and is_keras(returned[0]):
        returned = Training(model=returned[0], data=returned[1])  # a compiled model needs no more
    if not isinstance(returned, Training):
        raise _refusal_of(returned, name)
    if returned.step is not None:
        _check_step(returned, name)
    elif is_keras(returned.model):
        _check_compiled(returned, name)
    elif returned.loss is not None and not callable(returned.loss):
        kind = type(returned.loss).__name__
        raise TrainingError(f"{name}: loss is {kind}, not a function of (outputs, targets)")
    training = replace(returned, data=_checked_data(returned, name))
    if training.batch is not None and training.batch < 1:
        raise TrainingError(f"{name}: batch is {training.batch}, expected 1 or more")
    if training.steps_per_lap is not None and training.steps_per_lap < 1:
        raise TrainingError(f"{name}: steps_per_lap is {training.steps_per_lap}, expected 1 or more")
    return training


def _refusal_of(returned: Any, name: str) -> TrainingError:
    """Return the error for what is no training, with what to return instead."""
    kind = type(returned).__name__
    said = f"{name} returned {kind}, not a laptime.Training"
    if hasattr(returned, "get_train_dataloader") and hasattr(returned, "model"):
        return TrainingError(said, OF_A_TRAINER)
    if kind.endswith("Trainer"):
        return TrainingError(said, f"return its model and its data loader: {WHOLE}; or its loop as a step: {STEP}")
    if _is_of(returned, "torch", "Module"):
        return TrainingError(f"{said}: its data and its optimizer are missing", f"return {WHOLE}")
    if isinstance(returned, tuple | list) and any(_is_of(each, "torch", "Module") for each in returned):
        hint = f"name each part: return {WHOLE}, without loss= if the model computes its loss"
        return TrainingError(said, hint)
    return TrainingError(said, RETURN_A_TRAINING)


def _is_of(value: Any, package: str, name: str | None = None) -> bool:
    """Whether a value's class comes from a package, found without importing it; from its class `name`, if given."""
    return any(
        each.__module__.split(".")[0] == package and name in {None, each.__name__} for each in type(value).__mro__
    )


def _checked_data(training: Training, name: str) -> Any:
    """Return the data; a function, or a class, is called for each lap."""
    data, kind = training.data, type(training.data).__name__
    if isinstance(data, type) or (callable(data) and not hasattr(data, "__iter__")):
        return MadeAgain(data, name)
    if hasattr(data, "__next__") and not is_keras(training.model):
        raise TrainingError(
            f"{name}: data is {kind}: it can be iterated only once",
            "give the function that makes it, as data=make_batches and not data=make_batches(): it is called for each "
            "lap; or give a list of batches or a DataLoader",
        )
    if hasattr(data, "__iter__"):
        return data
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        hint = "give a DataLoader over it: torch.utils.data.DataLoader(data, batch_size=32)"
        raise TrainingError(f"{name}: data is {kind}, a data set of single items", hint)
    if data is None:
        hint = "give data=: a list of batches, a DataLoader, or a function that makes a generator of batches"
        raise TrainingError(f"{name}: gives no data", hint)
    hint = "give a list of batches, a DataLoader, or a function that makes a generator of batches"
    raise TrainingError(f"{name}: data is {kind}, which cannot be iterated", hint)


def _check_compiled(training: Training, name: str) -> None:
    if training.loss is not None or training.optimizer is not None:
        raise TrainingError(f"{name}: returns a Keras model, and a loss or an optimizer next to it",
                            "compile the model with them, and leave them out here")  # fmt: skip


def _check_step(training: Training, name: str) -> None:
    if training.model is not None or training.optimizer is not None:
        raise TrainingError(f"{name}: gives a step and a model", "give one of the two; a step has its own in its state")
    if not callable(training.step):
        raise TrainingError(f"{name}: step is {type(training.step).__name__}, not a function of (state, batch)")
    if training.fence is not None and not callable(training.fence):
        raise TrainingError(f"{name}: fence is {type(training.fence).__name__}, not a function of the state")
    try:
        inspect.signature(training.step).bind(None, None)
    except TypeError as error:
        raise TrainingError(f"{name}: step cannot be called as step(state, batch): {error}", f"return {STEP}") from None
    except ValueError:  # a function without a signature, such as one in C
        return
