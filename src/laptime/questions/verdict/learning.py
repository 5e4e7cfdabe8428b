"""Train base and candidate from several seeds, in turns of whole trainings, and judge how fast each one's loss falls.

From each seed, a process with the base's code alone draws the items. Then both sides train, each in a fresh process,
the base first from every other seed, so that what drifts meets both alike. After each leg of a training its weights are
judged by that first process, while the training waits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.analysis.heats import ONE_TRAINING, estimate, middle, startup_s
from laptime.engine.run.instruments import SensorSelection
from laptime.engine.run.learning import JudgeRunner, LearningRunner
from laptime.engine.run.runner import Limits, Started
from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.protocol import LearningOrder
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, OtherTraining, Parity, Progress
from laptime.questions.asking import Prepared
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.proving import order_heat
from laptime.questions.verdict.curves import POINTS_LEAST, SEED_PAIRS_LEAST, is_lost, judge_learning, pair_runs, usual_s
from laptime.questions.verdict.nouns import Decision, Learning, LearningPoint, LearningRun, VerdictAnswer
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.reduce import alpha_at, judge_left, looks
from laptime.questions.verdict.speed import find_left, judge_code, names_the_candidate, prepare_pair_of

SEEDS_PLANNED = 8  # by bench/verdict.py --learning: what is a tenth faster is found where seeds differ by 6 %
SEEDS_LEAST = 5  # that a budget is shared out among
SEEDS_LOOK_SHARE = 0.05  # of the errors, for each look before the last: a seed takes longer than a round
LEGS = 24  # of a training: so fine its curve is
TRAIN_LEAST_S = 2.0  # of a training; where a budget has no room for it, there are fewer seeds
SHORTEST_TRAINING_S = 0.5
TIMES_MEANT = 2.0  # than it was meant to train, before the base's first run ends early
FIRST_SEEDS_OVER = 0.5  # of the budget, for the first seeds: fewer decide nothing
READINGS_HZ = 1.0  # of instruments, a second,
READINGS_MOST = 3_600  # and of a training
JUDGED_NOT_PROVEN = "what it learns is judged, and not its work"


@dataclass(frozen=True, slots=True)
class PreparedLearning(Prepared):
    """Two trainings on one lane, to be trained from several seeds. `why_no_loss` says why they cannot be judged."""

    why_no_loss: str = ""


def prepare_learning(ask: Ask, machine: Machine) -> PreparedLearning:
    """Prepare two trainings on one lane, one after the other."""
    asked = ask.verdict or VerdictAsk()
    if asked.gate:
        raise UsageError("--gate with --learning: a gate guards the time of a step", "leave out one of the two")
    if ask.alone:
        raise UsageError("--alone with --learning: these trainings run one after another", "leave out --alone")
    prepared = prepare_pair_of(ask, machine)
    lane = prepared.plan.lanes[0]
    own = prepared.own
    why = ""
    if lane.row.name != "torch":
        why = f"{lane.name} shows no weights"
    elif own is not None and own.kind == "step":
        why = "a step of its own gives no network that laptime can call without training it"
    elif any(planned_lane.shares > 1 or planned_lane.devices for planned_lane in prepared.plan.lanes):
        why = "a lane on several devices shows no weights"
    plan = replace(prepared.plan, alone="whole trainings have the machine to themselves")
    return PreparedLearning(
        plan,
        prepared.machine,
        prepared.published,
        launcher=prepared.launcher,
        own=own,
        code=prepared.code,
        why_no_loss=why,
    )


@dataclass(frozen=True, slots=True)
class Length:
    """How long a side trains: the steps of a leg, and how many legs. Found by its first run, and kept."""

    leg_steps: int
    legs: int


class LearningVerdict:
    """Both sides from seed after seed, until the verdict is known or the budget is used up."""

    def __init__(self, job: Job, prepared: PreparedLearning) -> None:
        self._job = job
        plan = job.plan
        ask = plan.ask
        self._asked = ask.verdict or VerdictAsk()
        self._limits = Limits(ask.patience_s, ask.watchdog_s)
        self._base = next(lane for lane in plan.lanes if plan.subject_of(lane) == plan.subject)
        self._candidate = next(lane for lane in plan.lanes if plan.subject_of(lane) == plan.others[0])
        self._learning = Learning(self._asked.seeds or SEEDS_PLANNED, why_no_loss=prepared.why_no_loss)
        self._lengths: dict[str, Length] = {}
        self._train_s = 0.0
        self._left: tuple[str, ...] = ()
        self._batches: int | None = None  # in which the loss is judged, from all seeds
        self._prestarter: Prestarter
        hz = READINGS_HZ if ask.sensors_hz is None else ask.sensors_hz
        self._sensors = SensorSelection(ask.sensors, hz, READINGS_MOST)

    def run(self) -> None:
        """Train from seed after seed, and look after some of them whether the word is known."""
        job = self._job
        job.save()
        done = 0
        seed_s = 0.0
        name = job.plan.others[0].name
        prestarter = Prestarter(job.cores, self._limits.patience_s, launcher=job.launcher)
        with names_the_candidate(name), prestarter as self._prestarter:
            while not self._is_done(done, seed_s):
                began_s = time.monotonic()
                self._run_seed(done)
                done += 1
                self._left = self._left or find_left(job.launcher, (run.process for run in self._learning.runs))
                seed_s = time.monotonic() - began_s
                job.save()

    def reduce(self, status: RecordStatus) -> Outcome:
        """Return both sides, and the verdict that their curves allow."""
        over = status != "running"
        verdict = self._judge(final=True) if over else None
        lanes = tuple(self._summarise(lane) for lane in (self._base, self._candidate))
        parameters = next((run.process.parameters for run in self._learning.runs if run.process.parameters), None)
        plan = self._job.plan
        others = (OtherTraining(plan.ask.others[0], plan.others[0], None, Missing(JUDGED_NOT_PROVEN)),)
        return Outcome(lanes, VerdictAnswer(verdict, learning=self._learning), parameters=parameters, others=others)

    def _is_done(self, done: int, seed_s: float) -> bool:
        """Whether no further seed is wanted, or none has room in the budget."""
        learning = self._learning
        if learning.why_no_loss or done >= learning.seeds:
            return True
        failed = (run.misfit or run.changed or run.process.dnf or is_lost(run) for run in learning.runs)
        is_refused = bool(self._job.code_changes) or any(failed)
        if is_refused or (done in looks(learning.seeds) and self._judge(final=False).word != "UNDECIDED"):
            return True
        over_s = FIRST_SEEDS_OVER * self._job.plan.ask.budget_s if done <= SEED_PAIRS_LEAST else 0.0
        return done > 0 and seed_s > self._job.left_s + over_s

    def _judge(self, *, final: bool) -> Decision:
        learning = self._learning
        alpha = alpha_at(max(len(learning.pairs), 1), learning.seeds, final=final, share=SEEDS_LOOK_SHARE)
        found = judge_learning(learning, self._asked.gain, alpha)
        if self._left and found.word == "KEEP":
            found = judge_left(self._left)
        return judge_code(self._job) or found

    def _run_seed(self, turn: int) -> None:
        """Train both sides from one seed, after the items were drawn on which they are judged."""
        seed = self._job.plan.ask.seed + turn
        self._tell(turn, "draws the items of its loss")
        began_s = time.monotonic()
        order = order_heat(self._job.plan, self._base, self._job.plan.pace, 2 * turn, seed)
        judge = JudgeRunner(order, self._limits, self._batches)
        try:
            why = judge.open(self._start(self._base))
            if why is not None or judge.drawn is None:
                self._learning = replace(self._learning, why_no_loss=why or "no items were drawn")
                return
            drawn = judge.drawn
            self._batches = drawn.batches
            self._learning = replace(self._learning, items=drawn.items, is_held_out=drawn.is_held_out)
            if turn == 0:
                # How long a side trains, and from how many seeds, by the budget and the time that a process starts in
                start_s = time.monotonic() - began_s
                left_s = self._job.left_s + start_s
                seeds = self._learning.seeds
                fewest = seeds if self._asked.seeds is not None else SEEDS_LEAST
                while (train_s := (left_s / seeds - 3 * start_s) / 2) < TRAIN_LEAST_S and seeds > fewest:
                    seeds -= 1
                self._train_s = max(train_s, SHORTEST_TRAINING_S)
                self._learning = replace(self._learning, seeds=seeds)
            sides = (self._base, self._candidate)
            for place, lane in enumerate(sides if turn % 2 == 0 else sides[::-1]):
                run = self._train(lane, seed, 2 * turn + place, judge)
                self._learning = replace(self._learning, runs=(*self._learning.runs, run))
                self._job.save()
                if run.process.dnf is not None or run.misfit:
                    return
            judge.close()
        finally:
            judge.abandon()
        # The pairs of all seeds that both sides were trained from
        base = self._whole_runs(self._base)
        candidate = self._whole_runs(self._candidate)
        made = (pair_runs(base[seed], candidate[seed]) for seed in base if seed in candidate)
        pairs = tuple(pair for pair in made if pair is not None)
        self._learning = replace(self._learning, pairs=pairs)

    def _whole_runs(self, lane: PlannedLane) -> dict[int, LearningRun]:
        """Return the runs of a side that came to their end, by their seeds."""
        length = self._lengths.get(lane.name)
        mine = [run for run in self._learning.runs if run.process.lane == lane.name and length is not None]
        return {run.seed: run for run in mine if length is not None and len(run.points) == length.legs + 1}

    def _train(self, lane: PlannedLane, seed: int, number: int, judge: JudgeRunner) -> LearningRun:
        """Train one side from one seed, in a process of its own."""
        job = self._job
        length = self._lengths.get(lane.name)
        started = self._start(lane)
        sandbox = started.child.sandbox
        assert sandbox is not None
        heat = order_heat(job.plan, lane, job.plan.pace, number, seed)
        weights = str(Path(sandbox.folder, "weights.npz"))  # in the folder of its own process
        if length is not None:
            order = LearningOrder(heat, weights, self._train_s / length.legs, length.leg_steps)
        else:
            laps = None if self._asked.laps is None or lane != self._base else self._asked.laps / LEGS
            order = LearningOrder(heat, weights, self._train_s / LEGS, leg_laps=laps)
        runner = LearningRunner(
            order,
            judge,
            self._limits,
            lambda runner: self._goes_on(runner, lane, number // 2),
            cores=job.cores,
            sampler=self._sensors.sampler_for(lane.name, lane.computes_on),
        )
        dnf = runner.run(started)
        job.look_at_code()
        job.own_code.look_at(lane, runner)
        if length is None and runner.legs > 0:
            self._lengths[lane.name] = Length(runner.points[1][0], runner.legs)
            self._train_s = usual_s(_points(runner))  # the base is first, and the candidate trains as long
        return LearningRun(
            runner.process_run(dnf),
            seed,
            number,
            _points(runner),
            None if runner.first_step_ns is None else runner.first_step_ns / 1e6,
            runner.misfit,
            runner.changed,
        )

    def _start(self, lane: PlannedLane) -> Started:
        """Return a fresh process: forked from one that has imported the framework, where that can be."""
        return self._prestarter.take_alone(lane) or Started(self._job.launcher.start(lane.environment, lane))

    def _goes_on(self, runner: LearningRunner, lane: PlannedLane, turn: int) -> bool:
        """Whether another leg is wanted: as many as the side's first run had.

        In its own first run, the base has a fixed number of them, and the candidate as many as take the same time.
        """
        length = self._lengths.get(lane.name)
        legs = runner.legs
        train_s = usual_s(_points(runner))
        self._tell(turn, f"{self._job.plan.subject_of(lane).name} trains for {train_s:.1f} s")
        if self._job.left_s < -FIRST_SEEDS_OVER * self._job.plan.ask.budget_s:
            return False  # too short to be compared
        if length is not None:
            return legs < length.legs
        if lane == self._base:
            is_slow = self._asked.laps is None and train_s > TIMES_MEANT * self._train_s
            return legs < LEGS and (legs < POINTS_LEAST or not is_slow)
        half_s = train_s / max(legs, 1) / 2
        return legs < POINTS_LEAST or train_s < self._train_s - half_s

    def _tell(self, turn: int, doing: str) -> None:
        self._job.show(Progress(f"seed {turn + 1} of at most {self._learning.seeds}: {doing}", self._job.elapsed_s))

    def _summarise(self, lane: PlannedLane) -> LaneResult:
        """Return a side as every record holds a lane."""
        mine = [run for run in self._learning.runs if run.process.lane == lane.name]
        dnf = next((run.process.dnf for run in mine if run.process.dnf), None)
        trained = [run.points[-1] for run in mine if len(run.points) > 1]
        items = next((run.process.items_per_step for run in mine if run.process.items_per_step), None)
        steps_s = [point.train_s / point.steps for point in trained]
        return LaneResult(
            name=lane.name,
            framework=next((run.process.versions for run in mine if run.process.versions), {}),
            device=lane.device,
            settings=lane.settings,
            status="dnf" if dnf else "ok",
            reason=dnf.reason if dnf else None,
            step_ms=estimate([1e3 * step_s for step_s in steps_s], alone=ONE_TRAINING),
            lap_s=None,
            items_per_s=estimate([items / step_s for step_s in steps_s], alone=ONE_TRAINING) if items else None,
            first_step_ms=middle(run.first_step_ms for run in mine),
            startup_s=middle(startup_s(run.process.phases_s) for run in mine),
            peak_memory_bytes=Missing("not summed up"),
            device_memory_bytes=Missing("not summed up"),
            energy_j_per_lap=Missing("no lap was timed"),
            parity=Parity("unproven", reason=JUDGED_NOT_PROVEN),
            items_per_step=items,
            notes=lane.notes,
            training=self._job.plan.subject_of(lane).name,
        )


def _points(runner: LearningRunner) -> tuple[LearningPoint, ...]:
    return tuple(LearningPoint(*point) for point in runner.points)
