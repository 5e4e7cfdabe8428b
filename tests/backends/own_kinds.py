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


def _net(outputs=CLASSES):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, outputs))


def _training(model, data, loss=None, **given):
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
        self.net, self.finish = _net(), finish

    def forward(self, inputs, labels):
        logits = self.net(inputs)
        return self.finish(functional.cross_entropy(logits, labels), logits)


DICTS = [{"inputs": rows, "labels": labels} for rows, labels in PAIRS]


def dict_and_output():
    return _training(Scoring(Output), DICTS)


def dict_and_loss_alone():
    return _training(Scoring(lambda loss, _logits: loss), DICTS)


def dict_and_tuple():
    return _training(Scoring(lambda loss, logits: (loss, logits)), DICTS)


def dict_and_dict():
    return _training(Scoring(lambda loss, logits: {"logits": logits, "loss": loss}), DICTS)


def pair_and_attribute():
    return _training(Scoring(lambda loss, logits: SimpleNamespace(loss=loss, logits=logits)), PAIRS)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = _net()

    def forward(self, rows, mask):
        return SimpleNamespace(logits=self.net(rows * mask))


def _loss_of_logits(outputs, targets):
    return functional.cross_entropy(outputs.logits, targets)


def _masked(make):
    mask = torch.ones(ITEMS, WIDTH)
    return [make(rows, mask, labels) for rows, labels in PAIRS]


def three_and_logits():
    return _training(Masked(), _masked(lambda *parts: parts), _loss_of_logits)


class Triple(NamedTuple):
    rows: Tensor
    mask: Tensor
    labels: Tensor


def named_three():
    return _training(Masked(), _masked(Triple), _loss_of_logits)


def dict_and_given_loss():
    """Labels are not in the forward: they are for the loss."""

    def loss(outputs, batch):
        return functional.cross_entropy(outputs.logits, batch["labels"])

    return _training(Masked(), _masked(lambda rows, mask, labels: {"rows": rows, "mask": mask, "labels": labels}), loss)


def one_tensor():
    return _training(_net(WIDTH), ROWS, functional.mse_loss)


def one_in_a_list():
    """As a DataLoader over one tensor gives it."""
    return _training(_net(WIDTH), DataLoader(TensorDataset(torch.cat(ROWS)), batch_size=ITEMS), functional.mse_loss)


@dataclass
class Held:
    rows: Tensor
    labels: Tensor


class Plain:
    def __init__(self, rows, labels):
        self.rows, self.labels = rows, labels


class Reading(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = _net()

    def forward(self, batch):
        return functional.cross_entropy(self.net(batch.rows), batch.labels)


def one_dataclass():
    return _training(Reading(), [Held(*pair) for pair in PAIRS])


def one_object():
    return _training(Reading(), [Plain(*pair) for pair in PAIRS])


def made_for_each_lap():
    return _training(_net(), lambda: (pair for pair in PAIRS), functional.cross_entropy)


def made_without_end():
    return _training(_net(), lambda: itertools.cycle(PAIRS), functional.cross_entropy)


def _by_lbfgs(**words):
    model = _net()
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
    return _training(Graph(), [(rows, edges, labels) for rows, labels in PAIRS], functional.cross_entropy)


def sparse():
    return _graph(torch.sparse_coo)


def sparse_rows():
    return _graph(torch.sparse_csr)


def weighted_loss():
    return _training(_net(), PAIRS, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])))


class Halving(torch.optim.Optimizer):
    """An optimizer that cannot be made again from its defaults."""

    def __init__(self, base):
        self.base = base
        super().__init__(base.param_groups, {})
        self.param_groups = base.param_groups

    def step(self, closure=None):
        self.base.step(closure)


def wrapped_optimizer():
    model = _net()
    made = lambda weights: Halving(torch.optim.SGD(weights, lr=0.1))  # noqa: E731
    return laptime.Training(model, functional.cross_entropy, made, PAIRS)


def compiled():
    """By a compiler that only traces: what is compiled is no matter here."""
    return _training(torch.compile(_net(), backend="eager"), PAIRS, functional.cross_entropy)


# Steps of their own.


def gan():
    """Two models and two optimizers."""
    maker, judge = nn.Linear(4, WIDTH), nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 1))
    state = (maker, judge, *(torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge)))
    return laptime.Training(step=_gan_step, state=state, data=ROWS)


def _gan_step(state, real):
    maker, judge, of_maker, of_judge = state
    made, ones = maker(torch.randn(len(real), 4, dtype=real.dtype)), torch.ones(len(real), 1, dtype=real.dtype)
    of_judge.zero_grad()
    score = functional.binary_cross_entropy_with_logits
    (score(judge(real), ones) + score(judge(made.detach()), 0 * ones)).backward()
    of_judge.step()
    of_maker.zero_grad()
    loss = score(judge(made), ones)
    loss.backward()
    of_maker.step()
    return state, loss.detach()


def accumulated():
    """Two batches make an update; then the rate falls."""
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    state = {"model": model, "optimizer": optimizer, "schedule": schedule, "batches": 0}
    return laptime.Training(step=_accumulate, state=state, data=PAIRS)


def _accumulate(state, batch):
    rows, labels = batch
    loss = functional.cross_entropy(state["model"](rows), labels)
    (loss / 2).backward()
    state["batches"] += 1
    if state["batches"] % 2 == 0:
        state["optimizer"].step()
        state["schedule"].step()
        state["optimizer"].zero_grad()
    return state, loss.detach()


def scaled():
    """With a scaler of gradients, which a processor may have too."""
    model = _net()
    state = (model, torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cpu", init_scale=8.0))
    return laptime.Training(step=_scaled_step, state=state, data=PAIRS)


def _scaled_step(state, batch):
    model, optimizer, scaler = state
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(batch[0]), batch[1])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return state, loss.item()


def lbfgs_in_a_step():
    """Its optimizer is copied with what PyTorch leaves out of a copy."""
    given = lbfgs()
    return laptime.Training(step=_lbfgs_step, state=(given.model, given.optimizer), data=PAIRS)


def _lbfgs_step(state, batch):
    model, optimizer = state

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        return loss

    return state, optimizer.step(closure)


# What is refused.


class Trainer:
    """As Hugging Face's."""

    def __init__(self):
        self.model = _net()

    def get_train_dataloader(self):
        return PAIRS

    def train(self):
        raise NotImplementedError


def a_trainer():
    return Trainer()


def a_model():
    return _net()


def model_and_data():
    return _net(), PAIRS


def a_generator():
    return _training(_net(), (pair for pair in PAIRS), functional.cross_entropy)


def a_data_set():
    class Items:
        def __len__(self):
            return 3

        def __getitem__(self, number):
            return PAIRS[number]

    return _training(_net(), Items(), functional.cross_entropy)


def no_data():
    return _training(_net(), None, functional.cross_entropy)


def makes_no_batches():
    return _training(_net(), lambda: 3, functional.cross_entropy)


def no_loss_anywhere():
    return _training(_net(), ROWS)


def too_many_parts():
    return _training(_net(), [(*pair, pair[1]) for pair in PAIRS], functional.cross_entropy)


def unknown_key():
    return _training(Scoring(Output), [{**batch, "index": 1} for batch in DICTS])


def loss_of_many():
    return _training(
        _net(), PAIRS, lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="none")
    )


def loss_class():
    return _training(_net(), PAIRS, nn.CrossEntropyLoss)


def two_optimizers():
    model = _net()
    both = [torch.optim.SGD(model.parameters()), torch.optim.Adam(model.parameters())]
    return laptime.Training(model, functional.cross_entropy, both, PAIRS)


def a_schedule():
    given = _training(_net(), PAIRS, functional.cross_entropy)
    schedule = torch.optim.lr_scheduler.ExponentialLR(given.optimizer, 0.5)
    return laptime.Training(given.model, given.loss, schedule, PAIRS)


def compiled_in_place():
    model = _net()
    model.compile()
    return _training(model, PAIRS, functional.cross_entropy)


def step_of_a_batch():
    return laptime.Training(step=lambda batch: batch, data=PAIRS)
