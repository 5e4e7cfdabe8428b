"""Figures that no laptime writes are refused with their place, and sound ones are not."""

from __future__ import annotations

import json

import pytest
from store_records import record

from laptime.model.errors import RecordError
from laptime.store.schema import DEEPEST, decode, encode

RESULT = ("lanes", 0, "heats", 0)
WINDOW = (*RESULT, "heat", "windows", 0)


def edited(value, *path):
    """Return a record's file with one value changed."""
    tree = json.loads(encode(record()))
    held = tree
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    ("expected", "value", "path"),
    [
        ("$.lanes[0].heats[0].step_ms: expected a number from 0 on, got -1", -1, (*RESULT, "step_ms")),
        ("$.lanes[0].heats[0].heat.windows[0].steps: expected a number above 0, got 0", 0, (*WINDOW, "steps")),
        ("$.lanes[0].step_ms.median: expected a number from 0 on, got -2.5", -2.5, ("lanes", 0, "step_ms", "median")),
        ("$.answer.comparisons[0].ratio: expected a number above 0, got 0", 0, ("answer", "comparisons", 0, "ratio")),
        ("$.elapsed_s: expected a number from 0 on, got -1", -1, ("elapsed_s",)),
        ("$.id: expected an id such as r-2026-11-20-a1b2", "../../x", ("id",)),
        ("a whole number has more than 64 bits", 10**30, ("lanes", 0, "items_per_step")),
        ("a whole number has more than 64 bits", [0, 10**30], (*WINDOW, "step_ns")),
    ],
)
def test_a_figure_that_no_laptime_writes_is_refused(expected, value, path):
    """With its place: a user who edited the file wants to find it."""
    with pytest.raises(RecordError) as caught:
        decode(edited(value, *path), "a.json")
    assert caught.value.says == f"a.json cannot be read as a record: {expected}"


@pytest.mark.parametrize(("deep", "is_read"), [(DEEPEST - 4, True), (DEEPEST + 1, False), (500, False), (5_000, False)])
def test_a_record_may_not_be_nested_too_deep(deep, is_read):
    """Whatever reads it goes as deep as it does."""
    data = encode(record()).replace(b'"three"', b"[" * deep + b"1" + b"]" * deep)
    if is_read:
        assert decode(data, "a.json").findings
        return
    with pytest.raises(RecordError, match=r"nested more than 64 deep|recursion"):
        decode(data, "a.json")


@pytest.mark.parametrize("value", [0, 0.0, 1e308, 5e-324])
def test_an_odd_figure_is_no_fault(value):
    """What could be, however odd, is the owner's business."""
    assert decode(edited(value, "elapsed_s"), "a.json").elapsed_s == value
