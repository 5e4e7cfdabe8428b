"""Keras trainings that are none of the built-in five, and what is planted in one: read by `bench/honest.py`.

A row of TRAININGS is a network, an optimizer and a loss. A row of PLANTED is one of them with one thing changed.
Each is a function of this file to laptime, by its name: `bench/honest_keras.py:mlp adamw`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

import honest_networks

Words = dict[str, Any]
Row = tuple[str, Words, tuple[str, Words], Words]


def _rate(kind: str, *figures: Any, **words: Any) -> Any:
    return getattr(keras.optimizers.schedules, kind)(*figures, **words)


SPARSE = {"name": "SparseCategoricalCrossentropy", "from_logits": True}
MSE = {"name": "MeanSquaredError"}
LN, GN = {"kind": "LayerNormalization"}, {"kind": "GroupNormalization", "groups": 8}
GRU, RNN, LSTM = {"kind": "GRU"}, {"kind": "SimpleRNN"}, {"kind": "LSTM"}
PIECES = {"schedule": ("PiecewiseConstantDecay", [2], [0.1, 0.01])}
LATER = {"schedule": ("PiecewiseConstantDecay", [3], [0.1, 0.01])}
FALLING = {"schedule": ("ExponentialDecay", 1e-3, 3, 0.5)}
SLOWER = {"schedule": ("ExponentialDecay", 1e-3, 3, 0.6)}
COSINE = {"schedule": ("CosineDecay", 0.0, 100), "warmup_target": 1e-3, "warmup_steps": 3}
WARMED = {"learning_rate": COSINE, "clipnorm": 1.0}

# network, its words, optimizer and its words, loss
TRAININGS: dict[str, Row] = {
    "mlp adamw": ("mlp", {}, ("AdamW", {}), SPARSE),
    "mlp adamw, decay 1e-4": ("mlp", {}, ("AdamW", {"weight_decay": 1e-4}), SPARSE),
    "mlp adamw, rate 2e-5": ("mlp", {}, ("AdamW", {"learning_rate": 2e-5, "weight_decay": 0.01}), SPARSE),
    "wide mlp adamw": ("mlp", {"width": 512}, ("AdamW", {}), SPARSE),
    "mlp adam": ("mlp", {}, ("Adam", {}), SPARSE),
    "mlp amsgrad": ("mlp", {}, ("Adam", {"amsgrad": True}), SPARSE),
    "mlp adam, clipnorm": ("mlp", {}, ("Adam", {"clipnorm": 0.1}), SPARSE),
    "mlp adam, clipvalue": ("mlp", {}, ("Adam", {"clipvalue": 0.005}), SPARSE),
    "mlp adam, ema": ("mlp", {}, ("Adam", {"use_ema": True, "ema_overwrite_frequency": 2}), SPARSE),
    "mlp adam, accumulated": ("mlp", {}, ("Adam", {"gradient_accumulation_steps": 2}), SPARSE),
    "mlp sgd": ("mlp", {}, ("SGD", {"learning_rate": 0.01}), SPARSE),
    "mlp sgd, decay": ("mlp", {}, ("SGD", {"learning_rate": 0.01, "weight_decay": 1e-4}), SPARSE),
    "mlp sgd, rate 1e-5": ("mlp", {}, ("SGD", {"learning_rate": 1e-5}), SPARSE),
    "mlp momentum": ("mlp", {}, ("SGD", {"learning_rate": 0.01, "momentum": 0.9}), SPARSE),
    "mlp nesterov": ("mlp", {}, ("SGD", {"learning_rate": 0.01, "momentum": 0.9, "nesterov": True}), SPARSE),
    "mlp sgd, global clipnorm": ("mlp", {}, ("SGD", {"learning_rate": 0.1, "global_clipnorm": 0.5}), SPARSE),
    "mlp rmsprop": ("mlp", {}, ("RMSprop", {}), SPARSE),
    "mlp rmsprop, centered": ("mlp", {}, ("RMSprop", {"centered": True, "momentum": 0.9}), SPARSE),
    "mlp adagrad": ("mlp", {}, ("Adagrad", {}), SPARSE),
    "mlp adadelta": ("mlp", {}, ("Adadelta", {}), SPARSE),
    "mlp adamax": ("mlp", {}, ("Adamax", {}), SPARSE),
    "mlp nadam": ("mlp", {}, ("Nadam", {}), SPARSE),
    "mlp ftrl": ("mlp", {}, ("Ftrl", {"l1_regularization_strength": 1e-3}), SPARSE),
    "mlp lion": ("mlp", {}, ("Lion", {"learning_rate": 1e-4, "weight_decay": 0.01}), SPARSE),
    "mlp lamb": ("mlp", {}, ("Lamb", {"weight_decay": 0.01}), SPARSE),
    "mlp adafactor": ("mlp", {}, ("Adafactor", {}), SPARSE),
    "mlp cosine": ("mlp", {}, ("AdamW", {"learning_rate": COSINE}), SPARSE),
    "mlp steps of rate": ("mlp", {}, ("SGD", {"learning_rate": PIECES}), SPARSE),
    "mlp decaying rate": ("mlp", {}, ("RMSprop", {"learning_rate": FALLING}), SPARSE),
    "mlp l2": ("mlp", {"kernel_regularizer": "l2"}, ("Adam", {}), SPARSE),
    "mlp maxnorm": ("mlp", {"kernel_constraint": keras.constraints.MaxNorm(0.5)}, ("Adam", {}), SPARSE),
    "deep gelu adam": ("deep", {}, ("Adam", {}), SPARSE),
    "deep selu sgd": ("deep", {"activation": "selu"}, ("SGD", {"learning_rate": 0.05}), SPARSE),
    "deep tanh adamw": ("deep", {"activation": "tanh"}, ("AdamW", {"weight_decay": 0.05}), SPARSE),
    "batch norm adam": ("normed", {}, ("Adam", {}), SPARSE),
    "batch norm adamw": ("normed", {}, ("AdamW", {}), SPARSE),
    "batch norm momentum": ("normed", {}, ("SGD", {"learning_rate": 0.1, "momentum": 0.9}), SPARSE),
    "batch norm rmsprop": ("normed", {}, ("RMSprop", {}), SPARSE),
    "batch norm lion": ("normed", {}, ("Lion", {"learning_rate": 1e-4}), SPARSE),
    "layer norm adam": ("normed", LN, ("Adam", {}), SPARSE),
    "layer norm lion": ("normed", LN, ("Lion", {"learning_rate": 1e-4}), SPARSE),
    "group norm adamw": ("normed", GN, ("AdamW", {"global_clipnorm": 1.0}), SPARSE),
    "lstm adam": ("recurrent", {}, ("Adam", {}), SPARSE),
    "lstm rmsprop": ("recurrent", {}, ("RMSprop", {}), SPARSE),
    "long lstm rmsprop": ("recurrent", {"long": True, "units": 64}, ("RMSprop", {}), SPARSE),
    "long lstm adam": ("recurrent", {"long": True, "units": 64}, ("Adam", {}), SPARSE),
    "lstm sgd, clipped": ("recurrent", {}, ("SGD", {"learning_rate": 0.1, "clipnorm": 0.05}), SPARSE),
    "lstm adamw": ("recurrent", {}, ("AdamW", {}), SPARSE),
    "gru adam": ("recurrent", GRU, ("Adam", {}), SPARSE),
    "gru rmsprop": ("recurrent", GRU, ("RMSprop", {}), SPARSE),
    "gru nadam": ("recurrent", GRU, ("Nadam", {"global_clipnorm": 1.0}), SPARSE),
    "simple rnn adam": ("recurrent", RNN, ("Adam", {}), SPARSE),
    "two lstms, both ways": ("stacked", {}, ("Adam", {}), SPARSE),
    "two grus, both ways": ("stacked", GRU, ("AdamW", {}), SPARSE),
    "embedding adam": ("words", {}, ("Adam", {}), SPARSE),
    "embedding sgd": ("words", {}, ("SGD", {"learning_rate": 0.1}), SPARSE),
    "embedding rmsprop": ("words", {}, ("RMSprop", {}), SPARSE),
    "embedding adamw, clipped": ("words", {}, ("AdamW", {"clipnorm": 0.01}), SPARSE),
    "embedding adagrad": ("words", {}, ("Adagrad", {}), SPARSE),
    "embedding lstm adam": ("words", {**LSTM}, ("Adam", {}), SPARSE),
    "embedding lstm, masked": ("words", {**LSTM, "masked": True}, ("Adam", {}), SPARSE),
    "embedding gru, masked": ("words", {**GRU, "masked": True}, ("RMSprop", {}), SPARSE),
    "attention adam": ("attention", {}, ("Adam", {}), SPARSE),
    "attention adamw": ("attention", {"norm_first": True}, ("AdamW", WARMED), SPARSE),
    "attention lion": ("attention", {}, ("Lion", {"learning_rate": 1e-4}), SPARSE),
    "attention rmsprop": ("attention", {}, ("RMSprop", {}), SPARSE),
    "tied adam": ("tied", {}, ("Adam", {}), SPARSE),
    "tied adamw": ("tied", {}, ("AdamW", {}), SPARSE),
    "conv adam": ("conv", {}, ("Adam", {}), SPARSE),
    "conv nesterov": ("conv", {}, ("SGD", {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True}), SPARSE),
    "separable conv adamw": ("conv", {"kind": "SeparableConv2D"}, ("AdamW", {}), SPARSE),
    "conv, mean pooling": ("conv", {"pool": "AveragePooling2D"}, ("RMSprop", {}), SPARSE),
    "residual adam": ("residual", {}, ("Adam", {}), SPARSE),
    "residual adamw": ("residual", {}, ("AdamW", {}), SPARSE),
    "residual lamb": ("residual", {}, ("Lamb", {}), SPARSE),
    "two inputs adam": ("two_inputs", {}, ("Adam", {}), SPARSE),
    "two inputs momentum": ("two_inputs", {}, ("SGD", {"learning_rate": 0.01, "momentum": 0.9}), SPARSE),
    "regression adam": ("regression", {}, ("Adam", {}), MSE),
    "regression huber adamw": ("regression", {}, ("AdamW", {}), {"name": "Huber"}),
    "coder adam": ("coder", {}, ("Adam", {}), MSE),
    "coder adadelta": ("coder", {}, ("Adadelta", {"learning_rate": 1.0}), {"name": "MeanAbsoluteError"}),
}  # fmt: skip

# Tokens that come more than once in a batch: what Keras on TensorFlow does otherwise than on other engines.
OFTEN: dict[str, Row] = {
    "repeated tokens adam": ("words", {"often": True}, ("Adam", {}), SPARSE),
    "repeated tokens rmsprop": ("words", {"often": True, **LSTM}, ("RMSprop", {}), SPARSE),
    "repeated tokens adagrad": ("words", {"often": True}, ("Adagrad", {}), SPARSE),
    "repeated tokens, attention adamw": ("attention", {"often": True}, ("AdamW", WARMED), SPARSE),
    "repeated tokens, attention rmsprop": ("attention", {"often": True}, ("RMSprop", {}), SPARSE),
}

# a training, and what one lane has otherwise: in its network's words, its optimizer's, its loss's
PLANTED: dict[str, tuple[str, Words, Words, Words]] = {
    f"{name}: {what}": (name, *changes)
    for name, what, *changes in (
        ("mlp adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("mlp adamw", "decay doubled", {}, {"weight_decay": 0.008}, {}),
        ("mlp adamw", "decay +10 %", {}, {"weight_decay": 0.0044}, {}),
        ("wide mlp adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("wide mlp adamw", "decay doubled", {}, {"weight_decay": 0.008}, {}),
        ("mlp adamw, decay 1e-4", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("mlp adamw, decay 1e-4", "decay doubled", {}, {"weight_decay": 2e-4}, {}),
        ("mlp adamw, rate 2e-5", "decay doubled", {}, {"weight_decay": 0.02}, {}),
        ("mlp adamw, rate 2e-5", "rate +1 %", {}, {"learning_rate": 2.02e-5}, {}),
        ("mlp adamw", "decays no kernel", {}, {"excluded": "kernel"}, {}),
        ("batch norm adamw", "decays no norm", {}, {"excluded": "gamma"}, {}),
        ("residual adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("lstm adamw", "no decay", {}, {"weight_decay": 0.0}, {}),
        ("tied adamw", "decay doubled", {}, {"weight_decay": 0.008}, {}),
        ("separable conv adamw", "decay doubled", {}, {"weight_decay": 0.008}, {}),
        ("mlp sgd, decay", "no decay", {}, {"weight_decay": None}, {}),
        ("mlp sgd, decay", "decay doubled", {}, {"weight_decay": 2e-4}, {}),
        ("mlp lion", "decay doubled", {}, {"weight_decay": 0.02}, {}),
        ("mlp lion", "beta1 0.8", {}, {"beta_1": 0.8}, {}),
        ("mlp lion", "rate +1 %", {}, {"learning_rate": 1.01e-4}, {}),
        ("mlp lamb", "no decay", {}, {"weight_decay": None}, {}),
        ("mlp lamb", "beta2 0.99", {}, {"beta_2": 0.99}, {}),
        ("mlp adam", "rate +1 %", {}, {"learning_rate": 1.01e-3}, {}),
        ("mlp adam", "epsilon 1e-8", {}, {"epsilon": 1e-8}, {}),
        ("mlp adam", "beta1 0.89", {}, {"beta_1": 0.89}, {}),
        ("mlp adam", "beta2 0.99", {}, {"beta_2": 0.99}, {}),
        ("mlp adam", "first layer frozen", {"frozen": True}, {}, {}),
        ("mlp adam", "leaky", {"activation": "leaky_relu"}, {}, {}),
        ("mlp adam", "start 1 % larger", {"gain": 1.02}, {}, {}),
        ("mlp adam", "l2", {"kernel_regularizer": "l2"}, {}, {}),
        ("mlp adam", "loss summed", {}, {}, {"reduction": "sum"}),
        ("mlp adam, clipnorm", "not clipped", {}, {"clipnorm": None}, {}),
        ("mlp adam, clipnorm", "clipnorm 0.2", {}, {"clipnorm": 0.2}, {}),
        ("mlp adam, clipnorm", "global clipnorm", {}, {"clipnorm": None, "global_clipnorm": 0.1}, {}),
        ("mlp adam, clipvalue", "not clipped", {}, {"clipvalue": None}, {}),
        ("mlp adam, clipvalue", "clipvalue +10 %", {}, {"clipvalue": 0.0055}, {}),
        ("mlp adam, ema", "not averaged", {}, {"use_ema": False, "ema_overwrite_frequency": None}, {}),
        ("mlp adam, accumulated", "not accumulated", {}, {"gradient_accumulation_steps": None}, {}),
        ("mlp sgd, rate 1e-5", "rate +1 %", {}, {"learning_rate": 1.01e-5}, {}),
        ("mlp sgd, rate 1e-5", "momentum 0.9", {}, {"momentum": 0.9}, {}),
        ("mlp momentum", "momentum 0.89", {}, {"momentum": 0.89}, {}),
        ("mlp momentum", "nesterov", {}, {"nesterov": True}, {}),
        ("mlp nesterov", "not nesterov", {}, {"nesterov": False}, {}),
        ("mlp sgd, global clipnorm", "clipnorm", {}, {"global_clipnorm": None, "clipnorm": 0.5}, {}),
        ("mlp sgd, global clipnorm", "not clipped", {}, {"global_clipnorm": None}, {}),
        ("mlp rmsprop", "rho 0.89", {}, {"rho": 0.89}, {}),
        ("mlp rmsprop", "epsilon 1e-6", {}, {"epsilon": 1e-6}, {}),
        ("mlp rmsprop", "momentum 0.1", {}, {"momentum": 0.1}, {}),
        ("mlp rmsprop, centered", "not centered", {}, {"centered": False}, {}),
        ("mlp adagrad", "sums begin at 0.11", {}, {"initial_accumulator_value": 0.11}, {}),
        ("mlp adadelta", "rho 0.9", {}, {"rho": 0.9}, {}),
        ("mlp adadelta", "epsilon 1e-6", {}, {"epsilon": 1e-6}, {}),
        ("mlp adamax", "beta2 0.99", {}, {"beta_2": 0.99}, {}),
        ("mlp nadam", "beta1 0.89", {}, {"beta_1": 0.89}, {}),
        ("mlp ftrl", "no l1", {}, {"l1_regularization_strength": 0.0}, {}),
        ("mlp adafactor", "rate +1 %", {}, {"learning_rate": 1.01e-3}, {}),
        ("mlp adafactor", "threshold 0.5", {}, {"clip_threshold": 0.5}, {}),
        ("mlp cosine", "warm-up 4", {}, {"learning_rate": {**COSINE, "warmup_steps": 4}}, {}),
        ("mlp cosine", "no schedule", {}, {"learning_rate": 1e-3}, {}),
        ("mlp steps of rate", "a step later", {}, {"learning_rate": LATER}, {}),
        ("mlp decaying rate", "decays by 0.6", {}, {"learning_rate": SLOWER}, {}),
        ("mlp maxnorm", "no constraint", {"kernel_constraint": None}, {}, {}),
        ("mlp l2", "no l2", {"kernel_regularizer": None}, {}, {}),
        ("deep gelu adam", "silu", {"activation": "silu"}, {}, {}),
        ("deep selu sgd", "elu", {"activation": "elu"}, {}, {}),
        ("batch norm adam", "epsilon 1.1e-3", {"epsilon": 1.1e-3}, {}, {}),
        ("batch norm momentum", "momentum 0.89", {}, {"momentum": 0.89}, {}),
        ("batch norm rmsprop", "rho 0.89", {}, {"rho": 0.89}, {}),
        ("batch norm lion", "beta1 0.8", {}, {"beta_1": 0.8}, {}),
        ("layer norm adam", "no centre", {"center": False}, {}, {}),
        ("layer norm lion", "rate +1 %", {}, {"learning_rate": 1.01e-4}, {}),
        ("group norm adamw", "4 groups", {"groups": 4}, {}, {}),
        ("lstm adam", "forget bias 0", {"unit_forget_bias": False}, {}, {}),
        ("lstm adam", "hard sigmoid", {"recurrent_activation": "hard_sigmoid"}, {}, {}),
        ("lstm adam", "beta2 0.99", {}, {"beta_2": 0.99}, {}),
        ("lstm rmsprop", "rho 0.89", {}, {"rho": 0.89}, {}),
        ("lstm rmsprop", "epsilon 1e-6", {}, {"epsilon": 1e-6}, {}),
        ("lstm sgd, clipped", "clipnorm 0.06", {}, {"clipnorm": 0.06}, {}),
        ("gru adam", "reset before", {"reset_after": False}, {}, {}),
        ("gru nadam", "epsilon 1e-6", {}, {"epsilon": 1e-6}, {}),
        ("two lstms, both ways", "summed", {"merge": "ave"}, {}, {}),
        ("embedding adam", "beta1 0.89", {}, {"beta_1": 0.89}, {}),
        ("embedding rmsprop", "rho 0.89", {}, {"rho": 0.89}, {}),
        ("embedding lstm, masked", "not masked", {"masked": False}, {}, {}),
        ("embedding adamw, clipped", "clipnorm 0.012", {}, {"clipnorm": 0.012}, {}),
        ("attention adam", "norm after 1.1e-3", {"epsilon": 1.1e-3}, {}, {}),
        ("attention adamw", "norm last", {"norm_first": False}, {}, {}),
        ("attention adamw", "warm-up 4", {}, {"learning_rate": {**COSINE, "warmup_steps": 4}}, {}),
        ("attention rmsprop", "rho 0.89", {}, {"rho": 0.89}, {}),
        ("attention lion", "beta1 0.8", {}, {"beta_1": 0.8}, {}),
        ("tied adam", "temperature 1.01", {"temperature": 1.01}, {}, {}),
        ("conv adam", "padding", {"padding": "same"}, {}, {}),
        ("conv nesterov", "not nesterov", {}, {"nesterov": False}, {}),
        ("conv, mean pooling", "most pooling", {"pool": "MaxPooling2D"}, {}, {}),
        ("residual adam", "epsilon 1e-8", {}, {"epsilon": 1e-8}, {}),
        ("residual adam", "norm's epsilon 1e-5", {"epsilon": 1e-5}, {}, {}),
        ("residual lamb", "beta1 0.89", {}, {"beta_1": 0.89}, {}),
        ("two inputs adam", "rate +1 %", {}, {"learning_rate": 1.01e-3}, {}),
        ("regression adam", "last tanh", {"last": "tanh"}, {}, {}),
        ("regression huber adamw", "delta 1.1", {}, {}, {"delta": 1.1}),
        ("coder adam", "mean absolute error", {}, {}, {"name": "MeanAbsoluteError"}),
        ("coder adadelta", "rho 0.9", {}, {"rho": 0.9}, {}),
    )
}  # fmt: skip


def build(row: Row) -> Any:
    """Return a compiled model and its data, as a user's function would."""
    network, shape, (kind, optimizer), loss = row
    model, inputs, targets = getattr(honest_networks, network)(**shape)
    chosen = dict(optimizer)
    excluded = chosen.pop("excluded", None)
    rate = chosen.get("learning_rate")
    if isinstance(rate, dict):
        rest = {key: value for key, value in rate.items() if key != "schedule"}
        chosen["learning_rate"] = _rate(*rate["schedule"], **rest)
    made = getattr(keras.optimizers, kind)(**chosen)
    if excluded:
        made.exclude_from_weight_decay(var_names=[excluded])
    words = {key: value for key, value in loss.items() if key != "name"}
    model.compile(optimizer=made, loss=getattr(keras.losses, loss["name"])(**words))
    return model, honest_networks.cut(inputs, targets)


def changed(name: str) -> Row:
    """Return a training with what is planted under this name."""
    base, shape, optimizer, loss = PLANTED[name]
    network, shaped, (kind, chosen), lost = TRAININGS[base]
    return network, {**shaped, **shape}, (kind, {**chosen, **optimizer}), {**lost, **loss}


def __getattr__(name: str) -> Callable[[], Any]:
    if name in TRAININGS or name in OFTEN:
        return lambda: build({**TRAININGS, **OFTEN}[name])
    if name in PLANTED:
        return lambda: build(changed(name))
    raise AttributeError(name)
