"""Grids of images, written as files."""

import torch
from PIL import Image


def make_grid(images, nrow=8, padding=2, normalize=False, **_others):
    images = images.detach().float().cpu()
    if images.dim() == 3:
        images = images[None]
    if normalize:
        low, high = images.min(), images.max()
        images = (images - low) / (high - low).clamp_min(1e-5)
    if images.size(1) == 1:
        images = images.expand(-1, 3, -1, -1)
    columns = min(nrow, len(images))
    rows = -(-len(images) // columns)
    high, wide = images.size(2) + padding, images.size(3) + padding
    grid = torch.zeros(3, rows * high + padding, columns * wide + padding)
    for number, image in enumerate(images):
        top, left = number // columns * high + padding, number % columns * wide + padding
        grid[:, top : top + image.size(1), left : left + image.size(2)] = image
    return grid


def save_image(images, path, nrow=8, normalize=False, **_others):
    grid = make_grid(images, nrow, normalize=normalize)
    Image.fromarray(grid.mul(255).clamp(0, 255).byte().permute(1, 2, 0).numpy()).save(path)
