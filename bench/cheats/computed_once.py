"""Keeps the gradients of its first lap, and copies them in every later one.

Met: tensara-hq/tensara#238, where a result was computed once in warm-up and then copied.
Refused by: a replay of a timed window of a later lap through the base's own code.
"""

from shared import BATCHES, CLASSES, cross_entropy, one_hot, take_step, train_by


def base():
    return train_by(take_step)


def cheat():
    kept = {}

    def step(state, batch):
        place = int(state.count) % BATCHES
        state.count += 1
        if state.count <= BATCHES:
            state, loss = take_step(state, batch)
            kept[place] = [weight.grad.clone() for weight in state.network.parameters()], loss.detach()
            return state, loss
        gradients, loss = kept[place]
        for weight, gradient in zip(state.network.parameters(), gradients, strict=True):
            weight.grad.copy_(gradient)
        state.optimizer.step()
        return state, loss

    return train_by(step)


def honest():
    """Compute once what never changes: the labels as rows of 0 and 1."""
    kept = {}

    def step(state, batch):
        rows, labels = batch
        if id(labels) not in kept:
            kept[id(labels)] = labels, one_hot(labels, CLASSES).to(rows.dtype)
        state.optimizer.zero_grad()
        loss = cross_entropy(state.network(rows), kept[id(labels)][1].to(rows.dtype))
        loss.backward()
        state.optimizer.step()
        return state, loss

    return train_by(step)
