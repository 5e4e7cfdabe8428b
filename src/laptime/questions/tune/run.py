"""Which settings are best on each lane? A search in short heats, then a race of the winner on fresh ones.

The lane races against each single setting and against what the presets set. What seems faster is joined, and the best
set of settings is changed step by step as long as that helps. What cannot be told from the best gets more heats. The
best of many seems faster than it is, so the gain on the page is that of the last race alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from laptime.analysis.diagnosis.findings import find_findings, find_unreliable
from laptime.analysis.heats import ALPHA
from laptime.engine.run.runner import Limits
from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT, find_framework
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.protocol import FullRun, Moment, Protocol
from laptime.model.quantities import Missing, taken
from laptime.model.record import NOT_RELIABLE, Finding, Progress
from laptime.planner.groups import (
    GROUP_HEATS_LEAST,
    HEATS_USUAL,
    OVERRUN,
    TURNS_COMPARED,
    confirming_pace,
    refuse_group_for,
    shortest_pace,
)
from laptime.planner.lanes import able_frameworks, parse_lane
from laptime.planner.plan import (
    check_ranges,
    find_devices,
    find_refused,
    pace_of,
    plan_lane,
    plan_script,
    plan_script_lane,
)
from laptime.planner.refusals import SubjectFacts
from laptime.questions.asking import Prepared, describe_script, facts_of, means_a_script, prepare, see_devices
from laptime.questions.code_changes import ChangeFinder
from laptime.questions.doctor.checkup import find_unseen_cards
from laptime.questions.going_on import check_data, check_known, take_up
from laptime.questions.heat_rounds import HEATS_VARY, HeatRounds
from laptime.questions.job import Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.least_time import LeastTime
from laptime.questions.noted_code import note_code_of
from laptime.questions.subject import find_subject
from laptime.questions.train.options import FullAsk
from laptime.questions.train.reduce import compare_learning, final_score
from laptime.questions.train.run import TrainingRuns, make_protocol, order_training
from laptime.questions.tune.lanes import (
    SettingWords,
    Tunable,
    check_tune,
    find_tunable,
    lanes_of_frameworks,
    read_look,
)
from laptime.questions.tune.nouns import Learned, TuneAnswer, Tuning
from laptime.questions.tune.options import TuneAsk
from laptime.questions.tune.said import describe_tuning, with_changes
from laptime.questions.tune.search import Objective, Search, check_objective

CONFIRMING = 0.5  # share of a lane's time that is kept for the confirming race, at most
CONFIRMING_SCRIPT = 0.35  # of a script, whose heats mostly import: so its search needs more of the time
SINGLES = 0.5  # share of the search in which single settings are tried first
CONFIRMED_MOST = 10  # rounds of the confirming race
LONGER = 2.0  # a fresh heat takes about this multiple of a short one
NO_FRESH = "{} fresh rounds take about {}, and {} of the budget was left"
OF_A_DUEL = 2  # lanes: one as asked, and another set of settings
A_ROUND = 6  # changes of the best set of settings that are tried at once
NEAR_A_ROUND = 3  # sets that cannot be told from the best, and get another heat
PATIENCE_SHARE = 0.25  # of the budget: a heat that takes longer to start is out
PATIENCE_LEAST_S = 30.0


@dataclass(frozen=True, slots=True)
class TunePrepared(Prepared):
    """A prepared tuning: what may be tried on each lane, and what finds its places in the user's code.

    `patience_s` is that of whole laps, as it was asked for. A heat of the search has less.
    """

    tunables: tuple[Tunable, ...]
    patience_s: float
    finder: ChangeFinder

    @property
    def adds_lanes(self) -> bool:
        return True

    @property
    def keeps_checkpoints(self) -> bool:
        return self.plan.ask.tune is not None and self.plan.ask.tune.laps is not None


def prepare_tune(ask: Ask, machine: Machine) -> TunePrepared:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    wanted = ask.tune or TuneAsk()
    check_tune(wanted)
    check_ranges(wanted)
    if ask.every:
        raise UsageError("laptime tune takes lanes, and --every races all that is installed", "name lanes")
    if means_a_script(ask):
        return _prepare_script(ask, machine, wanted)
    described, workload = find_subject(ask.what)
    able = [
        name for name in able_frameworks(machine, described) if workload is None or not find_framework(name).refusal
    ]
    lanes = lanes_of_frameworks(wanted, ask.lanes, able)
    asked_s = ask.patience_s
    ask = replace(ask, lanes=lanes, tune=wanted, patience_s=_patience_s(ask))
    prepared = prepare(ask, machine, one_lane=True)
    planned = prepared.plan.lanes
    for lane in planned:
        refuse_group_for("tune", lane)
    check_objective(ask, planned)
    if wanted.laps is not None:
        check_lanes(wanted.laps, prepared.plan)
    given = facts_of(prepared, workload)
    plan = partial(plan_lane, machine=prepared.machine, subject=given)
    named = prepared.plan.ask.lanes or tuple(lane.name for lane in planned)
    tunables = tuple(find_tunable(parse_lane(text), prepared.machine, given, plan, wanted) for text in named)
    finder = ChangeFinder(ask.what, described.file, described.function)
    return TunePrepared(
        _as_duels(prepared.plan, prepared.machine),
        prepared.machine,
        prepared.published,
        tunables=tunables,
        patience_s=asked_s,
        finder=finder,
        code=prepared.code,
    )


def _patience_s(ask: Ask) -> float:
    """Return how long a heat of the search may take to start."""
    return min(ask.patience_s, max(PATIENCE_LEAST_S, PATIENCE_SHARE * ask.budget_s))


def _as_duels(plan: Plan, machine: Machine) -> Plan:
    """Return the plan with the pace of two lanes: none of a tuning ever races alone."""
    alone, pace = pace_of(plan.ask, machine, [plan.lanes[0], plan.lanes[0]])
    return replace(plan, alone=alone, pace=pace)


def _prepare_script(ask: Ask, machine: Machine, wanted: TuneAsk) -> TunePrepared:
    """Plan the tuning of a script that nobody changes."""
    if wanted.frameworks:
        says = f"--frameworks {','.join(wanted.frameworks)}: {ask.what} is a script, which has its own framework"
        raise UsageError(says, "leave it out")
    if wanted.laps is not None:
        says = f"--laps {wanted.laps}: {ask.what} is a script, which trains as long as it says itself"
        raise UsageError(says, "leave it out, and run the script with the change that the page shows")
    subject = describe_script(ask)
    code = note_code_of({subject.name: subject.file})
    machine = see_devices(ask, subject, machine)
    devices = find_devices(machine)
    lanes = ask.lanes or (devices[-1 if len(devices) == 1 else 1].name,)
    asked_s = ask.patience_s
    ask = replace(ask, lanes=lanes, tune=wanted, patience_s=_patience_s(ask))
    planned = plan_script(ask, machine, subject)
    check_objective(ask, planned.lanes)
    plan = partial(plan_script_lane, devices=devices, machine=machine)
    named = [replace(parse_lane(text), framework=SCRIPT) for text in lanes]
    tunables = tuple(find_tunable(lane, machine, SubjectFacts(None), plan, wanted) for lane in named)
    finder = ChangeFinder(ask.what, subject.file)
    duels = _as_duels(planned, machine)
    return TunePrepared(duels, machine, None, tunables=tunables, patience_s=asked_s, finder=finder, code=code)


class Tune:
    """A running tuning: a search for each lane, one after another, then the confirming race of all winners.

    Whole laps, if asked for, come last and are no part of the budget.
    """

    def __init__(self, job: Job, prepared: TunePrepared) -> None:
        self._job = job
        self._finder = prepared.finder
        self._objective = Objective(job.plan.ask, ALPHA * job.error_share)
        reads_power = self._objective.needs_power(job.plan.lanes)
        pace = shortest_pace(
            job.plan.pace, takes_turns=job.plan.alone is None, turns=TURNS_COMPARED, reads_power=reads_power
        )
        self._rounds = HeatRounds(job, pace, examines=lambda _lane: False)
        self._searches = [Search(tunable, self._rounds, self._objective) for tunable in prepared.tunables]
        self._rounds.describe = lambda: Progress(
            f"{self._stage}, round {self._rounds.rounds + 1}", job.elapsed_s, max(job.left_s, 0.0), is_most=False
        )
        self._heat_s: dict[str, float] = {}
        self._stage = "search"
        self._confirmed_from: int | None = None  # the first round of the confirming race
        self._unconfirmed: str | None = None  # why there was none
        laps = None if job.plan.ask.tune is None else job.plan.ask.tune.laps
        self._laps = None if laps is None else TunedLaps(job, laps, prepared.patience_s)
        if job.begun is not None:
            # Go on with the sets of settings that the record has
            answer = job.begun.answer
            tuning = answer.tuning if isinstance(answer, TuneAnswer) else None
            tuned = {lane.asked: lane for lane in ([] if tuning is None else tuning.lanes)}
            for search in self._searches:
                search.take_up(job.begun.lanes, tuned.get(search.tunable.base.name))
            check_known(job.begun, {lane.name: lane for lane in job.plan.lanes})
            take_up(self._rounds, job.begun)
            self._heat_s = dict(self._rounds.took_s)

    def run(self) -> None:
        rounds = self._rounds
        begun = self._job.begun
        with rounds.prestarter() as prestarter:
            if begun is None:
                LeastTime(self._job, rounds.pace, OF_A_DUEL).warn(1 + GROUP_HEATS_LEAST, "to confirm settings")
            rounds.make_ready(prestarter)
            if begun is not None:
                check_data(begun, self._job.plan)
            for place, search in enumerate(self._searches):
                reserved_s = sum(self._confirm_s(earlier) for earlier in self._searches[:place])
                share_s = (self._job.left_s - reserved_s) / (len(self._searches) - place)
                self._search(search, self._job.left_s - share_s, prestarter)
            self._confirm(prestarter)
        if self._laps is not None:
            with self._job.beyond_budget():
                self._train(self._laps)

    def reduce(self, status: RecordStatus) -> Outcome:
        rounds = self._rounds
        lanes = rounds.results()
        machine = self._job.machine
        answer = TuneAnswer(alone=rounds.why_alone)
        findings = find_unseen_cards(machine)
        if status != "running":
            tuning = describe_tuning(
                self._job,
                self._searches,
                lanes,
                self._confirmed_from,
                self._unconfirmed,
                is_interrupted=status == "interrupted",
            )
            tuning = with_changes(self._job, self._searches, tuning, self._finder)
            findings = (*findings, *find_findings([lanes[0]], machine))
            if not any(finding.rule == NOT_RELIABLE for finding in findings):
                winners = {lane.winner for lane in tuning.lanes}
                findings = (*findings, *find_unreliable([lane for lane in lanes if lane.name in winners]))
            if self._laps is not None:
                tuning = self._laps.fill(tuning)
                findings = (*findings, *self._laps.findings(tuning))
            answer = replace(answer, tuning=tuning)
        return Outcome(
            lanes,
            answer,
            findings,
            rounds.proof.kept_reference(self._job.plan.subject),
            rounds.parameters,
        )

    def _search(self, search: Search, keep_s: float, prestarter: Prestarter) -> None:
        """Look for the best settings of a lane, and leave `keep_s` of the budget for other lanes."""
        began_s = self._job.left_s - keep_s
        base = search.tunable.base
        if base.framework == SCRIPT and self._is_new(base):
            self._look(search, prestarter)
        for words in search.tunable.known:
            search.add(words)
        first = [words for words, lane in search.tried.items() if not words or self._is_new(lane)]
        if len(first) > 1 or self._job.begun is None or self._is_new(base):
            self._run(search, first, prestarter)
        if not self._goes_on(search):
            return
        # Where the guess for a script that waits wins, other settings alone would show nothing but the wait.
        if search.tunable.first not in dict(search.winner()):
            singles_s = self._job.left_s - SINGLES * (began_s - self._confirm_s(search))
            self._try_new(search, search.untried(), max(keep_s + self._confirm_s(search), singles_s), prestarter)
            search.add(search.joined(search.ratings()))
        while self._goes_on(search) and self._climb(search, keep_s, prestarter):
            pass

    def _look(self, search: Search, prestarter: Prestarter) -> None:
        """Run the first heat of a script alone: it shows which settings the script cannot have, or has already."""
        base = search.tunable.base
        self._rounds.run_apart([base], prestarter, breakdown=base.name)
        self._learn_costs([base], self._rounds.took_s.get(base.name, 0.0))
        signs = [heat.signs for heat in self._rounds.heats[base.name] if heat.signs is not None]
        if signs:
            search.tunable = search.tunable.after_look(read_look(signs[0]))

    def _climb(self, search: Search, keep_s: float, prestarter: Prestarter) -> bool:
        """Race changes of the best set against it, and what cannot be told from it. Return whether more may help."""
        ratings = search.ratings()
        fresh = [words for words in search.tried if words not in ratings and self._is_new(search.tried[words])]
        best = search.winner()
        search.kept.add(best)
        near = [words for words in search.contenders(ratings) if ratings[words].heats < HEATS_USUAL]
        new = fresh or search.neighbours(best, ratings)[:A_ROUND]
        if new and (not best or search.is_about_first(new[0], best)):
            near = []  # what was never tried comes before what cannot be told from the lane as asked, or from a guess
        wanted = list(dict.fromkeys([best, *near[:NEAR_A_ROUND]]))
        if not new and all(ratings[words].heats >= HEATS_USUAL for words in wanted):
            return False
        if not new and len(wanted) < 2 and ratings[best].heats >= GROUP_HEATS_LEAST:
            return False
        until_s = keep_s + self._confirm_s(search)
        return self._try_new(search, new, until_s, prestarter, beside=wanted)

    def _is_new(self, lane: PlannedLane) -> bool:
        return not self._rounds.heats[lane.name]

    def _try_new(
        self,
        search: Search,
        new: Sequence[SettingWords],
        until_s: float,
        prestarter: Prestarter,
        beside: Sequence[SettingWords] = ((),),
    ) -> bool:
        """Run a round with as many new sets of settings as fit into the time. Return whether any round ran.

        A further part has time for two lanes, however short it is: else it would be for nothing.
        """
        room_s = self._job.left_s - until_s
        rounds = self._rounds
        least = 1 if self._job.begun is None or rounds.rounds > rounds.begun_rounds else OF_A_DUEL

        def fits(wanted: Sequence[SettingWords]) -> bool:
            planned = [lane for words in wanted if (lane := search.lane_of(words)) is not None]
            return self._cost_s(planned, search) + HEATS_VARY * prestarter.expect_imports_s(planned) <= room_s

        lanes = [words for words in beside if self._works(search.tried[words])]
        while len(lanes) > least and not fits(lanes):
            lanes.pop()
        for words in new:
            if (len(lanes) < least or fits([*lanes, words])) and (words in search.tried or search.add(words)):
                lanes.append(words)
        if len(lanes) < 2:
            return False
        self._run(search, lanes, prestarter)
        return True

    def _run(self, search: Search, lanes: Sequence[SettingWords], prestarter: Prestarter) -> None:
        """Run a round, and those lanes once more whose heats were too short for a figure."""
        planned = [search.tried[words] for words in lanes]
        self._run_lanes(planned, prestarter)
        again = search.lacking(planned)
        if again and self._job.left_s > 0:
            self._run_lanes(again, prestarter)

    def _run_lanes(self, planned: Sequence[PlannedLane], prestarter: Prestarter) -> float:
        """Run a round, and learn what a heat of each lane costs: its part of the time that all took side by side.

        Return that time.
        """
        round_s = self._rounds.run_round(planned, prestarter)
        self._rounds.hear_appeals()
        self._learn_costs(planned, round_s)
        return round_s

    def _learn_costs(self, planned: Sequence[PlannedLane], round_s: float) -> None:
        last = [(lane, heat.process) for lane in planned for heat in self._rounds.heats[lane.name][-1:]]
        whole_s = sum(process.spent_s for _, process in last) or 1.0
        for lane, process in last:
            self._heat_s[lane.name] = round_s * process.spent_s / whole_s * self._rounds.share_again([lane])

    def _cost_s(self, lanes: Iterable[PlannedLane], search: Search) -> float:
        """Return how long a heat of each lane may take. One that has not run counts like the lane as asked."""
        usual_s = self._heat_s.get(search.tunable.base.name, 0.0)
        return HEATS_VARY * sum(self._heat_s.get(lane.name, usual_s) for lane in lanes)

    def _confirm_s(self, search: Search) -> float:
        """Return the time to keep for the confirming race of a lane.

        Where nothing seems better so far, it is the least that such a race needs, part of which may be beyond the
        budget; and nothing where there is no time for that and another try.
        """
        if not search.ratings():
            return 0.0
        best = search.winner()
        budget_s = self._job.plan.ask.budget_s
        pair_s = self._cost_s([search.tunable.base, search.tried[best]], search)
        if not best and len(self._searches) == 1:
            least_s = max(0.0, GROUP_HEATS_LEAST * pair_s - OVERRUN * budget_s)
            return least_s if least_s + pair_s <= self._job.left_s else 0.0
        if len(self._searches) == 1 and GROUP_HEATS_LEAST * pair_s > self._job.left_s + OVERRUN * budget_s:
            return 0.0  # too late for that: what is left is for the search
        is_script = search.tunable.base.framework == SCRIPT
        share_s = (CONFIRMING_SCRIPT if is_script else CONFIRMING) * budget_s / len(self._searches)
        return max(min(CONFIRMED_MOST * LONGER * pair_s, share_s), GROUP_HEATS_LEAST * pair_s)

    def _works(self, lane: PlannedLane) -> bool:
        return all(heat.process.status == "ok" for heat in self._rounds.heats[lane.name])

    def _goes_on(self, search: Search) -> bool:
        """Whether the lane as asked finishes its heats, does its own work, and what it takes is known."""
        return self._works(search.tunable.base) and () in search.ratings()

    def _confirm(self, prestarter: Prestarter) -> None:
        """Race each lane as asked and its winner, on fresh heats, until the budget is used up.

        The rounds without which there is no interval may take a little more. Where nothing but the presets was tried,
        they are run however long they take.
        """
        wanted: list[PlannedLane] = []
        for search in self._searches:
            if self._goes_on(search):
                best = search.settle()
                wanted += [search.tunable.base, *([search.tried[best]] if best else [])]
        if len(wanted) < 2:
            return
        round_s = sum(self._heat_s.get(lane.name, 0.0) for lane in wanted)
        most_s = self._job.left_s + OVERRUN * self._job.plan.ask.budget_s
        if GROUP_HEATS_LEAST * HEATS_VARY * round_s > most_s and self._rounds.rounds > len(self._searches):
            wanted_ms = 1e3 * (GROUP_HEATS_LEAST * round_s)
            left_ms = 1e3 * max(self._job.left_s, 0.0)
            self._unconfirmed = NO_FRESH.format(GROUP_HEATS_LEAST, taken(wanted_ms), taken(left_ms))
            return
        self._job.announce("the winner races again, on fresh heats")
        self._stage = "confirming race"
        first = self._rounds.next_number()
        rounds = 0
        short = self._rounds.pace
        longer = confirming_pace(short, round_s, len(wanted), self._job.left_s, CONFIRMED_MOST)
        self._rounds.pace = longer
        round_s += len(wanted) * (longer.measure_s - short.measure_s)
        while rounds < CONFIRMED_MOST:
            cost_s = HEATS_VARY * (round_s + prestarter.expect_imports_s(wanted))
            if rounds >= GROUP_HEATS_LEAST and cost_s > self._job.left_s:
                break
            round_s = self._run_lanes(wanted, prestarter)
            wanted = [lane for lane in wanted if self._works(lane)]
            self._confirmed_from = first
            rounds += 1
            if len(wanted) < 2:
                return

    def _train(self, laps: TunedLaps) -> None:
        """Train each lane as asked and its winner, one after another, for the laps that were asked for."""
        pairs = [
            [search.tunable.base, search.tried[best]]
            for search in self._searches
            if self._goes_on(search) and (best := search.winner())
        ]
        if pairs:
            laps.announce("the lane as asked and its winner are trained for whole laps")
        for place, lane in enumerate(lane for pair in pairs for lane in pair):
            steps = [heat.steps_per_lap for heat in self._rounds.heats[lane.name] if heat.steps_per_lap]
            laps.train(lane, self._rounds.done + place, steps[0] if steps else None)


# Whole laps at the end of a tuning: what the lane as asked and its winner learn, each from the same seed.

NOT_BEGUN = Missing("it was not begun")
NO_LENGTH = Missing("how many steps make a lap is not known: its data have no length, and it has no steps_per_lap")


def check_lanes(laps: int, plan: Plan) -> None:
    """Refuse lanes that cannot be trained whole."""
    refused = find_refused(plan, "train")
    if refused is not None:
        raise UsageError(f"--laps {laps}: {refused[0]}", "leave --laps out")


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
        lanes = []
        for lane in tuning.lanes:
            learned = (self._learned(lane.asked), self._learned(lane.winner)) if lane.words else ()
            lanes.append(replace(lane, learned=learned))
        return replace(tuning, lanes=tuple(lanes))

    def findings(self, tuning: Tuning) -> tuple[Finding, ...]:
        """Return a finding for each winner that learns differently, by more than chance explains."""
        findings = []
        for lane in tuning.lanes:
            runs = tuple(self._trainings.runs.values())
            found = compare_learning(lane.winner, lane.asked, runs) if lane.words else None
            if found is not None:
                again = f"laptime train {self._job.plan.ask.what} {lane.asked} {lane.winner}"
                again += f" --laps {self._protocol.laps} --seeds 3"
                findings.append(replace(found, advice=f"{again} shows whether seeds explain it."))
        return tuple(findings)

    def _learned(self, lane: str) -> Learned:
        run = self._trainings.runs.get((lane, self._job.plan.ask.seed))
        if run is None:
            why = self._why_not.get(lane, NOT_BEGUN)
            return Learned(lane, 0, "training", 0, why, why)
        return describe_learned(run, self._protocol)


def describe_learned(run: FullRun, protocol: Protocol) -> Learned:
    """Return the loss and accuracy at the end of a training, or why it has no end."""
    lane = run.process.lane
    laps = len(run.laps)
    if run.process.status != "ok":
        why_ended = "it was stopped" if run.process.dnf is None else run.process.dnf.reason
        why = Missing(f"it ended in lap {laps + 1} of {protocol.laps}: {why_ended}")
        return Learned(lane, laps, "training", 0, why, why)
    at_end = final_score(run)
    last = run.laps[-1].score
    if at_end is None:
        return Learned(lane, laps, "training", last.items, last.loss, last.accuracy)
    return Learned(lane, laps, "validation" if run.test is None else "test", at_end.items, at_end.loss, at_end.accuracy)


PART = QuestionRun(prepare_tune, Tune)
