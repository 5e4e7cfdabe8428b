"""Another batch for a user's own data: a DataLoader is made again, and a list of batches is cut into other ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from laptime.backends.own import length_of
from laptime.backends.torch.batches import describe, filled, leaves
from laptime.errors import TrainingError
from laptime.model.plan import OwnBatches
from laptime.model.workload import Training

KEPT = (
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
    words: dict[str, Any] = {word: getattr(given, word) for word in KEPT}
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
