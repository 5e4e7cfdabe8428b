"""`import laptime` as a library: functions that ask a question, and results that print as their page."""

from laptime.library.calls import devices, doctor, infer, load, plan, profile, race, records, resume, train, why
from laptime.library.comparing import CompareResult, compare
from laptime.library.lanes import LaneFigures, LaneList, Ratio
from laptime.library.results import DevicesResult, DoctorResult, PlanResult, Result, WhyResult

__all__ = [
    "CompareResult",
    "DevicesResult",
    "DoctorResult",
    "LaneFigures",
    "LaneList",
    "PlanResult",
    "Ratio",
    "Result",
    "WhyResult",
    "compare",
    "devices",
    "doctor",
    "infer",
    "load",
    "plan",
    "profile",
    "race",
    "records",
    "resume",
    "train",
    "why",
]
