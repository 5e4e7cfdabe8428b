"""torch.utils.data.dataloader"""


class _BaseDataLoaderIter:
    def __init__(self, batches):
        self._batches = iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)


class DataLoader:
    """Iterates over batches that are there."""

    num_workers, batch_size, pin_memory = 0, 4, False

    def __init__(self, batches):
        self._batches = batches

    def __len__(self):
        return len(self._batches)

    def __iter__(self):
        return _BaseDataLoaderIter(self._batches)
