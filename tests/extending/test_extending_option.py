"""An option is a row, a field of the ask, and the place that uses it: the real `--alone` is taken out and put in again.

When it was added, it took seven files under src/: its decorator and lists of commands (cli/questions.py), its
reader and the signatures of the functions (library/asking.py, library/calls.py), the words that repeat a command
(report/listing.py), its field (model/ask.py), and its use (planner/duets.py, planner/plan.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import laptime

HOUSE = Path(laptime.__file__).parent
# The three files that the option takes now, and in each the lines of it. Its line of docs/ comes with them.
ADDED = {
    "model/options.py": """\
    Option("alone", FLAG, TIMED, "alone", "Run heats one after another, not in turns of 0.25 s.", is_rare=True),
""",
    "model/ask.py": "    alone: bool = False\n",
    "planner/groups.py": '    if ask.alone:\n        return "--alone asks for it"\n',
}
LOOK = """\
import inspect, json
import laptime
from laptime.cli.questions import make_ask
from laptime.cli.main import find_command
from laptime.library import asking
from laptime.library.asking import stub_text
from laptime.model.options import repeat_options

def typed(command, *words):
    with find_command(command).make_context(command, ["cifar-cnn", "fake/cpu", *words]) as context:
        own = {"against", "trust", "fail_above", "dry_run", "as_json", "quiet", "details"}
        return make_ask(command, {name: value for name, value in context.params.items() if name not in own})

def refused(call):
    try:
        return call()
    except Exception as error:
        return str(error)

found = {
    "commands": [name for name in ("race", "train", "infer", "why", "scale", "tune", "sweep", "profile")
                 if any("--alone" in each.opts for each in find_command(name).params)],
    "functions": [name for name in ("race", "train", "infer", "why", "scale", "tune", "sweep", "profile", "plan")
                  if "alone" in inspect.signature(getattr(laptime, name)).parameters],
    "stub": stub_text([laptime.race]).count("    alone: bool = False,"),
    "typed": refused(lambda: repeat_options("race", typed("race", "--alone"))),
    "called": refused(lambda: typed("why", "--alone") == asking.make_ask("cifar-cnn", "fake/cpu", "why", alone=True)),
    "wrong": refused(lambda: asking.make_ask("cifar-cnn", (), alone=1)),
    "planned": refused(lambda: laptime.plan("cifar-cnn", ["fake/cpu", "fake/cpu/best"], alone=True).plan.alone),
}
print(json.dumps(found))
"""
ALL = ["race", "infer", "why", "scale", "tune", "sweep", "plan"]  # `laptime.plan` is `race --dry-run` of a command line


@pytest.fixture
def house(tmp_path):
    """Return a copy of laptime from which the option was taken out."""
    root = tmp_path / "src" / "laptime"
    shutil.copytree(HOUSE, root, ignore=shutil.ignore_patterns("__pycache__"))
    for place, lines in ADDED.items():
        text = (root / place).read_text(encoding="utf-8")
        assert text.count(lines) == 1, place
        (root / place).write_text(text.replace(lines, ""), encoding="utf-8")
    return root


def look(root):
    names = {
        "LAPTIME_HOME": str(root.parent / "home"),
        "LAPTIME_CACHE": str(root.parent / "cache"),
        "LAPTIME_FAKE": "1",
    }
    environment = {**os.environ, **names, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, env=environment, cwd=root.parent
    )
    return json.loads(done.stdout)


@pytest.mark.long
def test_an_option_takes_three_files(house):
    before = look(house)
    assert (before["commands"], before["functions"], before["stub"]) == ([], [], 0)
    assert before["typed"] == "No such option '--alone'."
    assert "unexpected keyword argument 'alone'" in before["wrong"]

    for place in ADDED:
        shutil.copy(HOUSE / place, house / place)
    after = look(house)
    assert (after["commands"], after["functions"], after["stub"]) == (ALL[:-1], ALL, 1)
    assert after["typed"] == ["--alone"]
    assert after["called"] is True
    assert after["wrong"].startswith("alone=1: expected True or False")
    assert after["planned"] == "--alone asks for it"
    assert len(ADDED) <= 3
