"""The experiments that may tell why a lane is as fast as it is: that lane with a stage alone, or with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from laptime.errors import UsageError
from laptime.model.lane import AS_WRITTEN, Lane
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane, Subject
from laptime.model.why import Experiment
from laptime.model.workload import Workload
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.presets import Given

Family = Literal["torch", "keras", "jax", "python"]
MOST_WORKERS = 8  # for a card; on a processor as many as there are cores, since they compute there too
MOST_STRIDE = 8
FLOAT_BYTES = 4
CEILINGS = ("loader", "copy", "compute")
LEARNING, ARITHMETIC, MEMORY = "the learning", "the arithmetic", "memory"


@dataclass(frozen=True, slots=True)
class Base:
    """The lane that is asked about, and what may be changed of it depends on."""

    lane: Lane
    planned: PlannedLane
    machine: Machine
    subject: Subject
    given: Given

    @property
    def workload(self) -> Workload | None:
        return self.given.workload

    @property
    def family(self) -> Family:
        """Give whose words the lines of code are in; the fake speaks PyTorch's."""
        name = self.planned.framework.split("-", maxsplit=1)[0]
        return next((each for each in get_args(Family) if each == name), "torch")

    @property
    def on_card(self) -> bool:
        return self.planned.device.kind != "cpu"

    @property
    def cores(self) -> int:
        """Give the cores that the container's quota leaves of those that are usable."""
        quota = self.machine.processor.quota_cores
        usable = self.machine.processor.cores_usable
        return usable if isinstance(quota, Missing) else max(1, min(usable, int(quota)))

    @property
    def workers(self) -> int:
        return min(self.cores, MOST_WORKERS)


def list_experiments(base: Base) -> tuple[Experiment, ...]:
    """Give every experiment, those that cannot be run on this lane with the reason."""
    made = (*_ceilings(base), *_inputs(base), *_sizes(base), *_ways(base), *_host(base))
    return tuple(_judged(base, each) for each in made)


def plan_experiment(base: Base, experiment: Experiment) -> PlannedLane:
    """Give the lane of an experiment, or say in words (UsageError) why there is none."""
    lane = parse_lane("/".join((base.lane.framework, base.planned.device.name, "+".join(experiment.settings))))
    preset = lane.preset if lane.preset != AS_WRITTEN else base.lane.preset
    overrides = tuple({**dict(base.lane.overrides), **dict(lane.overrides)}.items())
    wanted = replace(lane, preset=preset, overrides=overrides)
    return plan_lane(wanted, base.machine, base.given)


def _judged(base: Base, experiment: Experiment) -> Experiment:
    """Say why an experiment cannot be run: the lane refuses it in words, or has it already."""
    if experiment.absent is not None:
        return experiment
    try:
        planned = plan_experiment(base, experiment)
    except UsageError as error:
        return replace(experiment, absent=Missing(error.says))
    if planned.settings == base.planned.settings:
        return replace(experiment, absent=Missing(f"the lane has {'+'.join(experiment.settings)} already"))
    return experiment


def _ceilings(base: Base) -> Iterator[Experiment]:
    yield Experiment("loader", "input pipeline", "the loader alone", ("input=only",), is_remedy=False)
    yield Experiment("copy", "copy to the device", "the copy alone", ("input=copy",), is_remedy=False)
    # On a processor decoded batches lie where they are used.
    resident = "input=resident" if base.on_card and base.family != "python" else "input=cached"
    code = "" if not base.on_card else {"torch": "batches = [(x.to(device), y.to(device)) for x, y in loader]",
                                        "jax": "batches = jax.device_put(list(data))"}.get(base.family, "")  # fmt: skip
    says = "keep all batches on the device" if base.on_card else "the training on batches that lie ready"
    yield Experiment("compute", "copy to the device" if base.on_card else "input pipeline", says, (resident,),
                     MEMORY, code or _flag(resident), is_remedy=base.on_card)  # fmt: skip


def _inputs(base: Base) -> Iterator[Experiment]:
    size = _size_of(base.workload)
    memory = f"{size} of {MEMORY}" if size else MEMORY
    limit = size or "4 GB"
    cached = {
        "torch": f'DataLoader(laptime.cached(dataset, memory="{limit}"), ...)',
        "keras": f'model.fit(laptime.cached(sequence, memory="{limit}"), ...)',
    }.get(base.family, f'data = laptime.cached(data, memory="{limit}")')
    yield Experiment("decoded", "input pipeline", "keep decoded items in memory", ("input=cached",), memory, cached)
    workers = {
        "torch": f"DataLoader(..., num_workers={base.workers}, persistent_workers=True)",
        "keras": f"PyDataset(workers={base.workers}, use_multiprocessing=True)",
    }.get(base.family, f"decode in {base.workers} processes of your own")
    by = f"decode in {base.workers} worker processes"
    yield Experiment("workers", "input pipeline", by, (f"workers={base.workers}",), code=workers)
    if base.workload is not None:
        yield Experiment("fast", "input pipeline", "laptime's own loader", ("input=fast",),
                         f"{_size_of(base.workload, 1)} of {MEMORY}", _flag("input=fast"))  # fmt: skip
    known = None if base.workload is None else Missing("a built-in workload has one shape of batch")
    yield Experiment("one", "changing shapes", "give every batch the same shape", ("input=one",), LEARNING,
                     "laptime.same_shapes(batches)", absent=known)  # fmt: skip


def _sizes(base: Base) -> Iterator[Experiment]:
    batch = base.workload.batch if base.workload else None
    for times in (2, 4):
        says = f"batch {batch} -> {times * batch}" if batch else f"a batch of {times} times the items"
        yield Experiment(f"batch {times}x", "too little work a step", says, (f"batch={times}x",), LEARNING,
                         f"batch_size={times * batch}" if batch else f"batch_size={times} * ...")  # fmt: skip
    half = batch // 2 if batch else None
    yield Experiment("half batch", "device memory full", f"batch {batch} -> {half}" if half else "half the batch",
                     ("batch=0.5x",), LEARNING, f"batch_size={half}" if half else "half of batch_size")  # fmt: skip


def _ways(base: Base) -> Iterator[Experiment]:
    little, poor, family = "too little work a step", "poor kernels", base.family
    compile_ = {"torch": "model = torch.compile(model)", "keras": "model.compile(..., jit_compile=True)"}
    yield Experiment("compile", little, "compile the step", ("compile",), code=compile_.get(family, "jax.jit(step)"))
    yield Experiment("graph", little, "one CUDA graph a step", ("graph",), code="torch.cuda.make_graphed_callables")
    stride = f"steps_per_execution={MOST_STRIDE}"
    yield Experiment("strides", little, f"{MOST_STRIDE} steps at once", (stride,), code=f"model.compile(..., {stride})")
    yield Experiment("fused", little, "a fused optimizer", ("fused",), code="Adam(..., fused=True)")
    yield Experiment("layout", poor, "channels last", ("channels_last",),
                     code="model.to(memory_format=torch.channels_last), and the inputs")  # fmt: skip
    yield Experiment("best", poor, "all that keeps the arithmetic and is known to help", ("best",), code=_flag("best"))
    low = {"torch": "torch.autocast(device_type, dtype=torch.bfloat16)",
           "keras": 'keras.config.set_dtype_policy("mixed_bfloat16")'}  # fmt: skip
    yield Experiment("bf16", poor, "compute in bfloat16", ("bf16",), ARITHMETIC, low.get(family, _flag("bf16")))
    yield Experiment("tf32", poor, "compute in TF32", ("tf32",), ARITHMETIC,
                     'torch.set_float32_matmul_precision("high")')  # fmt: skip


def _host(base: Base) -> Iterator[Experiment]:
    threads = f"threads={base.cores}"
    code = {"torch": f"torch.set_num_threads({base.cores})"}.get(base.family, f"OMP_NUM_THREADS={base.cores}")
    says = f"{base.cores} threads" if base.cores > 1 else "one thread"
    yield Experiment("threads", "processor limited", says, (threads,), code=code)
    yield Experiment("one thread", "processor limited", "one thread", ("threads=1",),
                     code=code.replace(str(base.cores), "1"))  # fmt: skip
    yield Experiment("keep", "processor oddities", "keep freed memory in the process", ("malloc=keep",), MEMORY,
                     "laptime.keep_memory()")  # fmt: skip
    yield Experiment("flush", "processor oddities", "take denormal numbers as zero", ("denormals=flush",), ARITHMETIC,
                     "torch.set_flush_denormal(True)")  # fmt: skip
    yield Experiment("deferred", "host waits for values", "read values later", ("reads=deferred",),
                     code="meter = laptime.Deferred(); meter.add(loss)")  # fmt: skip


def _flag(setting: str) -> str:
    return f"laptime race ... {setting}"


def _size_of(workload: Workload | None, number_bytes: int = FLOAT_BYTES) -> str:
    """Give what all decoded items of a built-in workload take in memory, as floats or as bytes."""
    if workload is None:
        return ""
    height, width, channels = workload.image_shape
    size = workload.train_items * height * width * channels * number_bytes
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
