"""How near the memory that a forecast counts comes to PyTorch's own count, and to peaks that others published.

    python bench/forecast_memory.py [--only tracker|published|measured] [--out FILE.json]

`tracker`: trainings on tensors without values, counted by laptime and by PyTorch's MemTracker. `published`: the
networks of bench/forecasts/memory.csv, built again and counted, next to what a card held. `measured`: the built-in
trainings next to what their heats held on an H100. Ranges are those of a forecast, for what was read there: the most
that tensors took, what the allocator kept, or what a driver showed, whose context is then known. The spread of the
ranges is found again with each source left out.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import Adafactor

from common import Figure, finish, parser_for
from laptime.attach.operators import as_a_card_computes, counting
from laptime.model.hardware import HeldMemory, Range, StepMemory
from laptime.questions.forecast.memory import (
    MIB,
    NOTHING,
    OF_CONVOLUTIONS,
    OF_GRAPHS,
    TENSORS_SPREAD,
    CardNeed,
    need_of_built_in,
    need_of_step,
)
from laptime.trainings.workloads import CATALOGUE
from memory_networks import NETWORKS

HERE = Path(__file__).parent
PUBLISHED, MEASURED = HERE / "forecasts" / "memory.csv", HERE / "results" / "2026-11-27-h100-truth.json"
PARTS = ("tracker", "published", "measured")
MOST_OFF_TRACKER, MOST_OFF = 0.02, 0.08
WITHIN_LEAST, WITHIN_MOST = 0.75, 0.9
MEASURED_RACES = ("cifar-mlp", "cifar-cnn", "plates-cnn", "scenes-cnn", "pets-densenet")  # the first ones of the file
MEASURED_WORKSPACE = 64 * MIB  # two of cuBLAS, on an H100
CONVOLUTION_NETWORKS = {"fcn_r18", "fcn_r50", "fcn_r101", "unet_6_72"}
WEIGHT_DECAY = 5e-4


@dataclass(frozen=True)
class Peak:
    """A training whose peak is known: what was read there, in bytes, and what CUDA and cuBLAS took of it."""

    source: str
    network: str
    batch: int
    size: int
    precision: str
    optimizer: str
    gradients: str
    options: frozenset[str]
    reading: str
    bytes: float
    context: float = 0.0
    workspace: float = 0.0

    @property
    def name(self) -> str:
        options = "".join(f", {each}" for each in sorted(self.options))
        return f"{self.network}, batch {self.batch}, {self.precision}, {self.optimizer}{options}"


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--source", default="", help="only published peaks of sources with this in their name")
    given = parser.parse_args()
    chosen = given.only or PARTS
    figures: list[Figure] = []
    if "tracker" in chosen:
        figures += compare_with_tracker()
    if "published" in chosen:
        figures += compare_with_published(given.source)
    if "measured" in chosen:
        figures += compare_with_measured()
    return finish("forecast_memory", figures, given.out)


# Next to PyTorch's own count.

TRACKED = (
    ("mlp", "adam", "freed", ""),
    ("mlp", "momentum", "kept", "single"),
    ("cnn", "momentum", "freed", ""),
    ("densenet", "adam", "freed", ""),
    ("fcn_r18", "momentum", "kept", "single"),
    ("vit_base", "adam", "late", ""),
    ("gpt2", "adam", "freed", ""),
    ("gpt2", "fused", "freed", ""),
    ("gpt2", "adam", "freed", "accumulates"),
    ("gpt2", "adam", "freed", "checkpoints"),
    ("gpt2", "sgd", "freed", "autocast"),
    ("gpt2_medium", "adafactor", "freed", ""),
    ("bert_large", "adam", "freed", ""),
    ("t5", "adam", "freed", ""),
    ("characters", "adam", "freed", ""),
    ("phi_1_5", "adam", "freed", ""),
)
SIZES = {"mlp": (512, 0), "cnn": (64, 64), "densenet": (32, 32), "fcn_r18": (1, 257), "vit_base": (4, 224),
         "characters": (32, 256)}  # fmt: skip
USUAL_SIZE = (2, 256)


def compare_with_tracker() -> list[Figure]:
    offs = []
    for network, optimizer, gradients, options in TRACKED:
        batch, size = SIZES.get(network, USUAL_SIZE)
        case = Peak(
            "", network, batch, size, "fp32", optimizer, gradients, frozenset(options.split()), "allocated", 0.0
        )
        ours, theirs = _count_both(case)
        offs.append(ours / theirs - 1)
        told = f"{ours / 1e6:.2f} MB, MemTracker {theirs / 1e6:.2f} MB, {offs[-1]:+.2%}"
        print(f"{case.name}, gradients {gradients}: {told}", flush=True)
    return [
        Figure(f"off MemTracker, {len(offs)} trainings on average", statistics.mean(map(abs, offs)), ""),
        Figure("off MemTracker, most", max(map(abs, offs)), "", most=MOST_OFF_TRACKER),
    ]


def _count_both(case: Peak) -> tuple[float, float]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        step, model, optimizer = _step_of(case)
        step()
        step()
        memory = _count(step)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with as_a_card_computes(), tracker:
            step(tracker.reset_mod_stats)
        peak = tracker.get_tracker_snapshot("peak")
    theirs = sum(each["Total"] for device, each in peak.items() if device.type == "cpu")
    return max(memory.passes.total_bytes, memory.update.total_bytes), theirs


# Next to what others published.


def compare_with_published(source: str) -> list[Figure]:
    found = []
    for peak in read_published():
        if source not in peak.source:
            continue
        need = need_of_step(count_peak(peak), 1.0, _space_of(peak), is_narrow=peak.precision == "amp")
        found.append((peak, need))
        _print_peak(peak, need)
    return [*_figures_of(found, "published peaks"), *_left_out(found)]


def read_published() -> Iterator[Peak]:
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Peak(
                row["source"], row["network"], int(row["batch"]), int(row["size"]), row["precision"], row["optimizer"],
                row["gradients"], frozenset(row["options"].split()), row["reading"], 1e9 * float(row["gb"]),
                1e9 * float(row["context_gb"] or 0), MIB * float(row["workspace_mib"] or 0),
            )  # fmt: skip


def count_peak(peak: Peak) -> StepMemory:
    with FakeTensorMode(allow_non_fake_inputs=True):
        step, _model, _optimizer = _step_of(peak)
        step()
        step()
        return _count(step)


def _count(step: Callable[[], None]) -> StepMemory:
    with counting() as counted:
        step()
    passes, update, narrow = (HeldMemory(*parts) for parts in counted.memory.parts().values())
    return StepMemory(passes, update, narrow, counted.memory.kept_bytes())


def range_of_reading(peak: Peak, need: CardNeed, spread: float = TENSORS_SPREAD) -> Range:
    """Return the range of a forecast, for what was read: without the context, and without what only an allocator keeps
    where tensors alone were read.
    """
    context = Range(peak.context, peak.context, peak.context)
    found = need.read(peak.workspace, context, spread)
    return replace(found, middle=found.middle - need.kept_bytes) if peak.reading == "allocated" else found


def _space_of(peak: Peak) -> Range:
    return OF_CONVOLUTIONS if peak.network in CONVOLUTION_NETWORKS else NOTHING


def _figures_of(found: list[tuple[Peak, CardNeed]], what: str) -> list[Figure]:
    offs = [_off(peak, need) for peak, need in found]
    within = [_is_within(peak, need, TENSORS_SPREAD) for peak, need in found]
    kept = [need.kept_bytes / need.held.total_bytes for _, need in found]
    figures = [Figure(f"off, {len(offs)} {what} on average", statistics.mean(map(abs, offs)), "", most=MOST_OFF)]
    for source in dict.fromkeys(peak.source for peak, _ in found):
        mine = [off for (peak, _), off in zip(found, offs, strict=True) if peak.source == source]
        figures.append(Figure(f"off, {len(mine)} of {source}", statistics.mean(map(abs, mine)), ""))
    return [
        *figures,
        Figure(f"off by 8 % at most, share of {what}", statistics.mean(abs(off) <= MOST_OFF for off in offs), ""),
        Figure(f"off most, {what}", max(offs, key=abs), ""),
        Figure(f"kept by an allocator, share of tensors, median of {what}", statistics.median(kept), ""),
        Figure(f"within the range, share of {what}", statistics.mean(within), "", least=WITHIN_LEAST, most=WITHIN_MOST),
    ]


def _left_out(found: list[tuple[Peak, CardNeed]]) -> list[Figure]:
    """Find the spread without each source, and hold the ranges of that source against it."""
    within: list[bool] = []
    for source in dict.fromkeys(peak.source for peak, _ in found):
        others = [each for each in found if each[0].source != source]
        spread = spread_of(others)
        within += [_is_within(peak, need, spread) for peak, need in found if peak.source == source]
    return [
        Figure(
            "spread of all sources", spread_of(found), "", most=TENSORS_SPREAD + 0.005, least=TENSORS_SPREAD - 0.005
        ),
        Figure("within the range, its source left out", statistics.mean(within), "", least=0.7),
    ]


def spread_of(found: Iterable[tuple[Peak, CardNeed]]) -> float:
    """Return the least spread, in steps of a half percent, that holds 80 % of the peaks."""
    known = list(found)
    for step in range(100):
        spread = step / 200
        if statistics.mean(_is_within(peak, need, spread) for peak, need in known) >= 0.8:
            return spread
    return math.inf


def _is_within(peak: Peak, need: CardNeed, spread: float) -> bool:
    found = range_of_reading(peak, need, spread)
    return found.low <= peak.bytes <= found.high


def _off(peak: Peak, need: CardNeed) -> float:
    return range_of_reading(peak, need).middle / peak.bytes - 1


def _print_peak(peak: Peak, need: CardNeed) -> None:
    found = range_of_reading(peak, need)
    ends = f"{found.low / 1e9:.2f}-{found.high / 1e9:.2f}"
    told = f"{peak.source}: {peak.name}: {peak.reading} {peak.bytes / 1e9:.2f} GB, counted {found.middle / 1e9:.2f}"
    print(
        f"{told} ({ends}), {_off(peak, need):+.1%}{'' if _is_within(peak, need, TENSORS_SPREAD) else ' OUT'}",
        flush=True,
    )


# Next to what heats of the built-in trainings held.


def compare_with_measured() -> list[Figure]:
    found = []
    races = json.loads(MEASURED.read_text(encoding="utf-8"))["details"]["races"]
    for race, name in zip(races, MEASURED_RACES, strict=False):
        for lane in race["lanes"]:
            held = lane["device_memory_bytes"]
            ways = {"as-written": "fp32", "best": "fp32", "fastest": "bf16"}
            way = lane["name"].rpartition("/")[2]
            if not isinstance(held, int) or way not in ways:
                continue
            workload = CATALOGUE[name]
            peak = Peak(
                "laptime", name, workload.batch, 0, ways[way], way, "", frozenset(), "allocated", held,
                workspace=MEASURED_WORKSPACE,
            )  # fmt: skip
            plain = NOTHING if name == "cifar-mlp" else OF_CONVOLUTIONS
            space = plain if way == "as-written" else OF_GRAPHS
            need = need_of_built_in(workload, workload.batch, 0.5 if ways[way] == "bf16" else 1.0, space)
            found.append((peak, need))
            _print_peak(peak, need)
    return _figures_of(found, "heats of built-in trainings on an H100")


# A step of a training, on tensors without values.


def _step_of(peak: Peak) -> tuple[Callable[..., None], nn.Module, torch.optim.Optimizer]:
    network = NETWORKS[peak.network]
    torch.set_default_dtype(torch.bfloat16 if peak.precision == "bf16" else torch.float32)
    model = network.make().train()
    torch.set_default_dtype(torch.float32)
    if "checkpoints" in peak.options:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
    weights = [each for each in model.parameters() if each.requires_grad]
    optimizer = _optimizer_of(peak, weights)
    bucket = torch.empty(sum(each.numel() for each in weights)) if "buckets" in peak.options else None
    passes = 2 if "accumulates" in peak.options else 1

    def step(between: Callable[[], object] = bool) -> None:
        if peak.gradients == "freed":
            optimizer.zero_grad()
        for _ in range(passes):
            between()
            with torch.autocast("cpu", enabled="autocast" in peak.options), softmax_of(peak.options):
                loss = network.loss_of(model, peak.batch, peak.size)
            if peak.gradients == "late":
                optimizer.zero_grad()
            with softmax_of(peak.options):  # of what is computed once more
                loss.backward()  # type: ignore[no-untyped-call]
        if bucket is not None:
            bucket.zero_()
        optimizer.step()
        if peak.gradients == "kept":
            optimizer.zero_grad(set_to_none=False)

    return step, model, optimizer


class InputKeepingSoftmax(torch.autograd.Function):
    """Softmax as PyTorch had it until version 1.10: it keeps its input for the backward pass."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        shares = torch.softmax(scores, -1)
        ctx.save_for_backward(scores, shares)
        return shares

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        _scores, shares = ctx.saved_tensors
        return shares * (gradient - (gradient * shares).sum(-1, keepdim=True))


@contextmanager
def softmax_of(options: frozenset[str]) -> Iterator[None]:
    """Compute softmax as the version of PyTorch that was measured."""
    usual = nn.functional.softmax
    if "old_softmax" in options:
        nn.functional.softmax = lambda scores, **_named: InputKeepingSoftmax.apply(scores)
    try:
        yield
    finally:
        nn.functional.softmax = usual


def _optimizer_of(peak: Peak, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
    at_once = "single" not in peak.options
    match peak.optimizer:
        case "adam":
            return torch.optim.AdamW(weights, foreach=at_once)
        case "fused":
            return torch.optim.AdamW(weights, fused=True)
        case "adafactor":
            return Adafactor(weights, lr=1e-4, scale_parameter=False, relative_step=False)
        case "momentum":
            return torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=WEIGHT_DECAY, foreach=at_once)
        case _:
            return torch.optim.SGD(weights, lr=0.1, foreach=at_once)


if __name__ == "__main__":
    raise SystemExit(main())
