"""The same as replayed_results.py, by memory that processes share, which no folder shows.

Met: gpu-mode/reference-kernels#162.
Refused by: Landlock for /dev/shm and abstract sockets, and a seed of each round.
"""

from pathlib import Path

from shared import Replay, take_step, train_by

SHARED_MEMORY = Path("/dev/shm")


def base():
    return train_by(take_step)


def cheat():
    return train_by(Replay(SHARED_MEMORY / f"laptime-exhibit-{Path(__file__).parts[-3]}").step)


def honest():
    """Use /dev/shm as loaders do, for a moment."""
    place = SHARED_MEMORY / "laptime-exhibit-moment"
    try:
        place.write_bytes(b"\0" * 4096)
        place.unlink()
    except OSError:
        pass
    return train_by(take_step)
