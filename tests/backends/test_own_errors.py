"""An error of a user's own code is named by file, line and function, without the frames of libraries."""

from __future__ import annotations

import traceback

import pytest

from laptime.engine.backends.own import call_own, find_own_error
from laptime.model.errors import LaneError, TrainingError

MINE = """\
import json
import sys
import laptime
from nets import helper

class Data:
    def __iter__(self):
        yield 1 / 0

def training():
    return laptime.Training(step=print, data=Data())

def raises():
    return helper.boom()

def in_a_library():
    return json.loads("{")

def imports():
    import no_such_module

def broken():
    import half

def exits():
    sys.exit(3)

def asks_too_much():
    raise MemoryError
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    (folder / "nets").mkdir()
    (folder / "nets" / "helper.py").write_text("def boom():\n    raise KeyError('x')\n")
    (folder / "half.py").write_text("x = 1\ndef f(:\n")
    (folder / "errors_of_mine.py").write_text(MINE)
    return str(folder / "errors_of_mine.py")


def caught(act):
    """Return what a call raised."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001  SystemExit too
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("function", "reason", "line"),
    [
        ("raises", "nets/helper.py, line 2, in boom: KeyError: 'x'", "2 | raise KeyError('x')"),
        (
            "imports",
            "errors_of_mine.py, line 20, in imports: ModuleNotFoundError: No module named 'no_such_module'",
            "20 | import no_such_module",
        ),
        ("broken", "half.py, line 2: SyntaxError: invalid syntax", "2 | def f(:"),
        (
            "exits",
            "errors_of_mine.py, line 26, in exits: its code ended the process: sys.exit(3)",
            "26 | sys.exit(3)",
        ),
    ],
)
def test_an_error_of_the_function_is_named_by_its_place(mine, function, reason, line):
    """The deepest frame in the user's own folder; the error itself has no frames of laptime's around it."""
    found = find_own_error(caught(lambda: call_own(mine, function)), mine)
    assert (found.reason, found.line, found.on_load) == (reason, line, True)
    assert "^^" not in found.trace
    assert "laptime/backends" not in found.trace


def test_an_error_in_a_library_is_named_by_the_users_line(mine):
    """The library's own frames help nobody."""
    found = find_own_error(caught(lambda: call_own(mine, "in_a_library")), mine)
    assert found.reason.startswith("errors_of_mine.py, line 17, in in_a_library: JSONDecodeError: Expecting property")
    assert "decoder.py" not in found.trace


def test_an_error_on_import_has_no_function(tmp_path):
    place = tmp_path / "fails_on_import.py"
    place.write_text("x = 1\ny = x / 0\n")
    found = find_own_error(caught(lambda: call_own(str(place), "training")), str(place))
    assert found.reason == "fails_on_import.py, line 2: ZeroDivisionError: division by zero"
    assert found.on_load


def test_an_error_of_the_data_is_not_of_the_function(mine):
    """It may be one lane's alone."""
    data = call_own(mine, "training").data
    found = find_own_error(caught(lambda: next(iter(data))), mine)
    assert found.reason == "errors_of_mine.py, line 8, in __iter__: ZeroDivisionError: division by zero"
    assert (found.line, found.on_load) == ("8 | yield 1 / 0", False)


def test_an_error_of_a_loaders_worker_is_found_in_its_message(mine):
    """PyTorch's DataLoader raises it again in the training's process, as text."""
    data = call_own(mine, "training").data
    try:
        next(iter(data))
    except ZeroDivisionError:
        said = f"Caught ZeroDivisionError in DataLoader worker process 0.\nOriginal {traceback.format_exc()}"
    found = find_own_error(ZeroDivisionError(said), mine)
    assert found.reason == "errors_of_mine.py, line 8, in __iter__: ZeroDivisionError: division by zero"


def test_an_error_of_a_traced_function_is_found_in_its_message(mine):
    """Keras adds a page around it, and TensorFlow's frames are of code that it generated."""
    traced = f'in user code:\n\n    File "{mine}", line 8, in call  *\n        y = 1 / 0\n\n    ValueError: no good\n'
    said = (
        f"Exception encountered when calling N.call().\n\n\x1b[1m{traced}\x1b[0m\n\nArguments received by N.call():\n"
    )
    found = find_own_error(ValueError(said), mine)
    assert found.reason == "errors_of_mine.py, line 8, in call: ValueError: no good"


@pytest.mark.parametrize("error", [LaneError("no"), TrainingError("no"), RuntimeError("of a library"), MemoryError()])
def test_what_the_users_code_did_not_raise_has_no_place_in_it(mine, error):
    assert find_own_error(error, mine) is None


def test_memory_is_another_matter(mine):
    """A smaller lane may have enough of it."""
    assert find_own_error(caught(lambda: call_own(mine, "asks_too_much")), mine) is None


def test_a_long_message_is_one_line(mine):
    """Keras and TensorFlow say a page."""
    error = caught(lambda: call_own(mine, "in_a_library")).__cause__
    error.args = ("\x1b[1mtoo\n\n  long\x1b[0m " + "x" * 1_000,)
    reason = find_own_error(error, mine).reason
    assert "JSONDecodeError: too long xxx" in reason
    assert reason.endswith(" ...")
    assert len(reason) < 500
