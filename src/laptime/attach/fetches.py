"""Batches of any iterable, noted as they are fetched: what `laptime.steps` goes through."""

from __future__ import annotations

from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

DEPTH_MOST = 4  # how deep a batch is searched for its first tensor


def fetches(agent: Agent, batches: Any, number: int) -> Any:
    """Go through the batches once. Loaders that run within a fetch note nothing: it would be counted twice.

    A loop that is left early closes this generator: that is the end of its last iteration.
    """
    note = agent.note
    agent.describe_once(number, _describe, batches)
    begin = now_ns()
    agent.fetching += 1
    try:
        iterator = iter(batches)
    finally:
        agent.fetching -= 1
    note(kinds.LOADER_OPEN, begin, now_ns(), number)
    shifted = number << kinds.ITEMS_SHIFT
    while True:
        begin = now_ns()
        agent.fetching += 1
        try:
            batch = next(iterator)
        except StopIteration:
            break
        finally:
            agent.fetching -= 1
        note(kinds.FETCH, begin, now_ns(), shifted | items_of(batch))
        try:
            yield batch
        except GeneratorExit:
            begin = now_ns()
            note(kinds.LOADER_END, begin, begin, number)
            raise
        if agent.hold is not None:
            agent.hold.passed_batch()
    note(kinds.LOADER_END, begin, now_ns(), number)


def items_of(batch: Any, depth: int = 0) -> int:
    """Return the length of the first tensor in a batch, or 0 where none is found."""
    try:
        if type(batch) is list or type(batch) is tuple:
            batch = batch[0]
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) & kinds.ITEMS_MASK if shape else 0
        if depth < DEPTH_MOST:
            values = getattr(batch, "values", None)
            inner = batch[0] if values is None else next(iter(values()))
            return 0 if isinstance(inner, (str, bytes)) else items_of(inner, depth + 1)
    except Exception:
        return 0
    return 0


def describe_loading(loader: Any) -> dict:
    """Return how a data loader of PyTorch loads."""
    names = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor")
    facts = {name: getattr(loader, name, None) for name in names}
    dataset = getattr(loader, "dataset", None)
    inner = getattr(dataset, "dataset", dataset)  # of a part of one: torch.utils.data.random_split
    facts["in_memory"] = type(inner).__name__ == "TensorDataset"
    return {"is_iterable": getattr(loader, "_dataset_kind", None) == 1, **facts}


def _describe(batches: Any, number: int) -> dict:
    try:
        length = len(batches)
    except Exception:
        length = None
    return {"steps_loader": number, "batches": length}
