"""A sum of losses keeps the graph of every step: it grows, and no list does."""

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for _ in range(6):
    for x, y in DataLoader(Points(8000), batch_size=8, shuffle=True):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss  # the cause
