"""What a script's own steps show: the symptoms of a heat whose lines were timed, and what was seen of its process."""

from __future__ import annotations

from dataclasses import replace

from laptime.analysis.script_lines import longest_lines
from laptime.analysis.script_process import ProcessReader
from laptime.engine.heat import script_settings
from laptime.engine.heat.script_visitor import HeldScript, Visitor
from laptime.model.machine import Device
from laptime.model.quantities import percent
from laptime.model.script import ScriptProcess, TrainingLoop
from laptime.model.symptoms import DATA_LINE, LONGEST_LINES, MADE_DOUBLE, NO_INPUT, NOT_LOOKED, StepSymptoms

LINE_MOST = 0.5  # of the wait for data: a line that takes less is not named
LONGEST_NAMED = 3  # lines of an iteration
LONGEST_LEAST = 0.3  # of an iteration: where no line takes this much, none is named
NO_DATALOADER = "its batches come from no DataLoader of PyTorch, so they cannot be replayed or fetched alone"


def read_symptoms(visitor: Visitor, held: HeldScript | None, device: Device) -> StepSymptoms:
    """Return what the script's own steps show, without taking them apart.

    On a card, the times of the processor are not those of the work, and a lane of batches that are ready has these.
    """
    reader = visitor.reader
    progress = reader.progress
    threads = NOT_LOOKED if held is None or held.threads is None else held.threads
    shapes = held.shapes if held is not None and held.shapes else NOT_LOOKED
    has_loader = reader.trained_loader is not None
    notes = {} if is_replayable(reader) else {NO_INPUT: NO_DATALOADER}
    notes |= {MADE_DOUBLE: reader.double_at} if reader.double_at and "float64" in reader.types else {}
    line = _data_line(reader)
    notes |= {DATA_LINE: line} if line is not None else {}
    # The lines of the script that take most of an iteration; nothing where none takes much
    process = reader.process()
    found = longest_lines(process.lines, process.loop.steady) if isinstance(process.loop, TrainingLoop) else []
    if found and found[0][1] >= LONGEST_LEAST:
        notes[LONGEST_LINES] = ", ".join(f"{where} ({percent(share)})" for where, share in found[:LONGEST_NAMED])
    return StepSymptoms(
        progress.later,
        wait_ns=progress.data_ns if has_loader and reader.sees_waits else NOT_LOOKED,
        compute_ns=progress.computing_ns if device.kind == "cpu" else NOT_LOOKED,
        shapes=shapes if has_loader else NOT_LOOKED,
        threads=threads,
        places=reader.places,
        wall_ns=progress.wall_ns,
        redrawn=NOT_LOOKED if held is None or held.redrawn is None else held.redrawn,
        notes=notes,
        impossible=script_settings.list_impossible(visitor.set, visitor.not_set, reader.trained_loader),
    )


def seen_of(visitor: Visitor) -> ScriptProcess:
    """Return what was seen of the script: its iterations, without the times and losses of each of many windows."""
    process = visitor.reader.process()
    if not isinstance(process.loop, TrainingLoop):
        return process
    return replace(process, loop=replace(process.loop, windows=(), losses=(), typical=None))


def _data_line(reader: ProcessReader) -> str | None:
    """Return the line that takes most of the wait for data; None where worker processes load it, or none does."""
    loader = reader.trained_loader
    if loader is None or loader.workers:
        return None
    most = max(
        (timed_line for timed_line in reader.timed_lines if timed_line.part == "data"),
        key=lambda timed_line: timed_line.share,
        default=None,
    )
    return most.where if most is not None and most.share >= LINE_MOST else None


def is_replayable(reader: ProcessReader) -> bool:
    return reader.trained_loader is not None and reader.trained_loader.kind == "DataLoader"
