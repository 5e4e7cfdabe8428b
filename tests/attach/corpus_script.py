"""How a script of the corpus is written down, and what many of them begin with."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import hashlib, os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
X, Y = torch.randn(96, 8), torch.randint(0, 3, (96,))
def net(): return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
def loss_of(model, x, y): return nn.functional.cross_entropy(model(x), y)
def loader(size=8, **more): return DataLoader(TensorDataset(X, Y), batch_size=size, shuffle=True, **more)
def digest(*models):
    bits = b"".join(p.detach().numpy().tobytes() for m in models for p in m.parameters())
    print("digest", hashlib.sha256(bits).hexdigest()[:16], flush=True)
"""
SGD = "model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
STEP = "loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()"
PLAIN = f"""{HEAD}{SGD}
def main():
    for epoch in range(2):
        for x, y in loader():
            {STEP}
    digest(model)
"""
KERAS = """
import hashlib, os, sys
import numpy as np
import keras
keras.utils.set_random_seed(0)
X, Y = np.random.rand(96, 8).astype("float32"), np.random.randint(0, 3, 96)
def net(): return keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])
def compiled(model, **more):
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **more)
    return model
def digest(model):
    bits = b"".join(np.asarray(w).tobytes() for w in model.get_weights())
    print("digest", hashlib.sha256(bits).hexdigest()[:16], flush=True)
"""


@dataclass(frozen=True)
class Script:
    """One script. `{script}` in its command is where it was written, `{folder}` its folder."""

    source: str
    iterations: int | None
    command: tuple[str, ...] = ("python", "{script}")
    counted: str = "optimizer steps"
    processes: int = 1
    needs: tuple[str, ...] = ("torch",)
    environment: tuple[tuple[str, str], ...] = ()
    code: int = 0
    stdin: str = ""
    has_digest: bool = True


def loop(body: str, before: str = SGD, after: str = "digest(model)") -> str:
    return f"{HEAD}{before}\n{body}\n{after}\n"


def guarded(source: str) -> str:
    return f"{source}\nif __name__ == '__main__':\n    main()\n"
