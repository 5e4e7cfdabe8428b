"""A column is added from outside by one row: it is on the race's page, and leaves a narrow one."""

from __future__ import annotations

import pytest
from records import two_lanes

from laptime.api import showing
from laptime.show.pages.lanes import RACE_COLUMNS
from laptime.show.pages.page import RecordColumn


def count_windows(lane, _record):
    return str(sum(len(result.heat.windows) for result in lane.heats))


@pytest.fixture(autouse=True)
def windows():
    """Add the row, as a program that uses laptime would."""
    row = RecordColumn("windows", count_windows, right=True, leaves=1)
    RACE_COLUMNS.append(row)
    yield row
    RACE_COLUMNS.remove(row)


def row_of(lines, name):
    return next(line for line in lines if line.startswith(name))


def test_the_page_has_the_column():
    """Its head is in the table's first line, and each lane has its value."""
    record = two_lanes()
    lines = showing.as_text(record, showing.View(200, details=True)).splitlines()
    assert lines[2].endswith("windows")
    for lane in record.lanes:
        name = lane.name.removesuffix("/as-written")
        assert row_of(lines[3:], name).split()[-1] == count_windows(lane, record)


def test_a_narrow_page_does_without_it():
    """It may leave first, and the columns that answer the question stay."""
    record = two_lanes()
    head = row_of(showing.as_text(record, showing.View(80, details=True)).splitlines(), "lane")
    assert "windows" not in head
    assert "against first" in head
