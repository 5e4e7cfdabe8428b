"""Records of verdicts as literals: kept, other work, a gate that decides nothing, and how fast two sides learn."""

from __future__ import annotations

from dataclasses import replace

import records

from laptime.model.ask import Ask
from laptime.model.other_work import OtherWork, words_of_work
from laptime.model.plan import Subject
from laptime.model.process import ProcessRun
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, OtherTraining, Record
from laptime.model.rows import OF_TRAINING
from laptime.questions.verdict.curves import judge_learning, pair_runs
from laptime.questions.verdict.learning import LEGS
from laptime.questions.verdict.nouns import (
    Learning,
    LearningPoint,
    LearningRun,
    SessionPart,
    VerdictAnswer,
    share_of_error,
)
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.reduce import alpha_at, confirm_change, judge_change, refuse_change

PLACE = "torch/cpu/as-written"
BASE, CANDIDATE, TWIN = "main:train.py:training", "train.py:training", "base again"


def subject(name: str) -> Subject:
    return Subject(name, "training of train.py", 76_554, 256, 64, None, "items", file="/somewhere/train.py")


def lane(training: str, step_ms: float) -> LaneResult:
    return replace(records.lane(f"{PLACE}{OF_TRAINING}{training}", step_ms), training=training)


def record(ratio: float, half: float, *, differs: OtherWork | None = None, twin: float | None = None) -> Record:
    """Return a finished verdict whose interval reaches by `half` to both sides; a gate, if there is a twin."""
    compared = [
        records.comparison(
            f"{PLACE}{OF_TRAINING}{name}", value, value / (1 + half), value * (1 + half),
            reference=f"{PLACE}{OF_TRAINING}{BASE}", alpha=0.02, pairs=12, ratios=(value,) * 12,
        )
        for name, value in ((CANDIDATE, ratio), (TWIN, twin))
        if value is not None
    ]  # fmt: skip
    gate = twin is not None
    found = judge_change(compared[0], compared[1] if gate else None, 0.02, gate=gate)
    verdict = refuse_change(((BASE, None), (CANDIDATE, None)), differs) or found
    others = [
        ("train.py:training", CANDIDATE, words_of_work(differs)),
        *([("git:main:train.py:training", TWIN, None)] if gate else []),
    ]
    lanes = [lane(BASE, 14.8), lane(CANDIDATE, 14.8 / ratio), *([lane(TWIN, 14.8 / twin)] if twin is not None else [])]
    return replace(
        records.record(tuple(lanes)),
        question="verdict",
        answer=VerdictAnswer(verdict, tuple(compared)),
        ask=Ask(
            "git:main:train.py:training", (PLACE,), budget_s=90.0, others=tuple(what for what, _, _ in others),
            verdict=VerdictAsk(gate=gate),
        ),
        workload=subject(BASE),
        published=None,
        tool={"name": "laptime", "version": "0.1.0"},
        others=tuple(OtherTraining(what, subject(name), None, says) for what, name, says in others),
    )  # fmt: skip


def kept() -> Record:
    return record(1.162, 0.021)


DIFFERS = OtherWork("other computation", "its loss differs by 2e-05 at step 2 in fp32 (1e-06 allowed)")


def other_work() -> Record:
    return record(2.48, 0.2, differs=DIFFERS)


def undecided_gate() -> Record:
    return record(0.985, 0.04, twin=1.004)


def unproven() -> Record:
    made = record(1.162, 0.021)
    verdict = refuse_change(((BASE, None), (CANDIDATE, None)), Missing("its steps cannot be proven"))
    return replace(made, answer=replace(made.answer, verdict=verdict))


def learning(speed: float, *, seeds: int = 5, is_held_out: bool = True) -> Record:
    """Return a verdict on how fast the loss falls: the candidate's by `speed`, from each seed a little otherwise."""
    made = record(1.0, 0.02)
    base, candidate = made.lanes
    runs = [
        LearningRun(
            ProcessRun(lane.name, "ok"),
            seed,
            2 * seed + side,
            _points(speed * (1 + seed / 50) if side else 1 + seed / 200),
        )
        for seed in range(seeds)
        for side, lane in enumerate((base, candidate))
    ]
    pairs = [pair_runs(one, other) for one, other in zip(runs[::2], runs[1::2], strict=True)]
    learned = Learning(8, 512, is_held_out, tuple(runs), tuple(pair for pair in pairs if pair is not None))
    verdict = judge_learning(learned, 0.02, alpha_at(seeds, 8, final=True))
    ask = replace(made.ask, verdict=VerdictAsk(learning=True))
    return replace(made, ask=ask, answer=VerdictAnswer(verdict, learning=learned))


def of_session(chosen: float, ratio: float, half: float) -> Record:
    """Return the twelfth verdict of a session: chosen in nine rounds, then judged by fresh ones."""
    made = record(ratio, half)
    answer = made.answer
    (found,) = answer.comparisons
    first = replace(found, ratio=chosen, low=chosen / 1.03, high=chosen * 1.03, pairs=9, ratios=(chosen,) * 9)
    part = SessionPart("loop", 12, share_of_error(2), 90.0, chosen=first)
    verdict = confirm_change(answer.verdict, part)
    part = replace(part, is_spent=verdict.word != "KEEP")
    ask = replace(made.ask, budget_s=180.0, verdict=VerdictAsk(session="loop"))
    return replace(made, ask=ask, answer=replace(answer, verdict=verdict, session=part))


def confirmed() -> Record:
    return of_session(1.191, 1.162, 0.021)


def unconfirmed() -> Record:
    return of_session(1.048, 1.011, 0.032)


def of_session_discarded() -> Record:
    made = record(0.91, 0.03)
    part = SessionPart("loop", 13, share_of_error(1), 45.0)
    return replace(made, answer=replace(made.answer, session=part))


def _points(speed: float) -> tuple[LearningPoint, ...]:
    """Return a loss that falls from 1.5 towards 0.5 within twelve seconds."""
    return tuple(LearningPoint(10 * leg, leg / 2, 0.5 + 1 / (1 + speed * leg / 2)) for leg in range(LEGS + 1))


def learns_faster() -> Record:
    return learning(1.4)


def learns_slower_on_its_data() -> Record:
    return learning(0.7, is_held_out=False)


SHOWN = {
    "kept": kept, "other-work": other_work, "undecided-gate": undecided_gate, "unproven": unproven,
    "learns-faster": learns_faster, "learns-slower": learns_slower_on_its_data,
    "confirmed": confirmed, "unconfirmed": unconfirmed, "session-discarded": of_session_discarded,
}  # fmt: skip
