"""TensorFlow as Keras's engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # its warnings tell what it crashes of
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # else it fills the first card, whatever is needed

import tensorflow as tf

from laptime.backends.cuda import ask_driver, identify_card
from laptime.backends.keras.engines import LACKS, card_features, processor
from laptime.backends.keras.exercises import TensorFlowExercises
from laptime.backends.keras.tensorflow_profiler import TensorFlowProfiler, open_profiler
from laptime.model.machine import Device
from laptime.model.missing import Missing


class TensorFlow:
    marks_are_steps = True

    def versions(self) -> dict[str, str]:
        build = tf.sysconfig.get_build_info()
        cuda = {"cuda": build.get("cuda_version"), "cudnn": build.get("cudnn_version")}
        return {"tensorflow": tf.__version__, **{name: str(version) for name, version in cuda.items() if version}}

    def devices(self) -> tuple[Device, ...]:
        cards = tf.config.list_physical_devices("GPU")
        if cards:
            return (processor(), *(self._card(number, card) for number, card in enumerate(cards)))
        return (processor(), _absent(for_cards=tf.test.is_built_with_gpu_support()))

    def _card(self, number: int, card: Any) -> Device:
        told = tf.config.experimental.get_device_details(card)
        capability = ".".join(map(str, told.get("compute_capability", ())))
        told_apart = {**identify_card(number), **ask_driver()}
        details = {**LACKS, **({"capability": capability} if capability else {}), **told_apart}
        label = told.get("device_name", "a card")
        features = card_features(capability)
        return Device(f"cuda:{number}", "cuda", label, usable=True, features=features, details=details)

    def take_threads(self, threads: int) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)

    def threads(self) -> int | Missing:
        """Nought is what it says where nobody has named a number."""
        told: int = tf.config.threading.get_intra_op_parallelism_threads()
        return told or Missing("TensorFlow takes as many threads as it finds cores")

    def name_device(self, device: str) -> str:
        kind, _, number = device.partition(":")
        return f"{'gpu' if kind == 'cuda' else kind}:{number or 0}"

    def set_precision(self, precision: str) -> None:
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")

    def read_precision(self) -> bool:
        return bool(tf.config.experimental.tensor_float_32_execution_enabled())

    def restore_precision(self, left: Any) -> None:
        tf.config.experimental.enable_tensor_float_32_execution(left)

    def await_model(self, _model: Any) -> None:
        tf.test.experimental.sync_devices()

    def epochs(self, data: dict[str, Any], at_once: int) -> Any:
        from keras.src.backend.tensorflow.trainer import TFEpochIterator

        return TFEpochIterator(tf.distribute.get_strategy(), **data, steps_per_execution=at_once)

    def flush_denormals(self) -> None:
        """Its threads do so unasked."""

    def compiled(self) -> Missing:
        return Missing("TensorFlow keeps no count of what it traces")

    def allow_float64(self) -> None:
        """TensorFlow does so by itself."""

    def profiler(self, device: str, scratch: Path) -> TensorFlowProfiler | Missing:
        return open_profiler(device, scratch)

    def peak_bytes(self, device: str) -> int | Missing:
        if device == "cpu":
            return Missing("the processor's memory is the process's own")
        told = tf.config.experimental.get_memory_info(device.replace("cuda", "GPU"))
        return int(told["peak"])

    def exercises(self, device: Device) -> TensorFlowExercises:
        return TensorFlowExercises(device)


def _absent(*, for_cards: bool) -> Device:
    if not for_cards:
        return Device("cuda", "cuda", "-", usable=False, reason="this TensorFlow is built for processors only")
    build = "ROCm" if tf.test.is_built_with_rocm() else "CUDA"
    why = f"this TensorFlow is built for {build} and finds no card or driver: it computes on the processor"
    return Device("cuda", "cuda", "-", usable=False, reason=why, details={"build": build})


def open_engine() -> TensorFlow:
    return TensorFlow()
