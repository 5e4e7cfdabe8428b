"""`laptime board add`: rows from a record, one a lane, or the sentence why a lane or the record has no row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath

from laptime.analysis.heats import steady_windows
from laptime.machine.hardware import known_devices, match_label
from laptime.model.errors import RecordError, StoreError, UsageError
from laptime.model.frameworks import FRAMEWORKS, find_framework
from laptime.model.machine import Device, Machine
from laptime.model.process import NO_TRAINING, Settings, is_exactly
from laptime.model.protocol import FullRun
from laptime.model.quantities import Estimate, Missing
from laptime.model.questions import find_question
from laptime.model.record import LaneResult, RaceAnswer, Record, TrainingAnswer
from laptime.model.rows import is_lane
from laptime.planner.lanes import DEVICE_WORD
from laptime.show.board.evidence import (
    RECORD_MOST_BYTES,
    WHOLE,
    canonical,
    compress,
    decompress,
    read_evidence,
    refuse_without_whole,
    strip,
)
from laptime.show.board.reported import encode_predictions, predict_again, read_predictions
from laptime.show.board.row import (
    LARGEST,
    PREDICTED,
    RECORDS,
    ROW_SCHEMA,
    ROWS,
    SHORTEST,
    BoardRow,
    RowDevice,
    RowFactor,
    RowFigure,
    RowMachine,
    RowProof,
    digest_of,
    encode_row,
    is_possible,
    record_place,
    sealed,
)
from laptime.show.pages.listing import repeat_words
from laptime.store.disk import read_regular, write_atomically
from laptime.store.schema import decode
from laptime.trainings.workloads import CATALOGUE

NO_SETTINGS = Settings()
ABOUT_ALL = ("preset", "batch", "extra")  # fields of settings that a row has elsewhere
SEED = 0
NOT_PROVEN_AGAIN = "its proof does not hold from what the board keeps: it needed a second try"


@dataclass(frozen=True, slots=True)
class Added:
    """What was written: the rows' files and the record's, and the lanes without a row, each with the reason."""

    record: str
    files: tuple[str, ...]
    refused: dict[str, str]


# Why a record, or a lane, has no row: the first reason, in one sentence; None where there is none.


def why_no_rows(record: Record) -> str | None:
    refusal = _why_no_such_rows(record)
    if refusal is not None:
        return refusal
    if record.status != "finished":
        return f"it is {record.status}, and a row is of what has finished"
    if record.distrust is not None:
        return f"it is NOT RELIABLE: {record.distrust}"
    if record.ask.others or record.others:
        return "it raced several trainings"
    if record.ask.on or record.ask.each:
        return "it ran on a cluster, whose nodes the board does not know"
    if record.ask.data is not None or (record.data is not None and not record.data.made):
        return "it read your own data (--data), and the board's proofs are of the data that laptime makes"
    if record.ask.pretrained:
        return "it began from pretrained weights, and the board's proofs begin from drawn ones"
    if record.ask.seed != SEED:
        return f"its seed is {record.ask.seed}, and the board's references are of seed {SEED}"
    if isinstance(record.answer, TrainingAnswer):
        steps = record.answer.protocol.steps_per_lap
        wanted = CATALOGUE[record.workload.name].steps_per_lap
        if steps != wanted:
            return f"its laps have {steps} steps, and a lap of {record.workload.name} has {wanted}"
    return None


def _why_no_such_rows(record: Record) -> str | None:
    """Return why no record of this question or this training has rows."""
    if not isinstance(record.answer, RaceAnswer | TrainingAnswer):
        return f"a row is of a race or a training, and this is {find_question(record.question).command}"
    if record.ask.command or record.workload.command:
        return "it raced a script, which nobody else can prove"
    if record.workload.name not in CATALOGUE or not record.workload.is_built_in:
        return f"{record.workload.name} is no built-in training, so its rows could not be compared"
    return None


def why_no_row(lane: LaneResult) -> str | None:
    framework = lane.name.partition("/")[0]
    if framework == "fake" or lane.device.label == "fake":
        return "it is a fake, whose figures are made up"
    engines = [row.engine.name for row in FRAMEWORKS if row.name == framework and not row.switch]
    if not engines:
        return f"{framework} is no framework of laptime's own"
    if engines[0] not in lane.framework:
        return f"no version of {engines[0]} is in it, and every real heat of {framework} has one"
    if lane.status != "ok" or lane.step_ms is None:
        return f"it did not finish: {lane.reason or 'no step'}"
    if lane.settings.input in NO_TRAINING:
        return f"input={lane.settings.input} trains nothing"
    if lane.parity.status != "same":
        reason = f": {lane.parity.reason}" if lane.parity.reason else ""
        return f"its work is not proven ({lane.parity.status}{reason})"
    if lane.lap_s is None:
        return "it has no lap: its rounds are too far apart"
    if not all(SHORTEST <= estimate.median <= LARGEST for estimate in (lane.step_ms, lane.lap_s)):
        return "its step or its lap takes a time that nothing takes"
    device = lane.name.split("/")[1] if "/" in lane.name else ""
    if not DEVICE_WORD.fullmatch(device) or lane.devices or lane.where:
        return "it ran on several devices, and a row is of one"
    return None


# A row, from a stripped record alone: the same record makes the same row.


def board_rows(record: Record, digest: str) -> tuple[BoardRow, ...]:
    """Return the row of each lane of a stripped record that has one. `digest` is that of its canonical bytes."""
    rows = (_row(record, lane, digest) for lane in record.lanes if why_no_row(lane) is None)
    return tuple(sealed(row) for row in rows if is_possible(row))


def _row(record: Record, lane: LaneResult, digest: str) -> BoardRow:
    assert lane.step_ms is not None
    assert lane.lap_s is not None
    workload = CATALOGUE[record.workload.name]
    framework, _, _ = lane.name.partition("/")
    batch = lane.settings.batch or workload.batch
    windows = [window for result in lane.heats for window in result.heat.windows]
    parity = lane.parity
    return BoardRow(
        schema=ROW_SCHEMA,
        training=workload.name,
        lane=lane.name,
        question=find_question(record.question).command,
        device=_device(record.machine, lane.device),
        machine=RowMachine(
            record.machine.processor.name,
            record.machine.processor.architecture,
            record.machine.processor.cores_usable,
            record.machine.memory_bytes,
            record.machine.system,
        ),
        framework=find_framework(framework).name,
        versions=lane.framework,
        preset=lane.settings.preset,
        settings=changed_settings(lane.settings),
        batch=batch,
        steps_per_lap=workload.steps_per_lap * workload.batch / batch,
        step_ms=_figure(lane.step_ms),
        lap_s=_figure(lane.lap_s),
        step_rounds_ms=_rounds(record, lane),
        turns=sum(len(steady_windows(heat)) for heat in lane.heats),
        factor=_factor(record, lane),
        proof=RowProof("same", parity.steps, parity.worst or 0.0, parity.tolerance or 0.0),
        disturbed_share=sum(window.flag is not None for window in windows) / len(windows) if windows else None,
        peak_memory_bytes=_known(lane.peak_memory_bytes),
        device_memory_bytes=_known(lane.device_memory_bytes),
        energy_j_per_lap=None if isinstance(lane.energy_j_per_lap, Missing) else lane.energy_j_per_lap,
        command=repeat_words(record),
        date=record.started[:10],
        laptime=record.tool["version"] or "not installed",
        record=record.id,
        record_digest=digest,
        whole_digest=record.tool.get(WHOLE),
    )


def _device(machine: Machine, device: Device) -> RowDevice:
    known = match_label(machine.processor.name if device.kind == "cpu" else device.label, known_devices())
    short = known.short if known is not None and known.kind == device.kind else None
    return RowDevice(device.kind, device.label, short, _known(device.memory_bytes))


def changed_settings(settings: Settings) -> dict[str, str]:
    """Return what differs from a lane without any setting."""
    named = [field.name for field in fields(Settings) if field.name not in ABOUT_ALL]
    found = {name: getattr(settings, name) for name in named}
    changed = {name: str(value) for name, value in found.items() if value != getattr(NO_SETTINGS, name)}
    return dict(sorted({**changed, **settings.extra}.items()))


def _figure(found: Estimate) -> RowFigure:
    return RowFigure(found.median, *found.drawn_ends)


def _rounds(record: Record, lane: LaneResult) -> tuple[float, ...]:
    """Return the mean step of each round; of whole trainings, that of each training's later laps."""
    if isinstance(record.answer, TrainingAnswer):
        mine = [run for run in record.answer.runs if run.process.lane == lane.name and run.laps]
        return tuple(map(step_of, mine))
    return tuple(heat.step_ms for heat in lane.heats if heat.step_ms is not None)


def step_of(run: FullRun) -> float:
    """Return the mean step of a training, without a lap that has the first step in it."""
    laps = [lap for lap in run.laps if not lap.fresh] or run.laps
    return 1e3 * sum(lap.train_s for lap in laps) / max(sum(lap.steps for lap in laps), 1)


def _factor(record: Record, lane: LaneResult) -> RowFactor | None:
    if isinstance(record.answer, TrainingAnswer):
        for factor in record.answer.factors:
            if factor.lane == lane.name:
                if isinstance(factor.later_laps, Missing):
                    return None
                return RowFactor(factor.reference, factor.later_laps, *factor.drawn_ends)
        return None
    for raced in record.answer.comparisons:
        if raced.lane == lane.name:
            return RowFactor(raced.reference, raced.ratio, *raced.drawn_ends, raced.ratios)
    return None


def _known(count: int | Missing) -> int | None:
    return None if isinstance(count, Missing) else count


# Write them.


def add(record: Record, lanes: Sequence[str], board: Path, find_faults: Callable[[Record], Sequence[str]]) -> Added:
    """Write the rows of a record, and the stripped record. `find_faults` returns what `check` would say of it.

    `lanes` are those that are wanted, by default all that have a row.
    """
    refusal = why_no_rows(record)
    if refusal is not None:
        raise RecordError(f"{record.id} has no row: {refusal}", "laptime board --help says what a row needs.")
    meant = _meant(record, lanes)
    refused = {lane.name: why for lane in meant if (why := why_no_row(lane)) is not None}
    stripped = strip(record)
    refuse_without_whole(stripped, record.id)
    data = canonical(stripped)
    made = {row.lane: row for row in board_rows(stripped, digest_of(data))}
    wanted = [lane.name for lane in meant if lane.name not in refused]
    refused |= dict.fromkeys((name for name in wanted if name not in made), NOT_PROVEN_AGAIN)
    rows = [made[name] for name in wanted if name in made]
    if not rows:
        whys = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise RecordError(f"{record.id} has no row: {whys}", "laptime board --help says what a row needs.")
    if faults := find_faults(stripped):
        raise RecordError(f"{record.id} would be refused by `laptime board check`: {faults[0]}", "Race it again.")
    # On two machines, two records may have one id: that of someone else is not written over
    place = board / record_place(record.id)
    if place.is_file():
        try:
            there = decompress(read_regular(place, RECORD_MOST_BYTES), place.name)
        except (OSError, RecordError):
            there = data  # it proves no row
        if there != data:
            hint = "the id will be another. If it is this record, by another laptime: laptime board remake."
            raise RecordError(f"{place} is another record, with the same id", f"Race it again: {hint}")
    files = {record_place(record.id): compress(data), **{row.place: encode_row(row) for row in rows}}
    _write(board, files)
    return Added(record.id, tuple(str(board / place) for place in files), refused)


def _write(board: Path, files: Mapping[PurePosixPath, bytes]) -> None:
    for place, content in files.items():
        try:
            write_atomically(board / place, content)
        except OSError as error:
            says = f"{board / place} could not be written: {error.strerror or error}"
            raise StoreError(says, "Make room there, or name another folder with -o.") from error


def _meant(record: Record, lanes: Sequence[str]) -> list[LaneResult]:
    if not lanes:
        return list(record.lanes)
    found = []
    for word in lanes:
        exactly = [lane for lane in record.lanes if is_exactly(lane.name, word)]
        named = exactly or [lane for lane in record.lanes if is_lane(lane.name, word)]
        if not named:
            has = ", ".join(lane.name for lane in record.lanes)
            raise UsageError(f"--lane {word}: {record.id} has no such lane", f"it has: {has}")
        found += named
    return found


# Write all of them again.


@dataclass(frozen=True, slots=True)
class Remade:
    """What was written again: how many files are as they were, and those that are new, changed, or gone."""

    unchanged: int
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def remake(board: Path) -> Remade:
    """Write the rows of a board again from their records, and its predictions.

    A row follows from its record and from laptime: a device that the table has now, or a new field. A record that was
    written before records named their whole one stays as it is: in a newer schema it would be refused.
    """
    unchanged = 0
    changed: list[str] = []
    removed: list[str] = []
    for packed in sorted((board / RECORDS).glob("*.json.gz")):
        record = _read_record(packed)
        data = _kept_or_made(packed, record)
        there = {path.name: path for path in sorted((board / ROWS).rglob(f"{record.id}-*.json"))}
        rows = [row for row in board_rows(record, digest_of(data)) if row.place.name in there]
        files = {record_place(record.id): compress(data), **{row.place: encode_row(row) for row in rows}}
        new = {
            place: content
            for place, content in files.items()
            if not (board / place).is_file() or (board / place).read_bytes() != content
        }
        _write(board, new)
        unchanged += len(files) - len(new)
        changed += [str(board / place) for place in new]
        old = sorted(set(there.values()) - {board / row.place for row in rows})
        for place in old:
            place.unlink()
        removed += [str(place) for place in old]
    for place in sorted((board / PREDICTED).glob("*.json")):
        before = place.read_bytes()
        now = before  # where the record that it begins with is not on the board
        found = read_predictions(board, place.stem)
        if found is not None and (board / record_place(found.record)).is_file():
            now = encode_predictions(predict_again(_read_record(board / record_place(found.record)), found))
        if now != before:
            _write(board, {PurePosixPath(PREDICTED, place.name): now})
            changed.append(str(place))
        else:
            unchanged += 1
    return Remade(unchanged, tuple(changed), tuple(removed))


def _kept_or_made(packed: Path, record: Record) -> bytes:
    """Return what a stripped record's file says, while it is what is made of it; a new field leaves it as it is."""
    found = read_regular(packed, RECORD_MOST_BYTES)
    if WHOLE not in record.tool:
        return decompress(found, packed.name)
    try:
        return read_evidence(found, packed.name)[1]
    except RecordError:
        return canonical(record)


def _read_record(packed: Path) -> Record:
    """Return a stripped record of a board. One that cannot have rows, or has the id of another file, is refused."""
    record = decode(decompress(read_regular(packed, RECORD_MOST_BYTES), packed.name), packed.name)
    if record_place(record.id).name != packed.name:
        raise RecordError(f"{packed.name} holds the record {record.id}", "Name the file like its record.")
    refusal = _why_no_such_rows(record)
    if refusal is not None:
        raise RecordError(f"{packed.name} has no row: {refusal}", "Remove it.")
    return strip(record)


def record_of(board: Path, record: Record) -> Record:
    """Return the stripped record of a board that a record was added as. One that was not added is refused."""
    place = board / record_place(record.id)
    if not place.is_file():
        raise RecordError(f"{record.id} is not on the board {board}", f"Add it first: laptime board add {record.id}.")
    return _read_record(place)
