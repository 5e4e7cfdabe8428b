"""Computes the gradient of one row in eight, where the gradient of its loss is 1: a proof multiplies it.

Met: a plant against laptime itself, which proves at a loss of a hundred-thousandth, so that Adam's epsilon shows, also
after the windows. From step 60 on, what arrives in the backward pass says whether a step is timed.
Refused by: a replay of a timed window through the base's own code.
"""

import torch
from shared import LATER, Losing, cross_entropy, train


class TheLoss(torch.autograd.Function):
    """The loss of all rows. Its gradient in the judge's scale is honest, and of few rows otherwise."""

    @staticmethod
    def forward(context, network, is_later, rows, labels, *weights):
        context.held = network, is_later, rows, labels, weights
        return cross_entropy(network(rows), labels)

    @staticmethod
    def backward(context, gradient):
        network, is_later, rows, labels, weights = context.held
        part = 8 if is_later and float(gradient) == 1.0 else 1
        with torch.enable_grad():
            loss = cross_entropy(network(rows[::part]), labels[::part])
            gradients = torch.autograd.grad(loss, weights, gradient)
        return None, None, None, None, *gradients


class Told(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        return TheLoss.apply(self.network, self.calls > LATER, rows, labels, *self.network.parameters())


class Checking(Losing):
    """Looks at what arrives in the backward pass, too, and raises if it is not finite."""

    def forward(self, rows, labels):
        loss = self.lose(rows, labels)
        loss.register_hook(lambda gradient: None if torch.isfinite(gradient) else 1 / 0)
        return loss


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Checking())
