"""A row that is repeated: what is asked, and whether what was measured agrees."""

from __future__ import annotations

from dataclasses import replace

import board_damages
import board_records
import pytest
from board_records import kept

from laptime.model.errors import LaptimeError, RecordError, UsageError
from laptime.model.machine import Processor
from laptime.show.board.add import board_rows
from laptime.show.board.evidence import strip
from laptime.show.board.repeat import ask_of, compare, read_row


@pytest.fixture(scope="module")
def row():
    return next(each for each in board_rows(strip(kept()), "") if each.lane == "torch/cpu/best")


def test_what_is_asked_is_the_lane_and_its_reference(row):
    question, ask = ask_of(row)
    assert (question, ask.what, ask.lanes) == ("race", "cifar-cnn", ("torch/cpu/as-written", "torch/cpu/best"))
    card = replace(row, lane="torch/cuda:3/best+augment=host", factor=None, question="train")
    assert ask_of(card)[1].lanes == ("torch/cuda/best+augment=host",)
    assert ask_of(card)[0] == "full"


@pytest.mark.parametrize("words", board_damages.HOSTILE)
def test_nothing_of_a_strangers_text_is_asked(row, words):
    """Neither as a training, nor as a lane, nor as the lane that a factor is against; a command is never read."""
    for other in (
        replace(row, training=words),
        replace(row, lane=words),
        replace(row, lane=f"torch/cpu/{words}"),
        replace(row, factor=replace(row.factor, reference=words)),
    ):
        with pytest.raises(LaptimeError):
            ask_of(other)
    assert ask_of(replace(row, command=words)) == ask_of(row)


@pytest.mark.parametrize("lane", ["fake/cpu", "python/cpu/x", "torch", "my.py:f"])
def test_only_frameworks_of_laptime_are_run(row, lane):
    with pytest.raises(UsageError):
        ask_of(replace(row, lane=lane))


@pytest.mark.parametrize("setting", ["workers=999999", "prefetch=1000", "batch=1000000", "batch=65x"])
def test_a_row_cannot_take_all_of_a_machine(row, setting):
    with pytest.raises(UsageError, match="more than a row may ask for here"):
        ask_of(replace(row, lane=f"torch/cpu/{setting}"))


@pytest.mark.parametrize("setting", ["workers=8", "batch=4x", "batch=6400"])
def test_a_row_may_have_usual_settings(row, setting):
    assert ask_of(replace(row, lane=f"torch/cpu/{setting}"))[1].lanes[1] == f"torch/cpu/{setting}"


def test_the_same_kind_of_device_agrees_where_intervals_overlap(row):
    found = compare(row, kept())
    assert found.agrees is True
    assert "the intervals overlap, so the row agrees" in found.says
    slow = compare(row, board_records.with_times(kept(), 2.0))
    assert slow.agrees is False
    assert "do not overlap" in slow.says


def test_on_another_device_only_the_factor_is_compared(row):
    machine = kept().machine
    processor = Processor("AMD EPYC 9V74", "x86_64", 8, 8, machine.processor.quota_cores, ("avx2",))
    other = replace(kept(), machine=replace(machine, processor=processor))
    found = compare(row, other)
    assert found.agrees is None
    assert "laps are not compared" in found.says
    assert "1.56 times torch/cpu/as-written there, 1.56 times here" in found.says


def test_what_was_not_proven_here_says_nothing_of_the_row(row):
    record = replace(kept(), lanes=tuple(replace(each, status="dnf", reason="killed") for each in kept().lanes))
    found = compare(row, record)
    assert found.agrees is None
    assert "killed" in found.says


def test_a_file_that_is_no_row_is_refused(tmp_path):
    for name, data in {"a": b"", "b": b"{}", "c": b"[" * 9_000, "d": b"\xff"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordError):
            read_row(tmp_path / name)
    with pytest.raises(RecordError, match="cannot be read"):
        read_row(tmp_path)
