"""The loop evaluates after each step, and keeps gradients while it does."""

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

held_x, held_y = torch.randn(5_000, 64), torch.randint(0, 10, (5_000,))


def score(model):
    model.eval()  # the cause
    loss_of(model, held_x, held_y)
    model.train()


model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for x, y in DataLoader(Points(1600), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
        score(model)
