"""The settings of a lane. Each is one row of SETTINGS, which says how it is parsed, listed, filled in and refused."""

from __future__ import annotations

from functools import partial

from laptime.model.inference import BATCHES
from laptime.model.lane import Preset, Settings
from laptime.planner import batches, environments, groups, presets, refusals
from laptime.planner.facts import LaneFacts
from laptime.planner.setting import LARGEST_COUNT, Setting, first_of, is_count, switch

PRESETS: tuple[Preset, ...] = ("as-written", "best", "fastest")
TUNED = "tuned"  # in place of a preset: what the newest `laptime tune` found (questions/tune/winners.py)
SIZES = ", ".join(map(str, BATCHES))


def _refuse_threads(settings: Settings, lane: LaneFacts) -> None:
    refusals.refuse_threads(settings, lane)
    groups.refuse_shared_threads(settings, lane)


ROWS = (
    Setting(
        "precision",
        ("fp32", "tf32", "bf16", "fp16"),
        "what the numbers of a step are computed in",
        stands_alone=True,
        changes="arithmetic",
        tunes=presets.precisions_to_try,
        fastest=presets.lowest_precision,
        refuse=partial(refusals.refuse_feature, "precision"),
    ),
    Setting(
        "execution",
        ("eager", "compile", "graph", "compiled_graph"),
        "`graph` is the whole step as one CUDA graph, `compiled_graph` the compiled step",
        stands_alone=True,
        tunes=presets.executions_to_try,
        best=presets.fastest_execution,
        refuse=partial(refusals.refuse_feature, "execution"),
    ),
    Setting(
        "layout",
        ("channels_last",),
        "the order in memory that convolutions prefer",
        stands_alone=True,
        tunes=presets.layouts_to_try,
        best=presets.best_layout,
        refuse=partial(refusals.refuse_feature, "layout"),
    ),
    Setting(
        "optimizer",
        ("fused",),
        "the optimizer's step in one kernel",
        stands_alone=True,
        tunes=presets.optimizers_to_try,
        best=first_of(presets.optimizers_to_try),
        refuse=refusals.refuse_optimizer,
    ),
    Setting(
        "threads",
        ("N",),
        "how many threads compute on the processor",
        takes="a whole number from 1 on",
        kind=int,
        tunes=presets.threads_to_try,
        best=presets.best_threads,
        refuse=_refuse_threads,
        environment=environments.of_threads,
    ),
    switch(
        "pinning",
        "cores",
        "system",
        "each thread stays on one core",
        "each thread stays on one core",
        tunes=presets.pinning_to_try,
        refuse=refusals.refuse_pinning,
        environment=environments.of_pinning,
    ),
    Setting(
        "malloc",
        ("keep",),
        "freed memory stays in the process",
        takes="keep (freed memory stays in the process) or system",
        accepts=lambda value: value in {"keep", "system"},
        tunes=presets.allocators_to_try,
        best=first_of(presets.allocators_to_try),
        refuse=refusals.refuse_malloc,
        environment=environments.of_malloc,
    ),
    switch(
        "dropout",
        "fast",
        "framework",
        "masks of dropout from 16-bit random numbers",
        "masks from 16-bit random numbers, on all threads",
        tunes=presets.dropouts_to_try,
        best=first_of(presets.dropouts_to_try),
    ),
    switch(
        "cudnn",
        "search",
        "framework",
        "cuDNN tries its algorithms for each shape, and keeps the fastest",
        "cuDNN tries its algorithms for each shape",
        tunes=presets.cudnn_to_try,
        best=first_of(presets.cudnn_to_try),
        code="torch.backends.cudnn.benchmark = True",
    ),
    switch(
        "onednn",
        "off",
        "on",
        "products and convolutions of a processor without Intel's oneDNN",
        "the framework's other kernels",
        tunes=presets.onednn_to_try,
        environment=environments.of_onednn,
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
    ),
    Setting(
        "numbers",
        ("single",),
        "a model of your own that is written in float64, in float32",
        takes="single (weights and batches of your own in float32)",
        changes="arithmetic",
        refuse=refusals.refuse_numbers,
    ),
    Setting(
        "matmul",
        ("high", "medium"),
        "float32 products of an unmodified script in TF32 (`high`) or bfloat16 (`medium`)",
        takes="high or medium, as torch.set_float32_matmul_precision does",
        changes="arithmetic",
        refuse=refusals.refuse_matmul,
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
        tunes=presets.inputs_to_try,
        best=presets.best_input,
        refuse=refusals.refuse_input,
    ),
    Setting(
        "workers",
        ("N",),
        "processes that read and decode, of your own DataLoader too",
        takes="a whole number, 0 for none besides the training's own process",
        kind=int,
        accepts=lambda value: value == "0" or is_count(value),
        tunes=presets.workers_to_try,
        refuse=refusals.refuse_workers,
    ),
    Setting(
        "prefetch",
        ("N",),
        "batches that each worker of your own DataLoader prepares",
        takes="a whole number from 1 on",
        kind=int,
        tunes=presets.prefetches_to_try,
        code="DataLoader(..., prefetch_factor={value})",
        refuse=refusals.refuse_prefetch,
    ),
    Setting(
        "augment",
        ("host", "device"),
        "where our loader turns images: as it reads them, or on the lane's device, whole batches at once",
        takes="host (as images are read) or device (whole batches on the lane's device)",
        tunes=presets.augments_to_try,
        refuse=refusals.refuse_augment,
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
        accepts=batches.is_batch,
        tunes=lambda _lane: ("0.5x", "2x", "4x", "8x"),
        fields=("batch", "joined"),
        read=batches.as_batch,
        refuse=batches.refuse_batch,
        refused_for={"infer": (f"names a batch, and every lane is asked in batches of {SIZES}", "leave batch out")},
    ),
    Setting(
        "lr",
        ("X",),
        "the learning rate",
        takes="a learning rate above 0 and up to 100, such as 0.001 or 1e-3",
        changes="learning",
        kind=float,
        accepts=batches.is_rate,
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
        tunes=lambda lane: ("8", "32") if lane.row.family == "keras" else (),
        refuse=refusals.refuse_steps_at_once,
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
        tunes=presets.progress_to_try,
        best=first_of(presets.progress_to_try),
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
SETTINGS: dict[str, Setting] = {row.name: row for row in ROWS}


def find_setting(word: str) -> tuple[Setting, str] | None:
    """Return the row and the value that one word of a lane names, or None if there is no such setting."""
    key, equals, value = word.partition("=")
    for row in SETTINGS.values():
        if row.stands_alone and word in row.listed:
            return row, word
        if not row.stands_alone and equals and key == row.name:
            return row, value
    return None


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
