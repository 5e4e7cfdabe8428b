"""A callback predicts a part of the data after each batch."""

import keras
from small_keras import compiled, points

x, y = points(1600)


class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        found = self.model.predict(x[:32], verbose=0)  # the cause
        self.last = found.argmax(axis=1)


compiled().fit(x, y, batch_size=8, epochs=1, verbose=0, callbacks=[Watch()])
