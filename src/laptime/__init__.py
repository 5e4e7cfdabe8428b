"""laptime: how long does a training take on each device you have, and by what proven factor is one faster?

    import laptime
    result = laptime.race("cifar-cnn", ["cpu", "cpu/best"], budget="1m")
    print(result)

A training of your own is a function that returns `laptime.Training`: `laptime.race(training, ["cpu", "cuda/best"])`.
See docs/library.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from laptime.model.questions import find_part, public_names

if TYPE_CHECKING:
    from laptime.library import (
        CompareResult,
        DevicesResult,
        DoctorResult,
        ForecastResult,
        HistoryResult,
        LaneFigures,
        LaneList,
        PlanResult,
        Ratio,
        compare,
        devices,
        doctor,
        forecast,
        history,
        load,
        plan,
        records,
        report,
        resume,
    )
    from laptime.library.blocks import WatchedBatches, Watching, steps, watching
    from laptime.library.functions import *  # noqa: F403  the functions, results and asks of questions
    from laptime.model.ask import Ask
    from laptime.model.errors import LaptimeError
    from laptime.model.quantities import Missing
    from laptime.model.workload import Training
    from laptime.remedies.allocator import keep_memory
    from laptime.remedies.auto import auto
    from laptime.remedies.cached import cached
    from laptime.remedies.deferred import Deferred
    from laptime.remedies.shapes import same_shapes

# Where a name is that needs no more of laptime than its own module. The rows of questions say where theirs are, and all
# others are in laptime.library.
PUBLIC_PLACES = {
    "Ask": "model.ask",
    "Deferred": "remedies.deferred",
    "LaptimeError": "model.errors",
    "Missing": "model.quantities",
    "Training": "model.workload",
    "WatchedBatches": "library.blocks",
    "Watching": "library.blocks",
    "auto": "remedies.auto",
    "cached": "remedies.cached",
    "keep_memory": "remedies.allocator",
    "same_shapes": "remedies.shapes",
    "steps": "library.blocks",
    "watching": "library.blocks",
}
OLD_NAMES = {"full": "train"}

__all__ = [
    "Ask",
    "CompareResult",
    "Deferred",
    "DevicesResult",
    "DoctorResult",
    "ForecastResult",
    "HistoryResult",
    "LaneFigures",
    "LaneList",
    "LaptimeError",
    "Missing",
    "PlanResult",
    "Ratio",
    "Training",
    "WatchedBatches",
    "Watching",
    "auto",
    "cached",
    "compare",
    "devices",
    "doctor",
    "forecast",
    "history",
    "keep_memory",
    "load",
    "plan",
    "records",
    "report",
    "resume",
    "same_shapes",
    "steps",
    "watching",
]
if not TYPE_CHECKING:  # a type checker has them from the stub
    __all__.extend(public_names())  # noqa: PYI056


def load_ipython_extension(shell: Any) -> None:
    """Add %%race, %%train, %%infer, %%why and %%profile to a notebook: `%load_ext laptime`."""
    importlib.import_module("laptime.library.magic").register(shell)


def __getattr__(name: str) -> Any:
    """Import a name on first use: `laptime --help` needs none of them, and most training scripts only `Training`."""
    name = OLD_NAMES.get(name, name)
    if name in PUBLIC_PLACES:
        return find_part(f"laptime.{PUBLIC_PLACES[name]}:{name}")
    if (place := public_names().get(name)) is not None:
        return find_part(place)
    if name in __all__:
        return find_part(f"laptime.library:{name}")
    raise AttributeError(f"module 'laptime' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
