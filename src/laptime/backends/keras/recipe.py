"""What a built-in training is made of in Keras: fresh compiled models from the same weights, and batches."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from laptime.backends.items import BuiltInItems
from laptime.backends.keras.networks import build_network, labels_for, load_weights, make_loss
from laptime.backends.keras.optimizers import make_optimizer
from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.plan import HeatOrder
from laptime.workloads.data import Items
from laptime.workloads.weights import make_weights

POLICIES = {"fp32": "float32", "tf32": "float32", "fp64": "float64", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def steps_at_once(settings: Settings) -> int:
    return settings.steps_per_execution or 1


class Recipe(BuiltInItems):
    """A workload of the catalogue."""

    def __init__(self, order: HeatOrder) -> None:
        super().__init__(order)
        self.seed = order.seed
        if order.pretrained:
            raise LaneError("--pretrained: the pre-trained weights are PyTorch's", "leave the Keras lanes out")

    def model(self, settings: Settings, precision: str, *, rate: float, proof: bool = False) -> Any:
        """Give a fresh model with the starting weights, compiled as the lane has it."""
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
        """Give a fresh model that only answers: nothing that training needs is made."""
        model = self._network(precision, dropout=True)
        if settings.execution == "compile":
            model.jit_compile = True
        return model

    def _network(self, precision: str, *, dropout: bool) -> Any:
        keras.utils.set_random_seed(self.seed)
        keras.config.set_floatx("float64" if precision == "fp64" else "float32")
        keras.config.set_dtype_policy(POLICIES[precision])
        model = build_network(self.workload, dropout=dropout)
        load_weights(model, self.workload, make_weights(self.workload, self.seed))
        return model

    def rate(self, settings: Settings) -> float:
        """Give what the learning rate is multiplied by in the training itself; the proof has its own."""
        named = settings.learning_rate
        return 1.0 if named is None else named / self.workload.optimizer.learning_rate

    def proof_batches(self) -> list[Arrays]:
        images, labels = self._arrays(self.proof_items())
        cuts = range(0, len(labels), self.proof.batch)
        return [(images[start : start + self.proof.batch], labels[start : start + self.proof.batch]) for start in cuts]

    def training_arrays(self, batch: int, at_once: int = 1) -> Arrays:
        """Give whole batches, and as many as are taken at once: fewer at an epoch's end would be another step."""
        batch *= at_once
        images, labels = self._arrays(self.items(batch))
        whole = max(1, len(labels) // batch) * batch
        if len(labels) < batch:  # a small set of somebody's own: its items come more than once
            images, labels = (np.resize(each, (batch, *each.shape[1:])) for each in (images, labels))
        return images[:whole], labels[:whole]

    def test_arrays(self, count: int) -> Arrays:
        return self._arrays(self.test_items(count))

    def _arrays(self, items: Items) -> Arrays:
        return items.images, labels_for(self.workload, items.labels)
