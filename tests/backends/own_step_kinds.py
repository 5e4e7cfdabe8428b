"""Loops in PyTorch that need a step of their own: two optimizers, accumulation, a schedule, a loss scaler, LBFGS."""

import torch
from own_kinds import PAIRS, ROWS, WIDTH, lbfgs, net
from torch import nn
from torch.nn import functional

import laptime


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
    model = net()
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
    model = net()
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
