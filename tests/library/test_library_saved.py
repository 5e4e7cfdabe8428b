"""Saved results from Python: raced against again, followed, reported, and as tables for pandas."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
import webbrowser
from dataclasses import replace
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from records import lane, record, two_lanes

import laptime
from laptime.library.calls import judge
from laptime.library.results import Result
from laptime.model.errors import LaptimeError, UsageError
from laptime.questions.race.call import RaceResult
from laptime.store.exports import TABLES
from laptime.store.schema import encode

LANES = ["fake/cpu", "fake/cpu/best"]
SPREAD = '["fake/cpu/as-written"]\nstep_ms = {step_ms}\nspread = 0.001\n'
BEST = "fake/cpu/best"
CPU = "fake/cpu/as-written"


@pytest.fixture(scope="module")
def raced(shared_house):
    """Race, and race again when one of the lanes takes a fifth longer."""
    with pytest.MonkeyPatch.context() as patched:
        shared_house.script(SPREAD.format(step_ms=100.0))
        for name, value in shared_house.environment().items():
            patched.setenv(name, value)
        patched.chdir(shared_house.folder)
        first = laptime.race("cifar-cnn", LANES, heats=2, budget="30s", label="main")
        time.sleep(1.0)  # records of one second have no order
        shared_house.script(SPREAD.format(step_ms=120.0))
        again = laptime.race(against="@main", fail_above="5%", label="topic", progress=False)
        yield first, again


def test_a_race_against_another_is_the_same_race_and_is_compared(raced):
    first, again = raced
    assert replace(again.record.ask, lanes=(), label=None) == replace(first.record.ask, lanes=(), label=None)
    assert [each.name for each in again.lanes] == [each.name for each in first.lanes] == [CPU, BEST]
    found = again.comparison
    assert (found.failing, found.passed) == ((CPU,), False)
    assert [each.verdict for each in found.lanes] == ["slower", "not distinguishable"]
    assert found.lanes[0].ratio == pytest.approx(1 / 1.2, rel=0.02)


def test_its_page_ends_with_the_comparison(raced):
    """In a terminal and, below the report, in a notebook."""
    first, again = raced
    page, compared = again.page(width=100), again.comparison.page(width=100)
    assert page == f"{Result(again.record).page(width=100)}\n\n{compared}"
    assert "Gate FAILED: slower by more than 5 %: fake/cpu" in compared
    assert unescape(again._repr_html_()).endswith(f">{compared}</pre>")
    assert again.to_dict()["id"] == again.id
    assert first._repr_html_().endswith("</details>")


def test_a_race_that_was_compared_with_nothing_says_how_to(raced):
    with pytest.raises(UsageError, match="was compared with nothing") as caught:
        _ = raced[0].comparison
    assert "against='@main'" in caught.value.hint


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda before: laptime.race("cifar-mlp", against=before), "as it was, and what would change it"),
        (lambda before: laptime.race(lanes="cpu", against=before, heats=9), "and lanes, heats would change it"),
        (lambda before: laptime.race(against="@nothing"), "no record has the label"),
        (lambda before: laptime.race(against=3), "3 is no result"),
        (lambda before: laptime.race(against=replace(before, record=replace(before.record, question="full"))),
         "is no race, and against runs a race again"),
        (lambda before: laptime.race("cifar-cnn", LANES, fail_above="5%"), "fail_above compares two trainings"),
        (lambda before: laptime.race("cifar-cnn", LANES, fail_above="50"), "did you mean 50%"),
        (lambda before: laptime.history("cifar-cm"), "did you mean cifar-cnn?"),
        (lambda before: laptime.history("cifar-cnn", "gpu"), "has the lane 'gpu'"),
        (lambda before: laptime.history("cifar-cnn", question="why"), "a history is of one question"),
        (lambda before: laptime.history("cifar-cnn", limit=-1), "limit=-1: expected a whole number from 0"),
        (lambda before: laptime.history("cifar-cnn", limit="9"), "limit='9': expected a whole number"),
        (lambda before: laptime.report(3), "3 is no result"),
        (lambda before: laptime.report(before, output="-"), "output='-' prints on the command line only"),
        (lambda before: laptime.report(before, format="pdf"), "'pdf' is no format of a report"),
        (lambda before: before.to_pandas("laps"), "has no laps"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_in_words(raced, call, says):
    """And nothing has run."""
    saved = laptime.records()
    with pytest.raises(LaptimeError) as caught:
        call(raced[0])
    assert says in str(caught.value)
    assert caught.value.hint
    assert saved == laptime.records()


def test_a_race_that_cannot_be_compared_is_kept_with_the_reason():
    """It took its time: what was measured is not lost."""
    before, other = (
        record((lane(CPU, 100.0, 0.01),)),
        replace(record((lane(BEST, 100.0, 0.01),)), id="r-2026-11-21-bbbb"),
    )
    result = RaceResult(other, judged=judge(before, other, None))
    with pytest.raises(UsageError, match="no lane") as caught:
        _ = result.comparison
    assert result.page(width=400).splitlines()[-1] == f"Not compared: {caught.value.says}. {caught.value.hint}"
    stopped = judge(before, replace(other, status="interrupted"), None)
    assert str(stopped).startswith(f"{other.id} was interrupted, and not compared")


def test_a_lane_is_followed_through_the_records(raced):
    first, again = raced
    followed = laptime.history("cifar-cnn", "fake/cpu")
    assert (followed.lane, followed.others, followed.left_out) == (CPU, (BEST,), ())
    assert [each.id for each in followed.points] == [first.id, again.id]
    assert followed.points[1].change.verdict == "slower"
    assert followed.to_dict()["points"][1]["id"] == again.id
    assert "Last change beyond noise: 1.20x slower" in " ".join(str(followed).split())
    assert followed._repr_html_().startswith("<pre ")
    assert [each.id for each in laptime.history("cifar-cnn", limit=1).points] == [again.id]


def test_a_function_is_followed_by_its_file(raced, shared_house, monkeypatch):
    """A record has the file's name, and the call its whole path."""
    held = raced[0].record
    workload = replace(held.workload, name="own_steps.py:training")
    named = replace(held, id="r-2026-11-01-aaaa", started="2026-11-01T10:00:00+00:00", workload=workload)
    (shared_house.home / "records" / f"{named.id}.json").write_bytes(encode(named))
    (shared_house.folder / "own_steps.py").write_text("def training(): ...\n")
    monkeypatch.syspath_prepend(shared_house.folder)
    function = importlib.import_module("own_steps").training
    for what in (function, "own_steps.py:training", shared_house.folder / "own_steps.py:training"):
        assert [each.id for each in laptime.history(what).points] == [named.id]


def test_a_long_history_is_short_unless_more_is_asked_for(raced):
    """As the command's: 40 lines, all with a limit, and all in details."""
    followed = laptime.history("cifar-cnn", "fake/cpu")
    long = replace(followed, history=replace(followed.history, points=followed.points * 40))
    assert len(long.page(width=100).splitlines()) <= 40
    whole = long.page(width=100, details=True)
    assert len(whole.splitlines()) > 80
    assert replace(long, is_short=False).page(width=100) == whole


def test_a_report_of_several_is_a_file_and_its_path_is_returned(raced, tmp_path):
    first, again = raced
    assert laptime.report() == Path(f"{again.id}.html")
    place = laptime.report(first, again.id, output=tmp_path / "both.md")
    text = place.read_text(encoding="utf-8")
    assert text.index(first.id) < text.index(again.id)
    pictures = laptime.report(first, output=tmp_path / "charts", format="svg")
    assert {each.suffix for each in pictures.iterdir()} == {".svg"}


def test_a_report_is_shown_in_the_browser(raced, tmp_path, monkeypatch):
    """A browser that notes its address; and none at all."""
    noted = tmp_path / "noted"
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    monkeypatch.setattr(webbrowser, "_browsers", {})
    place = tmp_path / "race.html"
    with pytest.warns(RuntimeWarning, match=f"no browser was found; open {place.as_uri()}") as warned:
        laptime.report(raced[0], output=place, open=True)
    assert warned[0].filename == __file__
    webbrowser.register("noting", None, webbrowser.GenericBrowser(["sh", "-c", f"echo $0 > {noted}", "%s"]))
    with warnings.catch_warnings(action="error"):
        raced[0].report(place, open=True)
    assert noted.read_text().strip() == place.as_uri()


def test_a_record_is_a_table_for_each_of_its_kinds(raced):
    lanes = raced[0].to_pandas()
    assert isinstance(lanes, pd.DataFrame)
    assert list(lanes["lane"]) == [CPU, BEST]
    assert lanes["items_per_s"][0] == raced[0].lanes[0].items_per_s
    assert list(lanes.columns) == list(next(iter(TABLES["lanes"](raced[0].record))))
    held = {name: len(list(make(raced[0].record))) for name, make in TABLES.items()}
    assert {name: len(raced[0].to_pandas(name)) for name, rows in held.items() if rows} == {
        name: rows for name, rows in held.items() if rows
    }


def test_what_is_missing_is_an_empty_cell():
    table = Result(
        record((replace(lane(CPU, 100.0, 0.01), energy_j_per_lap=laptime.Missing("no sensor")),))
    ).to_pandas()
    assert table["energy_j_per_lap"].isna().all()


def test_comparisons_and_histories_are_tables(raced):
    compared = raced[1].comparison.to_pandas()
    assert list(compared["lane"]) == [CPU, BEST]
    assert list(compared["fails"]) == [True, False]
    assert compared["ratio_low"][0] < compared["ratio"][0] < compared["ratio_high"][0]
    followed = laptime.history("cifar-cnn", "fake/cpu").to_pandas()
    assert list(followed["record"]) == [each.id for each in raced]
    assert followed["ratio"].isna().tolist() == [True, False]
    assert list(followed["label"]) == ["main", "topic"]


def test_without_pandas_the_error_has_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="needs pandas, which is not installed\npip install pandas"):
        Result(two_lanes()).to_pandas()
