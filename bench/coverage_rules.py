"""What the simulations of coverage.py have in common: the limits, and a line of their tables."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.05
EARLY, ALIKE = 0.6, 0.2  # of the margin, as in questions/race/run.py
TRUE_RATIO = 1.3
MOST_FALSE_CALLS = 0.05
LEAST_IN_ROUNDS = 0.94
ROUND_RACES = 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """What one scenario gave under one rule, with the binomial standard errors of both shares."""

    scenario: str
    rule: str
    coverage: float
    coverage_error: float
    false_calls: float
    false_calls_error: float
    heats: float
    kept: bool
    interval: str = "Student"
    settled: float | None = None


def show(row: Row) -> str:
    """Write one line of the table."""
    return (
        f"{row.scenario:30} {row.rule:22} {row.coverage:8.2%} ± {row.coverage_error:.2%} "
        f"{row.false_calls:8.2%} ± {row.false_calls_error:.2%} {row.heats:6.1f}"
        f"{'' if row.settled is None else f'  {row.interval:9} settled {row.settled:4.0%}'}"
        f"{'' if row.kept else '  BROKEN'}"
    )
