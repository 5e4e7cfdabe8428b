"""Trainings of users whose step asks for more memory than there is, prints, or ends the process.

All but one take steps in NumPy, whatever else a step imports: what is tried is not PyTorch's.
"""

import os
import sys

import numpy as np

import laptime

ROWS = [np.full((4, 8), float(each), np.float32) for each in range(6)]
HUGE = (1 << 20, 1 << 20)


def _training(act):
    """Let a step do something besides, but in a lane that keeps its memory."""

    def step(kernel, rows):
        if "MALLOC_TOP_PAD_" not in os.environ:
            act()
        error = rows @ kernel - rows
        return kernel - 0.001 * rows.T @ error, (error**2).mean()

    return laptime.Training(step=step, state=np.ones((8, 8), np.float32), data=ROWS)


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
    """As in a training of PyTorch's own kind."""
    import torch

    def loss(outputs, targets):
        torch.zeros(HUGE)
        return torch.nn.functional.cross_entropy(outputs, targets)

    model = torch.nn.Linear(8, 3)
    rows = [(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))] * 6
    return laptime.Training(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), rows)


def tensorflow_graph():
    """As within `fit`: the error has a page on where it was."""
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
    """Return what was set before anything was imported."""
    wanted = ("XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH")
    raise RuntimeError(str([os.environ.get(name) for name in wanted]))
