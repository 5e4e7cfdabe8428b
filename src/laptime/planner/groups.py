"""Lanes on several devices: how they are written, which devices they mean, and what they cannot have."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import TENSORFLOW, FrameworkRow
from laptime.model.machine import Device, Machine
from laptime.model.plan import Pace, PlannedLane
from laptime.model.process import DATA_PARALLEL, RANKED, SHARDED, SPLIT, Lane, Settings
from laptime.model.protocol import INFER_BATCHES, InferPace
from laptime.model.quantities import Missing, size
from laptime.model.workload import ProofPlan
from laptime.planner.refusals import LaneFacts

COUNTED_DEVICES = re.compile(r"([1-9][0-9]{0,3})x(gpu|cpu|cuda|mps|xpu|tpu)", re.ASCII)
BETWEEN = "+"
HOW_TO_ASK = "laptime race and laptime scale take it"
XLA_THREADS = 2  # a device, at least
XLA_DEVICES = "--xla_force_host_platform_device_count={}"  # of several such flags, XLA takes the last


def split_group(text: str) -> tuple[str, ...]:
    """Return the devices that a lane names: `2xcuda` are the first two, `cuda:0+cuda:1` these two."""
    counted = COUNTED_DEVICES.fullmatch(text)
    if counted is None:
        return tuple(text.split(BETWEEN))
    count = int(counted[1])
    kind = counted[2]
    if kind in {"cpu", "gpu", "mps"}:  # the same processor each time; which `gpu` is, only the framework knows
        return (kind,) * count
    return tuple(f"{kind}:{number}" for number in range(count))


def is_group(text: str | None) -> bool:
    """Whether a lane is on several devices, or on one that is named as a group of one: `1xcuda`."""
    return text is not None and (BETWEEN in text or COUNTED_DEVICES.fullmatch(text) is not None)


def spread_out(lane: Lane, machine: Machine) -> tuple[int, ...]:
    """Return how many of a lane's devices are on each node of a cluster; nothing if one node has room for all.

    Devices are numbered on each node, so no node gets more than the first one.
    """
    devices = split_group(lane.device or "")
    counted = COUNTED_DEVICES.fullmatch(lane.device or "")
    if not machine.nodes or counted is None or lane.row.spreads != "ranks":
        return ()
    threads = dict(lane.overrides).get("threads", "1")
    left = len(devices)
    counts: list[int] = []
    most = 0
    for room in rooms_of(machine, counted[2], int(threads) if threads.isdecimal() else 1):
        taken = min(left, room, most or room)
        if taken:
            counts.append(taken)
        left -= taken
        most = most or taken
    if left and any(node.ranks is not None for node in machine.nodes):
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
    of_cores = [node.cores // max(1, threads) if kind == "cpu" else node.cards for node in machine.nodes]
    return [of if node.ranks is None else node.ranks for node, of in zip(machine.nodes, of_cores, strict=True)]


def devices_on_nodes(text: str, spread: Sequence[int]) -> tuple[str, ...]:
    """Return the devices of a lane, as each node numbers its own."""
    if not spread:
        return split_group(text)
    return tuple(name for count in spread for name in split_group(f"{count}x{text.partition('x')[2]}"))


def name_group(text: str, devices: tuple[Device, ...]) -> str:
    """Return a group's name, as records have it."""
    counted = COUNTED_DEVICES.fullmatch(text)
    return f"{len(devices)}x{devices[0].kind}" if counted else BETWEEN.join(device.name for device in devices)


def refuse_group(lane: LaneFacts) -> None:
    """Refuse devices that a lane cannot join."""
    devices = lane.devices
    named = lane.group
    if not devices:
        return
    if not lane.row.spreads:
        raise UsageError(
            f"{named}: laptime trains {lane.framework} on one device a lane",
            "name torch, jax, keras-jax or keras-tf, or one device",
        )
    if len({device.kind for device in devices}) > 1:
        raise UsageError(f"{named}: devices of two kinds do not share one step", "name devices of one kind")
    names = [device.name for device in devices]
    if not lane.on_processor and not lane.spread and len(set(names)) < len(names):
        raise UsageError(f"{named}: a device is named twice", "name each once")
    cores = lane.machine.processor.cores_usable
    if lane.on_processor and not lane.spread and len(devices) > cores:
        what = "processes" if lane.row.spreads == "ranks" else "devices"
        raise UsageError(
            f"{named}: {len(devices)} {what} would share {cores} core{'s' * (cores != 1)}",
            f"1xcpu to {cores}xcpu" if cores > 1 else "name one device here",
        )


def split_processor(row: FrameworkRow, devices: tuple[Device, ...], cores: int) -> dict[str, str]:
    """Return the variables with which XLA makes several devices of a processor.

    NPROC is how many threads XLA takes, by default one a core. With fewer than two a device, steps wait for
    ever: on two cores, those of two devices did with three threads and did not with four (JAX 0.10.2).
    """
    if not devices or devices[0].kind != "cpu" or not row.engine.splits_processor:
        return {}
    flags = os.environ.get("XLA_FLAGS", "")
    threads = os.environ.get("NPROC", "")
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
    threads = settings.threads
    cores = lane.machine.processor.cores_usable
    if threads is None or not lane.devices or not lane.on_processor:
        return
    if lane.row.spreads == "ranks" and threads * lane.most_on_a_node > cores:
        raise UsageError(
            f"{lane.group}/threads={threads}: {lane.most_on_a_node} processes of {threads} threads share {cores} cores",
            f"threads={max(1, lane.cores)} or fewer",
        )


def shared_proof(proof: ProofPlan, lanes: Sequence[PlannedLane]) -> ProofPlan:
    """Return the proof with batches that can be shared out to the devices of every lane."""
    whole = lcm(*(max(1, len(lane.devices)) for lane in lanes))
    return replace(proof, batch=-(-proof.batch // whole) * whole)


def refuse_group_for(command: str, lane: PlannedLane) -> None:
    """Refuse a lane on several devices where a question looks at one."""
    if lane.devices:
        raise UsageError(f"laptime {command}: {lane.name} is on several devices", HOW_TO_ASK)


# Whether the heats of a round may be alive at once and take turns, or must run one after another, and why.
#
# And whether there is room for a heat at all.

# A new heat may need somewhat more memory than one of another lane, or than it needed before.
MEMORY_SPARE = 1.2
# One that keeps freed memory: pets-densenet on two Intel cores with PyTorch 2.13 held 11.3 GB so, and else 9.5 at most.
KEPT_MORE = 1.25
# What a process holds on a card that its framework does not count: context, kernels, workspaces of cuBLAS. On an H100
# with PyTorch 2.11 each of three or four held 0.77 to 1.2 GiB so (bench/results/2026-11-27-h100-*.json).
UNCOUNTED_BYTES = round(0.8 * 2**30)
# An estimate may be this much too high: one from shapes, and one on a line through two batches (bench/memory.py).
SHAPES_MAY_BE_OFF = 0.15
LINE_MAY_BE_OFF = 0.3
ONE_PROCESS = {"tpu": "a TPU admits one process"}


def why_alone(ask: Ask, machine: Machine, devices: Sequence[Device]) -> str | None:
    """Return why no two heats of these lanes may be alive at once, or None if they may."""
    if ask.alone:
        return "--alone asks for it"
    if not machine.system.startswith("Linux"):
        return "this system offers no way to stop a training with all that it started"
    for device in devices:
        if device.kind in ONE_PROCESS:
            return ONE_PROCESS[device.kind]
    return None


@dataclass(frozen=True, slots=True)
class Need:
    """The memory that a heat holds, or is expected to need: of the machine, and of its device.

    Of the machine's it holds `memory_bytes` at most, and `waiting_bytes` while it waits for its turn: an allocator may
    give memory back after each step, and fetch it again in the next.
    """

    device: Device
    memory_bytes: int
    waiting_bytes: int
    device_memory_bytes: int | Missing


def expect_need(device: Device, held: Sequence[Need], known_bytes: int | Missing, *, keeps: bool) -> Need:
    """Return what a heat may need: what it held before, or as much as the largest of those that are alive.

    One that `keeps` freed memory holds more than others, and all of it while it waits. Any other holds as large a part
    while it waits as those that are alive.
    """
    beside = [need.device_memory_bytes for need in held if need.device.name == device.name]
    known = [held_bytes for held_bytes in beside if not isinstance(held_bytes, Missing)]
    on_device: int | Missing = max(known) if known else Missing("no heat on this device was seen")
    largest = max(need.memory_bytes for need in held)
    most = known_bytes if not isinstance(known_bytes, Missing) else round(largest * (KEPT_MORE if keeps else 1))
    waiting = 1.0 if keeps else max(need.waiting_bytes / max(need.memory_bytes, 1) for need in held)
    return Need(device, most, round(most * waiting), on_device)


def why_no_room(need: Need, held: Sequence[Need], free_bytes: int | Missing) -> str | None:
    """Return why a heat does not fit next to those that are alive and `held` their memory, or None."""
    # One heat runs at a time: this one, or one of the others while this one waits.
    grows = max((other.memory_bytes - other.waiting_bytes for other in held), default=0)
    wanted = MEMORY_SPARE * max(need.memory_bytes, need.waiting_bytes + grows)
    if not isinstance(free_bytes, Missing) and wanted > free_bytes:
        return f"{wanted / 2**30:.1f} GiB more were needed, and {free_bytes / 2**30:.1f} GiB are free"
    device = need.device
    if device.kind == "cpu" or isinstance(device.memory_bytes, Missing):
        return None
    beside = [other.device_memory_bytes for other in held if other.device.name == device.name]
    if not beside or isinstance(need.device_memory_bytes, Missing):
        return None
    uncounted = UNCOUNTED_BYTES * (1 + len(beside)) if device.kind == "cuda" else 0
    counted = need.device_memory_bytes + sum(held_bytes for held_bytes in beside if not isinstance(held_bytes, Missing))
    wanted = MEMORY_SPARE * (counted + uncounted)
    if wanted > device.memory_bytes:
        return f"{device.name} has {device.memory_bytes / 2**30:.1f} GiB, and together they need {wanted / 2**30:.1f}"
    return None


def room_for(device: Device, free_bytes: int | Missing) -> int | Missing:
    """Return the memory in which a heat that runs alone has to fit: what is free here, or all that a card has."""
    return free_bytes if device.kind == "cpu" else device.memory_bytes


def why_too_large(device: Device, needed_bytes: int, may_be_off: float, free_bytes: int | Missing) -> str | None:
    """Return why a heat surely does not fit, even if its estimate is too high; or None."""
    room = room_for(device, free_bytes)
    if isinstance(room, Missing) or (1 - may_be_off) * needed_bytes <= room:
        return None
    there = "are free" if device.kind == "cpu" else f"are all that {device.name} has"
    return f"it would need about {size(needed_bytes)}, and {size(room)} {there}"


# How many heats to run, and how long each, so that the budget yields the narrowest interval.

HEATS_USUAL = 5
GROUP_HEATS_LEAST = 3
HEATS_MOST = 15
OVERHEAD_S = 4.0  # a first guess for process start, import, build and proof; if it is too low, the race has fewer heats
OVERRUN = 0.25  # of the budget: so much longer the rounds without which there is no interval may take
MEASURE_LEAST_S = 1.2  # its ten windows are long enough to measure what other processes took
MEASURE_MOST_S = 10.0
WINDOWS_A_HEAT = 10
GROUP_WINDOWS_LEAST = 5
TURN_S = 0.25
GROUP_TURNS_LEAST = 4
TURNS_COMPARED = 8  # half of the noise of four turns' ratio is gone, for a fifth more time with the start
TURNS_OVERHEAD_S = 2.5  # a first guess, as OVERHEAD_S: the processes of a round start side by side
FORK_OVERHEAD_S = 0.7  # the same, where heats are forked from a process that has imported their framework
# A further turn of such a heat costs less than a further heat, and shows as much: half the time is timed.
FORK_TURNS = 5
TEMPLATES_S = 3.0  # until these processes have imported it: they start with the scout, which is forked from one
POWER_LEAST_S = 5.0  # energy needs 2 s between the readings of turns, and turns of 0.25 s hold two readings or three
SLACK = 0.97  # share of the budget left: a heat begins its last window before its time is up, and so runs a little over
MOST_OVER = 1.3  # a heat that took more than this multiple of `measure_s` cannot be shortened by a smaller `measure_s`
INFERENCE_PARTS = 1 + len(INFER_BATCHES)  # the single calls, then each batch size
PART_LEAST_S = 0.4
PART_MOST_S = 2.0  # fast calls are measured well enough by then
PATIENCE_PARTS = 3
WINDOWS_A_PART = 10
TURNS_A_PART = 4


def choose_pace(
    ask: Ask, lanes: int, *, takes_turns: bool = False, forks: bool = False, most: int = HEATS_MOST
) -> Pace:
    """Return the pace of a race: each heat gets an equal share of the budget, within limits."""
    if takes_turns:
        if forks:
            asked = replace(ask, budget_s=max(ask.budget_s - TEMPLATES_S, 0.0))
            return _choose_turns(asked, lanes, FORK_OVERHEAD_S, FORK_TURNS, most)
        return _choose_turns(ask, lanes, TURNS_OVERHEAD_S, GROUP_TURNS_LEAST, most)
    share_s = ask.budget_s / max(lanes, 1) / (ask.heats or HEATS_USUAL)
    measure_s = min(max(share_s - OVERHEAD_S, MEASURE_LEAST_S), MEASURE_MOST_S)
    most = ask.heats or (HEATS_USUAL if lanes > 1 else GROUP_HEATS_LEAST)
    if ask.heats is None and share_s > OVERHEAD_S + MEASURE_MOST_S:
        most = min(HEATS_MOST, int(ask.budget_s / lanes / (OVERHEAD_S + MEASURE_MOST_S)))
    return Pace(
        heats_min=min(GROUP_HEATS_LEAST, most),
        heats_max=most,
        adaptive=ask.heats is None and lanes > 1,
        measure_s=measure_s,
        window_s=measure_s / WINDOWS_A_HEAT,
    )


def _choose_turns(ask: Ask, lanes: int, overhead_s: float, turns: int, heats_most: int) -> Pace:
    """Return the pace of heats that take turns: as many rounds as fit, then as many turns.

    Two processes of the same lane differ by more than two turns of the same process.
    """
    least_s = turns * TURN_S
    fitting = int(ask.budget_s / lanes / (overhead_s + least_s))
    most = ask.heats or min(max(fitting, HEATS_USUAL), heats_most)
    spare_s = ask.budget_s / lanes / most - overhead_s if ask.heats or most == heats_most else 0.0
    measure_s = min(max(spare_s, least_s), MEASURE_MOST_S)
    return Pace(
        heats_min=min(GROUP_HEATS_LEAST, most),
        heats_max=most,
        adaptive=ask.heats is None,
        measure_s=measure_s,
        window_s=TURN_S,
        windows_min=turns,
        takes_turns=True,
    )


def shorten_pace(pace: Pace, timed_s: list[float], round_s: float, left_s: float, rounds: int) -> Pace:
    """Shorten the coming heats so that all planned rounds fit into the rest of the budget.

    `timed_s` is how long each heat of the last round was timed; `round_s` is how long that round took, with all its
    overhead. Only times are used, never a ratio, so the choice cannot favour a lane.
    """
    if not any(timed_s) or rounds < 1 or max(timed_s) > MOST_OVER * pace.measure_s:
        return pace
    overhead_s = round_s - sum(timed_s)
    fitting_s = pace.measure_s * (SLACK * left_s / rounds - overhead_s) / sum(timed_s)
    if pace.takes_turns:
        return replace(pace, measure_s=min(max(fitting_s, pace.windows_min * TURN_S), pace.measure_s))
    measure_s = min(max(fitting_s, MEASURE_LEAST_S), pace.measure_s)
    return replace(pace, measure_s=measure_s, window_s=measure_s / WINDOWS_A_HEAT)


def shortest_pace(pace: Pace, *, takes_turns: bool, turns: int = GROUP_TURNS_LEAST, reads_power: bool = False) -> Pace:
    """Return the pace of the shortest heats that show a difference: many of them fit into a budget.

    A heat whose power is read has to last longer.
    """
    measure_s = turns * TURN_S if takes_turns else max(turns * TURN_S, MEASURE_LEAST_S)
    measure_s = max(measure_s, POWER_LEAST_S) if reads_power else measure_s
    shortest = replace(pace, measure_s=measure_s, adaptive=False)
    if not takes_turns:
        return replace(shortest, window_s=measure_s / WINDOWS_A_HEAT)
    return replace(shortest, window_s=TURN_S, windows_min=GROUP_TURNS_LEAST, takes_turns=True)


def confirming_pace(pace: Pace, round_s: float, lanes: int, left_s: float, most: int) -> Pace:
    """Lengthen heats that were short, and took `round_s` a round, for a few sure rounds in the time that is left.

    The few turns of a short heat are noisier than its process. So each is timed for as long as it takes to start, if
    that leaves the usual number of rounds; and longer where the most rounds leave time.
    """
    start_s = max(0.0, round_s - lanes * pace.measure_s)
    fewest_s = (SLACK * left_s / most - start_s) / lanes
    most_s = (SLACK * left_s / HEATS_USUAL - start_s) / lanes
    wanted_s = min(max(start_s / lanes, fewest_s), most_s, MEASURE_MOST_S)
    measure_s = max(pace.measure_s, wanted_s)
    return replace(pace, measure_s=measure_s, window_s=TURN_S if pace.takes_turns else measure_s / WINDOWS_A_HEAT)


def without_turns(pace: Pace) -> Pace:
    """Return the pace of a heat that runs alone, for as long."""
    if not pace.takes_turns:
        return pace
    return replace(pace, takes_turns=False, window_s=pace.measure_s / WINDOWS_A_HEAT, windows_min=GROUP_WINDOWS_LEAST)


def choose_infer_pace(ask: Ask, lanes: int, *, takes_turns: bool = False) -> InferPace:
    """Return the pace of inference: each part of each heat gets an equal share of the budget, within limits."""
    heats = ask.heats or GROUP_HEATS_LEAST
    share_s = max((ask.budget_s / max(lanes, 1) / heats - OVERHEAD_S) / INFERENCE_PARTS, PART_LEAST_S)
    part_s = min(share_s, PART_MOST_S)
    patience_s = max(PATIENCE_PARTS * share_s, PART_MOST_S)
    if takes_turns:
        turn_s = part_s / TURNS_A_PART
        return InferPace(heats, part_s, turn_s, patience_s, windows_min=TURNS_A_PART, takes_turns=True)
    return InferPace(heats, part_s, part_s / WINDOWS_A_PART, patience_s)
