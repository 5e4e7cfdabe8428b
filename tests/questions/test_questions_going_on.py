"""What a record must have so that its race can go on, and the state of its rounds as it was after the last one."""

from __future__ import annotations

import pytest

from laptime.engine.run.turns import TurnSteps
from laptime.model.errors import UsageError
from laptime.model.plan import Subject
from laptime.model.process import ProcessRun
from laptime.model.record import error_share
from laptime.model.sample import Heat, Window
from laptime.questions.going_on import check_goes_on, count_rounds, find_turn_steps
from laptime.questions.noted_code import ALL_FILES, note_code_of


def heat(number, *begins, steps=8, lane="torch/cpu", burst=None):
    """Return a heat whose turns begin after these steps."""
    windows = tuple(Window(0, steps, steps, turn=turn, first_step=first + 1) for turn, first in enumerate(begins))
    return Heat(ProcessRun(lane, "ok"), number, number, windows=windows, burst=burst)


def test_turns_go_on_at_the_steps_of_the_last_round():
    """The first turn of all may be shorter: its successors have the steps of all later rounds."""
    first = Heat(ProcessRun("a", "ok"), 0, 0, windows=(Window(0, 3, 3, turn=0, first_step=4), *heat(0, 5, 15).windows))
    found = find_turn_steps({"a": [heat(1, 6, 15, 24, 33)], "b": [heat(1, 6, 15, 24, 33)]})
    assert found == {frozenset("ab"): dict.fromkeys("ab", TurnSteps(6, 1, 8))}
    for turn in range(4):
        order = TurnSteps(6, 1, 8).order(turn)
        assert (order.after, order.steps, order.begins) == (6 + 9 * turn, 8, 5 + 9 * turn)
    assert find_turn_steps({"a": [first], "b": [heat(0)]}) == {}, "a lane without turns has none to go on with"
    assert find_turn_steps({"a": [heat(0, 6, 15)], "b": [heat(1, 6, 15)]}) == {}, "nor have heats of other rounds"


def test_rounds_are_counted_by_the_lanes_that_run_once_in_each():
    """Where memory does not hold all, the first lane runs in each group of a round."""
    assert count_rounds({"a": [heat(0)] * 4, "b": [heat(0)] * 2, "c": [heat(1)] * 2}) == 2
    assert count_rounds({"a": [heat(0)] * 3}) == 3


def test_parts_spend_less_than_twice_the_error():
    assert [error_share(part) for part in (1, 2, 3)] == [1.0, 0.5, 0.25]
    assert sum(map(error_share, range(1, 50))) < 2


def subject(file):
    return Subject("mine", "mine", None, None, None, None, "items", file=str(file), function="training")


def test_the_code_of_a_training_is_known_by_its_digests(tmp_path):
    """Those of its own file and of what it imports by name; of what it imports otherwise, its whole folder is one."""
    mine = {"mine": str(tmp_path / "mine.py")}
    (tmp_path / "mine.py").write_text("import helper\n", encoding="utf-8")
    (tmp_path / "helper.py").write_text("def step(): ...\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("", encoding="utf-8")
    before = note_code_of(mine).digests()
    assert [*before["mine"]] == ["mine.py", "helper.py"]
    (tmp_path / "other.py").write_text("x = 1\n", encoding="utf-8")
    assert note_code_of(mine).digests() == before
    (tmp_path / "helper.py").write_text("def step(): return 1\n", encoding="utf-8")
    assert note_code_of(mine).digests() != before
    for number in range(50):
        (tmp_path / f"part{number}.py").write_text("", encoding="utf-8")
    (tmp_path / "mine.py").write_text("__import__('helper')\n", encoding="utf-8")
    assert [*note_code_of(mine).digests()["mine"]] == [ALL_FILES]


@pytest.mark.parametrize("question", ["watch", "sweep", "forecast"])
def test_what_has_no_rounds_does_not_go_on(question):
    with pytest.raises(UsageError, match="has no rounds that go on"):
        check_goes_on(question)
