"""The proof: some steps from the same weights on the same batches, and a fingerprint of how the weights moved."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch
from torch import Tensor

from laptime.backends.torch.precision import set_precision
from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.backends.torch.runners import CapturedStep
from laptime.backends.torch.stepping import Stepper
from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.sample import ProofRun, Reference

PLAIN = Settings(input="cached")
CHANCE = 1e-5  # two float32 twins of one seed part by less, a second dropout mask parts them by far more


def prove(recipe: BuiltIn | Own, settings: Settings, precision: str, device: torch.device) -> ProofRun:
    """Take the proof's steps as the lane steps, at this precision."""
    began = time.perf_counter()
    set_precision(precision)
    chosen = replace(settings, precision=precision)  # type: ignore[arg-type]
    stepper = Stepper(recipe, chosen, device, recipe.proof.learning_rate_scale, dropout=False)
    before = [each.detach().cpu().clone() for each in stepper.network.parameters()]
    batches = [_placed(batch, settings, device) for batch in recipe.proof_batches()]
    take = _take_as_graph if settings.execution == "graph" else _take
    losses = take(recipe, stepper, batches)
    after = [each.detach().cpu() for each in stepper.network.parameters()]
    return make_run(precision, losses, before, after, time.perf_counter() - began)


def refer(recipe: BuiltIn | Own) -> Reference:
    """Take the same steps in float64 on the processor, and in float32 beside it: what rounding alone does."""
    processor = torch.device("cpu")
    twin = prove(recipe, PLAIN, "fp32", processor)
    problem = _find_problem(recipe, twin) if isinstance(recipe, Own) else None
    if problem:
        return _reference(recipe, twin, twin, problem)
    try:
        exact = _prove_exactly(recipe)
    except (RuntimeError, TypeError, ValueError) as error:
        return _reference(recipe, twin, twin, f"it cannot run in float64: {str(error).splitlines()[0]}")
    return _reference(recipe, exact, twin, None)


def _find_problem(recipe: Own, twin: ProofRun) -> str | None:
    """A user's network may draw random numbers where no dropout layer shows it: run it again on another seed."""
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps, at a hundredth of the learning rate")
    torch.manual_seed(1)
    again = prove(recipe, PLAIN, "fp32", torch.device("cpu"))
    pairs = zip(twin.losses, again.losses, strict=True)
    chance = max(abs(one - other) / max(abs(one), 1e-30) for one, other in pairs)
    return "it draws random numbers of its own, so no two runs are alike" if chance > CHANCE else None


def _reference(recipe: BuiltIn | Own, exact: ProofRun, twin: ProofRun, problem: str | None) -> Reference:
    weights = [each.numel() for each in recipe.network().parameters()]
    return Reference("", exact, twin, depth=len(weights), weights=sum(weights), problem=problem)


def _prove_exactly(recipe: BuiltIn | Own) -> ProofRun:
    began = time.perf_counter()
    stepper = Stepper(recipe, PLAIN, torch.device("cpu"), recipe.proof.learning_rate_scale, dropout=False)
    stepper.network.double()
    before = [each.detach().clone() for each in stepper.network.parameters()]
    batches = [(_doubled(inputs), _doubled(targets)) for inputs, targets in recipe.proof_batches()]
    losses = _take(recipe, stepper, batches)
    after = [each.detach() for each in stepper.network.parameters()]
    return make_run("fp64", losses, before, after, time.perf_counter() - began)


def _take(recipe: BuiltIn | Own, stepper: Stepper, batches: list[Batch]) -> list[float]:
    losses = []
    for step, batch in enumerate(batches):
        _prepare(recipe, stepper, step)
        losses.append(float(stepper(batch).item()))
    return losses


def _take_as_graph(recipe: BuiltIn | Own, stepper: Stepper, batches: list[Batch]) -> list[float]:
    """Replay the step as a graph. What changes from step to step is a constant in a graph, so each is captured."""
    start = [each.detach().clone() for each in stepper.network.state_dict().values()]
    _prepare(recipe, stepper, 0)
    captured = CapturedStep(stepper, batches[0])
    rewind(stepper, start)
    losses = []
    for step, batch in enumerate(batches):
        _prepare(recipe, stepper, step)
        captured.capture()
        captured.feed(batch)
        captured.replay()
        losses.append(float(captured.loss.item()))
    return losses


def _prepare(recipe: BuiltIn | Own, stepper: Stepper, step: int) -> None:
    recipe.before_step(stepper.optimizer, step + 1)
    scale = recipe.proof.scale_of(step)
    stepper.weigh = lambda loss: loss * scale


@torch.no_grad()
def rewind(stepper: Stepper, start: list[Tensor]) -> None:
    """Undo the warm-up in place: the graph keeps the addresses of weights and optimizer state."""
    for held, saved in zip(stepper.network.state_dict().values(), start, strict=True):
        held.copy_(saved)
    for state in stepper.optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def make_run(
    precision: str, losses: list[float], before: list[Tensor], after: list[Tensor], seconds: float
) -> ProofRun:
    """Give the fingerprint: float32 differences of near values are exact, sums are taken in float64."""
    moves, along, start = [], 0.0, 0.0
    for old, new in zip(before, after, strict=True):
        move = new - old
        moves.append(_length(move))
        along += float(torch.sum(move * old, dtype=torch.float64))
        start = math.hypot(start, _length(old))
    shrink = along / start**2 if start else 0.0
    return ProofRun(precision, tuple(losses), start, shrink, tuple(moves), seconds)


def _length(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def _placed(batch: Batch, settings: Settings, device: torch.device) -> Batch:
    channels_last = settings.layout == "channels_last"

    def place(value: object) -> object:
        if isinstance(value, Tensor):
            moved = value.to(device)
            wanted = torch.channels_last if channels_last and moved.dim() == 4 else torch.contiguous_format
            return moved.contiguous(memory_format=wanted)
        if isinstance(value, dict):
            return {key: place(each) for key, each in value.items()}
        return type(value)(map(place, value)) if isinstance(value, tuple | list) else value

    return place(batch[0]), place(batch[1])


def _doubled(value: object) -> object:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _doubled(each) for key, each in value.items()}
    return type(value)(map(_doubled, value)) if isinstance(value, tuple | list) else value
