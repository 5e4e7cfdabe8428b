"""Scouts: short-lived children that answer one question. What does a framework see? What is a training's float64
reference, what a lane's proof? What are a device's peaks?
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, UnionType

from laptime.engine import wire
from laptime.engine.run.child import AnyChild, Silence, hear_with_signs
from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.engine.run.runner import Started
from laptime.engine.run.templates import ForkedChild, HeatTemplate, templates_in_use
from laptime.model.errors import LaneError, WireError
from laptime.model.hardware import Peak, PeakOrder
from laptime.model.machine import Framework
from laptime.model.plan import HeatOrder, OwnTraining, PlannedLane, Subject
from laptime.model.protocol import AnswerReference
from laptime.model.quantities import Missing, brief
from laptime.model.sample import ProofRun, Reference


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a child gave no answer. `kind` and `source` are those that it reported; empty if it reported nothing."""

    reason: str
    kind: str = ""
    source: str = ""


NO_VARIABLES: Mapping[str, dict[str, str]] = MappingProxyType({})
LAST_WORDS = wire.Seen | wire.Inspected | wire.Referenced | wire.Proven | wire.AnswersReferenced | wire.Gauged


def ask_scouts(
    frameworks: Sequence[Framework],
    patience_s: float,
    launcher: Launcher = LOCAL,
    environments: Mapping[str, dict[str, str]] = NO_VARIABLES,
) -> list[Framework]:
    """Start a child for each framework, which imports it and reports what it sees. They run in parallel, untimed.

    A failure becomes the `problem` of its framework only. All have the same deadline, so ten that hang take no longer
    than one. Where heats will be forks, so is their framework's scout, from a process with the variables named here.
    """
    deadline = time.monotonic() + patience_s
    waiting: list[AnyChild | HeatTemplate | Failure] = []
    scouted: list[Framework] = []
    try:
        for framework in frameworks:
            template = _begin_template(framework, launcher, environments.get(framework.name, {}))
            # After an interrupt, the started ones have to be ended.
            waiting.append(template or _start(wire.Look(framework.name), launcher))
        for framework in frameworks:
            child = waiting.pop(0)
            look = wire.Look(framework.name)
            if isinstance(child, HeatTemplate):
                child = _fork_scout(child, look, {}, launcher, deadline) or _start(look, launcher)
            answer = child if isinstance(child, Failure) else _hear_out(child, patience_s, deadline=deadline)
            scouted.append(_fill_in(framework, answer))
    except BaseException:
        for child in waiting:  # the one that was being read has been ended
            if not isinstance(child, Failure | HeatTemplate):  # templates end with the question
                child.abandon()
        raise
    return scouted


def _begin_template(framework: Framework, launcher: Launcher, environment: dict[str, str]) -> HeatTemplate | None:
    """Start what a scout can be forked from, and heats after it; None where heats are no forks, or no question runs."""
    templates = templates_in_use()
    return (
        None if templates is None or launcher.is_elsewhere else templates.begin_for_scout(framework.name, environment)
    )


def _fork_scout(
    template: HeatTemplate, look: wire.Look, environment: dict[str, str], launcher: Launcher, deadline: float
) -> AnyChild | None:
    """Return a scout that was forked and asked; None where that is not possible."""
    if template.make_ready(deadline):
        with contextlib.suppress(LaneError):
            child = ForkedChild(template, environment, launcher.sandbox_for(None))
            child.say(look)
            return child
    return None


def _start(look: wire.Look, launcher: Launcher) -> AnyChild | Failure:
    """Start a scout. If the system allows no more processes, return the reason."""
    try:
        return _ask(look, {}, launcher)
    except LaneError as error:
        return Failure(error.says)


def _fill_in(framework: Framework, answer: wire.FromChild | Failure) -> Framework:
    if not isinstance(answer, wire.Seen):
        problem = answer.reason if isinstance(answer, Failure) else "the scout gave no answer"
        return replace(framework, versions={}, devices=(), problem=problem)
    return replace(framework, versions=answer.versions, devices=answer.devices, problem=None)


def ask_training(
    framework: str, subject: Subject, environment: dict[str, str], patience_s: float, launcher: Launcher = LOCAL
) -> OwnTraining | Failure:
    """Have a child call the user's function where the framework is imported and not used.

    Return what kind of training it gives, or why that is not known.
    """
    look = wire.Look(framework, subject, stays_unused=True)
    return _training_in(_ask_child(look, environment, patience_s, launcher))


def scout_with_training(
    framework: Framework, subject: Subject, environment: dict[str, str], patience_s: float, launcher: Launcher = LOCAL
) -> tuple[Framework | None, OwnTraining | Failure]:
    """Have one child report what a framework sees, and then call the user's function: the framework is imported once.

    Return the framework, or None if nothing was heard of it, and what kind of training the function gives. What the
    user's code does cannot change the first: it was sent before.
    """
    heard: list[wire.FromChild] = []
    look = wire.Look(framework.name, subject)
    template = _begin_template(framework, launcher, environment)
    child = None
    if template is not None:
        child = _fork_scout(template, look, environment, launcher, time.monotonic() + patience_s)
    child = child or _ask(look, environment, launcher)
    answer = _hear_out(child, patience_s, heard.append, until=wire.Inspected)
    report = next((message for message in heard if isinstance(message, wire.Seen)), None)
    return None if report is None else _fill_in(framework, report), _training_in(answer)


def _training_in(answer: wire.FromChild | Failure) -> OwnTraining | Failure:
    if isinstance(answer, wire.Inspected):
        return answer.own
    return answer if isinstance(answer, Failure) else Failure("the scout gave no answer")


def ask_reference(
    order: HeatOrder,
    patience_s: float,
    launcher: Launcher = LOCAL,
    started: Started | None = None,
    sign: Callable[[], None] | None = None,
) -> Reference | Failure:
    """Have a child compute the float64 reference, and count a step of a user's own training. Return it, or why not.

    A reference stays one if its child fails at counting. A child that has `started` has imported its framework already.
    `sign` is called every second meanwhile.
    """
    heard: list[Reference] = []

    def note(message: wire.FromChild) -> None:
        if isinstance(message, wire.Referenced):
            heard.append(message.reference)

    if started is not None and (started.broken or any(isinstance(message, wire.Failed) for message in started.heard)):
        started.child.abandon()  # a fresh one says what is wrong
        started = None
    if started is None:
        child = _ask(wire.Refer(order), order.lane.environment, launcher, order.lane)
    else:
        child = started.child
        child.say(wire.Refer(order))
    until = wire.Finished if order.counts_step else wire.Referenced
    answer = _hear_out(child, patience_s, note, until=until, sign=sign)
    if not heard:
        return answer if isinstance(answer, Failure) else Failure("the reference gave no answer")
    if isinstance(answer, Failure) and heard[-1].work is None:
        return replace(heard[-1], uncounted=f"counting a step failed: {answer.reason}")
    return heard[-1]


def ask_proof(order: HeatOrder, patience_s: float, launcher: Launcher = LOCAL) -> tuple[ProofRun, ...]:
    """Have a child run a lane's proof alone. Return its runs, or none if it fails."""
    answer = _ask_child(wire.Prove(order), order.lane.environment, patience_s, launcher, order.lane)
    return answer.runs if isinstance(answer, wire.Proven) else ()


def ask_answers(
    order: HeatOrder, patience_s: float, sign: Callable[[], None] | None = None
) -> AnswerReference | Failure:
    """Have a child compute a network's answers in float64. Return them, or why there are none."""
    answer = _hear_out(_ask(wire.ReferAnswers(order), order.lane.environment), patience_s, sign=sign)
    if isinstance(answer, wire.AnswersReferenced):
        return answer.reference
    return answer if isinstance(answer, Failure) else Failure("the reference gave no answer")


def ask_peaks(order: PeakOrder, environment: dict[str, str], patience_s: float) -> dict[str, Peak | Missing]:
    """Have a child measure a device's peaks. What it reports before it fails or dies is kept."""
    peaks: dict[str, Peak | Missing] = {}

    def note(message: wire.FromChild) -> None:
        if isinstance(message, wire.Rated):
            peaks[message.limit] = message.peak or Missing(message.reason or "no reason given")

    answer = _hear_out(_ask(wire.Gauge(order), environment), patience_s, note)
    lost = Missing(answer.reason if isinstance(answer, Failure) else "it was not told")
    return {limit: peaks.get(limit, lost) for limit in order.limits}


def _ask_child(
    question: wire.FromParent,
    environment: dict[str, str],
    patience_s: float,
    launcher: Launcher = LOCAL,
    lane: PlannedLane | None = None,
) -> wire.FromChild | Failure:
    return _hear_out(_ask(question, environment, launcher, lane), patience_s)


def _ask(
    question: wire.FromParent,
    environment: dict[str, str],
    launcher: Launcher = LOCAL,
    lane: PlannedLane | None = None,
) -> AnyChild:
    child = launcher.start(environment, lane)
    child.say(question)
    return child


def _hear_out(
    child: AnyChild,
    patience_s: float,
    note: Callable[[wire.FromChild], None] | None = None,
    *,
    deadline: float = math.inf,
    until: type | UnionType = LAST_WORDS,
    sign: Callable[[], None] | None = None,
) -> wire.FromChild | Failure:
    """Return the child's final message, or why there is none, and end it. `note` is called with each message.

    `until` is what a final message may be. No silence may be longer than `patience_s`, and nothing may go on after the
    deadline.
    """
    last: wire.FromChild | None = None
    problem = ""
    try:
        while (message := hear_with_signs(child, min(patience_s, deadline - time.monotonic()), sign)) is not None:
            last = message
            if note is not None:
                note(message)
            if isinstance(message, wire.Failed | until):
                break
    except Silence:
        problem = f"no answer within {brief(patience_s)} s"
    except WireError as error:
        problem = str(error)
    except BaseException:
        child.abandon()
        raise
    ended = child.end(grace_s=0 if problem else 5)
    tail = ended.stderr_tail.splitlines()
    if isinstance(last, wire.Failed):
        reason = f"{last.reason}, after: {tail[-1]}" if last.kind == "exit" and tail else last.reason
        return Failure(reason, last.kind, last.source)
    if problem or last is None or not isinstance(last, until):
        return Failure(problem or (tail[-1] if tail else f"its process ended: {ended.signal or ended.exit_code}"))
    return last
