"""Timed lines become shares of the parts of an iteration, and looks at the memory a trend: literal numbers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from test_analysis_script import HELLO, MS, steps

from laptime.analysis.script_lines import MemoryLooks, join_workers
from laptime.analysis.script_process import ProcessReader
from laptime.attach import kinds
from laptime.model.script import SeenLine

MIB = 1 << 20


def read(events: list[tuple[int, float, float, int]], *facts: dict[str, Any], **hello: Any) -> ProcessReader:
    reader = ProcessReader({**HELLO, **hello})
    for kind, begin, end, value in events:
        reader.take_events(struct.pack(kinds.EVENT, kind, round(begin * MS), round(end * MS), value))
    for each in ({"place": 5, "where": "train.py:5"}, {"place": 6, "where": "train.py:6"}, *facts):
        reader.take_facts(each)
    return reader


def test_a_line_has_a_share_of_each_part_that_it_runs_through() -> None:
    """Iteration 10 is timed: line 5 for 2 of the 3 ms of waiting, line 6 from there to the end of the backward pass."""
    lines = [(kinds.LINE, 100, 102, 5), (kinds.LINE, 102, 107, 6), (kinds.LINE, 107, 110, 5)]
    before, timed, after = steps(10), steps(1, 100), steps(10, 110)
    reader = read([*before, *lines[:1], timed[0], *lines[1:2], *timed[1:], *lines[2:], *after])
    process = reader.process()
    found = {(each.part, each.where): each.share for each in process.lines}
    assert found == {
        ("data", "train.py:5"): pytest.approx(2 / 3), ("data", "train.py:6"): pytest.approx(1 / 3),
        ("forward", "train.py:6"): 1, ("backward", "train.py:6"): 1,
        ("optimizer", "train.py:5"): 1, ("outside", "train.py:5"): 1,
    }  # fmt: skip
    loop = process.loop
    assert loop is not None
    assert (loop.iterations, sum(window.iterations for window in loop.windows)) == (21, 20)
    assert [(gap.kind, gap.times, gap.seconds) for gap in loop.gaps] == [("timing lines", 1, pytest.approx(0.010))]
    assert loop.steady.wall_s == pytest.approx(0.010, rel=0.01)  # the last has no end of its own


def test_a_line_of_keras_has_a_share_of_each_part_of_its_batch() -> None:
    """Batch 5 is timed, from its fetch to the next one's: line 5 takes 2 of the 3 ms of waiting and what is outside.

    What Keras itself does has no line (0), and counts in the whole. The lines are those of the longest training.
    """
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_batch": 32, "keras_data": "ArrayDataAdapter", "iterator": 1})
    for model in (9, 8):
        reader.take_facts({"keras_fit": 1, "model": model, "trained": 4})
        for at in range(0, 100 if model == 9 else 40, 10):
            since = at + 1000 * (model == 8)
            events = [(kinds.KERAS_FETCH, since, since + 3, 1), (kinds.KERAS_BATCH, since + 3, since + 9, 1)]
            if at == 50:
                lines = [(50, 52, 5), (52, 53, 6), (53, 59, 0), (59, 60, 5)]
                events += [(kinds.LINE, *each) for each in lines]
            for kind, begin, end, value in events:
                reader.take_events(struct.pack(kinds.EVENT, kind, begin * MS, end * MS, value))
    for each in ({"place": 5, "where": "train.py:5"}, {"place": 6, "where": "train.py:6"}):
        reader.take_facts(each)
    process = reader.process()
    assert {(each.part, each.where): each.share for each in process.lines} == {
        ("data", "train.py:5"): pytest.approx(2 / 3), ("data", "train.py:6"): pytest.approx(1 / 3),
        ("outside", "train.py:5"): 1,
    }  # fmt: skip
    loop = process.loop
    assert loop is not None
    assert (loop.iterations, sum(window.iterations for window in loop.windows)) == (10, 9)
    assert [(gap.kind, gap.times, gap.seconds) for gap in loop.gaps] == [("timing lines", 1, pytest.approx(0.010))]


def test_lines_of_a_thread_that_makes_batches_take_the_place_of_the_line_that_waits() -> None:
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4})
    events: list[tuple[int, int, int, int]] = []
    for at in range(0, 200, 10):
        made = (kinds.KERAS_MADE, at, at + 6, 1 << kinds.PASS_SHIFT | 1)
        lines = [(kinds.LINE, at, at + 10, 0)] if at == 160 else []
        in_thread = [(kinds.MADE_LINE, at, at + 5, 5), (kinds.MADE_LINE, at + 5, at + 6, 6)] if at == 160 else []
        events += [made, *lines, *in_thread, (kinds.KERAS_BATCH, at, at + 9, 1)]
    for kind, begin, end, value in events:
        reader.take_events(struct.pack(kinds.EVENT, kind, begin * MS, end * MS, value))
    for each in ({"place": 5, "where": "train.py:5"}, {"place": 6, "where": "train.py:6"}):
        reader.take_facts(each)
    data = [(each.where, each.share) for each in reader.process().lines if each.part == "data"]
    assert data == [("train.py:5", pytest.approx(5 / 6)), ("train.py:6", pytest.approx(1 / 6))]


def test_lines_of_workers_are_those_of_fetches_and_have_their_mean_share() -> None:
    reader = read([(kinds.LINE, 0, 9, 5), (kinds.LINE, 9, 10, 6)], loads=True)
    lines = reader.timed_lines
    assert lines == (SeenLine("train.py:5", "data", 0.9), SeenLine("train.py:6", "data", 0.1))
    joined = join_workers([lines, (SeenLine("train.py:6", "data", 1.0),)])
    assert [(each.where, each.share, each.in_worker) for each in joined] == [
        ("train.py:6", pytest.approx(0.55), True), ("train.py:5", pytest.approx(0.45), True)
    ]  # fmt: skip


def test_reads_and_lists_have_their_lines() -> None:
    grows = {"grows": 6, "name": "losses", "by": 1.0, "holds": "graph", "bytes_each": 4}
    reader = read(steps(4), {"reads": [[5, 20, 4_000_000]], "timed_steps": 2}, grows, {**grows, "by": 2.0})
    process = reader.process()
    assert [(each.where, each.per_step, each.ms) for each in process.reads] == [("train.py:5", 10, 2.0)]
    assert [(each.where, each.name, each.per_step) for each in process.lists] == [("train.py:6", "losses", 2.0)]


def test_tensors_that_are_alive_are_compared_first_and_last() -> None:
    counts = [{"tensors": number, "at_step": step} for number, step in ((100, 18), (900, 66), (340, 258))]
    found = [read(steps(4), *counts[:taken]).process().tensors_per_step for taken in (0, 1, 3)]
    assert found == [None, None, 1.0]


@pytest.mark.parametrize(
    "facts",
    [
        {"reads": 5, "timed_steps": 2}, {"reads": [[1, 2]], "timed_steps": 2},
        {"reads": [[1, 2, -3]], "timed_steps": 2},
        {"reads": [[1, 2, 3]]}, {"grows": 1, "name": "x", "by": "y", "holds": "graph", "bytes_each": 4},
        {"grows": -1, "name": "x", "by": 1.0, "holds": "graph", "bytes_each": 4},
    ],
)  # fmt: skip
def test_what_no_agent_sends_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"was expected|unpack"):
        ProcessReader(HELLO).take_facts(facts)


def looks(sizes: list[float]) -> MemoryLooks:
    found = MemoryLooks()
    for at, size in enumerate(sizes):
        found.add(10 * at, round(size))
    return found


def test_memory_that_grows_evenly_has_a_trend() -> None:
    trend = looks([100 * MIB + at * MIB for at in range(60)]).trend()
    assert trend is not None
    assert trend.bytes_each == pytest.approx(MIB / 10)
    assert trend.low <= MIB / 10 <= trend.high
    assert trend.grows


@pytest.mark.parametrize(
    "sizes",
    [
        [100 * MIB] * 60,
        [100 * MIB + min(at, 15) * 10 * MIB for at in range(60)],  # it is taken in the warm-up, and used again
        [100 * MIB + 50 * MIB * (at > 45) for at in range(60)],  # at once, such as a validation
        [100 * MIB + at * 1024 for at in range(60)],  # too little to be told from the allocator's
        [100 * MIB + 20 * MIB * (at % 12 > 6) for at in range(60)],  # up and down
    ],
    ids=["flat", "warm-up", "at once", "little", "up and down"],
)
def test_other_memory_does_not_grow(sizes: list[float]) -> None:
    trend = looks(sizes).trend()
    assert trend is not None
    assert not trend.grows


def test_few_looks_show_no_trend_and_many_are_bounded() -> None:
    assert looks([100.0] * 12).trend() is None
    many = looks([100 * MIB + at * MIB for at in range(10_000)])
    assert len(many._kept) <= 1024
    trend = many.trend()
    assert trend is not None
    assert trend.bytes_each == pytest.approx(MIB / 10)


def test_an_evaluation_between_iterations_has_its_place() -> None:
    events = [
        (kinds.LOADER_OPEN, -1, 0, 1), *steps(5), (kinds.LOADER_END, 50, 51, 1), (kinds.NO_GRAD, 52, 90, 5),
        (kinds.LOADER_OPEN, 91, 92, 1), *steps(5, 92.0),
    ]  # fmt: skip
    (place,) = read(events).process().between
    assert (place.where, place.what, place.times, place.ns) == ("train.py:5", "evaluation", 1, 38 * MS)
