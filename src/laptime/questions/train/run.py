"""How long does the whole published training take on each lane, and do all lanes learn the same? One at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.analysis.diagnosis.findings import find_slow_trainings, judge_trainings
from laptime.analysis.heats import most_memory
from laptime.analysis.usage import training_usage
from laptime.engine.run.answers import TrainingRunner
from laptime.engine.run.instruments import SensorSelection
from laptime.engine.run.runner import Limits
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.model.process import Dnf, ProcessStatus
from laptime.model.protocol import Consent, FullOrder, FullPlan, FullRun, Moment, Protocol
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Record, TrainingAnswer, digest_source, find_differing
from laptime.model.workload import Workload
from laptime.planner.plan import check_question, check_ranges
from laptime.planner.settings import learn_alike
from laptime.questions.asking import Prepared, prepare
from laptime.questions.job import FAKE_FRAMEWORK, Job, Outcome, QuestionRun, RecordStatus
from laptime.questions.proving import Proof, order_heat
from laptime.questions.sources import is_copied
from laptime.questions.subject import find_subject
from laptime.questions.train.options import FullAsk
from laptime.questions.train.reduce import compare_learning, find_factor, find_reached, summarise_full_lane
from laptime.trainings.workloads import find_workload


class WholeTrainings:
    """Trains every lane from every seed, or what an earlier process left of that."""

    def __init__(self, job: Job, prepared: PreparedTraining) -> None:
        self._job = job
        self._protocol = prepared.protocol
        self._before = prepared.before
        limits = Limits(job.plan.ask.patience_s, job.plan.ask.watchdog_s)
        self._trainings = TrainingRuns(job, limits, prepared.before)
        self._proof = Proof(job.services.references, self._announce, job.own_code)
        if prepared.before is not None:
            record = prepared.before.record
            self._job.before_s = record.elapsed_s
            # Without digests, the reference of a user's own training may be of other sources than the current ones.
            if record.workload.file is None or any(run.sources for run in prepared.before.runs):
                self._proof.references = {record.workload.name: record.reference}
                self._proof.appeals = {lane.name: lane.appeal for lane in record.lanes if lane.appeal is not None}
            for lost in find_lost(prepared.before, self._orders()):
                self._trainings.again[training_key(lost.order)] = lost.note
                if lost.is_damaged:
                    self._job.services.checkpoints.drop(Path(lost.order.checkpoint))

    def run(self) -> None:
        """Train, and save the record after each lap."""
        job = self._job
        job.save()
        job.supply_data(self._announce)
        # Refuse to continue a training with other data than it began with
        began_with = self._before.record.data if self._before is not None else None
        if began_with is not None and (job.plan.data is None or job.plan.data.digest != began_with.digest):
            raise UsageError(
                f"the data in {began_with.folder} is not what this training began with",
                f"it had {began_with.train_items:,} items to train and {began_with.test_items:,} to test; begin again",
            )
        job.plan = self._proof.make_ready(job.plan)
        for order in self._orders():
            self._trainings.train(order)
            proofs = self._trainings.runs[training_key(order)].proofs
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
            TrainingAnswer(self._protocol, order, runs, tuple(factor for factor in factors if factor is not None)),
            (
                *(judge_trainings(runs, self._job.cores) if status != "running" else ()),
                *find_slow_trainings(lanes, runs),
                *(finding for finding in findings if finding is not None),
            ),
            self._proof.kept_reference(self._job.plan.subject),
            next((run.process.parameters for run in runs if run.process.parameters), None),
        )

    def _orders(self) -> list[FullOrder]:
        """Return what is left to train, in order. Every lane is proven once, from the first seed."""
        plan = self._job.plan
        orders = []
        number = 0
        first_seed = plan.ask.seed
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
        appeal = self._proof.appeals.get(lane.name)
        subject = self._job.plan.subject
        reference = self._proof.references.get(subject.name)
        return summarise_full_lane(lane, runs, reference, subject.batch, appeal)

    def _add_usage(self, lane: LaneResult, runs: Sequence[FullRun]) -> LaneResult:
        mine = [run for run in runs if run.process.lane == lane.name]
        usage = training_usage(mine, lane.device, self._job.cores, lane)
        if usage is None:
            return lane
        peak = most_memory(lane.peak_memory_bytes, usage.memory_most_bytes)
        return replace(lane, usage=usage, energy_j_per_lap=usage.energy.j_per_lap, peak_memory_bytes=peak)


# Whole trainings, one lane from one seed at a time: each in a fresh process, and kept however it ends.

FULL_HZ = 1.0  # a reading per second is enough for a training of hours, and keeps its record small
TRAINING_READINGS_MOST = 14_400  # per instrument and process: four hours at 1 Hz; longer trainings are read less often
RunKey = tuple[str, int]


class TrainingRuns:
    """The whole trainings of a job, by lane and seed. `before` is the record that they continue.

    `again` has a note for each training whose finished laps are trained again.
    """

    def __init__(self, job: Job, limits: Limits, before: Before | None = None) -> None:
        self._job = job
        self._limits = limits
        self._before = before
        hz = job.plan.ask.sensors_hz
        self._sensors = SensorSelection(job.plan.ask.sensors, FULL_HZ if hz is None else hz, TRAINING_READINGS_MOST)
        self.runs: dict[RunKey, FullRun] = {}
        self.again: dict[RunKey, str] = {}
        if before is not None:
            self.runs = {(run.process.lane, run.seed): run for run in before.runs}

    def train(self, order: FullOrder) -> None:
        """Train one lane from one seed, and save the record after each lap. A training that fails is kept, too."""
        key = training_key(order)
        job = self._job
        lane = order.heat.lane
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
            sampler=None
            if lane.framework == FAKE_FRAMEWORK
            else self._sensors.sampler_for(lane.name, lane.computes_on),
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
    steps = protocol.steps_per_lap
    batch = lane.settings.batch
    meant = job.plan.subject.batch
    # With another batch than the workload's, a lap has as many items as before.
    if steps is not None and batch is not None and meant is not None:
        steps = max(1, round(steps * meant / batch))
    place = job.services.checkpoints.place(lane.name, seed)
    heat = order_heat(job.plan, lane, job.plan.pace, number, seed)
    return FullOrder(heat, replace(protocol, steps_per_lap=steps), str(place), prove)


def training_key(order: FullOrder) -> RunKey:
    return order.heat.lane.name, order.heat.seed


# Make the protocol of whole trainings, which every lane follows, from the ask and the published one.


ORDER_OF_ONE_SEED = "one lane after another, as they were named: each has the machine to itself"
ORDER_OF_SEEDS = (
    "one training after another, seed by seed, every other seed in reverse order: each has the machine to itself, "
    "and what drifts meets the lanes alike"
)


@dataclass(frozen=True, slots=True)
class PreparedTraining(Prepared):
    """Whole trainings by a protocol. `before` is the record that they continue."""

    protocol: Protocol
    before: Before | None = None

    @property
    def outline(self) -> FullPlan:
        return FullPlan(self.plan, self.protocol, order_words(self.protocol.seeds))

    @property
    def keeps_checkpoints(self) -> bool:
        return True


def order_words(seeds: int) -> str:
    """Return a sentence on the order of the trainings, and why."""
    return ORDER_OF_ONE_SEED if seeds == 1 else ORDER_OF_SEEDS


def prepare_full(ask: Ask, machine: Machine) -> PreparedTraining:
    """Check everything that needs no process, then scout and plan."""
    protocol = make_protocol(ask.full or FullAsk(), find_subject(ask.what)[1])
    prepared = prepare(ask, machine)
    check_question(prepared.plan, "train")
    return PreparedTraining(prepared.plan, prepared.machine, prepared.published, protocol)


def prepare_rest(before: Before, machine: Machine) -> PreparedTraining:
    """Plan the rest of an unfinished record, exactly as it was begun."""
    record = before.record
    check_unfinished(record)
    if is_copied(record.ask.what):  # the copy that it was begun from is gone
        file = find_subject(record.ask.what)[0].file
        record = replace(record, workload=replace(record.workload, file=file))
        before = replace(before, record=record)
    check_sources(before)
    subject = record.workload
    what = f"{subject.file}:{subject.function}" if subject.file else record.ask.what
    prepared = prepare(replace(record.ask, what=what), machine)
    check_alike(prepared.plan, record)
    plan = replace(prepared.plan, ask=record.ask)
    return PreparedTraining(plan, prepared.machine, prepared.published, before.answer.protocol, before)


def make_protocol(asked: FullAsk, workload: Workload | None) -> Protocol:
    """Return the published protocol with the changes asked for. A user's own training has no published one."""
    check_ranges(asked)
    if workload is None:
        if asked.laps is None:
            raise UsageError(
                "laptime train: a training of your own does not say how many laps it takes",
                "add --laps N, such as --laps 5",
            )
        return Protocol(asked.laps, asked.steps_per_lap, seeds=asked.seeds, until_accuracy=asked.until_accuracy)
    return Protocol(
        laps=asked.laps or workload.laps,
        steps_per_lap=asked.steps_per_lap or workload.steps_per_lap,
        validation_items=workload.validation_items,
        evaluation_items=workload.evaluation_items,
        predictions=workload.predictions_shown,
        seeds=asked.seeds,
        until_accuracy=asked.until_accuracy,
    )


def find_protocol(plan: Plan) -> Protocol | None:
    """Return the protocol that a race predicts: the published one, with no more test items than the data has."""
    if not plan.subject.is_built_in:
        return None
    workload = find_workload(plan.subject.name)
    on_disk = [data_source.test_items for data_source in (plan.data, *plan.sets.values()) if data_source is not None]
    there = min(on_disk, default=workload.test_items_made)
    meant = make_protocol(FullAsk(), workload)
    return replace(
        meant,
        validation_items=min(meant.validation_items, there),
        evaluation_items=min(meant.evaluation_items, there),
    )


def check_unfinished(record: Record) -> None:
    """Refuse to resume a record that is not a whole training, or is finished."""
    answer = record.answer
    if not isinstance(answer, TrainingAnswer):
        raise UsageError(f"{record.id} is a {record.question}, not a whole training: nothing to resume", "race again")
    wanted = answer.protocol.seeds * len(record.lanes)
    if record.status == "finished" and sum(run.process.status == "ok" for run in answer.runs) == wanted:
        raise UsageError(f"{record.id} is finished: nothing is left to train", f"laptime show {record.id}")


def check_alike(plan: Plan, record: Record) -> None:
    """Refuse to resume if this machine would run a lane differently than it was begun."""
    begun = {lane.name: (lane.device.label, lane.settings) for lane in record.lanes}
    found = {lane.name: (lane.device.label, lane.settings) for lane in plan.lanes}
    for name in begun.keys() | found.keys():
        if begun.get(name) != found.get(name):
            was = _words(begun.get(name))
            would = _words(found.get(name))
            raise UsageError(
                f"{record.id} cannot go on here: {name} was begun as {was}, and would run here as {would}",
                "resume it where it was begun, or race again",
            )


def _words(lane: tuple[str, object] | None) -> str:
    return "nothing" if lane is None else f"{lane[0]}, {lane[1]}"


# What an earlier process left of whole trainings, and whether they may be resumed: same sources, no lap lost.

FILES_NAMED = 6  # the most files that a message names


@dataclass(frozen=True, slots=True)
class Before:
    """A record of unfinished whole trainings, what the user allows, and a way to count a checkpoint's laps.

    `count_laps` returns a Missing with the reason if a checkpoint cannot be used.
    """

    record: Record
    consent: Consent
    count_laps: Callable[[Path], int | Missing]

    @property
    def answer(self) -> TrainingAnswer:
        assert isinstance(self.record.answer, TrainingAnswer)
        return self.record.answer

    @property
    def runs(self) -> tuple[FullRun, ...]:
        return self.answer.runs


@dataclass(frozen=True, slots=True)
class Lost:
    """Finished laps of one training that its checkpoint does not hold. A damaged checkpoint holds none."""

    order: FullOrder
    laps: int
    finished: int
    why: str
    is_damaged: bool

    @property
    def words(self) -> str:
        heat = self.order.heat
        return f"the checkpoint of {heat.lane.name}, seed {heat.seed}, {self.why}: {self._what} would be trained again"

    @property
    def note(self) -> str:
        return f"{self._what} were trained again: the checkpoint {self.why}"

    @property
    def _what(self) -> str:
        return f"{self.laps} of {self.finished} finished laps"


def find_changed(before: Before, run: FullRun | None) -> tuple[str, ...]:
    """Return the files that one training imported and that have changed since, or are gone."""
    file = before.record.workload.file
    if file is None or run is None:
        return ()
    now = {name: digest_source(data) for name in run.sources if (data := _read(Path(file).parent / name)) is not None}
    return tuple(sorted({*find_differing(run.sources, now), *(run.sources.keys() - now.keys())}))


def check_sources(before: Before) -> None:
    """Refuse to resume if sources have changed, unless the user allows it."""
    changed = sorted({name for run in before.runs for name in find_changed(before, run)})
    if changed and not before.consent.changed:
        raise _refuse_sources(before.record, changed)


def check_built(before: Before | None, run: FullRun | None, sources: dict[str, str]) -> None:
    """Refuse sources that were imported just now, if a file changed after `check_sources` read it."""
    if before is None or run is None or before.consent.changed:
        return
    if changed := find_differing(run.sources, sources):
        raise _refuse_sources(before.record, list(changed))


def find_lost(before: Before, orders: Iterable[FullOrder]) -> tuple[Lost, ...]:
    """Return the finished laps that would be trained again. Raise UsageError unless the user allows that."""
    runs = {(run.process.lane, run.seed): run for run in before.runs}
    lost = []
    for order in orders:
        run = runs.get((order.heat.lane.name, order.heat.seed))
        finished = len(run.laps) if run else 0
        kept = before.count_laps(Path(order.checkpoint))
        why = f"holds {kept} laps" if isinstance(kept, int) else kept.missing
        held = kept if isinstance(kept, int) else 0
        if held < finished:
            lost.append(Lost(order, finished - held, finished, why, is_damaged=isinstance(kept, Missing)))
    if lost and not before.consent.again:
        raise UsageError(
            f"{before.record.id} cannot go on as it was: {'; '.join(training.words for training in lost)}",
            f"put the checkpoint back, or train them again: laptime resume {before.record.id} --again",
        )
    return tuple(lost)


def _refuse_sources(record: Record, changed: list[str]) -> UsageError:
    folder = Path(record.workload.file or "").parent
    gone = [name for name in changed if not (folder / name).exists()]
    there = [name for name in changed if name not in gone]
    parts = [f"{_few(there)} {'has' if len(there) == 1 else 'have'} changed"] * bool(there)
    parts += [f"{_few(gone)} {'is' if len(gone) == 1 else 'are'} gone"] * bool(gone)
    return UsageError(
        f"{record.id} was begun with other sources: {', '.join(parts)}",
        f"restore them, race again, or go on with them as they are: laptime resume {record.id} --changed",
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:FILES_NAMED]) + (
        f" and {len(names) - FILES_NAMED} more" if len(names) > FILES_NAMED else ""
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (OSError, ValueError):
        return None


PART = QuestionRun(prepare_full, WholeTrainings)
