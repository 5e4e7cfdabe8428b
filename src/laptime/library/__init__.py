"""`import laptime` as a library: functions that ask a question, and results that print as their page."""

from laptime.library.calls import devices, doctor, infer, plan, profile, race, resume, train, why
from laptime.library.comparing import CompareResult, HistoryResult
from laptime.library.lanes import LaneFigures, LaneList, Ratio
from laptime.library.results import DevicesResult, DoctorResult, PlanResult, RaceResult, Result, WhyResult
from laptime.library.saved import compare, history, load, records, report

__all__ = [
    "CompareResult",
    "DevicesResult",
    "DoctorResult",
    "HistoryResult",
    "LaneFigures",
    "LaneList",
    "PlanResult",
    "RaceResult",
    "Ratio",
    "Result",
    "WhyResult",
    "compare",
    "devices",
    "doctor",
    "history",
    "infer",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "report",
    "resume",
    "train",
    "why",
]
