"""Which settings the agent makes inside a script that is raced, whether it has them then, and which it cannot have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from laptime.attach import keras_hooks, keras_setting, setting
from laptime.attach.left_out import LINE_CHANGES, line_in
from laptime.model.process import Settings
from laptime.model.script import SeenLoader

RUNS_WITHOUT = Path(setting.__file__).parent / "run_without.py"
AS_THE_SCRIPT_HAS_IT = (None, "keep", "off")
NO_LOADER = "the script makes no DataLoader of PyTorch"
NO_NUMBERS = "the data set is iterated, and each worker would give all of its items"
NO_WORKERS = "its DataLoader has no workers"
NO_TORCH_MODEL = "no model of PyTorch was called to train"
HAS_AS_MANY = "the script has as many already"
MADE_BY_KERAS = "Adapter"  # ends the names of what Keras makes of data

# What the agent's words mean.
AGENT_SAYS = {
    setting.NO_CONVOLUTION: "the model has no convolution of images",
    setting.ITSELF_COMPILED: "the script compiles its model itself",
    setting.NO_FUSED: "its optimizer has no fused form here",
    setting.FUSED: "its optimizer is fused already",
    setting.HAS_FAILED: "this PyTorch or the model itself does not take it",
    setting.OTHER_FORM: "the script chose another form of its optimizer: foreach, capturable or differentiable",
    keras_setting.ONE_AT_A_TIME: "on PyTorch, Keras takes one step at a time",
    keras_setting.UNCOUNTED: "its data have no length, so how many steps the last call of an epoch takes is not known",
    keras_setting.COMPILES: "Keras compiles its steps already",
    keras_setting.EAGER: "the script compiles its model with run_eagerly=True",
    keras_setting.NO_JIT: "a layer of the model cannot be compiled",
    keras_setting.OWN_PRECISION: "the script or its model sets a dtype policy of its own",
    keras_setting.OWN_LAYOUT: "Keras's layers have the order of image_data_format, in which the data has to be, too",
    keras_setting.OWN_OPTIMIZERS: "Keras has optimizers of its own, without another form",
    keras_setting.ALL_CORES: "JAX takes as many threads as it may use cores",
    keras_setting.NOT_PINNED: "TensorFlow and JAX make threads of their own, which no variable pins",
    keras_setting.FLUSHED: "TensorFlow and JAX treat denormal numbers as 0 already",
    keras_setting.NO_SWITCH: "it is a switch of PyTorch",
    keras_setting.IN_MEMORY: "fit cuts its batches from arrays, and nothing loads them",
    keras_setting.ONE_BY_ONE: "a generator gives one batch after another",
    keras_setting.OWN_PIPELINE: "a tf.data pipeline has its own: map(..., num_parallel_calls=tf.data.AUTOTUNE)",
    keras_setting.OTHER_DATA: "what fit is given is no PyDataset and no DataLoader",
    keras_setting.CUTS_ITSELF: "what fit is given cuts its batches itself",
    keras_setting.PREFETCHES: "its tf.data pipeline ends with a prefetch already",
    keras_setting.NO_QUEUE: "its PyDataset has no workers",
    keras_setting.PROCESSES: "its workers are processes already",
    keras_setting.EACH_EPOCH: "Keras starts the workers of a PyDataset for each epoch",
    keras_setting.KERAS_COPIES: "Keras copies what a PyDataset gives itself",
}


@dataclass(frozen=True, slots=True)
class InsideRow:
    """One setting that the agent makes: why a script lacks it that reported nothing about it.

    One that `is_looked_for` is reported by a script that is only looked at, too.
    """

    name: str
    why_unset: str
    is_looked_for: bool = False


INSIDE = (
    InsideRow("denormals", "the script imports no PyTorch, or this processor cannot"),
    InsideRow("matmul", "the script imports no PyTorch"),
    InsideRow("numbers", NO_TORCH_MODEL),
    InsideRow("precision", NO_TORCH_MODEL),
    InsideRow("execution", NO_TORCH_MODEL, is_looked_for=True),
    InsideRow("layout", NO_TORCH_MODEL, is_looked_for=True),
    InsideRow("optimizer", "the script makes no optimizer of PyTorch", is_looked_for=True),
    InsideRow("workers", "the script makes no DataLoader of items by number, and no PyDataset"),
    InsideRow("processes", "the script gives no PyDataset to Keras's fit", is_looked_for=True),
    InsideRow("prefetch", NO_WORKERS),
    InsideRow("persistent", NO_WORKERS),
    InsideRow("pinned", NO_LOADER),
    InsideRow("batch", "the script makes no DataLoader with a batch_size"),
    InsideRow("without", "nothing that the script runs has a statement there that can be left out"),
    InsideRow("twice", "nothing that the script runs has a statement there that makes something once more"),
    InsideRow("seldom", "nothing that the script runs has a statement there that not each turn of its loop needs"),
    InsideRow("steps_per_execution", "the script does not train by Keras's fit", is_looked_for=True),
)
THREADS_WORD = "threads"  # a variable, and for PyTorch the agent, where the script's own code sets them later
FROM_OUTSIDE = ("threads", "pinning")  # variables, which not every script heeds


def list_sets(settings: Settings) -> dict[str, str]:
    """Return what the agent of a lane is to set, by name, in its words."""
    found = _worded(settings, [*(row.name for row in INSIDE), THREADS_WORD])
    return found | ({} if settings.joined is None else {"batch": f"{settings.joined}x"})


def _worded(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    plain = Settings()
    found = {name: settings.value_of(name) for name in names}
    return {
        name: str(value)
        for name, value in found.items()
        if value not in AS_THE_SCRIPT_HAS_IT and value != plain.value_of(name)
    }


def find_unset(
    settings: Settings,
    has: Iterable[str],
    has_not: Mapping[str, str],
    loader: SeenLoader | None,
    threads: int | None = None,
) -> str | None:
    """Return why a script does not have a setting of its lane, or None.

    The loader is the one that it trains from, and `threads` are those with which PyTorch computes in it.
    """
    sets = list_sets(settings)
    has = set(has)
    if threads is not None and sets.get(THREADS_WORD, str(threads)) != str(threads):
        return f"threads has no effect: the script's own code makes it {threads}"
    for row in INSIDE:
        if row.name in sets and row.name not in has:
            return f"{row.name} was not set: {AGENT_SAYS.get(has_not.get(row.name, ''), row.why_unset)}"
    for name in _worded(settings, FROM_OUTSIDE):
        if name in has_not:
            return f"{name} has no effect: {AGENT_SAYS.get(has_not[name], has_not[name])}"
    if loader is None:
        return None
    for name, value in (("workers", loader.workers), ("prefetch", loader.prefetched)):
        if name in sets and value is not None and str(value) != sets[name]:
            return f"{name} was not set: the loader that the script trains from has {value}"
    return None


def change_a_line(command: Sequence[str], sets: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that compiles the script itself with a statement changed, if that is in its file.

    Modules are compiled so when they are imported.
    """
    words = [sets[name] for name in LINE_CHANGES if name in sets]
    for number, part in enumerate(command):
        if any(line_in(part, word) for word in words):
            return (*command[:number], str(RUNS_WITHOUT), *command[number:])
    return tuple(command)


def list_impossible(has: Iterable[str], has_not: Mapping[str, str], loader: SeenLoader | None) -> dict[str, str]:
    """Return why a script that was looked at cannot have a setting, or has it already, by setting or word of a lane."""
    has = set(has)
    found = {name: AGENT_SAYS[why] for name, why in has_not.items() if name not in has and why in AGENT_SAYS}
    found |= {row.name: row.why_unset for row in INSIDE if row.is_looked_for and row.name not in has | {*has_not}}
    if "execution" in found.keys() - {*has_not}:
        found["precision"] = NO_TORCH_MODEL
    if loader is not None and loader.kind in {"DataLoader", keras_hooks.DATA_LOADER}:
        found |= _of_data_loader(loader)
    elif loader is not None and loader.kind == keras_hooks.PY_DATASET:
        found[f"workers={loader.workers or 0}"] = HAS_AS_MANY
        if has_not.get("processes") != keras_setting.PROCESSES:
            found["workers=1"] = "of Keras's threads, one loads nothing ahead"
        if loader.workers and loader.queue and loader.queue % loader.workers == 0:
            found[f"prefetch={loader.queue // loader.workers}"] = HAS_AS_MANY
    elif loader is None or not loader.kind.endswith(MADE_BY_KERAS):
        found |= dict.fromkeys(setting.OF_LOADERS, NO_LOADER)
    return found


def _of_data_loader(loader: SeenLoader) -> dict[str, str]:
    """Return what the DataLoader cannot have that a script trains from, or has already."""
    found = {}
    if loader.is_iterable:
        found["workers"] = NO_NUMBERS
    if not loader.workers:
        found |= {"persistent": NO_WORKERS, "prefetch": NO_WORKERS}
    elif loader.keeps_workers:
        found["persistent"] = "the script keeps its workers already"
    if loader.pins_memory:
        found["pinned"] = "the script pins its batches already"
    if loader.batch is None:
        found["batch"] = "its DataLoader has no batch_size"
    found[f"workers={loader.workers or 0}"] = HAS_AS_MANY
    if loader.prefetched is not None:
        found[f"prefetch={loader.prefetched}"] = HAS_AS_MANY
    return found
