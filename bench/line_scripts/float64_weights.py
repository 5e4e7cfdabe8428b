"""The weights come from NumPy, whose numbers are float64."""

import numpy as np
import torch
from torch import nn

draw = np.random.default_rng(0)
weights = torch.from_numpy(draw.normal(size=(64, 128)))  # the cause
weights, out = nn.Parameter(weights), None
optimizer = torch.optim.SGD([weights], lr=1e-3)
x = torch.randn(512, 64)
for _ in range(400):
    out = x.to(weights.dtype) @ weights
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
