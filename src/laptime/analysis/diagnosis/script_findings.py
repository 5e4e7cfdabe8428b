"""What is conspicuous in a watched script: a table of rules, one row each. All are likely, none is proven: no
experiment was made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from laptime.analysis.diagnosis.findings import DENORMALS, FLUSH_LINE, LOOK, SLOWS_DOWN, describe_state, figures_of
from laptime.analysis.diagnosis.script_computing import (
    LEFT_ON,
    computes_in_double,
    computes_in_halves,
    finds_anomalies,
    has_one_thread,
    has_slow_optimizer,
    has_too_many_threads,
    holds_the_lock,
    is_slowed_by_setting,
    lacks_mkldnn,
    makes_graph,
    takes_small_batches,
)
from laptime.analysis.diagnosis.script_gains import (
    ANY_ROOM,
    GainOfShare,
    Room,
    by_leaving_out,
    by_part,
    by_workers,
    of_whole,
    with_doubt,
)
from laptime.analysis.diagnosis.script_line_findings import does_what_costs, loops_in_python, recomputes
from laptime.analysis.diagnosis.script_memory import (
    collects_garbage,
    gives_memory_back,
    keeps_graphs,
    memory_grows,
)
from laptime.analysis.diagnosis.script_shares import longest_line, share_of, words_at
from laptime.analysis.script_lines import shares_of_lines
from laptime.analysis.step_states import find_loop_state, loss_around
from laptime.model.machine import Machine
from laptime.model.quantities import Missing, brief, count, percent, times
from laptime.model.record import Finding, PredictedGain
from laptime.model.script import GapKind, ScriptProcess, SeenLine, SpanPart, TrainingLoop
from laptime.model.symptoms import CHECKPOINTS, DISK, EVALUATION, TimedPlace
from laptime.model.watched import WatchAnswer

CLEARLY_SLOWER = 1.5  # times: a script that learns nothing may be slowed down by another process
WAITS_SOME = 0.05
WAITS_MUCH = 0.5
MADE_MOSTLY = 0.7  # of an iteration: faster steps would soon wait
OUTSIDE_MUCH = 0.2
GAP_MUCH = 0.1
OTHER_MUCH = 0.2
OTHER_LEAST_S = 0.5  # what has no name is said where it is long enough for a user to look for it
ANEW_MUCH = 0.5  # of the batches are the first ones of a loader that was started for them
WITHOUT_MUCH = 0.1
SAVES_MUCH = 0.1
BETWEEN_WORDS: dict[GapKind, str] = {"validation": "validation", "checkpoint": "writing checkpoints"}
SKEWED = 1.2
KERAS_DATA = {  # what Keras makes of data that the script's own code fetches, and what to do with that code
    "PyDatasetAdapter": "give your PyDataset",
    "GeneratorDataAdapter": "make your generator a PyDataset with",
}
LOAD_IN_WORKERS = (
    "Load in worker processes: DataLoader(..., num_workers=2, persistent_workers=True); "
    "laptime.auto(loader) finds how many."
)
LOAD_FASTER = (
    "Worker processes would gain little here. Make this line faster, or compute once what it makes: "
    "laptime.cached(dataset) keeps items."
)
KEEP_ITEMS = (
    "Worker processes would gain little here. Compute once what the data set makes: laptime.cached(dataset) keeps its "
    "items, where they are the same each time."
)
START_ONCE = (
    "Start it once: batches = iter(loader) in front of the loop, next(batches) in it, and iter(loader) again where "
    "that raises StopIteration."
)
MAKE_ONCE = "Make the loader once, in front of the loop over epochs: DataLoader(..., persistent_workers=True)."
KEEP_WORKERS = "Keep them: DataLoader(..., persistent_workers=True)."
FLUSH = f"{FLUSH_LINE} makes the processor take them as 0."
FLUSHES = "flush_denormal"
WAIT_ELSEWHERE = "Fetch data in worker processes, as a DataLoader does; log every few steps only, or in a thread."
NO_ITEM = "no_item"
LOG_LESS = "Log every few steps only, and do not call .item() in each."
TAKE_ROWS_AT_ONCE = (
    "Its items are rows of tensors in memory, so take all rows of a batch at once: DataLoader(dataset, "
    "sampler=BatchSampler(RandomSampler(dataset), batch_size, False), batch_size=None)."
)
AHEAD_IN_TENSORFLOW = "Decode ahead: dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)."
SYNC_LESS = "Leave out os.fsync, or call it once an epoch: the system writes on its own."
# The change that does less often what a line does, of findings that name one and advise no other change.
DONE_LESS = dict.fromkeys(
    ("script line", "script outside the step", "script saves in its steps", "script waits for the disk",
     "script waits in a line", "script reads in each step", "script loop"),
    "seldom",
) | {"script between iterations": "some_turns"}  # fmt: skip
LOADER_CALLS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
# Findings whose place no line shows that takes time: the calls of the user's code that set it.
SET_BY: dict[str, tuple[str, ...]] = {
    "script on one thread": ("torch.set_num_threads",),
    "script has too many threads": ("torch.set_num_threads",),
    "script finds anomalies": ("torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"),
    "script without oneDNN": ("torch.backends.mkldnn.set_flags", "torch.backends.mkldnn.flags"),
    "script left on": tuple(call for left_on in LEFT_ON.values() for call in left_on.calls),
    "script restarts workers": LOADER_CALLS,
    "script small batches": LOADER_CALLS,
}
GAIN_LEAST = 1.05  # times: nothing is said of what would likely gain less
GAIN_MOST_LEAST = 1.15  # or at most
FUSED_SAVES = 0.6  # of the optimizer's time
CHECKS_TAKE = 0.6  # of the passes, at least
THREADS_SAVE = 0.5  # of what they could at most: not all of a step can be shared
CROWDED_SAVES = 0.3  # of the computing, where threads wait for each other
CROWDED_SAVES_MOST = 0.9
MKLDNN_SAVES = 0.5  # of the passes
MKLDNN_SAVES_MOST = 0.9
SYNC_COSTS_MOST = 1.7  # times the wait itself: what follows finds its core asleep, and its data gone
LOCK_COSTS_MOST = 10.0  # times what was idle: threads that wait for each other compute meanwhile, too
FAULTS_SAVE = 0.8  # of what they take: how long the system takes for a page is not measured
FAULTS_SAVE_MOST = 2.0
COLLECTED_SAVES_MOST = 1.3  # of the search itself: it leaves none of the training's data in the caches
COPIES_COST_MOST = 2.0  # times what the forward pass shows: the backward pass copies, too
ANEW_SAVES = 0.85  # of the wait for batches: these have to be made as before
ROWS_SAVE = 0.8  # of the wait
KEPT_SAVES = 0.3  # of the wait: it is not known whether items are the same each time
SAVES_CLEARLY_MORE = 1.5  # times the time: another advice takes the place of a rule's own
TURNS_SAVE = 0.9  # of what is done in every tenth turn
LINE_SAVES = 0.7  # of a line's time, where it is written for speed
SAME_TIME = 0.5  # of the share of a general finding: what says more of it takes its place
HALVES_SAVE = 0.5  # of the computing
HALVES_SAVE_MOST = 0.95
SINGLE_AT_MOST = 1.6  # times what half of the computing is: float32 may gain more than its bytes
Rule = Callable[[ScriptProcess, TrainingLoop, Machine], Finding | None]


@dataclass(frozen=True, slots=True)
class ScriptRule:
    """One rule, and when it does not apply it returns None. A `share` is that of an iteration, or `of_all` the time.

    What `needs_quiet` other processes can bring about as well: it is not judged where they took the processor. `gain`
    is what its advice gains of this share; without it, the finding is no matter of a part of the time, or says itself.
    A general rule, which says in which `part` the time is, gives way to one that says what it is spent on. Where its
    advice gains clearly less here than `otherwise`, this is what the same finding advises.
    """

    name: str
    judge: Rule
    of_all: bool = False
    needs_quiet: bool = False
    gain: GainOfShare | None = None
    part: SpanPart | None = None
    otherwise: Callable[[Finding], Finding | None] | None = None


def script_findings(
    answer: WatchAnswer, machine: Machine, *, is_quiet: bool, denormal_times: float | None = None
) -> tuple[Finding, ...]:
    """Return what the rules find in the first process that trained; what its advice gains most by is first.

    `denormal_times` is how many times as long this processor computes with denormal numbers, where that was timed.
    """
    found: list[Finding] = []
    if answer.processes:
        first = answer.processes[0]
        if isinstance(first.loop, TrainingLoop):
            busy = 0.0 if answer.usage is None else answer.usage.processor_percent
            busy = 0.0 if isinstance(busy, Missing) else busy / 100
            found = _ranked(first, first.loop, machine, busy, is_quiet=is_quiet)
        if denormal_times is not None:
            judged = [_with_cost(finding, denormal_times) for finding in found]
            found = [finding for finding in judged if finding is not None]
    skew = answer.skew
    if skew is not None and skew.spread >= SKEWED and skew.is_above(1):
        skewed = Finding(
            "script straggler",
            f"The other ranks wait for rank {skew.slowest}: its own part of an iteration takes {skew.spread:.1f} times "
            f"({skew.low:.1f} to {skew.high:.1f}) as long as that of the fastest.",
            {"own_ms": dict(zip(map(str, skew.ranks), skew.own_ms, strict=True)), "low": skew.low, "high": skew.high},
            "Look at that rank's data and at what else its device and its cores do.",
            "likely",
        )
        found.insert(0, skewed)
    return tuple(found)


def _ranked(
    process: ScriptProcess, loop: TrainingLoop, machine: Machine, busy: float, *, is_quiet: bool
) -> list[Finding]:
    """Return what the rules find, but what would gain too little. What gains most is first; without a share, it is all.

    The gain is that of the whole training, and counts the time between its iterations, too.
    """
    rules = SCRIPT_RULES if loop.step_ms is not None else RULES_OF_ANY  # too few iterations show nothing
    within = 1 - _gaps_share(loop)
    judged = [
        (rule, finding)
        for rule in rules
        if (is_quiet or not rule.needs_quiet) and (finding := rule.judge(process, loop, machine)) is not None
    ]
    said_more = [
        (finding, other)
        for rule, finding in judged
        for _, other in judged
        if rule.part is not None and _says_more(other, finding, rule.part)
    ]
    general = [finding for finding, _ in said_more]
    # Lines are timed in a few iterations only: all of the part in which they are may be theirs.
    at_most = {other.rule: by_leaving_out(finding.evidence["share"], ANY_ROOM).most for finding, other in said_more}
    found: list[tuple[float, Finding]] = []
    threads = max(
        (optimizer.threads or 0 for optimizer in process.optimizers if optimizer.parameters.keys() <= {"cpu"}),
        default=0,
    )
    cores = machine.processor.cores_usable
    room = None if loop.step_ms is None else Room(loop.step_ms.median, busy, threads, cores)
    for rule, finding in judged:
        if finding in general:
            continue
        share = finding.evidence.get("share")
        has_gain = rule.gain is not None or finding.gain is not None
        if not has_gain or share is None or room is None:
            # What is no matter of time is first, and what takes a time that is not known comes behind known ones.
            found.append(((not has_gain) * 1.0 if share is None else share * within, finding))
            continue
        ways: list[tuple[PredictedGain, Finding]] = []
        for way in filter(None, [finding, rule.otherwise and rule.otherwise(finding)]):
            alone = way.gain
            if alone is None and rule.gain is not None:
                alone = rule.gain(way.evidence["share"], replace(room, waited=way.evidence.get("waited")))
            assert alone is not None
            most = max(alone.most, at_most.get(way.rule, 1.0))
            part = 1.0 if rule.of_all else within
            ways.append((PredictedGain(of_whole(alone.likely, part), of_whole(most, part)), way))
        (gain, way), *others = ways
        for other in others:
            if 1 - 1 / other[0].likely > SAVES_CLEARLY_MORE * (1 - 1 / gain.likely):
                gain, way = other
        if gain.likely >= GAIN_LEAST and gain.most >= GAIN_MOST_LEAST:
            # What slows all that was seen is first: without it, the shares of the others are other ones.
            is_first = way.evidence.get("of_all_that_is_seen", False)
            found.append((1 - 1 / gain.likely + is_first, replace(way, gain=with_doubt(gain))))
    return [finding for _, finding in sorted(found, key=lambda pair: -pair[0])]


def _says_more(other: Finding, finding: Finding, part: SpanPart) -> bool:
    """Whether another finding says what most of the time is spent on, of which one says the part alone."""
    same = other.evidence.get("part") in {part, "any"} or (other.where is not None and other.where == finding.where)
    is_large = other.evidence.get("share", 0.0) >= SAME_TIME * finding.evidence["share"]
    return "part" in other.evidence and same and is_large


def _not_on_card(process: ScriptProcess, _loop: TrainingLoop, machine: Machine) -> Finding | None:
    devices = {name for optimizer in process.optimizers for name in optimizer.parameters}
    cards = [card for card in machine.cards if card.computes and card.reason is None]
    if not cards or not devices or devices != {"cpu"}:
        return None
    name = cards[0].name if isinstance(cards[0].name, str) else "a card"
    return Finding(
        "script on processor",
        f"The model is on the processor, although this machine has {name}.",
        {"devices": sorted(devices)},
        "laptime devices --check says whether the card can be used; then move model and batches to it.",
        "likely",
    )


def _has_denormals(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Its numbers have become denormal, and that costs time."""
    return _describe_slow(process, loop) if process.census is not None and process.census.costs else None


def _with_cost(finding: Finding, denormal_times: float) -> Finding | None:
    """Add what denormal numbers cost on this processor; None where they cost next to nothing."""
    if "of" not in finding.evidence or finding.rewrite != FLUSHES:
        return finding
    if denormal_times < GAIN_MOST_LEAST:
        return None
    says = f"{finding.says.rstrip('.')}, and this processor takes up to {times(denormal_times)} as long with them."
    return replace(finding, says=says, evidence={**finding.evidence, "denormal_times": denormal_times})


def _slows_down(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Its iterations become slow while it learns, and no other rule says why."""
    keeps_graphs = process.graph is not None and process.graph.per_step > 0
    if keeps_graphs or (process.census is not None and process.census.costs):
        return None
    return _describe_slow(process, loop)


def _describe_slow(process: ScriptProcess, loop: TrainingLoop) -> Finding | None:
    state = find_loop_state(loop)
    census = process.census
    fell = None if state is None else loss_around(loop, state)
    costs = census is not None and census.costs
    falls = fell is None or fell[1] < fell[0]
    if not costs and (state is None or not (falls or state.times_low >= CLEARLY_SLOWER)):
        return None
    says = "" if state is None else describe_state(state, "iteration")
    if state is not None and fell is not None and falls:
        says += f", while its loss goes from {brief(fell[0])} to {brief(fell[1])}"
    evidence: dict[str, object] = {} if state is None else figures_of(state)
    if census is not None:
        share, kind = census.worst
        evidence |= {"denormals": share, "of": kind}
        if costs:
            says += f"{': ' if says else ''}{percent(share)} of the {kind} are denormal numbers"
        else:
            says += "; denormal numbers are not the reason" + (": they count as 0" if census.flushed else "")
    return Finding(
        SLOWS_DOWN if state else DENORMALS,
        f"{says[:1].upper()}{says[1:]}.",
        evidence,
        FLUSH if costs else LOOK,
        "likely",
        rewrite=FLUSHES if costs else "",
    )


def _waits(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    share = share_of(loop.steady.data_wait_s, loop.steady)
    line = longest_line(process, "data")
    says = f"{percent(share)} of an iteration is waiting for data{_share_at(line)}."
    if loop.made_share >= MADE_MOSTLY and share < WAITS_MUCH:  # both want Python's lock, so that the step waits, too
        share = loop.made_share
        says = f"A thread makes batches for {percent(share)} of an iteration{_share_at(line)}: no step can be shorter."
    if share < WAITS_SOME or loop.started_anew >= ANEW_MUCH:
        return None
    workers = {loader.workers for loader in process.loaders if loader.workers is not None}
    cores = machine.processor.cores_usable
    advice = "Try more workers, faster decoding, or data that were decoded before."
    rewrite = ""
    gain = None
    keras = next((KERAS_DATA[loader.kind] for loader in process.loaders if loader.kind in KERAS_DATA), None)
    if keras is not None:  # Keras's own loader of it has no workers
        advice = f"Fetch ahead: {keras} workers=2, use_multiprocessing=True."
    elif not process.loaders and "tensorflow" in process.versions:
        advice = AHEAD_IN_TENSORFLOW
    elif workers == {0} and all(loader.is_in_memory for loader in process.loaders if loader.workers is not None):
        advice = TAKE_ROWS_AT_ONCE
        gain = by_part(ROWS_SAVE)(share, ANY_ROOM)
    elif workers == {0}:
        advice = LOAD_IN_WORKERS
        rewrite = "workers=2"
    elif workers and max(workers) >= cores:
        use = f"{max(workers)} workers and the training share {cores} core{'s' * (cores != 1)}"
        advice = f"{use}: more of them gain nothing. Decode faster, or keep data that were decoded before."
    return Finding(
        "script waits for data",
        says,
        {
            "share": share,
            "workers": sorted(workers),
            **_evidence_of(line),
            "waited": None if line is None else line.waited,
            "of_loop": bool(line and "for" in line.calls),
            "has_numbers": workers == {0} and not any(loader.is_iterable for loader in process.loaders),
        },
        advice,
        "likely",
        where=None if line is None else line.where,
        rewrite=rewrite,
        gain=gain,
    )


def _load_faster(finding: Finding) -> Finding | None:
    """Advise on the line that takes the wait, where workers gain too little. The loop over a loader can do nothing."""
    share = finding.evidence["share"]
    if finding.where is None or finding.evidence["of_loop"]:
        keeps = replace(finding, advice=KEEP_ITEMS, rewrite="", gain=by_part(KEPT_SAVES, 1.0)(share, ANY_ROOM))
        return keeps if finding.evidence["has_numbers"] and finding.gain is None else None
    of_part = finding.evidence["of_part"]
    gain = by_part(LINE_SAVES * of_part, 1.0)(share, ANY_ROOM)
    return replace(finding, advice=LOAD_FASTER, rewrite="", gain=gain)


def _share_at(line: SeenLine | None) -> str:
    return "" if line is None else f", {percent(line.share)} of it in {line.where}"


def _evidence_of(line: SeenLine | None) -> dict[str, object]:
    return {} if line is None else {"of_part": line.share}


def _slowest(places: tuple[TimedPlace, ...], *whats: str) -> str | None:
    """Return the line that takes longest of these; None where it is in a library."""
    return next((place.where for place in places if place.what in whats), None)


def _outside(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    share = share_of(loop.steady.outside_s, loop.steady)
    if share < OUTSIDE_MUCH:
        return None
    line = longest_line(process, "outside")
    where = None if line is None else line.where
    reads = sum(read.per_step for read in process.reads if read.where == where)
    what = "logging, metrics, or reading the loss"
    advice = LOG_LESS
    rewrite = NO_ITEM
    if reads:
        what = f"it reads {count(reads)} values of tensors"
    elif line is not None and line.waited >= WAITS_MUCH:
        what = "it waits, and nothing is computed"
        advice = WAIT_ELSEWHERE
        rewrite = ""
    return Finding(
        "script outside the step",
        f"{percent(share)} of an iteration is outside of the step{_share_at(line)}: {what}.",
        {"share": share, **_evidence_of(line), **({"reads": reads} if reads else {})},
        advice,
        "likely",
        rewrite=rewrite,
        where=where,
    )


def _reads(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """On a card, a line that reads a value waits until all is computed that was handed out before."""
    on_card = {name for optimizer in process.optimizers for name in optimizer.parameters} - {"cpu"}
    most = max(process.reads, key=lambda read: read.ms, default=None)
    if most is None or not on_card or loop.step_ms is None or most.ms < WAITS_SOME * loop.step_ms.median:
        return None
    share = min(1.0, most.ms / loop.step_ms.median)
    return Finding(
        "script reads in each step",
        f"{percent(share)} of an iteration is waiting for the card in {most.where}, which reads "
        f"{count(most.per_step)} value{'s' * (most.per_step != 1)} of tensors in a step.",
        {"share": share, "reads": most.per_step},
        LOG_LESS,
        "likely",
        rewrite=NO_ITEM,
        where=most.where,
    )


def _waits_in_a_line(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """In a loop without a loader, what logs or fetches runs where the next forward pass is seen."""
    steady = loop.steady
    forward = share_of(steady.forward_backward_s, steady) - share_of(steady.backward_s, steady)
    parts = {"forward": forward, "unattributed": share_of(steady.unattributed_s, steady)}
    waits: defaultdict[str, float] = defaultdict(float)
    for line in process.lines:
        waits[line.where] += line.waited * parts.get(line.part, 0.0)
    where, share = max(waits.items(), key=lambda pair: pair[1], default=("", 0.0))
    if share < WITHOUT_MUCH:
        return None
    return Finding(
        "script waits in a line",
        f"{percent(share)} of an iteration, {where} waits, and nothing is computed.",
        {"share": share},
        WAIT_ELSEWHERE,
        "likely",
        where=where,
    )


def _evaluates(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    share = share_of(loop.steady.no_grad_s, loop.steady)
    if share < WITHOUT_MUCH:
        return None
    where = _slowest(process.places, EVALUATION)
    reads = any(read.where == where for read in process.reads)
    what = "it reads or prints tensors" if reads else "evaluation, or metrics"
    return Finding(
        "script without gradients",
        f"{percent(share)} of an iteration, on average, computes no gradients: {what}{words_at(where)}.",
        {"share": share},
        LOG_LESS if reads else "Do it less often, or on a part of the data.",
        "likely",
        rewrite=NO_ITEM if reads else "",
        where=where,
    )


def _saves(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    share = share_of(loop.steady.checkpoint_s, loop.steady)
    if share < SAVES_MUCH:
        return None
    where = _slowest(process.places, CHECKPOINTS)
    return Finding(
        "script saves in its steps",
        f"{percent(share)} of an iteration, on average, is writing checkpoints{words_at(where)}.",
        {"share": share},
        "Write one every few hundred iterations, or once an epoch.",
        "likely",
        where=where,
    )


def _restarts(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    share = min(loop.restarts_s / (_all_s(loop) or 1.0), 1.0)
    of_torch = [loader for loader in process.loaders if loader.kind not in KERAS_DATA]  # which alone may keep them
    is_made_anew = any(loader.workers and of_torch.count(loader) > 1 for loader in of_torch)
    if (
        share < GAP_MUCH
        or loop.started_anew >= ANEW_MUCH
        or not (is_made_anew or any(loader.workers and not loader.keeps_workers for loader in of_torch))
    ):
        return None
    return Finding(
        "script restarts workers",
        f"{percent(share)} of the time, worker processes of the loader are started again for an epoch, and waited for.",
        {"share": share},
        MAKE_ONCE if is_made_anew else KEEP_WORKERS,
        "likely",
        rewrite="loader_made_once" if is_made_anew else "persistent_workers",
    )


def _starts_anew(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """`next(iter(loader))` in each iteration: all is shuffled again, and workers begin afresh, for a single batch."""
    if loop.started_anew < ANEW_MUCH:
        return None
    shares = shares_of_lines(process.lines, loop.steady)
    starting = [(line, share) for line, share in shares if "iter" in line.calls and line.part != "data"]
    waits = share_of(loop.steady.data_wait_s, loop.steady) + sum(share for _, share in starting)  # until workers end
    share = min(waits, 1.0) * (1 - _gaps_share(loop)) + _gaps_share(loop, "loader start", "between epochs")
    line = longest_line(process, "data") or max(starting, key=lambda pair: pair[1], default=(None, 0.0))[0]
    where = None if line is None else line.where
    return Finding(
        "script restarts its loader",
        f"Each iteration starts the data loader again, for its first batch{words_at(where)}: "
        f"{percent(share)} of the time.",
        {"share": share},
        START_ONCE,
        "likely",
        rewrite="loader_started_once",
        where=where,
    )


def _validates(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Validation, or checkpoints, and what else is done between iterations: metrics of a validation, plots, a log.

    Where workers start again, that takes the other time.
    """
    shares = {kind: _gaps_share(loop, kind) for kind in BETWEEN_WORDS}
    kind, named = max(shares.items(), key=lambda pair: pair[1])
    starts_again = loop.restarts_s > 0 or loop.started_anew >= ANEW_MUCH
    other = 0.0 if starts_again else _gaps_share(loop, "between epochs")
    where = _slowest(process.between, *((EVALUATION,) if kind == "validation" else (CHECKPOINTS, DISK)))
    if named >= GAP_MUCH > other:
        share = named
        says = f"{BETWEEN_WORDS[kind]}, between iterations{words_at(where)}"
    elif named >= GAP_MUCH:
        share = named + other
        says = (
            f"between iterations: {percent(named)} {BETWEEN_WORDS[kind]}{words_at(where)}, {percent(other)} other work"
        )
    elif other >= OTHER_MUCH and other * _all_s(loop) >= OTHER_LEAST_S:
        share = other
        where = None
        says = "between iterations, and neither validation nor checkpoints"
    else:
        return None
    return Finding(
        "script between iterations",
        f"{percent(share)} of the time is {says}.",
        {"share": share, "kind": kind},
        "Do it less often, or on a part of the data.",
        "likely",
        where=where,
    )


def _waits_for_disk(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    waits = [place for place in process.places if place.what == DISK]
    share = sum(wait.ns for wait in waits) / 1e9 / loop.whole.wall_s if loop.whole.wall_s else 0.0
    if share < GAP_MUCH:
        return None
    longest = max(waits, key=lambda wait: wait.ns)
    return Finding(
        "script waits for the disk",
        f"{percent(share)} of an iteration, on average, is waiting until the disk has what was written"
        f"{words_at(longest.where)}.",
        {"share": share, "part": "any"},
        SYNC_LESS,
        "likely",
        where=longest.where,
    )


def _gaps_share(loop: TrainingLoop, *kinds: GapKind | str) -> float:
    """Return which part of the time is gaps of these kinds, or all of them."""
    gap_s = sum(gap.seconds for gap in loop.gaps if not kinds or gap.kind in kinds)
    return gap_s / (_all_s(loop) or 1.0)


def _all_s(loop: TrainingLoop) -> float:
    return loop.whole.wall_s + sum(gap.seconds for gap in loop.gaps)


RULES_OF_ANY = (ScriptRule("not on the card", _not_on_card),)
SCRIPT_RULES = (
    ScriptRule("has denormal numbers", _has_denormals, of_all=True, gain=by_leaving_out),
    ScriptRule("slows down", _slows_down, needs_quiet=True),
    *RULES_OF_ANY,
    ScriptRule("waits for data", _waits, gain=by_workers, otherwise=_load_faster),
    ScriptRule("restarts workers", _restarts, of_all=True, gain=by_leaving_out),
    ScriptRule("restarts its loader", _starts_anew, of_all=True, gain=by_part(ANEW_SAVES)),
    ScriptRule("outside the step", _outside, gain=by_leaving_out, part="outside"),
    ScriptRule("waits in a line", _waits_in_a_line, needs_quiet=True, gain=by_leaving_out, part="forward"),
    ScriptRule("without gradients", _evaluates, gain=by_leaving_out, part="no_grad"),
    ScriptRule("does what costs", does_what_costs, gain=by_part(0.9, COPIES_COST_MOST)),
    ScriptRule("loops in Python", loops_in_python),
    ScriptRule("recomputes", recomputes, gain=by_part(1.1, 1.4)),
    ScriptRule("holds the lock", holds_the_lock, gain=by_part(1.0, LOCK_COSTS_MOST)),
    ScriptRule("small batches", takes_small_batches),
    ScriptRule("waits for the disk", _waits_for_disk, gain=by_part(1.0, SYNC_COSTS_MOST)),
    ScriptRule("too many threads", has_too_many_threads, gain=by_part(CROWDED_SAVES, CROWDED_SAVES_MOST)),
    ScriptRule("lacks oneDNN", lacks_mkldnn, gain=by_part(MKLDNN_SAVES, MKLDNN_SAVES_MOST)),
    ScriptRule("makes a graph", makes_graph),
    ScriptRule("saves in its steps", _saves, gain=by_leaving_out),
    ScriptRule("in float64", computes_in_double, gain=by_part(1.0, SINGLE_AT_MOST)),
    ScriptRule("in halves", computes_in_halves, gain=by_part(HALVES_SAVE, HALVES_SAVE_MOST)),
    ScriptRule("optimizer", has_slow_optimizer, gain=by_part(FUSED_SAVES)),
    ScriptRule("finds anomalies", finds_anomalies, gain=by_part(CHECKS_TAKE)),
    ScriptRule("left on", is_slowed_by_setting),
    ScriptRule("on one thread", has_one_thread, needs_quiet=True, gain=by_part(THREADS_SAVE)),
    ScriptRule("between iterations", _validates, of_all=True, gain=by_part(TURNS_SAVE)),
    ScriptRule("reads in each step", _reads, gain=by_leaving_out),
    ScriptRule("gives memory back", gives_memory_back, gain=by_part(FAULTS_SAVE, FAULTS_SAVE_MOST)),
    ScriptRule("collects garbage", collects_garbage, gain=by_part(1.0, COLLECTED_SAVES_MOST)),
    ScriptRule("keeps graphs", keeps_graphs),
    ScriptRule("memory grows", memory_grows),
)
