"""Escapes in every string from outside: none reaches a terminal, and JSON keeps them to the letter."""

from __future__ import annotations

import itertools
import json

import msgspec
import pytest
from damage import ESCAPE, plant
from sound_records import literals
from steering import OURS, STEERING
from test_pages_doctor import ILL
from test_pages_peaks import CARD, CHIP, PEAKS
from test_pages_watched import bare, equipped

from laptime.api import showing
from laptime.cli.printing import printable, printable_json
from laptime.model.ask import MadeSet
from laptime.model.protocol import Moment
from laptime.model.quantities import Missing
from laptime.model.record import Progress
from laptime.show import listing
from laptime.store.files import row_of
from laptime.store.index import unreadable_row
from laptime.store.schema import decode

RECORDS = literals()
PAINT = "a\x1b[32mOURS?"  # a colour of our own, which no other program may borrow


def planted(value, text):
    """Return a value with the text before all its strings."""
    return msgspec.convert(plant(msgspec.to_builtins(value), text), type(value))


def planted_record(name, text=ESCAPE):
    return decode(json.dumps(plant(json.loads(RECORDS[name]), text)).encode(), "the file")


def assert_harmless(page, *, color=False):
    """Hold what would be printed against what steers a terminal."""
    sent = printable(page, color=color)
    assert not STEERING.search(OURS.sub("", sent) if color else sent)


@pytest.mark.parametrize("name", RECORDS)
def test_no_string_of_a_record_steers_a_terminal(name):
    """Device names, drivers' words, file names, the last words of a process: on every page, at two widths."""
    record = planted_record(name)
    for width, details in itertools.product((80, 120), (False, True)):
        assert_harmless(showing.as_text(record, showing.View(width, details=details)))
        assert_harmless(showing.as_text(record, showing.View(width, color=True, details=details)), color=True)
    assert_harmless(listing.records_as_text([row_of(record.id, record), unreadable_row(ESCAPE, ESCAPE)], 80))


@pytest.mark.parametrize("name", RECORDS)
def test_no_string_of_a_record_borrows_our_colours(name):
    """A name that brings its own colour could pass for a verdict of ours."""
    page = showing.as_text(planted_record(name, PAINT), showing.View(120, color=True, details=True))
    assert "OURS?" in page
    assert PAINT not in printable(page, color=True)


@pytest.mark.parametrize("name", RECORDS)
def test_json_keeps_every_string_and_steers_nothing(name):
    """What a terminal would obey is JSON's own escape, on an output that holds ASCII alone too."""
    record = planted_record(name, ESCAPE + "é")
    exact = showing.as_json(record)
    for encoding in ("utf-8", "ascii"):
        sent = printable_json(exact, encoding)
        assert not STEERING.search(sent)
        assert json.loads(sent) == json.loads(exact)
        sent.encode(encoding)


@pytest.mark.parametrize("name", ["race failed-lanes", "infer broken"])
def test_a_live_table_steers_nothing(name):
    """With our colours and without."""
    for color in (False, True):
        view = showing.View(100, color=color)
        progress = Progress(ESCAPE, 1.0, 2.0, lanes={"fake/cpu" + ESCAPE: ESCAPE}, notes=(ESCAPE,))
        table = showing.live_lines(planted_record(name), progress, view)
        lap = showing.lap_lines(Moment(ESCAPE, 1, ESCAPE, 3), view)
        assert_harmless("\n".join([*table, *lap]), color=color)


def test_other_pages_steer_nothing():
    """Machines, checkups, peaks and folders of data come from drivers and file systems."""
    for machine in (planted(equipped(), ESCAPE), planted(bare(), ESCAPE)):
        assert_harmless(showing.devices_as_text(machine, 80))
    assert_harmless(showing.checkup_as_text(planted(ILL, ESCAPE), 80, color=True), color=True)
    limits = [(planted(CHIP, ESCAPE), planted(PEAKS, ESCAPE)), (CARD, Missing(ESCAPE))]
    assert_harmless(showing.peaks_as_text(limits, 80))
    made = MadeSet(ESCAPE, f"/tmp/{ESCAPE}", ESCAPE, 10, 2, 1000, "whole")
    assert_harmless(showing.made_data_as_text([made], 80))
    assert_harmless(showing.made_as_text(made, 1.0, was_there=True) + showing.removed_as_text(made))
