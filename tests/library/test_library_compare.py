"""`laptime.compare`: results and names of records, lane by lane."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import lane, record

import laptime
from laptime.library.results import Result
from laptime.model.errors import UsageError

CPU = "torch/cpu/as-written"


def result(identity, step_ms):
    return Result(replace(record((lane(CPU, step_ms, 0.01),)), id=identity))


BEFORE, AFTER = result("r-2026-11-20-aaaa", 100.0), result("r-2026-11-21-bbbb", 120.0)


def test_two_results_are_compared():
    found = laptime.compare(BEFORE, AFTER, fail_above="5%")
    assert (found.failing, found.passed) == ((CPU,), False)
    assert found.lanes[0].ratio == pytest.approx(100 / 120, rel=0.01)
    assert found.to_dict()["failing"] == [CPU]
    assert "1.20x slower than r-2026-11-20-aaaa" in " ".join(repr(found).split())
    assert found.to_markdown().startswith("### laptime: `r-2026-11-21-bbbb`")


def test_without_a_threshold_nothing_fails():
    assert laptime.compare(BEFORE, AFTER).passed


@pytest.mark.parametrize(("given", "says"), [("50", "did you mean 50%"), (True, "expected a number")])
def test_a_threshold_that_is_none_is_refused(given, says):
    with pytest.raises(UsageError, match=says):
        laptime.compare(BEFORE, AFTER, fail_above=given)


def test_what_is_no_result_is_refused():
    with pytest.raises(UsageError, match="3 is no result"):
        laptime.compare(BEFORE, 3)
