"""The transforms that the scripts use, computed with PIL, NumPy and torch."""

import random

import numpy as np
import torch
from PIL import Image, ImageOps


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for each in self.transforms:
            image = each(image)
        return image


class ToTensor:
    def __call__(self, image):
        array = np.array(image, copy=True)
        if array.ndim == 2:
            array = array[:, :, None]
        tensor = torch.from_numpy(array.transpose(2, 0, 1)).contiguous()
        return tensor.to(torch.get_default_dtype()).div(255) if tensor.dtype == torch.uint8 else tensor


class ToPILImage:
    def __call__(self, tensor):
        array = tensor.mul(255).byte().numpy().transpose(1, 2, 0)
        return Image.fromarray(array.squeeze(-1) if array.shape[-1] == 1 else array)


class Normalize:
    def __init__(self, mean, std, inplace=False):
        self.mean, self.std = torch.as_tensor(mean).view(-1, 1, 1), torch.as_tensor(std).view(-1, 1, 1)

    def __call__(self, tensor):
        return tensor.clone().sub_(self.mean.to(tensor)).div_(self.std.to(tensor))


class Lambda:
    def __init__(self, function):
        self.function = function

    def __call__(self, given):
        return self.function(given)


class Resize:
    def __init__(self, size, interpolation=Image.BILINEAR, **_others):
        self.size, self.interpolation = size, interpolation

    def __call__(self, image):
        if isinstance(self.size, int):
            width, height = image.size
            factor = self.size / min(width, height)
            size = (round(width * factor), round(height * factor))
        else:
            size = (self.size[1], self.size[0])
        return image if image.size == size else image.resize(size, self.interpolation)


class CenterCrop:
    def __init__(self, size):
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, image):
        (width, height), (high, wide) = image.size, self.size
        left, top = (width - wide) // 2, (height - high) // 2
        return image.crop((left, top, left + wide, top + high))


class Pad:
    def __init__(self, padding):
        self.padding = padding

    def __call__(self, image):
        return ImageOps.expand(image, self.padding)


class RandomCrop:
    def __init__(self, size, padding=0):
        self.size, self.padding = size, padding

    def __call__(self, image):
        image = ImageOps.expand(image, self.padding) if self.padding else image
        left, top = (random.randint(0, full - self.size) for full in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, image):
        return image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < self.p else image
