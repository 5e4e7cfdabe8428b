"""What an agent counted of an iteration of its script, operator by operator, as it was sent. It may be anybody's."""

from __future__ import annotations

from collections import Counter
from typing import Any

from laptime.analysis.script_process import ProcessReader, real, text, whole
from laptime.model.hardware import HeldMemory, ScriptLoading, StepMemory, StepWork
from laptime.model.workload import FLOAT_BYTES
from laptime.trainings.workloads.shapes import as_operators

NOT_COUNTABLE = "its operators are not those of PyTorch 2.1 or later, which alone can be counted in a script"
COUNTED_INSIDE = "one iteration inside of the script, as its operators were called"
WORK_OPERATORS_MOST = 100_000  # different ones of an iteration
NARROW_BYTES = 2  # of a value of 16 bits


def read_work(sent: Any) -> StepWork:
    """Return what an agent counted. Raise ValueError if no agent counts so."""
    if not isinstance(sent, dict) or not isinstance(sent.get("operators"), list):
        raise ValueError("no work of an iteration")  # noqa: TRY004  whatever is wrong, it is no agent's
    counted: Counter[tuple[str, float, float, tuple[int, ...]]] = Counter()
    for kind, its_flops, its_bytes, shape, calls in sent["operators"][:WORK_OPERATORS_MOST]:
        counted[text(kind), real(its_flops), real(its_bytes), tuple(map(whole, shape))] += whole(calls)
    flops = real(sent.get("flops"))
    moved = real(sent.get("bytes"))
    is_narrow = real(sent.get("narrow")) > flops / 2
    held = sent.get("memory")
    if not isinstance(held, dict):
        raise ValueError("no memory of an iteration")  # noqa: TRY004  whatever is wrong, it is no agent's
    moments: list[Any] = [held.get(moment) for moment in ("passes", "update", "narrow")]
    passes, update, narrow = (HeldMemory(*map(whole, sizes)) for sizes in moments)
    return StepWork(
        flops,
        moved,
        COUNTED_INSIDE,
        as_operators(counted),
        value_bytes=NARROW_BYTES if is_narrow else FLOAT_BYTES,
        memory=StepMemory(passes, update, narrow, whole(held.get("kept"))),
    )


def find_loading(reader: ProcessReader) -> ScriptLoading | None:
    """Return how a script waited for its loader in all iterations but the first; None where no loader was seen."""
    loader = reader.trained_loader
    progress = reader.progress
    if loader is None or not reader.sees_waits or not progress.later:
        return None
    return ScriptLoading(progress.data_ns / progress.later / 1e9, loader.workers or 0)
