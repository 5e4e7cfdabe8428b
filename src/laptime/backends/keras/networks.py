"""The catalogue's layers as their authors wrote them in Keras, with the canonical weights loaded into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import layers as made

from laptime.errors import LaneError
from laptime.model import network as layers
from laptime.model.workload import Workload
from laptime.workloads.shapes import list_weights


def build_network(workload: Workload, *, dropout: bool = True) -> Any:
    """Build the network; `load_weights` gives it the canonical weights. Only the proof leaves dropout out."""
    if any(isinstance(layer, layers.DenseBlock) for layer in workload.layers):
        return _dense_net(workload)
    inputs = keras.Input(workload.image_shape)
    stack = [each for layer in workload.layers for each in _made_for(layer, dropout=dropout)]
    model = keras.Sequential([inputs, *stack])
    return _ended(workload, model)


def load_weights(model: Any, workload: Workload, weights: Sequence[npt.NDArray[np.float32]]) -> None:
    """Copy the canonical weights in; their layouts are Keras's own."""
    specs, held = list_weights(workload), model.trainable_variables
    shapes = [tuple(each.shape) for each in held]
    if shapes != [spec.shape for spec in specs]:
        raise LaneError(f"{workload.name}: Keras's network holds other arrays than the catalogue's")
    for variable, array in zip(held, weights, strict=True):
        variable.assign(array)


def make_loss(workload: Workload) -> Any:
    """Give the loss on class numbers, or where the outputs are sigmoids on rows of 0 and 1, as its authors had it."""
    if workload.loss == "sigmoid_crossentropy":
        return keras.losses.CategoricalCrossentropy()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def labels_for(workload: Workload, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Give the labels in the form in which the loss takes them."""
    if workload.loss == "sigmoid_crossentropy":
        rows: npt.NDArray[Any] = keras.utils.to_categorical(labels, workload.outputs[-1])
        return rows
    return labels.astype(np.int32)


def _dense_net(workload: Workload) -> Any:
    """Take Keras's own DenseNet121, with the batch norms that PyTorch's has: the workload is PyTorch's."""
    norm = next(layer for layer in workload.layers if isinstance(layer, layers.BatchNorm))
    model = keras.applications.DenseNet121(False, None, None, workload.image_shape, "avg")
    for layer in model.layers:
        if isinstance(layer, made.BatchNormalization):
            layer.epsilon, layer.momentum = norm.epsilon, 1 - norm.momentum
    outputs = made.Dense(workload.outputs[-1], dtype=keras.config.floatx())(model.output)
    return keras.Model(model.input, outputs)


def _ended(workload: Workload, model: Any) -> Any:
    """End with what the loss takes: sigmoids where the authors had them, in float32 whatever the precision.

    Keras's own sigmoid leaves a note of its inputs on its outputs, by which the cross-entropy on TensorFlow takes a
    softmax of them in its place; on JAX and PyTorch it does not. What is written is meant, on all three.
    """
    if workload.loss == "sigmoid_crossentropy":
        model.add(made.Activation(_plain_sigmoid))
    elif keras.config.dtype_policy().compute_dtype != keras.config.floatx():
        model.add(made.Activation("linear", dtype="float32"))
    return model


def _plain_sigmoid(values: Any) -> Any:
    return keras.ops.add(keras.ops.sigmoid(keras.ops.cast(values, keras.config.floatx())), 0.0)


def _made_for(layer: layers.Layer, *, dropout: bool) -> list[Any]:
    match layer:
        case layers.Conv(filters=filters, kernel=kernel, padding=padding, stride=stride, bias=bias):
            activation = _word(layer.activation)
            return [made.Conv2D(filters, kernel, stride, str(padding), use_bias=bias, activation=activation)]
        case layers.Dense(units=units):
            return [made.Dense(units, _word(layer.activation))]
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
