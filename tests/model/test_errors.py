"""One small tree of errors, each with its exit code and a way out."""

from __future__ import annotations

import pytest

from laptime.model import errors
from laptime.model.errors import LaptimeError

TREE = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
EXIT_CODES = {
    "LaptimeError": 3,
    "UsageError": 2,
    "RecordError": 2,
    "StoreError": 3,
    "TrainingError": 3,
    "LaneError": 3,
    "RankGoneError": 3,
    "WireError": 3,
    "NodeGoneError": 3,
    "SensorError": 5,
    "CopyError": 70,
}


def test_the_tree_is_small_and_has_one_root():
    """Who catches the root catches all that is raised on purpose."""
    assert len(TREE) <= 11
    assert all(issubclass(each, LaptimeError) for each in TREE)


def test_every_error_knows_its_exit_code():
    """Usage is 2, what could not be finished or kept is 3; the drawing at the top of the file says the same."""
    assert {each.__name__: each.exit_code for each in TREE} == EXIT_CODES
    for name, code in EXIT_CODES.items():
        assert name == "LaptimeError" or f"{name:<16}{code}  " in errors.__doc__


@pytest.mark.parametrize(("hint", "text"), [("do that", "this is wrong\ndo that"), ("", "this is wrong")])
def test_an_error_says_what_is_wrong_and_then_the_way_out(hint, text):
    """On two lines, where there is a way out."""
    error = LaptimeError("this is wrong", hint)
    assert (text, "this is wrong", hint) == (str(error), error.says, error.hint)
