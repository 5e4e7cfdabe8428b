"""The loop reads the weights of the network one by one in each step."""

import torch
from small import Points, loss_of, net
from torch.utils.data import DataLoader

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
largest = 0.0
for _ in range(2):
    for x, y in DataLoader(Points(1600), batch_size=8, shuffle=True):
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        largest = max(largest, *[each.item() for each in model[0].weight[:32].flatten()])  # the cause
