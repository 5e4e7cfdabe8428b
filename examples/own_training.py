"""A training of your own for laptime: `laptime race examples/own_training.py:training`.

The function returns the model, the loss, the optimizer and the data as your script has them; laptime makes a fresh
process for each heat, calls the function in it, and does the rest.
"""

import torch
from torch import nn

import laptime


def training() -> laptime.Training:
    """A small classifier on made data: 64 batches of 128 rows with 100 columns, 5 classes."""
    model = nn.Sequential(nn.Linear(100, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 5))
    rows = torch.randn(64, 128, 100)
    labels = rows[..., :5].argmax(-1)
    return laptime.Training(
        model=model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        data=list(zip(rows, labels, strict=True)),
    )
