"""What `laptime board check` refuses: a thousand damaged or dishonest boards, each in a sentence."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import board_records
import pytest
from board_damages import DAMAGES, again, damaged
from board_records import PICTURES, encoded, files_of, kept, place, rows_of, write

from laptime.analysis.heats import estimate, judge_rounds, mean_step_ms, scaled
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.weights import with_weights
from laptime.model.errors import UsageError
from laptime.model.record import RecordPart
from laptime.show.board.check import BoardFault, check
from laptime.show.board.claims import CHECKS
from laptime.show.board.evidence import strip, whole_digest, with_whole
from laptime.show.board.reported import CARDS_TO_PREDICT, encode_predictions, predict_for_board

ROOT = Path(__file__).parents[2]
ALL = 1_000


def test_a_good_board_has_no_fault(tmp_path):
    write(files_of(strip(kept())) | files_of(strip(kept("scenes-cnn-h100"))), tmp_path)
    found = check(tmp_path)
    assert [each.says for each in found.faults] == []
    assert (found.rows, found.records) == (6, 2)
    assert [each.says for each in found.notes if "other windows" in each.says] == []


def test_a_race_that_went_on_has_no_row(tmp_path):
    """Its intervals were seen on the way, so they are not at the 95 % that a row has."""
    part = RecordPart("2026-11-29T10:11:12+00:00", 60.0, 58.0, 8, has_interval=True)
    stripped = strip(replace(kept(), parts=(part, part)))
    assert stripped.parts[0].started == "2026-11-29T00:00:00+00:00"
    write(files_of(stripped), tmp_path)
    assert any("their intervals are at 92.5 %" in each.says for each in check(tmp_path).faults)


def test_windows_that_laptime_would_not_choose_are_noted(tmp_path):
    """Only the last window of each round counts: all before it are called the warm-up."""
    lanes = []
    for lane in strip(kept()).lanes:
        ends = [(each, len(each.heat.windows) - 1) for each in lane.heats]
        heats = tuple(
            replace(each, counted=(end,), steady_from=end, step_ms=mean_step_ms(each.heat.windows[end:]))
            for each, end in ends
        )
        step = estimate([each.step_ms for each in heats])
        lanes.append(replace(lane, heats=heats, step_ms=step, lap_s=scaled(step, board_records.steps_of(lane) / 1e3)))
    first, second = lanes
    comparison = compare_lanes(second, first, kept().ask.margin, kept().answer.comparisons[0].alpha)
    answer = replace(strip(kept()).answer, comparisons=(comparison,))
    write(files_of(strip(replace(strip(kept()), lanes=(first, second), answer=answer))), tmp_path)
    found = check(tmp_path)
    assert found.faults == ()
    assert len(found.notes) == 16
    assert {each.says.partition(" of ")[2] for each in found.notes} == {
        f"torch/cpu/{lane} counts other windows than laptime would choose" for lane in ("as-written", "best")
    }


def test_a_race_with_two_disturbed_rounds_is_good(tmp_path):
    """They hardly count, and the board weighs them as the race did."""
    record = strip(kept())
    flagged = {
        lane.name: [
            replace(heat, windows=tuple(replace(each, flag="disturbed") for each in heat.windows))
            if (heat := result.heat).round in (2, 5)
            else heat
            for result in lane.heats
        ]
        for lane in record.lanes
    }
    judged = with_weights(judge_rounds(flagged))
    lanes = tuple(replace(lane, heats=judged[lane.name]) for lane in record.lanes)
    assert [heat.hardly_counts for heat in lanes[1].heats] == [number in (2, 5) for number in range(8)]
    write(files_of(strip(again(record, lanes))), tmp_path)
    assert [each.says for each in check(tmp_path).faults] == []


def test_a_card_that_nothing_bounds_is_noted(tmp_path):
    record = board_records.trained()
    lanes = tuple(replace(each, device=replace(each.device, label="Another card")) for each in record.lanes)
    write(files_of(replace(record, lanes=lanes)), tmp_path)
    found = check(tmp_path)
    assert found.faults == ()
    assert [each.says for each in found.notes] == [
        "Another card is not in laptime's table of devices, so no peak bounds its step"
    ]


def test_the_repositorys_own_board_has_no_fault():
    found = check(ROOT / "board")
    assert [f"{each.file}: {each.says}" for each in found.faults] == []
    assert found.rows >= 10


def refuse(number: int, board: Path) -> tuple[BoardFault, ...]:
    """Assert that a dishonest board is refused, in sentences and with a way out; return the faults."""
    name, files = damaged(number)
    place(files, board)
    found = check(board)
    assert found.faults, f"{number}: {name} passed"
    for each in found.faults:
        assert each.says, name
        assert each.hint[:1].isupper(), (name, each)
        assert "Traceback" not in each.says
        assert "object at 0x" not in each.says
        assert len(each.says) < 2_100
        assert each.file
    return found.faults


def test_each_kind_of_dishonesty_is_refused(tmp_path):
    for number, damage in enumerate(DAMAGES):
        if damage.name not in WORDS:  # those have a test of their own
            refuse(number, tmp_path / str(number))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_dishonest_boards_are_refused(part, tmp_path):
    for number in range(part, ALL, 10):
        refuse(number, tmp_path / str(number))


WORDS = {
    "a number without a new digest": "a number or a word in it was changed",
    "a number with a new digest": "it does not say what its record says",
    "a link": "it is a link",
    "above the peak": "TFLOP/s are above what",
    "a fake renamed": "every real heat of torch has one",
    "a lap of no steps": "is not its 500 steps",
    "a narrow interval": "is not the one that its 8 rounds allow",
    "an unknown reference": "its float64 reference is not that of cifar-cnn",
    "the same numbers again": "the same numbers as",
    "a training": "torch/cuda:0/best",
    "a name of another lane": "torch/c",
    "the fastest windows alone": "leaves out its window",
    "best called as written": "which its name does not say",
    "a disturbed race": "it is NOT RELIABLE: ",
    "first laps alone": "than it had processes",
    "a round left out": "is left out of it",
    "a heat left out": "rounds, and the race has",
    "a turn left out": "a turn is left out of round",
    "a round twice": "two of its heats have one number",
    "a factor left out": "the factor of torch/cpu/",
    "a factor of other pairs": "pairs",
    "windows at one time": "two windows of round",
    "a lap left out": "a training is left out of it",
    "another prediction": "r-2026-11-27-",
    "no whole record": "does not name the digest of its whole record",
    "a round that hardly counts": "counts 0.001, and its turns say 1",
    "another card": "and that of torch/cuda:0/best has",
}


@pytest.mark.parametrize("name", WORDS)
def test_a_fault_is_named_for_what_it_is(name, tmp_path):
    number = next(at for at, each in enumerate(DAMAGES) if each.name == name)
    assert WORDS[name] in " ".join(each.says for each in refuse(number, tmp_path))


PREDICTED = {
    '"NVIDIA GeForce RTX 5090"': '"see example.com"',
    '"binds": "products"': '"binds": "see example.com"',
    '"date": "2026-11-27"': '"date": "see example.com"',
    '"lane": "torch/cpu/best"': '"lane": "see example.com"',
    '"preset": "best"': '"preset": "fastest"',
    '"record": "r-2026': '"record": "x-2026',
    '"short": "rtx-5090"': '"short": "rtx-4090"',
    '"lap_high_s": 0.8': '"lap_high_s": 0.0',
    '"lane":': '"more": 1,\n "lane":',
}


@pytest.mark.parametrize("there", PREDICTED)
def test_a_prediction_has_no_words_of_its_author(there, tmp_path):
    told = (ROOT / "board" / "predicted" / "cifar-cnn.json").read_text(encoding="utf-8")
    assert there in told
    write({"predicted/cifar-cnn.json": told.replace(there, PREDICTED[there], 1).encode()}, tmp_path)
    assert {each.check for each in check(tmp_path).faults} == {"predicted"}


def test_a_prediction_is_made_again_from_its_record(tmp_path):
    """And its record has to be there, and good."""
    record = strip(kept())
    made = predict_for_board(record, "torch/cpu/best", CARDS_TO_PREDICT, "2026-11-27", "0.1.0")
    assert len(made.rows) == 12
    name = "predicted/cifar-cnn.json"
    write({**files_of(record), name: encode_predictions(made)}, tmp_path)
    assert check(tmp_path).faults == ()
    changed = replace(made.rows[0], lap_low_s=made.rows[0].lap_low_s * 0.999)
    (tmp_path / name).write_bytes(encode_predictions(replace(made, rows=(changed, *made.rows[1:]))))
    assert [each.says for each in check(tmp_path).faults] == [
        f"{record.id} predicts something else of {made.rows[0].short}"
    ]
    (tmp_path / name).write_bytes(encode_predictions(replace(made, record="r-2026-11-27-ffff")))
    (fault,) = check(tmp_path).faults
    assert fault.says == "the measured record r-2026-11-27-ffff that it begins with is not in records/"


def test_a_record_is_held_against_the_whole_one_of_its_keeper(tmp_path):
    """A round that was left out, with all numbered again, is seen by nothing else."""
    board, wholes = tmp_path / "board", tmp_path / "wholes"
    wholes.mkdir()
    whole = encoded(kept())
    record = with_whole(kept(), whole)
    write(files_of(strip(record)), board)
    assert {row.whole_digest for row in rows_of(board)} == {whole_digest(whole)}
    (note,) = (each.says for each in check(board, wholes=wholes).notes if "whole" in each.says)
    assert note == f"no whole record of it is in {wholes}"
    (wholes / f"{record.id}.json").write_bytes(whole)
    assert check(board, wholes=wholes).faults == ()
    signed = whole[:-1] + b',"signature":"' + b"0" * 64 + b'"}'  # as laptime's store keeps it
    (wholes / f"{record.id}.json").write_bytes(signed)
    assert check(board, wholes=wholes).faults == ()
    lanes = tuple(replace(lane, heats=lane.heats[:-1]) for lane in strip(record).lanes)
    write(files_of(strip(again(strip(record), lanes))), board)
    assert check(board).faults == ()
    (fault,) = check(board, wholes=wholes).faults
    assert (fault.check, fault.says) == ("whole", f"it is not what {record.id}.json gives: it was changed")
    (wholes / f"{record.id}.json").write_bytes(encoded(replace(kept(), elapsed_s=1.0)))
    (fault,) = check(board, wholes=wholes).faults
    assert fault.says == f"it is of another whole record than {record.id}.json"
    with pytest.raises(UsageError, match="is no folder"):
        check(board, wholes=tmp_path / "nothing")


def test_a_record_of_an_older_schema_is_held_against_its_whole_one(tmp_path):
    """The repository keeps both: the whole record of the README's race, and its stripped one of schema 2."""
    board = tmp_path / "board"
    for file in (ROOT / "board").rglob(f"{kept().id}*"):
        write({str(file.relative_to(ROOT / "board")): file.read_bytes()}, board)
    assert (len(rows_of(board)), {row.whole_digest for row in rows_of(board)}) == (2, {None})
    found = check(board, wholes=whole_folder(tmp_path))
    assert [each.says for each in found.faults] == []
    assert [each.says for each in found.notes if "whole" in each.says] == []


def test_a_new_record_cannot_claim_an_age_at_which_none_named_its_whole_one(tmp_path):
    """The way around the digest: schema 2, whose honest records are on the board already, and stay."""
    before, sent = tmp_path / "before", tmp_path / "sent"
    write(files_of(strip(kept("scenes-cnn-h100"))), before)
    shutil.copytree(before, sent)
    for file in (ROOT / "board").rglob(f"{kept().id}*"):
        write({str(file.relative_to(ROOT / "board")): file.read_bytes()}, sent)
    assert check(sent).faults == ()
    (fault,) = check(sent, before=before).faults
    assert (fault.file, fault.check) == (f"records/{kept().id}.json.gz", "record")
    assert fault.says == "it is new, and does not name the digest of its whole record"
    assert check(sent, before=sent).faults == ()


def whole_folder(folder):
    whole = folder / "wholes"
    whole.mkdir()
    (whole / f"{kept().id}.json.gz").write_bytes((PICTURES / "cifar-cnn-default.json.gz").read_bytes())
    return whole


def test_whole_records_are_listed_once(tmp_path, monkeypatch):
    """However many records a board has: a keeper's folder may hold thousands."""
    board, wholes = tmp_path / "board", tmp_path / "wholes"
    (wholes / "2026").mkdir(parents=True)
    for name in ("cifar-cnn-default", "scenes-cnn-h100"):
        write(files_of(strip(kept(name))), board)
        (wholes / "2026" / f"{kept(name).id}.json.gz").write_bytes((PICTURES / f"{name}.json.gz").read_bytes())
    listed, scandir = [], os.scandir

    def counted(folder):
        listed.append(Path(folder))
        return scandir(folder)

    monkeypatch.setattr("os.scandir", counted)
    assert check(board, wholes=wholes).faults == ()
    assert listed.count(wholes / "2026") == 1


def test_a_bomb_is_refused(tmp_path):
    """A file of a few kilobytes that would become gigabytes is inflated no further than a record needs."""
    files = files_of(strip(kept()))
    bomb = board_records.gzip.compress(b"0" * (20 << 20))
    write({**files, board_records.record_name(files): bomb}, tmp_path)
    assert "no stripped record needs them" in " ".join(each.says for each in check(tmp_path).faults)


def test_no_folder_is_a_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="is no folder"):
        check(tmp_path / "nothing")


def test_each_check_is_explained():
    """A fault has the name of its check, and docs/board.md has a row for each."""
    table = re.findall(r"^\| ([a-z, ]+) \|", (ROOT / "docs" / "board.md").read_text(encoding="utf-8"), re.MULTILINE)
    explained = {name for cell in table for name in cell.split(", ")}
    assert {each.name for each in CHECKS} | {"files", "schema", "digest", "record", "copies", "predicted"} <= explained
