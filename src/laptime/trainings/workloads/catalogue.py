"""The five published trainings, layer for layer as their authors wrote them."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import replace
from importlib import resources

from laptime.model.errors import UsageError
from laptime.model.hardware import (
    AveragePool,
    BatchNorm,
    Conv,
    Dense,
    DenseBlock,
    Dropout,
    Flatten,
    GlobalAveragePool,
    Layer,
    MaxPool,
    Relu,
    Reshape,
    SwapAxes,
    Transition,
)
from laptime.model.workload import Adam, LayerRow, ProofPlan, Published, PublishedResult, Sgd, Workload
from laptime.trainings.workloads.shapes import Shape, count_parameters, output_shape, scale_workload, split_width

# What the authors of the five experiments reported, read from published.toml next to this file.

SOURCES = {
    "scenes-cnn": "a Spanish article, TensorFlow 2.7, Keras",
    "cifar-cnn": "a Japanese article, TensorFlow 1.x, Keras",
    "cifar-mlp": "an English tutorial, TensorFlow, Keras",
    "pets-densenet": "arXiv 2309.02521, PyTorch",
    "plates-cnn": "a question in Chinese from Stack Overflow, Keras on Colab",
}


LISTED_RESULTS = {
    "lap_s",
    "step_ms",
    "accuracy",
    "val_accuracy",
    "loss",
    "busy_percent",
    "memory_gb",
    "power_w",
    "temperature_c",
}


def read_published(name: str) -> Published:
    text = resources.files("laptime.trainings.workloads").joinpath("published.toml").read_text(encoding="utf-8")
    entry = tomllib.loads(text)[name]
    for row in entry["results"]:
        for key in LISTED_RESULTS & row.keys():
            row[key] = tuple(row[key]) if isinstance(row[key], list) else (row[key],)
    results = tuple(PublishedResult(**row) for row in entry["results"])
    return Published(claim=entry["claim"], source=SOURCES[name], results=results)


CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PLATE_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

SCENES_CNN = Workload(
    name="scenes-cnn",
    title="eight kinds of photographs, a CNN with one wide dense layer",
    image_shape=(150, 150, 3),
    outputs=(8,),
    layers=(
        Conv(32, 3, "relu"),
        MaxPool(),
        Conv(64, 3, "relu"),
        MaxPool(),
        Flatten(),
        Dense(512, "relu"),
        Dropout(0.2),
        Dense(64, "relu"),
        Dropout(0.2),
        Dense(8),
    ),
    loss="softmax_crossentropy",
    optimizer=Adam(),
    batch=32,
    steps_per_lap=1000,
    laps=5,
    train_items=18_687,
    test_items=4_463,
    classes=("buildings", "cat", "dog", "forest", "glacier", "mountain", "sea", "street"),
    data_layout="folders",
    items_made=512,
    items="images",
    loader="threads",
    proof=ProofPlan(steps=6, batch=16, loss_scale=1e-4),
    parameters=42_520_584,
    published=read_published("scenes-cnn"),
    validation_items=320,
    turned=True,
)

CIFAR_CNN = Workload(
    name="cifar-cnn",
    title="CIFAR-10, six convolutions without activation",
    image_shape=(32, 32, 3),
    outputs=(10,),
    layers=(
        Conv(32, 3, padding="same"),
        Conv(32, 3, padding="same"),
        MaxPool(),
        Conv(64, 3, padding="same"),
        Conv(64, 3, padding="same"),
        MaxPool(),
        Conv(128, 3, padding="same"),
        Conv(128, 3, padding="same"),
        Flatten(),
        Dropout(0.3),
        Dense(128, "relu"),
        Dense(10),
    ),
    loss="softmax_crossentropy",
    optimizer=Adam(),
    batch=100,
    steps_per_lap=500,
    laps=10,
    train_items=50_000,
    test_items=10_000,
    classes=CIFAR_CLASSES,
    data_layout="archive",
    items_made=10_000,
    items="images",
    loader="memory",
    proof=ProofPlan(steps=10, batch=32, loss_scale=1e-4),
    parameters=1_337_002,
    published=read_published("cifar-cnn"),
    validation_items=1_000,
    evaluation_items=10_000,
    predictions_shown=20,
)

CIFAR_MLP = Workload(
    name="cifar-mlp",
    title="CIFAR-10, three dense layers, sigmoid at the end as written",
    image_shape=(32, 32, 3),
    outputs=(10,),
    layers=(Flatten(), Dense(3000, "relu"), Dense(1000, "relu"), Dense(10)),
    loss="sigmoid_crossentropy",
    optimizer=Sgd(),
    batch=32,
    steps_per_lap=1563,
    laps=10,
    train_items=50_000,
    test_items=10_000,
    classes=CIFAR_CLASSES,
    data_layout="archive",
    items_made=10_000,
    items="images",
    loader="memory",
    proof=ProofPlan(steps=10, batch=32),
    parameters=12_230_010,
    published=read_published("cifar-mlp"),
    evaluation_items=10_000,
)

PETS_DENSENET = Workload(
    name="pets-densenet",
    title="cats and dogs, DenseNet121 with a two-class head",
    image_shape=(224, 224, 3),
    outputs=(2,),
    layers=(
        Conv(64, 7, padding=3, stride=2, bias=False),
        BatchNorm(),
        Relu(),
        MaxPool(3, 2, 1),
        DenseBlock(6),
        Transition(),
        DenseBlock(12),
        Transition(),
        DenseBlock(24),
        Transition(),
        DenseBlock(16),
        BatchNorm(),
        Relu(),
        GlobalAveragePool(),
        Dense(2),
    ),
    loss="softmax_crossentropy",
    optimizer=Adam(epsilon=1e-8, epsilon_placement="after"),
    batch=64,
    steps_per_lap=126,
    laps=20,
    train_items=8_005,
    test_items=2_023,
    classes=("cats", "dogs"),
    data_layout="folders",
    items_made=256,
    items="images",
    loader="dataloader",
    proof=ProofPlan(steps=4, batch=8, learning_rate_scale=0.001, loss_scale=1e-4),
    parameters=6_955_906,
    published=read_published("pets-densenet"),
    evaluation_items=2_023,
)

PLATES_CNN = Workload(
    name="plates-cnn",
    title="licence plates, eight characters out of 36",
    image_shape=(64, 128, 3),
    outputs=(8, 36),
    layers=(
        Conv(32, 3, "relu"),
        MaxPool(),
        Conv(32, 3, "relu"),
        MaxPool(),
        Conv(64, 3, "relu"),
        MaxPool(),
        Conv(64, 3, "relu"),
        MaxPool(),
        Flatten(),
        Dropout(0.5),
        Reshape((1, 768)),
        Dense(256, "relu"),
        Dense(8),
        SwapAxes(),
        Dense(36),
    ),
    loss="softmax_crossentropy",
    optimizer=Adam(),
    batch=128,
    steps_per_lap=821,
    laps=10,
    train_items=105_000,
    test_items=76_000,
    classes=tuple(PLATE_CHARACTERS),
    data_layout="plates",
    items_made=1_280,
    items="images",
    loader="one by one",
    proof=ProofPlan(steps=10, batch=16, loss_scale=1e-4),
    parameters=264_560,
    published=read_published("plates-cnn"),
    validation_items=76_000,
)

CATALOGUE: dict[str, Workload] = {
    workload.name: workload for workload in (SCENES_CNN, CIFAR_CNN, CIFAR_MLP, PETS_DENSENET, PLATES_CNN)
}


def find_workload(name: str) -> Workload:
    """Return the workload of that name, as in cifar-cnn or cifar-cnn@0.5; a UsageError names the nearest ones."""
    plain, width = split_width(name)
    if plain in CATALOGUE:
        return scale_workload(CATALOGUE[plain], width)
    near = difflib.get_close_matches(name, CATALOGUE, n=2, cutoff=0.4) or list(CATALOGUE)
    raise UsageError(
        f"unknown workload '{name}'; nearest: {', '.join(near)}",
        "`laptime workloads` lists all; a training of your own is given as file.py:function",
    )


# A workload's layers as a table, in neutral words: what each layer is, its output shape and its parameters.


def list_layers(workload: Workload) -> tuple[LayerRow, ...]:
    """Return a row for each layer as the authors would list it. A dense block of DenseNet is one row."""
    rows: list[LayerRow] = []
    shape: Shape = workload.image_shape
    counted = 0
    for number, layer in enumerate(workload.layers, 1):
        shape = output_shape(layer, shape)
        before = counted
        counted = count_parameters(replace(workload, layers=workload.layers[:number]))
        rows.append(LayerRow(_words(layer, shape), shape, counted - before))  # the rows sum up to the whole
    return tuple(rows)


def _words(layer: Layer, shape: Shape) -> str:
    """Describe a layer by its name and what is not a default. `shape` is its output shape."""
    match layer:
        case Conv(filters=filters, kernel=kernel, activation=activation):
            around = {"valid": "", "same": " same"}.get(str(layer.padding), f" padding {layer.padding}")
            apart = f" stride {layer.stride}" if layer.stride != 1 else ""
            bias = "" if layer.bias else " no bias"
            return f"conv {filters} {kernel}x{kernel}{apart}{around}{bias}{_activation(activation)}"
        case Dense(units=units, activation=activation):
            return f"dense {units}{_activation(activation)}"
        case MaxPool(size=size, stride=stride, padding=padding):
            apart = f" stride {stride}" if stride != size else ""
            return f"max pool {size}x{size}{apart}{f' padding {padding}' if padding else ''}"
        case AveragePool(size=size):
            return f"average pool {size}x{size}"
        case Dropout(rate=rate):
            return f"dropout {rate:g}"
        case DenseBlock(layers=layers, growth=growth, bottleneck=bottleneck):
            inner = f"batch norm, relu, conv {bottleneck * growth} 1x1, batch norm, relu, conv {growth} 3x3 same"
            return f"dense block: {layers} x ({inner}), no bias"
        case Transition():
            return f"transition: batch norm, relu, conv {shape[-1]} 1x1 no bias, average pool 2x2"
        case GlobalAveragePool() | BatchNorm() | Relu() | Flatten() | Reshape() | SwapAxes():
            return PLAIN_LAYERS[type(layer)]


PLAIN_LAYERS: dict[type[Layer], str] = {
    GlobalAveragePool: "global average pool",
    BatchNorm: "batch norm",
    Relu: "relu",
    Flatten: "flatten",
    Reshape: "reshape",
    SwapAxes: "swap axes",
}


def _activation(name: str) -> str:
    return "" if name == "none" else f" {name}"
