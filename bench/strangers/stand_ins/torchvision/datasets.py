"""Data sets of made images, in the shapes of the real ones. STAND_IN_ITEMS has the sizes: training, test."""

import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class _Made(Dataset):
    shape = (28, 28)
    classes = tuple(map(str, range(10)))

    def __init__(self, root="", train=True, transform=None, target_transform=None, download=False):
        sizes = os.environ.get("STAND_IN_ITEMS", "3000,500").split(",")
        number = int(sizes[not train])
        source = np.random.default_rng(0 if train else 1)
        data = source.integers(0, 256, (number, *self.shape), dtype=np.uint8)
        self._keep(data, source.integers(0, 10, number))
        self.train, self.transform, self.target_transform = train, transform, target_transform

    def _keep(self, data, targets):
        self.data, self.targets = torch.from_numpy(data), torch.from_numpy(targets)

    @property
    def train_data(self):
        return self.data

    @property
    def test_data(self):
        return self.data

    @property
    def train_labels(self):
        return self.targets

    @property
    def test_labels(self):
        return self.targets

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, target = Image.fromarray(np.asarray(self.data[index])), int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


class MNIST(_Made):
    pass


class FashionMNIST(_Made):
    pass


class CIFAR10(_Made):
    shape = (32, 32, 3)

    def _keep(self, data, targets):
        self.data, self.targets = data, targets.tolist()


class FakeData(Dataset):
    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None):
        self.size = min(size, int(os.environ.get("STAND_IN_ITEMS", "3000,500").split(",")[0]))
        self.image_size, self.num_classes, self.transform = image_size, num_classes, transform

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        source = np.random.default_rng(index)
        image = Image.fromarray(source.integers(0, 256, (*self.image_size[1:], 3), dtype=np.uint8))
        target = int(source.integers(0, self.num_classes))
        return (image if self.transform is None else self.transform(image)), target


class ImageFolder(Dataset):
    def __init__(self, root, transform=None, target_transform=None):
        self.classes = sorted(each.name for each in Path(root).iterdir() if each.is_dir())
        self.samples = [
            (file, number) for number, name in enumerate(self.classes) for file in sorted(Path(root, name).iterdir())
        ]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = Image.open(path).convert("RGB")
        return (image if self.transform is None else self.transform(image)), target
