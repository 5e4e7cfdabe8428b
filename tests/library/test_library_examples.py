"""The examples of docs/library.md, run as they are written; fake lanes take the place of torch's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import forked_heats as forking
import laptime
from laptime.model.errors import LaptimeError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "library.md"
HEADING, BLOCK = "\n## An example of each\n", re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FUNCTIONS = {name for name in laptime.__all__ if name[0].islower()} - laptime.PUBLIC_PLACES.keys()
FASTER = {"torch": "fake", 'budget="2m"': 'budget="2s"'}
OF_HOOKS = "laptime.watching("  # hooks stay in their process: test_library_watching.py runs this block in its own
ENDS_IN_LAP_2 = '["fake/*"]\nfail = { how = "exit", phase = "lap 2", heat = 0 }\n'


def read_examples():
    section = PAGE.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    for written, run in FASTER.items():
        section = section.replace(written, run)
    return BLOCK.findall(section)


@pytest.fixture(scope="module")
def all_cores():
    """Let this process use every core: NumPy has a thread for each, and they would wait for each other on one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(scope="module")
def examples(shared_house, all_cores):
    """Run all blocks in a folder of their own, where a training was ended in its second lap. Return their names."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in shared_house.environment().items():
            patched.setenv(name, value)
        forking.prepare()
        patched.setattr(subprocess, "Popen", forking.ForkingPopen)
        patched.chdir(shared_house.folder)
        shared_house.script(ENDS_IN_LAP_2)
        patched.setenv("LAPTIME_FAKE", shared_house.fake)
        laptime.train("cifar-cnn", "fake/cpu", laps=2, steps_per_lap=50, label="long")
        shared_house.script('[cards]\n"cuda:1" = { works = "yes" }\n')
        patched.setenv("LAPTIME_FAKE", shared_house.fake)
        shutil.copytree(ROOT / "examples", shared_house.folder / "examples")
        names = {}
        for number, block in enumerate(each for each in read_examples() if OF_HOOKS not in each):
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
        yield names


def test_there_is_an_example_of_each_function():
    text = "".join(read_examples())
    assert {each for each in FUNCTIONS if f"laptime.{each}(" not in text} == set()


@pytest.mark.long
def test_a_verdict_is_a_word_and_a_sentence(examples):
    """The real training of the example, on whatever machine this is."""
    if examples["verdict"].needs == "a quieter machine":
        pytest.skip("other processes computed meanwhile")
    assert examples["verdict"].word == "KEEP", examples["verdict"]
    assert "as fast, and does the same work." in examples["verdict"].why


@pytest.mark.long
def test_a_race_and_the_same_race_again(examples):
    """The fake is twice as fast at its best, and as fast as before."""
    assert examples["result"].ratio.value == pytest.approx(2, rel=0.05)
    again = examples["again"]
    assert (again.record.ask.label, again.record.ask.budget_s) == ("topic", 60.0)
    assert [lane.verdict for lane in again.comparison.lanes] == ["not distinguishable"] * 2


@pytest.mark.long
def test_a_whole_training_has_its_laps_and_what_is_finished_is_not_resumed(examples):
    trained = examples["trained"]
    assert (trained.record.question, len(trained.lanes[0].trainings[0].laps)) == ("full", 2)
    assert isinstance(trained.lanes[0].accuracy, float)
    with pytest.raises(LaptimeError, match="is finished: nothing is left to train"):
        laptime.resume(trained.id)


@pytest.mark.long
def test_a_training_that_was_ended_goes_on(examples):
    assert (examples["resumed"].status, len(examples["resumed"].lanes[0].trainings[0].laps)) == ("finished", 2)


@pytest.mark.long
def test_several_devices_have_a_curve(examples):
    scaled = examples["scaled"]
    assert isinstance(scaled, laptime.ScaleResult)
    assert [each.devices for each in scaled.curves[0].points] == [1, 2]
    assert scaled.verdict.startswith("two cards give")


@pytest.mark.long
def test_a_tuning_has_a_winner(examples):
    tuned = examples["tuned"]
    assert isinstance(tuned, laptime.TuneResult)
    assert tuned.verdict
    assert tuned.tuned[0].settings


@pytest.mark.long
def test_a_sweep_has_cells(examples):
    assert isinstance(examples["swept"], laptime.SweepResult)
    assert [each.at for each in examples["swept"].cells] == [("8",), ("16",), ("32",)]


@pytest.mark.long
def test_answers_and_profiles_are_results(examples):
    answers = examples["answers"]
    assert (answers.record.question, answers.ratio.value > 1) == ("infer", True)
    assert examples["profiled"].lanes[0].record.profile is not None


@pytest.mark.long
def test_why_has_a_verdict_by_python_and_from_disk(examples):
    found = examples["found"]
    assert isinstance(found, laptime.WhyResult)
    assert found.verdict.startswith("cifar-cnn on fake/cpu")
    loaded = laptime.load(found.id)
    assert isinstance(loaded, laptime.WhyResult)
    assert loaded.verdict == found.verdict


@pytest.mark.long
def test_devices_and_doctor_speak_of_this_machine(examples):
    seen, well = examples["machine"], examples["checkup"]
    assert "fake/cpu" in seen.usable
    assert "fake/cpu" in {f"{row.get('framework')}/{row['name']}" for row in seen.to_dicts()}
    assert "fake" in str(seen)
    assert well.is_well == (not well.problems)
    assert well.to_dict()["unused"] == []
    assert "fake" in repr(well)


@pytest.mark.long
def test_a_report_of_two_is_one_page(examples, shared_house):
    assert examples["place"] == Path("both.html")
    written = (shared_house.folder / "both.html").read_text(encoding="utf-8")
    assert written.count(examples["result"].id) >= 2
    assert examples["page"].startswith("<!doctype html>")


@pytest.mark.long
def test_a_lane_has_a_point_for_each_race(examples):
    followed = examples["followed"]
    assert followed.lane == "fake/cpu/best"
    assert [point.label for point in followed.points] == ["main", "topic"]
