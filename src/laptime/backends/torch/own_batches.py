"""Another batch for a user's own data: a DataLoader is made again, and a list of batches is cut into other ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, IterableDataset

from laptime.backends.own import length_of
from laptime.backends.torch.batches import describe, filled, leaves
from laptime.errors import TrainingError
from laptime.model.plan import OwnBatches
from laptime.model.workload import Training

KEPT_ARGUMENTS = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers"),
)


def look_at_batches(data: Any) -> OwnBatches:
    """Return the batch of a user's data and the items of a lap, or why another batch cannot be had."""
    if isinstance(data, DataLoader):
        if type(data) is not DataLoader:
            return OwnBatches(f"{type(data).__name__} is a DataLoader with ways of its own")
        if data.batch_size is None:
            return OwnBatches("its DataLoader does not make its batches itself: batch_size is None")
        is_walked = isinstance(data.dataset, IterableDataset)
        return OwnBatches("", data.batch_size, None if is_walked else length_of(data.sampler))
    if isinstance(data, list | tuple) and data:
        why = _why_uncut(data)
        return OwnBatches(why) if why else OwnBatches("", _length(data[0]), sum(map(_length, data)))
    return OwnBatches("its data are no DataLoader and no list of batches (batch=2x joins them)")


def with_batch(training: Training, batch: int | None, name: str) -> Training:
    """Return the training with another batch. A lap has whole batches only, and leaves out what is left over."""
    if batch is None:
        return training
    known, given, steps = look_at_batches(training.data), training.data, training.steps_per_lap
    why = known.why_not(batch)
    if why is not None or known.batch is None:
        raise TrainingError(*OwnBatches.refusal(str(batch), name, why or ""))
    data = _made_again(given, batch) if isinstance(given, DataLoader) else _cut(given, batch)
    return replace(
        training, data=data, steps_per_lap=None if steps is None else max(1, round(steps * known.batch / batch))
    )


def _made_again(given: DataLoader[Any], batch: int) -> DataLoader[Any]:
    words: dict[str, Any] = {word: getattr(given, word) for word in KEPT_ARGUMENTS}
    if not isinstance(given.dataset, IterableDataset):
        words["sampler"] = given.sampler
    return DataLoader(given.dataset, batch_size=batch, drop_last=True, **words)


def _cut(given: Sequence[Any], batch: int) -> list[Any]:
    """Join all batches along their first axis, and cut them into batches of another size, in the same order."""
    columns = zip(*map(leaves, given), strict=True)
    whole = [None if column[0] is None else torch.cat(column) for column in columns]
    count = min(len(each) for each in whole if each is not None) // batch
    cuts = [slice(start * batch, (start + 1) * batch) for start in range(count)]
    return [filled(given[0], iter([None if each is None else each[cut] for each in whole])) for cut in cuts]


def _why_uncut(given: Sequence[Any]) -> str:
    """Return why batches are not plain tensors with one row an item; empty if they are."""
    if len({describe(each) for each in given}) > 1:
        return "they do not hold the same"
    columns = [column for column in zip(*map(leaves, given), strict=True) if column[0] is not None]
    every = [each for column in columns for each in column]
    other = next((each for each in every if not isinstance(each, Tensor)), None)
    if other is not None:
        return f"{type(other).__name__} is no tensor"
    if any(each.layout != torch.strided or each.is_nested for each in every):
        return "they hold sparse or nested tensors"
    if not every or not all(each.dim() and len(each) for each in every):
        return "one holds a single number, or nothing"
    if any(len({(each.shape[1:], each.dtype, each.device) for each in column}) > 1 for column in columns):
        return "their tensors have other shapes or types from batch to batch"
    if any(len(set(map(len, batch))) > 1 for batch in zip(*columns, strict=True)):
        return "the tensors of a batch have different lengths, and which axis counts the items is not known"
    return ""


def _length(batch: Any) -> int:
    return len(next(each for each in leaves(batch) if each is not None))


# A user's optimizer, made again on a copy of the model, with the options of a lane.

IN_A_STEP = "put it into a step of your own: laptime.Training(step=..., state=..., data=...)"
GIVE_ONE = "give a torch.optim.Optimizer on the model's parameters, or a function that takes them and returns one"
# These add weight decay to the gradient by default, then divide both by statistics of the gradient.
COUPLED = (optim.Adam, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta, optim.RMSprop)


class OwnOptimizer:
    """`needs_closure` says that each step computes the loss several times, `unfused` names one without a fused form."""

    def __init__(self, name: str, given: Any, model: nn.Module) -> None:
        self._name, self._given, self._model = name, given, model
        self._refuse_what_is_none()
        probe = given if isinstance(given, optim.Optimizer) else self._call(model)
        self.needs_closure = _needs_closure(probe)
        self.epsilon = _epsilon_of(probe)
        self.unfused = None if "fused" in probe.defaults else type(probe).__name__

    def make(self, network: nn.Module, options: dict[str, Any]) -> optim.Optimizer:
        """Return a fresh optimizer on the network's parameters."""
        is_made = not isinstance(self._given, optim.Optimizer)
        given = self._call(network) if is_made else self._given
        wanted = {key: value for key, value in options.items() if key in given.defaults}
        if is_made and not wanted:
            return given
        if "fused" in wanted:
            wanted["foreach"] = None
        groups = [{**group, **wanted} for group in (given.param_groups if is_made else self._groups_on(network))]
        taken = inspect.signature(type(given)).parameters  # AdamW's defaults have a key that its own class refuses
        defaults = {key: value for key, value in given.defaults.items() if key in taken}
        try:
            return type(given)(groups, **{**defaults, **wanted})
        except (TypeError, ValueError) as error:
            raise TrainingError(
                f"{self._name}: its {type(given).__name__} cannot be made again on a copy of the model: {error}",
                "give a function that takes the model's parameters and returns it",
            ) from error

    def _call(self, network: nn.Module) -> optim.Optimizer:
        made = self._given(network.parameters())
        if not isinstance(made, optim.Optimizer):
            raise TrainingError(f"{self._name}: optimizer returned {type(made).__name__}, not an optimizer", GIVE_ONE)
        return made

    def _groups_on(self, network: nn.Module) -> list[dict[str, Any]]:
        """Replace the parameters in the user's parameter groups by those of the copy."""
        twins = dict(zip(map(id, self._model.parameters()), network.parameters(), strict=True))
        groups: list[dict[str, Any]] = []
        for group in self._given.param_groups:
            if any(id(each) not in twins for each in group["params"]):
                raise TrainingError(
                    f"{self._name}: the optimizer holds parameters that the model does not have",
                    "make them a part of the model, or take a step of your own: laptime.Training(step=..., state=...)",
                )
            groups.append({**group, "params": [twins[id(each)] for each in group["params"]]})
        return groups

    def _refuse_what_is_none(self) -> None:
        given, kind = self._given, type(self._given).__name__
        if isinstance(given, LRScheduler):
            says = f"optimizer is {kind}, a schedule of learning rates"
            raise TrainingError(f"{self._name}: {says}", f"give its optimizer; or {IN_A_STEP}")
        if isinstance(given, tuple | list | dict):
            raise TrainingError(f"{self._name}: optimizer is a {kind}, expected one optimizer", IN_A_STEP)
        if given is None:
            raise TrainingError(f"{self._name}: gives no optimizer", GIVE_ONE)
        if not isinstance(given, optim.Optimizer) and not callable(given):
            raise TrainingError(f"{self._name}: optimizer is {kind}", GIVE_ONE)


def _needs_closure(optimizer: optim.Optimizer) -> bool:
    """Whether a step takes a function that computes the loss again, as that of LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _epsilon_of(optimizer: optim.Optimizer) -> float:
    """Return the gradient size below which the optimizer stops normalising; 1 for one that never normalises."""
    epsilon = optimizer.defaults.get("eps")
    if not isinstance(epsilon, float | int):
        return 1.0
    return math.sqrt(epsilon) if isinstance(optimizer, optim.Adadelta) else float(epsilon)
