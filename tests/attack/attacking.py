"""How long attacks go on, and a tally of what was tried and what failed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

IS_LONG = os.environ.get("LAPTIME_ATTACK") == "long"


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
