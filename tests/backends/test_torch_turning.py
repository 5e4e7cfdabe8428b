"""A whole batch turned on the device is what the authors' loader gives, image by image."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laptime.engine.backends.torch.devices import read_switches, set_precision, set_switches
from laptime.engine.backends.torch.inputs import BatchWarp, warp_images
from laptime.engine.pipelines.decode import draw_turns, matrix_of, warp_linear
from laptime.engine.pipelines.job import rng_of


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_it_turns_as_the_authors_loader_turns(layout):
    """The same numbers drawn, the same map, linear between pixels: to rounding."""
    images = np.random.default_rng(0).random((6, 30, 30, 3)).astype(np.float32)
    batch = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=layout)
    turned = BatchWarp(seed=5, first=3)
    turned(batch)  # batch 3
    found = turned(batch).permute(0, 2, 3, 1).numpy()  # batch 4
    for image, other, turn in zip(images, found, draw_turns(rng_of(5, 4), 6), strict=True):
        assert other == pytest.approx(warp_linear(image, matrix_of(turn)), abs=2e-5)


@pytest.fixture
def precision(request):
    """Set what products are computed in, and put back what was set."""
    before = read_switches()
    set_precision(request.param)
    yield
    set_switches(before)


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("precision", ["fp32", "bf16"], indirect=True)
def test_pictures_need_not_be_square_and_are_the_same_in_any_precision():
    """Where a pixel comes from is exact, also in a lane that computes its products in bf16."""
    images = np.random.default_rng(0).random((2, 20, 44, 3)).astype(np.float32)
    matrices = [matrix_of(turn) for turn in draw_turns(np.random.default_rng(1), 2)]
    found = warp_images(torch.from_numpy(images).permute(0, 3, 1, 2), matrices).permute(0, 2, 3, 1).numpy()
    for image, other, matrix in zip(images, found, matrices, strict=True):
        assert other == pytest.approx(warp_linear(image, matrix), abs=2e-5)
