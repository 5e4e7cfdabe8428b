"""Numbers in, numbers out: this room imports no other, so the statistics behind every verdict can be tested alone."""

from laptime.stats.interval import Interval, Verdict, log_mean_interval, mean_interval, paired_ratio, verdict
from laptime.stats.looks import FIRST_LOOK, alpha_for_look
from laptime.stats.moderated import moderated_interval
from laptime.stats.sample import mad, median, quantile
from laptime.stats.steady import Kind, Steady, find_steady
from laptime.stats.student import t_quantile
from laptime.stats.welch import Welch, unpaired_ratio, welch

__all__ = [
    "FIRST_LOOK",
    "Interval",
    "Kind",
    "Steady",
    "Verdict",
    "Welch",
    "alpha_for_look",
    "find_steady",
    "log_mean_interval",
    "mad",
    "mean_interval",
    "median",
    "moderated_interval",
    "paired_ratio",
    "quantile",
    "t_quantile",
    "unpaired_ratio",
    "verdict",
    "welch",
]
