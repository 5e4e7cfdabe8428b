"""A gate in continuous integration: the example's own commands on two real trainings, and simulated ones."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "examples" / "ci" / "training-speed.yml"
EXAMPLE = (ROOT / "examples" / "two_trainings.py").read_text(encoding="utf-8")
GATE_CODE, SLOWER = 1, "slower than base/train.py:training"


def commands():
    """Return the workflow's own laptime commands, without where their output goes."""
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["race"]["steps"]
    said = [step["run"].partition(">>")[0] for step in steps if step.get("run", "").startswith("laptime ")]
    return [shlex.split(each)[1:] for each in said]


@pytest.fixture(scope="module")
def gate(torch_house):
    """The workflow's commands, with fewer heats, where the head is what the example has `before`."""
    for side, function in (("base", "after"), ("head", "before")):
        place = torch_house.folder / side / "train.py"
        place.parent.mkdir()
        place.write_text(EXAMPLE.replace(f"def {function}()", "def training()"), encoding="utf-8")
    race, summary = commands()
    assert race[4:8] == ["--heats", "20", "--budget", "5m"]
    race = [*race[:4], "--heats", "2", "--budget", "5s", *race[8:], "--quiet"]
    raced = torch_house.run(*["python/cpu" if word == "cpu" else word for word in race])
    return SimpleNamespace(house=torch_house, raced=raced, summary=torch_house.run(*summary))


def test_a_head_that_is_slower_fails_the_job(gate):
    """1, or 4 where this machine was too busy; never 0."""
    assert gate.raced.code in {GATE_CODE, 0}, gate.raced.err
    assert "Gate FAILED: slower by more than 2 %: python/cpu of head/train.py:training" in " ".join(
        gate.raced.out.split()
    )
    assert gate.summary.code == GATE_CODE


def test_the_summary_says_what_changed(gate):
    lines = gate.summary.out.splitlines()
    assert lines[0] == "### laptime: `head/train.py:training` against `base/train.py:training`"
    assert lines[2].startswith("**Gate FAILED: slower by more than 2 %: python/cpu of head/train.py:training")
    (row,) = [line for line in lines if line.startswith("| `")]
    assert row.startswith("| `python/cpu of head/train.py:training` |")
    assert row.endswith(" | yes |")


def test_the_trainings_of_a_race_are_compared_in_turns(gate):
    found = gate.house.run("compare", "latest", "--json").json
    assert found["interleaved"] is True
    assert [each["verdict"] for each in found["lanes"]] == ["slower"]
    assert SLOWER in " ".join(gate.house.run("compare", "latest").out.split())


def test_the_workflow_is_one_that_github_can_read():
    """Base and head are checked out next to each other, and nothing of the pull request is put into a script."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = workflow["jobs"]["race"]["steps"]
    assert [step["with"]["path"] for step in steps if "checkout" in step.get("uses", "")] == ["base", "head"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert workflow["permissions"] == {"contents": "read"}
    assert [each[0] for each in commands()] == ["race", "compare"]


def test_simulated_gates_catch_a_slowdown_and_raise_no_false_alarm(monkeypatch):
    """At the largest spread that is promised; bench/gate.py has the table."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import gate as bench

    given = bench.parse(["--gates", "100"])
    alarms, caught = bench.judge(0.035, bench.read_noise(given.races), given)
    assert (alarms.kept, caught.kept) == (True, True), (alarms.value, caught.value)
    assert len(bench.judge(0.01, [0.0, 1.0, -1.0], given)) == 2
    sys.modules.pop("gate", None)
