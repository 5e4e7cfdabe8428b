"""How long does the whole published training take on each lane, and do all lanes learn the same? One at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from laptime.analysis.aggregate import most_memory
from laptime.analysis.full import compare_learning, find_factor, find_reached, summarise_full_lane
from laptime.analysis.usage import training_usage
from laptime.errors import UsageError
from laptime.model.dataset import DataSource
from laptime.model.plan import PlannedLane
from laptime.model.process import Dnf, ProcessStatus
from laptime.model.protocol import FullOrder, FullRun, Moment
from laptime.model.questions import TrainingAnswer
from laptime.model.record import LaneResult
from laptime.planner.settings import learn_alike
from laptime.questions.job import FAKE, Job, Outcome, RecordStatus
from laptime.questions.protocol import PreparedTraining, order_words
from laptime.questions.proving import Proof, order_heat
from laptime.questions.resuming import Before, check_built, find_changed, find_lost
from laptime.run.runner import Limits
from laptime.run.sensor_selection import SensorSelection
from laptime.run.trainings import TrainingRunner

FULL_HZ = 1.0  # a reading per second is enough for a training of hours, and keeps its record small
READINGS_MOST = 14_400  # per instrument and process: four hours at 1 Hz; longer trainings are read less often
Key = tuple[str, int]


class WholeTrainings:
    """Trains every lane from every seed, or what an earlier process left of that."""

    def __init__(self, job: Job, prepared: PreparedTraining) -> None:
        self._job, self._protocol, self._before = job, prepared.protocol, prepared.before
        hz = job.plan.ask.sensors_hz
        self._sensors = SensorSelection(job.plan.ask.sensors, FULL_HZ if hz is None else hz, READINGS_MOST)
        self._proof = Proof(job.services.references, self._announce, job.own_code)
        self._runs: dict[Key, FullRun] = {}
        self._again: dict[Key, str] = {}
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
            self._train(order)
            proofs = self._runs[_key(order)].proofs
            self._proof.hear_appeal(job.plan, order.heat.lane, [proofs] if proofs else [])

    def reduce(self, status: RecordStatus) -> Outcome:
        """Summarise the lanes, and compare each with the first that has finished a lap."""
        runs = tuple(sorted(self._runs.values(), key=lambda run: run.order))
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
            tuple(each for each in findings if each is not None),
            self._proof.kept_reference(self._job.plan.subject),
            next((run.process.parameters for run in runs if run.process.parameters), None),
        )

    def _take_up(self, before: Before) -> None:
        """Take over what an earlier process found. Refuse to train finished laps again, unless that is allowed."""
        record = before.record
        self._runs = {(run.process.lane, run.seed): run for run in before.runs}
        self._job.before_s = record.elapsed_s
        # Without digests it is unknown whether the reference of a user's own training belongs to the current sources.
        if record.workload.file is None or any(run.sources for run in before.runs):
            self._proof.references = {record.workload.name: record.reference}
            self._proof.appeals = {lane.name: lane.appeal for lane in record.lanes if lane.appeal is not None}
        for lost in find_lost(before, self._orders()):
            self._again[_key(lost.order)] = lost.note
            if lost.is_damaged:
                self._job.services.checkpoints.drop(Path(lost.order.checkpoint))

    def _orders(self) -> list[FullOrder]:
        """Return what is left to train, in order. Every lane is proven once, from the first seed."""
        plan, orders = self._job.plan, []
        number, first_seed = 0, plan.ask.seed
        for turn in range(self._protocol.seeds):
            for lane in plan.lanes if turn % 2 == 0 else plan.lanes[::-1]:
                seed = first_seed + turn
                done = self._runs.get((lane.name, seed))
                heat = order_heat(plan, lane, plan.pace, number, seed)
                number += 1
                if done is not None and done.process.status == "ok":
                    continue
                prove = seed == first_seed and not (done is not None and done.proofs)
                protocol = replace(self._protocol, steps_per_lap=self._steps_per_lap(heat.lane.settings.batch))
                place = self._job.services.checkpoints.place(lane.name, seed)
                orders.append(FullOrder(heat, protocol, str(place), prove))
        return orders

    def _steps_per_lap(self, batch: int | None) -> int | None:
        """Return the steps per lap. With another batch than the workload's, a lap has as many items as before."""
        steps, meant = self._protocol.steps_per_lap, self._job.plan.subject.batch
        if steps is None or batch is None or meant is None:
            return steps
        return max(1, round(steps * meant / batch))

    def _train(self, order: FullOrder) -> None:
        """Train one lane from one seed. If it fails, the others still run."""
        key, job, lane = _key(order), self._job, order.heat.lane
        before = self._runs.get(key)

        def note(status: ProcessStatus, dnf: Dnf | None = None) -> None:
            made = runner.training_run(status, dnf)
            self._runs[key] = replace(made, reached=find_reached(made.laps, self._protocol.until_accuracy))

        def keep() -> None:
            note("running")
            job.save()

        def check(sources: dict[str, str]) -> None:
            check_built(self._before, before, sources)

        runner = TrainingRunner(
            order,
            Limits(job.plan.ask.patience_s, job.plan.ask.watchdog_s),
            tell=job.services.tell,
            keep=keep,
            check=check,
            sampler=None if lane.framework == FAKE else self._sensors.sampler_for(lane.name, lane.computes_on),
            before=before,
            changed=find_changed(self._before, before) if self._before is not None else (),
            noted=(self._again[key],) if key in self._again else (),
        )
        try:
            dnf = runner.run()
        except KeyboardInterrupt:
            note("interrupted")
            raise
        job.own_code.look_at(lane, runner)
        note("dnf" if dnf else "ok", dnf)
        job.save()
        if dnf is None:
            job.services.checkpoints.drop(Path(order.checkpoint))

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


def _key(order: FullOrder) -> Key:
    return order.heat.lane.name, order.heat.seed
