"""What a watched training does with memory: what it keeps, has handed out again and again, and has looked through."""

from __future__ import annotations

from math import sqrt

from laptime.analysis.diagnosis.findings import FAULTS_BYTES_A_STEP, FAULTS_SHARE
from laptime.analysis.diagnosis.lane_readings import FAULT_NS
from laptime.analysis.diagnosis.script_shares import is_on_card, longest_line, share_of, words_at
from laptime.model.machine import Machine
from laptime.model.quantities import count, percent, size
from laptime.model.record import Finding, PredictedGain
from laptime.model.script import ScriptProcess, TrainingLoop

MORE_TENSORS = 0.5  # alive with each step: something keeps them
GRAPH = "graph"
SUM = "sum"
KEPT_WORDS = {  # what the last item of a list is: how it is named, and what to do
    GRAPH: (
        "a tensor with its graph",
        "Keep the number only: losses.append(loss.item()), or the tensor without its graph: loss.detach().",
    ),
    SUM: (
        "a loss with its graph",
        "Add the number only: total += loss.item(), or the tensor without its graph: total += loss.detach().",
    ),
    "tensor": ("a tensor", "Keep fewer of them, or write them to a file."),
}
OTHER_KEPT = ("an item", "Keep fewer of them, or write them to a file.")
KEPT_SOMEWHERE = "Look for what is kept from step to step: lists, caches, hooks, figures."
COLLECTED_MUCH = 0.05  # of an iteration
COLLECTS_ITSELF = "collect"  # what a line calls of which another rule says more
LONGEST_GAIN = 50.0  # times: an iteration that grows without end may become as slow as one waits for
KEEP_FREED = (
    "Keep freed memory in the process: laptime.keep_memory() at its top, or start it with "
    "MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=68719476736."
)
FREEZE = "Call gc.freeze() once, in front of the loop: what was made before is not looked through again."
LET_GO = "Let go of what one iteration hands to the next: hidden = hidden.detach()."


def memory_grows(process: ScriptProcess, _loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Memory becomes more with each iteration, or a list keeps tensors together with all that they were made of."""
    on_card = process.card_memory
    trends = [trend for trend in (on_card, process.memory) if trend is not None and trend.grows]
    trend = trends[0] if trends else None
    longer = [grown for grown in process.lists if trend is not None or grown.holds in {GRAPH, SUM}]
    if trend is None and not longer:
        return None
    what = "The memory of the card" if trend is on_card and trend is not None else "Memory"
    by = "" if trend is None else f" by {size(trend.bytes_each)} ({size(trend.low)} to {size(trend.high)})"
    says = f"{what} grows{by} an iteration" if by else f"{what} grows"
    advice = KEPT_SOMEWHERE
    if longer:
        kept, advice = KEPT_WORDS.get(longer[0].holds, OTHER_KEPT)
        says += f": in each step, {longer[0].where} adds {kept} to `{longer[0].name}`"
    evidence: dict[str, object] = {"share": 0.0, "tensors_per_step": process.tensors_per_step}  # it costs no time yet
    if not longer and process.tensors_per_step is not None and process.tensors_per_step >= MORE_TENSORS:
        says += f": with each step, {count(process.tensors_per_step)} more tensors are alive"
    if trend is not None:
        evidence |= {"bytes_each": trend.bytes_each, "low": trend.low, "high": trend.high}
    if longer:
        evidence |= {"list": longer[0].name, "holds": longer[0].holds}
    return Finding(
        "script memory grows", f"{says}.", evidence, advice, "likely", where=longer[0].where if longer else None
    )


def gives_memory_back(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """Memory that was freed is handed out again, page by page. What memory grows by is handed out for good."""
    if process.faults is None or loop.step_ms is None or is_on_card(process):
        return None
    grown = process.memory.bytes_each if process.memory is not None and process.memory.grows else 0.0
    pages = process.faults - grown / machine.page_bytes
    threads = max((optimizer.threads or 1 for optimizer in process.optimizers), default=1)
    share = pages * FAULT_NS / sqrt(min(threads, machine.processor.cores_usable)) / 1e6 / loop.step_ms.median
    if share < FAULTS_SHARE or pages * machine.page_bytes < FAULTS_BYTES_A_STEP:
        return None
    return Finding(
        "script gives memory back",
        f"{percent(min(share, 1.0))} of an iteration, the system hands out memory again that was given back "
        f"({size(pages * machine.page_bytes)}).",
        {"share": min(share, 1.0), "pages": pages},
        KEEP_FREED,
        "likely",
        rewrite="keep_memory",
    )


def collects_garbage(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Python looks through all that was made, such as the items of a data set, each time that it has made some more."""
    if process.collected_ns is None or loop.step_ms is None:
        return None
    share = process.collected_ns / 1e6 / loop.step_ms.median
    if share < COLLECTED_MUCH or any(
        call.rpartition(".")[2] == COLLECTS_ITSELF for line in process.lines for call in line.calls
    ):
        return None
    return Finding(
        "script collects garbage",
        f"{percent(min(share, 1.0))} of an iteration, Python looks for garbage in all that the script has made.",
        {"share": min(share, 1.0)},
        FREEZE,
        "likely",
    )


def keeps_graphs(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Each backward pass goes through all iterations before, as something is handed from one to the next."""
    graph = process.graph
    if graph is None or not graph.per_step or loop.step_ms is None:
        return None
    mean = graph.nodes + graph.per_step * loop.iterations / 2
    passes = share_of(loop.steady.forward_backward_s, loop.steady)
    share = passes * (1 - graph.per_step / mean)
    line = longest_line(process, "backward")
    return Finding(
        "script keeps graphs",
        f"Each backward pass{words_at(None if line is None else line.where)} goes through the iterations before: with "
        f"each, {count(graph.per_step)} more steps of computing are behind the loss.",
        {"share": share, "per_step": graph.per_step},
        LET_GO,
        "likely",
        where=None if line is None else line.where,
        gain=PredictedGain(1 / max(1 - share, 1 / LONGEST_GAIN), LONGEST_GAIN),
    )
