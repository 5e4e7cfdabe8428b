"""A workload is what is trained: network, data, loss, optimizer, batch, protocol and published results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from laptime.model.ask import DataLayout
from laptime.model.hardware import Layer

TEST_MOST_BYTES = 256 << 20
FLOAT_BYTES = 4
AT_WIDTH = "@"  # in a workload's name, before the width of its network
WIDTHS = (0.01, 100.0)

LoaderKind = Literal["memory", "threads", "one by one", "dataloader"]
Loss = Literal["softmax_crossentropy", "sigmoid_crossentropy"]


def is_width(text: str) -> bool:
    """Whether a text is a width: a factor on the filters and hidden units of a network."""
    return re.fullmatch(r"[0-9]{0,3}\.?[0-9]{1,4}", text) is not None and WIDTHS[0] <= float(text) <= WIDTHS[1]


def name_at_width(name: str, width: str) -> str:
    """Return the name of a workload at a width; at width 1, it is the workload itself."""
    return name if float(width) == 1 else f"{name}{AT_WIDTH}{float(width):g}"


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
    """What an author reported for one device; a list holds one figure per epoch."""

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
    """How the proof shows that lanes do the same work: some steps from the same weights, with the same batches.

    The steps use a small learning rate. The loss is multiplied by `loss_scale` before its gradient is taken, and by
    four times that in the first step. With Adam this brings gradients close to its epsilon: a gradient that is only
    rounding then moves nothing (at full scale Adam turns its sign into a whole step), while a different epsilon or beta
    is visible at once.

    Where `single_step_scale` is set, two single steps from the start follow at that multiple of the learning rate: one
    with its gradients, and one with gradients of 0, which shows the weight decay alone. A single step is not chaotic,
    however large it is. At a small rate, a weight decay is too small for float32.
    """

    steps: int = 10
    batch: int = 32
    learning_rate_scale: float = 0.01
    loss_scale: float = 1.0
    single_step_scale: float | None = None

    def scale_of(self, step: int) -> float:
        """Return the factor on the loss of this step, counted from 0."""
        return self.loss_scale * (4.0 if step == 0 else 1.0)


@dataclass(frozen=True, slots=True)
class Workload:
    """A built-in training, described once for all frameworks. The image shape is (height, width, channels).

    `loader` is how the authors loaded their items: decoded in memory, by a generator's threads, one image after another
    in the training's process, or by PyTorch's DataLoader. `turned` says that they used random transforms.

    After each lap they evaluated `validation_items` of the test items, at the end `evaluation_items` of them, and
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
    loader: LoaderKind
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
    def least_items(self) -> int:
        """Return how many items a set needs to have one of each class."""
        return 1 if self.data_layout == "plates" else self.outputs[-1]

    @property
    def test_items_made(self) -> int:
        """As many test items are made in memory as were published, or as many as fit in 256 MiB."""
        return min(self.test_items, TEST_MOST_BYTES // (FLOAT_BYTES * math.prod(self.image_shape)))


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer. `output_shape` is that of one item, channels last; `parameters` counts the trainable ones."""

    layer: str
    output_shape: tuple[int, ...]
    parameters: int


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A built-in training for programs: a `Workload` with its layers as rows, and its optimizer by name."""

    name: str
    title: str
    image_shape: tuple[int, int, int]
    outputs: tuple[int, ...]
    layers: tuple[LayerRow, ...]
    loss: Loss
    optimizer: dict[str, str | float]
    batch: int
    steps_per_lap: int
    laps: int
    train_items: int
    test_items: int
    classes: tuple[str, ...]
    data_layout: DataLayout
    items_made: int
    items: str
    loader: LoaderKind
    proof: ProofPlan
    parameters: int
    published: Published
    validation_items: int
    evaluation_items: int
    predictions_shown: int
    turned: bool


@dataclass(frozen=True, slots=True)
class Training:
    """A user's own training, returned by a function that `laptime race my.py:function` names.

    For PyTorch: `optimizer` is an optimizer built on the model's parameters, or a function that takes the parameters
    and returns one. `data` is a list of batches, a DataLoader, anything else that can be iterated repeatedly, or a
    function that makes a generator for each lap. A tuple (inputs, ..., targets) gives model(inputs, ...) and
    loss(outputs, targets), a dict model(**batch) and loss(outputs, batch), anything else model(batch) and
    loss(outputs, batch). Without `loss`, the model gets the whole batch and returns its loss: one number, the first of
    a tuple, or `.loss`.

    `held_out` are batches like those of `data` that it does not train on: `laptime verdict --learning` judges the loss
    on them.

    For Keras: `model` is compiled, so it contains `loss` and `optimizer`. `data` is what `fit` takes: arrays as a tuple
    (inputs, targets), of which `batch` items make a step (32, as in `fit`), or a PyDataset, a tf.data.Dataset, a
    DataLoader, a generator, a list of batches. `return model, data` means the same.

    For JAX, for a PyTorch loop of your own, and on python lanes for any other framework: `step` takes (state, batch)
    and returns (new state, loss), `state` is the initial state, `data` yields the batches, and `fence` takes the state
    and waits until all work is done. JAX and torch lanes place state and batches, and need a `fence` only if there is
    more to wait for; a python lane needs one wherever a step may return before it is done. The code of a python lane
    reads in LAPTIME_DEVICE where it must compute: cpu, cuda:0.
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
    held_out: Any = None
