"""Records from elsewhere: each file is checked, none leads outside the store, and none replaces another record."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from store_records import record

from laptime.model.errors import RecordError, StoreError
from laptime.model.record import SCHEMA, Writer
from laptime.store.disk import write_new
from laptime.store.exchange import import_records, validate
from laptime.store.files import RECORD_FILE_MOST_BYTES, list_records, load, save
from laptime.store.index import home_folder, records_folder
from laptime.store.schema import encode

KEPT = sorted((Path(__file__).parents[1] / "recordings" / "schema-1").glob("*.json.gz"))
ONE, OTHER = "r-2026-11-20-a1b2", "r-2026-11-21-c3d4"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return every test a home of its own."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))


@pytest.fixture
def elsewhere(tmp_path):
    """Return a folder with two records of another machine."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for identity in (ONE, OTHER):
        (folder / f"{identity}.json").write_bytes(encode(record(identity)))
    (folder / "notes.txt").write_text("not a record")
    return folder


def ids():
    return sorted(row.id for row in list_records())


def test_a_file_is_valid_with_its_id_question_and_schema(elsewhere):
    first, second = validate([str(elsewhere)])
    assert (first.valid, first.schema, first.id, first.question) == (True, SCHEMA, ONE, "race")
    assert (second.id, second.why) == (OTHER, None)


def test_a_file_of_an_older_schema_is_valid_and_names_it(tmp_path):
    place = tmp_path / "old.json"
    place.write_bytes(gzip.decompress(KEPT[0].read_bytes()))
    (only,) = validate([str(place)])
    assert (only.valid, only.schema) == (True, 1)


def test_what_is_wrong_has_its_place(tmp_path):
    """The place is a JSON path, as other validators write it."""
    tree = json.loads(encode(record()))
    tree["lanes"][0]["heats"][0]["heat"]["windows"][0]["steps"] = 0
    place = tmp_path / "a.json"
    place.write_text(json.dumps(tree))
    (only,) = validate([str(place)])
    assert (only.valid, only.path) == (False, "$.lanes[0].heats[0].heat.windows[0].steps")
    assert only.why.endswith("windows[0].steps: expected a number above 0, got 0")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("cannot be read as a record", b""),
        ("cannot be read as a record", b'{"dependencies": {}}'),
        ("cannot be read as a record", b"\xff\xfe\x00"),
        ("cannot be read as a record", b"[" * 100_000),
        ("cannot be read as a record", b'{"schema":1e400}'),
        (f"written by a newer laptime (schema {SCHEMA + 1}", b'{"schema": %d}' % (SCHEMA + 1)),
    ],
)
def test_what_is_no_record_is_refused_in_words(tmp_path, words, data):
    place = tmp_path / "a.json"
    place.write_bytes(data)
    (only,) = validate([str(place)])
    assert not only.valid
    assert words in only.why
    with pytest.raises(RecordError) as caught:
        import_records([str(place)])
    assert only.why == caught.value.says


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    """A gigabyte that takes no room on the disk; the message has the limit."""
    place = tmp_path / "huge.json"
    place.touch()
    os.truncate(place, 2**30)
    (only,) = validate([str(place)])
    assert "is larger than a record may be (256 MiB)" in only.why
    with pytest.raises(RecordError, match="256 MiB"):
        load(str(place))


def test_a_pipe_without_end_is_read_up_to_the_limit(tmp_path, monkeypatch):
    """Its size is not known before."""
    monkeypatch.setattr("laptime.store.files.RECORD_FILE_MOST_BYTES", 2**20)
    assert RECORD_FILE_MOST_BYTES > 2**20
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"cat /dev/zero > {pipe}"], stderr=subprocess.DEVNULL):
        (only,) = validate([str(pipe)])
    assert "larger than a record may be" in only.why


def test_a_name_that_means_nothing_is_not_valid_and_the_others_are_checked(elsewhere):
    named = ["gone.json", "r-2000", "/dev/zero", "a\0b", str(elsewhere / f"{ONE}.json")]
    assert [row.valid for row in validate(named)] == [False, False, False, False, True]


def test_records_of_other_machines_are_listed_under_their_ids(elsewhere):
    """The files are copied as they are. A second import changes nothing."""
    assert [row.status for row in import_records([str(elsewhere)])] == ["imported"] * 2
    assert ids() == [ONE, OTHER]
    assert (records_folder() / f"{ONE}.json").read_bytes() == (elsewhere / f"{ONE}.json").read_bytes()
    assert [row.status for row in import_records([str(elsewhere)])] == ["is here already"] * 2


def test_the_same_content_in_another_form_is_here_already(tmp_path):
    """An indented file of the same record, twice."""
    save(record(ONE))
    place = tmp_path / "again.json"
    place.write_text(json.dumps(json.loads(encode(record(ONE))), indent=2))
    assert [row.status for row in import_records([str(place), str(place)])] == ["is here already"] * 2


def test_no_record_is_replaced_by_another_of_its_id(elsewhere):
    """The one here stays, and nothing of the import is written."""
    mine = replace(record(OTHER), elapsed_s=7.0)
    save(mine)
    with pytest.raises(
        RecordError, match=rf"has the id {OTHER}, which .* has with other content; nothing was"
    ) as caught:
        import_records([str(elsewhere)])
    assert f"laptime remove {OTHER}" in caught.value.hint
    assert mine == load(OTHER)
    assert ids() == [OTHER]


def test_two_files_of_one_id_and_other_content_are_refused(elsewhere):
    (elsewhere / "edited.json").write_bytes(encode(replace(record(ONE), elapsed_s=7.0)))
    with pytest.raises(RecordError, match="other content"):
        import_records([str(elsewhere)])
    assert ids() == []


def test_a_damaged_record_here_is_not_replaced(elsewhere):
    records_folder().mkdir(parents=True)
    (records_folder() / f"{ONE}.json").write_text("{")
    with pytest.raises(RecordError, match="other content"):
        import_records([str(elsewhere)])


def test_all_are_checked_before_one_is_written(elsewhere):
    (elsewhere / "z.json").write_text("{")
    with pytest.raises(RecordError, match=r"z\.json cannot be read"):
        import_records([str(elsewhere)])
    assert ids() == []


@pytest.mark.parametrize("identity", ["../../x", "/etc/passwd", "r-2026-11-20-a1b2/../../y", "", "r-2026-11-20-A1B2\n"])
def test_an_id_cannot_lead_outside_the_store(tmp_path, identity):
    place = tmp_path / "a.json"
    place.write_bytes(encode(replace(record(), id=identity)))
    with pytest.raises(RecordError, match=r"\$\.id: expected an id"):
        import_records([str(place)])
    assert not home_folder().exists()


def test_a_race_that_still_runs_elsewhere_is_refused(tmp_path):
    """Its record here would be "running" for ever."""
    place = tmp_path / "a.json"
    place.write_bytes(encode(replace(record(), status="running", writer=Writer("far", 1, "long ago"))))
    with pytest.raises(RecordError, match="still runs"):
        import_records([str(place)])


def test_a_folder_without_records_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"no \.json file in"):
        import_records([str(tmp_path)])


def test_what_cannot_be_written_leaves_nothing_half_written(elsewhere):
    """A file is where the store should be; the message says what to do."""
    home_folder().write_text("mine")
    with pytest.raises(StoreError, match="could not be saved") as caught:
        import_records([str(elsewhere)])
    assert "Import again" in caught.value.hint
    assert home_folder().read_text() == "mine"


def test_a_new_file_never_replaces_one(tmp_path):
    """Also if another process was faster between the check and the writing."""
    place = tmp_path / "a.json"
    write_new(place, b"first")
    with pytest.raises(FileExistsError):
        write_new(place, b"second")
    assert place.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


LINKLESS = """
import errno, os, sys
from pathlib import Path
from laptime.store.disk import write_new
def refuse(event, given):
    if event == "os.link":
        raise OSError(errno.EPERM, "no hard links here")
sys.addaudithook(refuse)
place = Path(sys.argv[1])
write_new(place, b"first")
try:
    write_new(place, b"second")
except FileExistsError:
    print(place.read_text(), len(list(place.parent.iterdir())))
"""


def test_a_file_system_without_hard_links_is_written_too(tmp_path):
    done = subprocess.run([sys.executable, "-c", LINKLESS, tmp_path / "a"], capture_output=True, text=True, check=True)
    assert done.stdout == "first 1\n"


def test_there_are_kept_records_of_every_older_schema():
    """Of each question; a schema may not be raised without."""
    for schema in range(1, SCHEMA):
        kept = (Path(__file__).parents[1] / "recordings" / f"schema-{schema}").glob("*.json.gz")
        trees = [json.loads(gzip.decompress(each.read_bytes())) for each in kept]
        assert {"race", "full", "infer", "why", "profile"} <= {tree["question"] for tree in trees}
        assert {tree["schema"] for tree in trees} == {schema}
