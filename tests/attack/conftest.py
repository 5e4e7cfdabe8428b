"""What all attacks share: a tally of what was tried and what failed.

They are fast by default; `make attack` (LAPTIME_ATTACK=long) goes on to the numbers in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attacking import Tally

TALLY = "attack"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Count what a test tries; the sum over all tests ends the session."""
    made = Tally()
    yield made
    request.node.user_properties.append((TALLY, (made.what, made.tried, len(made.failed))))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each kind of attack, in the form in which docs/reliability.md has it."""
    sums: dict[str, tuple[int, int]] = {}
    for report in terminalreporter.getreports("") + terminalreporter.getreports("failed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == TALLY and report.when == "teardown":
                what, tried, failed = value
                before = sums.get(what, (0, 0))
                sums[what] = (before[0] + tried, before[1] + failed)
    for what, (tried, failed) in sorted(sums.items()):
        terminalreporter.write_line(f"attack: {tried:,} {what}, {failed:,} failed")
