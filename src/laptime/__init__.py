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

if TYPE_CHECKING:
    from laptime.errors import LaptimeError
    from laptime.library import (
        CompareResult,
        DevicesResult,
        DoctorResult,
        ForecastResult,
        HistoryResult,
        LaneFigures,
        LaneList,
        PlanResult,
        RaceResult,
        Ratio,
        Result,
        ScaleResult,
        SweepResult,
        TuneResult,
        WatchedBatches,
        Watching,
        WatchResult,
        WhyResult,
        compare,
        devices,
        doctor,
        forecast,
        history,
        infer,
        load,
        plan,
        profile,
        race,
        records,
        report,
        resume,
        scale,
        steps,
        sweep,
        train,
        tune,
        watch,
        watching,
        why,
    )
    from laptime.model.ask import Ask, FullAsk
    from laptime.model.missing import Missing
    from laptime.model.workload import Training
    from laptime.questions.scale.nouns import ScaleAsk
    from laptime.questions.sweep.nouns import SweepAsk
    from laptime.questions.tune.nouns import TuneAsk
    from laptime.remedies.allocator import keep_memory
    from laptime.remedies.cached import cached
    from laptime.remedies.deferred import Deferred
    from laptime.remedies.shapes import same_shapes

# Where a name is that needs no more of laptime than its own module. All others are in laptime.library.
PLACES = {
    "Ask": "model.ask",
    "Deferred": "remedies.deferred",
    "FullAsk": "model.ask",
    "LaptimeError": "errors",
    "Missing": "model.missing",
    "ScaleAsk": "questions.scale.nouns",
    "SweepAsk": "questions.sweep.nouns",
    "Training": "model.workload",
    "TuneAsk": "questions.tune.nouns",
    "cached": "remedies.cached",
    "keep_memory": "remedies.allocator",
    "same_shapes": "remedies.shapes",
}
OLD_NAMES = {"full": "train"}

__all__ = [
    "Ask",
    "CompareResult",
    "Deferred",
    "DevicesResult",
    "DoctorResult",
    "ForecastResult",
    "FullAsk",
    "HistoryResult",
    "LaneFigures",
    "LaneList",
    "LaptimeError",
    "Missing",
    "PlanResult",
    "RaceResult",
    "Ratio",
    "Result",
    "ScaleAsk",
    "ScaleResult",
    "SweepAsk",
    "SweepResult",
    "Training",
    "TuneAsk",
    "TuneResult",
    "WatchResult",
    "WatchedBatches",
    "Watching",
    "WhyResult",
    "cached",
    "compare",
    "devices",
    "doctor",
    "forecast",
    "history",
    "infer",
    "keep_memory",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "report",
    "resume",
    "same_shapes",
    "scale",
    "steps",
    "sweep",
    "train",
    "tune",
    "watch",
    "watching",
    "why",
]


def load_ipython_extension(shell: Any) -> None:
    """Add %%race, %%train, %%infer, %%why and %%profile to a notebook: `%load_ext laptime`."""
    importlib.import_module("laptime.library.magic").register(shell)


def __getattr__(name: str) -> Any:
    """Import a name on first use: `laptime --help` needs none of them, and most training scripts only `Training`."""
    if name in PLACES:
        return getattr(importlib.import_module(f"laptime.{PLACES[name]}"), name)
    if name in __all__ or name in OLD_NAMES:
        return getattr(importlib.import_module("laptime.library"), OLD_NAMES.get(name, name))
    raise AttributeError(f"module 'laptime' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
