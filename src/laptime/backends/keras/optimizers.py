"""The catalogue's optimizers in Keras, and Adam with its epsilon where PyTorch has it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from laptime.errors import LaneError
from laptime.model.workload import Adam, Workload


class TorchLikeAdam(keras.optimizers.Adam):
    """Adam that adds its epsilon after the bias correction, as PyTorch's does; Keras's own adds it before."""

    epsilon: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        epsilon = self.epsilon
        step = ops.cast(self.iterations + 1, variable.dtype)
        self.epsilon = epsilon * ops.sqrt(1 - ops.power(ops.cast(self.beta_2, variable.dtype), step))
        super().update_step(gradient, variable, learning_rate)
        self.epsilon = epsilon


def make_optimizer(workload: Workload, rate: float) -> Any:
    """Give the optimizer that the workload's authors meant, at `rate` times its learning rate."""
    wanted = workload.optimizer
    if wanted.weight_decay:
        raise LaneError("Keras decays weights apart from the gradient: this workload means another weight decay")
    learning_rate = wanted.learning_rate * rate
    if not isinstance(wanted, Adam):
        return keras.optimizers.SGD(learning_rate)
    kind = keras.optimizers.Adam if wanted.epsilon_placement == "before" else TorchLikeAdam
    return kind(learning_rate, beta_1=wanted.beta1, beta_2=wanted.beta2, epsilon=wanted.epsilon)
