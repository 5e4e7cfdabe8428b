"""TensorFlow as Keras's engine: its devices, its products and copies for measuring limits, its profiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep its warnings: they explain a crash
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # else it takes all memory of the first card

import numpy as np
import tensorflow as tf

from laptime.engine.backends.base import PRODUCT, Exercise, product_work
from laptime.engine.backends.cuda import ask_driver, identify_card
from laptime.engine.backends.keras.engines import LACKS, card_features, processor
from laptime.engine.backends.xplane import FolderProfiler, XEvent, XLine, XPlane
from laptime.engine.pipelines.job import free_memory_bytes
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.quantities import Missing

TENSORFLOW_TYPES = {"fp32": tf.float32, "tf32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}
ADDED = "added in place"
WHERE_ITS_FORMAT_IS = (  # versions have moved it
    "tensorflow.tsl.profiler.protobuf.xplane_pb2",
    "tensorflow.core.profiler.protobuf.xplane_pb2",
    "tsl.profiler.protobuf.xplane_pb2",
)
NO_FORMAT = f"TensorFlow {tf.__version__} does not bring the format of its own profiles (xplane_pb2)"


class TensorFlowEngine:
    marks_are_steps = True

    def versions(self) -> dict[str, str]:
        build = tf.sysconfig.get_build_info()
        cuda = {"cuda": build.get("cuda_version"), "cudnn": build.get("cudnn_version")}
        return {"tensorflow": tf.__version__, **{name: str(version) for name, version in cuda.items() if version}}

    def devices(self) -> tuple[Device, ...]:
        found = [processor()]
        for number, card in enumerate(tf.config.list_physical_devices("GPU")):
            known = tf.config.experimental.get_device_details(card)
            capability = ".".join(map(str, known.get("compute_capability", ())))
            identity = {**identify_card(number), **ask_driver()}
            details = {**LACKS, **({"capability": capability} if capability else {}), **identity}
            label = known.get("device_name", "a card")
            features = card_features(capability)
            found.append(Device(f"cuda:{number}", "cuda", label, usable=True, features=features, details=details))
        if len(found) > 1:
            return tuple(found)
        if not tf.test.is_built_with_gpu_support():
            why = "this TensorFlow is built for processors only"
            return (processor(), Device("cuda", "cuda", "-", usable=False, reason=why))
        build = "ROCm" if tf.test.is_built_with_rocm() else "CUDA"
        why = f"this TensorFlow is built for {build} and finds no card or driver: it computes on the processor"
        return (processor(), Device("cuda", "cuda", "-", usable=False, reason=why, details={"build": build}))

    def take_threads(self, threads: int) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)

    def threads(self) -> int | Missing:
        """Return the number that was set; TensorFlow reports 0 where none was."""
        threads: int = tf.config.threading.get_intra_op_parallelism_threads()
        return threads or Missing("TensorFlow takes as many threads as it finds cores")

    def name_device(self, device: str) -> str:
        kind, _, number = device.partition(":")
        return f"{'gpu' if kind == 'cuda' else kind}:{number or 0}"

    def share_out(self, devices: Sequence[str]) -> Mirrored:
        return Mirrored(devices)

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

    def census(self, _model: Any) -> Missing:
        return Missing("TensorFlow treats denormal numbers as 0")

    def flush_denormals(self) -> None:
        """Do nothing: its threads flush them by default."""

    def compiled(self) -> Missing:
        return Missing("TensorFlow keeps no count of what it traces")

    def allow_float64(self) -> None:
        """Do nothing: TensorFlow does so by default."""

    def profiler(self, device: str, scratch: Path) -> TensorFlowProfiler | Missing:
        return open_profiler(device, scratch)

    def peak_bytes(self, device: str) -> int | Missing:
        if device == "cpu":
            return Missing("the processor's memory is the process's own")
        return int(tf.config.experimental.get_memory_info(device.replace("cuda", "GPU"))["peak"])

    def exercises(self, device: Device) -> TensorFlowExercises:
        return TensorFlowExercises(device)


class TensorFlowExercises:
    products = (PRODUCT,)
    copies = (ADDED,)

    def __init__(self, device: Device) -> None:
        self.by = f"tensorflow {tf.__version__}"
        self._place = device.name.replace("cuda", "GPU")

    @property
    def free_bytes(self) -> int | Missing:
        return free_memory_bytes() if self._place == "cpu" else Missing("TensorFlow does not tell")

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is only one
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        with tf.device(self._place):
            left, right = (tf.cast(tf.random.normal((rows, rows)), TENSORFLOW_TYPES[precision]) for _ in range(2))
        return self._again(lambda: tf.linalg.matmul(left, right), product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        """Read two arrays and write one: TensorFlow's plain copies share memory, or allocate new memory each time."""
        with tf.device(self._place):
            added = tf.ones(size_bytes // 4, tf.float32)
            held = tf.Variable(added)
        return self._again(lambda: held.assign_add(added, read_value=False), 3.0 * 4 * (size_bytes // 4))

    def _again(self, compute: Callable[[], Any], work: float) -> Exercise:
        def once() -> Any:
            with tf.device(self._place):
                return compute()

        return Exercise(once, tf.test.experimental.sync_devices, work)


def open_profiler(device: str, scratch: Path) -> TensorFlowProfiler | Missing:
    """Return the profiler of a lane on this device, or why this TensorFlow has none whose profiles can be read."""
    for name in WHERE_ITS_FORMAT_IS:
        try:
            return TensorFlowProfiler(device, scratch, importlib.import_module(name))
        except ImportError:
            continue
    return Missing(NO_FORMAT)


class TensorFlowProfiler(FolderProfiler):
    by = f"tf.profiler of TensorFlow {tf.__version__}"
    framework = "TensorFlow"

    def __init__(self, device: str, scratch: Path, its_format: Any) -> None:
        super().__init__(device, scratch)
        self._format = its_format

    def watch(self, folder: Path) -> None:
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        tf.profiler.experimental.start(str(folder), options=options)

    def stop(self) -> None:
        tf.profiler.experimental.stop()

    def planes_of(self, data: bytes, _file: Path) -> Iterable[XPlane]:
        space: Any = self._format.XSpace()
        space.ParseFromString(data)
        return map(_read_plane, space.planes)


def _read_plane(plane: Any) -> XPlane:
    events = plane.event_metadata
    stats = plane.stat_metadata
    return XPlane(
        str(plane.name),
        tuple(
            XLine(
                str(line.name or line.display_name),
                tuple(
                    XEvent(
                        str(events[event.metadata_id].name),
                        float(line.timestamp_ns) + event.offset_ps / 1e3,
                        event.duration_ps / 1e3,
                        {str(stats[stat.metadata_id].name): _read_fact(stat, stats) for stat in event.stats},
                    )
                    for event in line.events
                ),
            )
            for line in plane.lines
        ),
    )


def _read_fact(stat: Any, names: Any) -> Any:
    """Return a fact: a number, a string, or a string that the fact refers to in the plane's own list."""
    kind = stat.WhichOneof("value")
    if kind is None:
        return ""
    value = getattr(stat, kind)
    return names[value].name if kind == "ref_value" else value


def open_engine() -> TensorFlowEngine:
    return TensorFlowEngine()


# Keras on TensorFlow on several devices: Keras makes and trains a model in the scope of a MirroredStrategy.

BY_PARTS = "its batch norm sees each device's part of a batch alone, and so computes something else than on one device"


class Mirrored:
    """A strategy with all weights on each device. The gradients of the parts of a batch are summed.

    By default, TensorFlow sums them by its collective operators, which fail in its loop over several steps (TensorFlow
    2.21). On a processor the first device sums them instead, which is as fast and has no such limit.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self.several_at_once = devices[0] == "cpu"
        if devices[0] == "cpu":
            # Several devices of the processor, which TensorFlow can make only before it has computed anything.
            count = len(devices)
            whole = tf.config.list_physical_devices("CPU")[0]
            if len(tf.config.get_logical_device_configuration(whole) or ()) != count:
                try:
                    tf.config.set_logical_device_configuration(whole, [tf.config.LogicalDeviceConfiguration()] * count)
                except RuntimeError as error:
                    raise LaneError(f"TensorFlow cannot make {count} devices of the processor: {error}") from error
            names = [f"CPU:{number}" for number in range(count)]
            self._strategy = tf.distribute.MirroredStrategy(names, tf.distribute.ReductionToOneDevice())
        else:
            self._strategy = tf.distribute.MirroredStrategy([device.replace("cuda", "GPU") for device in devices])

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def take(self, model: Any, batch: Sequence[Any]) -> dict[str, Any]:
        """Call `fit` for one step: `train_on_batch` gives each device the whole batch."""
        x, y, weights = (*batch, None, None)[:3]
        items = int(np.shape(tf.nest.flatten(x)[0])[0])
        epochs = model.fit(x, y, sample_weight=weights, batch_size=items, shuffle=False, verbose=0)
        return {name: values[-1] for name, values in epochs.history.items()}

    def problem(self, model: Any) -> str | None:
        from keras.layers import BatchNormalization  # its engine is chosen by now

        flat = model._flatten_layers(recursive=True)  # noqa: SLF001  Keras has no public name for it
        alone = any(isinstance(layer, BatchNormalization) and not layer.synchronized for layer in flat)
        return BY_PARTS if alone else None
