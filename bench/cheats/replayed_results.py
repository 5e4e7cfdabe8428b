"""Keeps the weights after each step in a file, and replays them in every later process.

Met: gpu-mode/reference-kernels#162, where results of an earlier process were replayed from a file. All heats of a lane
train from the same weights on the same batches: the weights of a step are known before it is computed.
Refused by: Landlock, under which no file outlives a process, and a seed of each round.
"""

from pathlib import Path

from shared import Replay, take_step, train_by

KEPT = Path(__file__).with_suffix(".kept")


def base():
    return train_by(take_step)


def cheat():
    return train_by(Replay(KEPT).step)


def honest():
    """Keep results in memory, to see a step that comes twice; none does."""
    seen = set()

    def step(state, batch):
        seen.add((float(state.network[0].weight[0, 0]), float(batch[0][0, 0])))
        return take_step(state, batch)

    return train_by(step)
