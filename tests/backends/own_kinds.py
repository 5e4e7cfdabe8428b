"""Small trainings of the kinds that people have: each is raced as it is, or refused with what to write instead."""

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import laptime

ITEMS, WIDTH, CLASSES = 12, 8, 3
DRAWN = torch.Generator().manual_seed(5)
ROWS = [torch.randn(ITEMS, WIDTH, generator=DRAWN) for _ in range(6)]
LABELS = [torch.randint(0, CLASSES, (ITEMS,), generator=DRAWN) for _ in range(6)]
PAIRS = list(zip(ROWS, LABELS, strict=True))


def net(outputs=CLASSES):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, outputs))


def plain_training(model, data, loss=None, **given):
    return laptime.Training(model, loss, torch.optim.AdamW(model.parameters(), lr=0.01), data, **given)


@dataclass
class Output(OrderedDict):
    """As Hugging Face's ModelOutput: a dict whose values are attributes too."""

    loss: Tensor
    logits: Tensor

    def __post_init__(self):
        self.update(loss=self.loss, logits=self.logits)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        object.__setattr__(self, key, value)

    def __reduce__(self):
        make, _, *rest = super().__reduce__()
        return make, (self.loss, self.logits), *rest


class Scoring(nn.Module):
    """Calls `finish` with its logits and their loss."""

    def __init__(self, finish):
        super().__init__()
        self.net, self.finish = net(), finish

    def forward(self, inputs, labels):
        logits = self.net(inputs)
        return self.finish(functional.cross_entropy(logits, labels), logits)


DICTS = [{"inputs": rows, "labels": labels} for rows, labels in PAIRS]


def dict_and_output():
    return plain_training(Scoring(Output), DICTS)


def dict_and_loss_alone():
    return plain_training(Scoring(lambda loss, _logits: loss), DICTS)


def dict_and_tuple():
    return plain_training(Scoring(lambda loss, logits: (loss, logits)), DICTS)


def dict_and_dict():
    return plain_training(Scoring(lambda loss, logits: {"logits": logits, "loss": loss}), DICTS)


def pair_and_attribute():
    return plain_training(Scoring(lambda loss, logits: SimpleNamespace(loss=loss, logits=logits)), PAIRS)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, rows, mask):
        return SimpleNamespace(logits=self.net(rows * mask))


def _loss_of_logits(outputs, targets):
    return functional.cross_entropy(outputs.logits, targets)


def _masked(make):
    mask = torch.ones(ITEMS, WIDTH)
    return [make(rows, mask, labels) for rows, labels in PAIRS]


def three_and_logits():
    return plain_training(Masked(), _masked(lambda *parts: parts), _loss_of_logits)


class Triple(NamedTuple):
    rows: Tensor
    mask: Tensor
    labels: Tensor


def named_three():
    return plain_training(Masked(), _masked(Triple), _loss_of_logits)


def dict_and_given_loss():
    """Labels are not in the forward: they are for the loss."""

    def loss(outputs, batch):
        return functional.cross_entropy(outputs.logits, batch["labels"])

    return plain_training(
        Masked(), _masked(lambda rows, mask, labels: {"rows": rows, "mask": mask, "labels": labels}), loss
    )


def one_tensor():
    return plain_training(net(WIDTH), ROWS, functional.mse_loss)


def one_in_a_list():
    """As a DataLoader over one tensor gives it."""
    return plain_training(net(WIDTH), DataLoader(TensorDataset(torch.cat(ROWS)), batch_size=ITEMS), functional.mse_loss)


@dataclass
class Held:
    rows: Tensor
    labels: Tensor


class Plain:
    def __init__(self, rows, labels):
        self.rows, self.labels = rows, labels


class Moving(Plain):
    """As a graph of another library: it moves itself."""

    def to(self, device):
        return Moving(self.rows.to(device), self.labels.to(device))


class Reading(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, batch):
        return functional.cross_entropy(self.net(batch.rows), batch.labels)


def one_dataclass():
    return plain_training(Reading(), [Held(*pair) for pair in PAIRS])


def one_object():
    return plain_training(Reading(), [Plain(*pair) for pair in PAIRS])


def one_that_moves():
    return plain_training(Reading(), [Moving(*pair) for pair in PAIRS])


def made_for_each_lap():
    return plain_training(net(), lambda: (pair for pair in PAIRS), functional.cross_entropy)


def made_without_end():
    return plain_training(net(), lambda: itertools.cycle(PAIRS), functional.cross_entropy)


def _by_lbfgs(**words):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, **words)
    return laptime.Training(model, functional.cross_entropy, optimizer, PAIRS)


def lbfgs():
    return _by_lbfgs()


def lbfgs_that_searches():
    return _by_lbfgs(line_search_fn="strong_wolfe")


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 16), nn.Linear(16, CLASSES)

    def forward(self, rows, edges):
        return self.second(torch.relu(edges @ self.first(edges @ rows)))


def _graph(layout):
    edges = (
        (torch.rand(ITEMS, ITEMS, generator=torch.Generator().manual_seed(1)) < 0.3).float().to_sparse(layout=layout)
    )
    return plain_training(Graph(), [(rows, edges, labels) for rows, labels in PAIRS], functional.cross_entropy)


def sparse():
    return _graph(torch.sparse_coo)


def sparse_rows():
    return _graph(torch.sparse_csr)


def weighted_loss():
    return plain_training(net(), PAIRS, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])))


class Halving(torch.optim.Optimizer):
    """An optimizer that cannot be made again from its defaults."""

    def __init__(self, base):
        self.base = base
        super().__init__(base.param_groups, {})
        self.param_groups = base.param_groups

    def step(self, closure=None):
        self.base.step(closure)


def wrapped_optimizer():
    model = net()
    made = lambda weights: Halving(torch.optim.SGD(weights, lr=0.1))  # noqa: E731
    return laptime.Training(model, functional.cross_entropy, made, PAIRS)


def compiled():
    """By a compiler that only traces: what is compiled is no matter here."""
    return plain_training(torch.compile(net(), backend="eager"), PAIRS, functional.cross_entropy)
