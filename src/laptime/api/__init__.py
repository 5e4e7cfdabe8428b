"""The whole pipeline: ask -> plan -> heats -> record. This is the only module that connects the rooms."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from laptime.machine.look import look_around, look_at_machine
from laptime.model.ask import Ask, MadeSet
from laptime.model.errors import StoreError
from laptime.model.frameworks import installed_version
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import Consent, FullPlan, InferPlan, Moment
from laptime.model.questions import Question, find_question
from laptime.model.record import Progress, Record
from laptime.planner.settings import PRESETS, SETTINGS, TUNED
from laptime.questions import code_changes, going_on, job, subject
from laptime.questions.asking import Prepared, installed_of, names_a_file, names_a_lane, scout_machine
from laptime.questions.compare import run as comparing
from laptime.questions.compare.nouns import HISTORY_POINTS, Compared, History
from laptime.questions.compare.run import make_history
from laptime.questions.copies import copies_of_a_question
from laptime.questions.doctor.nouns import Checkup
from laptime.questions.doctor.run import DeviceLimits, PeakCache, add_limits, examine, known_limits, measure_limits
from laptime.questions.job import CheckpointFiles, QuestionRun, Services, run_question
from laptime.questions.proving import ReferenceCache
from laptime.questions.train.run import Before, prepare_rest
from laptime.questions.tune import said
from laptime.store import exchange, files, references, schema, sessions, words
from laptime.store.disk import write_atomically
from laptime.store.exports import TABLES, all_exports, compared_frame, find_export, history_frame, record_frame
from laptime.store.files import drop_all, place_trace
from laptime.trainings.data import describe_set, made_sets, make_source, remove_set
from laptime.trainings.workloads import CATALOGUE, find_workload

T = TypeVar("T")
Show = Callable[[Record | None, Progress], None]
TellMoment = Callable[[Moment], None]
Warn = Callable[[StoreError], None]


def answer(
    question: str,
    ask: Ask,
    *,
    prepare: Callable[[Ask, Machine], Prepared] | None = None,
    show: Show | None = None,
    tell: TellMoment | None = None,
    warn: Warn | None = None,
) -> Record:
    """Run a question, prepared as the table says or by `prepare`, and return its record, saved after every process.

    `show` is called with how far it is and the record, or None before there is one, `tell` with each moment of a whole
    training. A StoreError of a result is passed to `warn` and the work goes on; without `warn` it is raised at once.
    """
    began = dt.datetime.now(dt.UTC)
    services = _open_services(
        files.new_id(began, random.Random()), began.isoformat(timespec="seconds"), show=show, tell=tell, warn=warn
    )
    with _prepared(
        find_question(question), ask, prepare, lambda doing: services.show(None, Progress(doing))
    ) as prepared:
        return _run(find_question(question), prepared, services)


def race(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Race the requested lanes: which is faster, by how much, and did they learn the same?"""
    return answer("race", ask, show=show, warn=warn)


def full(ask: Ask, *, tell: TellMoment | None = None, warn: Warn | None = None) -> Record:
    """Train each requested lane whole, one after another. The record is saved after every lap."""
    return answer("full", ask, tell=tell, warn=warn)


def infer(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Time the answers of the requested lanes, item by item and in batches."""
    return answer("infer", ask, show=show, warn=warn)


def profile(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Run some steps of each lane under its framework's profiler: operators, kernels, and a saved trace.

    If no lane is named, one lane is profiled: the card if there is one, else the processor, as written.
    """
    return answer("profile", ask, show=show, warn=warn)


def why(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Find where one lane's time goes, what limits it, and what each remedy gains: `record.answer.why`.

    If no lane is named, it is the card if there is one, else the processor, as written.
    """
    return answer("why", ask, show=show, warn=warn)


def resume(
    name: str,
    *,
    changed: bool = False,
    again: bool = False,
    trust: str | None = None,
    show: Show | None = None,
    tell: TellMoment | None = None,
    warn: Warn | None = None,
) -> Record:
    """Continue the whole trainings of a record from the checkpoints of their last laps.

    A training whose sources have changed since then goes on only if `changed` is true. Finished laps whose checkpoint
    is gone or damaged are trained again only if `again` is true. A record that this user did not make here is resumed
    only if `trust` is its id.
    """
    record = files.load_own(name)
    subject.check_trusted(record, trust, is_ours=files.is_ours(record, name))
    services = _open_services(record.id, record.started, show=show, tell=tell, warn=warn)
    before = Before(record, Consent(changed, again), references.count_laps)
    with copies_of_a_question():
        return _run(find_question("full"), prepare_rest(before, look_at_machine()), services)


def go_on(
    question: str,
    name: str | None = None,
    budget_s: float | None = None,
    *,
    show: Show | None = None,
    tell: TellMoment | None = None,
    warn: Warn | None = None,
) -> Record:
    """Run further rounds of a record of this question, by default its latest here, and return it with all rounds.

    They have a budget of their own: by default that which the record was begun with.
    """
    going_on.check_goes_on(question)
    identity = files.load(name).id if name is not None else files.find_latest_of(question)
    with references.claim(identity):
        record = files.load(identity)  # as it is now that nobody else can go on with it
        is_ours = files.is_ours(record, identity)
        going_on.check_may_go_on(question, record, is_ours=is_ours)
        services = _open_services(record.id, record.started, show=show, tell=tell, warn=warn)
        ask = replace(record.ask, command=words.unmask(record.id, record.ask.command, is_ours=is_ours))
        row = find_question(question)
        budget_s = budget_s or job.list_parts(record)[0].budget_s
        prepare = partial(going_on.prepare_more, record, budget_s, row.part(QuestionRun).prepare)
        with _prepared(row, ask, prepare, lambda doing: services.show(None, Progress(doing))) as prepared:
            return _run(row, prepared, services)


def _run(question: Question, prepared: Prepared, services: Services) -> Record:
    identity = services.record_id
    with ExitStack() as held:
        if prepared.keeps_checkpoints:
            held.enter_context(references.claim(identity))
        held.enter_context(references.batches_kept(identity))
        if question.goes_on:
            held.callback(words.keep, identity, prepared.plan.ask.command)
        return run_question(question, prepared, services)


def _prepared(question: Question, ask: Ask, *how: Any) -> AbstractContextManager[Prepared]:
    return job.prepared_for(question, said.with_winners(ask, files.list_records, files.load_ours), *how)


def _open_services(
    identity: str, started: str, *, show: Show | None = None, tell: TellMoment | None = None, warn: Warn | None = None
) -> Services:
    return Services(
        record_id=identity,
        started=started,
        tool={"name": "laptime", "version": installed_version()},
        journal=_journal(warn, files.save),
        references=ReferenceCache(
            references.load_reference, references.save_reference, partial(references.place_batches, identity)
        ),
        checkpoints=CheckpointFiles(partial(references.path_of, identity), references.drop),
        place_trace=partial(place_trace, identity),
        show=show or _say_nothing,
        tell=tell or _say_nothing,
        peaks=references.load_peaks,
        update_session=sessions.update_session,
        is_watched=show is not None,
    )


def _say_nothing(*_told: object) -> None:
    """Ignore all progress."""


def plan(ask: Ask) -> Plan:
    """Return what `race` would run, without running it."""
    with _prepared(replace(find_question("race"), forks_heats=False), ask) as prepared:
        return prepared.plan.without_secrets()


def outline(ask: Ask) -> Plan | FullPlan | InferPlan:
    """Return what the ask's question (`race`, `full`, `infer`, `scale` or `tune`) would run, without running it."""
    with _prepared(replace(question_of(ask), forks_heats=False), ask) as prepared:
        outline = prepared.outline
        return outline.without_secrets() if isinstance(outline, Plan) else outline


def question_of(ask: Ask) -> Question:
    """Return the question that an ask means: race, full, infer, scale or tune."""
    return find_question(ask.question)


def write_files(place: Path, files: Mapping[str, bytes], *, is_folder: bool) -> None:
    """Write one file to `place`, or several into it as a folder. Each is written whole or not at all."""
    for name, data in files.items():
        path = place / name if is_folder else place
        try:
            write_atomically(path, data)
        except OSError as error:
            says = f"{path} could not be written: {error.strerror or error}"
            raise StoreError(says, "Make room there, or name another place with -o.") from error


def export(record: Record, target: str, place: str | None = None, what: str | None = None) -> str:
    """Write a record for another program, and return where: `place`, or the record's id with the target's ending."""
    row = find_export(target)
    place = place or f"{record.id}{row.ending}"
    if row.fill is not None:
        row.fill(record, place)
    else:
        write_files(Path(place), {"": export_bytes(record, target, what)}, is_folder=False)
    return place


def export_bytes(record: Record, target: str, what: str | None = None) -> bytes:
    """Return what an export of one file holds."""
    make = find_export(target).make
    assert make is not None
    return make(record, what)


def devices(frameworks: Iterable[str] | None = None, *, patience_s: float = 120.0) -> Machine:
    """Describe this machine and all its cards, and what each installed framework sees of it."""
    machine = look_around(look_at_machine())
    return scout_machine(machine, installed_of(frameworks, machine), patience_s)


def kept_peaks(machine: Machine) -> DeviceLimits:
    """Return the saved peaks of each usable device, or why they are not known."""
    return known_limits(machine, references.load_peaks)


def measure_peaks(
    machine: Machine, tell: Callable[[str], None], warn: Warn, *, patience_s: float = 120.0
) -> DeviceLimits:
    """Measure and save the peaks of each usable device. `warn` is called with what cannot be saved."""
    return measure_limits(
        machine, PeakCache(references.load_peaks, _journal(warn, references.save_peaks), tell), patience_s
    )


def doctor(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    frameworks: Iterable[str] | None = None,
    patience_s: float = 120.0,
) -> Checkup:
    """Check, and try out, whether each installed framework can use each device. `data` is a folder to look at too."""
    around = look_around(look_at_machine(), (data or Path.cwd(),))
    machine = scout_machine(around, installed_of(frameworks, around), patience_s)
    return examine(machine, references.load_peaks, tell, patience_s)


def make_data(what: str, items: int | None, show: Show) -> MadeSet:
    """Make a workload's data if it does not exist: as many items as ten seconds allow, or `items` (0: all)."""
    source = make_source(
        find_workload(what),
        items,
        tell=lambda doing: show(None, Progress(doing)),
        notify=lambda notice: show(None, Progress(notice, stays=True)),
    )
    return describe_set(Path(source.folder))


def compare(first: str, second: str | None = None, fail_above: float | None = None) -> Compared:
    """Compare the second record with the first, or the trainings of one race with its first training."""
    before = files.load(first)
    if second is None:
        return comparing.compare_kept_trainings(before, fail_above)
    return comparing.compare_kept_records(before, files.load(second), fail_above)


def ask_again(record: Record, label: str | None = None, *, name: str | None = None, trust: str | None = None) -> Ask:
    """Return the ask that runs a recorded race again, which `name` found. One of others is refused, unless trusted."""
    ask = comparing.ask_again(record, label)
    is_ours = files.is_ours(record, name or record.id)
    subject.check_trusted(record, trust, is_ours=is_ours)
    return replace(ask, command=words.unmask(record.id, ask.command, is_ours=is_ours))


def history(what: str, lane: str | None = None, *, question: str | None = None, limit: int = HISTORY_POINTS) -> History:
    """Return one lane of a training over time, from the newest records; by default the lane that most of them have.

    Without a question, these are races, or watches of a script that was never raced.
    """
    return make_history(what, lane, question, rows=files.list_records(), load=files.load, limit=limit)


def remove_records(names: Sequence[str]) -> tuple[str, ...]:
    """Remove saved records with their checkpoints and traces, and return their ids. If one cannot go, none does."""
    found = tuple(dict.fromkeys(map(files.find_removable, names)))
    for identity in found:
        files.remove(identity)
        if schema.ID.fullmatch(identity):  # else the file was put there by hand, and nothing else is named like it
            references.drop_all(identity)
            drop_all(identity)
            words.forget(identity)
    return found


def _journal(warn: Warn | None, save: Callable[[T], object]) -> Callable[[T], None]:
    def journal(result: T) -> None:
        try:
            save(result)
        except StoreError as error:
            if warn is None:
                raise
            warn(error)

    return journal


export_tables = tuple(TABLES)
exports = all_exports
load = files.load
find = files.find
read_bytes = files.read_bytes
check_gate = comparing.check_gate
check_store = files.check_store
compare_records = comparing.compare_kept_records
compare_trainings = comparing.compare_kept_trainings
made_data = made_sets
remove_data = remove_set
records = files.list_records
import_records = exchange.import_records
code_offers = code_changes.list_offers
make_edit = code_changes.make_edit
write_edit = code_changes.write_edit
is_ours = files.is_ours
check_trusted = subject.check_trusted
why_no_offer = code_changes.why_no_offer
peaks_of = references.load_peaks
stand_by = job.stand_by
validate = exchange.validate
encode = schema.encode
workloads = tuple(CATALOGUE.values())
presets = (*PRESETS, TUNED)
settings = SETTINGS

__all__ = [
    "add_limits",
    "answer",
    "ask_again",
    "check_gate",
    "check_trusted",
    "code_offers",
    "compare",
    "compare_records",
    "compare_trainings",
    "compared_frame",
    "devices",
    "doctor",
    "encode",
    "export",
    "export_bytes",
    "export_tables",
    "exports",
    "find_export",
    "full",
    "go_on",
    "history",
    "history_frame",
    "import_records",
    "infer",
    "is_ours",
    "kept_peaks",
    "load",
    "made_data",
    "make_data",
    "make_edit",
    "measure_peaks",
    "names_a_file",
    "names_a_lane",
    "outline",
    "peaks_of",
    "plan",
    "presets",
    "profile",
    "question_of",
    "race",
    "record_frame",
    "records",
    "remove_data",
    "remove_records",
    "resume",
    "settings",
    "validate",
    "why",
    "why_no_offer",
    "workloads",
    "write_edit",
]
