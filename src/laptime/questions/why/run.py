"""Why is a lane as fast as it is? It races against itself: with one stage alone, then with a possible cause removed.

The lane and its three ceilings run a first heat each. Their results show which experiments are worth the time. These
then race against the lane, as many as fit into the budget, and after them the rest. A cause is proven by the time that
its removal saved or cost, never by its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from laptime.analysis.diagnosis.findings import denormals_of, find_findings
from laptime.analysis.heats import ALPHA
from laptime.analysis.lanes import compare_lanes, ratios_with_gaps, steps_of_lap
from laptime.analysis.step_states import find_lane_state, ratios_within
from laptime.engine.run.turns import REACH_FACTOR, Prestarter
from laptime.machine.denormals import time_denormals
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT
from laptime.model.hardware import CONVOLUTIONS
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.process import AS_WRITTEN, NO_TRAINING, READY, Lane
from laptime.model.quantities import Factor, Missing
from laptime.model.record import Comparison, Finding, LaneResult
from laptime.model.symptoms import NO_INPUT
from laptime.planner.groups import GROUP_HEATS_LEAST, HEATS_USUAL, OVERRUN, refuse_group_for, shortest_pace
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import find_devices, plan_lane, plan_script, plan_script_lane
from laptime.planner.settings import PRESETS
from laptime.questions.asking import Prepared, describe_script, facts_of, means_a_script, prepare, see_devices
from laptime.questions.code_changes import ChangeFinder
from laptime.questions.doctor.checkup import find_unseen_cards
from laptime.questions.going_on import check_data, check_known, take_up
from laptime.questions.heat_rounds import HEATS_VARY, HeatRounds
from laptime.questions.job import FAKE_FRAMEWORK, Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.least_time import LeastTime
from laptime.questions.noted_code import note_code_of
from laptime.questions.subject import find_subject
from laptime.questions.why.answer import explain
from laptime.questions.why.causes import list_experiments, rank_experiments
from laptime.questions.why.experiments import AskedTraining
from laptime.questions.why.facts import WhyFacts, mean_factor
from laptime.questions.why.nouns import NOT_PROMISING, STEP_STAGES, Experiment, Stage, Trial, WhyAnswer
from laptime.questions.why.own_code import (
    A_LINE_TWICE,
    KEPT_WORKERS,
    find_watched,
    is_between,
    with_lines,
    without_it,
)
from laptime.questions.why.reach import find_reach

EXPERIMENT_ROUNDS = 2  # two pairs bound a large factor; three bound a small one
WIDE = 3  # experiments of a script that take turns in one round
NEAR_THE_FIRST = 0.4  # of what the first one promises
# The phases in which heats of a script go on next to each other.
SIDE_BY_SIDE = ("start", "import", "held", "build")
REPEATED_MOST = 2  # experiments that are repeated at once
FAR_SHARE = 0.08  # of the budget: for so long the first heat looks where the training goes, such as to tiny numbers
FLUSH_EXPERIMENT = "flush"  # the experiment whose gain is that of the steps at which numbers are denormal
SLOW_WITH_DENORMALS = 1.15  # times as long: a processor that takes less with them gains nothing without
OF_INPUT = "input="  # settings that a script without a DataLoader of PyTorch cannot have
LAYOUT = "layout"  # the experiment that is for convolutions alone
OF_TUNING = {"precision", "execution", "layout", "steps_per_execution"}  # of a script: `laptime tune` tries them
TUNED_ALONE = "of a script, laptime tune tries it"
NO_BUDGET = "the budget had no room for it"
INTERRUPTED = "it was interrupted before"
NOTHING_BETWEEN = "nothing between iterations came within its heats"


@dataclass(frozen=True, slots=True)
class Inquiry(Prepared):
    """A prepared `why`: one lane, and all its experiments. `changes` finds remedies in the code of a script."""

    lane: AskedLane
    experiments: tuple[Experiment, ...]
    changes: ChangeFinder | None = None

    @property
    def adds_lanes(self) -> bool:
        return True

    def named(self, name: str) -> Experiment:
        return next(experiment for experiment in self.experiments if experiment.name == name)


def prepare_why(ask: Ask, machine: Machine) -> Inquiry:
    """Scout and plan. With no lane named, it is the framework's card if there is one, else the processor."""
    if ask.every or len(ask.lanes) > 1:
        raise UsageError("why looks at one lane, and several are asked for", "name one: laptime why WHAT torch/cpu")
    if means_a_script(ask):
        return _inquire_script(ask, machine)
    workload = find_subject(ask.what)[1]
    prepared = prepare(ask, machine, one_lane=True)
    planned = prepared.plan.lanes[0]
    refuse_group_for("why", planned)
    if planned.settings.input in NO_TRAINING:
        raise UsageError(f"why: {planned.name} trains nothing", "name the lane of a training")
    given = facts_of(prepared, workload)
    subject = prepared.plan.subject
    lane = replace(parse_lane(prepared.plan.ask.lanes[0]), device=planned.device.name)
    asked = AskedLane(lane, planned, partial(plan_lane, machine=prepared.machine, subject=given))
    possible = list_possible(asked, AskedTraining(planned, prepared.machine, workload))
    possible = _with_changes(possible, ChangeFinder(ask.what, subject.file, subject.function))
    return Inquiry(prepared.plan, prepared.machine, prepared.published, asked, possible, code=prepared.code)


def _inquire_script(ask: Ask, machine: Machine) -> Inquiry:
    """Plan the experiments that need no change of a script."""
    subject = describe_script(ask)
    code = note_code_of({subject.name: subject.file})
    machine = see_devices(ask, subject, machine)
    devices = find_devices(machine)
    text = ask.lanes[0] if ask.lanes else devices[-1 if len(devices) == 1 else 1].name
    plan = plan_script(replace(ask, lanes=(text,)), machine, subject)
    planned = plan.lanes[0]
    lane = replace(parse_lane(text), framework=SCRIPT, device=planned.device.name)

    def plan_lane_of_why(wanted: Lane) -> PlannedLane:
        """Plan an experiment that shows a cause. What only makes a script faster is tried by `laptime tune`."""
        others = {name for name, _ in wanted.overrides} & OF_TUNING
        if others:
            says = f"{' and '.join(sorted(others))}: {TUNED_ALONE}"
            raise UsageError(says, f"laptime tune {ask.what}")
        return plan_script_lane(wanted, devices=devices, machine=machine)

    asked = AskedLane(lane, planned, plan_lane_of_why)
    training = AskedTraining(planned, machine, None, subject.written_for or "torch")
    changes = ChangeFinder(ask.what, subject.file, subject.function)
    possible = with_lines(_with_changes(list_possible(asked, training), changes), (), changes.source_of)
    return Inquiry(plan, machine, None, asked, possible, changes, code=code)


def _with_changes(experiments: Sequence[Experiment], changes: ChangeFinder) -> tuple[Experiment, ...]:
    """Find each remedy in the user's code as it is now."""
    return tuple(
        changes.add_to(experiment, experiment.rewrite) if experiment.is_remedy else experiment
        for experiment in experiments
    )


def list_possible(asked: AskedLane, training: AskedTraining) -> tuple[Experiment, ...]:
    """Return every experiment. Those that the lane cannot have are marked as absent, with the reason."""
    return check_experiments(asked, list_experiments(training))


class WhySearch:
    """A running inquiry: the lane of each experiment, and the time of each lane's last heat."""

    def __init__(self, job: Job, inquiry: Inquiry) -> None:
        self._job = job
        self._inquiry = inquiry
        self._no_time = NO_BUDGET  # why an experiment was not tried that is worth its time
        pace = shortest_pace(job.plan.pace, takes_turns=job.plan.alone is None)
        self._base = job.plan.lanes[0]
        # Only the lane itself measures how long a validation takes.
        self._rounds = HeatRounds(job, pace, examines=lambda lane: lane == self._base)
        self._lanes: dict[str, str] = {}  # by experiment, of those that were begun
        self._heat_s: dict[str, float] = {}
        self._may_overrun = False  # the budget, for a second pair
        self._slow_with_denormals: bool | None = None
        self._watched: tuple[Finding, ...] | None = None  # of a script
        self._expect_imports_s: Callable[[Sequence[PlannedLane]], float] = lambda _lanes: 0.0
        if job.begun is None:
            return
        # Go on with the experiments that the record has
        self._heed(job.begun.lanes[0])
        tried = {
            plan_experiment(self._inquiry.lane, experiment).name: experiment
            for experiment in self._inquiry.experiments
            if experiment.absent is None
        }
        for lane in job.begun.lanes:
            if lane.name in tried:
                self._add(tried[lane.name])
        check_known(job.begun, {lane.name: lane for lane in job.plan.lanes})
        take_up(self._rounds, job.begun)
        self._learn_costs([lane for lane in self._job.plan.lanes if self._rounds.heats[lane.name]])
        self._rounds.pace = replace(self._rounds.pace, reach_step=find_reach(self._rounds.result_of(self._base)))

    def run(self) -> None:
        """Measure the lane and its ceilings, then the experiments that they point to."""
        rounds = self._rounds
        begun = self._job.begun
        if self._base.framework != SCRIPT or (begun is not None and not self._is_timed()):
            for name in self._stages():
                self._add(self._inquiry.named(name))
        with rounds.prestarter() as prestarter:
            if begun is None:
                LeastTime(self._job, rounds.pace, len(self._job.plan.lanes)).warn(EXPERIMENT_ROUNDS, "to test a fix")
            rounds.make_ready(prestarter)
            self._expect_imports_s = prestarter.expect_imports_s
            if begun is None:
                self._run_first(self._with(self._stages()), prestarter)
            else:
                check_data(begun, self._job.plan)
            rounds.hear_appeals()
            while self._go_on(prestarter):
                rounds.hear_appeals()

    def reduce(self, status: RecordStatus) -> Outcome:
        """Explain what was measured. While the heats run, or if the lane did not finish one, nothing is concluded."""
        rounds = self._rounds
        lanes = rounds.results()
        machine = self._job.machine
        reference = rounds.proof.kept_reference(self._job.plan.subject)
        if status == "running" or lanes[0].step_ms is None:
            return Outcome(lanes, WhyAnswer(), (), reference, rounds.parameters)
        # Those that have begun and of which no heat was finished when the time ran out, and those that have not begun
        empty = {lane.name for lane in lanes if lane.status == "ok" and lane.step_ms is None}
        unfinished = [name for name, lane in self._lanes.items() if name not in STEP_STAGES and lane in empty]
        missing = [*unfinished, *self._promising()]
        compared = tuple(comparison for lane in lanes[1:] if (comparison := self._compare(lanes[0], lane)))
        self._no_time = INTERRUPTED if status == "interrupted" else NO_BUDGET
        is_whole = status != "interrupted"
        why = explain(self._gather_facts(lanes, missing), tuple(missing), is_whole=is_whole)
        return Outcome(
            lanes,
            WhyAnswer(compared, why, rounds.why_alone),
            (*find_unseen_cards(machine), *find_findings(lanes[:1], machine)),
            reference,
            rounds.parameters,
        )

    def _stages(self) -> list[str]:
        """Return the ceilings that the lane may have: experiments with one stage alone."""
        return [name for name in STEP_STAGES if self._inquiry.named(name).absent is None]

    def _may_run_first(self, lane: PlannedLane, _after: Sequence[PlannedLane]) -> bool:
        """Whether a lane of the first round runs. What a script's ceilings need is known after its own heat."""
        if lane == self._base:
            return True
        self._heed(self._rounds.result_of(self._base))
        if self._is_timed():
            return False  # its own steps say what a stage takes, and no script has to start for that
        for name in self._stages():
            if plan_experiment(self._inquiry.lane, self._inquiry.named(name)).name == lane.name:
                self._add(self._inquiry.named(name))
                return True
        return False

    def _is_timed(self) -> bool:
        return self._gather_facts(self._rounds.results()).is_timed

    def _heed(self, base: LaneResult) -> None:
        """Heed the first heat of a script: what experiments it cannot have, and which of its lines others leave out."""
        if (changes := self._inquiry.changes) is not None:
            self._watched = tuple(map(changes.advise, find_watched(base, self._job.machine)))
            named = with_lines(self._inquiry.experiments, self._watched, changes.source_of)
            self._inquiry = replace(self._inquiry, experiments=named)
        signs = next((heat.heat.signs for heat in base.heats if heat.heat.signs is not None), None)
        if signs is None or NO_INPUT not in signs.notes:
            return
        no_input = signs.notes[NO_INPUT]
        impossible = signs.impossible

        def why_not(experiment: Experiment) -> str | None:
            if experiment.settings[0].startswith(OF_INPUT):
                return no_input
            words = [word for setting in experiment.settings for word in (setting, setting.partition("=")[0])]
            return next((impossible[word] for word in words if word in impossible), None)

        left = [
            experiment
            if experiment.absent or (why := why_not(experiment)) is None
            else replace(experiment, absent=Missing(why))
            for experiment in self._inquiry.experiments
        ]
        self._inquiry = replace(self._inquiry, experiments=tuple(left))

    def _add(self, experiment: Experiment) -> None:
        """Add an experiment to the rounds. Experiments with the same settings share a lane."""
        lane = plan_experiment(self._inquiry.lane, experiment)
        self._lanes |= {
            other.name: lane.name
            for other in self._inquiry.experiments
            if other.settings == experiment.settings and other.absent is None
        }
        self._rounds.admit(lane)

    def _lanes_of(self, names: Sequence[str]) -> list[PlannedLane]:
        """Return the lane itself and the lanes of these experiments, each once, except those that failed."""
        wanted = {self._base.name, *(self._lanes[name] for name in names if name in self._lanes)}
        lanes = [lane for lane in self._job.plan.lanes if lane.name in wanted]
        return [lane for lane in lanes if all(heat.process.status == "ok" for heat in self._rounds.heats[lane.name])]

    @property
    def _left_s(self) -> float:
        """The time left. A further part has time for a pair, however short it is: else it would be for nothing.

        The pair without which there is no interval may take a little more than the budget.
        """
        rounds = self._rounds
        if self._job.begun is None or rounds.rounds > rounds.begun_rounds:
            return self._job.left_s + OVERRUN * self._job.plan.ask.budget_s * self._may_overrun
        return max(self._job.left_s, *(self._cost_s([self._base, lane]) for lane in self._job.plan.lanes))

    def _cost_s(self, lanes: Sequence[PlannedLane]) -> float:
        """Return what a round of these lanes may take. An unmeasured lane counts like the lane under study."""
        usual = self._heat_s.get(self._base.name, 0.0)
        heats_s = sum(self._heat_s.get(lane.name, usual) for lane in lanes)
        return HEATS_VARY * (heats_s + self._expect_imports_s(lanes))

    def _affordable(self, names: Sequence[str]) -> list[PlannedLane]:
        """Return the lane itself, and those of the experiments' lanes that, paired with it, fit into the time left."""
        base = self._base
        others = self._lanes_of(names)
        if base not in others:
            return []  # it has failed meanwhile, and there is nothing to pair with
        return [base, *(other for other in others[1:] if self._cost_s([base, other]) <= self._left_s)]

    def _run_first(self, lanes: Sequence[PlannedLane], prestarter: Prestarter) -> None:
        """Run the first heat of the lane and its ceilings, however long they take: without them there is no answer."""
        far_s = FAR_SHARE * self._job.plan.ask.budget_s
        self._rounds.run_apart(lanes, prestarter, breakdown=self._base.name, far_s=far_s, may_run=self._may_run_first)
        self._learn_costs(self._lanes_of(STEP_STAGES))
        if self._base.name in self._heat_s:  # else it has failed, and costs nothing more
            self._heat_s[self._base.name] -= max(0.0, far_s - self._rounds.pace.measure_s)
        reach = find_reach(self._rounds.result_of(self._base))
        self._rounds.pace = replace(self._rounds.pace, reach_step=reach)
        if self._rounds.pace.takes_turns:
            # How much longer a heat's turns take at most, so that its steps come as far as the first one's
            step = self._rounds.result_of(self._base).step_ms
            measure_s = self._rounds.pace.measure_s
            way_s = reach * step.median / 1e3 if step is not None else 0.0
            further_s = max(0.0, min(way_s, REACH_FACTOR * measure_s) - measure_s)
            self._heat_s = {name: heat_s + further_s for name, heat_s in self._heat_s.items()}

    def _run_fitting(self, lanes: Sequence[PlannedLane], prestarter: Prestarter) -> None:
        """Run a round, and leave out lanes for which the time runs short. The lane itself has to fit."""
        rounds = self._rounds
        left_s = self._left_s
        if rounds.pace.takes_turns:
            kept = [self._base]
            for lane in lanes[1:]:
                kept += [lane] if self._cost_s([*kept, lane]) <= left_s else []
            round_s = rounds.run_round(kept, prestarter)
            self._learn_costs(kept, round_s)
        else:

            def may_run(lane: PlannedLane, after: Sequence[PlannedLane]) -> bool:
                return (
                    self._cost_s([lane, *(planned_lane for planned_lane in after if planned_lane == self._base)])
                    <= self._left_s
                )

            rounds.run_apart(lanes, prestarter, may_run=may_run)
            self._learn_costs(lanes)

    def _learn_costs(self, lanes: Sequence[PlannedLane], round_s: float | None = None) -> None:
        """Store each lane's last heat as the cost of its next one, by our clock or the fake back end's own.

        Scripts import next to each other, so each costs its part of a round: less than it takes itself.
        """
        last = [(lane, heat.process) for lane in lanes for heat in self._rounds.heats[lane.name][-1:]]
        took_s = {lane.name: max(process.spent_s, self._rounds.took_s[lane.name]) for lane, process in last}
        part = 1.0
        if self._base.framework == SCRIPT and self._rounds.pace.takes_turns:
            sum_s = sum(took_s.values()) or 1.0
            starts_s = sum(process.phases_s.get(name, 0.0) for _, process in last for name in SIDE_BY_SIDE)
            part = 1 - (1 - 1 / self._job.cores) * starts_s / sum_s if round_s is None else round_s / sum_s
            part = min(1.0, part)
        for lane, _ in last:
            self._heat_s[lane.name] = took_s[lane.name] * part * self._rounds.share_again([lane])

    def _go_on(self, prestarter: Prestarter) -> bool:
        """Race the most promising of the remaining experiments against the lane. Return whether any round ran."""
        if self._base not in self._lanes_of(()):
            return False  # the lane itself did not finish
        if self._run_first_of_all(prestarter):
            return True
        single = self._single()
        open_ = self._unproven()
        if not open_:
            # Not where a single pair takes most of the budget: the others would have no time.
            is_dear = self._cost_s(self._lanes_of(single)) > self._job.plan.ask.budget_s / 2
            begun = (lane for name, lane in self._lanes.items() if name not in STEP_STAGES)
            has_interval = any(len(self._rounds.heats[lane]) >= EXPERIMENT_ROUNDS for lane in begun)
            self._may_overrun = not (is_dear or has_interval)
            has_run = bool(single) and self._run_rounds(single, 1, prestarter, ceilings=False)
            self._may_overrun = False
            if has_run:
                return True
        if open_ and self._run_rounds(open_, 1, prestarter):
            return True
        group = self._fitting(self._promising())
        left_s = self._left_s
        fits = self._cost_s(self._with(group)) * GROUP_HEATS_LEAST <= left_s
        rounds = GROUP_HEATS_LEAST if fits else EXPERIMENT_ROUNDS
        if not group and not self._wants_ceilings(GROUP_HEATS_LEAST):
            return self._use_rest(prestarter)
        for name in group:
            self._add(self._inquiry.named(name))
        if self._base.framework == SCRIPT and len(group) > 1:
            rounds = 1  # then what seems to gain most is proven, and not all of them at once
        return self._run_rounds(group, rounds, prestarter) or self._use_rest(prestarter)

    def _use_rest(self, prestarter: Prestarter) -> bool:
        """Use time that is too short for two pairs of a new experiment. Return whether a round ran.

        What was begun gets another pair. Where nothing was, a single pair of the most promising says more than none.
        """
        wanted = [*self._promising()]
        if not wanted:
            return False
        begun = [name for name in self._lanes if name not in STEP_STAGES]
        few = [name for name in begun if len(self._rounds.heats[self._lanes[name]]) < HEATS_USUAL]
        if begun:
            return bool(few) and self._run_rounds(few, 1, prestarter, ceilings=False)
        self._add(self._inquiry.named(wanted[0]))
        return self._run_rounds(wanted[:1], 1, prestarter, ceilings=False)

    def _run_first_of_all(self, prestarter: Prestarter) -> bool:
        """Take denormal numbers out before all else, where enough were found that they may cost time.

        They slow every other experiment down, and the rounds have to come as far as they do.
        """
        denormals = denormals_of(self._rounds.result_of(self._base))
        if self._is_slow_with_denormals() is False:
            return False
        possible = self._inquiry.named(FLUSH_EXPERIMENT).absent is None
        if FLUSH_EXPERIMENT in self._lanes or not possible or denormals is None or not denormals.cost:
            return False
        self._add(self._inquiry.named(FLUSH_EXPERIMENT))
        return self._run_rounds([FLUSH_EXPERIMENT], GROUP_HEATS_LEAST, prestarter, ceilings=False)

    def _is_slow_with_denormals(self) -> bool | None:
        """Return whether this processor is, if the lane has such numbers and no steps show it; None if not known.

        It is timed once, in a few milliseconds.
        """
        lane = self._rounds.result_of(self._base)
        denormals = denormals_of(lane)
        is_local = not self._job.launcher.is_elsewhere
        if denormals is None or not denormals.cost or find_lane_state(lane) is not None:
            return None
        if self._slow_with_denormals is None and is_local and self._base.framework != FAKE_FRAMEWORK:
            self._slow_with_denormals = time_denormals() >= SLOW_WITH_DENORMALS
        return self._slow_with_denormals

    def _run_rounds(self, group: Sequence[str], rounds: int, prestarter: Prestarter, *, ceilings: bool = True) -> bool:
        """Run rounds of these experiments and, where they lack heats, the ceilings. Return whether any round ran."""
        done = 0
        for _ in range(rounds):
            wants = ceilings and self._wants_ceilings(EXPERIMENT_ROUNDS if group else GROUP_HEATS_LEAST)
            wanted = STEP_STAGES if wants else ()
            lanes = self._affordable((*group, *wanted))
            if self._cost_s(lanes) > self._left_s:
                lanes = self._affordable(group)
            if len(lanes) < 2:
                break
            self._run_fitting(lanes, prestarter)
            done += 1
        return done > 0

    def _single(self) -> list[str]:
        """Return the experiment that seems to gain most of those that have a single pair: one shows no interval."""
        begun = [name for name in self._lanes if name not in STEP_STAGES]
        facts = self._gather_facts(self._rounds.results())
        alone = [name for name in begun if len(self._rounds.heats[self._lanes[name]]) < EXPERIMENT_ROUNDS]
        seem = {name: factor.ratio for name in alone if (factor := facts.factor(name)) is not None}
        return [name for name in seem if seem[name] == max(seem.values()) > 1 + facts.margin][:1]

    def _unproven(self) -> list[str]:
        """Return the experiments to repeat: those that seem to gain most, where no cause is proven yet.

        More heats of these say more than one heat each of experiments to which less points.
        """
        facts = self._gather_facts(self._rounds.results())
        begun = [name for name in self._lanes if name not in STEP_STAGES]
        if not begun or any(cause.standing == "proven" for cause in explain(facts).causes):
            return []
        seem = {
            name: factor.ratio for name in begun if (factor := facts.factor(name)) and factor.ratio > 1 + facts.margin
        }
        heats = {name: len(self._rounds.heats[self._lanes[name]]) for name in seem}
        open_ = [name for name in seem if not facts.moved(name) and EXPERIMENT_ROUNDS <= heats[name] < HEATS_USUAL]
        return sorted(open_, key=lambda name: -seem[name])[:REPEATED_MOST]

    def _promising(self) -> dict[str, float]:
        """Return the experiments that are worth their time and have not begun, the most promising first."""
        facts = self._gather_facts(self._rounds.results())
        possible = {
            experiment.name for experiment in self._inquiry.experiments if experiment.absent is None
        } - self._lanes.keys()
        return {name: promise for name, promise in rank_experiments(facts).items() if name in possible}

    def _fitting(self, promises: Mapping[str, float]) -> list[str]:
        """Return the experiments that fit into the time left, in order.

        If any fit with enough rounds to repeat what stays open, return only those; else those that fit with three, or
        with two. A script takes seconds to start, so its most promising experiments are tried next to each other:
        those that promise about as much as the first one, whose proof is not to wait for the others.
        """
        names = [*promises]
        near = [name for name in names[:WIDE] if promises[name] >= NEAR_THE_FIRST * promises[names[0]]]
        if self._base.framework == SCRIPT and (wide := self._fitting_with(EXPERIMENT_ROUNDS, near)):
            return wide
        for rounds in (HEATS_USUAL, GROUP_HEATS_LEAST, EXPERIMENT_ROUNDS):
            if group := self._fitting_with(rounds, names):
                return group
        return []

    def _fitting_with(self, rounds: int, names: Sequence[str]) -> list[str]:
        group: list[str] = []
        for name in names:
            if rounds * self._cost_s(self._with([*group, name])) <= self._left_s:
                group.append(name)
        return group

    def _with(self, names: Sequence[str]) -> list[PlannedLane]:
        """Return the lanes of a round with these experiments, including those that have not begun."""
        known = {lane.name: lane for lane in self._lanes_of(names)}
        for name in names:
            lane = plan_experiment(self._inquiry.lane, self._inquiry.named(name))
            known.setdefault(lane.name, lane)
        return list(known.values())

    def _wants_ceilings(self, least: int) -> bool:
        """Whether any ceiling has fewer than `least` heats: two for an interval, a third after all experiments."""
        return any(len(self._rounds.heats[lane.name]) < least for lane in self._affordable(STEP_STAGES)[1:])

    def _gather_facts(self, lanes: Sequence[LaneResult], missing: Sequence[str] = ()) -> WhyFacts:
        """Collect all facts that the rules use. The budget had no room for the `missing` experiments."""
        found = {lane.name: lane for lane in lanes}
        base = lanes[0]
        plan = self._job.plan
        stages: dict[Stage, LaneResult] = {
            stage: found[self._lanes[stage]] for stage in STEP_STAGES if stage in self._lanes
        }
        if base.settings.input in READY:
            stages.setdefault("compute", base)
        # Whether a user's own step has convolutions; None where its work was not counted
        reference = self._rounds.proof.kept_reference(plan.subject)
        work = None if reference is None else reference.work
        convolves = None
        if work is not None and work.operators:
            convolves = any(operator.kind in CONVOLUTIONS for operator in work.operators)
        experiments = self._inquiry.experiments
        layout = [experiment for experiment in experiments if experiment.name == LAYOUT]
        if convolves is False and layout:  # a layout of images is no part of a step without convolutions
            experiments = tuple(
                replace(other, code="; ".join(part for part in other.code.split("; ") if part != layout[0].code))
                for other in experiments
                if other != layout[0]
            )
        heats = self._rounds.heats[self._base.name]
        told_steps = next((heat.steps_per_lap for heat in heats if heat.steps_per_lap), None)
        return WhyFacts(
            lane=base,
            machine=self._job.machine,
            trials={experiment.name: self._make_trial(experiment, found, missing) for experiment in experiments},
            unseen=find_unseen_cards(self._job.machine),
            ceilings_lanes=stages,
            what=plan.subject.name,
            items=plan.subject.items,
            lap_steps=steps_of_lap(plan, self._base, told_steps),
            convolves=convolves,
            slow_with_denormals=self._is_slow_with_denormals(),
            watched=self._watched,
        )

    def _make_trial(self, experiment: Experiment, found: dict[str, LaneResult], missing: Sequence[str]) -> Trial:
        if experiment.absent is not None:
            return Trial(experiment, None, None, experiment.absent.missing)
        if experiment.name not in self._lanes:
            return Trial(experiment, None, None, self._no_time if experiment.name in missing else NOT_PROMISING)
        name = self._lanes[experiment.name]
        lane = found[name]
        base = found[self._base.name]
        compared = self._compare(base, lane)
        if lane.status != "ok":
            return Trial(experiment, name, None, lane.reason)
        if compared is None:
            return Trial(experiment, None, None, NO_BUDGET)
        if compared.same_work is False:
            return Trial(experiment, name, None, f"it does other work: {lane.parity.reason or 'its proof failed'}")
        state = find_lane_state(base) if experiment.name == FLUSH_EXPERIMENT else None
        ratios = ratios_within(state, base, lane) if state is not None else []
        if state is not None and len(ratios) >= EXPERIMENT_ROUNDS:
            return Trial(experiment, name, mean_factor(ratios, self._alpha), since=state.step)
        gaps_count = is_between(experiment, self._watched or ())
        if gaps_count and (wholes := ratios_with_gaps(base, lane)):
            return Trial(experiment, name, mean_factor(wholes, self._alpha))
        if gaps_count and experiment.name != KEPT_WORKERS:
            return Trial(experiment, None, None, NOTHING_BETWEEN)
        factor = Factor(compared.ratio, compared.low, compared.high)
        return Trial(experiment, name, without_it(factor) if experiment.name == A_LINE_TWICE else factor)

    @property
    def _alpha(self) -> float:
        """The error rate of the factors: what was seen before the question went on stays spent."""
        return ALPHA * self._job.error_share

    def _compare(self, base: LaneResult, lane: LaneResult) -> Comparison | None:
        """Compare a lane with the lane under study. Return None if either did not finish."""
        if base.status != "ok" or lane.status != "ok":
            return None
        return compare_lanes(lane, base, margin=0.05, alpha=self._alpha)


# Experiments of `why`: the lane that each experiment runs, or why the lane under study cannot have it.


@dataclass(frozen=True, slots=True)
class AskedLane:
    """The lane under study, and how a lane of the same training is planned."""

    lane: Lane
    planned: PlannedLane
    plan: Callable[[Lane], PlannedLane]


def plan_experiment(asked: AskedLane, experiment: Experiment) -> PlannedLane:
    """Return the lane of an experiment; raise UsageError if there can be none."""
    lane = parse_lane("/".join((asked.planned.device.name, "+".join(experiment.settings))))
    preset = lane.preset if lane.preset != AS_WRITTEN else asked.lane.preset
    overrides = tuple({**dict(asked.lane.overrides), **dict(lane.overrides)}.items())
    return asked.plan(replace(lane, framework=asked.lane.framework, preset=preset, overrides=overrides))


def check_experiments(asked: AskedLane, experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """Mark as absent the experiments that the lane refuses, or whose settings it already has.

    The code of a preset is that of the experiments whose settings it has.
    """
    checked = [_checked(asked, experiment) for experiment in experiments]
    possible = [experiment for experiment in checked if experiment.absent is None]
    changes = {}  # by the settings of an experiment, those in which its lane differs from the lane under study
    theirs = asdict(asked.planned.settings)
    for experiment in possible:
        mine = asdict(plan_experiment(asked, experiment).settings)
        changes[experiment.settings] = {
            (name, str(value)) for name, value in mine.items() if name != "preset" and value != theirs[name]
        }
    return tuple(
        replace(experiment, code=code, is_code=True)
        if experiment in possible
        and experiment.settings[0] in PRESETS
        and (code := _code_of(changes[experiment.settings], possible, changes))
        else experiment
        for experiment in checked
    )


def _code_of(
    wanted: set[tuple[str, str]],
    experiments: Iterable[Experiment],
    changes: dict[tuple[str, ...], set[tuple[str, str]]],
) -> str:
    """Return the code of all experiments that together make these changes; what only races a lane is no code."""
    parts = (
        experiment.code
        for experiment in experiments
        if experiment.is_code
        and experiment.settings[0] not in PRESETS
        and set() < changes[experiment.settings] <= wanted
    )
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _checked(asked: AskedLane, experiment: Experiment) -> Experiment:
    if experiment.absent is not None:
        return experiment
    try:
        planned = plan_experiment(asked, experiment)
    except UsageError as error:
        return replace(experiment, absent=Missing(error.says))
    if planned.settings == asked.planned.settings:
        return replace(experiment, absent=Missing(f"the lane has {'+'.join(experiment.settings)} already"))
    return experiment


PART = QuestionRun(prepare_why, WhySearch)
