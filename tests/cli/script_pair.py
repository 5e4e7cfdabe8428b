"""A script as people write them, and changes of it: a test writes one of them to a file."""

from __future__ import annotations

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
rows = torch.randn(1024, 64)
labels = rows[:, :4].argmax(-1)
while True:
    for first in range(0, 1024, 64):
        optimizer.zero_grad()
        batch = rows[first : first + 64]
        for _ in range(12):
            batch = torch.stack([row for row in batch])
        loss = nn.functional.cross_entropy(model(batch), labels[first : first + 64])
        loss.backward()
        optimizer.step()
"""
CHANGES = {
    "faster": ("range(12)", "range(3)"),
    "other rate": ("lr=0.05", "lr=0.01"),
    "frozen": ("model.parameters()", "model[2].parameters()"),
    "broken": ("import torch\n", "import torch\nraise RuntimeError('no data here')\n"),
}


def changed(change: str) -> str:
    """Return the script with one of its changes."""
    before, after = CHANGES[change]
    assert before in SCRIPT
    return SCRIPT.replace(before, after, 1)
