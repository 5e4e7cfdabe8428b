"""The networks of `honest_keras.py` and their data: small ones, of many kinds of layers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

RNG = np.random.default_rng(7)
STEPS, BATCH = 5, 16
ITEMS = STEPS * BATCH
ROWS = RNG.standard_normal((ITEMS, 100)).astype(np.float32)
SHORT = RNG.standard_normal((ITEMS, 7, 6)).astype(np.float32)
PICTURES = RNG.random((ITEMS, 12, 12, 3)).astype(np.float32)
# No token comes twice in a batch, or comes often; 0 is padding.
TOKENS = np.concatenate([RNG.permutation(np.arange(1, 160))[: BATCH * 9].reshape(BATCH, 9) for _ in range(STEPS)])
OFTEN = RNG.integers(1, 40, (ITEMS, 9))
PADDED = TOKENS * (np.arange(9) < RNG.integers(5, 10, (ITEMS, 1)))
CLASSES = RNG.integers(0, 5, ITEMS)
NUMBERS = RNG.standard_normal((ITEMS, 1)).astype(np.float32)


def mlp(activation: str = "relu", width: int = 256, *, frozen: bool = False, gain: float = 1.0, **words: Any) -> Any:
    start = keras.initializers.VarianceScaling(gain, "fan_avg", "uniform")
    first = layers.Dense(width, activation, kernel_initializer=start, trainable=not frozen, **words)
    return keras.Sequential([keras.Input((100,)), first, layers.Dense(5)]), ROWS, CLASSES


def deep(activation: str = "gelu", **words: Any) -> Any:
    inner = [layers.Dense(48, activation, **words) for _ in range(5)]
    return keras.Sequential([keras.Input((100,)), *inner, layers.Dense(5)]), ROWS, CLASSES


def normed(kind: str = "BatchNormalization", **words: Any) -> Any:
    norm = getattr(layers, kind)
    inner = [layers.Dense(64), norm(**words), layers.ReLU(), layers.Dense(64), norm(**words), layers.ReLU()]
    return keras.Sequential([keras.Input((100,)), *inner, layers.Dropout(0.3), layers.Dense(5)]), ROWS, CLASSES


def recurrent(kind: str = "LSTM", units: int = 24, *, long: bool = False, **words: Any) -> Any:
    if long:
        inner = [getattr(layers, kind)(units, **words), layers.Dense(5)]
        return keras.Sequential([keras.Input((20, 5)), *inner]), ROWS.reshape(-1, 20, 5), CLASSES
    return (
        keras.Sequential([keras.Input((7, 6)), getattr(layers, kind)(units, **words), layers.Dense(5)]),
        SHORT,
        CLASSES,
    )


def stacked(kind: str = "LSTM", merge: str = "concat") -> Any:
    both = layers.Bidirectional(getattr(layers, kind)(12, return_sequences=True), merge_mode=merge)
    return keras.Sequential([keras.Input((7, 6)), both, getattr(layers, kind)(16), layers.Dense(5)]), SHORT, CLASSES


def words(kind: str = "pool", *, masked: bool = False, often: bool = False, units: int = 16) -> Any:
    read = layers.GlobalAveragePooling1D() if kind == "pool" else getattr(layers, kind)(units)
    inner = [layers.Embedding(160, 12, mask_zero=masked), read]
    tokens = OFTEN if often else PADDED if masked else TOKENS
    return keras.Sequential([keras.Input((9,), dtype="int32"), *inner, layers.Dense(5)]), tokens, CLASSES


def attention(heads: int = 2, *, norm_first: bool = False, often: bool = False, epsilon: float = 1e-3) -> Any:
    tokens = keras.Input((9,), dtype="int32")
    seen = layers.Embedding(160, 16)(tokens)
    asked = layers.LayerNormalization(epsilon=epsilon)(seen) if norm_first else seen
    seen = layers.Add()([seen, layers.MultiHeadAttention(heads, 8)(asked, asked)])
    seen = layers.LayerNormalization(epsilon=epsilon)(seen)
    seen = layers.Add()([seen, layers.Dense(16)(layers.Dense(32, "gelu")(seen))])
    return (
        keras.Model(tokens, layers.Dense(5)(layers.GlobalAveragePooling1D()(seen))),
        OFTEN if often else TOKENS,
        CLASSES,
    )


class Tied(keras.Model):
    """An embedding whose weights read the answer out, too."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.table = layers.Embedding(160, 12)
        self.inner = layers.Dense(12, "tanh")
        self.temperature = temperature

    def call(self, tokens: Any) -> Any:
        inner = self.inner(keras.ops.mean(self.table(tokens), axis=1))
        return keras.ops.matmul(inner, keras.ops.transpose(self.table.embeddings)) / self.temperature


def tied(temperature: float = 1.0) -> Any:
    return Tied(temperature), TOKENS, TOKENS[:, 0]


def conv(kind: str = "Conv2D", pool: str = "MaxPooling2D", padding: str = "valid", **words: Any) -> Any:
    inner = [getattr(layers, kind)(8, 3, activation="relu", padding=padding, **words), getattr(layers, pool)(2)]
    inner += [layers.Conv2D(12, 3, activation="relu"), layers.Flatten()]
    return keras.Sequential([keras.Input((12, 12, 3)), *inner, layers.Dense(5)]), PICTURES, CLASSES


def residual(momentum: float = 0.99, epsilon: float = 1e-3) -> Any:
    seen = pictures = keras.Input((12, 12, 3))
    seen = layers.Conv2D(8, 3, padding="same", use_bias=False)(seen)
    for _ in range(2):
        inner = layers.ReLU()(layers.BatchNormalization(momentum=momentum, epsilon=epsilon)(seen))
        seen = layers.Add()([seen, layers.Conv2D(8, 3, padding="same", use_bias=False)(inner)])
    return keras.Model(pictures, layers.Dense(5)(layers.GlobalAveragePooling2D()(seen))), PICTURES, CLASSES


def two_inputs() -> Any:
    rows, short = keras.Input((100,), name="rows"), keras.Input((7, 6), name="short")
    joined = layers.Concatenate()([layers.Dense(16, "relu")(rows), layers.GRU(8)(short)])
    model = keras.Model({"rows": rows, "short": short}, layers.Dense(5)(joined))
    return model, {"rows": ROWS, "short": SHORT}, CLASSES


def regression(activation: str = "swish", last: str | None = None) -> Any:
    inner = [layers.Dense(32, activation), layers.Dense(1, last)]
    return keras.Sequential([keras.Input((100,)), *inner]), ROWS, NUMBERS


def coder(activation: str = "elu") -> Any:
    inner = [layers.Dense(24, activation), layers.Dense(100)]
    return keras.Sequential([keras.Input((100,)), *inner]), ROWS, ROWS


def cut(inputs: Any, targets: Any) -> list[Any]:
    starts = range(0, ITEMS, BATCH)
    return [
        (keras.tree.map_structure(lambda each, at=start: each[at : at + BATCH], inputs), targets[start : start + BATCH])
        for start in starts
    ]
