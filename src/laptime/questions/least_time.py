"""What a question takes at least, said before it begins: where its budget is too short, or --heats does not heed it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.process import NO_TRAINING
from laptime.model.quantities import brief
from laptime.model.sample import Reference
from laptime.planner.groups import OVERRUN
from laptime.questions.job import FAKE_FRAMEWORK, Job
from laptime.questions.proving import is_reference_known
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import count_step

# Times what passed until a question was planned: so long it takes at least until its first heat, then until each heat
# is timed. What heats are forked from has imported their framework by then.
SET_UP, SET_UP_FORKED = 2.0, 1.0
STARTS, STARTS_FORKED = 1.0, 0.15
# What hardly any training reaches on a processor: operations a second of a core, and bytes a second of the memory.
CORE_FLOPS, BYTES_A_SECOND = 1e11, 2e10
STEPS_OF_A_HEAT = 5  # however long they are: two before its turns, and three turns
STEPS_ONCE = 4  # in a lane's first heat: an estimate, a count, and a look at what a test takes
SINGLE_STEPS = 2  # after those of a proof
EXACTLY = 3.0  # times a lane's proof: the reference, with its twin in float32
MINUTES_FROM_S = 120
UNEXPECTED = 1.5  # times what was said: then it is said again, once a round has shown how long it takes


class LeastTime:
    """Warns of the time that a question takes whatever its budget is, before much is done and after the first round.

    To scout, a process started, imported a framework and built its devices. A heat does the same, or is forked from
    such a process, and then builds and is proven for a part of that time.
    """

    def __init__(self, job: Job, pace: Pace, lanes: int, *, heats: int | None = None) -> None:
        """Each round has a heat of this many lanes; `heats` is how many rounds --heats asks for."""
        self._job = job
        self._pace = pace
        self._lanes = lanes
        self._heats = heats
        forks = all(lane.may_fork for lane in job.plan.lanes)
        starts, set_up = (STARTS_FORKED, SET_UP_FORKED) if forks else (STARTS, SET_UP)
        self._start_s = set_up * job.elapsed_s
        self._round_s = lanes * (starts * job.elapsed_s + pace.measure_s)
        # Add the steps of a built-in training, by their work: they take no less than that on the processor
        plan = self._job.plan
        steps_s = [expect_step_s(plan, lane, self._job.cores) for lane in plan.lanes]
        known = is_reference_known(self._job.services.references, plan)
        mean_s = sum(steps_s) / len(steps_s)
        items = plan.proof.steps * plan.proof.batch
        proofs = self._lanes + (0.0 if known else EXACTLY)
        self._add_long_steps(steps_s, proofs * mean_s * items / (plan.subject.batch or items))
        self._most_s = (1 + OVERRUN) * job.plan.ask.budget_s
        self._has_warned = False

    @property
    def _least_s(self) -> float:
        return self._start_s + (self._heats or 1) * self._round_s

    def warn_by_reference(self, reference: Reference | None, rounds: int, aim: str) -> None:
        """Say the same of a training of the user's own, once its reference has shown how long a step takes."""
        plan = self._job.plan
        on_processor = all(lane.device.kind == "cpu" for lane in plan.lanes)
        if reference is None or plan.subject.is_built_in or not on_processor or self._has_warned:
            return
        proof_s = reference.twin.seconds
        steps = len(reference.twin.losses) + (SINGLE_STEPS if plan.proof.single_step_scale else 0)
        self._start_s = max(self._start_s, self._job.elapsed_s)
        self._add_long_steps([proof_s / max(steps, 1)], self._lanes * proof_s)
        self.warn(rounds, aim)

    def _add_long_steps(self, steps_s: Sequence[float], proof_s: float) -> None:
        """Add what steps of these lengths take, and their proof, where they are longer than a turn."""
        if max(steps_s, default=0.0) <= self._pace.window_s:
            return
        mean_s = sum(steps_s) / len(steps_s)
        self._round_s += self._lanes * max(0.0, STEPS_OF_A_HEAT * mean_s - self._pace.measure_s)
        self._start_s += self._lanes * STEPS_ONCE * mean_s + proof_s

    def warn(self, rounds: int, aim: str) -> None:
        """Say how long it takes where that is surely more than the budget; `aim` is what the rounds are needed for."""
        if self._job.launcher.is_elsewhere:
            return  # the time so far was spent waiting for a place, which says nothing of what comes
        if self._heats is not None:
            if self._least_s > self._most_s:
                self._job.notify(f"{self._of_heats()} at least about {ceil(self._least_s)} s, whatever --budget says.")
            return
        if self._start_s + rounds * self._round_s > self._most_s:
            self._has_warned = True
            budget_s = self._job.plan.ask.budget_s
            enough_s = self._start_s + 2 * rounds * self._round_s
            enough = f"{ceil(enough_s)}s" if enough_s < MINUTES_FROM_S else f"{ceil(enough_s / 60)}m"
            self._job.notify(
                f"warning: --budget {brief(budget_s)}s is too short {aim} (start-up {ceil(self._start_s)} s + {rounds} "
                f"rounds of {ceil(self._round_s)} s). This takes at least about {ceil(self._least_s)} s. "
                f"Use --budget {enough}."
            )

    def warn_again(self, next_round_s: float) -> None:
        """Say it again after the first round of --heats, where that took longer than could be expected."""
        rest = (self._heats or 1) - 1
        takes_s = self._job.elapsed_s + rest * next_round_s
        if rest and takes_s > max(self._most_s, UNEXPECTED * self._least_s):
            self._job.notify(f"{self._of_heats()} about {ceil(takes_s)} s.")

    def _of_heats(self) -> str:
        return f"warning: --heats {self._heats} of {self._lanes} lane{'s' * (self._lanes != 1)} takes"


def expect_step_s(plan: Plan, lane: PlannedLane, cores: int) -> float:
    """Return how long a step of a built-in training takes at least on the processor; 0 where that is not known."""
    subject = plan.subject_of(lane)
    if (
        not subject.is_built_in
        or lane.framework == FAKE_FRAMEWORK
        or lane.device.kind != "cpu"
        or lane.settings.input in NO_TRAINING
    ):
        return 0.0
    workload = find_workload(subject.name)
    work = count_step(workload, lane.settings.batch or workload.batch)
    return work.flops / (CORE_FLOPS * min(cores, lane.settings.threads or cores)) + work.bytes / BYTES_A_SECOND
