"""Which verdict is asked: on the work of two trainings, or, with --learning, on how fast they learn."""

from __future__ import annotations

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.planner.plan import check_ranges
from laptime.questions.asking import Prepared
from laptime.questions.job import Job, QuestionRun, RunningQuestion
from laptime.questions.verdict.learning import LearningVerdict, PreparedLearning, prepare_learning
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.session import SessionRace, check_session, prepare_session
from laptime.questions.verdict.speed import VerdictRace, prepare_verdict


def prepare_either(ask: Ask, machine: Machine) -> Prepared:
    """Prepare the verdict that is asked. Refuse options of the other one."""
    asked = ask.verdict or VerdictAsk()
    check_ranges(asked)
    check_session(asked)
    if asked.learning:
        return prepare_learning(ask, machine)
    for option, value in (("--seeds", asked.seeds), ("--laps", asked.laps)):
        if value is not None:
            says = f"{option} {value}: a verdict on the work is on the steps of one seed"
            raise UsageError(says, "leave it out, or ask how fast they learn: --learning")
    return prepare_verdict(ask, machine) if asked.session is None else prepare_session(ask, machine)


def open_verdict(job: Job, prepared: Prepared) -> RunningQuestion:
    """Return the question that runs what was prepared."""
    if isinstance(prepared, PreparedLearning):
        return LearningVerdict(job, prepared)
    session = (job.plan.ask.verdict or VerdictAsk()).session
    return VerdictRace(job, prepared) if session is None else SessionRace(job, prepared, session)


PART = QuestionRun(prepare_either, open_verdict)
