"""What a watched training computes needlessly, or slower than it could: a rule of `findings.py` for each."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.analysis.diagnosis.script_shares import longest_line, share_of, words_at
from laptime.model.machine import Machine
from laptime.model.quantities import Missing, percent
from laptime.model.record import Finding, PredictedGain
from laptime.model.script import FUSIBLE, ScriptProcess, TrainingLoop

OF_DOUBLE = 0.5  # of the time that computes in float64: float32 has half the bytes
OPTIMIZER_MUCH = 0.15
LONG_STEP_MS = 5.0  # of computing: shorter steps are too little for several threads
MICRO_BATCH = 4  # items: smaller batches are seldom meant to be so small
MANY_ITEMS = 32  # that are proposed
NODE_MS = 0.03  # forward and backward, for each step of computing, however small
WEIGHT_NS = 1.2  # for each of the weights, which each pass reads from memory
THREAD_RAN = 0.3  # of the time that another thread computed
LOCK_IDLE = 0.2  # of the time that the training did not
IN_SINGLE = "Train in float32, unless it needs more digits: model.float(), and batches in float32."
FUSE = "Let it take all of them in one call: {}(..., fused=True)."
COMPUTED_BY = {  # instructions for numbers of 16 bits
    "bfloat16": {"amx_bf16", "avx512_bf16", "bf16", "sve_bf16"},
    "float16": {"amx_fp16", "avx512_fp16", "asimdhp"},
}
IN_FULL = "Train in float32 on this processor."
NO_ANOMALIES = "Leave it out, once the error that it was to find is found."
MORE_THREADS = "Leave out torch.set_num_threads(1) and OMP_NUM_THREADS=1, or give it {} threads."
NO_OTHER_THREAD = "Let a process do what this thread does: multiprocessing.Process in place of threading.Thread."
MORE_ITEMS = "Take larger batches: {} items in place of {}. The learning rate may have to be found again."
LARGER_PARTS = "Take fewer and larger parts of each batch: {} items in place of {}. The training stays the same."
FEWER_THREADS = "Give it as many as there are cores: torch.set_num_threads({0}) or OMP_NUM_THREADS={0}."
WITH_MKLDNN = "Leave out torch.backends.mkldnn.set_flags(False) and torch.backends.mkldnn.enabled = False."
NO_GRAPH = "Leave out create_graph=True, unless gradients of gradients are needed."


@dataclass(frozen=True, slots=True)
class LeftOn:
    """Something that slows each step down while it is on, which is for a search or a proof, and not for a training.

    It takes the part `saves` of an iteration, and at most `most`; `calls` switch it on. Where it `records` what is
    done, it takes more of what does many small things: the parts of an iteration are others without it.
    """

    says: str
    advice: str
    saves: float
    most: float
    calls: tuple[str, ...] = ()
    records: bool = False


LEFT_ON = {  # by the words of the agent (attach/lines.py)
    "profiler": LeftOn(
        "PyTorch's profiler records each operation",
        "Leave it out, or record a few steps only: profile(schedule=torch.profiler.schedule(...)).",
        0.3,
        0.9,
        ("torch.profiler.profile", "torch.autograd.profiler.profile"),
        records=True,
    ),
    "tracing": LeftOn(
        "A debugger, a coverage tool, or a profiler of Python follows each line",
        "Run it without that.",
        0.3,
        0.95,
        ("sys.settrace", "sys.setprofile"),
        records=True,
    ),
    "tracemalloc": LeftOn(
        "tracemalloc keeps where each object was made",
        "Leave out tracemalloc.start() and PYTHONTRACEMALLOC.",
        0.2,
        0.8,
        ("tracemalloc.start",),
        records=True,
    ),
    "debug": LeftOn(
        "Python checks itself: its development mode, or PYTHONMALLOC=debug, is on",
        "Run it without -X dev, PYTHONDEVMODE and PYTHONMALLOC.",
        0.2,
        0.6,
    ),
    "deterministic": LeftOn(
        "PyTorch computes with deterministic algorithms only, and fills all memory that it takes",
        "Leave out torch.use_deterministic_algorithms(True), unless two runs have to be the same.",
        0.05,
        0.6,
        ("torch.use_deterministic_algorithms",),
    ),
    "eager": LeftOn(
        "TensorFlow or JAX runs each operation on its own: run_eagerly=True, or run_functions_eagerly(True), is on",
        "Leave it out, once the error that it was to find is found.",
        0.5,
        0.95,
        ("tensorflow.config.run_functions_eagerly",),
    ),
    "fewer cores": LeftOn(
        "Something keeps this process on fewer cores than it began with",
        "Leave out os.sched_setaffinity, or give the process all of its cores back.",
        0.3,
        0.9,
        ("os.sched_setaffinity",),
    ),
    "one after another": LeftOn(
        "Each operation of the card is waited for: CUDA_LAUNCH_BLOCKING=1 is set",
        "Unset CUDA_LAUNCH_BLOCKING, once the error that it was to find is found.",
        0.2,
        0.9,
    ),
}


def is_slowed_by_setting(process: ScriptProcess, _loop: TrainingLoop, _machine: Machine) -> Finding | None:
    known = [LEFT_ON[name] for name in process.left_on if name in LEFT_ON]
    if not known:
        return None
    most = max(known, key=lambda left_on: left_on.saves)
    return Finding(
        "script left on",
        f"{most.says}, in every iteration.",
        {
            "share": most.saves,
            "settings": [*process.left_on],
            "of_all_that_is_seen": any(left_on.records for left_on in known),
        },
        most.advice,
        "likely",
        rewrite="not_left_on",
        gain=PredictedGain(1 / (1 - most.saves), 1 / (1 - most.most)),
    )


def computes_in_double(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Weights in float64 are seldom meant: NumPy's arrays are float64 by default."""
    types = sorted({dtype for optimizer in process.optimizers for dtype in optimizer.dtypes})
    if "float64" not in types:
        return None
    computing = share_of(loop.steady.forward_backward_s, loop.steady) + share_of(loop.steady.optimizer_s, loop.steady)
    since = "" if process.double_at is None else f" since {process.double_at}"
    return Finding(
        "script in float64",
        f"It computes in float64{since}, in {percent(computing)} of an iteration: numbers of twice the bytes, at half "
        "the speed of a processor and less of most cards.",
        {"share": OF_DOUBLE * computing, "types": types},
        IN_SINGLE,
        "likely",
        rewrite="float32",
        where=process.double_at,
    )


def has_slow_optimizer(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """It takes much of an iteration, and has a form that does all in one call."""
    share = share_of(loop.steady.optimizer_s, loop.steady)
    slow = next(
        (optimizer for optimizer in process.optimizers if optimizer.name in FUSIBLE and optimizer.is_fused is False),
        None,
    )
    if slow is None or share < OPTIMIZER_MUCH:
        return None
    line = longest_line(process, "optimizer")
    where = None if line is None else line.where
    of = "" if slow.tensors is None else f", one after another for its {slow.tensors:,} tensors"
    return Finding(
        "script optimizer",
        f"{percent(share)} of an iteration is {slow.name}'s step{words_at(where)}{of}.",
        {"share": share, "tensors": slow.tensors},
        FUSE.format(slow.name),
        "likely",
        rewrite="fused",
        where=where,
    )


def computes_in_halves(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """A processor without instructions for numbers of 16 bits computes them by converting each."""
    types = {
        dtype
        for optimizer in process.optimizers
        if optimizer.parameters.keys() <= {"cpu"}
        for dtype in optimizer.dtypes
    }
    halves = sorted(types & COMPUTED_BY.keys())
    can = {*machine.processor.features}
    if not halves or not can or all(COMPUTED_BY[half] & can for half in halves):  # of some processors, none is known
        return None
    parts = loop.steady
    share = share_of(parts.forward_backward_s, parts) + share_of(parts.optimizer_s, parts)
    return Finding(
        "script in halves",
        f"It computes in {halves[0]}, in {percent(share)} of an iteration, and this processor has no instructions for "
        "that.",
        {"share": share, "types": halves},
        IN_FULL,
        "likely",
    )


def finds_anomalies(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    share = share_of(loop.steady.forward_backward_s, loop.steady)
    if not any(optimizer.finds_anomalies for optimizer in process.optimizers):
        return None
    return Finding(
        "script finds anomalies",
        "PyTorch looks for anomalies in each operation: set_detect_anomaly(True) is on.",
        {"share": share},
        NO_ANOMALIES,
        "likely",
        rewrite="no_anomalies",
    )


def has_one_thread(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """On a processor of several cores. Of several ranks, each has its own core."""
    cores = machine.processor.cores_usable
    parts = loop.steady
    on_processor = all(optimizer.parameters.keys() <= {"cpu"} for optimizer in process.optimizers)
    computing = share_of(parts.forward_backward_s, parts) + share_of(parts.optimizer_s, parts)
    is_long = loop.step_ms is not None and computing * loop.step_ms.median >= LONG_STEP_MS
    alone = [optimizer for optimizer in process.optimizers if optimizer.threads == 1]
    if not alone or cores < 2 or not on_processor or not is_long or (process.world or 1) > 1:
        return None
    return Finding(
        "script on one thread",
        f"PyTorch computes on one of {cores} cores, in {percent(computing)} of an iteration.",
        {"share": computing * (1 - 1 / cores)},
        MORE_THREADS.format(cores),
        "likely",
        rewrite=f"threads={cores}",
    )


def holds_the_lock(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """Another thread computes in Python, and the training waits until that one gives the interpreter up."""
    busy = process.busy_thread
    # A loader without workers computes in the training's own thread: where it waits, it waits for Python, too.
    loads_itself = process.loaders and all(loader.workers == 0 for loader in process.loaders) and not loop.made_share
    waits = 0.0 if loads_itself else share_of(loop.steady.data_wait_s, loop.steady)
    share = 0.0 if busy is None else min(busy.idle, 1.0) - waits
    if busy is None or busy.ran < THREAD_RAN or share < LOCK_IDLE:
        return None
    return Finding(
        "script lock held",
        f"{percent(share)} of an iteration, the training waits while another thread keeps Python busy"
        f"{words_at(busy.where)}.",
        {"share": share, "ran": busy.ran, "part": "any"},
        NO_OTHER_THREAD,
        "likely",
        where=busy.where,
    )


def takes_small_batches(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    """A batch has few items, and most of the time is what any batch takes: each operator's own, and all weights'."""
    items = loop.items_per_iteration
    passes = loop.per_iteration.backwards
    parts = loop.steady
    if isinstance(items, Missing) or process.graph is None or loop.step_ms is None or not passes:
        return None
    batch = round(items / passes)
    if not 0 < batch <= MICRO_BATCH:
        return None
    weights = sum(sum(optimizer.parameters.values()) for optimizer in process.optimizers)
    fixed_ms = passes * (process.graph.nodes * NODE_MS + weights * WEIGHT_NS * 1e-6)
    passes_share = share_of(parts.forward_backward_s, parts)
    share = min(passes_share, fixed_ms / loop.step_ms.median)
    most = passes_share
    larger = min(MANY_ITEMS / batch, passes) if passes > 1 else MANY_ITEMS / batch
    if passes <= 1:  # an update is for all items of a batch
        once = share_of(parts.optimizer_s, parts) + share_of(parts.outside_s, parts)
        share += once
        most += once
    saved = 1 - 1 / larger
    advice = (LARGER_PARTS if passes > 1 else MORE_ITEMS).format(round(batch * larger), batch)
    return Finding(
        "script small batches",
        f"A batch has {batch} item{'s' * (batch != 1)}, and {percent(share)} of an iteration would be the same for "
        "more of them.",
        {"share": share, "batch": batch, "passes": passes},
        advice,
        "likely",
        gain=PredictedGain(1 / (1 - saved * share), 1 / (1 - saved * most)),
    )


def has_too_many_threads(process: ScriptProcess, loop: TrainingLoop, machine: Machine) -> Finding | None:
    """In a container, PyTorch counts the cores of the machine, and not those that it may use."""
    cores = machine.processor.cores_usable
    parts = loop.steady
    threads = max(
        (optimizer.threads or 0 for optimizer in process.optimizers if optimizer.parameters.keys() <= {"cpu"}),
        default=0,
    )
    if threads <= cores:
        return None
    computing = share_of(parts.forward_backward_s, parts) + share_of(parts.optimizer_s, parts)
    return Finding(
        "script has too many threads",
        f"PyTorch computes with {threads} threads on {cores} core{'s' * (cores != 1)}, in {percent(computing)} of an "
        "iteration.",
        {"share": computing},
        FEWER_THREADS.format(cores),
        "likely",
        rewrite=f"threads={cores}",
    )


def lacks_mkldnn(process: ScriptProcess, loop: TrainingLoop, _machine: Machine) -> Finding | None:
    if not any(
        optimizer.has_mkldnn is False and optimizer.parameters.keys() <= {"cpu"} for optimizer in process.optimizers
    ):
        return None
    share = share_of(loop.steady.forward_backward_s, loop.steady)
    return Finding(
        "script without oneDNN",
        f"oneDNN, which computes convolutions on a processor, is switched off, in {percent(share)} of an iteration.",
        {"share": share},
        WITH_MKLDNN,
        "likely",
        rewrite="mkldnn",
    )


def makes_graph(process: ScriptProcess, _loop: TrainingLoop, _machine: Machine) -> Finding | None:
    if process.graph is None or not process.graph.is_made:
        return None
    line = longest_line(process, "backward")
    where = None if line is None else line.where
    return Finding(
        "script makes a second graph",
        f"The backward pass{words_at(where)} makes a graph of its own, for gradients of gradients, and keeps it.",
        {"share": 0.0},  # it costs memory: of a small network no time (1.17 was said where 0.97 came out)
        NO_GRAPH,
        "likely",
        rewrite="no_second_graph",
        where=where,
    )
