"""`import laptime` as a library: functions that ask a question, and results that print as their page."""

from laptime.library.blocks import WatchedBatches, Watching, steps, watching
from laptime.library.calls import devices, doctor, infer, plan, profile, race, resume, train, watch, why
from laptime.library.comparing import CompareResult, HistoryResult
from laptime.library.forecasting import ForecastResult, forecast
from laptime.library.lanes import LaneFigures, LaneList, Ratio
from laptime.library.results import (
    DevicesResult,
    DoctorResult,
    PlanResult,
    RaceResult,
    Result,
    ScaleResult,
    SweepResult,
    TuneResult,
    WatchResult,
    WhyResult,
)
from laptime.library.saved import compare, history, load, records, report
from laptime.library.scaling import scale
from laptime.library.sweeping import sweep
from laptime.library.tuning import tune

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
