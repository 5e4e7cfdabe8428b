"""How long attacks go on, and a tally of what was tried and what failed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

TALLY = "attack"
IS_LONG = os.environ.get("LAPTIME_ATTACK") == "long"
THIRDS = 3
# Which third of the attacks `make test` tries is drawn by the date, and printed; `make test-all` tries the others. The
# first process decides for those that it starts.
VARIABLE = "LAPTIME_ATTACK_THIRD"
TODAY = int(os.environ.setdefault(VARIABLE, str(datetime.now(UTC).toordinal() % THIRDS + 1)))


def in_thirds() -> list[Any]:
    """Return the numbers of the thirds, as a parameter of a test that tries one: all but that of today are long."""
    return [pytest.param(each, marks=[pytest.mark.long] * (each != TODAY)) for each in range(1, THIRDS + 1)]


def third(number: int, rows: Sequence[Any]) -> Sequence[Any]:
    """Return every third row, from the one with this number on."""
    return rows[number - 1 :: THIRDS]


@dataclass
class Tally:
    """How often something was tried, and each time that it failed."""

    what: str = ""
    tried: int = 0
    failed: list[str] = field(default_factory=list)

    def note(self, failure: str | None) -> None:
        """Count one try; `failure` says what went wrong in it, if anything did."""
        self.tried += 1
        if failure:
            self.failed.append(failure)

    def check(self, least: int = 1) -> None:
        """End a test: it tried at least this often, and nothing failed."""
        shown = "\n".join(self.failed[:20])
        assert not self.failed, f"{len(self.failed)} of {self.tried} {self.what} failed:\n{shown}"
        assert self.tried >= least


def sums_of(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Return a line for each kind of attack, in the form in which docs/reliability.md has it, and which part it was."""
    sums: dict[str, tuple[int, int]] = {}
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == TALLY and report.when == "teardown":
                what, tried, failed = value
                before = sums.get(what, (0, 0))
                sums[what] = (before[0] + tried, before[1] + failed)
    for what, (tried, failed) in sorted(sums.items()):
        yield f"attack: {tried:,} {what}, {failed:,} failed"
    if sums and not IS_LONG:
        yield f"attack: part {TODAY} of {THIRDS}, by the date; to try it once more: {VARIABLE}={TODAY} make test"
