"""torch.utils.data.dataloader"""


class _BaseDataLoaderIter:
    def __init__(self, batches):
        self._batches = iter(batches)
        self._num_yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._batches)
        self._num_yielded += 1
        return batch


class IterableDataset:
    """Has no items by number."""


class DataLoader:
    """Iterates over batches that are there."""

    batch_size, pin_memory = 4, False

    def __init__(self, batches, num_workers=0, **more):
        self._batches = self.dataset = batches
        self.num_workers, self.persistent_workers = num_workers, bool(more)

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        return _BaseDataLoaderIter(self._batches)
