"""WHAT is a workload by its name or a function by its file; nothing of the user's runs before its heat."""

from __future__ import annotations

import pytest

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Device
from laptime.model.plan import Pace, Plan, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.questions.proving import _reference_key, order_heat
from laptime.questions.subject import describe_supply, find_subject, find_subjects, find_widths, supply
from laptime.trainings.workloads import CATALOGUE, find_workload

MINE = """\
from elsewhere import borrowed
from elsewhere import other as renamed
raise SystemExit("nobody may run this file here")
bound = make()
def training(): ...
def second(): ...
"""


@pytest.fixture
def mine(tmp_path):
    place = tmp_path / "mine.py"
    place.write_text(MINE)
    return place


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_a_workload_is_found_by_its_name(name):
    """The subject says what the catalogue says."""
    subject, workload = find_subject(name)
    assert workload is CATALOGUE[name]
    assert (name, workload.parameters, workload.batch) == (subject.name, subject.parameters, subject.batch)


def test_lanes_that_name_a_number_of_items_read_a_set_of_that_size(tmp_path, monkeypatch):
    """What the others read is made for them alone, and a fake lane reads nothing."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    subject, workload = find_subject("plates-cnn")
    names = ("torch/8", "torch/16", "fake/32", "torch/cached")
    more = ({"items": "8"}, {"items": "16"}, {"items": "32"}, {})
    lanes = tuple(
        PlannedLane(name, name.split("/")[0], Device("cpu", "cpu", "", usable=True), Settings(input=kind, extra=extra))
        for name, extra, kind in zip(names, more, ("fast", "fast", "fast", "cached"), strict=True)
    )
    plan = Plan(Ask(), subject, lanes, workload.proof, Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.2))
    assert describe_supply(plan).count("will be written to") == 2
    made = supply(plan, lambda _doing: None, lambda _notice: None)
    assert {count: each.train_items for count, each in made.sets.items()} == {8: 8, 16: 16}
    assert made.data is None
    assert [order_heat(made, lane, made.pace, 0).data for lane in lanes] == [made.sets[8], made.sets[16], None, None]


def test_a_width_is_a_training_of_its_own_with_a_reference_of_its_own():
    """But for width 1, which is the training as it is published."""
    subject, workload = find_subject("cifar-mlp")
    widths = find_widths(subject, ("0.5", "1", "2.0"))
    assert widths["1"] == subject
    assert [each.name for each in widths.values()] == ["cifar-mlp@0.5", "cifar-mlp", "cifar-mlp@2"]
    assert widths["0.5"].parameters == find_workload("cifar-mlp@0.5").parameters < subject.parameters
    lanes = tuple(PlannedLane(name, "torch", Device("cpu", "cpu", "", usable=True), Settings()) for name in widths)
    plan = Plan(Ask(), subject, lanes, workload.proof, Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.2))
    assert len({_reference_key(plan, each, "torch") for each in widths.values()}) == 3


@pytest.mark.parametrize("function", ["training", "second", "bound", "borrowed", "renamed"])
def test_a_training_of_ones_own_is_found_without_running_its_file(mine, function):
    """Defined, assigned or imported: its name is in the text."""
    name, title = f"mine.py:{function}", f"{function} of mine.py"
    expected = Subject(name, title, None, None, None, None, "items", file=str(mine), function=function)
    assert find_subject(f"{mine}:{function}") == (expected, None)


STEP = "def training():\n    return laptime.Training(step=step, data=[])\n"


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        (f"import numpy as np\n{STEP}", "python"),
        (f"import torch\n{STEP}", "torch"),
        (f"import tensorflow as tf\n{STEP}", "python"),
        (f"import jax, torch\n{STEP}", "jax"),
        (f"import torch\n{STEP}def training():\n    return laptime.Training(model)\n", "torch"),
        (
            f"import torch\n{STEP.replace('training()', 'other()')}def training():\n    return Training(model)\n",
            "torch",
        ),
        (f"import torch\n{STEP.replace('training()', 'other()')}def training():\n    return other()\n", "torch"),
    ],
)
def test_a_step_is_for_jax_or_pytorch_or_for_whatever_it_computes_with(tmp_path, text, framework):
    """Told by what the named function gives; by the whole file, where it has that from elsewhere."""
    place = tmp_path / "mine.py"
    place.write_text(text)
    assert find_subject(f"{place}:training")[0].written_for == framework


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("import torch.nn as nn", "torch"),
        ("from keras import layers\nimport torch", "keras"),
        ("import tensorflow as tf", "keras"),
        ("def training():\n    import jax.numpy as jnp", "jax"),
        ("import numpy", None),
    ],
)
def test_a_files_imports_tell_what_it_is_written_for(tmp_path, text, framework):
    """Keras first: the others are its engines."""
    place = tmp_path / "mine.py"
    place.write_text(f"{text}\ntraining = make()\n")
    assert find_subject(f"{place}:training")[0].written_for == framework


@pytest.mark.parametrize(
    ("what", "nearest"),
    [
        ("cifar-cnm", "cifar-cnn, cifar-mlp"),
        ("pets", "pets-densenet"),
        ("xyz", "scenes-cnn, cifar-cnn, cifar-mlp, pets-densenet, plates-cnn"),
    ],
)
def test_an_unknown_workload_names_the_nearest(what, nearest):
    """All of them, where none is near."""
    with pytest.raises(UsageError) as caught:
        find_subject(what)
    assert caught.value.says.startswith(f"unknown workload '{what}'; nearest: {nearest.split(',')[0]}")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("what", ["mine.py:", "mine.py:1st", "mine.py:a.b", "mine.py:a b"])
def test_a_file_without_a_function_is_refused(what):
    """The hint shows how it is written."""
    with pytest.raises(UsageError) as caught:
        find_subject(what)
    assert caught.value.says == f"'{what}' names a file but no function in it"
    assert caught.value.hint == "give mine.py:function, where the function returns a laptime.Training"


@pytest.mark.parametrize(
    "text",
    [
        "def helper(): ...\ndef mine() -> laptime.Training: ...\ndef other(size): return Training(size)",
        "def mine() -> 'Training': ...\ndef other(): return Training()",
        "def _make(): return laptime.Training()\ndef mine(size=3):\n    if size: return laptime.Training(step=1)",
        "if True:\n    def mine():\n        made = Training()\n        return made",
    ],
)
def test_a_file_alone_means_its_one_training(tmp_path, text):
    """By its annotation, or because it makes a Training; a function that needs arguments cannot be called."""
    place = tmp_path / "mine.py"
    place.write_text(f"raise SystemExit\n{text}\n")
    subject, workload = find_subject(str(place))
    assert (subject.name, subject.function, workload) == ("mine.py:mine", "mine", None)


def test_a_file_with_two_trainings_is_refused_with_both(tmp_path):
    place = tmp_path / "mine.py"
    place.write_text("def one(): return Training()\ndef two(): return Training()\n")
    with pytest.raises(UsageError) as caught:
        find_subject(str(place))
    assert (caught.value.says, caught.value.hint) == (f"{place} has 2 trainings: one, two", f"name one: {place}:one")


@pytest.mark.parametrize(
    ("text", "line"),
    [("def make(): return model, data", "If one of its functions returns a Training, name it: {}:make"),
     ("import torch\ndef main(): fit()", "loss=loss_function, optimizer=optimizer, data=loader)"),
     ("import keras", "return laptime.Training(model=model, data=data)"),
     ("import jax", "return laptime.Training(step=step, state=state, data=data)")],
)  # fmt: skip
def test_a_file_without_a_training_is_refused_with_what_takes_it_and_what_to_write(tmp_path, text, line):
    """No function of a script is named that returns nothing: to call it would run the whole training."""
    place = tmp_path / "mine.py"
    place.write_text(f"{text}\n")
    with pytest.raises(UsageError) as caught:
        find_subject(str(place))
    assert caught.value.says == f"{place} has no function that returns a laptime.Training"
    first, *lines = caught.value.hint.splitlines()
    assert first.startswith(f"laptime race {place}, laptime why {place} and laptime watch python {place} take a script")
    assert lines[-1].endswith(line.format(place))
    assert lines[1:3] == ["  import laptime", "  def training():"]


@pytest.mark.parametrize(
    "body", ["    fit()", "    if 1: return\n    fit()", "    def inner(): return 1\n    inner()\n    return None"]
)
def test_a_function_that_returns_nothing_is_refused_before_it_is_called(tmp_path, body):
    place = tmp_path / "script.py"
    place.write_text(f"import torch\ndef main():\n{body}\n")
    with pytest.raises(UsageError) as caught:
        find_subject(f"{place}:main")
    assert caught.value.says == f"main in {place} returns nothing, and a laptime.Training was expected"
    assert "take a script as it is" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    raise RuntimeError",
        "def main(): ...",
        "def main(): return make()",
        "def main() -> 'Training': ...",
        "@made\ndef main(): make()",
        "def main(): make()\nmain = made(main)",
        "if 1:\n    def main(): return 1\nelse:\n    def main(): make()",
    ],
)
def test_what_a_function_returns_is_known_once_it_is_called(tmp_path, text):
    place = tmp_path / "mine.py"
    place.write_text(text)
    assert find_subject(f"{place}:main")[0].function == "main"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    """So is a folder of that name."""
    (tmp_path / "folder.py").mkdir()
    for name in ("nowhere.py", "folder.py"):
        with pytest.raises(UsageError, match=f"there is no file .*{name}"):
            find_subject(f"{tmp_path / name}:training")


def test_a_function_that_is_not_in_the_file_is_refused_with_those_that_are(mine):
    """A slip of the finger is seen at once."""
    with pytest.raises(UsageError) as caught:
        find_subject(f"{mine}:trainig")
    assert caught.value.says == f"{mine} has no function 'trainig'"
    assert caught.value.hint == "functions there: training, second"


@pytest.mark.parametrize("content", [b"def training(:\n", b"\x00", b"\xff\xfe", b"def training():\nreturn 1"])
def test_a_file_that_is_no_python_is_refused(tmp_path, content):
    """With what Python says of it."""
    place = tmp_path / "broken.py"
    place.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as Python: "):
        find_subject(f"{place}:training")


NAMED = "def training():\n    return 'é'\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + NAMED.encode("utf-8"),
        b"# coding: latin-1\n" + NAMED.encode("latin-1"),
        b"#!/usr/bin/env python\n# -*- coding: cp1252 -*-\n" + NAMED.encode("cp1252"),
    ],
    ids=["byte-order mark", "latin-1", "cp1252"],
)
def test_a_file_is_read_in_the_encoding_that_it_names(tmp_path, content):
    """As Python reads it."""
    place = tmp_path / "mine.py"
    place.write_bytes(content)
    assert find_subject(f"{place}:training")[0].function == "training"


@pytest.mark.parametrize(
    "text",
    [
        "if fast:\n    def training(): ...\nelse:\n    def other(): ...",
        "if fast:\n    pass\nelif slow:\n    async def training(): ...",
        "try:\n    import jax\nexcept ImportError:\n    def training(): ...",
        "try:\n    pass\nfinally:\n    with quiet():\n        def training(): ...",
        "for each in range(2):\n    def training(): ...",
        "match size:\n    case 1:\n        def training(): ...",
        "from elsewhere import *",
    ],
)
def test_a_function_under_a_condition_is_found(tmp_path, text):
    """Whether it is defined shows when the file is run, in its child."""
    place = tmp_path / "mine.py"
    place.write_text(text)
    assert find_subject(f"{place}:training")[0].function == "training"


def test_a_step_under_a_condition_is_found(tmp_path):
    """What the function returns shows what it is for, wherever in the file it is defined."""
    place = tmp_path / "mine.py"
    place.write_text(
        "import torch\nif True:\n    def training():\n        return laptime.Training(step=step, data=[])\n"
    )
    subject = find_subject(f"{place}:training")[0]
    assert (subject.written_for, subject.gives_step) == ("torch", True)


@pytest.mark.parametrize("text", ["class A:\n    def training(self): ...", "def outer():\n    def training(): ..."])
def test_a_function_within_another_is_none_of_the_files(tmp_path, text):
    """Nobody could call it by its name, and the error says why."""
    place = tmp_path / "mine.py"
    place.write_text(text)
    with pytest.raises(UsageError, match="'training' is defined inside something else") as caught:
        find_subject(f"{place}:training")
    assert caught.value.hint.startswith("move it to the top of the file; functions there: ")


def test_a_file_of_many_levels_is_read_or_refused(tmp_path):
    """A thousand branches are no reason for a traceback."""
    place = tmp_path / "mine.py"
    branches = "".join(f"elif a == {each}:\n    pass\n" for each in range(900))
    place.write_text(f"if a:\n    pass\n{branches}else:\n    def training(): ...\n")
    assert find_subject(f"{place}:training")[0].function == "training"
    place.write_text("def training(): ...\nx = " + "(" * 5_000 + ")" * 5_000)
    with pytest.raises(UsageError, match="cannot be read as Python"):
        find_subject(f"{place}:training")


def test_trainings_of_one_race_have_names_that_differ(mine):
    """As few folders as needed stand before a file of the same name."""
    other = mine.parent / "new" / "mine.py"
    other.parent.mkdir()
    other.write_text(MINE)
    names = [subject.name for subject, _ in find_subjects([f"{mine}:training", f"{mine}:second"])]
    assert names == ["mine.py:training", "mine.py:second"]
    names = [subject.name for subject, _ in find_subjects([f"{mine}:training", f"{other}:training"])]
    assert names == [f"{mine.parent.name}/mine.py:training", "new/mine.py:training"]


def test_trainings_of_one_race_are_the_users_own_and_differ(mine):
    with pytest.raises(UsageError, match="cifar-mlp is built in, and several trainings in one race have to"):
        find_subjects([f"{mine}:training", "cifar-mlp"])
    with pytest.raises(UsageError, match=r"mine.py:training is named twice"):
        find_subjects([f"{mine}:training", f"{mine.parent}/./mine.py:training"])
