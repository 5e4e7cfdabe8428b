"""A generator makes the batches of Keras's fit, in a loop of plain Python."""

import numpy as np
from small_keras import compiled, points

STEPS = 200


def batches():
    x, y = points(1600)
    while True:
        for first in range(0, len(x), 8):
            text = [ord(letter) for letter in "decode me" * 12_000]  # the cause
            yield x[first : first + 8] * np.float32(max(text) > 0), y[first : first + 8]


compiled().fit(batches(), steps_per_epoch=STEPS, epochs=1, verbose=0)
