"""A PyDataset of Keras decodes each batch as it is asked for it."""

import hashlib

import keras
from small_keras import compiled, points


class Batches(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.x, self.y = points(1600)

    def __len__(self):
        return len(self.x) // 8

    def __getitem__(self, place):
        part = slice(8 * place, 8 * place + 8)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)  # the cause
        return self.x[part], self.y[part]


compiled().fit(Batches(), epochs=1, verbose=0)
