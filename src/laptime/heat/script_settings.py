"""Which settings the agent makes inside a script that is raced, whether it has them then, and which it cannot have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from laptime.attach import setting
from laptime.model.process import Settings
from laptime.model.script import SeenLoader
from laptime.model.symptoms import CANNOT_HAVE

AS_THE_SCRIPT_HAS_IT = (None, "keep", "off")
NO_LOADER = "the script makes no DataLoader of PyTorch"
NO_NUMBERS = "the data set is iterated, and each worker would give all of its items"
NO_WORKERS = "its DataLoader has no workers"
NO_TORCH_MODEL = "no model of PyTorch was called to train"

# What the agent's words mean.
AGENT_SAYS = {
    setting.NO_CONVOLUTION: "the model has no convolution of images",
    setting.ITSELF_COMPILED: "the script compiles its model itself",
    setting.NO_FUSED: "its optimizer has no fused form here",
    setting.FUSED: "its optimizer is fused already",
    setting.HAS_FAILED: "this PyTorch or the model itself does not take it",
    setting.OTHER_FORM: "the script chose another form of its optimizer: foreach, capturable or differentiable",
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
    InsideRow("precision", NO_TORCH_MODEL),
    InsideRow("execution", NO_TORCH_MODEL, is_looked_for=True),
    InsideRow("layout", NO_TORCH_MODEL, is_looked_for=True),
    InsideRow("optimizer", "the script makes no optimizer of PyTorch", is_looked_for=True),
    InsideRow("workers", "the script makes no DataLoader of items by number"),
    InsideRow("prefetch", NO_WORKERS),
    InsideRow("persistent", NO_WORKERS),
    InsideRow("pinned", NO_LOADER),
    InsideRow("batch", "the script makes no DataLoader with a batch_size"),
)


def list_sets(settings: Settings) -> dict[str, str]:
    """Return what the agent of a lane is to set, by name, in its words."""
    plain = Settings()
    found = {row.name: settings.value_of(row.name) for row in INSIDE}
    words = {
        name: str(value)
        for name, value in found.items()
        if value not in AS_THE_SCRIPT_HAS_IT and value != plain.value_of(name)
    }
    return words | ({} if settings.joined is None else {"batch": f"{settings.joined}x"})


def find_unset(
    settings: Settings, has: Iterable[str], has_not: Mapping[str, str], loader: SeenLoader | None
) -> str | None:
    """Return why a script does not have a setting of its lane, or None. The loader is the one that it trains from."""
    sets, has = list_sets(settings), set(has)
    for row in INSIDE:
        if row.name in sets and row.name not in has:
            return f"{row.name} was not set: {AGENT_SAYS.get(has_not.get(row.name, ''), row.why_unset)}"
    if loader is None:
        return None
    seen = {"workers": loader.workers, "prefetch": loader.prefetched}
    for name, value in seen.items():
        if name in sets and value is not None and str(value) != sets[name]:
            return f"{name} was not set: the loader that the script trains from has {value}"
    return None


def list_impossible(has: Iterable[str], has_not: Mapping[str, str], loader: SeenLoader | None) -> dict[str, str]:
    """Return why a script that was looked at cannot have a setting, or has it already, by setting or word of a lane."""
    has = set(has)
    found = {name: AGENT_SAYS[why] for name, why in has_not.items() if name not in has and why in AGENT_SAYS}
    found |= {row.name: row.why_unset for row in INSIDE if row.is_looked_for and row.name not in has | {*has_not}}
    if "execution" in found.keys() - {*has_not}:
        found["precision"] = NO_TORCH_MODEL
    if loader is None or loader.kind != "DataLoader":
        found |= dict.fromkeys(setting.OF_LOADERS, NO_LOADER)
    else:
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
        found[f"workers={loader.workers or 0}"] = "the script has as many already"
        if loader.prefetched is not None:
            found[f"prefetch={loader.prefetched}"] = "the script has as many already"
    return {f"{CANNOT_HAVE}{name}": why for name, why in found.items()}
