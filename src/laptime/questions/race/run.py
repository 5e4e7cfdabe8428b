"""Which lane is faster, by how much, and did they learn the same? Run interleaved heats until the answer is certain."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from math import inf

from laptime.analysis.diagnosis.findings import find_findings
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.parity import find_other_steps, find_other_timed
from laptime.analysis.replays import find_other_replay
from laptime.engine.run.launchers import LOCAL, Fleet, Launcher
from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import NodeType
from laptime.model.machine import Machine
from laptime.model.other_work import OtherWork, words_of_work
from laptime.model.plan import Plan, PlannedLane
from laptime.model.quantities import Missing, percent
from laptime.model.record import ERROR_RATE, Comparison, LaneResult, OtherTraining, Progress, RaceAnswer
from laptime.model.rows import ON_NODES
from laptime.model.stats import FIRST_LOOK, alpha_for_look
from laptime.model.symptoms import ProfileRun
from laptime.planner.groups import OVERRUN, shorten_pace
from laptime.planner.plan import pace_of
from laptime.questions.asking import Prepared, keep_apart, means_a_script, prepare_script, prepare_trainings
from laptime.questions.doctor.checkup import find_unseen_cards
from laptime.questions.going_on import check_data, take_up
from laptime.questions.heat_rounds import HeatRounds
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.least_time import LeastTime
from laptime.questions.profile.run import profile_lane
from laptime.questions.race.turns import balance_turns, fit_turns

EARLY = 0.6  # share of the margin within which every ratio has to be known for the race to end before its time
REPLAYS_SHARE = 0.05  # of the time until now
SETTLED_EARLY_SHARE = (
    0.2  # share of the margin within which two lanes that cannot be told apart are called settled early
)


def prepare_race(ask: Ask, machine: Machine, launcher: Launcher = LOCAL) -> Prepared:
    """Prepare a race of one training, of several of the user's own, of a fleet, or of a script that nobody changes."""
    if launcher.fleet is not None:
        return prepare_fleet(ask, launcher, launcher.fleet)
    return prepare_script(ask, machine) if means_a_script(ask) else prepare_trainings(ask, machine, launcher)


class Race:
    """A race: the lanes that are still in it, and how long the next round may take."""

    def __init__(self, job: Job, _prepared: Prepared) -> None:
        # Trainings of one lane are compared at their timed steps, however fast one of them is.
        plan = job.plan
        devices = {lane.device.name for lane in job.plan.lanes}
        pace = replace(plan.pace, shares_steps=plan.pace.shares_steps or (bool(plan.others) and len(devices) == 1))
        self._job = job
        self._rounds = HeatRounds(job, pace)
        self._running: list[PlannedLane] = list(job.plan.lanes)
        self._next_round_s = self._round_began_s = 0.0
        self._rounds.describe = self._describe
        self._least = LeastTime(job, job.plan.pace, len(job.plan.lanes), heats=job.plan.ask.heats)
        self._goal: tuple[str, ...] = ()  # how near the end is, by the intervals of the last look
        self._profiles: dict[str, ProfileRun] | None = None
        if any(subject.function is not None for subject in plan.subjects):
            self._rounds.replays = self._wants_replay
        self._rounds.before_turns = self._fit_turns
        self._is_final = True  # if the race is interrupted after a look, that look is the last
        if job.begun is not None:
            take_up(self._rounds, job.begun)
            self._running = [lane for lane in self._running if not self._rounds.heats[lane.name] or self._goes_on(lane)]

    def run(self) -> None:
        """Run interleaved rounds of heats until the margin is reached or the budget is used up."""
        job = self._job
        rounds = self._rounds
        with rounds.prestarter() as prestarter:
            needed = job.plan.pace.heats_min, "for a 95 % interval"
            if job.begun is None:
                self._least.warn(*needed)
            rounds.make_ready(prestarter)
            if job.begun is None:
                self._least.warn_by_reference(rounds.proof.kept_reference(job.plan.subject), *needed)
            else:
                check_data(job.begun, job.plan)
            self._is_final = self._run_rounds(prestarter)
        if job.plan.ask.profile:
            with job.beyond_budget():
                self._profile()

    def _run_rounds(self, prestarter: Prestarter) -> bool:
        """Run rounds until one is the last, or settles the race. Return whether it is the last."""
        while True:
            self._round_began_s = time.monotonic()
            self._end_round(self._rounds.run_round(self._running, prestarter), prestarter)
            self._rounds.hear_appeals()
            # Decide whether this look is the last before looking at any ratio.
            last = self._is_done()
            if last or self._is_settled():
                return last

    def reduce(self, status: RecordStatus) -> Outcome:
        """Compare the lanes. While the race runs, its record has no findings."""
        lanes = self._rounds.results(self._profiles)
        machine = self._job.machine
        is_over = status != "running"
        return Outcome(
            lanes,
            RaceAnswer(
                self._compare(lanes, final=self._is_final and is_over), self._rounds.why_alone, self._job.plan.nodes
            ),
            (*find_unseen_cards(machine), *find_findings(lanes, machine)) if is_over else (),
            self._rounds.proof.kept_reference(self._job.plan.subject),
            self._rounds.parameters,
            self._describe_others(lanes),
        )

    def _wants_replay(self, _gain: float) -> bool:
        """Whether a turn of this round is taken again: after one that differed, or where it costs little."""
        heats = [heat for mine in self._rounds.heats.values() for heat in mine]
        spent_s = sum(heat.process.phases_s.get("replay", 0.0) for heat in heats)
        return self._has_open_replay or spent_s <= REPLAYS_SHARE * self._job.elapsed_s

    @property
    def _has_open_replay(self) -> bool:
        """Whether a turn that was taken again differed, and one more will show whether that was chance."""
        return any(isinstance(find_other_replay(mine), Missing) for mine in self._rounds.heats.values())

    def _describe_others(self, lanes: tuple[LaneResult, ...]) -> tuple[OtherTraining, ...]:
        """Return the trainings after the first, and how their work differs from the first's: in the proof, or timed."""
        plan = self._job.plan
        proof = self._rounds.proof
        ran = {lane.name: lane for lane in lanes if lane.status == "ok"}
        by_training = [
            [ran[lane.name] for lane in plan.lanes if plan.subject_of(lane) == subject and lane.name in ran]
            for subject in (plan.subject, *plan.others)
        ]
        first = by_training[0][0] if by_training[0] else None
        timed = [
            None if first is None else next(filter(None, (find_other_timed(lane, first) for lane in its)), None)
            for its in by_training[1:]
        ]
        return tuple(
            OtherTraining(
                what,
                other,
                proof.kept_reference(other),
                words_of_work(proof.find_difference(other, plan.subject) or _not_proven(other_work)),
            )
            for what, other, other_work in zip(plan.ask.others, plan.others, timed, strict=True)
        )

    def _is_done(self) -> bool:
        """Whether no further round is wanted, or none would fit, decided without looking at any ratio.

        A budget is a promise: the first round is completed, and the few that make an interval may take a little more
        than was asked. Where they would take longer, the answer is less certain, as its page reports. As many heats as
        were asked for are run.
        """
        pace = self._job.plan.pace
        rounds = self._rounds.rounds
        ask = self._job.plan.ask
        if rounds >= pace.heats_max or not self._running:
            return True
        over_s = OVERRUN * ask.budget_s if rounds < pace.heats_min else 0.0
        is_asked = ask.heats is not None and rounds < pace.heats_min
        return not is_asked and self._next_round_s > self._job.left_s + over_s

    def _describe(self) -> Progress:
        """Return the round, and how long the race goes on if rounds take what the last one took.

        A round that ends beyond the budget is the last one, and one that ends before it is not, if another has room.
        """
        job = self._job
        pace = self._job.plan.pace
        rounds = self._rounds.rounds
        left_s = self._job.left_s
        is_asked = job.plan.ask.heats is not None
        progress = Progress(
            f"round {rounds + 1} of {'' if is_asked else 'at most '}{pace.heats_max}", job.elapsed_s, notes=self._goal
        )
        over_s = OVERRUN * job.plan.ask.budget_s if rounds + 1 < pace.heats_min else 0.0
        if not self._next_round_s:  # it is the first one, which is completed however long it takes
            return progress if is_asked else replace(progress, left_s=max(left_s + over_s, 0.0))
        rest_s = max(0.0, self._next_round_s - (time.monotonic() - self._round_began_s))
        if is_asked:
            rest_s += self._next_round_s * (pace.heats_max - rounds - 1)
        elif rounds + 1 < pace.heats_max and self._next_round_s <= left_s - rest_s + over_s:
            return replace(progress, left_s=max(left_s + over_s, 0.0))
        return replace(progress, left_s=max(rest_s, 1.0), is_most=False)

    def _is_settled(self) -> bool:
        """Whether every ratio is known well enough to end early, at the part of alpha that this look spends.

        A ratio whose interval holds 1 may still be a small difference: it has to be known better than others.
        """
        if not self._job.plan.pace.adaptive or self._stage[0] < FIRST_LOOK:
            return False
        known = [*map(self._precision, self._compare(self._rounds.results(), final=False))]
        if known and all(precision is not None for precision in known):
            now, wanted = max(filter(None, known), key=lambda precision: precision[0] / precision[1])
            self._goal = (f"done when within {percent(wanted)} (now {percent(now)})",)
        return bool(known) and all(precision is not None and precision[0] <= precision[1] for precision in known)

    def _precision(self, comparison: Comparison) -> tuple[float, float] | None:
        """Return half an interval as a share, and how small it has to be, if there is one."""
        if comparison.ends is None:
            return None
        low, high = comparison.ends
        share = SETTLED_EARLY_SHARE if comparison.verdict == "not distinguishable" else EARLY
        return (high / low) ** 0.5 - 1 if low > 0 else inf, share * self._job.plan.ask.margin

    def _fit_turns(self, turn_s: float, start_s: float) -> None:
        """Let the rounds that an interval needs fit into what is left."""
        rounds = self._rounds
        coming = max(rounds.pace.heats_min - rounds.rounds, 1)
        rounds.pace = fit_turns(rounds.pace, turn_s, (self._job.left_s - (coming - 1) * start_s) / coming)

    def _end_round(self, round_s: float, prestarter: Prestarter) -> None:
        """Remove lanes that failed, and fit the coming rounds into the rest of the budget."""
        self._job.look_at_code()
        rounds = self._rounds
        heats = self._rounds.heats
        phases = [heats[lane.name][-1].process.phases_s for lane in self._running]
        timed_s = [phase.get("timing", 0.0) for phase in phases]
        round_s *= rounds.share_again(self._running)
        self._running = [lane for lane in self._running if self._goes_on(lane)]
        rounds_left = self._job.plan.pace.heats_max - rounds.rounds
        imports_s = prestarter.expect_imports_s(self._running)
        left_s = self._job.left_s - imports_s
        pace = rounds.pace
        turns = max((len(heats[lane.name][-1].windows) for lane in self._running), default=0)
        if turns and pace.takes_turns:
            pace = balance_turns(pace, sum(timed_s) / turns, round_s - sum(timed_s), left_s)
        pace = shorten_pace(pace, timed_s, round_s, left_s, rounds_left)
        self._next_round_s = imports_s + round_s + sum(timed_s) * (pace.measure_s / rounds.pace.measure_s - 1)
        rounds.pace = pace
        if rounds.rounds == 1:
            self._least.warn_again(self._next_round_s)

    def _goes_on(self, lane: PlannedLane) -> bool:
        """Whether a lane's latest heat finished, or lost its node where there are others of its type."""
        process = self._rounds.heats[lane.name][-1].process
        fleet = self._job.launcher.fleet
        lost = process.dnf is not None and process.dnf.lost_its_node
        return process.status == "ok" or (lost and fleet is not None and fleet.goes_on(lane))

    def _profile(self) -> None:
        """Profile each lane that finished, after the race and outside its budget."""
        job = self._job
        self._profiles = {}
        heats = self._rounds.heats
        finished = [
            number
            for number, lane in enumerate(job.plan.lanes)
            if heats[lane.name] and all(heat.process.status == "ok" for heat in heats[lane.name])
        ]
        for place, number in enumerate(finished):
            name = job.plan.lanes[number].name
            job.announce(f"profile {place + 1} of {len(finished)}: {name}")
            self._profiles[name] = profile_lane(job, number, lambda _phase: None)
            job.save()

    def _compare(self, lanes: tuple[LaneResult, ...], *, final: bool) -> tuple[Comparison, ...]:
        """Compare each lane that is still in the race with the first of them."""
        racing = [lane for lane in lanes if lane.status == "ok" and lane.step_ms is not None]
        if len(racing) < 2:
            return ()
        plan = self._job.plan
        alpha = self._alpha(final=final)
        planned = {lane.name: lane for lane in plan.lanes}
        return tuple(
            self._judge_trainings(found, planned[found.lane], planned[found.reference], (lane, racing[0]))
            for lane in racing[1:]
            if (found := compare_lanes(lane, racing[0], plan.ask.margin, alpha)) is not None
        )

    @property
    def _stage(self) -> tuple[int, int]:
        """How many of the rounds that this run may decide by are done, and how many there are at most."""
        begun = self._rounds.begun_rounds
        return self._rounds.rounds - begun, self._job.plan.pace.heats_max - begun

    def _alpha(self, *, final: bool) -> float:
        """Return the error rate of the intervals of this look."""
        done, planned = self._stage
        rounds = min(max(done, 1), planned)
        return alpha_for_look(
            rounds,
            planned=planned,
            final=final or rounds < FIRST_LOOK,
            total=ERROR_RATE * self._job.error_share,
            adaptive=self._job.plan.pace.adaptive,
        )

    def _judge_trainings(
        self, found: Comparison, lane: PlannedLane, reference: PlannedLane, lanes: tuple[LaneResult, LaneResult]
    ) -> Comparison:
        """Return a comparison that also says whether the two lanes' trainings do the same work.

        Different work of two trainings is no reason to hide their factor: they were raced to be compared.
        """
        if found.same_work is not True:
            return found
        for change in self._job.code_changes.values():
            return replace(found, same_work=Missing(f"during the race, {change.place.name} {change.how}"))
        plan = self._job.plan
        mine = plan.subject_of(lane)
        theirs = plan.subject_of(reference)
        if mine == theirs:
            known = self._rounds.proof.find_cut(plan, lane, reference) or find_other_steps(*lanes)
        else:
            known = self._rounds.proof.find_difference(mine, theirs) or find_other_timed(*lanes)
        differs = known or find_other_replay([result.heat for result in lanes[0].heats if result.heat.replays])
        return replace(found, same_work=_not_proven(differs) or True)


def _not_proven(found: OtherWork | Missing | None) -> Missing | None:
    """Return why two lanes did not do the same work, as far as is known."""
    return Missing(found.says) if isinstance(found, OtherWork) else found


# The same lanes on each type of nodes of a cluster (`--each`): a plan for each type, joined into one race.


def prepare_fleet(ask: Ask, launcher: Launcher, fleet: Fleet) -> Prepared:
    """Prepare a race on each type of nodes. A type that cannot run it is left out, with the reason.

    What belongs to no lane, as the reference, runs on the first type that can.
    """
    there = [kind.value for kind in fleet.types]
    unknown = [price.of for price in ask.prices if price.of not in there]
    if unknown:
        raise UsageError(f"--prices {unknown[0]}: no node is of this type", f"there are: {', '.join(there)}")
    made: list[tuple[NodeType, Prepared]] = []
    nodes = {node.node: node for node in fleet.nodes}
    for kind in fleet.types:
        first = fleet.first_of(kind)
        if first.machine is None:
            continue
        fleet.settle(kind)
        try:
            # A machine as others on a cluster are planned with: a lane sees the cards of its place only
            made.append((kind, prepare_trainings(ask, replace(first.machine, cards=(), absent={}), launcher)))
        except UsageError as error:
            nodes |= {
                node.node: replace(node, problem=node.problem or error.says)
                for node in fleet.nodes
                if node.of == kind.name
            }
    fleet.note(tuple(nodes.values()))
    if not made:
        problems = "; ".join(dict.fromkeys(f"{node.of}: {node.problem}" for node in fleet.nodes))
        raise UsageError(
            f"--each {ask.each}: no type of nodes can run this: {problems}", "laptime devices shows what a machine has"
        )
    fleet.settle(made[0][0])
    return replace(made[0][1], plan=_join(ask, made, launcher, fleet))


def _join(ask: Ask, made: list[tuple[NodeType, Prepared]], launcher: Launcher, fleet: Fleet) -> Plan:
    (_, first), *_ = made
    lanes = tuple(
        replace(lane, name=f"{lane.name}{ON_NODES}{kind.name}", where=kind)
        for kind, prepared in made
        for lane in prepared.plan.lanes
    )
    alone, pace = pace_of(ask, first.machine, lanes)
    notes = tuple(dict.fromkeys(chain.from_iterable(prepared.plan.notes for _, prepared in made)))
    plan = replace(first.plan, lanes=lanes, alone=alone, pace=pace, notes=notes, nodes=fleet.nodes)
    return keep_apart(plan, launcher.why_alone(lanes))


PART = QuestionRun(prepare_race, Race)
