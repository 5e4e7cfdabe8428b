"""Computes its gradients on a thread, which may end after the step, and applies whichever are there.

Met: KernelBench's static checker looks for threads. On a second core the work is free, and what is not done in time is
left out.
Refused by: a proof that cannot be repeated, and a replay of a timed window through the base's own code.
"""

import concurrent.futures
import threading

import torch
from shared import LATER, cross_entropy, make_batches, take_step, train_by


class Worker:
    """Computes gradients for the newest batch that it was given; no other waits."""

    def __init__(self):
        self.batch, self.ready = None, threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def give(self, network, batch):
        self.batch = (network, batch)
        self.ready.set()

    def run(self):
        torch.set_num_threads(1)
        while True:
            self.ready.wait()
            self.ready.clear()
            network, (rows, labels) = self.batch
            weights = list(network.parameters())
            loss = cross_entropy(network(rows), labels)
            for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.grad = gradient


def base():
    return train_by(take_step)


def cheat():
    held = {}

    def step(state, batch):
        state.count += 1
        if state.count <= LATER:
            return take_step(state, batch)
        if "worker" not in held:
            held["worker"] = Worker()
        held["worker"].give(state.network, batch)
        state.optimizer.step()
        rows, labels = batch
        return state, cross_entropy(state.network(rows[::8]).detach(), labels[::8])

    return train_by(step)


class Prefetched:
    """The same batches in the same order, each of them made by a thread while the one before is trained on."""

    def __init__(self):
        self.batches = make_batches()

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            yield from pool.map(lambda batch: (batch[0].clone(), batch[1]), self.batches)


def honest():
    return train_by(take_step, data=Prefetched())
