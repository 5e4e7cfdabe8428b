"""Whole trainings, one lane from one seed at a time: each in a fresh process, and kept however it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from laptime.model.plan import PlannedLane
from laptime.model.process import Dnf, ProcessStatus
from laptime.model.protocol import FullOrder, FullRun, Protocol
from laptime.questions.job import FAKE, Job
from laptime.questions.proving import order_heat
from laptime.questions.train.reduce import find_reached
from laptime.questions.train.resuming import Before, check_built, find_changed
from laptime.run.runner import Limits
from laptime.run.sensor_selection import SensorSelection
from laptime.run.trainings import TrainingRunner

FULL_HZ = 1.0  # a reading per second is enough for a training of hours, and keeps its record small
READINGS_MOST = 14_400  # per instrument and process: four hours at 1 Hz; longer trainings are read less often
Key = tuple[str, int]


class TrainingRuns:
    """The whole trainings of a job, by lane and seed. `before` is the record that they continue.

    `again` has a note for each training whose finished laps are trained again.
    """

    def __init__(self, job: Job, limits: Limits, before: Before | None = None) -> None:
        self._job, self._limits, self._before = job, limits, before
        hz = job.plan.ask.sensors_hz
        self._sensors = SensorSelection(job.plan.ask.sensors, FULL_HZ if hz is None else hz, READINGS_MOST)
        self.runs: dict[Key, FullRun] = {}
        self.again: dict[Key, str] = {}
        if before is not None:
            self.runs = {(run.process.lane, run.seed): run for run in before.runs}

    def train(self, order: FullOrder) -> None:
        """Train one lane from one seed, and save the record after each lap. A training that fails is kept, too."""
        key, job, lane = key_of(order), self._job, order.heat.lane
        before = self.runs.get(key)

        def note(status: ProcessStatus, dnf: Dnf | None = None) -> None:
            made = runner.training_run(status, dnf)
            self.runs[key] = replace(made, reached=find_reached(made.laps, order.protocol.until_accuracy))

        def keep() -> None:
            note("running")
            job.save()

        def check(sources: dict[str, str]) -> None:
            check_built(self._before, before, sources)

        runner = TrainingRunner(
            order,
            self._limits,
            tell=job.services.tell,
            keep=keep,
            check=check,
            sampler=None if lane.framework == FAKE else self._sensors.sampler_for(lane.name, lane.computes_on),
            before=before,
            changed=find_changed(self._before, before) if self._before is not None else (),
            noted=(self.again[key],) if key in self.again else (),
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


def order_training(
    job: Job, protocol: Protocol, lane: PlannedLane, number: int, seed: int, *, prove: bool
) -> FullOrder:
    """Return the order that a child needs to train this lane whole."""
    steps = _steps_per_lap(protocol, lane.settings.batch, job.plan.subject.batch)
    place = job.services.checkpoints.place(lane.name, seed)
    heat = order_heat(job.plan, lane, job.plan.pace, number, seed)
    return FullOrder(heat, replace(protocol, steps_per_lap=steps), str(place), prove)


def _steps_per_lap(protocol: Protocol, batch: int | None, meant: int | None) -> int | None:
    """Return the steps per lap. With another batch than the workload's, a lap has as many items as before."""
    steps = protocol.steps_per_lap
    if steps is None or batch is None or meant is None:
        return steps
    return max(1, round(steps * meant / batch))


def key_of(order: FullOrder) -> Key:
    return order.heat.lane.name, order.heat.seed
