"""The proof of equal work: is every planted difference caught, and is no honest lane accused?

    python bench/proof.py                       all five networks, every planted difference, each honest lane once
    python bench/proof.py --honest 100          100 honest proofs with other seeds, spread over networks and lanes
    python bench/proof.py cifar-cnn plates-cnn  these networks only

A planted difference is a training that was changed in one thing; its proof runs as any lane's does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from laptime.analysis.parity import judge_parity, may_be_chance
from laptime.engine.backends.torch.proof import prove, refer
from laptime.engine.backends.torch.recipe import BuiltInRecipe, StepBatch
from laptime.model.hardware import BatchNorm, Conv, Dense, DenseBlock, Layer, Relu
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.record import Parity
from laptime.model.sample import Appeal, ProofRun, Reference
from laptime.model.workload import Adam, Sgd, Workload
from laptime.questions.proving import SEEDS_ON
from laptime.trainings.workloads import CATALOGUE, find_workload

CPU = torch.device("cpu")
PACE = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
PLAIN = Settings(input="cached")
BEST = replace(PLAIN, preset="best", layout="channels_last", optimizer="fused", malloc="keep")
HONEST = {"as-written": PLAIN, "best": BEST, "fastest": replace(BEST, precision="bf16")}

Change = Callable[[Workload], Workload]
ChangeBatches = Callable[[list[StepBatch]], list[StepBatch]]


class Planted(BuiltInRecipe):
    """A built-in training with one thing changed: in its description, in its batches, or in its optimizer's steps."""

    def __init__(self, order: HeatOrder, change: Change, batches: ChangeBatches) -> None:
        super().__init__(order)
        self.workload = change(self.workload)
        self._batches = batches

    def proof_batches(self) -> list[StepBatch]:
        return self._batches(super().proof_batches())


def order_for(name: str, seed: int) -> HeatOrder:
    workload = find_workload(name)
    subject = Subject(name, "", workload.parameters, workload.batch, workload.steps_per_lap, 1, "images")
    lane = PlannedLane(name, "torch", Device("cpu", "cpu", "processor", usable=True), PLAIN)
    return HeatOrder(subject, lane, seed, workload.proof, PACE)


def take(recipe: BuiltInRecipe, settings: Settings) -> tuple[ProofRun, ...]:
    """Prove as a heat does."""
    precisions = ("fp32",) if settings.precision == "fp32" else ("fp32", settings.precision)
    return tuple(prove(recipe, settings, precision, CPU) for precision in precisions)


def judge(reference: Reference, recipe: BuiltInRecipe, settings: Settings) -> Parity:
    """Judge one proof, with no second chance: a planted difference has to show in every one."""
    return judge_parity(settings, [take(recipe, settings)], reference)


def judge_twice(order: HeatOrder, settings: Settings) -> Parity:
    """Judge an honest lane as a race does: who seems to differ is proven again from another seed."""
    reference, runs = refer(BuiltInRecipe(order)), take(BuiltInRecipe(order), settings)
    first = judge_parity(settings, [runs], reference)
    if first.status == "same" or not may_be_chance([runs], reference):
        return first
    other = replace(order, seed=order.seed + SEEDS_ON)
    appeal = Appeal(other.seed, refer(BuiltInRecipe(other)), take(BuiltInRecipe(other), settings))
    return judge_parity(settings, [runs], reference, appeal)


def planted_for(workload: Workload) -> dict[str, tuple[Change, ChangeBatches]]:
    """Return every planted difference that touches this workload."""

    def same(value: Workload) -> Workload:
        return value

    def keep(batches: list[StepBatch]) -> list[StepBatch]:
        return batches

    changes: dict[str, tuple[Change, ChangeBatches]] = {
        "learning rate +1 %": (_optimizer(learning_rate=workload.optimizer.learning_rate * 1.01), keep),
        "weight decay 1e-4": (_optimizer(weight_decay=1e-4), keep),
        "a layer less": (_without_a_layer, keep),
        "another activation": (_other_activation, keep),
        "batch order": (same, lambda batches: [batches[1], batches[0], *batches[2:]]),
        "one pixel not scaled": (same, _unscale_a_pixel),
    }
    if not isinstance(workload.layers[1], BatchNorm):
        # A batch norm behind a first convolution without bias takes any common factor of the pixels out again.
        changes["pixels / 256, not 255"] = (same, lambda batches: [(x * (255 / 256), y) for x, y in batches])
    if any(isinstance(layer, Conv) for layer in workload.layers):
        changes["another padding"] = (_other_padding, keep)
    if isinstance(workload.optimizer, Adam):
        other = 1e-8 if workload.optimizer.epsilon > 5e-8 else 1e-7
        changes["beta1 0.89"] = (_optimizer(beta1=0.89), keep)
        changes["beta2 0.99"] = (_optimizer(beta2=0.99), keep)
        changes["epsilon 1e-8 <-> 1e-7"] = (_optimizer(epsilon=other), keep)
        if workload.optimizer.epsilon_placement == "before":
            changes["epsilon's other place"] = (_optimizer(epsilon_placement="after"), keep)
    return changes


def _optimizer(**changed: object) -> Change:
    def change(workload: Workload) -> Workload:
        optimizer: Adam | Sgd = replace(workload.optimizer, **changed)  # type: ignore[arg-type]
        return replace(workload, optimizer=optimizer)

    return change


def _without_a_layer(workload: Workload) -> Workload:
    layers = list(workload.layers)
    kinds: tuple[type[Layer], ...] = (DenseBlock, Dense)
    kind = next(kind for kind in kinds if any(isinstance(layer, kind) for layer in layers))
    place = next(place for place, layer in enumerate(layers) if isinstance(layer, kind))
    if kind is DenseBlock:  # one of the 58 layers inside the blocks
        layers[place] = replace(layers[place], layers=layers[place].layers - 1)  # type: ignore[union-attr,arg-type]
    else:
        del layers[place]
    return replace(workload, layers=tuple(layers))


def _other_activation(workload: Workload) -> Workload:
    layers = list(workload.layers)
    for place, layer in enumerate(layers):
        if isinstance(layer, Relu):
            del layers[place]
            break
        if isinstance(layer, Conv | Dense):
            layers[place] = replace(layer, activation="none" if layer.activation == "relu" else "relu")
            break
    return replace(workload, layers=tuple(layers))


def _other_padding(workload: Workload) -> Workload:
    layers = list(workload.layers)
    place = next(place for place, layer in enumerate(layers) if isinstance(layer, Conv))
    conv = layers[place]
    assert isinstance(conv, Conv)
    layers[place] = replace(conv, padding={"same": "valid", "valid": "same", 3: 2}[conv.padding])
    return replace(workload, layers=tuple(layers))


def _unscale_a_pixel(batches: list[StepBatch]) -> list[StepBatch]:
    """Leave the middle pixel of each image in 0..255, as a reader that forgets it would."""
    changed = []
    for images, labels in batches:
        copy = images.clone()
        copy[:, :, copy.shape[2] // 2, copy.shape[3] // 2] *= 255
        changed.append((copy, labels))
    return changed


def run_planted(names: list[str]) -> tuple[list[dict[str, object]], int]:
    rows: list[dict[str, object]] = []
    wrong = 0
    for name in names:
        began = time.perf_counter()
        reference = refer(BuiltInRecipe(order_for(name, 0)))
        print(
            f"\n{name}: reference {time.perf_counter() - began:.1f} s, {len(reference.exact.losses)} steps", flush=True
        )
        for lane, settings in HONEST.items():
            began = time.perf_counter()
            parity = judge(reference, BuiltInRecipe(order_for(name, 0)), settings)
            rows.append(_row(name, f"honest: {lane}", parity, time.perf_counter() - began))
            wrong += parity.status != "same"
        for what, (change, batches) in planted_for(find_workload(name)).items():
            began = time.perf_counter()
            try:
                parity = judge(reference, Planted(order_for(name, 0), change, batches), PLAIN)
            except RuntimeError as error:  # a layer less may not even fit the weights; that is caught too
                parity = Parity("differs", reason=str(error).splitlines()[0])
            rows.append(_row(name, what, parity, time.perf_counter() - began))
            wrong += parity.status != "differs"
    return rows, wrong


def run_honest(names: list[str], count: int) -> tuple[list[dict[str, object]], int]:
    """Prove honest lanes on other seeds; light networks more often, so that it ends within the hour."""
    share = {"pets-densenet": 0.05, "scenes-cnn": 0.1, "plates-cnn": 0.25, "cifar-mlp": 0.3, "cifar-cnn": 0.3}
    total = sum(share[name] for name in names)
    rows: list[dict[str, object]] = []
    wrong = 0
    for name in names:
        for number in range(max(1, round(count * share[name] / total))):
            order = order_for(name, 1000 + number)
            lane, settings = list(HONEST.items())[number % len(HONEST)]
            parity = judge_twice(order, settings)
            rows.append(_row(name, f"honest: {lane}, seed {order.seed}", parity, 0.0))
            wrong += parity.status != "same"
    return rows, wrong


def _row(name: str, what: str, parity: Parity, seconds: float) -> dict[str, object]:
    loss = (parity.worst or 0.0) / (parity.tolerance or 1.0)
    shown = f"loss {loss:9.2g}  moved {parity.moved or 0.0:9.2g}  {seconds:5.1f} s"
    print(f"  {what:34s} {parity.status:8s} {shown}  {parity.reason or parity.chance or ''}"[:150], flush=True)
    return {
        "network": name,
        "what": what,
        "status": parity.status,
        "loss_of_tolerance": loss,
        "moved_of_tolerance": parity.moved,
        "strays": parity.strays,
        "strays_tolerance": parity.strays_tolerance,
        "seconds": seconds,
        "reason": parity.reason,
        "chance": parity.chance,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(CATALOGUE))
    parser.add_argument("--honest", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows, wrong = run_honest(given.names, given.honest) if given.honest else run_planted(given.names)
    print(f"\n{len(rows)} proofs, {wrong} judged wrongly")
    if given.out:
        given.out.write_text(json.dumps({"wrong": wrong, "rows": rows}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
