"""Records that were damaged, edited by hand or written by a newer laptime are named, and the others stay readable."""

from __future__ import annotations

import json

import pytest

from laptime.model.frameworks import upgrade_command


@pytest.fixture(scope="module")
def good(shared_house):
    """Make one good record, to be damaged in copies."""
    shared_house.race("fake/cpu", "--heats", "1")
    (place,) = shared_house.files()
    return place.read_bytes()


def edited(good, **changes):
    return json.dumps({**json.loads(good), **changes}).encode()


SPOILT = {
    "empty": lambda good: b"",
    "cut off": lambda good: good[: len(good) // 2],
    "not JSON": lambda good: b"\x00\xff binary",
    "a list": lambda good: b"[1, 2]",
    "no schema": lambda good: b"{}",
    "a schema in words": lambda good: edited(good, schema="one"),
    "lanes of another kind": lambda good: edited(good, lanes="none"),
    "a lane without its name": lambda good: edited(good, lanes=[{}]),
    "a status of your own": lambda good: edited(good, status="splendid"),
    "nested too deep": lambda good: b"[" * 100_000,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_spoilt_record_is_refused_in_words(house, good, spoil, words):
    """Which file, what is wrong with it, and that the others are not touched; exit code 2."""
    place = house.home / "records" / "r-2026-01-01-0000.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(spoil(good))
    answer = house.run("show", place.stem, *words)
    assert answer.code == 2
    first, second = answer.err.splitlines()
    assert first.startswith(f"laptime: {place} cannot be read as a record: ")
    assert second.startswith("  The other records are not touched")
    if not words:
        assert answer.out == ""
    else:
        told = {"kind": "record", "says": first.removeprefix("laptime: "), "hint": second.strip(), "exit_code": 2}
        assert answer.json == {"error": told}


def test_a_record_of_a_newer_laptime_says_so(house, good):
    """It is not damaged: the way out is an upgrade."""
    place = house.home / "records" / "r-2026-01-01-0000.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(edited(good, schema=99))
    answer = house.run("show", place.stem)
    assert (answer.code, answer.out) == (2, "")
    assert f"{place} was written by a newer laptime (schema 99; this one reads up to 3)" in answer.err
    assert upgrade_command() in answer.err


def test_a_spoilt_record_stands_in_the_list_with_its_reason(house, good):
    """The good one next to it is listed, and is the latest that can be shown."""
    folder = house.home / "records"
    folder.mkdir(parents=True)
    (folder / "r-2026-01-01-0000.json").write_bytes(good[:100])
    (folder / "r-2026-01-01-0001.json").write_bytes(good)
    answer = house.run("list", "--json")
    rows = {row["id"]: row for row in answer.json}
    assert answer.code == 0
    assert rows["r-2026-01-01-0001"]["unreadable"] is None
    assert "cannot be read as a record" in rows["r-2026-01-01-0000"]["unreadable"]
    assert "unreadable:" in house.run("list").out
    assert house.run("show", "latest").code == 0


def test_an_edited_figure_is_shown_as_it_stands(house, good):
    """Editing is the owner's business, as long as it is still a record."""
    record = json.loads(good)
    record["lanes"][0]["step_ms"]["median"] = 123.0
    place = house.folder / "mine.json"
    place.write_text(json.dumps(record))
    assert "123 ms" in house.run("show", str(place)).out


def test_what_was_left_behind_by_a_writer_that_died_is_no_record(house, good):
    """A temporary file is neither listed nor in the way."""
    folder = house.home / "records"
    folder.mkdir(parents=True)
    (folder / ".r-2026-01-01-0000.somewhere.999999.laptime.tmp").write_bytes(good[:50])
    assert house.run("list", "--json").json == []
    assert house.race("fake/cpu", "--heats", "1").code == 0
    assert len(house.run("list", "--json").json) == 1
