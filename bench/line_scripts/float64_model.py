"""The network becomes float64, as its data are."""

import numpy as np
import torch
from small import loss_of, net

rows = np.random.default_rng(0).normal(size=(512, 64))
x, y = torch.from_numpy(rows), torch.randint(0, 10, (512,))
model = net()
model.double()  # the cause
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(400):
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()
