"""The proof: some steps from the same weights on the same batches, and a fingerprint of how the weights moved."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from laptime.engine.backends.arrays import CHANCE, FloatArray, measure_movement
from laptime.engine.backends.closures import widened_closure
from laptime.engine.backends.torch.batches import in_layout, mapped, move_leaf
from laptime.engine.backends.torch.devices import compute_as
from laptime.engine.backends.torch.predictor import doubled, first_line
from laptime.engine.backends.torch.random_numbers import SameRandomNumbers, draws_left_to_kernels, restored_generators
from laptime.engine.backends.torch.ranks import computes_over_batch, gather_whole
from laptime.engine.backends.torch.recipe import BuiltInRecipe, OwnRecipe, StepBatch, TorchRecipe
from laptime.engine.backends.torch.runners import CapturedStep
from laptime.engine.backends.torch.stepping import Stepper, optimizer_options, switch_off_dropout
from laptime.engine.backends.torch.symptoms import count_compiled
from laptime.model.errors import LaneError
from laptime.model.process import Settings
from laptime.model.sample import LateStep, Movement, ProofRun, Reference

TORCH_PROOF_SETTINGS = Settings(input="cached")
CPU = torch.device("cpu")
HALVINGS_MOST = 40  # of fp16's loss scale, each with a step that was left out and is taken again
LAYER_RATES = {"p": "dropout rate", "dropout": "dropout rate", "momentum": "momentum of running statistics"}


class SingleSteps:
    """Created before the small steps, to keep their initial weights. Without single steps, it does nothing."""

    def __init__(self, recipe: TorchRecipe, stepper: Stepper, settings: Settings) -> None:
        self._recipe = recipe
        self._stepper = stepper
        self._settings = settings
        self._rate = recipe.proof.single_step_scale
        self._start: list[Tensor] = []
        if self._rate is not None:
            self._start = [tensor.detach().clone() for tensor in stepper.network.state_dict().values()]

    def add_to(self, run: ProofRun, take: Callable[[float], object]) -> ProofRun:
        """Return the run with both single steps; `take` runs one step with its gradients times `gradients`."""
        if self._rate is None:
            return run
        single = self._measure(take, 1.0, self._rate)
        decay = self._measure(take, 0.0, self._rate)
        return replace(run, single=single, decay=decay, scales=(self._recipe.proof.loss_scale,))

    def _measure(self, take: Callable[[float], object], gradients: float, rate: float) -> Movement:
        network = self._stepper.network
        restore_weights(network, self._start)
        options = optimizer_options(self._settings, next(network.parameters()).device)
        self._stepper.optimizer = self._recipe.optimizer(network, rate=rate, options=options)
        before = [_as_array(parameter) for parameter in network.parameters()]
        take(gradients)
        return measure_movement(before, map(_as_array, network.parameters()))


@torch.no_grad()
def restore_weights(network: torch.nn.Module, start: list[Tensor]) -> None:
    """Copy saved values in place: a graph keeps the addresses."""
    for held, saved in zip(network.state_dict().values(), start, strict=True):
        held.copy_(saved)


def _as_array(weights: Tensor) -> FloatArray:
    array: FloatArray = gather_whole(weights.detach()).to("cpu", torch.float64, copy=True).numpy()
    return array


def prove(recipe: TorchRecipe, settings: Settings, precision: str, device: torch.device) -> ProofRun:
    """Run the proof's steps as the lane runs its steps, at this precision."""
    chosen = replace(settings, precision=precision)  # type: ignore[arg-type]
    if isinstance(recipe, BuiltInRecipe):
        return _prove(recipe, chosen, device)
    with restored_generators():
        return _prove_own(recipe, chosen, device)


def _prove_own(recipe: OwnRecipe, settings: Settings, device: torch.device) -> ProofRun:
    """Make the random draws of its steps the same in every run, if it draws any.

    One eager step shows whether it does. Lanes that compile or capture their steps run only this one eagerly.
    """
    draws = SameRandomNumbers(recipe.seed)
    plain = replace(settings, execution="eager")
    with draws_left_to_kernels():
        run = _prove(recipe, plain, device, draws, steps=None if settings.execution == "eager" else 1)
    if draws.drew and recipe.group.of > 1:
        return replace(run, problem="it draws random numbers, and each rank draws its own")
    if settings.execution == "eager":
        return replace(run, problem=_why_unlike(draws, settings))
    if not draws.drew:
        return _prove(recipe, settings, device)
    if settings.is_captured:
        return replace(run, problem="it draws random numbers, and a graph holds its own")
    before = count_compiled()
    written = draws.first_log
    with draws_left_to_kernels():
        run = _prove(recipe, settings, device, draws)
    problem = _why_unlike(draws, settings)
    if count_compiled() == before:
        problem = "it draws random numbers, and this PyTorch compiles nothing while they are drawn alike"
    elif draws.first_log != written:
        problem = "compiled, it draws random numbers in another order than it is written in"
    return replace(run, problem=problem)


def _why_unlike(draws: SameRandomNumbers, settings: Settings) -> str | None:
    """Return why the same random draws still prove nothing about the lane, or None."""
    if draws.beyond is not None:
        return f"it draws random numbers within {draws.beyond}, a kernel that draws its own"
    if draws.numbers.depends and settings.precision != "fp32":
        return (
            f"in {settings.precision} it draws others: from chances that its network computes, which are rounded there"
        )
    return None


def _prove(
    recipe: TorchRecipe,
    settings: Settings,
    device: torch.device,
    draws: SameRandomNumbers | None = None,
    steps: int | None = None,
) -> ProofRun:
    began = time.perf_counter()
    compute_as(settings)
    stepper = Stepper(recipe, settings, device, recipe.proof.learning_rate_scale, dropout=False)
    before = [gather_whole(parameter.detach()).cpu().clone() for parameter in stepper.network.parameters()]
    drawn, digest = _draw(recipe)
    batches = [_placed(recipe.group.share(batch), settings, device) for batch in drawn[:steps]]
    take = _take_as_graph if settings.is_captured else partial(_take, draws=draws)
    singles = SingleSteps(recipe, stepper, settings)
    losses = recipe.group.mean(take(recipe, stepper, batches))
    after = [gather_whole(parameter.detach()).cpu() for parameter in stepper.network.parameters()]
    run = make_run(settings.precision, losses, before, after)
    if steps is None:
        run = singles.add_to(run, lambda gradients: take(recipe, stepper, batches[:1], gradients=gradients))
    return replace(run, batches=digest, seconds=time.perf_counter() - began)


def take_late_step(recipe: OwnRecipe, stepper: Stepper, settings: Settings, device: torch.device) -> LateStep | None:
    """Put the training that was timed back to its start, and take the first step of the proof with it.

    A model may count its calls, and do something else once it was proven.
    """
    if not stepper.is_eager or recipe.group.of > 1 or recipe.needs_closure:
        return None
    compute_as(settings)
    switch_off_dropout(stepper.network)
    restore_weights(stepper.network, list(recipe.network().state_dict().values()))
    rate = recipe.proof.single_step_scale or recipe.proof.learning_rate_scale
    stepper.optimizer = recipe.optimizer(stepper.network, rate=rate, options=optimizer_options(settings, device))
    before = [_as_array(parameter) for parameter in stepper.network.parameters()]
    draws = SameRandomNumbers(recipe.seed)
    with restored_generators(), draws_left_to_kernels():
        losses = _take(recipe, stepper, [_placed(_draw(recipe)[0][0], settings, device)], draws=draws)
    moved = measure_movement(before, map(_as_array, stepper.network.parameters()))
    return None if draws.beyond else LateStep(settings.precision, losses[0], moved.moves)


def refer(recipe: TorchRecipe) -> Reference:
    """Run the same steps in float64 on the processor, and in float32 to see the effect of rounding alone."""
    problem = recipe.keep_batches() if isinstance(recipe, OwnRecipe) else None
    twin = prove(recipe, TORCH_PROOF_SETTINGS, "fp32", CPU)
    problem = problem or (_find_problem(recipe, twin) if isinstance(recipe, OwnRecipe) else None)
    if problem:
        return _reference(recipe, twin, twin, problem)
    try:
        loss = recipe.loss.given if isinstance(recipe, OwnRecipe) else None
        with restored_generators(), draws_left_to_kernels(), widened_closure(loss):
            exact = _prove_exactly(recipe)
    except Exception as error:  # noqa: BLE001  whatever a user's model raises that was not written for float64
        return _reference(recipe, twin, twin, f"it cannot run in float64: {first_line(error)}")
    return _reference(recipe, exact, twin, None)


def _find_problem(recipe: OwnRecipe, twin: ProofRun) -> str | None:
    """Run the steps again with the same batches and seeds: if they differ now, no lane can be compared."""
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps, at a hundredth of the learning rate")
    again = prove(recipe, TORCH_PROOF_SETTINGS, "fp32", CPU)
    for step, (one, other) in enumerate(zip(twin.losses, again.losses, strict=True), 1):
        apart = abs(one - other) / max(abs(one), 1e-30)
        if not apart <= CHANCE:  # nor is a loss that is no number
            return (
                f"it cannot be repeated: two runs from the same weights, batches and seeds differ by {apart:.0e} in "
                f"the loss of step {step}; it draws from the system, the clock or a generator of its own, or keeps "
                "something"
            )
    return twin.problem


def _reference(recipe: TorchRecipe, exact: ProofRun, twin: ProofRun, problem: str | None) -> Reference:
    network = recipe.network()
    weights = [parameter.numel() for parameter in network.parameters()]
    over_batch = computes_over_batch(network)
    return Reference("", exact, twin, len(weights), sum(weights), problem, over_batch, rates=module_rates(network))


def module_rates(network: torch.nn.Module) -> tuple[tuple[str, float], ...]:
    """Return the dropout rates and the momenta of a network's modules, each by its kind and its number among these.

    A rate of 0 drops nothing, as no module at all does.
    """
    found: list[tuple[str, float]] = []
    numbers: Counter[str] = Counter()
    for module in network.modules():
        for name, words in LAYER_RATES.items():
            rate = getattr(module, name, None)
            if isinstance(rate, float) and rate:
                numbers[words] += 1
                found.append((f"{words} {numbers[words]}", rate))
    return tuple(found)


def _prove_exactly(recipe: TorchRecipe) -> ProofRun:
    began = time.perf_counter()
    stepper = Stepper(recipe, TORCH_PROOF_SETTINGS, CPU, recipe.proof.learning_rate_scale, dropout=False)
    stepper.widen()
    before = [parameter.detach().clone() for parameter in stepper.network.parameters()]
    drawn, digest = _draw(recipe)
    batches = list(map(doubled, drawn))
    take = partial(_take, draws=SameRandomNumbers(recipe.seed) if isinstance(recipe, OwnRecipe) else None)
    singles = SingleSteps(recipe, stepper, TORCH_PROOF_SETTINGS)
    losses = take(recipe, stepper, batches)
    after = [parameter.detach() for parameter in stepper.network.parameters()]
    run = make_run("fp64", losses, before, after)
    run = singles.add_to(run, lambda gradients: take(recipe, stepper, batches[:1], gradients=gradients))
    return replace(run, batches=digest, seconds=time.perf_counter() - began)


def _draw(recipe: TorchRecipe) -> tuple[list[StepBatch], str | None]:
    return recipe.told_batches() if isinstance(recipe, OwnRecipe) else (recipe.proof_batches(), None)


def _take(
    recipe: TorchRecipe,
    stepper: Stepper,
    batches: list[StepBatch],
    gradients: float = 1.0,
    draws: SameRandomNumbers | None = None,
) -> list[float]:
    losses = []
    for step, batch in enumerate(batches):
        _prepare(recipe, stepper, step, gradients)
        for _ in range(HALVINGS_MOST):
            scale = _loss_scale(stepper)
            with draws.step(step) if draws is not None else contextlib.nullcontext():
                loss = float(stepper(batch).item())
            if _loss_scale(stepper) >= scale:
                break
        losses.append(loss)
    return losses


def _loss_scale(stepper: Stepper) -> float:
    """Return the scale of fp16's loss: where a gradient overflows, the step is left out and the scale is halved."""
    return float(stepper.scaler.get_scale()) if stepper.scaler is not None else 1.0


def _take_as_graph(
    recipe: TorchRecipe, stepper: Stepper, batches: list[StepBatch], gradients: float = 1.0
) -> list[float]:
    """Replay the step as a graph. What changes between steps is a constant in it, so each step is captured again."""
    start = [tensor.detach().clone() for tensor in stepper.network.state_dict().values()]
    _prepare(recipe, stepper, 0, gradients)
    captured = CapturedStep(stepper, batches[0])
    rewind(stepper, start)
    losses = []
    for step, batch in enumerate(batches):
        _prepare(recipe, stepper, step, gradients)
        captured.capture()
        captured.feed(batch)
        captured.replay()
        losses.append(float(captured.loss.item()))
    return losses


def _prepare(recipe: TorchRecipe, stepper: Stepper, step: int, gradients: float) -> None:
    recipe.before_step(stepper.optimizer, step + 1)
    scale = recipe.proof.scale_of(step) * gradients
    stepper.weigh = lambda loss: loss * scale


@torch.no_grad()
def rewind(stepper: Stepper, start: list[Tensor]) -> None:
    """Undo the warm-up in place: the graph keeps the addresses of weights and optimizer state."""
    restore_weights(stepper.network, start)
    for state in stepper.optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def make_run(precision: str, losses: list[float], before: list[Tensor], after: list[Tensor]) -> ProofRun:
    """Return the fingerprint: differences of close float32 values are exact, and sums are in float64."""
    moves = []
    along = 0.0
    start = 0.0
    for old, new in zip(before, after, strict=True):
        move = new - old
        moves.append(_length(move))
        along += float(torch.sum(move * old, dtype=torch.float64))
        start = math.hypot(start, _length(old))
    shrink = along / start**2 if start else 0.0
    return ProofRun(precision, tuple(losses), start, shrink, tuple(moves))


def _length(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))


def _placed(batch: StepBatch, settings: Settings, device: torch.device) -> StepBatch:
    channels_last = settings.layout == "channels_last"

    def place(value: Tensor) -> Tensor:
        return in_layout(value.to(device), channels_last=channels_last)

    return mapped(batch, place, lambda leaf: move_leaf(leaf, device), moves=True)
