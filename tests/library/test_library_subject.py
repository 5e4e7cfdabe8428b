"""A function goes to the processes that train it as the file and the name by which these find it."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from laptime.library.asking import name_subject
from laptime.model.errors import UsageError

TRAININGS = """\
import functools

def training(): ...

@functools.cache
def kept(): ...

def sized(size, depth=2): ...

def outer():
    def inner(): ...
    return inner

unnamed = lambda: ...
renamed = training

class Trainings:
    @staticmethod
    def small(): ...
    def large(self): ...

def old(): ...
first = old
def old(): ...
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return a user's module, imported from its file."""
    place = tmp_path / "trainings_of_mine.py"
    place.write_text(TRAININGS)
    spec = importlib.util.spec_from_file_location(place.stem, place)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, place.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("what", ["cifar-cnn", "my.py:training", Path("my.py"), Path("a") / "b.py:f"])
def test_names_and_paths_stay_as_they_are(what):
    assert name_subject(what) == os.fspath(what)


def test_a_function_is_named_by_its_file(mine):
    assert name_subject(mine.training) == f"{mine.__file__}:training"
    assert name_subject(mine.kept) == f"{mine.__file__}:kept"
    assert name_subject(mine.renamed) == f"{mine.__file__}:training"


@pytest.mark.parametrize(
    ("pick", "says"),
    [
        (lambda mine: mine.unnamed, "a lambda has no name"),
        (lambda mine: mine.outer(), "'inner' is defined inside 'outer'"),
        (lambda mine: mine.Trainings.small, "'Trainings.small' is a method"),
        (lambda mine: mine.Trainings().large, "'Trainings.large' is a method"),
        (lambda mine: mine.Trainings, "is not a function"),
        (lambda mine: functools.partial(mine.sized, 3), "is not a function"),
        (lambda mine: mine.sized, "'sized' needs 'size', and laptime calls it without arguments"),
        (lambda mine: mine.first, "'old' is not this function's name at the top of trainings_of_mine"),
        (lambda mine: mine.training(), "None is not a training"),
        (lambda mine: [mine] * 99, "a list is not a training"),
    ],
)
def test_what_another_process_cannot_find_is_refused(mine, pick, says):
    """With what to write in its place."""
    with pytest.raises(UsageError) as caught:
        name_subject(pick(mine))
    assert says in caught.value.says
    assert any(word in caught.value.hint for word in ("def training()", "Give a function"))


def test_a_function_that_is_in_no_file_is_refused(mine, monkeypatch):
    monkeypatch.setattr(mine, "__file__", None)
    with pytest.raises(UsageError, match="'training' is in no file"):
        name_subject(mine.training)
    monkeypatch.setattr(mine, "__file__", sys.executable)
    with pytest.raises(UsageError, match=r"which is no \.py file"):
        name_subject(mine.training)
