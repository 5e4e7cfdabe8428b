"""The decoded items of a built-in training, for any framework: to train on, to test on, and for the proof."""

from __future__ import annotations

import numpy as np

from laptime.engine.pipelines.making import read_items
from laptime.model.plan import HeatOrder
from laptime.model.process import Settings
from laptime.model.workload import ProofPlan, Workload
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.data import Items, make_items, make_test_items


class BuiltInItems:
    """The data that an order names: made in memory from a seed, or read from a folder."""

    def __init__(self, order: HeatOrder) -> None:
        self.workload: Workload = find_workload(order.subject.name)
        self.data = order.data
        self.proof: ProofPlan = order.proof
        self._data_seed = order.seed if order.data_seed is None else order.data_seed

    def rate(self, settings: Settings) -> float:
        """Return the factor on the learning rate in the training itself; the proof has its own rate."""
        named = settings.learning_rate
        return 1.0 if named is None else named / self.workload.optimizer.learning_rate

    def proof_items(self) -> Items:
        """Return the items of all batches of the proof, one batch after another."""
        return make_items(self.workload, self._data_seed, self.proof.steps * self.proof.batch)

    def items(self, count: int) -> Items:
        """Return decoded items: this many, or as many as the workload keeps in memory if that is more."""
        wanted = max(count, self.workload.items_made)
        if self.data is not None:
            return read_items(self.workload, self.data, "train", wanted)
        return make_items(self.workload, self._data_seed, wanted)

    def test_items(self, count: int) -> Items:
        """Return the first decoded items of the test set, at most as many as fit in modest memory."""
        wanted = min(count, self.workload.test_items_made)
        if self.data is not None:
            return read_items(self.workload, self.data, "test", wanted)
        return make_test_items(self.workload, self._data_seed, wanted)


def repeated(items: Items, count: int) -> Items:
    """Return this many items, repeating them where there are fewer."""
    chosen = np.arange(count) % len(items.labels)
    return Items(items.images[chosen], items.labels[chosen])
