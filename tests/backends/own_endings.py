"""Trainings of users whose step asks for more memory than there is, prints, or ends the process."""

import os
import sys

import numpy as np
import torch
from torch import nn

import laptime

ROWS = [(torch.randn(64, 8), torch.zeros(64, dtype=torch.long)) for _ in range(6)]
HUGE = (1 << 20, 1 << 20)


def _training(act):
    """Let a step do something besides, but in a lane that keeps its memory."""

    def loss(outputs, targets):
        if "MALLOC_TOP_PAD_" not in os.environ:
            act()
        return nn.functional.cross_entropy(outputs, targets)

    model = nn.Linear(8, 3)
    return laptime.Training(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), ROWS)


class UnspeakableError(Exception):
    """As where a signal's handler raises while another error is being told."""

    def __str__(self):
        raise RuntimeError("no words for it")


def _raise_unspeakable():
    raise UnspeakableError


def unspeakable():
    return _training(_raise_unspeakable)


def numpy_array():
    return _training(lambda: np.zeros(HUGE))


def torch_tensor():
    return _training(lambda: torch.zeros(HUGE))


def tensorflow_graph():
    """As within `fit`: the error tells a page of where it was."""
    import tensorflow as tf

    product = tf.function(lambda column: tf.matmul(column, column, transpose_b=True))
    return _training(lambda: product(tf.ones((1 << 20, 1))))


def tensorflow_convolution():
    """On a processor its convolutions go on without the memory that they were refused."""
    import tensorflow as tf

    convolve = tf.function(lambda images: tf.nn.conv2d(images, tf.ones((3, 3, 3, 1 << 16)), 1, "SAME"))
    return _training(lambda: convolve(tf.ones((16, 512, 512, 3))))


def jax_array():
    import jax.numpy as jnp

    return _training(lambda: jnp.zeros(HUGE).block_until_ready())


def python_exit():
    return _training(lambda: sys.exit("enough of this"))


def system_exit():
    return _training(lambda: os._exit(9))


def chatter():
    """More than a pipe holds, by Python's stdout and past it."""

    def chat():
        sys.stdout.write("a step that chats " * 10_000)
        sys.stdout.flush()
        os.write(1, b"past Python's stdout\n" * 10_000)

    return _training(chat)


def environment():
    """Tell what was set before anything was imported."""
    wanted = ("XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH")
    raise RuntimeError(str([os.environ.get(name) for name in wanted]))
