"""A list's line of one record."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_records import record

from laptime.model.quantities import Missing
from laptime.model.record import RaceAnswer
from laptime.store.files import list_records, load, save


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("same_work", "said"),
    [(True, ", torch/cpu/best 1.49x faster than torch/cpu"),
     (Missing("it draws"), ", torch/cpu/best 1.49x faster than torch/cpu (same work unproven)"),
     (False, "")],
)  # fmt: skip
def test_a_list_says_of_a_factor_whether_the_work_was_proven(same_work, said):
    """Its one line has no column for the proof; of other work there is no factor."""
    made = record()
    compared = tuple(replace(each, same_work=same_work) for each in made.answer.comparisons)
    save(replace(made, answer=RaceAnswer(compared)))
    assert load(made.id).answer.comparisons[0].same_work == same_work
    assert list_records()[0].summary == f"1 lane{said}"
