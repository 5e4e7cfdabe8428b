"""A heat that is killed ends no question: there is a page, a whole record, and a documented exit code."""

from __future__ import annotations

import re
import signal
from contextlib import suppress

import psutil
import pytest

from laptime import api
from laptime.model.ask import Ask
from laptime.questions.tune.options import TuneAsk
from laptime.store.files import load

pytestmark = pytest.mark.usefixtures("known_references")

TWO = ("cifar-mlp", "fake/cpu", "fake/cpu/best")
QUESTIONS = {
    "race": (*TWO, "--heats", "3"),
    "race --alone": (*TWO, "--heats", "3", "--alone"),
    "why": ("cifar-mlp", "fake/cpu", "--budget", "3s"),
    "infer": (*TWO, "--heats", "2"),
    "train": (*TWO, "--laps", "2", "--steps-per-lap", "5"),
    "tune": ("cifar-mlp", "fake/cpu", "--budget", "20s"),
    "sweep": ("cifar-mlp", "fake/cpu", "fake/cuda", "--batch", "16,32", "--budget", "20s"),
    "scale": ("cifar-mlp", "fake/cuda", "--heats", "2"),
}
# 0: a setting of a tuning, an experiment of a why, or a batch without memory may fail. 3: a lane may not.
DOCUMENTED = {0, 3}
FRESH = "the winner races again, on fresh heats"


def words_of(text):
    return " ".join(text.split())


def killed_in(tree):
    """Return how many processes a record says were killed."""
    if isinstance(tree, list):
        return sum(map(killed_in, tree))
    if not isinstance(tree, dict):
        return 0
    is_killed = "phase" in tree and tree.get("signal") == "SIGKILL"
    return is_killed + sum(map(killed_in, tree.values()))


@pytest.mark.parametrize(
    ("question", "phase", "heat"),
    [
        ("race", "timing", 0),
        pytest.param("race", "build", 3, marks=pytest.mark.long),
        pytest.param("race --alone", "timing", 5, marks=pytest.mark.long),
        pytest.param("why", "proof", 0, marks=pytest.mark.long),
        pytest.param("why", "timing", 2, marks=pytest.mark.long),
        ("infer", "first call", 0),
        pytest.param("infer", "single calls", 3, marks=pytest.mark.long),
        ("train", "lap 1", 0),
        pytest.param("train", "build", 1, marks=pytest.mark.long),
        ("tune", "timing", 0),
        pytest.param("tune", "timing", 2, marks=pytest.mark.long),
        ("sweep", "proof", 0),
        pytest.param("sweep", "timing", 7, marks=pytest.mark.long),
        pytest.param("sweep", "build", 9, marks=pytest.mark.long),
        pytest.param("scale", "timing", 0, marks=pytest.mark.long),
        ("scale", "build", 3),
    ],
)
def test_a_killed_heat_leaves_a_page_a_record_and_a_documented_exit_code(house, question, phase, heat):
    """In a tuning, heat 2 is the second one of the lane as asked; in a sweep, 7 and 9 are of batches that ran once."""
    house.script(
        f'["fake/*"]\nspread = 0.01\nfail = {{ how = "kill", phase = "{phase}", heat = {heat}, rank = 0 }}\n'
        '[cards]\n"cuda:1" = { works = "yes" }\n'
    )
    answer = house.run(*question.split()[:1], *QUESTIONS[question], *question.split()[1:], "-q")
    assert answer.code in DOCUMENTED, answer.err
    assert answer.out.startswith("cifar-mlp on ")
    record = house.kept()
    assert (record["status"], killed_in(record)) == ("finished", 1)
    assert house.done("show").out.splitlines()[0] == answer.out.splitlines()[0]


@pytest.mark.long
def test_a_lane_as_asked_that_is_killed_ends_a_search_with_what_it_has(house):
    """The best so far is named, and why no fresh heats have confirmed it."""
    house.script(
        '["fake/*"]\ncompute_ms = 40.0\ngains = { "malloc=keep" = 1.5 }\n'
        'fail = { how = "kill", phase = "timing", heat = 2 }\n'
    )
    answer = house.done("tune", "cifar-mlp", "fake/cpu", "--budget", "20s", "-q", code=3)
    (tuned,) = house.kept()["answer"]["tuning"]["lanes"]
    assert tuned["standing"] == "not confirmed"
    assert tuned["seemed"] == pytest.approx(1.5, rel=0.02)
    assert "malloc=keep" in tuned["words"]
    why = "which no fresh heats have confirmed: fake/cpu did not finish: killed by SIGKILL"
    assert why in words_of(answer.out)


@pytest.mark.long
@pytest.mark.usefixtures("forked_heats")
def test_a_winner_that_is_killed_in_its_fresh_heats_is_not_confirmed(house, monkeypatch):
    """A setting that fails is out, also one that had won the search."""
    for name, value in house.environment().items():
        monkeypatch.setenv(name, value)
    house.script('["fake/*"]\ncompute_ms = 40.0\nspread = 0.004\ngains = { "malloc=keep" = 1.5 }\n')
    monkeypatch.setenv("LAPTIME_FAKE", house.fake)
    seen: list[str] = []
    others = psutil.Process().children(recursive=True)

    def kill_the_heats(_record, progress):
        """From the second fresh heat of the lane as asked on: its duet is alive."""
        seen.append(progress.doing)
        fresh = dict.fromkeys(seen[seen.index(FRESH) + 1 :]) if FRESH in seen else {}
        if len(fresh) == 2 and progress.lanes.get("fake/cpu/as-written") == "builds":
            for each in {*psutil.Process().children(recursive=True)}.difference(others):
                with suppress(psutil.Error):
                    each.send_signal(signal.SIGKILL)

    record = api.answer("tune", Ask("cifar-mlp", ("fake/cpu",), tune=TuneAsk(), budget_s=5.0), show=kill_the_heats)
    (tuned,) = record.answer.tuning.lanes
    assert record.status == "finished"
    assert tuned.standing == "not confirmed"
    assert "malloc=keep" in tuned.words
    assert re.search(r"did not finish: .*SIGKILL", tuned.reason)
    assert load(record.id) == record
