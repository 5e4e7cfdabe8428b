"""Networks of users for the tests of inference: some take any batch, some only their own."""

import torch
from torch import nn

import laptime

DATA = [(torch.randn(6, 3, 4), torch.zeros(6, dtype=torch.long)) for _ in range(2)]


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(12, 3)

    def forward(self, rows):
        return self.dense(rows.flatten(1))


class Fixed(Plain):
    def forward(self, rows):
        return self.dense(rows.view(6, 12))


class Named(Plain):
    def forward(self, inputs):
        answers = self.dense(inputs["rows"].flatten(1) * inputs["mask"])
        return answers, answers.sum(-1)


class Uneven(Plain):
    def forward(self, inputs):
        return self.dense(inputs[0].flatten(1)) + inputs[1]


class Chancy(Plain):
    def forward(self, rows):
        return nn.functional.dropout(self.dense(rows.flatten(1)), 0.5)


def training(model, data):
    return laptime.Training(model, nn.functional.cross_entropy, torch.optim.Adam(model.parameters()), data)


def plain():
    return training(Plain(), DATA)


def fixed():
    return training(Fixed(), DATA)


def named():
    return training(Named(), [({"rows": rows, "mask": torch.ones(6, 1)}, labels) for rows, labels in DATA])


def uneven():
    return training(Uneven(), [((rows, torch.ones(3)), labels) for rows, labels in DATA])


def chancy():
    return training(Chancy(), DATA)
