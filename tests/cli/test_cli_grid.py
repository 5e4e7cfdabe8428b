"""`--lr` and `--batch`: a grid of whole trainings, one line a cell; on the fake back end and a short real one."""

from __future__ import annotations

import pytest


def test_a_grid_has_one_line_a_cell(house):
    """With its time and its accuracy; nobody holds against a cell that it learns otherwise."""
    words = ("--details", "--laps", "2", "--steps-per-lap", "20", "--lr", "1e-3,1e-4", "--batch", "64,128")
    said = house.done("train", "pets-densenet", "fake/cpu/best", *words).out
    lines = [line for line in said.splitlines() if line.startswith("fake/cpu/best+batch=") and " s " in line]
    assert len(lines) >= 4
    assert "differs" not in said
    record = house.done("show", "latest", "--json").json
    cells = [(lane["settings"]["batch"], lane["settings"]["learning_rate"]) for lane in record["lanes"]]
    assert cells == [(64, 1e-3), (64, 1e-4), (128, 1e-3), (128, 1e-4)]
    assert [len(run["laps"]) for run in record["answer"]["runs"]] == [2] * 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--lr", "0"), "--lr 0: expected numbers above 0 and up to 100"),
        (("--batch", "64,0"), "--batch 0: expected whole numbers from 1 to 1,000,000"),
        (("--lr", "fast"), "'fast' is no list of numbers; such as 1e-3,1e-4"),
        (("--batch", "8,8"), "'8,8' names a number twice"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(house, words, says):
    assert says in house.done("train", "pets-densenet", "fake/cpu", *words, code=2).err
