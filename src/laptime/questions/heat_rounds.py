"""Rounds of heats: run them, and keep the heats, proofs and results of a job's lanes."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from laptime.analysis.heats import estimate_memory, find_largest_batch, judge_rounds, memory_of, summarise_heat
from laptime.analysis.lanes import scales, summarise_lane
from laptime.analysis.own_clock import by_own_clock
from laptime.analysis.replays import find_difference
from laptime.analysis.weights import with_weights
from laptime.engine.run.instruments import SensorSelection
from laptime.engine.run.replays import KeptTurns
from laptime.engine.run.runner import COMPILING_EXECUTIONS, UNTIMED, HeatRunner, Limits
from laptime.engine.run.turns import (
    CORES_A_CHILD,
    MOST_AT_ONCE,
    NO_STEPS,
    Player,
    Prestarter,
    TurnSteps,
    expect_turn_s,
    play_turns,
)
from laptime.machine.look import available_memory_bytes
from laptime.model.plan import HeatOrder, Pace, PlannedLane
from laptime.model.precisions import NARROW
from laptime.model.process import NO_TRAINING, ProcessRun
from laptime.model.protocol import Protocol
from laptime.model.quantities import Missing
from laptime.model.record import HeatResult, LaneResult, Progress
from laptime.model.sample import FirstLosses, Heat, Reference, Window
from laptime.model.symptoms import ProfileRun
from laptime.model.workload import Workload
from laptime.planner.groups import LINE_MAY_BE_OFF, SHAPES_MAY_BE_OFF, room_for, why_too_large, without_turns
from laptime.questions.bounds import Bounds, find_bounds, with_roofline
from laptime.questions.job import FAKE_FRAMEWORK, Job
from laptime.questions.profile.run import with_profile
from laptime.questions.proving import Proof, order_heat, run_together, say_why_alone
from laptime.questions.train.run import find_protocol
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import count_heat_memory, count_step_memory

NEW_SEEDS = 1 << 31  # all generators take such a seed
HEATS_VARY = 1.1  # a heat may take this multiple of its lane's last heat

UNSEEN_LEAST_S = 60.0  # a script may import and prepare for so long, however short the race
COUNTED_AGAIN = 1.25  # times the steps at which denormal numbers were counted: then they are counted again
FIRST_HEAT_PHASES = ("look ahead", "census", "take apart")  # phases of a lane's first heat alone
STARTING_PHASES = ("build", "first step", "first losses")  # of every heat, before its turns
PHASES = {"import": "imports", "held": "starts", "build": "builds", "proof": "is proven"}
MayRun = Callable[[PlannedLane, Sequence[PlannedLane]], bool]


class HeatRounds:
    """Runs heats of a job's lanes, round by round. A lane examines test items once if `examines` is true for it.

    `describe` returns how far the question is; what each lane does now is added here.

    `alone` holds, for each lane that did not take turns with the first one, the reason. Heats with the same round
    number were run together or after each other.
    """

    def __init__(self, job: Job, pace: Pace, examines: Callable[[PlannedLane], bool] = lambda _lane: True) -> None:
        self.job = job
        self.pace = pace
        self._examines = examines
        self.heats: dict[str, list[Heat]] = {lane.name: [] for lane in job.plan.lanes}
        self.proof = Proof(job.services.references, job.announce, job.own_code, job.launcher)
        self.describe: Callable[[], Progress] = self._describe
        self._doing: dict[str, str] = {}  # what each lane of the round does now
        self._since: tuple[str, str, float] = ("", "", 0.0)  # a lane, its phase, and when that began
        self.rounds = self.begun_rounds = 0  # in all, and before the record was gone on with
        self.begun_alone: tuple[str, ...] = ()  # as `why_alone`, of rounds before that
        self.took_s: dict[str, float] = {}
        self.alone: dict[str, str] = {}
        self.turn_steps: dict[frozenset[str], dict[str, TurnSteps]] = {}  # by the lanes that took turns
        self.step_ns: dict[str, float] = {}
        # Called with how long a turn of all heats will take, and how long they took to start, as later ones will.
        self.before_turns: Callable[[float, float], None] = lambda _turn_s, _start_s: None
        self.replays: Callable[[float], bool] | None = None  # whether a round that gains so much has a turn taken again
        self.has_new_seeds = False  # whether each round after the first has a seed that nobody knew before
        self.judges_by_own_clock = False
        self._seed: int | None = None
        self._numbers = itertools.count()
        self._protocol: Protocol | None = None
        self._sensors = SensorSelection(("none",), 1.0)
        self._bounds: dict[str, Bounds] = {}

    def make_ready(self, prestarter: Prestarter | None = None) -> None:
        """Prepare the items and the float64 reference before the first heat. A missing instrument is reported first.

        With a prestarter, processes begin to import for the first heats meanwhile, and the reference's is one of them.
        """
        job = self.job
        job.launcher.report_to(job.announce)
        if not job.launcher.is_elsewhere:  # else it would read this machine
            self._sensors = SensorSelection(job.plan.ask.sensors, job.plan.ask.sensors_hz)
        job.supply_data(job.announce)
        self._protocol = find_protocol(job.plan)
        if prestarter is not None:
            prestarter.start_ahead(job.plan.lanes)
        job.plan = self.proof.make_ready(job.plan, prestarter)
        self._bounds = find_bounds(job.plan, job.machine, job.services.peaks)

    def admit(self, lane: PlannedLane) -> None:
        """Add a lane to the coming rounds, if it is new."""
        job = self.job
        if lane.name not in self.heats:
            job.plan = replace(job.plan, lanes=(*job.plan.lanes, lane))
            self.heats[lane.name] = []
            self._bounds = find_bounds(job.plan, job.machine, job.services.peaks)

    def prestarter(self) -> Prestarter:
        cores_a_child = 1 if self.pace.takes_turns else CORES_A_CHILD
        return Prestarter(self.job.cores, self.job.plan.ask.patience_s, cores_a_child, self.job.launcher)

    def run_round(self, lanes: Sequence[PlannedLane], prestarter: Prestarter) -> float:
        """Run heats of these lanes, in turns where the pace has turns. Return the seconds that the round took.

        What was done once, for the rounds to come as well, is not in them: the start of templates.
        """
        began_s = time.monotonic()
        importing_s = prestarter.importing_s
        if self.pace.takes_turns and len(lanes) > 1:
            self._begin(lanes)
            run_together(lanes, _Crew(self, prestarter))
            self.rounds += 1
        else:
            self.run_apart(lanes, prestarter)
        return time.monotonic() - began_s - (prestarter.importing_s - importing_s)

    def run_apart(
        self,
        lanes: Sequence[PlannedLane],
        prestarter: Prestarter,
        *,
        breakdown: str | None = None,
        far_s: float = 0.0,
        may_run: MayRun = lambda _lane, _after: True,
    ) -> None:
        """Run one heat of each of these lanes after another, every other round in reverse order: A B, B A, A B.

        The heat of the lane `breakdown` is timed for `far_s` if that is longer than the others, to see what its steps
        become, and measures the parts of some steps after its windows. `may_run` is called with a
        lane and those after it; if it returns False, the lane is left out.
        """
        turned = list(lanes if self.rounds % 2 == 0 else reversed(lanes))
        prestarter.line_up(turned)
        self._begin(turned)
        number = self.next_number()
        for place, lane in enumerate(turned):
            if not may_run(lane, turned[place + 1 :]):
                prestarter.pass_over(lane)
                continue
            self.run_one(lane, prestarter, number, far_s=far_s if lane.name == breakdown else None)
        self.rounds += 1

    def share_again(self, lanes: Sequence[PlannedLane]) -> float:
        """Return the share of these lanes' last heats that their next ones do again, by what their processes took."""
        last = [(lane, heat.process) for lane in lanes for heat in self.heats[lane.name][-1:]]
        once: list[float] = []
        for lane, process in last:
            # What is compiled in a proof is compiled again, so the next heat saves no time of it.
            proves_once = lane.settings.execution not in COMPILING_EXECUTIONS and bool(self._proven_losses(lane))
            names = (*FIRST_HEAT_PHASES, "proof") if proves_once else FIRST_HEAT_PHASES
            once += [process.phases_s.get(name, 0.0) for name in names]
        once_s = sum(once)
        spent_s = sum(process.spent_s for _, process in last)
        return 1.0 - once_s / spent_s if spent_s else 1.0

    def hear_appeals(self) -> None:
        """Prove each lane that seems to do other work again, but only once: its proof is the same in every heat."""
        for lane in self.job.plan.lanes:
            proofs = [heat.proofs for heat in self.heats[lane.name] if heat.proofs]
            self.proof.hear_appeal(self.job.plan, lane, proofs)

    def results(self, profiles: dict[str, ProfileRun] | None = None) -> tuple[LaneResult, ...]:
        """Return the result of each lane so far."""
        judged = with_weights(judge_rounds(self.heats))
        factors = scales(judged)
        lanes = tuple(self._result(lane, judged[lane.name], factors[lane.name]) for lane in self.job.plan.lanes)
        if profiles is not None:
            lanes = tuple(with_profile(lane, profiles.get(lane.name)) for lane in lanes)
        return tuple(with_roofline(lane, self._bounds[lane.name]) if self._bounds else lane for lane in lanes)

    @property
    def processes(self) -> list[ProcessRun]:
        """The processes of all heats so far."""
        return [heat.process for heats in self.heats.values() for heat in heats]

    @property
    def why_alone(self) -> tuple[str, ...]:
        """Say why heats did not take turns."""
        return tuple(dict.fromkeys((*self.begun_alone, *say_why_alone(self.job.plan, self.alone))))

    @property
    def parameters(self) -> int | None:
        """Return the parameters of what the plan trains first, as a process found them."""
        plan = self.job.plan
        mine = (lane for lane in plan.lanes if plan.subject_of(lane) == plan.subject)
        known = (heat.process.parameters for lane in mine for heat in self.heats[lane.name])
        return next((count for count in known if count), None)

    def run_one(self, lane: PlannedLane, prestarter: Prestarter, number: int, *, far_s: float | None = None) -> None:
        """Run one heat without others; with `far_s`, for at least as long, and then take some steps apart."""
        began_s = time.monotonic()
        importing_s = prestarter.importing_s
        pace = without_turns(self.pace)
        pace = replace(pace, measure_s=max(pace.measure_s, far_s or 0.0))
        order = replace(self.order(lane, pace), breakdown=far_s is not None)
        self.say_start(lane, prestarter)
        runner = self.runner(lane, order, then=", then timed")
        heat = runner.run(prestarter.take(lane), number)
        self.job.own_code.look_at(lane, runner)
        self.keep(lane, heat)
        self.took_s[lane.name] = time.monotonic() - began_s - (prestarter.importing_s - importing_s)

    def keep(self, lane: PlannedLane, heat: Heat) -> None:
        """Keep a heat, and save the record with it."""
        self.heats[lane.name].append(heat)
        self.job.save()
        self.say([lane.name], "done")

    def order(self, lane: PlannedLane, pace: Pace) -> HeatOrder:
        """Return the order for the next heat of a lane."""
        plan = self.job.plan
        proven = self._proven_losses(lane)
        is_fresh = bool(proven) and self._seed is not None
        # The versions that a node must have: those with which the lane was planned, unless types are raced
        if not self.job.launcher.is_elsewhere or self.job.launcher.fleet is not None:
            versions_of = {}
        else:
            planned = self.job.machine.framework(lane.framework)
            versions_of = {} if planned is None else planned.versions
        # Whether the next heat counts an iteration of the script: the first that trains on this lane
        is_counted = any(heat.work is not None or heat.uncounted is not None for heat in self.heats[lane.name])
        wants_work = bool(self.job.plan.subject.command) and lane.settings.input not in NO_TRAINING and not is_counted
        # Denormal numbers are counted in the first heat of a lane, or where later ones went on further
        heats = [heat for heat in self.heats[lane.name] if heat.process.status == "ok"]
        counted = [heat.census.step for heat in heats if heat.census is not None]
        if not counted:
            wants_census = not heats and lane.settings.input not in NO_TRAINING
        else:
            reached = max(
                ((window.first_step or 0) + window.steps for heat in heats for window in heat.windows), default=0
            )
            wants_census = reached > COUNTED_AGAIN * max(counted)
        return replace(
            order_heat(plan, lane, pace, self.done, self._seed if is_fresh else None),
            test_items=self._test_items(lane),
            census=wants_census,
            versions=versions_of,
            first_losses=() if is_fresh else proven,
            is_fresh=is_fresh,
            replays=self.replays is not None,
            counts_work=wants_work,
            seen_within_s=max(plan.ask.budget_s, UNSEEN_LEAST_S) if plan.subject.command else None,
            profiles_exchange=plan.ask.scale is not None
            and lane.is_ranked
            and lane.settings.value_of("sync") != "none",
        )

    def _proven_losses(self, lane: PlannedLane) -> tuple[float, ...] | None:
        """Return the first losses of the lane's heat that was proven, which the next one has to repeat.

        They are empty before that; None where each heat is proven: if the training cannot be repeated, or if a heat did
        not repeat them, and where several processes train together.
        """
        reference = self.proof.reference_for(self.job.plan, lane)
        if lane.is_ranked or not isinstance(reference, Reference) or reference.problem:
            return None
        proven = [heat for heat in self.heats[lane.name] if heat.proofs]
        if len(proven) > 1:
            return None
        return proven[0].first_losses if proven and proven[0].process.status == "ok" else ()

    def runner(self, lane: PlannedLane, order: HeatOrder, then: str = "") -> HeatRunner:
        """Return what runs such an order; `then` says what follows when nothing is shown any more."""
        ask = self.job.plan.ask
        sampler = None if lane.framework == FAKE_FRAMEWORK else self._sensors.sampler_for(lane.name, lane.computes_on)
        limits = Limits(ask.patience_s, ask.watchdog_s)
        return HeatRunner(order, limits, self.job.cores, partial(self._show_phase, lane, then), sampler)

    def next_number(self) -> int:
        """Return the number that the heats of one round share."""
        return next(self._numbers)

    def start_numbers(self, first: int) -> None:
        self._numbers = itertools.count(first)

    @property
    def done(self) -> int:
        """How many heats have run."""
        return sum(map(len, self.heats.values()))

    def _test_items(self, lane: PlannedLane) -> int:
        """Return how many test items the next heat examines. Each lane does this in one heat only."""
        protocol = self._protocol
        if (
            protocol is None
            or lane.settings.input in NO_TRAINING
            or not self._examines(lane)
            or any(heat.examination is not None for heat in self.heats[lane.name])
        ):
            return 0
        return max(protocol.validation_items, protocol.evaluation_items)

    def result_of(self, lane: PlannedLane) -> LaneResult:
        """Return the result of a lane so far by its own heats alone, without its roofline."""
        return self._result(lane, tuple(map(summarise_heat, self.heats[lane.name])))

    def _result(self, lane: PlannedLane, heats: tuple[HeatResult, ...], scale: float = 1.0) -> LaneResult:
        plan = self.job.plan
        return summarise_lane(
            plan,
            lane,
            heats,
            self._first_losses() if plan.subject.command else self.proof.reference_for(plan, lane),
            self._protocol,
            appeal=self.proof.appeals.get(lane.name),
            cores=self.job.cores,
            scale=scale,
        )

    def _first_losses(self) -> FirstLosses:
        """Return the losses of a script on the first lane that has any."""
        lanes = self.job.plan.lanes
        taken = {
            lane.name: [run for heat in self.heats[lane.name] for run in heat.proofs if run.losses] for lane in lanes
        }
        first = next((lane for lane in lanes if taken[lane.name]), lanes[0])
        return FirstLosses(first.name, first.device.kind, tuple(taken[first.name]))

    # Progress. It is shown while a child builds or is proven, and between turns, while all heats are stopped: from its
    # first step on, nothing of laptime runs next to a child. A first step that compiles is shown, too.

    def _describe(self) -> Progress:
        return Progress(f"round {self.rounds + 1}", self.job.elapsed_s, max(self.job.left_s, 0.0), is_most=False)

    def _begin(self, lanes: Sequence[PlannedLane]) -> None:
        """Draw the round's seed, and show that it begins, in a line of its own where there is no terminal."""
        self._seed = secrets.randbelow(NEW_SEEDS) if self.has_new_seeds and self.rounds else None
        self._doing = dict.fromkeys((lane.name for lane in lanes), "waits")
        self.job.show(replace(self.describe(), lanes=dict(self._doing)))

    def say(self, lanes: Iterable[str], doing: str, windows: Sequence[Window] = ()) -> None:
        """Show what these lanes do now, and how many turns were quiet; `windows` are those of running heats."""
        self._doing |= dict.fromkeys(lanes, doing)
        kept = (window for heats in self.heats.values() for heat in heats for window in heat.windows)
        turns = [window.flag is None for window in itertools.chain(kept, windows) if window.turn is not None]
        quiet = (f"quiet: {sum(turns)} of {len(turns)} turns",) if turns else ()
        found = self.describe()
        self.job.show(replace(found, lanes=dict(self._doing), notes=(*quiet, *found.notes), is_news=False))

    def say_start(self, lane: PlannedLane, prestarter: Prestarter) -> None:
        self._since = (lane.name, "start", time.monotonic())
        self.say([lane.name], f"imports {lane.framework}" if prestarter.imports(lane) else "starts")

    def _show_phase(self, lane: PlannedLane, then: str, phase: str) -> None:
        """Show in which phase a child is, and for how long already, as long as nothing of it is timed."""
        compiles = phase == "first step" and lane.settings.execution in COMPILING_EXECUTIONS
        if phase not in UNTIMED and not compiles:
            return
        if self._since[:2] != (lane.name, phase):
            self._since = (lane.name, phase, time.monotonic())
        passed_s = time.monotonic() - self._since[2]
        words = "compiles" if compiles else PHASES[phase]
        self.say([lane.name], f"{words}{f' for {passed_s:.0f} s' if passed_s >= 1 else ''}{then}")


@dataclass(frozen=True, slots=True)
class _Crew:
    """Runs the heats of one round in turns."""

    rounds: HeatRounds
    prestarter: Prestarter

    def line_up(self, lanes: Sequence[PlannedLane]) -> None:
        self.prestarter.line_up(lanes)

    def make(self, lane: PlannedLane, place: int) -> Player[HeatRunner]:
        rounds = self.rounds
        pace = replace(rounds.pace, known_step_ns=rounds.step_ns.get(lane.name))
        order = replace(rounds.order(lane, pace), number=rounds.done + place)
        return Player(rounds.runner(lane, order), lane.device)

    def begin(self, lane: PlannedLane, player: Player[HeatRunner]) -> None:
        self.rounds.say_start(lane, self.prestarter)
        player.begin(self.prestarter.take(lane))

    def join(self, lane: PlannedLane, player: Player[HeatRunner]) -> None:
        player.join()
        self.rounds.job.own_code.look_at(lane, player.runner)
        self.rounds.say([lane.name], "ready")

    def pass_over(self, lane: PlannedLane, why: str) -> None:
        self.rounds.alone[lane.name] = why
        self.prestarter.pass_over(lane)

    def play(self, players: Sequence[Player[HeatRunner]]) -> None:
        rounds = self.rounds
        together = frozenset(player.runner.lane for player in players)
        turned = players[::-1] if rounds.rounds % 2 else players
        begun = [steps.after for step in rounds.turn_steps.values() for steps in step.values()]
        kept = rounds.turn_steps.get(together, NO_STEPS)
        started = [player.runner.process_run(None).phases_s for player in players]
        rounds.before_turns(
            sum(expect_turn_s(player.runner, rounds.pace) for player in players),
            sum(phases.get(name, 0.0) for phases in started for name in STARTING_PHASES),
        )
        rounds.say(together, "turn 1")
        turns = None if rounds.replays is None else KeptTurns(players)
        steps = play_turns(
            turned, rounds.pace, kept, max(begun, default=0), told=partial(self._say_turn, players),
            after_turn=turns.after if turns is not None else lambda _turn: None,
        )  # fmt: skip
        rounds.turn_steps[together] = steps
        base, *others = (player.runner for player in players)
        if rounds.judges_by_own_clock:
            for runner in others:
                runner.retime(by_own_clock(runner.windows, base.windows))
        if turns is not None and rounds.replays is not None and rounds.replays(turns.gain):
            rounds.say(together, "is replayed")
            turns.replay(lambda replay: find_difference(replay) is not None)

    def _say_turn(self, players: Sequence[Player[HeatRunner]], turn: int, of: int) -> None:
        playing = [player.runner for player in players if not player.is_over]
        windows = [window for runner in playing for window in runner.windows]
        self.rounds.say([runner.lane for runner in playing], f"turn {turn} of {of}", windows)

    def keep(self, lane: PlannedLane, player: Player[HeatRunner], number: int) -> None:
        known_ns = player.runner.usual_step_ns
        if known_ns is not None:
            self.rounds.step_ns.setdefault(lane.name, known_ns)
        self.rounds.keep(lane, player.runner.heat(player.leave(), number))
        self.rounds.job.own_code.look_at(lane, player.runner)
        self.rounds.took_s[lane.name] = player.active_s

    def run_alone(self, lane: PlannedLane, number: int) -> None:
        self.rounds.run_one(lane, self.prestarter, number)

    def known(self, lane: PlannedLane) -> ProcessRun | None:
        return next((heat.process for heat in self.rounds.heats[lane.name] if heat.process.status == "ok"), None)

    @property
    def builds_at_once(self) -> int:
        """A script builds by importing, most of the time, which takes one core and nothing that is measured."""
        job = self.rounds.job
        at_once = min(job.cores, MOST_AT_ONCE) if job.plan.subject.command and not job.launcher.is_elsewhere else 1
        return max(1, at_once)

    def next_number(self) -> int:
        return self.rounds.next_number()


# Does a lane fit into memory, and into the time, at another batch? Estimated before it runs, from its heats at others,
# and for memory from its shapes.

HEAT_STEPS_LEAST = 14  # of a heat, however slow: ten of the proof, the first one, and three windows
MEMORY_NOT_COUNTED = Missing(
    "only built-in trainings in PyTorch hold what their shapes say, in float32 and not compiled"
)


class Fitting:
    """Estimates the memory and the time of lanes at batches that have not run, and says which surely do not fit."""

    def __init__(self, rounds: HeatRounds) -> None:
        self._rounds = rounds

    def estimate(self, lane: PlannedLane) -> int | Missing:
        """Return what a heat of a lane would hold, from heats of the same lane at other batches."""
        batch = self._batch_of(lane)
        return batch if isinstance(batch, Missing) else self._estimator(lane)(batch)

    def why_too_large(self, lane: PlannedLane) -> str | None:
        """Return why a lane surely does not fit into memory, or None. Before it has run, its shapes alone count."""
        needed = self.estimate(lane)
        if isinstance(needed, Missing):
            needed = self._least(lane)
        if isinstance(needed, Missing):
            return None
        may_be_off = LINE_MAY_BE_OFF if isinstance(self._counted(lane), Missing) else SHAPES_MAY_BE_OFF
        return why_too_large(lane.device, needed, may_be_off, available_memory_bytes())

    def largest_batch(self, lane: PlannedLane) -> int | None:
        """Return the largest batch of a lane that fits by its estimate, or None if that is not known."""
        room = room_for(lane.device, available_memory_bytes())
        return None if isinstance(room, Missing) else find_largest_batch(room, self._estimator(lane))

    def heat_s(self, lane: PlannedLane) -> float | Missing:
        """Return how long a heat of a lane would take, by steps on the line through the two largest that have run."""
        batch = self._batch_of(lane)
        if isinstance(batch, Missing):
            return batch
        steps = {
            lane_result.items_per_step: lane_result.step_ms.median
            for lane_result in self._finished(lane)
            if lane_result.step_ms
        }
        known = sorted(step for step in steps if step)
        if len(known) < 2:
            return Missing("fewer than two batches of this lane have run")
        small, large = known[-2:]
        item_ms = max(0.0, (steps[large] - steps[small]) / (large - small))
        return HEAT_STEPS_LEAST * (steps[large] + item_ms * (batch - large)) / 1e3

    def _estimator(self, lane: PlannedLane) -> Callable[[int], int | Missing]:
        known = ((lane_result.items_per_step, memory_of(lane_result)) for lane_result in self._finished(lane))
        peaks = {batch: held for batch, held in known if batch is not None and not isinstance(held, Missing)}
        workload = self._counted(lane)
        if isinstance(workload, Missing):
            return lambda batch: estimate_memory(batch, peaks, workload)
        kind = lane.device.kind
        return lambda batch: estimate_memory(
            batch, peaks, lambda items: count_heat_memory(workload, replace(lane.settings, batch=items), kind)
        )

    def _least(self, lane: PlannedLane) -> int | Missing:
        """Return what a step holds by its shapes, without what the framework takes."""
        workload = self._counted(lane)
        batch = self._batch_of(lane)
        if isinstance(workload, Missing) or isinstance(batch, Missing):
            return MEMORY_NOT_COUNTED
        return count_step_memory(workload, batch, lane.device.kind)

    def _counted(self, lane: PlannedLane) -> Workload | Missing:
        """Return the workload of a lane whose steps hold what its shapes say."""
        subject = self._rounds.job.plan.subject_of(lane)
        settings = lane.settings
        is_plain = settings.execution == "eager" and settings.precision not in NARROW
        trains = lane.row.holds_its_shapes and settings.input not in NO_TRAINING
        if not (subject.is_built_in and trains and is_plain):
            return MEMORY_NOT_COUNTED
        return find_workload(subject.name)

    def _batch_of(self, lane: PlannedLane) -> int | Missing:
        """Return the items of a step. Where batches are joined, those of the lane as it is written are known."""
        own = lane.settings.batch or self._rounds.job.plan.subject_of(lane).batch
        if own is None:
            settings = ((lane_result.settings, lane_result.items_per_step) for lane_result in self._finished(lane))
            own = next((items for setting, items in settings if setting.joined is None and setting.batch is None), None)
        return Missing("its batch is not known yet") if own is None else own * (lane.settings.joined or 1)

    def _finished(self, lane: PlannedLane) -> list[LaneResult]:
        """Return the results of this lane at all batches that have finished a heat."""
        rounds = self._rounds
        wanted = _all_but_batch(lane)
        alike = (
            planned_lane
            for planned_lane in rounds.job.plan.lanes
            if rounds.heats[planned_lane.name] and _all_but_batch(planned_lane) == wanted
        )
        return [result for result in map(rounds.result_of, alike) if result.status == "ok"]


def _all_but_batch(lane: PlannedLane) -> tuple[object, ...]:
    """Return what else decides how much a lane holds."""
    settings = replace(lane.settings, batch=None, joined=None, learning_rate=None)
    return lane.framework, lane.device.name, lane.training, settings
