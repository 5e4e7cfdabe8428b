"""Applies the gradients of the step before again in every other step, from step 60 on.

Met: KernelBench's static checker, for results that are used again. Weights move, versions rise, and the losses of a
slow phase are alike.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, cross_entropy, take_step, train_by


def base():
    return train_by(take_step)


def cheat():
    def step(state, batch):
        state.count += 1
        if state.count <= LATER or state.count % 2 == 0:
            return take_step(state, batch)
        rows, labels = batch
        state.optimizer.step()  # by the gradients that are still there
        return state, cross_entropy(state.network(rows[::8]).detach(), labels[::8])

    return train_by(step)


def honest():
    """Keep the gradients of the step before, to print how far they turned; none is applied twice."""
    kept = {}

    def step(state, batch):
        told = take_step(state, batch)
        gradient = state.network[0].weight.grad
        if "last" in kept and state.count % LATER == 0:
            print(f"turned by {(gradient - kept['last']).norm():.3g}")
        kept["last"] = gradient
        return told

    return train_by(step)
