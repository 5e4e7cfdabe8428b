"""A training that is written in the cells of a notebook, on a real IPython kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

LONGEST_S = 120
EXAMPLE = Path(__file__).parents[2] / "examples" / "third_experiment.ipynb"
IMPORTS = "import json\nimport numpy as np\nimport laptime\nfrom helping import ones"
MODEL = """\
%precision 4
size = 4
"""
STEP = """\
%%time
def step(state, batch):
    return state + 0.001 * batch, float((state ** 2).sum())
rates = {}
rates["now"] = 0.001
"""
TRAINING = """\
def training():
    return laptime.Training(step=step, state=ones(size) * (1 + rates["now"]), data=[ones(size)] * 8)
"""
RACE = 'result = laptime.race(training, "python/cpu", heats=1, budget="2s")\nsize = 99\nresult'
LOOK = "print(json.dumps([result.lanes[0].status, result.record.workload.file, result.lanes[0].reason]))"
FAKE = 'laptime.race("cifar-cnn", ["fake/cpu", "fake/cpu/best"], heats=1, progress=False).ratio.value'


class Notebook:
    """A kernel, and what its cells show."""

    def __init__(self, client):
        self._client = client

    def run(self, cell):
        """Run a cell. Return what it printed, what its displays show, its value and its error."""
        shown, displays, value, html, error = "", [], "", "", ""
        sent = self._client.execute(cell)
        while True:
            message = self._client.get_iopub_msg(timeout=LONGEST_S)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown += content["text"]
            elif kind in {"display_data", "update_display_data"}:
                displays.append(content["data"]["text/plain"])
            elif kind == "execute_result":
                value, html = content["data"]["text/plain"], content["data"].get("text/html", "")
            elif kind == "error":
                error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return {"shown": shown, "displays": displays, "value": value, "html": html, "error": error}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory, torch_cache):
    """Start a kernel in a folder that has a module of the user's."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "helping.py").write_text("import numpy as np\n\ndef ones(size):\n    return np.ones(size, np.float32)\n")
    environment = {**os.environ, "LAPTIME_HOME": str(folder / "home"), "LAPTIME_CACHE": str(torch_cache.parent),
                   "IPYTHONDIR": str(folder / "ipython"), "LAPTIME_FAKE": "1"}  # fmt: skip
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environment)
    try:
        yield Notebook(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def raced(notebook):
    """Run the cells, and the race in the last of them."""
    for cell in (IMPORTS, MODEL, STEP, TRAINING):
        notebook.run(cell)
    answer = notebook.run(RACE)
    return {**answer, "look": notebook.run(LOOK)["shown"]}


def test_a_function_of_a_cell_is_raced_and_its_value_is_the_page(notebook, raced):
    """Also what other cells define, a cell with a magic, and a module next to the notebook."""
    assert raced["error"] == ""
    status, file, reason = json.loads(raced["look"])
    assert (status, reason) == ("ok", None)
    assert "python/cpu" in raced["value"]
    assert "laptime show" in raced["value"]
    text = Path(file).read_text(encoding="utf-8")
    assert "size = 4" in text
    assert "rates['now'] = 0.001" in text
    assert "laptime.race" not in text
    assert "size = 99" not in text


def test_a_notebook_shows_progress_in_one_line_that_is_updated(raced):
    """And nothing is left of it."""
    assert any("heat 1 of at most 1" in each for each in raced["displays"])
    assert raced["displays"][-1] == ""
    assert raced["shown"] == ""


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("laptime.race(lambda: training())", "UsageError: a lambda has no name"),
        ("def training():\n    return later_on\nlaptime.race(training)", "'training' needs 'later_on', which no cell"),
        ("def other(n): ...\nlaptime.race(other)", "'other' needs 'n', and laptime calls it without arguments"),
        ('laptime.race("cifar-cnn", "fake/nowhere")', "'nowhere'"),
    ],
)
def test_a_mistake_in_a_cell_is_a_sentence(notebook, raced, cell, says):
    """Without a traceback of laptime's own lines."""
    error = notebook.run(cell)["error"]
    assert says in error
    assert "Traceback" not in error
    assert len(error.splitlines()) <= 4


MAGIC = """\
%%race python/cpu --heats 1 --budget=2s
def training():
    return laptime.Training(step=step, state=ones(size), data=[ones(4) * rates["now"]] * 4)
"""


def test_a_cell_is_raced_by_its_magic_and_shows_its_report(notebook, raced):
    """Its own source, what earlier cells define, and no call of laptime's."""
    assert notebook.run("size = 4\n%load_ext laptime")["error"] == ""
    answer = notebook.run(MAGIC)
    assert answer["error"] == ""
    assert "python/cpu" in answer["value"]
    assert answer["html"].startswith("<iframe srcdoc=")
    assert "Steps of python/cpu" in answer["html"]
    look = "print(_.status, _.lanes[0].status, open(_.record.workload.file).read().count('def training'))"
    assert notebook.run(look)["shown"] == "finished ok 1\n"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%race cpu\nx = 1", "UsageError: this cell has no function that returns a training"),
        ("%%race cpu --bugdet 1m\ndef f(): ...", "Did you mean --budget?"),
        ("%%race cpu --budget\ndef f(): ...", "--budget needs a value"),
        ("%%why nowhere/cpu\ndef f(): ...", "nowhere"),
    ],
)
def test_a_mistake_in_a_magics_line_is_a_sentence(notebook, raced, cell, says):
    notebook.run("%load_ext laptime")
    error = notebook.run(cell)["error"]
    assert says in error
    assert "Traceback" not in error


@pytest.mark.framework
def test_the_example_notebook_runs_from_its_first_cell_to_its_last(notebook):
    """The third published experiment as its author would write it now; here with a tenth of its neurons,
    and timed for a second a lane.

    A compiled model in Keras, where no lane is named: its engine, as written and at its best, both proven.
    """
    pytest.importorskip("tensorflow", reason="there is no TensorFlow here")
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "--budget 20s" in text
    cells = json.loads(text.replace("Dense(3000", "Dense(300").replace("--budget 20s", "--budget 5s"))["cells"]
    told = [notebook.run("".join(each["source"])) for each in cells if each["cell_type"] == "code"]
    assert [each["error"] for each in told] == [""] * len(told)
    assert "keras-tf/cpu" in told[2]["value"]
    assert told[2]["html"].startswith("<iframe")
    assert told[3]["shown"].splitlines() == [
        "keras-tf/cpu/as-written ok True 32",
        "keras-tf/cpu/best ok True 32",
    ]


def test_a_workload_by_name_and_no_progress(notebook, raced):
    answer = notebook.run(FAKE)
    assert float(answer["value"]) == pytest.approx(2, rel=0.05)
    assert answer["displays"] == []
