"""Drawn files are as hard as items made in memory: five show the same picture, and not all have the same label."""

from __future__ import annotations

from collections import Counter

import pytest

from laptime.trainings.data import drawing
from laptime.trainings.data.drawing import draw_plate
from laptime.trainings.workloads.data import BLOCK, PICTURES, VIEWS


@pytest.mark.parametrize(("drawer", "doubtful"), [(drawing.SCENES, 1.0), (drawing.PETS, 0.3)])
def test_five_files_show_a_photograph_and_one_may_disagree(drawer, doubtful):
    """So that nothing learns them by heart: four have the class that is drawn, one has another where it is doubtful."""
    disagreeing = 0
    for first in (*range(9), *range(BLOCK, BLOCK + 6)):
        drawn = [drawer.draw("train", first + view * PICTURES) for view in range(VIEWS)]
        assert len({each.data for each in drawn}) == 1
        labels = Counter(each.name.split("/")[1] for each in drawn)
        assert sorted(labels.values()) in ([5], [1, 4])
        disagreeing += len(labels) == 2
    assert disagreeing == pytest.approx(15 * doubtful, abs=4 if doubtful < 1 else 0)


def test_five_files_show_a_plate_and_one_is_wrong_at_each_place():
    for first in (3, BLOCK + 7):
        drawn = [draw_plate("train", first + view * PICTURES) for view in range(VIEWS)]
        assert len({each.data for each in drawn}) == 1
        texts = [each.name.split("/")[1].split("_")[0] for each in drawn]
        assert [sorted(Counter(place).values()) for place in zip(*texts, strict=True)] == [[1, 4]] * 8
