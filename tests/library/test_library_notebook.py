"""A training that is written in the cells of a notebook, on a real IPython kernel."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

LONGEST_S = 120
KINDS = ("stream", "display_data", "execute_result", "error")
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


class Client(NotebookClient):
    """nbclient, which keeps what a display shows at the end; here all that it showed before, too."""

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] in {"display_data", "update_display_data"}:
            cell.metadata.setdefault("displays", []).append(dict(msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


class Notebook:
    """A kernel, and what its cells show."""

    def __init__(self, client):
        self._client = client

    def run(self, source):
        """Run a cell. Return what it printed, what its displays show, its value and its error."""
        cells = self._client.nb.cells
        cells.append(nbformat.v4.new_code_cell(source))
        cell = self._client.execute_cell(cells[-1], len(cells) - 1)
        held = {kind: [each for each in cell.outputs if each.output_type == kind] for kind in KINDS}
        value = held["execute_result"][0].data if held["execute_result"] else {}
        return {
            "shown": "".join(each.text for each in held["stream"]),
            "displays": cell.metadata.get("displays", []),
            "left": [each.data["text/plain"] for each in held["display_data"]],
            "value": value.get("text/plain", ""),
            "html": value.get("text/html", ""),
            "error": "\n".join(line for each in held["error"] for line in each.traceback),
        }


@pytest.fixture(scope="module")
def notebook(tmp_path_factory, torch_cache):
    """Start a kernel in a folder that has a module of the user's."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "helping.py").write_text("import numpy as np\n\ndef ones(size):\n    return np.ones(size, np.float32)\n")
    environment = {**os.environ, "LAPTIME_HOME": str(folder / "home"), "LAPTIME_CACHE": str(torch_cache.parent),
                   "IPYTHONDIR": str(folder / "ipython"), "LAPTIME_FAKE": "1"}  # fmt: skip
    client = Client(nbformat.v4.new_notebook(), timeout=LONGEST_S, allow_errors=True, kernel_name="python3")
    with client.setup_kernel(cwd=str(folder), env=environment):
        yield Notebook(client)


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


def test_a_notebook_shows_the_live_table_of_the_command(raced):
    """In one display that is updated, as a block in which every letter has its place. Nothing is left of it."""
    begin, *states, end = raced["displays"]
    assert begin == end == {"text/plain": "", "text/html": ""}
    (table, *_) = [each for each in states if "round 1 of 1" in each["text/plain"]]
    *_notices, head, lane = table["text/plain"].splitlines()
    assert "training" in head
    assert lane.split()[0] == "python/cpu"
    assert table["text/html"].startswith("<pre ")
    assert f"{head}\n{lane}" in html.unescape(table["text/html"])
    assert (raced["left"], raced["shown"]) == ([""], "")


FAST_NEWS = """\
from laptime.library.notebook import progress_shown
with progress_shown(wanted=None) as line:
    for number in range(200):
        line.write(f"note <{number}> \\x1b")
"""


def test_news_that_come_fast_are_shown_four_times_a_second(notebook):
    """The first at once, and all letters as they are."""
    begin, *states, end = notebook.run(FAST_NEWS)["displays"]
    assert [each["text/plain"] for each in states] == [f"note <{number}> \\x1b" for number in range(4)]
    assert "note &lt;0&gt; \\x1b</pre>" in states[0]["text/html"]
    assert begin == end


LAPS = """\
from laptime.library.notebook import progress_shown
from laptime.model.protocol import Moment
from dataclasses import replace
import laptime
trained = laptime.train("cifar-cnn", "fake/cpu", laps=2, steps_per_lap=50, progress=False)
laps = trained.lanes[0].trainings[0].laps
runs = Moment("fake/cpu/as-written", None, "lap", 3, number=3, step=20, steps=50)
with progress_shown(wanted=True) as line:
    for lap in laps:
        line.tell(replace(runs, number=lap.number, lap=lap))
    line.tell(runs)
"""


NOTICE = """\
from laptime.library.notebook import progress_shown
from laptime.model.record import Progress
with progress_shown(wanted=None) as line:
    line.show(None, Progress("warning: it takes at least about 40 s", stays=True))
    line.show(None, Progress("round 1 of 1"))
"""


def test_a_notice_stays_above_what_comes_after_it(notebook):
    """As that a budget is too short: it was replaced at once, and the cell was silent for a minute."""
    _, first, second, end = notebook.run(NOTICE)["displays"]
    assert first["text/plain"] == "warning: it takes at least about 40 s"
    above, *table = second["text/plain"].splitlines()
    assert above == first["text/plain"]
    assert "round 1 of 1" in " ".join(table)
    assert end["text/plain"] == ""


def test_finished_laps_stay_above_the_one_that_runs(notebook):
    answer = notebook.run(LAPS)
    assert answer["error"] == ""
    assert len(answer["displays"][2]["text/plain"].splitlines()) == 2
    first, second, *running = answer["displays"][3]["text/plain"].splitlines()
    assert (first.split(":")[0], second.split(":")[0]) == ("fake/cpu lap 1 of 3", "fake/cpu lap 2 of 3")
    assert "20" in " ".join(running)


def test_a_plan_is_shown_as_its_page(notebook):
    """So is all that is no record: comparisons, histories, devices, checkups."""
    answer = notebook.run('import laptime\nlaptime.plan("cifar-cnn", "fake/cpu", heats=3)')
    assert answer["html"].startswith("<pre ")
    assert answer["value"] in html.unescape(answer["html"])


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
    assert "<p><span" in answer["html"]  # a busy machine has a line above it
    assert "A step on each lane" in answer["html"] or "A lap on each lane" in answer["html"]
    look = "print(_.status, _.lanes[0].status, open(_.record.workload.file).read().count('def training'))"
    assert notebook.run(look)["shown"] == "finished ok 1\n"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("%%race cpu\nx = 1", "UsageError: this cell has no function that returns a training"),
        ("%%race cpu --bugdet 1m\ndef f(): ...", "Did you mean --budget?"),
        ("%%race cpu --budget\ndef f(): ...", "--budget needs a value"),
        ("%%why cpu --laps 3\ndef f(): ...", "there is no option --laps"),
        ("%%race cpu --heats two\ndef f(): ...", "--heats two: 'two' is not a valid integer."),
        ("%%race nowhere/cpu --label 2026\ndef f(): ...", "nowhere"),
        ("%%why nowhere/cpu\ndef f(): ...", "nowhere"),
    ],
)
def test_a_mistake_in_a_magics_line_is_a_sentence(notebook, raced, cell, says):
    notebook.run("%load_ext laptime")
    error = notebook.run(cell)["error"]
    assert says in error
    assert "Traceback" not in error


@pytest.mark.long
@pytest.mark.framework
def test_the_example_notebook_runs_from_its_first_cell_to_its_last(notebook):
    """The third published experiment as its author would write it now; here with a tenth of its neurons,
    and timed for a second a lane.

    A compiled model in Keras, where no lane is named: its engine, as written and at its best, both proven.
    """
    pytest.importorskip("tensorflow", reason="there is no TensorFlow here")
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "--budget 20s" in text
    shorter = text.replace("Dense(3000", "Dense(300").replace("--budget 20s", "--budget 2s")
    cells = nbformat.reads(shorter, as_version=4).cells
    told = [notebook.run(each.source) for each in cells if each.cell_type == "code"]
    assert [each["error"] for each in told] == [""] * len(told)
    assert "keras-tf/cpu" in told[2]["value"]
    assert "data:image/svg+xml" in told[2]["html"]
    assert told[3]["shown"].splitlines() == [
        "keras-tf/cpu/as-written ok True 32",
        "keras-tf/cpu/best ok True 32",
    ]


WATCHED = """\
with laptime.watching() as watched:
    for batch in laptime.steps([ones(4)] * 5):
        batch.sum()
watched.result
"""


def test_a_cell_is_watched_and_shows_its_page(notebook, raced):
    """A second cell too: its hooks are set once."""
    for _ in range(2):
        answer = notebook.run(WATCHED)
        assert answer["error"] == ""
        assert "5 iterations in 1 epoch" in answer["value"]
        assert "this notebook" in answer["html"]


def test_a_workload_by_name_and_no_progress(notebook, raced):
    answer = notebook.run(FAKE)
    assert float(answer["value"]) == pytest.approx(2, rel=0.05)
    assert answer["displays"] == []
