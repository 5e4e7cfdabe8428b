"""Records come in from other machines and are checked on the command line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

KEPT = Path(__file__).parents[1] / "recordings" / "schema-1"
ESCAPE = "\x1b]0;title\x07"


@pytest.fixture
def theirs(tmp_path):
    """Return a folder with two real records of an older laptime."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("race", "profile"):
        (folder / f"{name}.json").write_bytes(gzip.decompress((KEPT / f"{name}.json.gz").read_bytes()))
    return folder


def test_imported_records_are_listed_and_shown(house, theirs):
    out = house.done("import", str(theirs)).out
    assert out == "r-2026-11-23-8f5f imported\nr-2026-11-23-3872 imported\n"
    assert {row["id"] for row in house.run("list", "--json").json} == {"r-2026-11-23-8f5f", "r-2026-11-23-3872"}
    assert "fake/cuda" in house.done("show", "r-2026-11-23-3872").out
    again = house.done("import", str(theirs / "race.json"), "--json").json
    assert again == [{"id": "r-2026-11-23-3872", "file": str(theirs / "race.json"), "status": "is here already"}]


def test_valid_files_end_with_0_and_others_with_1(house, theirs):
    assert (
        "race.json: valid, r-2026-11-23-3872, race, schema 1"
        in house.done("validate", str(theirs), env={"COLUMNS": "300"}).out
    )
    (theirs / f"bad{ESCAPE}.json").write_text('{"schema": 99}')
    answer = house.done("validate", str(theirs), code=1)
    assert "NOT VALID:" in answer.out
    assert "newer laptime" in " ".join(answer.out.split())
    assert "\x1b" not in answer.out
    rows = house.done("validate", str(theirs), "--json", code=1).json
    assert sorted(row["valid"] for row in rows) == [False, True, True]
    assert [row["id"] for row in rows if row["valid"]] == ["r-2026-11-23-8f5f", "r-2026-11-23-3872"]


def test_whose_a_record_is_is_said(house, theirs):
    """Of a file by its signature, and of a copy without one by the record that is here."""
    notice = "This record bears no signature of yours"
    house.done("race", "cifar-cnn", "fake/cpu", "--heats", "1", "-q")
    [own] = house.files()
    copy = house.folder / "copy.json"
    copy.write_text(house.done("show", own.stem, "--json").out)
    checks = house.done("validate", own.stem, str(copy), str(theirs / "race.json"), "--json").json
    assert [each["signed"] for each in checks] == [True, True, False]
    assert notice in house.done("show", str(theirs / "race.json"), "--details").err
    assert [notice in house.done("show", name).err for name in ("latest", str(copy))] == [False, False]


def test_a_refused_import_says_what_to_do(house, theirs):
    """As an object for other programs, too."""
    (theirs / "race.json").write_text("{}")
    answer = house.done("import", str(theirs), "--json", code=2)
    assert "$.schema: expected the number of a schema" in answer.json["error"]["says"]
    assert house.files() == []
