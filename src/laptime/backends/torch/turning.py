"""The random transforms of a whole batch in one pass on the device, linear between pixels, the edge repeated beyond.

It draws what the other loaders draw for the same batch. On an accelerator it costs next to nothing and leaves the
workers with decoding alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from laptime.pipelines.draws import Matrix, draw_turns, matrix_of
from laptime.pipelines.numbering import rng_of


class Turning:
    """Turns batch after batch, each by what its number and the seed draw."""

    def __init__(self, seed: int, first: int) -> None:
        self._seed, self._number = seed, first

    def __call__(self, images: Tensor) -> Tensor:
        """Take floats as (item, channel, row, column) and give as many, turned."""
        turns = draw_turns(rng_of(self._seed, self._number), len(images))
        self._number += 1
        return turn_images(images, [matrix_of(turn) for turn in turns])


def turn_images(images: Tensor, matrices: list[Matrix]) -> Tensor:
    """Map each image by its own matrix, which goes from an output's (row, column) to the input's."""
    height, width = images.shape[2:]
    # The sampler counts from -1 to 1 on both axes, and names the column first.
    rows = [[[d, c * height / width, 0.0], [b * width / height, a, 0.0]] for (a, b), (c, d) in matrices]
    maps = torch.tensor(rows, dtype=images.dtype).to(images.device, non_blocking=True)
    grid = nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
    turned: Tensor = nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return turned
