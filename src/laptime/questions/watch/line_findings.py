"""What single lines of a watched script show: what they do that costs time, how often they run, what runs twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from laptime.model.machine import Machine
from laptime.model.quantities import Missing, count, percent, size
from laptime.model.record import Finding
from laptime.model.script import ScriptProcess, SeenLine, SpanPart, TrainingLoop
from laptime.questions.watch.shares import by_line, is_on_card, shares_of_lines

LINES_MUCH = 0.1  # of an iteration
RUNS_OFTEN = 32  # times in an iteration: a loop of the script's own
ROOM_LEFT = 0.5  # of the memory may be used where computing again is said to be needless
CHECKPOINTED = frozenset({"checkpoint", "checkpoint_sequential"})  # of torch.utils.checkpoint
NOT_IN_FORWARD: tuple[SpanPart, ...] = ("outside", "no_grad", "optimizer", "unattributed", "disk")
COMPUTING: tuple[SpanPart, ...] = ("forward", *NOT_IN_FORWARD)


@dataclass(frozen=True, slots=True)
class LineKind:
    """What a line does, by the names of what it calls. Where it calls anything but `beside`, it is of no such kind.

    Without `beside`, it may call anything else: its own part of the time is far larger.
    """

    rule: str
    calls: frozenset[str]
    says: str
    advice: str
    parts: tuple[SpanPart, ...] = COMPUTING
    beside: frozenset[str] | None = None

    def has(self, line: SeenLine) -> bool:
        names = {name.rpartition(".")[2] for name in line.calls}
        found = self.calls & (names | {*line.calls})
        return line.part in self.parts and bool(found) and (self.beside is None or names <= self.beside | self.calls)


LINE_KINDS = (
    LineKind(
        "script copies",
        frozenset({"clone", "contiguous", "to", "float", "double", "half", "bfloat16", "type"}),
        "copying tensors",
        "Leave out the copies that nothing needs: .clone() always makes one, .to() and .contiguous() where something "
        "changes.",
        beside=frozenset(
            {"view", "reshape", "permute", "transpose", "flatten", "squeeze", "unsqueeze", "expand", "detach", "size"}
        ),
    ),
    LineKind(
        "script line",
        frozenset({"deepcopy", "state_dict", "load_state_dict"}),
        "copying the whole model",
        "Do it every few hundred iterations; an average of weights is kept in place by torch.optim.swa_utils.",
    ),
    LineKind(
        "script line",
        frozenset({"gc.collect", "empty_cache"}),
        "giving memory back that the next iteration asks for again",
        "Leave it out.",
    ),
    LineKind(
        "script line",
        frozenset({"time.sleep", "sleep", "urlopen", "requests.get", "requests.post", "urlretrieve"}),
        "waiting for what computes nothing",
        "Leave it out, or do it in a thread.",
    ),
    LineKind(
        "script line",
        frozenset({"histc", "histogram", "add_histogram", "quantile", "unique"} | {"isnan", "isinf", "isfinite"}),
        "computing statistics",
        "Compute them every few hundred iterations only.",
        parts=NOT_IN_FORWARD,
    ),
    LineKind(
        "script line",
        frozenset({"accuracy_score", "f1_score", "confusion_matrix", "roc_auc_score", "classification_report"}),
        "computing metrics",
        "Compute them once an epoch, or on a part of the data.",
    ),
    LineKind(
        "script line",
        frozenset(
            {"print", "write", "writelines", "writerow", "dump", "dumps", "savefig", "imsave", "imwrite", "save"}
            | {"to_csv", "savetxt", "add_scalar", "add_scalars", "add_image", "log", "info", "flush", "fsync"}
        ),
        "writing what is logged",
        "Log every few hundred iterations only.",
        parts=NOT_IN_FORWARD,
    ),
)


def does_what_costs(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Lines that do the same, such as copying, take much of an iteration together."""
    reading = {each.where for each in process.reads}  # of these, another rule says more
    shares = [(line, share) for line, share in shares_of_lines(process, loop) if line.where not in reading]
    of_kinds: defaultdict[LineKind, list[tuple[SeenLine, float]]] = defaultdict(list)
    for line, share in shares:
        kind = next((kind for kind in LINE_KINDS if kind.has(line)), None)
        if kind is not None and not (kind.rule == "script copies" and is_on_card(process)):
            of_kinds[kind].append((line, share))
    kind, found = max(of_kinds.items(), key=lambda pair: _sum(pair[1]), default=(None, []))
    return None if kind is None else _described(kind.rule, kind.says, kind.advice, found)


def loops_in_python(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Lines run very often in each iteration, and take much of it together."""
    shares = shares_of_lines(process, loop)
    found = [(line, share) for line, share in shares if line.per_step >= RUNS_OFTEN and line.part in COMPUTING]
    if not found:
        return None
    often = max(found, key=lambda pair: pair[1])[0].per_step
    says = f"a loop in Python that runs {count(often)} times in each"
    return _described("script loop", says, "Compute it for all at once, with operations on whole tensors.", found)


def recomputes(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """The backward pass computes again what the forward pass did not keep, and there is memory to keep it."""
    shares = shares_of_lines(process, loop)
    checkpointing = [(line, share) for line, share in shares if CHECKPOINTED & {_last(each) for each in line.calls}]
    if not checkpointing:
        return None
    forward = {line.where for line, _ in shares if line.part == "forward"}
    again = _sum((line, share) for line, share in shares if line.part == "backward" and line.where in forward)
    share = max(again, _sum((line, share) for line, share in checkpointing if line.part == "forward"))
    used, whole = process.memory, machine.memory_bytes
    has_room = used is None or isinstance(whole, Missing) or used.last_bytes < ROOM_LEFT * whole
    if share < LINES_MUCH or not has_room or is_on_card(process):
        return None
    where = max(checkpointing, key=lambda pair: pair[1])[0].where
    room = "" if used is None or isinstance(whole, Missing) else f": {size(used.last_bytes)} of {size(whole)} are used"
    return Finding(
        "script recomputes",
        f"{percent(share)} of an iteration, the backward pass computes again what was computed before ({where}), "
        f"although there is memory to keep it{room}.",
        {"share": share, "part": "backward"},
        "Leave out torch.utils.checkpoint as long as memory has room.",
        "likely",
        where=where,
    )


def _described(rule: str, says: str, advice: str, found: list[tuple[SeenLine, float]]) -> Finding | None:
    """Say what lines do together; None where they take little."""
    share = _sum(found)
    if share < LINES_MUCH:
        return None
    (where, _), *others = by_line(found)
    more = f" and {len(others)} other line{'s' * (len(others) != 1)}" if others else ""
    line = max(found, key=lambda pair: pair[1])[0]
    return Finding(
        rule,
        f"{percent(share)} of an iteration is {says} ({where}{more}).",
        {"share": share, "part": line.part},
        advice,
        "likely",
        where=where,
    )


def _sum(found: Iterable[tuple[SeenLine, float]]) -> float:
    return sum(share for _, share in found)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
