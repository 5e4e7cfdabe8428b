"""Made data next to the published curves, and how many denormal numbers a training on it holds.

    python bench/made_data.py [--out FILE.json] [--what cifar-mlp] [--laps 10] [--steps 1563] [--data DIR]
    python bench/made_data.py --on keras-tf --on keras-jax --on keras-torch --what cifar-mlp

Trains each network in PyTorch as it is written, in one process, on the items that a lane keeps in memory: loss and
accuracy of each lap next to the published ones, then of the made test items. Denormals are not flushed. At 100, 500,
1,000 and 2,000 steps and at the end of each lap, a census counts the share of denormal numbers in each tensor of
weights, gradients, moments, and activations and their gradients; dead units are those that are 0 for all items of a
batch. With `--on`, `bench/made_data_keras.py` trains each network in Keras up to these numbers of steps, and counts.

The figures are kept after each lap, and in Keras after each census, so a run that is stopped has those. `what@0.25` is
a smaller network.
`--data DIR` trains on the first items of a set of `laptime data make` instead of those made in memory.
`--dead` instead shows what Adam does to weights whose gradients are 0 from the second step on, as of dead units.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from common import Figure, WorkerError, finish, parser_for, result, write_json
from laptime.engine.backends import open_backend
from laptime.engine.backends.torch.inputs import ShuffledItems
from laptime.engine.backends.torch.recipe import BuiltInRecipe, batches_of
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.stats import median
from laptime.model.workload import Workload
from laptime.trainings.data import read_source
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.data import least_loss, most_accuracy

KERAS_FILE = Path(__file__).resolve().parent / "made_data_keras.py"
KERAS = ("keras-tf", "keras-jax", "keras-torch")
MARKS = (100, 500, 1000, 2000)
LEAST_NORMAL = torch.finfo(torch.float32).smallest_normal
MOST_DENORMAL = 0.001
WITHIN = 0.1
TESTED = 1000
SHOWN = 8


Following = Iterator[tuple[list[Figure], dict[str, Any]]]


class Trained(NamedTuple):
    """A network as it is trained, with what a step needs."""

    recipe: BuiltInRecipe
    network: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Callable[[int], Any]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--what", dest="workloads", action="append", help="only these networks")
    parser.add_argument("--laps", type=int, help="the published number, if it is not given")
    parser.add_argument("--steps", type=int, help="steps of a lap, the published number if it is not given")
    parser.add_argument("--on", action="append", choices=KERAS, help="train in Keras instead, on this engine")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a set of `laptime data make`")
    parser.add_argument("--dead", action="store_true", help="look at the moments of dead units alone")
    given = parser.parse_args()
    torch.set_flush_denormal(False)
    details: dict[str, Any] = {}
    figures: list[Figure] = []
    if given.dead:
        figures, details = follow_dead()
        return finish("made_data", figures, given.out, details=details)
    if given.on and (given.laps or given.steps or given.data):
        parser.error("--on trains up to the last census, on items made in memory: leave --laps, --steps and --data out")
    versions: dict[str, str] = {}
    for key, following in list_trainings(given):
        kept = list(figures)
        for figures_now, found in following:
            versions |= found.pop("versions", {})
            details[key], figures = found, [*kept, *figures_now]
            if given.out is not None:
                write_json(given.out, result("made_data", figures, details=details, versions=versions))
    return finish("made_data", figures, given.out, details=details, versions=versions)


def list_trainings(given: argparse.Namespace) -> Iterator[tuple[str, Following]]:
    """Yield a name for each training, and the generator that follows it."""
    for name in given.workloads or list(CATALOGUE):
        workload = find_workload(name)
        if not given.on:
            yield name, follow(workload, given)
        for framework in given.on or ():
            yield f"{name} on {framework}", follow_keras(workload, framework)


def follow(workload: Workload, given: argparse.Namespace) -> Following:
    """Train, and yield all that is known after each lap."""
    trained = open_training(workload, given.data)
    steps = given.steps or workload.steps_per_lap
    laps: list[dict[str, Any]] = []
    counts: dict[int, dict[str, Any]] = {}
    for lap in range(given.laps or workload.laps):
        began, losses, right = time.monotonic(), 0.0, 0.0
        for step in range(lap * steps, (lap + 1) * steps):
            loss, share = take_step(trained, step)
            losses, right = losses + loss, right + share
            if step + 1 in MARKS or step + 1 == (lap + 1) * steps:
                counts[step + 1] = census(trained, step) | {"loss": loss}
                print(f"{workload.name} step {step + 1}: {counts[step + 1]}", flush=True)
        laps.append(describe_lap(trained, losses / steps, right / steps, time.monotonic() - began))
        print(f"{workload.name} lap {lap + 1}: {laps[-1]}", flush=True)
        found = {"laps": laps, "steps_a_lap": steps, "census": counts, "published": published_curves(workload)}
        yield judge(workload, laps, counts, steps), found


def follow_keras(workload: Workload, framework: str) -> Following:
    """Train in a process of its own, and yield all that is known after each census."""
    command = [sys.executable, str(KERAS_FILE), framework, workload.name, *map(str, MARKS)]
    name, counts = f"{workload.name} on {framework}", dict[int, dict[str, Any]]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            found = json.loads(line)
            counts[found.pop("step")] = found
            print(f"{name}: {line}", end="", flush=True)
            least = Figure(f"{name}: loss since the census before", found["loss"], least=least_end(workload))
            yield [least, *judge_census(name, counts)], {"census": counts, "versions": found.pop("versions")}
    if child.returncode:
        raise WorkerError(f"{name} ended with exit code {child.returncode}")


def follow_dead() -> tuple[list[Figure], dict[str, Any]]:
    """Step a million weights with Adam, once with gradients and then without; time its steps before and after 700."""
    torch.manual_seed(0)
    weights = nn.Parameter(torch.randn(1_000_000))
    optimizer = torch.optim.Adam([weights], lr=1e-3)
    weights.grad = torch.randn_like(weights) * 1e-3
    times: list[float] = []
    shares: dict[int, float] = {}
    for step in range(1, 1501):
        began = time.process_time()
        optimizer.step()
        times.append((time.process_time() - began) * 1000)
        weights.grad.zero_()
        if step % 100 == 0:
            shares[step] = share_denormal(optimizer.state[weights]["exp_avg"])
    figures = [
        Figure("share of denormals in the first moment after 500 steps", shares[500]),
        Figure("after 800 steps", shares[800]),
        Figure("after 1500 steps", shares[1500]),
        Figure("a step of a million weights, steps 101 to 500", median(times[100:500]), "ms"),
        Figure("steps 901 to 1500", median(times[900:]), "ms"),
    ]
    return figures, {"share_denormal": shares, "threads": torch.get_num_threads()}


def open_training(workload: Workload, data: Path | None) -> Trained:
    cpu = next(device for device in open_backend("torch").devices() if device.name == "cpu")
    lane = PlannedLane("torch/cpu", "torch", cpu, Settings())
    subject = Subject(
        workload.name, "", workload.parameters, workload.batch, workload.steps_per_lap, workload.laps, workload.items
    )
    pace = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
    source = None if data is None else read_source(workload, data, 0)
    recipe = BuiltInRecipe(HeatOrder(subject, lane, 0, workload.proof, pace, 0, data=source))
    network = recipe.network().train()
    optimizer = recipe.optimizer(network, rate=1.0, options={})
    return Trained(
        recipe, network, optimizer, ShuffledItems(recipe, workload.batch, channels_last=False, pin=False, seed=0)
    )


def take_step(trained: Trained, step: int) -> tuple[float, float]:
    """Return the loss, and the share of right answers."""
    images, labels = trained.batch(step)
    trained.recipe.before_step(trained.optimizer, step + 1)
    trained.optimizer.zero_grad(set_to_none=True)
    outputs = trained.network(images)
    loss = trained.recipe.loss(outputs, labels)
    loss.backward()
    trained.optimizer.step()
    return loss.item(), (outputs.argmax(-1) == labels).float().mean().item()


def describe_lap(trained: Trained, loss: float, accuracy: float, lap_s: float) -> dict[str, Any]:
    """Return the means of a lap in training mode, and those of the test items after it."""
    trained.network.eval()
    items = trained.recipe.test_items(TESTED)
    losses, right, batches = 0.0, 0.0, 0
    with torch.no_grad():
        for images, labels in batches_of(items, min(32, len(items.labels))):
            outputs = trained.network(images)
            losses += trained.recipe.loss(outputs, labels).item()
            right += (outputs.argmax(-1) == labels).float().mean().item()
            batches += 1
    trained.network.train()
    return {
        "loss": loss,
        "accuracy": accuracy,
        "test_loss": losses / batches,
        "test_accuracy": right / batches,
        "lap_s": lap_s,
    }


def census(trained: Trained, step: int) -> dict[str, Any]:
    """Count denormal numbers in all tensors of the next step, which changes no weight, and the units that are dead."""
    seen: dict[str, Tensor] = {}
    random = torch.get_rng_state()
    hooks = [watch(name, module, seen) for name, module in trained.network.named_children()]
    images, labels = trained.batch(step + 1)
    trained.optimizer.zero_grad(set_to_none=True)
    trained.recipe.loss(trained.network(images), labels).backward()
    for hook in hooks:
        hook.remove()
    torch.set_rng_state(random)
    for name, parameter in trained.network.named_parameters():
        seen |= {name: parameter.detach(), f"gradient of {name}": parameter.grad}
        state = trained.optimizer.state.get(parameter, {})
        seen |= {f"{kind} of {name}": value for kind, value in state.items() if value.numel() > 1}
    shares = {name: share_denormal(tensor) for name, tensor in seen.items()}
    worst = sorted(((share, name) for name, share in shares.items() if share), reverse=True)[:SHOWN]
    relus = [name for name, module in trained.network.named_children() if isinstance(module, nn.ReLU)]
    return {
        "tensors": len(shares),
        "worst": {name: share for share, name in worst},
        "most": max(shares.values()),
        "dead_units": {name: share_dead(seen[f"output of {name}"]) for name in relus},
    }


def watch(name: str, module: nn.Module, seen: dict[str, Tensor]) -> Any:
    """Keep what a layer returns, and the gradient that comes back to it."""

    def keep(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        seen[f"output of {name}"] = output.detach().clone()
        if output.requires_grad:
            output.register_hook(lambda gradient: seen.__setitem__(f"gradient behind {name}", gradient.detach()))

    return module.register_forward_hook(keep)


def share_denormal(tensor: Tensor) -> float:
    sizes = tensor.abs()
    return ((sizes > 0) & (sizes < LEAST_NORMAL)).float().mean().item()


def share_dead(output: Tensor) -> float:
    """Return the share of units (of a convolution: of filters) that are 0 for all items of a batch."""
    return (output.transpose(0, 1).flatten(1) <= 0).all(1).float().mean().item()


def published_curves(workload: Workload) -> dict[str, list[float]]:
    """Return the first published run that has accuracies."""
    plain = find_workload(workload.name.partition("@")[0])
    for each in plain.published.results:
        if each.accuracy:
            return {
                "accuracy": list(each.accuracy),
                "val_accuracy": list(each.val_accuracy),
                "loss": list(each.loss),
            }
    return {}


def judge(
    workload: Workload, laps: list[dict[str, Any]], counts: dict[int, dict[str, Any]], steps: int
) -> list[Figure]:
    """Hold each lap's accuracy against the published one, the last loss against the least, and each census."""
    figures: list[Figure] = []
    name, published = workload.name, published_curves(workload)
    curve = published.get("accuracy", [])
    if len(curve) > 1 and steps == workload.steps_per_lap:
        off = [abs(lap["accuracy"] - each) for lap, each in zip(laps, curve, strict=False)]
        figures.append(Figure(f"{name}: accuracy of {len(off)} laps next to the published", max(off), most=WITHIN))
    figures += [
        Figure(f"{name}: loss of the last lap", laps[-1]["loss"], least=least_end(workload)),
        Figure(f"{name}: accuracy of the last lap", laps[-1]["accuracy"]),
        Figure(f"{name}: most that its items allow", most_accuracy(workload)),
        Figure(f"{name}: test accuracy at the end", laps[-1]["test_accuracy"]),
    ]
    return [*figures, *judge_census(name, counts)]


def judge_census(name: str, counts: dict[int, dict[str, Any]]) -> list[Figure]:
    return [
        Figure(f"{name}: most denormals in a tensor at step {step}", found["most"], most=MOST_DENORMAL)
        for step, found in counts.items()
    ]


def least_end(workload: Workload) -> float:
    """Return the least loss at which a training is not learned by heart: a third of the published end, or near it."""
    ends = published_curves(workload).get("loss", [])
    return ends[-1] / 3 if ends else least_loss(workload) * 0.9


if __name__ == "__main__":
    sys.exit(main())
