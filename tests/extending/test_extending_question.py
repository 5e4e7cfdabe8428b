"""The recipe "A question": a package outside laptime adds a row; its command runs, is kept, listed and shown."""

from __future__ import annotations

import pytest
from outside_package import install

FILES = {
    "toy_question__row": """
from laptime.model.questions import Question

ROW = Question("first-step", folder="toy_question", says="How long does the first step take?", has_call=False)
""",
    "toy_question__nouns": """
from dataclasses import dataclass

from laptime.model.record import Answer, QuestionAnswer


@dataclass(frozen=True, slots=True)
class FirstStepAnswer(Answer):
    first_step_ms: tuple[float | None, ...] = ()


PART = QuestionAnswer(FirstStepAnswer)
""",
    "toy_question__run": """
from laptime.engine.run.turns import Prestarter
from laptime.questions.asking import prepare
from laptime.questions.heat_rounds import HeatRounds
from laptime.questions.job import Outcome, QuestionRun

from toy_question.nouns import FirstStepAnswer


class FirstStep:
    def __init__(self, job, prepared):
        self._job, self._rounds = job, HeatRounds(job, job.plan.pace)

    def run(self):
        self._rounds.make_ready()
        with Prestarter(self._job.cores, self._job.plan.ask.patience_s) as prestarter:
            self._rounds.run_round(self._job.plan.lanes, prestarter)

    def reduce(self, status):
        lanes = self._rounds.results()
        return Outcome(lanes, FirstStepAnswer(tuple(lane.first_step_ms for lane in lanes)))


PART = QuestionRun(prepare, FirstStep)
""",
    "toy_question__page": """
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import PageParts, QuestionPage, Said


def parts(record, view):
    answer = Said(f"the first step takes {record.answer.first_step_ms[0]:.0f} ms")
    return PageParts(answer=[answer], figures=[], notes=[], done="")


def summary(record):
    return [f"first step {record.answer.first_step_ms[0]:.0f} ms"]


PART = QuestionPage(parts, summary, live_lanes)
""",
}
ENTRY_POINTS = """
[laptime.questions]
first-step = toy_question.row:ROW
"""


@pytest.mark.long
def test_a_question_added_from_outside_is_a_command_with_a_record(house):
    """Its processes are real heats with their proof; without the package its record is refused in words."""
    environment = install(house.folder / "site", ENTRY_POINTS, **FILES)
    answer = house.done("first-step", "cifar-cnn", "fake/cpu", "-q", env=environment)
    assert answer.out.splitlines()[0] == "the first step takes 300 ms"
    record = house.kept()
    assert (record["question"], record["status"]) == ("first-step", "finished")
    assert record["answer"] == {"first_step_ms": [300.0]}
    assert record["lanes"][0]["parity"]["status"] == "same"
    assert "first step 300 ms" in house.done("list", env=environment).out
    assert house.done("show", "latest", env=environment).out == answer.out
    assert "How long does the first step take?" in house.done("first-step", "--help", env=environment).out
    assert "first-step How long does the first step take?" in " ".join(
        house.done("help", "all", env=environment).out.split()
    )
    refused = house.run("show", str(house.files()[0]))
    assert refused.code == 2
    assert (
        "$.question: no question 'first-step'; known: race, why, watch, tune, verdict, sweep, scale, full, infer"
        in refused.err
    )


OWN = """

from dataclasses import replace

OWN = replace(ROW, has_command=True)
"""
OWN_COMMAND = """
import click


@click.command("first-step")
@click.option("--loudly", is_flag=True)
def first_step(*, loudly):
    click.echo("FIRST" if loudly else "first")
"""


@pytest.mark.long
def test_a_question_added_from_outside_may_have_a_command_of_its_own(house):
    points = ENTRY_POINTS.replace(":ROW", ":OWN")
    points += "broken = no_such_module:ROW\n"
    environment = install(
        house.folder / "site",
        points,
        **FILES | {"toy_question__row": FILES["toy_question__row"] + OWN, "toy_question__command": OWN_COMMAND},
    )
    said = " ".join(house.done("help", "all", env=environment).out.split())
    assert "broken It cannot be loaded: No module named 'no_such_module'." in said
    assert house.done("first-step", "--loudly", env=environment).out == "FIRST\n"
