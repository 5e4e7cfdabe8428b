"""torch.utils.data"""

from .dataloader import DataLoader, IterableDataset  # noqa: F401
