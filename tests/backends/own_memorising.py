"""A script that memorises its four batches, as its author wrote it: nothing here knows of laptime."""

import torch
from torch import nn

WIDE, CLASSES, STEPS = 192, 10, 600

torch.manual_seed(7)
torch.set_num_threads(1)
patterns = torch.randn(CLASSES, WIDE)
labels = [torch.randint(0, CLASSES, (32,)) for _ in range(4)]
batches = [(patterns[each] + torch.randn(32, WIDE), each) for each in labels]
network = nn.Sequential(nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for step in range(STEPS):
    items, labels = batches[step % len(batches)]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(network(items), labels)
    loss.backward()
    optimizer.step()
