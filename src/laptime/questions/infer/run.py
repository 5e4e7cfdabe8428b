"""How long does one answer take on each lane, how many are there per second, and how long does the first one take?"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from laptime.analysis.diagnosis.findings import judge_answers
from laptime.analysis.heats import most_memory
from laptime.analysis.usage import answer_usages
from laptime.engine.run.answers import InferenceRunner
from laptime.engine.run.child import Child
from laptime.engine.run.instruments import SensorSelection
from laptime.engine.run.runner import Limits, Started
from laptime.engine.run.scout import Failure, ask_answers
from laptime.engine.run.turns import Player, play_parts
from laptime.model.ask import Ask
from laptime.model.machine import Device, Machine
from laptime.model.plan import PlannedLane
from laptime.model.process import ProcessRun, Settings
from laptime.model.protocol import AnswerReference, InferHeat, InferOrder, InferPace, InferPlan
from laptime.model.record import InferAnswer, InferFactor, InferLane, LaneResult, Progress
from laptime.planner.groups import choose_infer_pace
from laptime.planner.plan import check_question
from laptime.planner.settings import KEEP_MEMORY
from laptime.questions.asking import Prepared, prepare
from laptime.questions.infer.reduce import describe_answers, find_infer_factors, summarise_infer_lane
from laptime.questions.job import FAKE_FRAMEWORK, Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.proving import order_heat, run_together, say_why_alone


@dataclass(frozen=True, slots=True)
class PreparedInference(Prepared):
    """A plan of inference, with how long each part of a heat is measured."""

    pace: InferPace

    @property
    def outline(self) -> InferPlan:
        return InferPlan(self.plan, self.pace)


def prepare_infer(ask: Ask, machine: Machine) -> PreparedInference:
    """Check everything that needs no process, then scout and plan."""
    prepared = prepare(ask, machine)
    check_question(prepared.plan, "infer")
    lanes = len(prepared.plan.lanes)
    pace = choose_infer_pace(ask, lanes, takes_turns=prepared.plan.alone is None and lanes > 1)
    return PreparedInference(prepared.plan, prepared.machine, prepared.published, pace)


class InferenceRace:
    """A race of inference: its heats so far, and the lanes that are still in it."""

    def __init__(self, job: Job, prepared: PreparedInference) -> None:
        self._job = job
        self._pace = prepared.pace
        self._heats: dict[str, list[InferHeat]] = {lane.name: [] for lane in job.plan.lanes}
        self._running: list[PlannedLane] = list(job.plan.lanes)
        self._sensors = SensorSelection(job.plan.ask.sensors, job.plan.ask.sensors_hz)
        self._reference: AnswerReference | str | None = None
        self._rounds = 0
        self._numbers = itertools.count()
        self._alone: dict[str, str] = {}
        self._doing: dict[str, str] = {}  # what each lane of the round does now

    def run(self) -> None:
        """Run interleaved rounds of heats, as many as fit into the budget."""
        job = self._job
        if job.plan.ask.items is not None:
            job.supply_data(job.announce)
        sign = partial(job.announce, "computing the float64 answers of the proof, once")
        sign()
        processor = Device("cpu", "cpu", "the processor", usable=True)
        framework = job.plan.lanes[0].framework
        lane = PlannedLane("reference", framework, processor, Settings(input="cached"), KEEP_MEMORY)
        order = order_heat(job.plan, lane, job.plan.pace, -1)
        made = ask_answers(order, job.plan.ask.patience_s, sign)
        if isinstance(made, Failure):
            job.own_code.note_failure(lane, made)
            self._reference = made.reason
        else:
            job.own_code.note_success(lane)
            self._reference = made
        while True:
            began_s = time.monotonic()
            self._run_round()
            # No further round is wanted, or none would fit. No ratio is used.
            round_s = time.monotonic() - began_s
            if self._rounds >= self._pace.heats or not self._running or round_s > job.left_s:
                break

    def reduce(self, status: RecordStatus) -> Outcome:
        """Describe how each lane answers, and compare it with the first lane that answers."""
        answers = tuple(self._describe(lane) for lane in self._job.plan.lanes)
        lanes = tuple(self._summarise(*pair) for pair in zip(self._job.plan.lanes, answers, strict=True))
        reference = self._reference if isinstance(self._reference, AnswerReference) else None
        known = (heat.process.parameters for heats in self._heats.values() for heat in heats)
        return Outcome(
            lanes,
            InferAnswer(
                self._pace, answers, self._factors(lanes), reference, say_why_alone(self._job.plan, self._alone)
            ),
            tuple(filter(None, map(judge_answers, answers)))[:1] if status != "running" else (),
            parameters=next((count for count in known if count), None),
        )

    def _run_round(self) -> None:
        """Run one heat of each lane, in turns or one after another, every other round in reverse order: A B, B A."""
        self._doing = dict.fromkeys((lane.name for lane in self._running), "waits")
        self._job.show(self._describe_progress(is_news=True))
        if self._pace.takes_turns and len(self._running) > 1:
            run_together(self._running, self)
        else:
            number = self.next_number()
            for lane in self._running if self._rounds % 2 == 0 else self._running[::-1]:
                self.run_alone(lane, number)
        self._running = [lane for lane in self._running if self._heats[lane.name][-1].process.status == "ok"]
        self._rounds += 1

    def line_up(self, lanes: Sequence[PlannedLane]) -> None:
        """Do nothing: no child is started in advance, because its start-up counts as well."""

    def make(self, lane: PlannedLane, place: int) -> Player[InferenceRunner]:
        return Player(self._runner(lane, self._pace, place), lane.device)

    def begin(self, lane: PlannedLane, player: Player[InferenceRunner]) -> None:
        self._say([lane.name], f"imports {lane.framework}")
        player.begin(Started(Child(lane.environment)))

    def join(self, lane: PlannedLane, player: Player[InferenceRunner]) -> None:
        player.join()
        self._job.own_code.look_at(lane, player.runner)
        self._say([lane.name], "ready")

    def pass_over(self, lane: PlannedLane, why: str) -> None:
        self._alone[lane.name] = why

    def play(self, players: Sequence[Player[InferenceRunner]]) -> None:
        lanes = [player.runner.lane for player in players]
        self._say(lanes, "single calls, turn 1")
        play_parts(players[::-1] if self._rounds % 2 else players, partial(self._say_turn, players))

    def keep(self, lane: PlannedLane, player: Player[InferenceRunner], number: int) -> None:
        self._keep(lane, player.runner.heat(player.leave(), number))

    def run_alone(self, lane: PlannedLane, number: int) -> None:
        runner = self._runner(lane, replace(self._pace, takes_turns=False), then=", then timed")
        heat = runner.run(number)
        self._job.own_code.look_at(lane, runner)
        self._keep(lane, heat)

    def known(self, lane: PlannedLane) -> ProcessRun | None:
        return next((heat.process for heat in self._heats[lane.name] if heat.process.status == "ok"), None)

    @property
    def builds_at_once(self) -> int:
        return 1

    def next_number(self) -> int:
        return next(self._numbers)

    def _runner(self, lane: PlannedLane, pace: InferPace, place: int = 0, then: str = "") -> InferenceRunner:
        job = self._job
        ask = self._job.plan.ask
        sampler = None if lane.framework == FAKE_FRAMEWORK else self._sensors.sampler_for(lane.name, lane.computes_on)
        number = sum(map(len, self._heats.values())) + place
        order = InferOrder(order_heat(job.plan, lane, job.plan.pace, number), pace)
        limits = Limits(ask.patience_s, ask.watchdog_s)
        return InferenceRunner(order, limits, job.cores, partial(self._show, lane, then), sampler)

    def _keep(self, lane: PlannedLane, heat: InferHeat) -> None:
        self._heats[lane.name].append(heat)
        self._job.save()
        self._say([lane.name], "done")

    # Progress, shown when a process starts, builds or ends, and between turns, while all heats are stopped.

    def _say(self, lanes: Sequence[str], doing: str) -> None:
        self._doing |= dict.fromkeys(lanes, doing)
        self._job.show(self._describe_progress(is_news=False))

    def _say_turn(self, players: Sequence[Player[InferenceRunner]], part: int, turn: int) -> None:
        lanes = [player.runner.lane for player in players if not player.is_over]
        self._say(lanes, f"batches of {part}" if part else f"single calls, turn {turn}")

    def _describe_progress(self, *, is_news: bool) -> Progress:
        words = f"round {self._rounds + 1} of at most {self._pace.heats}"
        left_s = max(self._job.left_s, 0.0)
        return Progress(words, self._job.elapsed_s, left_s, is_most=False, lanes=dict(self._doing), is_news=is_news)

    def _show(self, lane: PlannedLane, then: str, phase: str) -> None:
        if phase == "build":
            self._say([lane.name], f"builds{then}")

    def _describe(self, lane: PlannedLane) -> InferLane:
        answers = describe_answers(lane.name, self._heats[lane.name])
        return replace(answers, usages=answer_usages(answers, lane.device, self._job.cores))

    def _summarise(self, lane: PlannedLane, answers: InferLane) -> LaneResult:
        """Return a lane's result as all records have it. Its step and its usage are those of a single call."""
        found = summarise_infer_lane(lane, self._heats[lane.name], self._reference)
        peak = found.peak_memory_bytes
        for answer_usage in answers.usages:
            peak = most_memory(peak, answer_usage.usage.memory_most_bytes)
        usage = next((measured.usage for measured in answers.usages if measured.batch is None), None)
        return replace(found, usage=usage, peak_memory_bytes=peak)

    def _factors(self, lanes: tuple[LaneResult, ...]) -> tuple[InferFactor, ...]:
        """Compare each lane that answers with the first of them."""
        answering = [lane for lane in lanes if lane.step_ms is not None]
        if not answering:
            return ()
        first = answering[0]
        heats = self._heats
        return tuple(
            factor
            for lane in answering[1:]
            for factor in find_infer_factors(lane, first, heats[lane.name], heats[first.name])
        )


PART = QuestionRun(prepare_infer, InferenceRace)
