"""Pictures that stand alone: those of README and docs are what the command makes, and words stay within them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import drawn_records
import pytest

import docs_pictures
from laptime.api.showing import report_of
from laptime.model.errors import UsageError
from laptime.model.figure import Part, Stack
from laptime.show.drawing.html import as_html
from laptime.show.drawing.pictures import card, standalone


def test_the_pictures_of_the_docs_are_what_the_command_makes():
    """From kept records, so that they can be made again."""
    made = docs_pictures.pictures()
    assert {place.name for place in made} == {place.name for place in docs_pictures.PICTURES.glob("*-*.svg")}
    assert [place.name for place, text in made.items() if place.read_text(encoding="utf-8") != text] == []


def test_a_card_has_the_number_its_ends_and_where_it_is_from():
    report = report_of(drawn_records.SHOWN["turns"]())
    said = " ".join(each.text or "" for each in ET.fromstring(card(report)).iter())
    for words in ("1.50x", "1.44-1.57 at 95 %", "torch/cpu/best is faster than torch/cpu as written", report.id):
        assert words in said


def test_a_card_of_a_tuning_shows_the_end_of_its_search():
    said = [each.text or "" for each in ET.fromstring(card(report_of(drawn_records.SHOWN["tune"]()))).iter()]
    assert "again: bf16+malloc=keep" in said
    assert not any("channels_last" in each for each in said)


@pytest.mark.parametrize(("name", "words"), [("watched-loop", "waiting for data 87 %"), ("profile", "88.2 ms")])
def test_a_card_without_factors_shows_parts_or_bars(name, words):
    """The first of the report, as many rows as there is room for."""
    said = " ".join(each.text or "" for each in ET.fromstring(card(report_of(drawn_records.SHOWN[name]()))).iter())
    assert words in said
    assert "small_00" not in said


def test_a_card_that_is_not_reliable_says_it():
    report = report_of(drawn_records.SHOWN["disturbed"]())
    assert "NOT RELIABLE" in card(report)


def test_several_records_of_one_training_begin_with_all_their_lanes():
    """On one scale, without a factor: lanes of two records took no turns with each other."""
    one = report_of(drawn_records.SHOWN["turns"]())
    page = as_html([one, replace(one, id="r-2026-11-21-ffff", machine="16 x AMD EPYC")])
    begin = page[: page.index('<section class="record"')]
    assert "All records" in begin
    assert begin.count("torch/cpu/best, 16 x AMD EPYC, r-2026-11-21-ffff") > 0
    assert "No factor is computed across records" in begin
    assert "All records" not in as_html([one])
    assert "All records" not in as_html([one, report_of(drawn_records.SHOWN["training"]())])


def test_without_a_number_there_is_no_card():
    report = replace(report_of(drawn_records.SHOWN["race"]()), glance=None)
    with pytest.raises(UsageError, match="no single number"):
        card(report)


def test_parts_that_are_no_whole_are_not_drawn():
    """A stack whose parts come to more or less than the whole hides something."""
    with pytest.raises(ValueError, match="114 %"):
        standalone(Stack((("a step", (Part("computing", 0.97), Part("exchange", 0.17))),)), "parts", {})
    with pytest.raises(ValueError, match="90 %"):
        standalone(Stack((("a step", (Part("computing", 0.73), Part("exchange", 0.17))),)), "parts", {})
