"""What a page says of a system that cannot keep a candidate from everything."""

from __future__ import annotations

from laptime.model.process import REACHES, ProcessRun
from laptime.show.pages.footnotes import reaches


def test_what_a_system_cannot_keep_a_candidate_from_is_named_once():
    """Nothing where a sandbox keeps it from all, or where there was none."""
    run = [ProcessRun("cpu", "ok", reaches=each) for each in ((REACHES[3],), (REACHES[2], REACHES[3]), (), None)]
    assert reaches(run) == [
        "This system cannot keep a candidate from sending signals and keeping data in shared memory (docs/limits.md)."
    ]
    assert reaches(run[2:]) == []
