"""Your own PyTorch loop for laptime: `laptime race examples/torch_loop.py:training torch/cpu torch/cpu/best`.

What the step trains is all in the state, the optimizer too. On torch lanes laptime moves the state and the batches to
the lane's device, and waits for it. So that it also runs on python lanes, where laptime knows no device, it reads the
lane's device in LAPTIME_DEVICE, and has a fence: on a GPU steps return before they are done.
"""

import os

import torch
from torch import nn

import laptime

DEVICE = os.environ.get("LAPTIME_DEVICE", "cpu")


def training() -> laptime.Training:
    """Return a small classifier on made data: 64 batches of 128 rows with 100 columns, 5 classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 512), nn.ReLU(), nn.Linear(512, 5)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    rows = torch.randn(64, 128, 100)
    data = list(zip(rows, rows[..., :5].argmax(-1), strict=True))
    return laptime.Training(step=step, state=(model, optimizer), data=data, fence=None if DEVICE == "cpu" else wait)


def step(
    state: tuple[nn.Module, torch.optim.Optimizer], batch: tuple[torch.Tensor, torch.Tensor]
) -> tuple[object, torch.Tensor]:
    model, optimizer = state
    rows, labels = (each.to(DEVICE) for each in batch)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(rows), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return state, loss.detach()


def wait(_state: object) -> None:
    torch.cuda.synchronize()
