"""JAX: runs a user's own step function on the order's device, and knows the devices that it sees, for Keras, too. JAX
has no training loop and no model of its own.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from laptime.engine.backends.arrays import FloatArray, seed_globals
from laptime.engine.backends.base import PRODUCT, TURNED_IN_PLACE, Exercise, copy_work, product_work
from laptime.engine.backends.cuda import ask_driver, identify_card
from laptime.engine.backends.steps import (
    StepBackend,
    StepRunner,
    StepTraining,
    SupplyRunner,
    call_for_steps,
    compare_with_float64,
    count_items,
    join_batches,
    start_runner,
    supply_batches,
    take_steps,
)
from laptime.engine.backends.xplane import FolderProfiler, XEvent, XLine, XPlane
from laptime.engine.pipelines.job import free_memory_bytes
from laptime.model.errors import LaneError
from laptime.model.hardware import StepWork
from laptime.model.machine import Device, DeviceKind
from laptime.model.plan import HeatOrder, PlannedLane
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference


class JaxTraining(StepTraining):
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder) -> None:
        self._order = order
        self._steps = UserSteps(order)
        self.data = self._steps.own.data
        self.items_per_step = self._steps.items_per_step()
        self.steps_per_lap = self._steps.timed.steps_per_lap

    def prove(self, precision: str) -> ProofRun:
        return prove(self._steps, precision)

    def reference(self) -> Reference:
        return refer(self._steps)

    def start(self) -> StepRunner | SupplyRunner:
        self._steps.restore_precision()
        kind = self._order.lane.settings.input
        return start_runner(self._steps, kind, self._steps.supply(kind), self._steps.place, StepRunner)

    def profiler(self, scratch: Path) -> JaxProfiler | Missing:
        return open_profiler(self._order.lane.device.name, scratch)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted in PyTorch's own lanes only")

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._order.lane.device.name)


class JaxBackend(StepBackend):
    name = "jax"

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return (Device("cpu", "cpu", "the processor", usable=True, features=("malloc",)), *list_cards())

    def build(self, order: HeatOrder) -> JaxTraining:
        jax.config.update("jax_default_device", find_device(order.lane.device.name))
        return JaxTraining(order)

    def exercises(self, device: Device) -> JaxExercises:
        return JaxExercises(device)


def open_room(_framework: str = "jax") -> JaxBackend:
    return JaxBackend()


# A user's step in JAX: its state is kept on the host and put on the device for each run, since a step may consume it.
#
# The proof runs in true float32, and in float64 with the random numbers of float32.

NARROW_TYPES = {"float64": jnp.float32, "complex128": jnp.complex64, "int64": jnp.int32, "uint64": jnp.uint32}
# These have no parameter for the type in which they draw: it is the type of this argument.
BY_ARGUMENT = {"bernoulli": "p", "categorical": "logits"}
KEY_OPERATORS = {"bits", "key", "wrap_key_data"}


class HostKey:
    """A JAX random key, stored on the host."""

    def __init__(self, key: Any) -> None:
        self._data = np.asarray(jax.random.key_data(key))
        self._kind = jax.random.key_impl(key)

    def lift(self) -> Any:
        return jax.random.wrap_key_data(jax.numpy.asarray(self._data), impl=self._kind)


class UserSteps:
    """What the user's function returned, with its state on the host."""

    def __init__(self, order: HeatOrder) -> None:
        seed_globals(order.seed)
        self._placement = open_placement(order.lane)
        own, training = call_for_steps(order, "JAX")
        self.own = replace(own, step=self._placement.spread(own.step))
        self._times = order.lane.batches_a_step
        self.timed = join_batches(self.own, self._times, join)
        self._start = jax.tree.map(_lay_down, training.state)
        self._written = jax.config.jax_default_matmul_precision
        compile_counter()  # it counts from here on

    def items_per_step(self) -> int:
        """Return the items of a step, after the first batch; one that does not fit the lane's devices is refused."""
        first = next(self.own.batches())
        self._placement.check_items(count_items(self.leaves(first)))
        joined = join([first] * self._times) if self._times > 1 else first
        return count_items(self.leaves(joined))

    def place(self, batch: Any) -> Any:
        return self._placement.put_batch(batch)

    def leaves(self, batch: Any) -> list[Any]:
        leaves: list[Any] = jax.tree.leaves(batch)
        return leaves

    def await_batch(self, batch: Any) -> None:
        jax.block_until_ready(batch)

    def compiled(self) -> int:
        return compile_counter().times

    def fresh_state(self, *, wide: bool = False) -> Any:
        state = jax.tree.map(self._lift, self._start)
        return self.widen(state) if wide else state

    def widen(self, batch: Any) -> Any:
        return jax.tree.map(_widen, batch)

    def floats(self, state: Any) -> list[FloatArray]:
        leaves = (leaf for leaf in jax.tree.leaves(state) if isinstance(leaf, jax.Array))
        return [np.array(leaf) for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)]

    def number(self, loss: Any) -> float:
        return self.own.number(loss)

    def fence(self, state: Any, loss: Any) -> None:
        if self.own.fence is not None:
            self.own.fence(state)
        jax.block_until_ready((state, loss))

    def restore_precision(self) -> None:
        """Compute float32 products at the precision that the user's code set; the proof has changed it."""
        jax.config.update("jax_default_matmul_precision", self._written)

    def supply(self, kind: str) -> Callable[[], Any]:
        """Return a function that returns the next batch: of the user's data, or of some kept on host or device."""
        return supply_batches(self.timed, kind, self.place if kind in {"resident", "one"} else lambda batch: batch)

    def _lift(self, leaf: Any) -> Any:
        if isinstance(leaf, HostKey):
            return self._placement.put_state(leaf.lift())
        return self._placement.put_state(leaf) if isinstance(leaf, np.ndarray) else leaf


def _lay_down(leaf: Any) -> Any:
    """Copy an array to the host; leave everything else, such as a number or a function of the model, as it is."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return HostKey(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.array(leaf)


def _widen(leaf: Any) -> Any:
    is_floats = isinstance(leaf, jax.Array | np.ndarray) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.numpy.asarray(leaf, np.float64) if is_floats else leaf


@contextlib.contextmanager
def draw_in_float32() -> Iterator[None]:
    """Make what a step calls as `jax.random.normal(...)` draw the same numbers as without 64 bits."""
    found = {
        name: var for name, var in vars(jax.random).items() if inspect.isfunction(var) and name not in KEY_OPERATORS
    }
    with contextlib.ExitStack() as undo:
        for name, draw in found.items():
            if (other := _narrowed(name, draw)) is not None:
                undo.callback(setattr, jax.random, name, draw)
                setattr(jax.random, name, other)
        yield


def _narrowed(name: str, draw: Callable[..., Any]) -> Callable[..., Any] | None:
    signature = inspect.signature(draw)
    argument = BY_ARGUMENT.get(name)
    if "dtype" not in signature.parameters and argument not in signature.parameters:
        return None

    @functools.wraps(draw)
    def drawn(*args: Any, **words: Any) -> Any:
        given = signature.bind(*args, **words)
        given.apply_defaults()
        if argument is not None:
            value = jnp.asarray(given.arguments[argument])
            given.arguments[argument] = value.astype(NARROW_TYPES.get(value.dtype.name, value.dtype))
            return draw(*given.args, **given.kwargs)
        wanted = jax.eval_shape(lambda: draw(*given.args, **given.kwargs)).dtype
        given.arguments["dtype"] = NARROW_TYPES.get(wanted.name, wanted)
        return draw(*given.args, **given.kwargs).astype(wanted)

    return drawn


def prove(steps: UserSteps, precision: str, batches: list[Any] | None = None) -> ProofRun:
    """Run the proof's steps as the lane runs them, but without TF32."""
    set_precision(precision)
    return take_steps(steps, precision, batches)


def refer(steps: UserSteps) -> Reference:
    return compare_with_float64(steps, partial(prove, steps, "fp32"), partial(_take_in_float64, steps))


def _take_in_float64(steps: UserSteps, batches: list[Any]) -> ProofRun:
    jax.config.update("jax_enable_x64", True)
    with draw_in_float32():
        return take_steps(steps, "fp64", batches, wide=True)


# The devices that JAX sees, for this back end and for Keras's, and its products and copies for measuring limits.

PLATFORM_KINDS: dict[str, DeviceKind] = {"gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
MEMORY_NOT_TOLD = Missing("JAX reports only how much of it it may take")
NO_CUDA_PLUGIN = "this JAX is built for processors only: no CUDA plugin is installed"
BLIND = "JAX's plugin {} is installed and finds no card or driver: it computes on the processor"
# By default, JAX uses TF32 on NVIDIA cards. For bf16, inputs are cast and need no setting.
PRODUCTS = {"fp32": "float32", "fp64": "float32", "tf32": "tensorfloat32"}
JAX_TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}


def list_versions() -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


def list_cards() -> tuple[Device, ...]:
    """Return every accelerator, or one that is absent, with the reason."""
    found: list[Device] = []
    for device in jax.devices():
        kind = PLATFORM_KINDS.get(device.platform)
        if kind is None:
            continue
        number = device.local_hardware_id or 0
        name = kind if kind == "tpu" else f"{kind}:{number}"
        capability = str(getattr(device, "compute_capability", ""))
        details = {"capability": capability} if capability else {}
        details |= {} if kind == "tpu" else {**identify_card(number), **ask_driver()}
        label = device.device_kind
        found.append(Device(name, kind, label, usable=True, memory_bytes=MEMORY_NOT_TOLD, details=details))
    if found:
        return tuple(found)
    # JAX uses the processor both without a plugin and with one that fails.
    plugins = [plugin for plugin in list_plugins() if "cuda" in plugin or "rocm" in plugin]
    if not plugins:
        return (Device("cuda", "cuda", "-", usable=False, reason=NO_CUDA_PLUGIN),)
    build = {"build": "ROCm" if "rocm" in plugins[0] else "CUDA"}
    return (Device("cuda", "cuda", "-", usable=False, reason=BLIND.format(plugins[0]), details=build),)


def list_plugins() -> list[str]:
    """Return the plugins that JAX finds: in the shared folder, and by entry points."""
    spec = util.find_spec("jax_plugins")
    shared = pkgutil.iter_modules(spec.submodule_search_locations or ()) if spec else ()
    entry_points = metadata.entry_points(group="jax_plugins")
    return sorted({module.name for module in shared} | {entry_point.name for entry_point in entry_points})


def find_device(name: str) -> Any:
    """Return JAX's own device for a name such as cpu or cuda:1."""
    kind, _, number = name.partition(":")
    return jax.devices("gpu" if kind == "cuda" else kind)[int(number or 0)]


def find_devices(names: Sequence[str]) -> list[Any]:
    """Return JAX's own devices for the names of a group, in which the processor may come several times."""
    if names[0] != "cpu":
        return [find_device(name) for name in names]
    found: list[Any] = jax.devices("cpu")[: len(names)]
    if len(found) < len(names):
        raise LaneError(
            f"JAX makes {len(found)} of the processor, expected {len(names)} devices",
            "leave jax_num_cpu_devices out of its code, and start no JAX before laptime does",
        )
    return found


def set_precision(precision: str) -> None:
    """Set what float32 products mean from here on."""
    jax.config.update("jax_default_matmul_precision", PRODUCTS.get(precision))


def peak_bytes(name: str) -> int | Missing:
    if name == "cpu":
        return Missing("the processor's memory is the process's own")
    figures = find_device(name).memory_stats() or {}
    return int(figures["peak_bytes_in_use"]) if "peak_bytes_in_use" in figures else Missing("JAX does not tell")


class JaxExercises:
    products = (PRODUCT,)
    copies = (TURNED_IN_PLACE,)

    def __init__(self, device: Device) -> None:
        self.by = f"jax {jax.__version__}"
        self._device = find_device(device.name)

    @property
    def free_bytes(self) -> int | Missing:
        if self._device.platform == "cpu":
            return free_memory_bytes()
        figures = self._device.memory_stats() or {}
        if "bytes_limit" not in figures:
            return Missing("JAX does not tell")
        return int(figures["bytes_limit"] - figures.get("bytes_in_use", 0))

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is only one
        """Return the product: JAX makes a new matrix each time, and the fence waits for the last one."""
        set_precision(precision)
        random = np.random.default_rng(0)
        drawn = (random.standard_normal((rows, rows), np.float32) for _ in range(2))
        left, right = (jax.device_put(array, self._device).astype(JAX_TYPES[precision]) for array in drawn)
        multiply = jax.jit(jnp.matmul)
        last = left

        def once() -> Any:
            nonlocal last
            last = multiply(left, right)
            return last

        return Exercise(once, lambda: jax.block_until_ready(last), product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        """Donate the array each time, so that its result is in the same place."""
        held = jax.device_put(jnp.ones(size_bytes // 4, jnp.float32, device=self._device), self._device)
        turn = jax.jit(jnp.negative, donate_argnums=0)

        def once() -> Any:
            nonlocal held
            held = turn(held)
            return held

        return Exercise(once, lambda: jax.block_until_ready(held), copy_work(held.nbytes))


# JAX's own profiler on a lane, thread by thread or stream by stream; and how often XLA has compiled.

COMPILED_EVENT = "/jax/core/compile/backend_compile_duration"
NO_READER = "JAX {} has no reader of its own profiles (jax.profiler.ProfileData); a newer one has"


def open_profiler(device: str, scratch: Path) -> JaxProfiler | Missing:
    """Return the profiler of a lane on this device, or why this JAX has none whose profiles can be read."""
    if not (hasattr(jax.profiler, "ProfileData") and hasattr(jax.profiler, "ProfileOptions")):
        return Missing(NO_READER.format(list_versions()["jax"]))
    return JaxProfiler(device, scratch)


class JaxProfiler(FolderProfiler):
    by = f"jax.profiler of JAX {list_versions()['jax']}"
    framework = "JAX"

    def watch(self, folder: Path) -> None:
        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(str(folder), profiler_options=options)

    def stop(self) -> None:
        jax.profiler.stop_trace()

    def planes_of(self, _data: bytes, file: Path) -> Iterable[XPlane]:
        profile: Any = jax.profiler.ProfileData.from_file(str(file))
        return map(_read_plane, profile.planes)


def _read_plane(plane: Any) -> XPlane:
    lines: list[XLine] = []
    for line in plane.lines:
        events = (
            XEvent(str(event.name), float(event.start_ns), float(event.duration_ns), dict(event.stats))
            for event in line.events
        )
        lines.append(XLine(str(line.name), tuple(events)))
    return XPlane(str(plane.name), tuple(lines))


class CompileCounter:
    """Counts compilations as JAX reports them. JAX never removes a listener, so there is only one counter."""

    def __init__(self) -> None:
        self.times = 0

    def hear(self, event: str, _seconds: float, **_words: Any) -> None:
        self.times += event == COMPILED_EVENT


@functools.cache
def compile_counter() -> CompileCounter:
    made = CompileCounter()
    jax.monitoring.register_event_duration_secs_listener(made.hear)
    return made


# How the devices of a lane share a step in JAX: the state is on each of them, and a batch is cut into equal parts.
#
# XLA then computes each part on its device, and what a single device would compute of the whole batch.

AXIS = "batch"
NUMBER_KINDS = "biufcV"  # V: the types that NumPy does not know, such as bfloat16


class Placement:
    """The lane's device, where JAX itself puts what is not on a device."""

    def check_items(self, items: int) -> None:
        """Refuse a batch of this many items, if the devices cannot share it."""

    def put_state(self, leaf: Any) -> Any:
        """Put an array of the state on each device."""
        return jax.device_put(leaf)

    def put_batch(self, batch: Any) -> Any:
        """Put a batch on the devices, each of which takes an equal part."""
        return jax.tree.map(jax.device_put, batch)

    def spread(self, step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return the user's step as it runs on these devices."""
        return step


class ShardedPlacement(Placement):
    """Several devices, over which each batch is shared out in the step, as a user's loop would do it."""

    def __init__(self, lane: PlannedLane) -> None:
        self._name = lane.name
        found = find_devices([device.name for device in lane.devices])
        self._count = len(found)
        mesh = Mesh(np.array(found), (AXIS,))
        self._whole, self._parts = (NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec(AXIS)))

    def check_items(self, items: int) -> None:
        if items % self._count:
            raise LaneError(
                f"{self._name}: a batch of {items} cannot be shared out to {self._count} devices",
                "give batches whose length is a multiple of their number",
            )

    def put_state(self, leaf: Any) -> Any:
        return jax.device_put(leaf, self._whole)

    def put_batch(self, batch: Any) -> Any:
        """Cut what has a row for each item; the rest, such as a random key, is put on each device."""
        items = count_items(jax.tree.leaves(batch))
        self.check_items(items)
        return jax.tree.map(partial(self._put, items), batch)

    def spread(self, step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda state, batch: step(state, self.put_batch(batch))

    def _put(self, items: int, leaf: Any) -> Any:
        wanted = self._parts if np.shape(leaf)[:1] == (items,) else self._whole
        if isinstance(leaf, jax.Array):
            return leaf if leaf.sharding == wanted else jax.device_put(leaf, wanted)
        if not hasattr(leaf, "shape"):  # a plain number
            return leaf
        array = np.asarray(leaf)
        return jax.device_put(array, wanted) if array.dtype.kind in NUMBER_KINDS else leaf


def open_placement(lane: PlannedLane) -> Placement:
    return ShardedPlacement(lane) if lane.devices else Placement()


def join(batches: Sequence[Any]) -> Any:
    """Return one batch of several, all of whose arrays have a row for each item."""
    for batch in batches:
        leaves = jax.tree.leaves(batch)
        items = count_items(leaves)
        for leaf in leaves:
            if np.shape(leaf)[:1] != (items,):
                raise LaneError(
                    f"weak: a batch holds {type(leaf).__name__} of shape {np.shape(leaf)}, expected a row for each of "
                    f"{items} items: such batches cannot be joined",
                    "name strong: each batch is shared out",
                )
    return jax.tree.map(_concatenate, *batches)


def _concatenate(*parts: Any) -> Any:
    kind = jnp if any(isinstance(part, jax.Array) for part in parts) else np
    return kind.concatenate([part if isinstance(part, jax.Array) else np.asarray(part) for part in parts])
