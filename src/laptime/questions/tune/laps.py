"""Whole laps at the end of a tuning: what the lane as asked and its winner learn, each from the same seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from laptime.errors import UsageError
from laptime.model.ask import FullAsk
from laptime.model.missing import Missing
from laptime.model.plan import Plan, PlannedLane
from laptime.model.protocol import FullRun, Moment, Protocol
from laptime.model.record import Finding
from laptime.planner.plan import check_question
from laptime.questions.job import Job
from laptime.questions.subject import find_subject
from laptime.questions.train.protocol import check_full, make_protocol
from laptime.questions.train.reduce import compare_learning, final_score
from laptime.questions.train.runs import TrainingRuns, order_training
from laptime.questions.tune.nouns import Learned, TunedLane, Tuning
from laptime.run.runner import Limits

TRAIN = "laptime train: "
NOT_BEGUN = Missing("it was not begun")
NO_LENGTH = Missing("how many steps make a lap is not known: its data have no length, and it has no steps_per_lap")


def check_laps(laps: int | None) -> None:
    """Refuse a number of laps that is out of range."""
    check_full(FullAsk(laps=laps))


def check_lanes(laps: int, plan: Plan) -> None:
    """Refuse lanes that cannot be trained whole."""
    try:
        check_question(plan, "train")
    except UsageError as error:
        raise UsageError(f"--laps {laps}: {error.says.removeprefix(TRAIN)}", "leave --laps out") from None


class TunedLaps:
    """Whole laps of some lanes of a tuning. The proof is that of their heats, and nothing can be resumed."""

    def __init__(self, job: Job, laps: int, patience_s: float) -> None:
        self._job = job
        protocol = make_protocol(FullAsk(laps=laps), find_subject(job.plan.ask.what)[1])
        self._protocol = replace(protocol, predictions=0)
        self._trainings = TrainingRuns(job, Limits(patience_s, job.plan.ask.watchdog_s))
        self._why_not: dict[str, Missing] = {}

    def train(self, lane: PlannedLane, number: int, told_steps: int | None) -> None:
        """Train a lane. `told_steps` is how many steps its heats say that a lap has."""
        if self._protocol.steps_per_lap is None and told_steps is None:
            self._why_not[lane.name] = NO_LENGTH
            return
        seed = self._job.plan.ask.seed
        order = order_training(self._job, self._protocol, lane, number, seed, prove=False)
        try:
            self._trainings.train(order)
        finally:
            self._job.services.checkpoints.drop(Path(order.checkpoint))

    def announce(self, note: str) -> None:
        self._job.services.tell(Moment("", None, note, self._protocol.laps, is_news=True))

    def fill(self, tuning: Tuning) -> Tuning:
        """Return the tuning with what each lane as asked and its winner have learned."""
        lanes = (replace(each, learned=self._learned_of(each)) for each in tuning.lanes)
        return replace(tuning, lanes=tuple(lanes))

    def findings(self, tuning: Tuning) -> tuple[Finding, ...]:
        """Return a finding for each winner that learns differently, by more than chance explains."""
        found = (self._compare(each.winner, each.asked) for each in tuning.lanes if each.words)
        return tuple(each for each in found if each is not None)

    def _learned_of(self, tuned: TunedLane) -> tuple[Learned, ...]:
        return tuple(map(self._learned, (tuned.asked, tuned.winner))) if tuned.words else ()

    def _learned(self, lane: str) -> Learned:
        run = self._trainings.runs.get((lane, self._job.plan.ask.seed))
        if run is None:
            why = self._why_not.get(lane, NOT_BEGUN)
            return Learned(lane, 0, "training", 0, why, why)
        return describe_learned(run, self._protocol)

    def _compare(self, lane: str, asked: str) -> Finding | None:
        found = compare_learning(lane, asked, tuple(self._trainings.runs.values()))
        if found is None:
            return None
        again = f"laptime train {self._job.plan.ask.what} {asked} {lane} --laps {self._protocol.laps} --seeds 3"
        return replace(found, advice=f"{again} shows whether seeds explain it.")


def describe_learned(run: FullRun, protocol: Protocol) -> Learned:
    """Return the loss and accuracy at the end of a training, or why it has no end."""
    lane, laps = run.process.lane, len(run.laps)
    if run.process.status != "ok":
        why = Missing(f"it ended in lap {laps + 1} of {protocol.laps}: {_why_ended(run)}")
        return Learned(lane, laps, "training", 0, why, why)
    at_end, last = final_score(run), run.laps[-1].score
    if at_end is None:
        return Learned(lane, laps, "training", last.items, last.loss, last.accuracy)
    return Learned(lane, laps, "validation" if run.test is None else "test", at_end.items, at_end.loss, at_end.accuracy)


def _why_ended(run: FullRun) -> str:
    return "it was stopped" if run.process.dnf is None else run.process.dnf.reason
