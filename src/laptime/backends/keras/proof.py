"""The proof in Keras: `train_on_batch` with the lane's own engine and settings, on the canonical weights."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from laptime.backends.fingerprint import Array, make_run
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.recipe import Recipe
from laptime.model.lane import Settings
from laptime.model.sample import ProofRun, Reference

PLAIN = Settings(input="cached")


def prove(recipe: Recipe, settings: Settings, precision: str) -> ProofRun:
    """Take the proof's steps as the lane steps, at this precision."""
    began = time.perf_counter()
    model = recipe.model(settings, precision, rate=recipe.proof.learning_rate_scale, proof=True)
    before = _weights(model)
    shape = (recipe.proof.batch, *recipe.workload.outputs[:-1])  # of the losses, one an item or one a character
    losses = [
        _step(model, batch, shape, recipe.proof.scale_of(step)) for step, batch in enumerate(recipe.proof_batches())
    ]
    return make_run(precision, losses, before, _weights(model), time.perf_counter() - began)


def refer(recipe: Recipe, engine: Engine) -> Reference:
    """Take the same steps in float64, and in float32 beside it: what rounding alone does."""
    twin = prove(recipe, PLAIN, "fp32")
    engine.allow_float64()
    exact = prove(recipe, PLAIN, "fp64")
    sizes = [int(np.prod(each.shape)) for each in recipe.model(PLAIN, "fp32", rate=1.0).trainable_variables]
    return Reference("", exact, twin, depth=len(sizes), weights=sum(sizes))


def _step(model: Any, batch: tuple[Any, Any], shape: tuple[int, ...], scale: float) -> float:
    """Take one step on a loss that is scaled by its items' weights; tell the loss without its scale."""
    images, labels = batch
    dtype = model.compute_dtype if model.compute_dtype == "float64" else "float32"
    told = model.train_on_batch(images.astype(dtype), labels, np.full(shape, scale, dtype), return_dict=True)
    return float(told["loss"]) / scale


def _weights(model: Any) -> list[Array]:
    return [np.array(each.numpy()) for each in model.trainable_variables]
