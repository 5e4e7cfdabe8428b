"""`laptime board` as users type it: what is written, what is refused and with which exit code, and its JSON."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import board_records
import click
import pytest
from board_records import files_of, kept, write

from laptime.cli.main import find_command
from laptime.show.board.evidence import canonical, compress, strip

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def raced(shared_house):
    """A house with a race of fakes, and a real record as a file."""
    shared_house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    place = shared_house.folder / "real.json"
    place.write_bytes(board_records.encoded(kept()))
    return shared_house


def test_every_part_of_it_has_help(raced):
    group = find_command("board")
    assert isinstance(group, click.Group)
    assert set(group.commands) == {"add", "remake", "check", "predict", "build", "repeat"}
    for command in group.commands.values():
        assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == []
    told = raced.done("board", "--help").out
    assert all(f"  {name} " in told for name in group.commands)


def test_from_a_record_to_the_pages(raced, tmp_path):
    """The three steps of docs/board.md, and the pages."""
    board = str(tmp_path / "board")
    added = raced.done("board", "add", "real.json", "-o", board, "--json").json
    assert added["record"] == kept().id
    assert len(added["files"]) == 3
    assert added["refused"] == {}
    checked = raced.done("board", "check", board, "--json").json
    assert (checked["rows"], checked["records"], checked["faults"]) == (2, 1, [])
    assert raced.done("board", "check", board).out == "2 rows of 1 record: all are good.\n"
    raced.done("board", "predict", "real.json", "cpu/best", "-o", board)
    assert raced.done("board", "check", board).out == "2 rows of 1 record: all are good.\n"
    built = raced.done("board", "build", board, "-o", str(tmp_path / "site"), "--json").json
    assert built["rows"] == 2
    page = (tmp_path / "site" / "cifar-cnn.html").read_text(encoding="utf-8")
    assert all(f'<tr class="{kind}">' in page for kind in "mrp")
    assert "laptime race cifar-cnn" in page


def test_what_others_sent_stays(raced, tmp_path):
    """A change that deletes or edits a row or a record of the board before it is refused, file by file."""
    before, now = tmp_path / "before", tmp_path / "now"
    write(files_of(strip(kept())), before)
    write(files_of(strip(kept())) | files_of(strip(kept("scenes-cnn-h100"))), now)
    assert raced.done("board", "check", str(now), "--against", str(before), "--json").json["faults"] == []
    lost = raced.done("board", "check", str(before), "--against", str(now), "--json", code=1).json["faults"]
    assert len(lost) == len(files_of(strip(kept("scenes-cnn-h100"))))
    assert {(each["check"], each["says"]) for each in lost} == {("kept", "it was on the board, and is gone")}
    edited = now / board_records.row_names(files_of(strip(kept())))[0]
    edited.write_bytes(edited.read_bytes() + b" ")
    said = raced.done("board", "check", str(now), "--against", str(before), code=1).out
    assert f"{edited.relative_to(now)}: it was on the board, and was changed" in said
    empty = tmp_path / "empty"
    empty.mkdir()
    for words in ([str(empty)], [str(now), "--against", str(empty)]):
        refused = raced.run("board", "check", *words)
        assert (refused.code, f"{empty} has nothing of a board" in refused.err) == (2, True)


def test_rows_are_made_again_from_their_records(raced, tmp_path):
    """As after a change of the table of devices: the row is in the folder of another device."""
    files = files_of(strip(kept()))
    first, second = board_records.row_names(files)
    moved = f"rows/cifar-cnn/elsewhere/{Path(first).name}"
    write({**{name: data for name, data in files.items() if name != first}, moved: b"{}"}, tmp_path)
    made = raced.done("board", "remake", str(tmp_path), "--json").json
    assert made == {"unchanged": 2, "changed": [str(tmp_path / first)], "removed": [str(tmp_path / moved)]}
    assert (tmp_path / first).read_bytes() == files[first]
    assert raced.done("board", "remake", str(tmp_path)).out == "3 files as before\n"
    (tmp_path / second).unlink()  # a lane whose row was not wanted gets none
    assert raced.done("board", "remake", str(tmp_path)).out == "2 files as before\n"


@pytest.mark.parametrize(("figure", "value"), [("lap_s", 1e308), ("step_ms", 1e-308), ("lap_s", 1e19)])
def test_a_row_with_a_time_that_cannot_be_is_refused_in_words(raced, tmp_path, figure, value):
    """What is computed with it would be no finite number."""
    files = files_of(strip(kept()))
    name = board_records.row_names(files)[0]
    row = json.loads(files[name])
    row[figure]["middle"] = value
    write({**files, name: json.dumps(row).encode()}, tmp_path / "board")
    answer = raced.run("board", "build", str(tmp_path / "board"), "-o", str(tmp_path / "site"))
    assert answer.code == 2
    assert "has a step or a lap that takes no time, or a number that nothing has" in answer.err


@pytest.mark.parametrize("value", [1e308, 1e-320])
def test_a_record_with_a_step_that_cannot_be_has_no_row(raced, tmp_path, value):
    """Its mean over rounds is no finite number; the other lane's row stays."""
    record = strip(kept())
    files = files_of(record)
    first, *others = record.lanes
    heats = tuple(replace(heat, step_ms=value) for heat in first.heats)
    lane = replace(
        first, heats=heats, step_ms=replace(first.step_ms, median=value), lap_s=replace(first.lap_s, median=value)
    )
    damaged = canonical(replace(record, lanes=(lane, *others)))
    write({**files, board_records.record_name(files): compress(damaged)}, tmp_path)
    made = raced.done("board", "remake", str(tmp_path), "--json").json
    assert len(made["removed"]) == 1


def test_a_training_whose_step_is_not_finite_has_no_row(raced, tmp_path):
    record = strip(board_records.trained())
    files = files_of(record)
    runs = tuple(
        replace(run, laps=tuple(replace(lap, train_s=1e308) for lap in run.laps)) for run in record.answer.runs
    )
    damaged = canonical(replace(record, answer=replace(record.answer, runs=runs)))
    write({**files, board_records.record_name(files): compress(damaged)}, tmp_path)
    made = raced.done("board", "remake", str(tmp_path), "--json").json
    assert made["removed"] == [str(tmp_path / board_records.row_names(files)[0])]


def test_predictions_that_cannot_be_are_refused_in_words(raced, tmp_path):
    shutil.copytree(ROOT / "board", tmp_path / "board")
    place = tmp_path / "board" / "predicted" / "cifar-cnn.json"
    found = json.loads(place.read_bytes())
    found["rows"][0]["lap_s"] = 1e308
    place.write_text(json.dumps(found))
    answer = raced.run("board", "build", str(tmp_path / "board"), "-o", str(tmp_path / "site"))
    assert (answer.code, "predicts a time that nothing takes" in answer.err) == (2, True)


def test_fakes_have_no_row(raced, tmp_path):
    answer = raced.run("board", "add", "latest", "-o", str(tmp_path / "board"))
    assert answer.code == 2
    assert "it is a fake, whose figures are made up" in answer.err
    assert not (tmp_path / "board").exists()


def test_a_dishonest_board_ends_in_1_and_names_the_file(raced, tmp_path):
    files = files_of(strip(kept()))
    name = board_records.row_names(files)[0]
    write({**files, name: files[name].replace(b'"turns": ', b'"turns": 1')}, tmp_path)
    answer = raced.done("board", "check", str(tmp_path), code=1)
    assert f"{name}: its digest is not that of what it says" in answer.out
    assert "2 rows of 1 record: 1 file refused." in answer.out
    assert [each["file"] for each in raced.done("board", "check", str(tmp_path), "--json", code=1).json["faults"]] == [
        name
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("check", "nothing"), "is no folder"),
        (("build", "nothing"), "has no folder rows/"),
        (("repeat", "nothing.json"), "cannot be read"),
        (("add", "real.json", "--lane", "cuda"), "no such lane"),
        (("predict", "latest"), "is not on the board"),
    ],
)
def test_a_wrong_request_is_refused_in_words(raced, words, says):
    answer = raced.run("board", *words)
    assert answer.code == 2
    assert says in answer.err


def test_a_row_of_a_stranger_is_not_run(raced, tmp_path):
    """Its lane is no lane by laptime's grammar, so nothing starts."""
    tree = json.loads(files_of(strip(kept()))[board_records.row_names(files_of(strip(kept())))[0]])
    tree["lane"] = "torch/cpu/best; touch hacked"
    (tmp_path / "row.json").write_text(json.dumps(tree))
    answer = raced.run("board", "repeat", str(tmp_path / "row.json"))
    assert answer.code == 2
    assert "is not a setting" in answer.err
    assert list(tmp_path.glob("hacked")) == list(raced.folder.glob("hacked")) == []
