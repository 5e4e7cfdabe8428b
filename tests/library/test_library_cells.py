"""From cells to a file: what a function needs is in it, in the order in which it ran, and nothing else."""

from __future__ import annotations

import pytest

from laptime.library.notebook import read_cells, without_failed, write_file
from laptime.model.errors import UsageError

TRAINING = "def training():\n    return {}"


def file_of(*cells, reached=None, lived=None):
    """Return the statements of the file, without laptime's own lines at its head."""
    text = write_file(without_failed(read_cells(cells, reached), lived or {}), "training", ["/here"])
    compile(text, "file", "exec")
    return [line for line in text.split("not in sys.path]\n", 1)[1].splitlines() if line]


def value_of(*cells, **options):
    """Return what the function returns, in the file that was made of the cells."""
    names = {"__name__": "notebook"}
    exec("\n".join(file_of(*cells, **options)), names)
    return names["training"]()


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        pytest.param(["a = 1", "b = 2", TRAINING.format("b")], 2, id="a name"),
        pytest.param(["b = 2", TRAINING.format("b"), "b = 3"], 3, id="defined again later"),
        pytest.param(["size = 1", "b = [size]", "size = 2", TRAINING.format("(b, size)")], ([1], 2), id="as it ran"),
        pytest.param(
            ["size = 1", "def make():\n    return size", "b = make()", "size = 2", TRAINING.format("(b, size)")],
            (1, 2),
            id="as it was when it was called",
        ),
        pytest.param(["b = {}", "b['x'] = 1", "b['y'] = 2", TRAINING.format("b")], {"x": 1, "y": 2}, id="filled"),
        pytest.param(["b = []", "for i in range(3):\n    b.append(i)", TRAINING.format("b")], [0, 1, 2], id="a loop"),
        pytest.param(["b = 1", "if b:\n    b = 5", TRAINING.format("b")], 5, id="under a condition"),
        pytest.param(["b = 1\nb += 1", TRAINING.format("b")], 2, id="increased"),
        pytest.param(["from math import *", TRAINING.format("floor(2.5)")], 2, id="all of a module"),
        pytest.param(
            ["import xml.dom", "import xml.sax", TRAINING.format("(xml.dom.__name__, xml.sax.__name__)")],
            ("xml.dom", "xml.sax"),
            id="modules of a package",
        ),
        pytest.param(
            ["n = 2", "class A:\n    twice = [n * i for i in range(2)]\n    def f(self):\n        return m", "m = 7",
             TRAINING.format("(A.twice, A().f())")], ([0, 2], 7), id="a class",
        ),
        pytest.param(
            ["get_ipython().run_line_magic('cd', 'x')", "no Python (", TRAINING.format("1")], 1, id="magics"
        ),
        pytest.param(
            ["get_ipython().run_cell_magic('time', '', 'b = 3\\n')", TRAINING.format("b")], 3, id="a cell's magic"
        ),
        pytest.param(["def training(n=2):\n    return training(n - 1) if n else 9"], 9, id="calls itself"),
    ],
)  # fmt: skip
def test_the_file_gives_what_the_notebook_would(cells, value):
    """Also where names were defined again, or changed, between the uses."""
    assert value == value_of(*cells)


def test_what_is_not_needed_is_left_out():
    """A training that ran in the notebook would run in each heat."""
    cells = [
        "import time, math",
        "model = 1\nslow = time.sleep(9)",
        "model.fit()",
        "other = slow",
        TRAINING.format("model"),
    ]
    assert file_of(*cells) == ["model = 1", "def training():", "    return model"]


def test_what_has_not_run_yet_does_not_count():
    """The call is in the middle of the last cell."""
    cells = ["b = 1", TRAINING.format("b") + "\nresult = race(\n    training\n)\nb = 2"]
    assert value_of(*cells, reached=3) == 1


def test_a_loop_that_calls_for_each_value_is_refused():
    """Its variable exists only while it runs."""
    with pytest.raises(UsageError, match="needs 'size', which no cell"):
        file_of(TRAINING.format("size") + "\nfor size in (1, 2):\n    race(training)", reached=4)


def test_a_definition_whose_cell_failed_above_it_does_not_count():
    """The notebook still holds the function of before."""
    first, second = TRAINING.format("1"), TRAINING.format("2")
    assert value_of(first, "1 / 0\n" + second, lived={"training": first}) == 1
    assert value_of(first, second, lived={"training": second}) == 2
    assert value_of(first, second) == 2


def test_future_imports_come_first():
    text = write_file(read_cells(["from __future__ import annotations", TRAINING.format("1")]), "training", [])
    assert text.splitlines()[1] == "from __future__ import annotations"
    compile(text, "file", "exec")


def test_names_that_no_cell_defines_are_refused_together():
    with pytest.raises(UsageError) as caught:
        file_of("import torch", TRAINING.format("torch.zeros(width, height, len('x'))"))
    assert caught.value.says == "'training' needs 'height', 'width', which no cell of this notebook defines"
    assert "Define it in a cell" in caught.value.hint
