"""The record behind rows, stripped to what proves them: numbers, and words that laptime itself knows.

It is an allowance, not a search for what is private: a record is built again from named parts, and every text in it
has to have a known form. So `check` refuses a record that holds anything else.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from laptime.analysis.parity import judge_parity
from laptime.model.ask import Ask
from laptime.model.errors import RecordError, UsageError
from laptime.model.machine import Device, Machine, Processor
from laptime.model.plan import Subject
from laptime.model.precisions import PRECISIONS
from laptime.model.process import ProcessRun
from laptime.model.protocol import Evaluation, FullRun, LapResult, Score
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import SCHEMA, HeatResult, LaneResult, Parity, RaceAnswer, Record, TrainingAnswer
from laptime.model.sample import Heat, ProofRun, Reference, Window
from laptime.planner.lanes import DEVICE_WORD, parse_lane
from laptime.questions.train.options import FullAsk
from laptime.store.plain_json import as_json_holds
from laptime.store.schema import decode_as_found, upgrade
from laptime.trainings.workloads import CATALOGUE

RECORD_MOST_BYTES = 1 << 20
INFLATED_MOST_BYTES = 16 << 20
OLDEST_SCHEMA = 2  # the first of which the board kept records
NEW_FIELD_VALUES: tuple[Any, ...] = (None, [], {})  # what a new field is in a record that was written before it
T = TypeVar("T")
NOT_KEPT = Missing("the board does not keep it")
DISTURBED = "disturbed"
PLAIN = re.compile(r"[^A-Za-z0-9 ()@.,+/_:-]")  # what no name of a device or a processor needs
LONGEST_NAME = 100
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,59}", re.ASCII)
SYSTEM = re.compile(r"(Linux|Darwin|Windows|macOS)( [0-9]+(\.[0-9]+)?)?", re.ASCII)
REFERENCE_KEY = re.compile(r"[a-z0-9@.-]{1,40}-[0-9a-f]{16}", re.ASCII)
WHOLE_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
WHOLE = "whole"  # in a stripped record's `tool`: the digest of the whole record
WHOLE_SINCE = 3  # the schema of the first records that have it
DETAILS = ("capability", "vector")
CLASSES = ("flat", "warm-up", "slowing", "unsteady")


def canonical(record: Record) -> bytes:
    """Return the bytes of a stripped record, whose digest is in its rows: sorted keys, no spaces."""
    return _canonical(as_json_holds(msgspec.to_builtins(record)))


def _canonical(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def compress(data: bytes) -> bytes:
    """Compress, with nothing in it of when and where that was done."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def decompress(data: bytes, where: str) -> bytes:
    """Return what a compressed file holds. It may take no more memory than a record needs."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        found = inflater.decompress(data, INFLATED_MOST_BYTES + 1)
    except zlib.error as error:
        raise RecordError(f"{where} is not a gzip file: {error}", "Write it again: laptime board add ID.") from None
    if len(found) > INFLATED_MOST_BYTES:
        says = f"{where} holds more than {INFLATED_MOST_BYTES:,} bytes, and no stripped record needs them"
        raise RecordError(says, "Write it again: laptime board add ID.")
    if not inflater.eof or inflater.unused_data:
        raise RecordError(f"{where} is cut off, or holds a second file", "Write it again: laptime board add ID.")
    return found


def read_evidence(data: bytes, where: str) -> tuple[Record, bytes]:
    """Return a stripped record and its canonical bytes, from its compressed file. One with anything else is refused."""
    found = decompress(data, where)
    schema, record = decode_as_found(found, where)
    # Whether a file holds a stripped record and nothing else, as a laptime wrote it: this one, or an older one.
    tree = json.loads(found)
    is_stripped = tree["schema"] >= OLDEST_SCHEMA and _canonical(tree) == found
    if is_stripped:
        tree = upgrade(tree, where) if schema != SCHEMA else tree
        is_stripped = _canonical(tree) == _canonical(_without_new(json.loads(canonical(strip(record))), tree))
    if not is_stripped:
        says = f"{where} is not stripped: it holds what the board does not keep, or is in another order"
        raise RecordError(says, "Write it from the record as laptime saved it: laptime board add ID.")
    if schema >= WHOLE_SINCE:
        refuse_without_whole(record, where)
    return record, found


def refuse_without_whole(record: Record, where: str) -> None:
    """Refuse a record that does not name the whole record that it was made from: nobody could hold it against that."""
    if not WHOLE_DIGEST.fullmatch(record.tool.get(WHOLE, "")):
        says = f"{where} does not name the digest of its whole record: 64 hexadecimal digits"
        raise RecordError(says, "Write it from the record as laptime saved it: laptime board add ID.")


def _without_new(made: Any, found: Any) -> Any:
    """Return what is made of a record, without the empty fields that the file does not have."""
    if isinstance(made, dict) and isinstance(found, dict):
        return {
            name: _without_new(value, found.get(name))
            for name, value in made.items()
            if name in found or value not in NEW_FIELD_VALUES
        }
    if isinstance(made, list) and isinstance(found, list) and len(made) == len(found):
        return [_without_new(one, other) for one, other in zip(made, found, strict=True)]
    return made


def strip(record: Record) -> Record:
    """Return a record with all that proves its rows, and nothing that names a user, a host or a file."""
    workload = CATALOGUE[record.workload.name]
    runs = record.answer.runs if isinstance(record.answer, TrainingAnswer) else ()
    lanes = tuple(_lane(lane, runs, record.reference) for lane in record.lanes)
    found = record.tool.get(WHOLE, "")
    whole = {WHOLE: found} if WHOLE_DIGEST.fullmatch(found) else {}
    return Record(
        schema=SCHEMA,
        tool={"name": "laptime", "version": _word(record.tool.get("version", "")), **whole},
        id=record.id,
        started=_day(record.started),
        question=record.question,
        status=record.status,
        ask=_ask(record.ask, workload.name),
        machine=_machine(record.machine),
        workload=Subject(
            name=workload.name,
            title=workload.title,
            parameters=workload.parameters,
            batch=workload.batch,
            steps_per_lap=workload.steps_per_lap,
            laps=workload.laps,
            items=workload.items,
        ),
        published=None,
        lanes=lanes,
        answer=_answer(record, {lane.name for lane in lanes}),
        reference=None if record.reference is None else _reference(record.reference),
        parts=tuple(replace(part, started=_day(part.started)) for part in record.parts),
    )


def _day(moment: str) -> str:
    return f"{moment[:10]}T00:00:00+00:00"


def with_whole(record: Record, whole: bytes) -> Record:
    """Return a record that names the digest of its own file, by which its keeper shows that nothing was changed."""
    return replace(record, tool={**record.tool, WHOLE: whole_digest(whole)})


def whole_digest(data: bytes) -> str:
    """Return the digest of what a whole record's file says, without its signature and without spaces between."""
    tree = json.loads(data)
    signed = {key: value for key, value in tree.items() if key not in {"signature", "writer"}}
    return hashlib.sha256(json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _ask(ask: Ask, what: str) -> Ask:
    """Return what was asked, as far as it says what was timed. A lane has to be one by laptime's own grammar."""
    lanes = tuple(lane for lane in ask.lanes if _is_lane(lane))
    full = ask.full
    if full is not None:
        full = FullAsk(laps=full.laps, steps_per_lap=full.steps_per_lap, seeds=full.seeds)
    return Ask(
        what,
        lanes if len(lanes) == len(ask.lanes) else (),
        heats=ask.heats,
        budget_s=ask.budget_s,
        margin=ask.margin,
        seed=ask.seed,
        pretrained=ask.pretrained,
        items=ask.items,
        full=full,
        every=ask.every,
        alone=ask.alone,
        batches=ask.batches,
    )


def _is_lane(text: str) -> bool:
    try:
        parse_lane(text)
    except UsageError:
        return False
    return True


def _machine(machine: Machine) -> Machine:
    processor = machine.processor
    system = SYSTEM.match(machine.system)
    return Machine(
        processor=Processor(
            name=_name(processor.name),
            architecture=_word(processor.architecture),
            cores_visible=processor.cores_visible,
            cores_usable=processor.cores_usable,
            quota_cores=_known(processor.quota_cores),
            features=_words(processor.features),
            core_score=processor.core_score,
        ),
        memory_bytes=machine.memory_bytes,
        memory_limit_bytes=_known(machine.memory_limit_bytes),
        system=system[0] if system else "unknown",
        python=_word(machine.python),
        container=None,
        page_bytes=machine.page_bytes,
        cores_taken=machine.cores_taken,
    )


def _lane(lane: LaneResult, runs: Sequence[FullRun], reference: Reference | None) -> LaneResult:
    trained = [run.proofs for run in runs if run.process.lane == lane.name and run.proofs]
    heats = tuple(_heat(heat, lane.name) for heat in lane.heats)
    # The verdict of the proof is judged again; one that the record had otherwise is none
    proofs = [result.heat.proofs for result in heats] or trained
    kept_reference = None if reference is None else _reference(reference)
    judged = judge_parity(lane.settings, [tuple(map(_proof, proof)) for proof in proofs], kept_reference)
    device = lane.device
    kept = Device(
        name=device.name if DEVICE_WORD.fullmatch(device.name) else device.kind,
        kind=device.kind,
        label=_name(device.label),
        usable=device.usable,
        memory_bytes=_known(device.memory_bytes),
        features=_words(device.features),
        details={key: _word(device.details[key]) for key in DETAILS if key in device.details},
    )
    return LaneResult(
        name=lane.name if _is_lane(lane.name) else "unknown",
        framework=_versions(lane.framework),
        device=kept,
        settings=replace(lane.settings, extra={_word(key): _word(value) for key, value in lane.settings.extra.items()}),
        status=lane.status,
        reason=None,
        step_ms=_estimate(lane.step_ms),
        lap_s=_estimate(lane.lap_s),
        items_per_s=_estimate(lane.items_per_s),
        first_step_ms=lane.first_step_ms,
        startup_s=lane.startup_s,
        peak_memory_bytes=_known(lane.peak_memory_bytes),
        device_memory_bytes=_known(lane.device_memory_bytes),
        energy_j_per_lap=_known(lane.energy_j_per_lap),
        parity=judged if judged.status == lane.parity.status == "same" else Parity("unproven"),
        items_per_step=lane.items_per_step,
        heats=heats,
    )


def _heat(result: HeatResult, lane: str) -> HeatResult:
    heat = result.heat
    kept = Heat(
        process=_process(heat.process, lane),
        order=heat.order,
        round=heat.round,
        first_step_ns=heat.first_step_ns,
        proofs=tuple(map(_proof, heat.proofs)),
        windows=tuple(
            Window(
                start_ns=window.start_ns,
                end_ns=window.end_ns,
                steps=window.steps,
                flag=None if window.flag is None else DISTURBED,
                turn=window.turn,
                first_step=window.first_step,
            )
            for window in heat.windows
        ),
        losses=heat.losses,
        burst=heat.burst,
        first_losses=heat.first_losses,
    )
    return HeatResult(
        kept,
        steady=result.steady if result.steady in CLASSES else "unsteady",
        steady_from=result.steady_from,
        step_ms=result.step_ms,
        counted=result.counted,
        weight=result.weight,
    )


def _process(process: ProcessRun, lane: str) -> ProcessRun:
    return ProcessRun(
        lane=lane,
        status=process.status,
        versions=_versions(process.versions),
        parameters=process.parameters,
        items_per_step=process.items_per_step,
        peak_memory_bytes=_known(process.peak_memory_bytes),
        device_memory_bytes=_known(process.device_memory_bytes),
    )


def _proof(run: ProofRun) -> ProofRun:
    precision = run.precision if run.precision in {"fp64", *PRECISIONS} else "fp32"
    return ProofRun(
        precision, run.losses, run.start, run.shrink, run.moves, single=run.single, decay=run.decay, scales=run.scales
    )


def _reference(reference: Reference) -> Reference:
    return Reference(
        key=reference.key if REFERENCE_KEY.fullmatch(reference.key) else "",
        exact=_proof(reference.exact),
        twin=_proof(reference.twin),
        depth=reference.depth,
        weights=reference.weights,
        over_batch=reference.over_batch,
        shares=reference.shares,
    )


def _answer(record: Record, names: set[str]) -> RaceAnswer | TrainingAnswer:
    answer = record.answer
    if isinstance(answer, TrainingAnswer):
        runs = tuple(_run(run) for run in answer.runs if run.process.lane in names)
        factors = tuple(
            replace(
                factor,
                low=_known(factor.low),
                high=_known(factor.high),
                later_laps=_known(factor.later_laps),
                first_lap=_known(factor.first_lap),
                same_work=_known(factor.same_work),
            )
            for factor in answer.factors
            if {factor.lane, factor.reference} <= names
        )
        return TrainingAnswer(protocol=answer.protocol, order="", runs=runs, factors=factors)
    comparisons = tuple(
        replace(found, low=_known(found.low), high=_known(found.high), same_work=_known(found.same_work))
        for found in answer.comparisons
        if {found.lane, found.reference} <= names
    )
    return RaceAnswer(comparisons=comparisons)


def _run(run: FullRun) -> FullRun:
    return FullRun(
        process=_process(run.process, run.process.lane),
        seed=run.seed,
        order=run.order,
        laps=tuple(map(_lap, run.laps)),
        first_step_ms=run.first_step_ms,
        proofs=tuple(map(_proof, run.proofs)),
        processes=run.processes,
    )


def _lap(lap: LapResult) -> LapResult:
    looked = lap.validation
    validation = None if looked is None else Evaluation(_score(looked.score), looked.seconds)
    return LapResult(lap.number, lap.steps, lap.train_s, _score(lap.score), lap.fresh, validation, NOT_KEPT)


def _score(score: Score) -> Score:
    return Score(score.items, _known(score.loss), _known(score.accuracy), _known(score.whole))


def _estimate(found: Estimate | None) -> Estimate | None:
    if found is None:
        return None
    return Estimate(found.median, _known(found.low), _known(found.high), _known(found.p95))


def _known(value: T | Missing) -> T | Missing:
    return NOT_KEPT if isinstance(value, Missing) else value


def _versions(found: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(found.items()) if WORD.fullmatch(key) and WORD.fullmatch(value)}


def _words(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in found if WORD.fullmatch(word))


def _word(text: Any) -> str:
    """Return a version or a name of one word, or nothing where it is something else."""
    return text if isinstance(text, str) and WORD.fullmatch(text) else ""


def _name(text: str) -> str:
    return " ".join(PLAIN.sub("", text).split())[:LONGEST_NAME].strip()
