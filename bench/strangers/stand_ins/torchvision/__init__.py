"""Stands in for torchvision: data sets of made images, and the transforms that scripts use, really computed."""

from torchvision import datasets, models, transforms, utils

__version__ = "0.0"
__all__ = ["datasets", "models", "transforms", "utils"]
