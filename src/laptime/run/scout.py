"""Short children that answer one question: what does a framework see, what is a training in float64, what its proof,
what can a device do at most?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from laptime import wire
from laptime.errors import WireError
from laptime.model.inference import AnswerReference
from laptime.model.limits import Peak, PeakOrder
from laptime.model.machine import Framework
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference
from laptime.run.child import Child, Silence

LAST_WORDS = wire.Seen | wire.Referenced | wire.Proven | wire.AnswersReferenced | wire.Gauged


def ask_scouts(frameworks: Sequence[Framework], patience_s: float) -> list[Framework]:
    """Let a child for each framework import it and say what it sees, side by side: nothing is timed here.

    Whatever goes wrong becomes the `problem` of the one framework.
    """
    children = [_ask(wire.Look(each.name), {}) for each in frameworks]
    scouted: list[Framework] = []
    try:
        for framework, child in zip(frameworks, children, strict=True):
            scouted.append(_fill_in(framework, _hear_out(child, patience_s)))
    except BaseException:
        for child in children[len(scouted) + 1 :]:  # the one that was heard has been ended
            child.abandon()
        raise
    return scouted


def _fill_in(framework: Framework, answer: wire.FromChild | str) -> Framework:
    if not isinstance(answer, wire.Seen):
        problem = answer if isinstance(answer, str) else "the scout gave no answer"
        return replace(framework, versions={}, devices=(), problem=problem)
    return replace(framework, versions=answer.versions, devices=answer.devices, problem=answer.problem)


def ask_reference(order: HeatOrder, patience_s: float) -> Reference | str:
    """Let a child compute the float64 reference; give it, or why there is none."""
    answer = _ask_child(wire.Refer(order), order.lane.environment, patience_s)
    if isinstance(answer, wire.Referenced):
        return answer.reference
    return answer if isinstance(answer, str) else "the reference gave no answer"


def ask_proof(order: HeatOrder, patience_s: float) -> tuple[ProofRun, ...]:
    """Let a child take a lane's proof alone; one that fails proves nothing."""
    answer = _ask_child(wire.Prove(order), order.lane.environment, patience_s)
    return answer.runs if isinstance(answer, wire.Proven) else ()


def ask_answers(order: HeatOrder, patience_s: float) -> AnswerReference | str:
    """Let a child give the answers of a network in float64; give them, or why there are none."""
    answer = _ask_child(wire.ReferAnswers(order), order.lane.environment, patience_s)
    if isinstance(answer, wire.AnswersReferenced):
        return answer.reference
    return answer if isinstance(answer, str) else "the reference gave no answer"


def ask_peaks(order: PeakOrder, environment: dict[str, str], patience_s: float) -> dict[str, Peak | Missing]:
    """Let a child measure a device; what it has told before it fails or dies stands."""
    told: dict[str, Peak | Missing] = {}

    def note(message: wire.FromChild) -> None:
        if isinstance(message, wire.Rated):
            told[message.limit] = message.peak or Missing(message.reason or "no reason given")

    answer = _hear_out(_ask(wire.Gauge(order), environment), patience_s, note)
    lost = Missing(answer if isinstance(answer, str) else "it was not told")
    return {limit: told.get(limit, lost) for limit in order.limits}


def _ask_child(question: wire.FromParent, environment: dict[str, str], patience_s: float) -> wire.FromChild | str:
    return _hear_out(_ask(question, environment), patience_s)


def _ask(question: wire.FromParent, environment: dict[str, str]) -> Child:
    child = Child(environment)
    child.say(question)
    return child


def _hear_out(
    child: Child, patience_s: float, note: Callable[[wire.FromChild], None] | None = None
) -> wire.FromChild | str:
    """Give the child's last word, or why it has none, and end it; `note` hears each word on the way."""
    last: wire.FromChild | None = None
    problem = ""
    try:
        while (message := child.hear(patience_s)) is not None:
            last = message
            if note is not None:
                note(message)
            if isinstance(message, wire.Failed | LAST_WORDS):
                break
    except Silence:
        problem = f"no answer within {patience_s:.3g} s"
    except WireError as error:
        problem = str(error)
    except BaseException:
        child.abandon()
        raise
    ended = child.end(grace_s=0 if problem else 5)
    tail = ended.stderr_tail.splitlines()
    if isinstance(last, wire.Failed):
        return f"{last.reason}, after: {tail[-1]}" if last.kind == "exit" and tail else last.reason
    if problem or not isinstance(last, LAST_WORDS):
        return problem or (tail[-1] if tail else f"its process ended: {ended.signal or ended.exit_code}")
    return last
