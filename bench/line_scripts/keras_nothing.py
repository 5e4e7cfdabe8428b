"""Nothing is wrong with this training of Keras: its batches are there, and its callback does little."""

import keras
from small_keras import compiled, points


class Watch(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.last = logs["loss"]


def main():
    compiled(8192).fit(*points(64 * 256), batch_size=256, epochs=5, verbose=0, callbacks=[Watch()])


main()
