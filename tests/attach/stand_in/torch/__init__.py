"""A stand-in for PyTorch where there is none: the few functions that the agent hooks, with the same names and calls."""

import os

from . import autograd, compiler, optim, utils  # noqa: F401

__version__ = "0.0"
was_set = {}


def manual_seed(seed):
    was_set["seed"] = seed


def set_float32_matmul_precision(precision):
    was_set["matmul"] = precision


def set_flush_denormal(mode):
    was_set["denormals"] = mode
    return True


def get_num_threads():
    return int(os.environ.get("OMP_NUM_THREADS", "2"))


class Tensor:
    """A number that can be learned from."""

    grad_fn = None

    class device:  # noqa: N801
        type = "cpu"

    def __init__(self, value, shape=()):
        self.value, self.shape = value, shape

    def numel(self):
        return 1

    def detach(self):
        return self

    def item(self):
        return self.value

    def backward(self):
        autograd.backward(self)
