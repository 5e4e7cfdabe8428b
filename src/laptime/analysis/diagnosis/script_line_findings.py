"""What single lines of a watched script show: what they do that costs time, how often they run, what runs twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from laptime.analysis.diagnosis.script_gains import ANY_ROOM, by_leaving_out, by_part
from laptime.analysis.diagnosis.script_shares import is_on_card, share_of
from laptime.analysis.script_lines import by_line, shares_of_lines
from laptime.model.machine import Machine
from laptime.model.quantities import Missing, count, percent, size
from laptime.model.record import Finding, PredictedGain
from laptime.model.script import ScriptProcess, SeenLine, SpanPart, TrainingLoop

LINES_MUCH = 0.1  # of an iteration
LOOP_SAVES = 0.9  # of its time
LOOP_RUNS = 32  # times in an iteration: a loop of the script's own
ROOM_LEFT = 0.5  # of the memory may be used where computing again is said to be needless
CHECKPOINTED = frozenset({"checkpoint", "checkpoint_sequential"})  # of torch.utils.checkpoint
NOT_IN_FORWARD: tuple[SpanPart, ...] = ("outside", "no_grad", "optimizer", "unattributed", "disk")
OF_COMPUTING: tuple[SpanPart, ...] = ("forward", *NOT_IN_FORWARD)
OF_LOOPS = tuple(part for part in OF_COMPUTING if part != "optimizer")  # a long loop counts with what follows it there


@dataclass(frozen=True, slots=True)
class LineKind:
    """What a line does, by the names of what it calls: `print`, `gc.collect`, or `.clone` of whatever it may be.

    Names of what is `outside` may be part of a model as well, and count only where no forward pass is. Where it calls
    anything but these and what may be `next_to` them, it is of no such kind. Where that is None, it may call anything
    else: its own part of the time is far larger.
    """

    rule: str
    calls: frozenset[str]
    says: str
    advice: str
    outside: frozenset[str] = frozenset()
    next_to: frozenset[str] | None = None

    def has(self, line: SeenLine) -> bool:
        names = {f".{name.rpartition('.')[2]}" if "." in name else name for name in line.calls}
        calls = self.calls | (self.outside if line.part in NOT_IN_FORWARD else frozenset())
        is_alone = self.next_to is None or names <= self.next_to | calls
        return line.part in OF_COMPUTING and bool(calls & (names | {*line.calls})) and is_alone


LINE_KINDS = (
    LineKind(
        "script copies",
        frozenset({".clone", ".contiguous", ".to", ".float", ".double", ".half", ".bfloat16", ".type"}),
        "copying tensors",
        "Leave out the copies that nothing needs: .clone() always makes one, .to() and .contiguous() where something "
        "changes.",
        next_to=frozenset(
            {".view", ".reshape", ".permute", ".transpose", ".t", ".flatten", ".squeeze", ".unsqueeze", ".expand"}
            | {".detach", ".size"}
        ),
    ),
    LineKind(
        "script line",
        frozenset({"deepcopy", ".deepcopy", ".state_dict", ".load_state_dict"}),
        "copying the whole model",
        "Do it every few hundred iterations; an average of weights is kept in place by torch.optim.swa_utils.",
    ),
    LineKind(
        "script line",
        frozenset({"gc.collect", ".collect", ".empty_cache"}),
        "giving memory back that the next iteration asks for again",
        "Leave it out.",
    ),
    LineKind(
        "script line",
        frozenset({"sleep", ".sleep", "urlopen", ".urlopen", "requests.get", "requests.post", "urlretrieve"}),
        "waiting for what computes nothing",
        "Leave it out, or do it in a thread.",
    ),
    LineKind(
        "script line",
        frozenset(
            {".accuracy_score", ".f1_score", ".confusion_matrix", ".roc_auc_score", ".classification_report"}
            | {"accuracy_score", "f1_score", "confusion_matrix", "roc_auc_score", "classification_report"}
        ),
        "computing metrics",
        "Compute them once an epoch, or on a part of the data.",
    ),
    LineKind(
        "script line",
        frozenset(
            {"print", ".write", ".writelines", ".writerow", ".dump", ".dumps", ".savefig", ".imsave", ".imwrite"}
            | {"save_image", ".save_image", ".to_csv", ".savetxt", ".add_scalar", ".add_scalars", ".add_image"}
            | {".flush", ".fsync", ".add_histogram"}
        ),
        "writing what is logged",
        "Log every few hundred iterations only.",
        outside=frozenset({".save", ".log", ".info", "plot", ".plot"}),
    ),
    LineKind(
        "script line",
        frozenset({".histc", ".histogram"}),
        "computing statistics",
        "Compute them every few hundred iterations only.",
        outside=frozenset({".quantile", ".unique", ".isnan", ".isinf", ".isfinite", ".norm", ".sort"}),
    ),
)


def does_what_costs(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Lines that do the same, such as copying, take much of an iteration together."""
    reading = {read.where for read in process.reads}  # of these, the rule of what is outside of the step says more
    shares = [
        (line, share)
        for line, share in shares_of_lines(process.lines, loop.steady)
        if line.where not in reading or line.part != "outside"
    ]
    of_kinds: defaultdict[LineKind, list[tuple[SeenLine, float]]] = defaultdict(list)
    for line, share in shares:
        kind = next((kind for kind in LINE_KINDS if kind.has(line)), None)
        if kind is not None and not (kind.rule == "script copies" and is_on_card(process)):
            of_kinds[kind].append((line, share))
    kind, found = max(of_kinds.items(), key=lambda pair: _sum(pair[1]), default=(None, []))
    return None if kind is None else _described(kind.rule, kind.says, kind.advice, found)


def loops_in_python(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Lines run very often in each iteration, and take much of it together."""
    shares = shares_of_lines(process.lines, loop.steady)
    found = [(line, share) for line, share in shares if (line.per_step or 0) >= LOOP_RUNS and line.part in OF_LOOPS]
    if not found:
        return None
    often = max(found, key=lambda pair: pair[1])[0].per_step or 0
    says = f"a loop in Python that runs at least {count(often)} times in each"
    finding = _described("script loop", says, "Compute it for all at once, with operations on whole tensors.", found)
    if finding is None:
        return None
    # What a loop computes in a forward pass, the backward pass goes through once more.
    behind = sum(line.share for line, _ in found if line.part == "forward") * share_of(
        loop.steady.backward_s, loop.steady
    )
    share = finding.evidence["share"]
    gain = PredictedGain(by_part(LOOP_SAVES)(share, ANY_ROOM).likely, by_leaving_out(share + behind, ANY_ROOM).most)
    return replace(finding, gain=gain)


def recomputes(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """The backward pass computes again what the forward pass did not keep, and there is memory to keep it."""
    shares = shares_of_lines(process.lines, loop.steady)
    checkpointing = [
        (line, share) for line, share in shares if CHECKPOINTED & {call.rpartition(".")[2] for call in line.calls}
    ]
    if not checkpointing:
        return None
    forward = {line.where for line, _ in shares if line.part == "forward"}
    again = _sum((line, share) for line, share in shares if line.part == "backward" and line.where in forward)
    share = max(again, _sum((line, share) for line, share in checkpointing if line.part == "forward"))
    used = process.memory
    limit = machine.memory_limit_bytes
    whole = machine.memory_bytes if isinstance(limit, Missing) else min(limit, machine.memory_bytes)
    has_room = used is None or used.last_bytes < ROOM_LEFT * whole
    if share < LINES_MUCH or not has_room or is_on_card(process):
        return None
    where = max(checkpointing, key=lambda pair: pair[1])[0].where
    room = "" if used is None else f": {size(used.last_bytes)} of {size(whole)} are used"
    return Finding(
        "script recomputes",
        f"{percent(share)} of an iteration, the backward pass computes again what was computed before ({where}), "
        f"although there is memory to keep it{room}.",
        {"share": share, "part": "backward"},
        "Leave out torch.utils.checkpoint as long as memory has room.",
        "likely",
        rewrite="no_checkpoint",
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
