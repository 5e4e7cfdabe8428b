"""Keras models of users, sound and unsound, for the tests of Keras lanes."""

import keras
import numpy as np

import laptime

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((192, 8)).astype(np.float32)
CLASSES = ROWS[:, :3].argmax(-1)
BATCHES = [(ROWS[start : start + 32], CLASSES[start : start + 32]) for start in range(0, 192, 32)]
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _model(*more, optimizer="adam", **words):
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.5), *more, keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile(optimizer=optimizer, loss=LOSS, metrics=["accuracy"], **words)
    return model


class Numbered(keras.utils.PyDataset):
    def __len__(self):
        return len(BATCHES)

    def __getitem__(self, index):
        return BATCHES[index]


def arrays():
    return laptime.Training(model=_model(), data=(ROWS, CLASSES), batch=48)


def normed():
    return _model(keras.layers.BatchNormalization()), BATCHES


def odd_at_the_end():
    return laptime.Training(model=_model(), data=(ROWS[:191], CLASSES[:191]), batch=48)


def weighed():
    return _model(), (ROWS, CLASSES, np.linspace(0, 2, 192, dtype=np.float32))


def batches():
    return _model(), BATCHES


def py_dataset():
    return _model(), Numbered()


def two_lengths():
    """Batches of two shapes, in turns."""
    return _model(), [(rows[: 32 - 16 * (number % 2)], classes[: 32 - 16 * (number % 2)])
                      for number, (rows, classes) in enumerate(BATCHES)]  # fmt: skip


def numbered_by_workers():
    """By two threads of Keras's, as its own code says."""
    return _model(), Numbered(workers=2)


def tf_dataset():
    import tensorflow as tf

    return _model(), tf.data.Dataset.from_tensor_slices((ROWS, CLASSES)).batch(32).prefetch(2)


def tf_dataset_repeated():
    import tensorflow as tf

    return laptime.Training(
        model=_model(), data=tf.data.Dataset.from_tensor_slices((ROWS, CLASSES)).repeat().batch(32), steps_per_lap=6
    )


def torch_loader():
    import torch

    pairs = torch.utils.data.TensorDataset(torch.from_numpy(ROWS), torch.from_numpy(CLASSES))
    return _model(), torch.utils.data.DataLoader(pairs, batch_size=32)


def _endless():
    while True:
        yield from BATCHES


def generator():
    return _model(), _endless()


def two_inputs():
    """A functional model with inputs by name, a schedule of rates, an LSTM with dropout and a batch norm."""
    rows, words = keras.Input((8,), name="rows"), keras.Input((4, 2), name="words")
    read = keras.layers.LSTM(5, dropout=0.3)(words)
    joined = keras.layers.BatchNormalization()(keras.layers.Concatenate()([rows, read]))
    model = keras.Model({"rows": rows, "words": words}, keras.layers.Dense(3)(joined))
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.compile(optimizer=keras.optimizers.SGD(rate, momentum=0.9), loss=LOSS)
    return model, ({"rows": ROWS, "words": ROWS.reshape(-1, 4, 2)}, CLASSES)


class Unbuilt(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = [keras.layers.Dense(16, "tanh"), keras.layers.Dense(3)]

    def call(self, rows):
        for layer in self.inner:
            rows = layer(rows)
        return rows


def unbuilt():
    """A model of your own class, whose weights are made by its first batch."""
    model = Unbuilt()
    model.compile(optimizer=keras.optimizers.RMSprop(1e-3), loss=LOSS)
    return model, BATCHES


def four_at_once():
    return _model(steps_per_execution=4), _endless()


def embedded(optimizer="adamw", rate=1e-3, **words):
    """Engines have gradients of their own kind for an embedding."""
    inner = [keras.layers.Embedding(40, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,), dtype="int32"), *inner])
    made = {"adamw": keras.optimizers.AdamW, "rmsprop": keras.optimizers.RMSprop, "sgd": keras.optimizers.SGD}
    model.compile(optimizer=made[optimizer](rate, **words), loss=LOSS)
    return model, [((rows * 10).astype("int32") % 40, classes) for rows, classes in BATCHES]


def decays_twice():
    return embedded(weight_decay=0.008)


def clipped():
    return embedded(clipvalue=1e-3)


def clipped_later():
    return embedded(clipvalue=2e-3)


def slow():
    """So slow that at a hundredth of its rate no weight moves at all."""
    return embedded("sgd", 1e-5)


def slow_by_a_hundredth_more():
    return embedded("sgd", 1.01e-5)


def remembers():
    return embedded("rmsprop")


def remembers_less():
    return embedded("rmsprop", rho=0.89)


def rate_of_a_function():
    return embedded("sgd", lambda: 0.05)


def noisy():
    return _model(keras.layers.GaussianNoise(0.5)), BATCHES


def own_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    return _model(), BATCHES


def own_dtype():
    """One of its layers computes in float32 whatever is asked for."""
    return _model(keras.layers.Dense(16, dtype="float32")), BATCHES


def not_compiled():
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)]), BATCHES


def loss_beside():
    return laptime.Training(model=_model(), loss=LOSS, data=BATCHES)


def not_pairs():
    return _model(), [ROWS, CLASSES]


def empty():
    return _model(), []


def six_of_four():
    return _model(steps_per_execution=4), Numbered()


def _few():
    yield from BATCHES
    yield from BATCHES


def ends_early():
    return _model(), _few()


def _breaking():
    yield from BATCHES
    yield from BATCHES[:2]
    raise ValueError("no such picture")


def raises_at_nine():
    return _model(), _breaking()
