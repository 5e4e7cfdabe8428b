"""Numbers in, numbers out: this room imports no other, so the statistics behind every verdict can be tested alone."""

from laptime.stats.interval import (
    Interval,
    PairVerdict,
    Welch,
    log_mean_interval,
    mad,
    mean_interval,
    median,
    moderated_interval,
    paired_ratio,
    quantile,
    t_quantile,
    unpaired_ratio,
    verdict,
    welch,
)
from laptime.stats.steady import FIRST_LOOK, Steady, SteadyKind, alpha_for_look, find_steady

__all__ = [
    "FIRST_LOOK",
    "Interval",
    "PairVerdict",
    "Steady",
    "SteadyKind",
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
