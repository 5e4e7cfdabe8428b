"""`import laptime` as a library: functions that ask a question, and results that print as their page."""

from laptime.library.blocks import WatchedBatches, Watching, steps, watching
from laptime.library.calls import devices, doctor, infer, plan, profile, race, resume, train, watch, why
from laptime.library.results import (
    DevicesResult,
    DoctorResult,
    LaneFigures,
    LaneList,
    PlanResult,
    RaceResult,
    Ratio,
    Result,
    ScaleResult,
    SweepResult,
    TuneResult,
    WatchResult,
    WhyResult,
)
from laptime.library.saved import compare, history, load, records, report
from laptime.questions.compare.call import CompareResult, HistoryResult
from laptime.questions.forecast.call import ForecastResult, forecast
from laptime.questions.scale.call import scale
from laptime.questions.sweep.call import sweep
from laptime.questions.tune.call import tune

__all__ = [
    "CompareResult",
    "DevicesResult",
    "DoctorResult",
    "ForecastResult",
    "HistoryResult",
    "LaneFigures",
    "LaneList",
    "PlanResult",
    "RaceResult",
    "Ratio",
    "Result",
    "ScaleResult",
    "SweepResult",
    "TuneResult",
    "WatchResult",
    "WatchedBatches",
    "Watching",
    "WhyResult",
    "compare",
    "devices",
    "doctor",
    "forecast",
    "history",
    "infer",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "report",
    "resume",
    "scale",
    "steps",
    "sweep",
    "train",
    "tune",
    "watch",
    "watching",
    "why",
]
