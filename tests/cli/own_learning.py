"""Candidates of `laptime verdict --learning` that are not to be kept: each would win by a loss of its own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import torch
from torch import nn
from two_rates import DATA, at_rate, base

import laptime

cross_entropy = nn.functional.cross_entropy


def twin() -> laptime.Training:
    return base()


def tenth_of_the_loss() -> laptime.Training:
    """Its own loss is lower from the first step on."""
    training = base()
    return laptime.Training(
        model=training.model,
        loss=lambda outputs, labels: 0.1 * cross_entropy(outputs, labels),
        optimizer=training.optimizer,
        data=DATA,
    )


def labels_in_the_inputs() -> laptime.Training:
    """Ten of its columns say what is to be found out, so that its own loss falls to 0."""
    training = at_rate(0.01)
    data = [(torch.cat([rows[:, :22], 5 * nn.functional.one_hot(labels, 10)], 1), labels) for rows, labels in DATA]
    return laptime.Training(model=training.model, loss=cross_entropy, optimizer=training.optimizer, data=data)


def four_batches() -> laptime.Training:
    """It learns these by heart."""
    training = at_rate(0.01)
    return laptime.Training(model=training.model, loss=cross_entropy, optimizer=training.optimizer, data=DATA[:4])


def trained_before() -> laptime.Training:
    """It trains before its first step is taken."""
    training = at_rate(0.01)
    for rows, labels in DATA:
        training.optimizer.zero_grad()
        cross_entropy(training.model(rows), labels).backward()
        training.optimizer.step()
    return training


def narrower() -> laptime.Training:
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return laptime.Training(model=model, loss=cross_entropy, optimizer=optimizer, data=DATA)


def seed_of_its_own() -> laptime.Training:
    torch.manual_seed(3)
    return at_rate(0.01)


def raises() -> laptime.Training:
    training = at_rate(0.01)

    def broken(_outputs: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no loss here")

    return laptime.Training(model=training.model, loss=broken, optimizer=training.optimizer, data=DATA)
