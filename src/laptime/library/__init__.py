"""`import laptime` as a library: what is not of one question alone; the table of questions names the rest."""

from laptime.library.calls import compare, devices, doctor, history, load, plan, records, report, resume
from laptime.library.results import DevicesResult, DoctorResult, LaneFigures, LaneList, PlanResult, Ratio
from laptime.questions.compare.call import CompareResult, HistoryResult
from laptime.questions.forecast.call import ForecastResult, forecast

__all__ = [
    "CompareResult",
    "DevicesResult",
    "DoctorResult",
    "ForecastResult",
    "HistoryResult",
    "LaneFigures",
    "LaneList",
    "PlanResult",
    "Ratio",
    "compare",
    "devices",
    "doctor",
    "forecast",
    "history",
    "load",
    "plan",
    "records",
    "report",
    "resume",
]
