"""How long does the whole published training take on each lane, and do all lanes learn the same? One at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from laptime.analysis.aggregate import most_memory
from laptime.analysis.usage import training_usage
from laptime.diagnosis.findings import judge_trainings
from laptime.diagnosis.state_findings import find_slow_trainings
from laptime.errors import UsageError
from laptime.model.dataset import DataSource
from laptime.model.plan import PlannedLane
from laptime.model.protocol import FullOrder, FullRun, Moment
from laptime.model.questions import TrainingAnswer
from laptime.model.record import LaneResult
from laptime.planner.settings import learn_alike
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.proving import Proof
from laptime.questions.train.protocol import PreparedTraining, order_words
from laptime.questions.train.reduce import compare_learning, find_factor, summarise_full_lane
from laptime.questions.train.resuming import Before, find_lost
from laptime.questions.train.runs import TrainingRuns, key_of, order_training
from laptime.run.runner import Limits


class WholeTrainings:
    """Trains every lane from every seed, or what an earlier process left of that."""

    def __init__(self, job: Job, prepared: PreparedTraining) -> None:
        self._job, self._protocol, self._before = job, prepared.protocol, prepared.before
        limits = Limits(job.plan.ask.patience_s, job.plan.ask.watchdog_s)
        self._trainings = TrainingRuns(job, limits, prepared.before)
        self._proof = Proof(job.services.references, self._announce, job.own_code)
        if prepared.before is not None:
            self._take_up(prepared.before)

    def run(self) -> None:
        """Train, and save the record after each lap."""
        job = self._job
        job.save()
        job.supply_data(self._announce)
        _check_data(job.plan.data, self._before)
        job.plan = self._proof.make_ready(job.plan)
        for order in self._orders():
            self._trainings.train(order)
            proofs = self._trainings.runs[key_of(order)].proofs
            self._proof.hear_appeal(job.plan, order.heat.lane, [proofs] if proofs else [])

    def reduce(self, status: RecordStatus) -> Outcome:
        """Summarise the lanes, and compare each with the first that has finished a lap."""
        runs = tuple(sorted(self._trainings.runs.values(), key=lambda run: run.order))
        lanes = tuple(self._summarise(lane, runs) for lane in self._job.plan.lanes)
        # Usage is not shown between laps, and summing hours of readings takes time.
        lanes = lanes if status == "running" else tuple(self._add_usage(lane, runs) for lane in lanes)
        trained = [lane for lane in lanes if lane.step_ms is not None]
        first, others = (trained[0], trained[1:]) if trained else (None, [])
        factors = (find_factor(lane, first, runs) for lane in others) if first else ()
        alike = [lane for lane in others if first and learn_alike(lane.settings, first.settings)]
        findings = (compare_learning(lane.name, first.name, runs) for lane in alike) if first else ()
        order = order_words(self._protocol.seeds)
        return Outcome(
            lanes,
            TrainingAnswer(self._protocol, order, runs, tuple(each for each in factors if each is not None)),
            (
                *(judge_trainings(runs, self._job.cores) if status != "running" else ()),
                *find_slow_trainings(lanes, runs),
                *(each for each in findings if each is not None),
            ),
            self._proof.kept_reference(self._job.plan.subject),
            next((run.process.parameters for run in runs if run.process.parameters), None),
        )

    def _take_up(self, before: Before) -> None:
        """Take over what an earlier process found. Refuse to train finished laps again, unless that is allowed."""
        record = before.record
        self._job.before_s = record.elapsed_s
        # Without digests it is unknown whether the reference of a user's own training belongs to the current sources.
        if record.workload.file is None or any(run.sources for run in before.runs):
            self._proof.references = {record.workload.name: record.reference}
            self._proof.appeals = {lane.name: lane.appeal for lane in record.lanes if lane.appeal is not None}
        for lost in find_lost(before, self._orders()):
            self._trainings.again[key_of(lost.order)] = lost.note
            if lost.is_damaged:
                self._job.services.checkpoints.drop(Path(lost.order.checkpoint))

    def _orders(self) -> list[FullOrder]:
        """Return what is left to train, in order. Every lane is proven once, from the first seed."""
        plan, orders = self._job.plan, []
        number, first_seed = 0, plan.ask.seed
        for turn in range(self._protocol.seeds):
            for lane in plan.lanes if turn % 2 == 0 else plan.lanes[::-1]:
                seed = first_seed + turn
                done = self._trainings.runs.get((lane.name, seed))
                prove = seed == first_seed and not (done is not None and done.proofs)
                if done is None or done.process.status != "ok":
                    orders.append(order_training(self._job, self._protocol, lane, number, seed, prove=prove))
                number += 1
        return orders

    def _announce(self, note: str) -> None:
        self._job.services.tell(Moment("", None, note, self._protocol.laps, is_news=True))

    def _summarise(self, lane: PlannedLane, runs: Sequence[FullRun]) -> LaneResult:
        appeal, subject = self._proof.appeals.get(lane.name), self._job.plan.subject
        reference = self._proof.references.get(subject.name)
        return summarise_full_lane(lane, runs, reference, subject.batch, appeal)

    def _add_usage(self, lane: LaneResult, runs: Sequence[FullRun]) -> LaneResult:
        mine = [run for run in runs if run.process.lane == lane.name]
        usage = training_usage(mine, lane.device, self._job.cores, lane)
        if usage is None:
            return lane
        peak = most_memory(lane.peak_memory_bytes, usage.memory_most_bytes)
        return replace(lane, usage=usage, energy_j_per_lap=usage.energy.j_per_lap, peak_memory_bytes=peak)


def _check_data(data: DataSource | None, before: Before | None) -> None:
    """Refuse to continue a training with other data than it began with."""
    began_with = before.record.data if before is not None else None
    if began_with is not None and (data is None or data.digest != began_with.digest):
        raise UsageError(
            f"the data in {began_with.folder} is not what this training began with",
            f"it had {began_with.train_items:,} items to train and {began_with.test_items:,} to test; begin again",
        )
