"""laptime: how long does a training take on each device you have, and by what proven factor is one faster?

    import laptime
    record = laptime.race(laptime.Ask("cifar-cnn", ("torch/cpu", "torch/cpu/best"), budget_s=60))

A training of your own is a function that returns `laptime.Training`; see examples/own_training.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laptime.errors import LaptimeError
from laptime.model.ask import Ask, FullAsk
from laptime.model.missing import Missing
from laptime.model.workload import Training

if TYPE_CHECKING:
    from laptime.api import devices, full, infer, load, plan, profile, race, records, resume, why

__all__ = [
    "Ask",
    "FullAsk",
    "LaptimeError",
    "Missing",
    "Training",
    "devices",
    "full",
    "infer",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "resume",
    "why",
]


def __getattr__(name: str) -> Any:
    """Open the rest of the house only when it is asked for: a training script imports laptime for `Training` alone."""
    if name in __all__:
        from laptime import api  # noqa: PLC0415  opened late on purpose

        return getattr(api, name)
    raise AttributeError(f"module 'laptime' has no attribute '{name}'")
