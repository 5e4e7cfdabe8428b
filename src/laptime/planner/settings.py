"""The settings of a lane. Each is one row of SETTINGS, which says how it is parsed, listed, filled in and refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT
from laptime.model.machine import Device, DeviceKind, Framework
from laptime.model.plan import OwnBatches
from laptime.model.process import Preset, Settings
from laptime.model.protocol import INFER_BATCHES
from laptime.planner import groups, refusals
from laptime.planner.refusals import A_LINE, LARGEST_COUNT, LaneFacts, Setting, first_of, is_count, switch

# What the presets `best` and `fastest` choose on a lane (None: as written), and what `laptime tune` tries.

AT_LINE = re.compile(r"[\w.-]+:[1-9][0-9]*")  # the name of a file and a line of it
FAST_BF16 = {"avx512_bf16", "amx_bf16", "bf16", "sve_bf16"}


def lowest_precision(lane: LaneFacts) -> str | None:
    """Return a reduced precision that the device has units for. Emulated, it would be coarser and also slower."""
    if lane.subject.gives_step:
        return "tf32" if "tf32" in lane.device.features else None  # the rest is up to the step's code
    if lane.on_processor:
        return "bf16" if FAST_BF16 & set(lane.machine.processor.features) else None
    return next((literal for literal in ("bf16", "tf32", "fp16") if literal in lane.device.features), None)


def fastest_execution(lane: LaneFacts) -> str | None:
    """Return the fastest execution. A graph needs fixed shapes and no synchronization: only built-ins ensure both."""
    on_tensorflow = lane.devices and lane.row.engine.name == "tensorflow"
    if lane.on_processor or lane.subject.gives_step or on_tensorflow:
        return None
    wanted = ("compile",) if lane.workload is None or lane.devices else ("graph", "compile")
    return next((literal for literal in wanted if literal in lane.device.features), None)


def best_layout(lane: LaneFacts) -> str | None:
    may_convolve = lane.subject.may_convolve and not lane.subject.gives_step
    return "channels_last" if may_convolve and "channels_last" in lane.device.features else None


def best_threads(lane: LaneFacts) -> int | None:
    """Return as many threads as there are cores that no other process fills. XLA takes all of them on its own."""
    if not lane.on_processor:
        return None
    return lane.cores if lane.row.engine.sizes_own_threads else lane.free_cores


def best_input(lane: LaneFacts) -> str | None:
    """Return the fastest input. laptime cannot place the batches of a plain function on a device."""
    if lane.subject.reads_files:
        return "fast"
    return None if lane.on_processor or lane.row.is_opaque else "resident"


def precisions_to_try(lane: LaneFacts) -> tuple[str, ...]:
    if lane.on_processor or lane.subject.gives_step:
        lowest = lowest_precision(lane)
        return () if lowest is None else (lowest,)
    return tuple(literal for literal in ("tf32", "bf16", "fp16") if literal in lane.device.features)


def executions_to_try(lane: LaneFacts) -> tuple[str, ...]:
    if lane.subject.gives_step:
        return ()
    return tuple(literal for literal in ("compile", "graph", "compiled_graph") if literal in lane.device.features)


def layouts_to_try(lane: LaneFacts) -> tuple[str, ...]:
    layout = best_layout(lane)
    return () if layout is None else (layout,)


def optimizers_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("fused",) if "fused" in lane.device.features and not lane.subject.gives_step else ()


def dropouts_to_try(lane: LaneFacts) -> tuple[str, ...]:
    can = "dropout" in lane.device.features and lane.subject.may_drop and not lane.subject.gives_step
    return ("fast",) if can else ()


def cudnn_to_try(lane: LaneFacts) -> tuple[str, ...]:
    can = "cudnn" in lane.device.features and lane.subject.may_convolve and not lane.subject.gives_step
    return ("search",) if can else ()


def threads_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return all cores, half of them, a quarter of them, and one; without what the framework takes on its own."""
    cores = lane.cores
    usual = lane.device.details.get("threads", "")
    counts = sorted({1, cores // 4 or 1, cores // 2 or 1, cores, lane.free_cores} if lane.on_processor else ())
    return tuple(str(count) for count in counts if str(count) != usual)


def allocators_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("keep",) if lane.on_processor and "malloc" in lane.device.features else ()


def inputs_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return inputs that train on all items, shuffled as written: kept batches are not."""
    best = best_input(lane)
    return () if best is None else (best,)


def augments_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return where our loader may turn images besides where it does so on its own."""
    can = "augment" in lane.device.features and lane.workload is not None and lane.workload.turned
    return (("device" if lane.on_processor else "host"),) if can else ()


def progress_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("off",) if "progress" in lane.device.features else ()


def pinning_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return whether threads may stay on one core each. Where one thread computes, the system moves it rarely."""
    can = "pinning" in lane.device.features and not lane.devices and lane.cores > 1
    return ("cores",) if can else ()


def onednn_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("off",) if lane.on_processor and "onednn" in lane.device.features else ()


def prefetches_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return numbers of batches that each worker of a user's own DataLoader prepares; without one, it is 2."""
    own = lane.subject.own
    is_own = own is not None and own.has_workers and lane.row.changes_own_steps
    return ("4", "8") if is_own or lane.framework == SCRIPT else ()


def products_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return how a script may compute its products: as coarse as the device has units for."""
    if lane.framework != SCRIPT:
        return ()
    if lane.on_processor:
        return ("medium",) if FAST_BF16 & set(lane.machine.processor.features) else ()
    return ("high",)


def persistent_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("on",) if lane.framework == SCRIPT else ()


def processes_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("on",) if lane.framework == SCRIPT else ()


def pinned_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("on",) if lane.framework == SCRIPT and not lane.on_processor else ()


def workers_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return numbers of workers of a loader that reads files, or of a user's own."""
    if lane.workload is not None and not lane.subject.reads_files:
        return ()
    cores = lane.cores
    return tuple(map(str, sorted({0, cores // 2 or 1, cores, 2 * cores})))


# How a lane names its batch and its learning rate.

LARGEST_RATE = 100.0
HALF = "0.5x"


def is_batch(value: str) -> bool:
    return value == HALF or is_count(value.removesuffix("x"))


def is_rate(value: str) -> bool:
    written = re.fullmatch(r"(?=\.?[0-9])[0-9]{0,3}\.?[0-9]{0,9}(e-?[0-9]{1,2})?", value)
    return written is not None and 0 < float(value) <= LARGEST_RATE


def cuts_batches(value: str) -> bool:
    """Whether a value of `batch` makes other batches of a user's own data. `2x` joins them as they are."""
    return value == HALF or not value.endswith("x")


def resolve_batch(text: str, usual: int) -> int:
    """Return the items of a batch of a built-in training, as a lane writes it: 200, or 2x of the usual ones."""
    return max(1, int(float(text[:-1]) * usual)) if text.endswith("x") else int(text)


def as_batch(text: str, lane: LaneFacts) -> dict[str, Any]:
    """Return the items of a batch, or how many batches of a user's own training are joined into one step."""
    if not text.endswith("x"):
        return {"batch": int(text)}
    if lane.framework == SCRIPT:
        return {"joined": int(text[:-1])}
    if lane.workload is not None:
        return {"batch": resolve_batch(text, lane.workload.batch)}
    _refuse_other_lanes(text, lane)
    if text != HALF:
        return {"joined": int(text[:-1])}
    batches = (
        OwnBatches("how many items they have is not known") if lane.subject.own is None else lane.subject.own.batches
    )
    if batches.batch is None or batches.batch < 2:
        why = batches.uncut or "they have one item"
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))
    return {"batch": batches.batch // 2}


def refuse_batch(settings: Settings, lane: LaneFacts) -> None:
    """Refuse another batch of a training of your own where laptime cannot make it: the rule of every question.

    What its function returns is not known where it failed for a reason that a lane will show. Then the lane's own
    process refuses the batch, in the same words.
    """
    if lane.workload is not None or settings.batch is None or lane.framework == SCRIPT:
        return
    text = str(settings.batch)
    own = lane.subject.own
    _refuse_other_lanes(text, lane)
    why = None if own is None else own.batches.why_not(settings.batch)
    if why is not None:
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))


def _refuse_other_lanes(text: str, lane: LaneFacts) -> None:
    if not lane.row.changes_own_steps:
        why = f"only torch lanes cut and join them, and not {lane.framework}"
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))


# The environment variables that settings need at the start of a lane's process.

# glibc returns freed memory to the system, and the next step takes page faults for it. These thresholds keep it.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    "MALLOC_TOP_PAD_": str(64 << 20),
}

# One place for each core, and threads spread over them, as OpenMP reads it.
PINNED = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"}
WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}  # PyTorch has a switch of its own


def of_threads(settings: Settings, device: Device) -> dict[str, str]:
    if settings.threads is None or device.kind != "cpu":
        return {}
    return {"OMP_NUM_THREADS": str(settings.threads), "MKL_NUM_THREADS": str(settings.threads)}


def of_pinning(settings: Settings, _device: Device) -> dict[str, str]:
    return PINNED if settings.value_of("pinning") == "cores" else {}


def of_malloc(settings: Settings, _device: Device) -> dict[str, str]:
    return KEEP_MEMORY if settings.malloc == "keep" else {}


def of_onednn(settings: Settings, _device: Device) -> dict[str, str]:
    return WITHOUT_ONEDNN if settings.value_of("onednn") == "off" else {}


PRESETS: tuple[Preset, ...] = ("as-written", "best", "fastest")
TUNED = "tuned"  # in place of a preset: what the newest `laptime tune` found (questions/tune/said.py)
BATCH_WORDS = ", ".join(map(str, INFER_BATCHES))


def _refuse_threads(settings: Settings, lane: LaneFacts) -> None:
    refusals.refuse_threads(settings, lane)
    groups.refuse_shared_threads(settings, lane)


SETTING_ROWS = (
    Setting(
        "precision",
        ("fp32", "tf32", "bf16", "fp16"),
        "what the numbers of a step are computed in",
        stands_alone=True,
        changes="arithmetic",
        tunes=precisions_to_try,
        fastest=lowest_precision,
        refuse=partial(refusals.refuse_feature, "precision"),
        outside=("fp32", "bf16"),
        code="with torch.autocast(device, dtype=torch.bfloat16): ...",
        in_keras='keras.config.set_dtype_policy("mixed_bfloat16")',
        rewrite="{value}_{device}",
    ),
    Setting(
        "execution",
        ("eager", "compile", "graph", "compiled_graph"),
        "`graph` is the whole step as one CUDA graph, `compiled_graph` the compiled step",
        stands_alone=True,
        tunes=executions_to_try,
        best=fastest_execution,
        refuse=partial(refusals.refuse_feature, "execution"),
        outside=("eager", "compile"),
        in_keras="model.compile(..., jit_compile=True)",
        rewrite="{value}",
    ),
    Setting(
        "layout",
        ("channels_last",),
        "the order in memory that convolutions prefer",
        stands_alone=True,
        tunes=layouts_to_try,
        best=best_layout,
        refuse=partial(refusals.refuse_feature, "layout"),
        outside=("channels_last",),
        rewrite="{value}",
    ),
    Setting(
        "optimizer",
        ("fused",),
        "the optimizer's step in one kernel",
        stands_alone=True,
        tunes=optimizers_to_try,
        best=first_of(optimizers_to_try),
        refuse=refusals.refuse_optimizer,
        outside=("fused",),
        rewrite="{value}",
    ),
    Setting(
        "threads",
        ("N",),
        "how many threads compute on the processor",
        takes="a whole number from 1 on",
        kind=int,
        tunes=threads_to_try,
        best=best_threads,
        refuse=_refuse_threads,
        environment=of_threads,
        outside=("N",),
        rewrite="threads={value}",
    ),
    switch(
        "pinning",
        "cores",
        "system",
        "each thread stays on one core",
        "each thread stays on one core",
        tunes=pinning_to_try,
        refuse=refusals.refuse_pinning,
        environment=of_pinning,
        applied={"torch": ("cpu",), "keras-torch": ("cpu",)},
        outside=("cores",),
    ),
    Setting(
        "malloc",
        ("keep",),
        "freed memory stays in the process",
        takes="keep (freed memory stays in the process) or system",
        accepts=lambda value: value in {"keep", "system"},
        tunes=allocators_to_try,
        best=first_of(allocators_to_try),
        refuse=refusals.refuse_malloc,
        environment=of_malloc,
        outside=("keep",),
        rewrite="keep_memory",
    ),
    switch(
        "dropout",
        "fast",
        "framework",
        "masks of dropout from 16-bit random numbers",
        "masks from 16-bit random numbers, on all threads",
        tunes=dropouts_to_try,
        best=first_of(dropouts_to_try),
        applied={"torch": ("cpu",)},
    ),
    switch(
        "cudnn",
        "search",
        "framework",
        "cuDNN tries its algorithms for each shape, and keeps the fastest",
        "cuDNN tries its algorithms for each shape",
        tunes=cudnn_to_try,
        best=first_of(cudnn_to_try),
        applied={"torch": ("cuda",)},
        code="torch.backends.cudnn.benchmark = True",
    ),
    switch(
        "onednn",
        "off",
        "on",
        "products and convolutions of a processor without Intel's oneDNN",
        "the framework's other kernels",
        tunes=onednn_to_try,
        environment=of_onednn,
        applied={"torch": ("cpu",), "keras-tf": ("cpu",)},
        code="torch.backends.mkldnn.enabled = False",
    ),
    Setting(
        "denormals",
        ("flush",),
        "numbers too small for full precision count as 0",
        takes="flush (numbers too small for full precision count as 0) or keep",
        changes="arithmetic",
        accepts=lambda value: value in {"flush", "keep"},
        tunes=lambda lane: ("flush",) if lane.on_processor else (),
        refuse=refusals.refuse_denormals,
        outside=("flush",),
        rewrite="flush_denormal",
    ),
    Setting(
        "numbers",
        ("single",),
        "a model of your own that is written in float64, in float32",
        takes="single (weights and batches of your own in float32)",
        changes="arithmetic",
        refuse=refusals.refuse_numbers,
        outside=("single",),
    ),
    Setting(
        "matmul",
        ("high", "medium"),
        "float32 products of an unmodified script in TF32 (`high`) or bfloat16 (`medium`)",
        takes="high or medium, as torch.set_float32_matmul_precision does",
        changes="arithmetic",
        tunes=products_to_try,
        refuse=refusals.refuse_matmul,
        outside=("high", "medium"),
        rewrite="matmul_{value}",
    ),
    Setting(
        "reads",
        ("deferred",),
        "a loss that is read each step is read later",
        takes="deferred (a step's code reads values of an earlier step, and does not wait)",
        refuse=refusals.refuse_reads,
        refused_for={
            "train": ("reads old values, which is no training", "leave reads out"),
            "infer": ("defers what a step reads, and nothing is trained", "leave reads=deferred out"),
        },
    ),
    Setting(
        "input",
        ("published", "fast", "cached", "resident", "only", "one", "copy"),
        "`published`: the authors' loader; `fast`: ours; `cached`: decoded batches in host memory; `resident`: already "
        "on the device; `only`: the loader without the training; `one`: the first batch again and again; `copy`: to "
        "the device, nothing computed",
        takes="published, fast, cached, resident, only, one, copy",
        tunes=inputs_to_try,
        best=best_input,
        refuse=refusals.refuse_input,
        outside=("published", "cached", "one", "only"),
    ),
    Setting(
        "workers",
        ("N",),
        "processes that read and decode, of your own DataLoader too",
        takes="a whole number, 0 for none besides the training's own process",
        kind=int,
        accepts=lambda value: value == "0" or is_count(value),
        tunes=workers_to_try,
        refuse=refusals.refuse_workers,
        outside=("N",),
        in_keras="PyDataset(..., workers={value}), or DataLoader(..., num_workers={value})",
        rewrite="workers={value}",
    ),
    Setting(
        "prefetch",
        ("N",),
        "batches that each worker of your own DataLoader prepares",
        takes="a whole number from 1 on",
        kind=int,
        tunes=prefetches_to_try,
        code="DataLoader(..., prefetch_factor={value})",
        in_keras="PyDataset(..., max_queue_size={value} * workers), or data.prefetch({value}) of tf.data",
        refuse=refusals.refuse_prefetch,
        outside=("N",),
        rewrite="prefetch={value}",
    ),
    switch(
        "processes",
        "on",
        "off",
        "the workers of an unmodified script's PyDataset (Keras) are processes, and not threads",
        "they are processes",
        only_of="Keras",
        tunes=processes_to_try,
        refuse=refusals.refuse_processes,
        outside=("on",),
        code="PyDataset(..., use_multiprocessing=True)",
        rewrite="use_multiprocessing",
    ),
    switch(
        "persistent",
        "on",
        "off",
        "the workers of an unmodified script's DataLoader stay from lap to lap",
        "they stay from lap to lap",
        tunes=persistent_to_try,
        refuse=refusals.refuse_persistent,
        outside=("on",),
        code="DataLoader(..., persistent_workers=True)",
        rewrite="persistent_workers",
    ),
    switch(
        "pinned",
        "on",
        "off",
        "batches of an unmodified script's DataLoader in pinned memory, from which a card copies faster",
        "pinned memory",
        tunes=pinned_to_try,
        refuse=refusals.refuse_pinned,
        outside=("on",),
        code="DataLoader(..., pin_memory=True)",
        rewrite="pinned",
    ),
    *(
        Setting(
            name,
            (A_LINE,),
            f"an unmodified script {does}: an experiment, what it costs",
            takes="the name of a file and a line of it, such as train.py:45",
            changes="learning",
            accepts=lambda value: AT_LINE.fullmatch(value) is not None,
            refuse=refusals.refuse_changed_line(name),
            outside=(A_LINE,),
        )
        for name, does in (
            ("without", "without the statement at a line, such as train.py:45"),
            ("twice", "that makes twice what the statement at a line makes"),
            ("seldom", "that does what the statement at a line does in every tenth turn only"),
        )
    ),
    Setting(
        "augment",
        ("host", "device"),
        "where our loader turns images: as it reads them, or on the lane's device, whole batches at once",
        takes="host (as images are read) or device (whole batches on the lane's device)",
        tunes=augments_to_try,
        refuse=refusals.refuse_augment,
        applied={"torch": ("cpu", "cuda")},
    ),
    Setting(
        "items",
        ("N",),
        "how many items are made to train on, where there is no real data",
        takes="a whole number from 1 on",
        changes="learning",
        kind=int,
        refuse=refusals.refuse_items,
        refused_for={
            "train": ("names a number of items, and all lanes train on the same", "leave items out: --items N"),
            "infer": ("names a number of items, and nothing is trained", "leave items out"),
        },
    ),
    Setting(
        "batch",
        ("N", "4x", "0.5x"),
        "items a step, or how many times the published batch",
        takes=f"a whole number from 1 to {LARGEST_COUNT:,}, or a multiple such as 4x; or 0.5x, the half",
        changes="learning",
        kind=int,
        accepts=is_batch,
        tunes=lambda _lane: ("0.5x", "2x", "4x", "8x"),
        fields=("batch", "joined"),
        read=as_batch,
        refuse=refuse_batch,
        refused_for={
            "infer": (f"names a batch, and every lane is asked in batches of {BATCH_WORDS}", "leave batch out")
        },
        outside=("N", "2x"),
        in_keras="model.fit(..., batch_size=...)",
        rewrite="batch_{value}",
    ),
    Setting(
        "lr",
        ("X",),
        "the learning rate",
        takes="a learning rate above 0 and up to 100, such as 0.001 or 1e-3",
        changes="learning",
        kind=float,
        accepts=is_rate,
        fields=("learning_rate",),
        refuse=refusals.refuse_rate,
        refused_for={"infer": ("names a learning rate, and nothing is trained", "leave lr out")},
    ),
    Setting(
        "steps_per_execution",
        ("N",),
        "how many steps Keras gives its engine at once",
        takes="a whole number from 1 on: how many steps Keras gives its engine at once",
        only_of="Keras",
        kind=int,
        tunes=lambda lane: ("8", "32") if lane.row.family == "keras" or lane.framework == SCRIPT else (),
        refuse=refusals.refuse_steps_at_once,
        outside=("N",),
        in_keras="model.compile(..., steps_per_execution={value})",
        rewrite="steps_per_execution={value}",
        refused_for={
            "infer": (
                "says how many steps are taken at once, and nothing is trained",
                "leave steps_per_execution out",
            )
        },
    ),
    switch(
        "progress",
        "off",
        "on",
        "no progress bar of Keras's `fit`",
        "no progress bar",
        only_of="Keras",
        tunes=progress_to_try,
        best=first_of(progress_to_try),
        applied=dict.fromkeys(("keras-tf", "keras-jax", "keras-torch"), get_args(DeviceKind)),
        code="model.fit(..., verbose=0)",
    ),
    Setting(
        "parallel",
        ("ddp", "fsdp", "dp"),
        "how several devices share a step: a process for each with all weights or with a part of them, or one process "
        "(PyTorch's DataParallel)",
        stands_alone=True,
        refuse=groups.refuse_parallel,
    ),
    Setting(
        "scaling",
        ("strong", "weak"),
        "the batch of several devices: `strong` shares one out, `weak` gives each its own",
        stands_alone=True,
        changes="learning",
        refuse=groups.refuse_scaling,
    ),
    Setting(
        "sync",
        ("none",),
        "several processes exchange no gradients: an experiment, no training",
        takes="none (the processes compute, and exchange nothing)",
        changes="learning",
        refuse=groups.refuse_sync,
    ),
)
SETTINGS: dict[str, Setting] = {row.name: row for row in SETTING_ROWS}


def find_setting(word: str) -> tuple[Setting, str] | None:
    """Return the row and the value that one word of a lane names, or None if there is no such setting."""
    key, equals, value = word.partition("=")
    for row in SETTINGS.values():
        if row.stands_alone and word in row.listed:
            return row, word
        if not row.stands_alone and equals and key == row.name:
            return row, value
    return None


def settings_on(framework: str, kind: str) -> tuple[str, ...]:
    """Return the settings that this framework has on this kind of device, of those that are not had everywhere."""
    return tuple(row.name for row in SETTINGS.values() if kind in row.applied.get(framework, ()))


def with_settings(framework: Framework) -> Framework:
    """Return a framework whose usable devices name these settings among their features."""
    devices: list[Device] = []
    for device in framework.devices:
        if device.usable:
            features = dict.fromkeys((*device.features, *settings_on(framework.name, device.kind)))
            devices.append(replace(device, features=tuple(features)))
        else:
            devices.append(device)
    return replace(framework, devices=tuple(devices))


def list_settings() -> str:
    """Return every preset and setting, for the hint of an error."""
    return ", ".join((*PRESETS, TUNED, *(row.list_values(row.listed) for row in SETTINGS.values())))


def settings_table() -> str:
    """Return the README's table of settings."""
    lines = ["| setting | written | what it is | changes |", "|---|---|---|---|"]
    for row in SETTINGS.values():
        written = " ".join(f"`{row.written(value)}`" for value in row.listed)
        changes = f"the {row.changes}" if row.changes else ""
        lines.append(f"| {row.name} | {written} | {row.about} | {changes} |")
    return "\n".join(lines) + "\n"


def learn_alike(one: Settings, other: Settings) -> bool:
    """Whether two lanes should learn the same. Lanes with different batches or learning rates should not."""
    return all(row.values_of(one) == row.values_of(other) for row in SETTINGS.values() if row.changes == "learning")
