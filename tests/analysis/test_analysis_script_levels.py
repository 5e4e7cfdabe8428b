"""What the figure of a watched training is of: all of it but its start, however its iterations change."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from test_analysis_script import Event, fetch, loop_of, steps

from laptime.attach import kinds


def paced(lengths: Sequence[float]) -> list[Event]:
    """Return iterations of these lengths, a third of each waiting."""
    found: list[Event] = []
    at = 0.0
    for ms in lengths:
        found += [fetch(at, at + ms / 3), (kinds.BACKWARD, at + ms / 2, at + ms * 0.7, 0)]
        found.append((kinds.STEP, at + ms * 0.7, at + ms * 0.95, 1))
        at += ms
    return [(kinds.LOADER_OPEN, -1, 0, 1), *found, (kinds.LOADER_END, at, at + 1, 1)]


@pytest.mark.parametrize(
    ("lengths", "warm", "levels"),
    [
        ([200.0, 90.0, 60.0, 40.0, *[10.0] * 196], 4, None),
        ([80.0] * 40 + [10.0] * 1_560, 40, None),
        ([8.0] * 1_561 + [1.8] * 27, 1, (8.0, 1.8, 27)),
        ([90.0] * 188 + [70.0] * 6, 1, None),
        ([42.0] * 100 + [21.0] * 100, 1, (42.0, 21.0, 100)),
        ([10.0] * 300 + [40.0] * 300, 1, (10.0, 40.0, 300)),
        ([10.0, 11.0, 9.0, 10.5] * 50, 1, None),
    ],
    ids=["a start", "a longer start", "the last ones", "few last ones", "half", "slower", "flat"],
)
def test_the_figure_is_of_the_whole_training_but_its_start(lengths, warm, levels) -> None:
    """It was that of the last level, however short: 1.8 ms of a training that took 8 (27 of 1,588 iterations)."""
    loop = loop_of(paced(lengths))
    assert loop.iterations == len(lengths)
    assert loop.step_ms is not None
    count = loop.warm_iterations
    assert count == pytest.approx(warm, abs=3 if warm > 1 else 0)
    total_s = loop.warm_s + (loop.iterations - count) * loop.step_ms.median / 1e3
    assert total_s == pytest.approx(sum(lengths) / 1e3, rel=1e-6), "iterations x figure + start = training"
    found = loop.levels
    assert (found is None) == (levels is None)
    if found is not None and levels is not None:
        assert found.first_ms == pytest.approx(levels[0], rel=0.02)
        assert found.last_ms == pytest.approx(levels[1], rel=0.02)
        assert found.last_iterations == pytest.approx(levels[2], abs=4)


def test_optimizers_that_train_one_after_another_do_not_take_turns() -> None:
    """Each trains its part of the model: the first step of the second is an iteration of its own. It was joined."""

    def updates(optimizer: int, count: int, start: float) -> list[Event]:
        found: list[Event] = []
        for at in range(count):
            begin = start + 10 * at
            found += [(kinds.BACKWARD, begin, begin + 4, 0), (kinds.STEP, begin + 5, begin + 9, optimizer)]
        return found

    assert loop_of([*updates(1, 30, 0), *updates(2, 30, 300)]).iterations == 60
    turns = [event for at in range(30) for event in (*updates(1, 1, 20 * at), *updates(2, 1, 20 * at + 10))]
    assert loop_of(turns).iterations == 30


def test_a_wait_for_the_disk_between_epochs_is_part_of_its_checkpoint() -> None:
    """The file of an epoch is written for 20 ms, and the disk has it 30 ms later."""
    events = steps(10)
    end = max(at for _, _, at, _ in events)
    later = [(kind, begin + end + 100, at + end + 100, value) for kind, begin, at, value in events]
    between = [
        (kinds.LOADER_END, end, end, 0),
        (kinds.SAVE, end + 10, end + 30, 0),
        (kinds.SYNC, end + 30, end + 60, 0),
    ]
    gaps = {gap.kind: gap.seconds for gap in loop_of([*events, *between, *later]).gaps}
    assert gaps["checkpoint"] == pytest.approx(0.05)
