"""Another batch size for a user's own data, where they are a DataLoader of PyTorch's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laptime.errors import TrainingError
from laptime.model.workload import Training

LOADER = "torch.utils.data.dataloader"
KEPT = (
    *("num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers"),
)


def can_set_batch(data: Any) -> bool:
    """Whether the data are a DataLoader that makes its batches itself, and not a subclass with ways of its own."""
    kind = type(data)
    return (kind.__module__, kind.__name__) == (LOADER, "DataLoader") and data.batch_size is not None


def with_batch(training: Training, batch: int | None, name: str) -> Training:
    """Return the training with another batch size. A lap has as many items as before."""
    if batch is None:
        return training
    given = training.data
    if not can_set_batch(given):
        raise TrainingError(f"batch={batch}: the data of {name} are {type(given).__name__}", "set the batch there")
    words = {word: getattr(given, word) for word in KEPT}
    order = {"sampler": given.sampler} if hasattr(given.dataset, "__getitem__") else {}
    data = type(given)(given.dataset, batch_size=batch, **order, **words)
    steps = training.steps_per_lap
    if steps is not None:
        steps = max(1, round(steps * given.batch_size / batch))
    return replace(training, data=data, steps_per_lap=steps)
