"""Trainings that draw random numbers, in every way in which people's do, and those that cannot be repeated."""

# ruff: noqa: NPY002  users draw from the global generator
from __future__ import annotations

import os
import random
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import laptime

ITEMS, SIDE = 48, 6


class Drawn(Dataset):
    """Images that are turned and made noisy as they are read."""

    def __init__(self, change):
        fixed = torch.Generator().manual_seed(5)
        self.images = torch.randn(ITEMS, 3, SIDE, SIDE, generator=fixed)
        self.labels = torch.randint(0, 4, (ITEMS,), generator=fixed)
        self.change = change

    def __len__(self):
        return ITEMS

    def __getitem__(self, number):
        return self.change(self.images[number]), self.labels[number]


def _same(image):
    return image


def _by_torch(image):
    image = image.flip(-1) if torch.rand(1).item() < 0.5 else image
    return image + 0.1 * torch.randn_like(image)


def _by_numpy(image):
    return image.roll(int(np.random.randint(SIDE)), -1) * float(np.random.uniform(0.5, 1.5))


def _by_random(image):
    return image.roll(random.randrange(SIDE), -1) * random.uniform(0.5, 1.5)


def _by_the_system(image):
    return image * (0.5 + int.from_bytes(os.urandom(2), "little") / 65536)


class Body(nn.Module):
    """A small network of images, with a place for what draws."""

    def __init__(self, draw=_same):
        super().__init__()
        self.convolution, self.dense = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * SIDE * SIDE, 4)
        self.dropout_layer, self.draw = nn.Dropout(0.5), draw

    def forward(self, images):
        rows = functional.relu(self.convolution(images))
        return self.dense(self.dropout_layer(self.draw(rows)).flatten(1))


def _training(change=_same, draw=_same, loss=functional.cross_entropy, model=None, **loader):
    model = Body(draw) if model is None else model
    words = {"batch_size": 8, "shuffle": True, **loader}
    return laptime.Training(model, loss, torch.optim.Adam(model.parameters()), DataLoader(Drawn(change), **words))


def shuffled():
    return _training()


def shuffled_by_its_own():
    return _training(generator=torch.Generator().manual_seed(int(time.time() * 1e6) % 2**31))


def turned_by_torch():
    return _training(_by_torch)


def turned_by_numpy():
    return _training(_by_numpy)


def turned_by_random():
    return _training(_by_random)


def turned_by_the_system():
    return _training(_by_the_system)


def _loss_that_is_read(outputs, targets):
    loss = functional.cross_entropy(outputs, targets)
    if loss.item() > 1e9:
        raise ValueError("far off")
    return loss


def turned_by_the_system_and_read():
    return _training(_by_the_system, loss=_loss_that_is_read)


def turned_in_workers():
    return _training(lambda image: _by_torch(_by_numpy(_by_random(image))), num_workers=2)


def dropped_by_function():
    return _training(draw=lambda rows: functional.dropout(rows, 0.3))


def made_noisy():
    return _training(draw=lambda rows: rows + 0.3 * torch.randn(rows.shape, device=rows.device, dtype=rows.dtype))


def left_out():
    """Whole items, as deep networks of many branches have it."""
    return _training(draw=lambda rows: rows * (torch.rand(len(rows), 1, 1, 1, device=rows.device) < 0.7))


def sloped():
    return _training(draw=lambda rows: functional.rrelu(rows - 0.1, training=True))


def chosen():
    """Places by a distribution that the network computes."""

    def draw(rows):
        flat = rows.flatten(1)
        places = torch.multinomial(functional.softmax(flat.detach(), 1), 3)
        return rows * (1 + 0.1 * flat.gather(1, places).sum(1)[:, None, None, None])

    return _training(draw=draw)


def shuffled_within():
    return _training(draw=lambda rows: rows + 0.5 * rows[torch.randperm(len(rows), device=rows.device)])


def remembered():
    """What a checkpoint of activations computes again draws again."""
    return _training(
        draw=lambda rows: checkpoint(lambda each: functional.dropout(each.square(), 0.5), rows, use_reentrant=False)
    )


def mixed_in_the_loss():
    """By all three generators that Python code has."""

    def loss(outputs, targets):
        share = float(np.random.beta(0.4, 0.4))
        other = targets[torch.randperm(len(targets))]
        mixed = share * functional.cross_entropy(outputs, targets) + (1 - share) * functional.cross_entropy(
            outputs, other
        )
        return mixed * random.uniform(0.9, 1.1)

    return _training(loss=loss)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        pixels = 3 * SIDE * SIDE
        self.narrow, self.wide = nn.Linear(pixels, 8), nn.Linear(4, pixels)

    def forward(self, images):
        mean, width = self.narrow(images.flatten(1)).chunk(2, 1)
        hidden = mean + torch.exp(0.5 * width) * torch.randn_like(width)
        return self.wide(hidden), mean, width, images


def _vae_loss(outputs, _targets):
    made, mean, width, images = outputs
    apart = functional.mse_loss(made, images.flatten(1), reduction="sum")
    return apart - 0.5 * torch.sum(1 + width - mean.square() - width.exp())


def vae():
    return _training(_by_torch, loss=_vae_loss, model=Vae())


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(3 * SIDE * SIDE, 16), nn.Linear(16, 4)

    def forward(self, images):
        rows = functional.dropout(self.narrow(images.flatten(1)), 0.2) + 0.1 * torch.randn(16)
        rows = rows * torch.bernoulli(torch.full_like(rows, 0.8)) * torch.empty_like(rows).uniform_(0.5, 1.5)
        return self.wide(functional.rrelu(rows + 0.1 * torch.empty_like(rows).exponential_(), training=True))


def everything_drawn():
    def loss(outputs, targets):
        return functional.cross_entropy(outputs, targets) * (0.5 + random.random()) * float(np.random.rand())

    return _training(_by_torch, loss=loss, model=Everything())


def gan():
    """Two networks and two optimizers: a step of its own, which a python lane calls."""
    maker, judge = nn.Linear(8, 3 * SIDE * SIDE), nn.Sequential(nn.Linear(3 * SIDE * SIDE, 16), nn.Linear(16, 1))
    state = {
        "maker": maker,
        "judge": judge,
        "maker's": torch.optim.Adam(maker.parameters(), 1e-4),
        "judge's": torch.optim.SGD(judge.parameters(), 1e-3),
    }

    def step(state, batch):
        real = batch[0].flatten(1)
        made = state["maker"](torch.randn(len(real), 8, dtype=real.dtype))
        seen = functional.dropout(torch.cat([real, made.detach()]), 0.2) + 0.1 * torch.randn_like(
            torch.cat([real, real])
        )
        truth = torch.cat([torch.ones_like(real[:, :1]), torch.zeros_like(real[:, :1])])
        judged = functional.binary_cross_entropy_with_logits(state["judge"](seen), truth)
        _update(state["judge's"], judged)
        fooled = functional.binary_cross_entropy_with_logits(state["judge"](made), torch.ones_like(real[:, :1]))
        _update(state["maker's"], fooled)
        return state, (judged + fooled).detach()

    return laptime.Training(step=step, state=state, data=DataLoader(Drawn(_by_torch), batch_size=8, shuffle=True))


def _update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def from_the_system():
    """Nobody can draw this again."""
    return _training(draw=lambda rows: rows * (1 + int.from_bytes(os.urandom(2), "little") / 65536))


def by_a_generator_of_its_own():
    drawn = np.random.default_rng()
    return _training(draw=lambda rows: rows * float(drawn.uniform(0.5, 1.5)))


def with_the_noise_of(scale):
    return _training(draw=lambda rows: rows + scale * torch.randn_like(rows))


def noise_by_lane():
    """A lane that differs by its noise alone: what LAPTIME_TEST_NOISE says."""
    return with_the_noise_of(float(os.environ.get("LAPTIME_TEST_NOISE", "0.30")))


def loss_by_lane():
    factor = float(os.environ.get("LAPTIME_TEST_NOISE", "1"))
    return _training(
        draw=lambda rows: functional.dropout(rows, 0.3),
        loss=lambda outputs, targets: functional.cross_entropy(outputs * factor, targets),
    )
