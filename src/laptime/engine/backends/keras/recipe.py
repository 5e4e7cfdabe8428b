"""What a built-in training needs in Keras: networks, optimizers, batches; and its proof by `train_on_batch`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import layers as made
from keras import ops

from laptime.engine.backends.arrays import FloatArray, make_run
from laptime.engine.backends.items import BuiltInItems
from laptime.engine.backends.keras.engines import Engine, OneDevice
from laptime.engine.backends.keras.fit import seed_all
from laptime.model import hardware as layers
from laptime.model.errors import LaneError
from laptime.model.plan import HeatOrder
from laptime.model.process import Settings
from laptime.model.sample import ProofRun, Reference
from laptime.model.workload import Adam, Workload
from laptime.trainings.workloads.data import Items, make_weights
from laptime.trainings.workloads.shapes import list_weights

POLICIES = {"fp32": "float32", "tf32": "float32", "fp64": "float64", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]
KERAS_PROOF_SETTINGS = Settings(input="cached")
UNSET = {"kernel_initializer": "zeros"}  # weights are loaded; JAX would compile for a second to draw others first


def build_network(workload: Workload, *, dropout: bool = True) -> Any:
    """Build the network; `load_weights` loads the canonical weights. Only the proof leaves dropout out."""
    if any(isinstance(layer, layers.DenseBlock) for layer in workload.layers):
        # Keras's own DenseNet121 with the batch-norm settings of PyTorch's, since the workload is PyTorch's.
        norm = next(layer for layer in workload.layers if isinstance(layer, layers.BatchNorm))
        dense_net = keras.applications.DenseNet121(False, None, None, workload.image_shape, "avg")
        for layer in dense_net.layers:
            if isinstance(layer, made.BatchNormalization):
                layer.epsilon = norm.epsilon
                layer.momentum = 1 - norm.momentum
        outputs = made.Dense(workload.outputs[-1], dtype=keras.config.floatx())(dense_net.output)
        return keras.Model(dense_net.input, outputs)
    inputs = keras.Input(workload.image_shape)
    stack = [part for planned in workload.layers for part in _made_for(planned, dropout=dropout)]
    model = keras.Sequential([inputs, *stack])
    # Add the last layer that the loss needs: sigmoids where the authors had them, in float32 at any precision.
    if workload.loss == "sigmoid_crossentropy":
        model.add(made.Activation(_plain_sigmoid))
    elif keras.config.dtype_policy().compute_dtype != keras.config.floatx():
        model.add(made.Activation("linear", dtype="float32"))
    return model


def load_weights(model: Any, workload: Workload, weights: Sequence[npt.NDArray[np.float32]]) -> None:
    """Copy the canonical weights into the model; their layouts are those of Keras."""
    specs = list_weights(workload)
    held = model.trainable_variables
    shapes = [tuple(variable.shape) for variable in held]
    if shapes != [spec.shape for spec in specs]:
        raise LaneError(f"{workload.name}: Keras's network holds other arrays than the catalogue's")
    for variable, array in zip(held, weights, strict=True):
        variable.assign(array)


def make_loss(workload: Workload) -> Any:
    """Return the authors' loss: on class numbers, or on rows of 0 and 1 where the outputs are sigmoids."""
    if workload.loss == "sigmoid_crossentropy":
        return keras.losses.CategoricalCrossentropy()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def labels_for(workload: Workload, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return the labels in the form that the loss takes."""
    if workload.loss == "sigmoid_crossentropy":
        rows: npt.NDArray[Any] = keras.utils.to_categorical(labels, workload.outputs[-1])
        return rows
    return labels.astype(np.int32)


def _plain_sigmoid(values: Any) -> Any:
    return keras.ops.add(keras.ops.sigmoid(keras.ops.cast(values, keras.config.floatx())), 0.0)


def _made_for(layer: layers.Layer, *, dropout: bool) -> list[Any]:
    match layer:
        case layers.Conv(filters=filters, kernel=kernel, padding=padding, stride=stride, bias=bias):
            activation = _word(layer.activation)
            return [made.Conv2D(filters, kernel, stride, str(padding), use_bias=bias, activation=activation, **UNSET)]
        case layers.Dense(units=units):
            return [made.Dense(units, _word(layer.activation), **UNSET)]
        case layers.MaxPool(size=size, stride=stride):
            return [made.MaxPooling2D(size, stride)]
        case layers.AveragePool(size=size):
            return [made.AveragePooling2D(size)]
        case layers.GlobalAveragePool():
            return [made.GlobalAveragePooling2D()]
        case layers.BatchNorm(epsilon=epsilon, momentum=momentum):
            return [made.BatchNormalization(epsilon=epsilon, momentum=1 - momentum)]
        case layers.Relu():
            return [made.ReLU()]
        case layers.Flatten():
            return [made.Flatten()]
        case layers.Dropout(rate=rate):
            return [made.Dropout(rate)] if dropout else []
        case layers.Reshape(shape=shape):
            return [made.Reshape(shape)]
        case layers.SwapAxes():
            return [made.Permute((2, 1))]
    raise LaneError(f"Keras's room has no word for a layer {type(layer).__name__}")


def _word(activation: layers.Activation) -> str | None:
    return None if activation == "none" else activation


class TorchLikeAdam(keras.optimizers.Adam):
    """Adam that adds its epsilon after the bias correction, as PyTorch does; Keras's own adds it before."""

    epsilon: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        epsilon = self.epsilon
        step = ops.cast(self.iterations + 1, variable.dtype)
        self.epsilon = epsilon * ops.sqrt(1 - ops.power(ops.cast(self.beta_2, variable.dtype), step))
        super().update_step(gradient, variable, learning_rate)
        self.epsilon = epsilon


def make_optimizer(workload: Workload, rate: float) -> Any:
    """Return the optimizer that the workload's authors meant, at `rate` times its learning rate."""
    wanted = workload.optimizer
    if wanted.weight_decay:
        raise LaneError("Keras decays weights apart from the gradient: this workload means another weight decay")
    learning_rate = wanted.learning_rate * rate
    if not isinstance(wanted, Adam):
        return keras.optimizers.SGD(learning_rate)
    kind = keras.optimizers.Adam if wanted.epsilon_placement == "before" else TorchLikeAdam
    return kind(learning_rate, beta_1=wanted.beta1, beta_2=wanted.beta2, epsilon=wanted.epsilon)


def steps_at_once(settings: Settings) -> int:
    return settings.steps_per_execution or 1


class KerasRecipe(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self.seed = order.seed
        if order.pretrained:
            raise LaneError("--pretrained: the pre-trained weights are PyTorch's", "leave the Keras lanes out")

    def model(self, settings: Settings, precision: str, *, rate: float, proof: bool = False) -> Any:
        """Return a fresh model with the starting weights, compiled as the lane says."""
        model = self._network(precision, dropout=not proof)
        model.compile(
            optimizer=make_optimizer(self.workload, rate),
            loss=make_loss(self.workload),
            metrics=None if proof else ["accuracy"],
            jit_compile=True if settings.execution == "compile" else "auto",
            steps_per_execution=1 if proof else steps_at_once(settings),
        )
        return model

    def answering(self, settings: Settings, precision: str) -> Any:
        """Return a fresh model that only answers, without anything that only training needs."""
        model = self._network(precision, dropout=True)
        if settings.execution == "compile":
            model.jit_compile = True
        return model

    def _network(self, precision: str, *, dropout: bool) -> Any:
        seed_all(self.seed)
        keras.config.set_floatx("float64" if precision == "fp64" else "float32")
        keras.config.set_dtype_policy(POLICIES[precision])
        model = build_network(self.workload, dropout=dropout)
        load_weights(model, self.workload, make_weights(self.workload, self.seed))
        return model

    def proof_batches(self) -> list[Arrays]:
        images, labels = self._arrays(self.proof_items())
        cuts = range(0, len(labels), self.proof.batch)
        return [(images[start : start + self.proof.batch], labels[start : start + self.proof.batch]) for start in cuts]

    def training_arrays(self, batch: int, at_once: int = 1) -> Arrays:
        """Return whole batches, a multiple of those taken at once: fewer at an epoch's end would be another step."""
        batch *= at_once
        images, labels = self._arrays(self.items(batch))
        whole = max(1, len(labels) // batch) * batch
        if len(labels) < batch:  # a user's small data set: its items come more than once
            images, labels = (np.resize(array, (batch, *array.shape[1:])) for array in (images, labels))
        return images[:whole], labels[:whole]

    def test_arrays(self, count: int) -> Arrays:
        return self._arrays(self.test_items(count))

    def _arrays(self, items: Items) -> Arrays:
        return items.images, labels_for(self.workload, items.labels)


def prove(recipe: KerasRecipe, settings: Settings, precision: str, devices: OneDevice) -> ProofRun:
    """Run the proof's steps as the lane runs its steps, at this precision."""
    began = time.perf_counter()
    model = recipe.model(settings, precision, rate=recipe.proof.learning_rate_scale, proof=True)
    before = _weights(model)
    shape = (recipe.proof.batch, *recipe.workload.outputs[:-1])  # of the losses: one per item or per character
    losses = [
        _step(model, batch, shape, recipe.proof.scale_of(step), devices)
        for step, batch in enumerate(recipe.proof_batches())
    ]
    run = make_run(precision, losses, before, _weights(model), time.perf_counter() - began)
    return replace(run, problem=devices.problem(model))


def refer(recipe: KerasRecipe, engine: Engine, devices: OneDevice) -> Reference:
    """Run the same steps in float64, and in float32 to see the effect of rounding alone."""
    twin = prove(recipe, KERAS_PROOF_SETTINGS, "fp32", devices)
    engine.allow_float64()
    exact = prove(recipe, KERAS_PROOF_SETTINGS, "fp64", devices)
    sizes = [
        int(np.prod(variable.shape))
        for variable in recipe.model(KERAS_PROOF_SETTINGS, "fp32", rate=1.0).trainable_variables
    ]
    return Reference("", exact, twin, depth=len(sizes), weights=sum(sizes))


def _step(model: Any, batch: tuple[Any, Any], shape: tuple[int, ...], scale: float, devices: OneDevice) -> float:
    """Run one step on a loss that is scaled by its items' weights; return the loss without the scale."""
    images, labels = batch
    dtype = model.compute_dtype if model.compute_dtype == "float64" else "float32"
    means = devices.take(model, (images.astype(dtype), labels, np.full(shape, scale, dtype)))
    return float(means["loss"]) / scale


def _weights(model: Any) -> list[FloatArray]:
    return [np.array(variable.numpy()) for variable in model.trainable_variables]
