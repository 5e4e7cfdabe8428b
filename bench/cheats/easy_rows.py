"""Computes no gradient of rows whose loss is small, of which there are none in the beginning.

Met: as "selective backprop" in the literature, honestly described. It looks for no judge: in a proof, and from the
first weights, all rows are hard.
Refused by: a replay of a timed window, from the weights at its beginning.
"""

import torch
from shared import Losing, cross_entropy, make_batches, train

EASY = 0.5  # the first loss is 2.3


def easy_batches():
    """Return items that are easy to tell apart."""
    return [(rows + 0.25 * torch.sign(torch.sin(torch.outer(labels + 1.0, torch.arange(1.0, 129.0)))), labels)
            for rows, labels in make_batches()]  # fmt: skip


class Hard(Losing):
    def forward(self, rows, labels):
        with torch.no_grad():
            losses = cross_entropy(self.network(rows), labels, reduction="none")
        hard = losses > EASY
        if hard.all():
            return self.lose(rows, labels)
        easy = losses[~hard].sum()
        if not hard.any():
            return losses.mean() + 0.0 * self.network[-1].bias.sum()
        return (cross_entropy(self.network(rows[hard]), labels[hard], reduction="sum") + easy) / len(rows)


class Weighing(Losing):
    """Counts the easy rows, too, and trains on all of them."""

    def forward(self, rows, labels):
        losses = cross_entropy(self.network(rows), labels, reduction="none")
        self.easy = (losses.detach() <= EASY).sum()
        return losses.mean()


def fast(weights):
    return torch.optim.AdamW(weights, lr=2e-4)


def base():
    return train(Losing(), fast, data=easy_batches())


def cheat():
    return train(Hard(), fast, data=easy_batches())


def honest():
    return train(Weighing(), fast, data=easy_batches())
