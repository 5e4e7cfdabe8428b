"""Exit codes of records: a result that cannot be trusted comes before one that is incomplete."""

from __future__ import annotations

from dataclasses import replace

import pytest
import records
import why_records

from laptime.cli.questions import exit_code
from laptime.diagnosis.findings import find_unreliable

BUSY = ("other processes took 0.9 cores", "other processes took 0.8 cores", None)


def lanes_with(flags):
    return (replace(records.FIRST, heats=(records.heat(92.2, flags=flags),)), records.BEST)


@pytest.mark.parametrize(
    ("expected", "record"),
    [
        (0, records.two_lanes()),
        (3, records.failed_lanes()),
        (4, records.differing()),
        (4, replace(records.two_lanes(), findings=find_unreliable(lanes_with(BUSY)))),
        (0, replace(records.two_lanes(), findings=find_unreliable(lanes_with((BUSY[0], None, None))))),
        (4, why_records.not_trusted()),
        (130, records.interrupted()),
    ],
    ids=["answered", "failed lane", "other work", "busy", "hardly busy", "noise in why", "interrupted"],
)
def test_a_record_ends_in_its_exit_code(expected, record):
    assert exit_code(record, saved=True) == expected


def test_a_race_on_a_busy_machine_says_which_lane_was_disturbed():
    """Two in five of its windows; the finding has the figures."""
    (found,) = find_unreliable(lanes_with(BUSY))
    assert (
        found.says
        == "2 of 3 windows of torch/cpu/as-written that count were disturbed (other processes took 0.8 cores)."
    )
    assert found.evidence == {"disturbed": 2, "windows": 3}


def test_what_could_not_be_saved_is_not_a_success():
    assert exit_code(records.two_lanes(), saved=False) == 3
