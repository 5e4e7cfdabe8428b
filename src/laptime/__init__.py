"""laptime: how long does a training take on each device you have, and by what proven factor is one faster?

    import laptime
    record = laptime.race(laptime.Ask("cifar-cnn", ("torch/cpu", "torch/cpu/best"), budget_s=60))

A training of your own is a function that returns `laptime.Training`; see examples/own_training.py.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from laptime.errors import LaptimeError
from laptime.model.ask import Ask, FullAsk
from laptime.model.missing import Missing
from laptime.model.workload import Training

if TYPE_CHECKING:
    from laptime.api import devices, full, infer, load, plan, profile, race, records, resume, why
    from laptime.remedies.allocator import keep_memory
    from laptime.remedies.cached import cached
    from laptime.remedies.deferred import Deferred
    from laptime.remedies.shapes import same_shapes

# What a training script may use; imported without the rest of laptime.
REMEDIES = {"Deferred": "deferred", "cached": "cached", "keep_memory": "allocator", "same_shapes": "shapes"}

__all__ = [
    "Ask",
    "Deferred",
    "FullAsk",
    "LaptimeError",
    "Missing",
    "Training",
    "cached",
    "devices",
    "full",
    "infer",
    "keep_memory",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "resume",
    "same_shapes",
    "why",
]


def __getattr__(name: str) -> Any:
    """Import the rest of laptime on first use: most training scripts import it only for `Training`."""
    if name in REMEDIES:
        return getattr(importlib.import_module(f"laptime.remedies.{REMEDIES[name]}"), name)
    if name in __all__:
        from laptime import api  # noqa: PLC0415  imported late on purpose

        return getattr(api, name)
    raise AttributeError(f"module 'laptime' has no attribute '{name}'")
