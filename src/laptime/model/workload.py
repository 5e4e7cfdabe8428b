"""A workload is what is trained: network, data, loss, optimizer, batch, protocol and published results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from laptime.model.dataset import DataLayout
from laptime.model.network import Layer

TEST_MOST_BYTES = 256 << 20
FLOAT_BYTES = 4

Loader = Literal["memory", "threads", "one by one", "dataloader"]
Loss = Literal["softmax_crossentropy", "sigmoid_crossentropy"]


@dataclass(frozen=True, slots=True)
class Adam:
    """Adam with every default spelled out.

    `epsilon_placement` says where the small constant is added: Keras adds it to the square root of the raw second
    moment ("before" the bias correction), PyTorch to that of the corrected one ("after").
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7
    epsilon_placement: Literal["before", "after"] = "before"
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class Sgd:
    learning_rate: float = 1e-2
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """What an author reported for one device; a list holds one figure an epoch."""

    device: str
    kind: Literal["cpu", "gpu", "tpu"]
    lap_s: tuple[float, ...] = ()
    step_ms: tuple[float, ...] = ()
    total_s: float | None = None
    accuracy: tuple[float, ...] = ()
    val_accuracy: tuple[float, ...] = ()
    loss: tuple[float, ...] = ()
    infer_one_s: float | None = None
    busy_percent: tuple[float, ...] = ()
    memory_gb: tuple[float, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[float, ...] = ()
    processes: int | None = None
    threads: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    claim: str
    source: str
    results: tuple[PublishedResult, ...]


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """How the same work is proven: some steps from the same weights, on the same batches, at a small rate.

    The loss is multiplied by `loss_scale` before its gradient is taken, and by four times that in the first step.
    With Adam this brings gradients near its epsilon: a gradient that is mere rounding then moves nothing (at full
    scale Adam turns its sign into a whole step), while another epsilon or beta shows at once.
    """

    steps: int = 10
    batch: int = 32
    learning_rate_scale: float = 0.01
    loss_scale: float = 1.0

    def scale_of(self, step: int) -> float:
        """Give what the loss of this step (counted from 0) is multiplied by."""
        return self.loss_scale * (4.0 if step == 0 else 1.0)


@dataclass(frozen=True, slots=True)
class Workload:
    """A built-in training, described once for all frameworks. Image shape is (height, width, channels).

    `loader` is how the authors had their items: decoded in memory, by a generator's threads, one image after another
    in the training's process, or by PyTorch's DataLoader. `turned` says that they drew random transforms.

    After each lap they looked at `validation_items` of the test items, at the end at `evaluation_items` of them, and
    printed the predictions of the first `predictions_shown`.
    """

    name: str
    title: str
    image_shape: tuple[int, int, int]
    outputs: tuple[int, ...]
    layers: tuple[Layer, ...]
    loss: Loss
    optimizer: Adam | Sgd
    batch: int
    steps_per_lap: int
    laps: int
    train_items: int
    test_items: int
    classes: tuple[str, ...]
    data_layout: DataLayout
    items_made: int
    items: str
    loader: Loader
    proof: ProofPlan
    parameters: int
    published: Published
    validation_items: int = 0
    evaluation_items: int = 0
    predictions_shown: int = 0
    turned: bool = False

    @property
    def reads_files(self) -> bool:
        return self.loader != "memory"

    @property
    def test_items_made(self) -> int:
        """As many test items are made in memory as were published, or as many as a modest memory holds."""
        return min(self.test_items, TEST_MOST_BYTES // (FLOAT_BYTES * math.prod(self.image_shape)))


@dataclass(frozen=True, slots=True)
class Training:
    """A user's own training, returned by a function that `laptime race my.py:function` names.

    For PyTorch: `optimizer` is an optimizer built on the model's parameters, or a function that takes the parameters
    and returns one. `loss` takes (outputs, targets). `data` is a list of (inputs, targets) batches, a DataLoader, or
    anything else that can be iterated again and again.

    For Keras: `model` is compiled, so that `loss` and `optimizer` are in it; `data` are what `fit` takes: arrays as a
    tuple (inputs, targets), of which `batch` items make a step (32, as in `fit`), or a PyDataset, a tf.data.Dataset,
    a DataLoader, a generator, a list of batches. `return model, data` says the same.

    For JAX, and by python lanes for any other framework: `step` takes (state, batch) and returns (new state, loss),
    `state` is what it begins with, `data` gives the batches, and `fence` takes the state and waits until all is done:
    for JAX, if there is more to wait for than the state and the loss; on a python lane, wherever a step may return
    before it is done. A python lane's code reads in LAPTIME_DEVICE where it is to compute: cpu, cuda:0.
    """

    model: Any = None
    loss: Callable[..., Any] | None = None
    optimizer: Any = None
    data: Any = None
    steps_per_lap: int | None = None
    items: str = "items"
    step: Callable[[Any, Any], tuple[Any, Any]] | None = None
    state: Any = None
    fence: Callable[[Any], object] | None = None
    batch: int | None = None
