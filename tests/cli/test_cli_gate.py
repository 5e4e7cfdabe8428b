"""A gate in continuous integration: the example's own commands, and simulated gates."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import yaml

from laptime.api.showing import as_json

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "examples" / "ci" / "training-speed.yml"
EXAMPLE = (ROOT / "examples" / "two_trainings.py").read_text(encoding="utf-8")
FILES = ("base/train.py", "head/train.py")
LANE = "python/cpu/as-written of "


def commands():
    """Return the workflow's own laptime commands, without where their output goes."""
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["race"]["steps"]
    said = [step["run"].partition(">>")[0] for step in steps if step.get("run", "").startswith("laptime ")]
    return [shlex.split(each)[1:] for each in said]


@pytest.fixture(scope="module")
def bench():
    """bench/gate.py, whose simulated races are records as any."""
    sys.path.insert(0, str(ROOT / "bench"))
    import gate

    yield gate
    sys.path.remove(str(ROOT / "bench"))


@pytest.fixture(scope="module")
def gated(shared_house, bench):
    """A race in which the head is slower, kept as the newest record."""
    rounds = [10.0, 10.2, 9.9, 10.1]
    record = bench.race_of(rounds, [step_ms * (1.10 + place / 100) for place, step_ms in enumerate(rounds)])
    place = shared_house.home / "records" / f"{record.id}.json"
    place.parent.mkdir(parents=True)
    place.write_text(as_json(record), encoding="utf-8")
    return shared_house


def test_the_workflow_races_base_and_head(torch_house):
    """Its own command, which a dry run takes to two lanes of the two files; the rest is a race as any."""
    for side, function in (("base", "after"), ("head", "before")):
        place = torch_house.folder / side / "train.py"
        place.parent.mkdir()
        place.write_text(EXAMPLE.replace(f"def {function}()", "def training()"), encoding="utf-8")
    race, _ = commands()
    assert race[4:] == ["--heats", "20", "--budget", "5m", "--fail-above", "2%"]
    words = ["python/cpu" if word == "cpu" else word for word in race]
    plan = torch_house.done(*words, "--dry-run", "--json").json
    assert [lane["name"] for lane in plan["lanes"]] == [f"{LANE}{file}:training" for file in FILES]
    assert (plan["pace"]["heats_max"], plan["pace"]["takes_turns"]) == (20, True)


def test_the_summary_of_a_slower_head_fails_and_says_so(gated):
    answer = gated.done(*commands()[1], code=1)
    lines = answer.out.splitlines()
    assert lines[0] == "### laptime: `head/train.py:training` against `base/train.py:training`"
    assert lines[2].startswith("**Gate FAILED: slower by more than 2 %: torch/cpu of head/train.py:training (by at ")
    (row,) = [line for line in lines if line.startswith("| `")]
    assert row.startswith("| `torch/cpu of head/train.py:training` |")


def test_the_trainings_of_a_race_are_compared_in_turns(gated):
    found = gated.done("compare", "latest", "--json").json
    assert found["interleaved"] is True
    (lane,) = found["lanes"]
    assert (lane["verdict"], lane["counts"]) == ("slower", [4, 4])
    assert lane["ratio"] == pytest.approx(1 / 1.115, rel=0.01)
    assert "slower than base/train.py:training" in " ".join(gated.done("compare", "latest").out.split())


def test_the_workflow_is_one_that_github_can_read():
    """Base and head are checked out next to each other, and nothing of the pull request is put into a script."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = workflow["jobs"]["race"]["steps"]
    assert [step["with"]["path"] for step in steps if "checkout" in step.get("uses", "")] == ["base", "head"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert workflow["permissions"] == {"contents": "read"}
    assert [each[0] for each in commands()] == ["race", "compare"]


def test_simulated_gates_catch_a_slowdown_and_raise_no_false_alarm(bench):
    """At the largest spread that is promised; bench/gate.py has the table."""
    given = bench.parse(["--gates", "100"])
    alarms, caught = bench.judge(0.035, bench.read_noise(given.races), given)
    assert (alarms.kept, caught.kept) == (True, True), (alarms.value, caught.value)
