"""What kind of training a user's function returns: asked once, before a plan is made."""

from __future__ import annotations

import sys
from typing import Any

from laptime.backends.own import call_own
from laptime.backends.returned import is_keras
from laptime.model.plan import OwnBatches, OwnKind, OwnTraining, Subject
from laptime.model.workload import Training


def describe_own(subject: Subject) -> OwnTraining:
    """Call the user's function, and describe what it returns."""
    assert subject.file is not None and subject.function is not None  # noqa: PT018  a subject of a file has both
    training = call_own(subject.file, subject.function)
    return OwnTraining(
        _kind_of(training),
        data=type(training.data).__name__,
        takes_workers=_takes_workers(training.data),
        batches=_look_at_batches(training.data),
        has_fence=training.fence is not None,
        has_workers=_is_loader(training.data) and training.data.num_workers > 0,
    )


def _kind_of(training: Training) -> OwnKind:
    if training.step is not None:
        return "step"
    if is_keras(training.model):
        return "keras"
    return "torch" if _is_a(training.model, "torch.nn", "Module") else "other"


def _takes_workers(data: Any) -> bool:
    """Whether worker processes or threads can load the data: a DataLoader over numbered items, or a PyDataset."""
    if _is_a(data, "keras", "PyDataset"):
        return True
    return _is_loader(data) and not _is_a(data.dataset, "torch.utils.data", "IterableDataset")


def _look_at_batches(data: Any) -> OwnBatches:
    """Return what is known of batches that torch lanes can cut: where PyTorch is not loaded, there are none."""
    if "torch" not in sys.modules:
        return OwnBatches("only torch lanes cut and join them, and it holds nothing of PyTorch's")
    from laptime.backends.torch.own_batches import look_at_batches

    return look_at_batches(data)


def _is_loader(data: Any) -> bool:
    return _is_a(data, "torch.utils.data", "DataLoader")


def _is_a(value: Any, package: str, name: str) -> bool:
    """Whether a value is of such a class, found without importing its package."""
    return any(
        each.__name__ == name and f"{each.__module__}.".startswith(f"{package}.") for each in type(value).__mro__
    )
