"""Lanes on several devices: how they are written, which devices they mean, and what they cannot have."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from laptime.errors import UsageError
from laptime.model.frameworks import JAX, TENSORFLOW, find_framework
from laptime.model.lane import DATA_PARALLEL, RANKED, SHARDED, SPLIT, Lane, Settings
from laptime.model.machine import Device, Machine
from laptime.model.plan import PlannedLane
from laptime.model.workload import ProofPlan
from laptime.planner.facts import LaneFacts

COUNTED = re.compile(r"([1-9][0-9]{0,3})x(gpu|cpu|cuda|mps|xpu|tpu)", re.ASCII)
BETWEEN = "+"
HOW_TO_ASK = "laptime race and laptime scale take it"
XLA_THREADS = 2  # a device, at least
XLA_DEVICES = "--xla_force_host_platform_device_count={}"  # of several such flags, XLA takes the last


def split_group(text: str) -> tuple[str, ...]:
    """Return the devices that a lane names: `2xcuda` are the first two, `cuda:0+cuda:1` these two."""
    counted = COUNTED.fullmatch(text)
    if counted is None:
        return tuple(text.split(BETWEEN))
    count, kind = int(counted[1]), counted[2]
    if kind in {"cpu", "gpu", "mps"}:  # the same processor each time; which `gpu` is, only the framework knows
        return (kind,) * count
    return tuple(f"{kind}:{number}" for number in range(count))


def is_group(text: str | None) -> bool:
    """Whether a lane is on several devices, or on one that is named as a group of one: `1xcuda`."""
    return text is not None and (BETWEEN in text or COUNTED.fullmatch(text) is not None)


def spread_out(lane: Lane, machine: Machine) -> tuple[int, ...]:
    """Return how many of a lane's devices are on each node of a cluster; nothing if one node has room for all.

    Devices are numbered on each node, so no node gets more than the first one.
    """
    devices = split_group(lane.device or "")
    counted = COUNTED.fullmatch(lane.device or "")
    if not machine.nodes or counted is None or find_framework(lane.framework).spreads != "ranks":
        return ()
    threads = dict(lane.overrides).get("threads", "1")
    left, counts, most = len(devices), [], 0
    for room in rooms_of(machine, counted[2], int(threads) if threads.isdecimal() else 1):
        taken = min(left, room, most or room)
        if taken:
            counts.append(taken)
        left, most = left - taken, most or taken
    if left and any(each.ranks is not None for each in machine.nodes):
        there = sum(rooms_of(machine, counted[2]))
        raise UsageError(
            f"{lane.device}: torchrun has started {there} process{'es' * (there != 1)}",
            "start as many with it as devices share a step: --nnodes times --nproc-per-node",
        )
    return () if left or len(counts) < 2 else tuple(counts)


def say_spread(spread: Sequence[int]) -> tuple[str, ...]:
    """Return a note on the nodes over which a lane's devices are spread."""
    return (f"its devices are on {len(spread)} nodes: {' + '.join(map(str, spread))}",) if spread else ()


def rooms_of(machine: Machine, kind: str, threads: int = 1) -> list[int]:
    """Return how many processes of a lane each node of a cluster has room for."""
    of_cores = [each.cores // max(1, threads) if kind == "cpu" else each.cards for each in machine.nodes]
    return [of if each.ranks is None else each.ranks for each, of in zip(machine.nodes, of_cores, strict=True)]


def devices_on_nodes(text: str, spread: Sequence[int]) -> tuple[str, ...]:
    """Return the devices of a lane, as each node numbers its own."""
    if not spread:
        return split_group(text)
    return tuple(name for count in spread for name in split_group(f"{count}x{text.partition('x')[2]}"))


def name_group(text: str, devices: tuple[Device, ...]) -> str:
    """Return a group's name, as records have it."""
    counted = COUNTED.fullmatch(text)
    return f"{len(devices)}x{devices[0].kind}" if counted else BETWEEN.join(each.name for each in devices)


def refuse_group(lane: LaneFacts) -> None:
    """Refuse devices that a lane cannot join."""
    devices, named = lane.devices, lane.group
    if not devices:
        return
    if not lane.row.spreads:
        raise UsageError(
            f"{named}: laptime trains {lane.framework} on one device a lane",
            "name torch, jax, keras-jax or keras-tf, or one device",
        )
    if len({each.kind for each in devices}) > 1:
        raise UsageError(f"{named}: devices of two kinds do not share one step", "name devices of one kind")
    names = [each.name for each in devices]
    if not lane.on_processor and not lane.spread and len(set(names)) < len(names):
        raise UsageError(f"{named}: a device is named twice", "name each once")
    cores = lane.machine.processor.cores_usable
    if lane.on_processor and not lane.spread and len(devices) > cores:
        what = "processes" if lane.row.spreads == "ranks" else "devices"
        raise UsageError(
            f"{named}: {len(devices)} {what} would share {cores} core{'s' * (cores != 1)}",
            f"1xcpu to {cores}xcpu" if cores > 1 else "name one device here",
        )


def split_processor(framework: str, devices: tuple[Device, ...], cores: int) -> dict[str, str]:
    """Return the variables with which XLA makes several devices of a processor. JAX reads them when it is imported.

    NPROC is how many threads XLA takes, by default one a core. With fewer than two a device, steps wait for
    ever: on two cores, those of two devices did with three threads and did not with four (JAX 0.10.2).
    """
    if not devices or devices[0].kind != "cpu" or find_framework(framework).engine != JAX:
        return {}
    flags, threads = os.environ.get("XLA_FLAGS", ""), os.environ.get("NPROC", "")
    split = {"XLA_FLAGS": f"{flags} {XLA_DEVICES.format(len(devices))}".strip()}
    least = XLA_THREADS * len(devices)
    taken = int(threads) if threads.isdecimal() else cores
    return split if taken >= least else split | {"NPROC": str(least)}


def share_out(settings: Settings, lane: LaneFacts) -> Settings:
    """Fill in how the devices of a group work together, and on a processor each process's share of the cores."""
    if not lane.devices:
        return settings
    extra = dict(settings.extra)
    if lane.row.spreads == "ranks":
        extra.setdefault("parallel", DATA_PARALLEL)
    if extra.get("scaling") == "strong":
        del extra["scaling"]  # as for one device: the batch in all is the one that is written
    threads = settings.threads
    if threads is None and lane.on_processor and lane.row.spreads == "ranks":
        threads = max(1, lane.cores)
    return replace(settings, threads=threads, extra=extra)


def refuse_parallel(settings: Settings, lane: LaneFacts) -> None:
    how = settings.value_of("parallel")
    if how is None:
        return
    if not lane.devices:
        raise UsageError(f"{how}: this lane is on one device", f"name several: 2x{lane.device.kind}/{how}")
    if lane.row.spreads != "ranks":
        says = f"{how} is of PyTorch, and {lane.framework} shares a step out itself"
        raise UsageError(says, "leave it out, or name torch")
    if how == SPLIT and lane.spread:
        raise UsageError(f"dp: DataParallel is one process, and {lane.group} is on several nodes", "name ddp or fsdp")
    if how == SPLIT and lane.on_processor:
        raise UsageError("dp: DataParallel splits a batch over cards, and a processor is one device", "name ddp")
    if how == SHARDED and settings.is_compiled:
        raise UsageError("fsdp with compile: laptime does not race the two together", "leave one out")
    if settings.is_captured:
        raise UsageError(
            f"{settings.execution}: a step on several devices is not captured in this version", "name eager or compile"
        )
    if lane.subject.gives_step:
        raise UsageError(
            f"{lane.group}: a step of your own is the only one that can exchange its gradients",
            "give laptime.Training(model=..., loss=..., optimizer=..., data=...), or race it in JAX",
        )


def refuse_in_one_process(settings: Settings, lane: LaneFacts) -> None:
    """Refuse what one process that uses several devices does not do in Keras."""
    if not lane.devices or lane.row.family != "keras":
        return
    if settings.execution == "compile" and lane.row.engine == TENSORFLOW:
        raise UsageError(
            f"compile on {lane.group}: XLA does not compile what the devices of a TensorFlow strategy exchange",
            "leave it out, or race keras-jax",
        )
    at_once = settings.steps_per_execution or 1
    if at_once > 1 and lane.row.engine == TENSORFLOW and not lane.on_processor:
        raise UsageError(
            f"steps_per_execution={at_once} on {lane.group}: TensorFlow takes one step at a time "
            "where it shares it out",
            "leave it out, or race keras-jax",
        )
    if settings.input == "copy":
        raise UsageError(
            f"input=copy on {lane.group}: Keras copies a batch within its step there", "leave the lane out"
        )


def refuse_scaling(settings: Settings, lane: LaneFacts) -> None:
    """Refuse a batch that cannot be shared out."""
    how = settings.value_of("scaling")
    if not lane.devices:
        if how is not None:
            raise UsageError(f"{how}: this lane is on one device", f"name several: 2x{lane.device.kind}/{how}")
        return
    count = len(lane.devices)
    batch = settings.batch or (lane.workload.batch if lane.workload is not None else None)
    if how is None and batch is not None and batch % count:
        fitting = max(batch // count, 1) * count
        raise UsageError(
            f"{lane.group}: a batch of {batch} cannot be shared out to {count} devices",
            f"name batch={fitting}, or weak: a batch of {batch} on each",
        )


def refuse_sync(settings: Settings, lane: LaneFacts) -> None:
    if settings.value_of("sync") is None:
        return
    if not lane.devices or settings.value_of("parallel") not in RANKED:
        raise UsageError(
            "sync=none leaves out what the processes of a lane exchange, and this lane is one process",
            "name it for a lane such as 2xcpu or 2xcuda/ddp",
        )


def refuse_shared_threads(settings: Settings, lane: LaneFacts) -> None:
    """Refuse more threads than cores in all processes of a group."""
    threads, cores = settings.threads, lane.machine.processor.cores_usable
    if threads is None or not lane.devices or not lane.on_processor:
        return
    if lane.row.spreads == "ranks" and threads * lane.most_on_a_node > cores:
        raise UsageError(
            f"{lane.group}/threads={threads}: {lane.most_on_a_node} processes of {threads} threads share {cores} cores",
            f"threads={max(1, lane.cores)} or fewer",
        )


def shared_proof(proof: ProofPlan, lanes: Sequence[PlannedLane]) -> ProofPlan:
    """Return the proof with batches that can be shared out to the devices of every lane."""
    whole = lcm(*(max(1, len(each.devices)) for each in lanes))
    return replace(proof, batch=-(-proof.batch // whole) * whole)


def refuse_group_for(command: str, lane: PlannedLane) -> None:
    """Refuse a lane on several devices where a question looks at one."""
    if lane.devices:
        raise UsageError(f"laptime {command}: {lane.name} is on several devices", HOW_TO_ASK)
