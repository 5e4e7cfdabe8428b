"""The decoded items of a built-in training, for whichever framework: to train on, to test on, and for the proof."""

from __future__ import annotations

import numpy as np

from laptime.model.plan import HeatOrder
from laptime.model.workload import ProofPlan, Workload
from laptime.pipelines.reading import read_items
from laptime.workloads import find_workload
from laptime.workloads.data import Items, make_items, make_test_items


class BuiltInItems:
    """What an order says of its data: made in memory from a seed, or read from a folder."""

    def __init__(self, order: HeatOrder) -> None:
        self.workload: Workload = find_workload(order.subject.name)
        self.data = order.data
        self.proof: ProofPlan = order.proof
        self._data_seed = order.seed if order.data_seed is None else order.data_seed

    def proof_items(self) -> Items:
        """Give the items of all the proof's batches, one batch after another."""
        return make_items(self.workload, self._data_seed, self.proof.steps * self.proof.batch)

    def items(self, count: int) -> Items:
        """Give at least so many decoded items, and no fewer than the workload keeps in memory."""
        wanted = max(count, self.workload.items_made)
        if self.data is not None:
            return read_items(self.workload, self.data, "train", wanted)
        return make_items(self.workload, self._data_seed, wanted)

    def test_items(self, count: int) -> Items:
        """Give the first so many decoded items of the test set, or as many as a modest memory holds."""
        wanted = min(count, self.workload.test_items_made)
        if self.data is not None:
            return read_items(self.workload, self.data, "test", wanted)
        return make_test_items(self.workload, self._data_seed, wanted)


def repeated(items: Items, count: int) -> Items:
    """Give so many items; where there are fewer, they come again."""
    chosen = np.arange(count) % len(items.labels)
    return Items(items.images[chosen], items.labels[chosen])
