"""What the presets `best` and `fastest` choose on a lane (None: as written), and what `laptime tune` tries."""

from __future__ import annotations

from laptime.planner.facts import LaneFacts

FAST_BF16 = {"avx512_bf16", "amx_bf16", "bf16", "sve_bf16"}


def lowest_precision(lane: LaneFacts) -> str | None:
    """Return a reduced precision that the device has units for. Emulated, it would be coarser and also slower."""
    if lane.subject.gives_step:
        return "tf32" if "tf32" in lane.device.features else None  # the rest is up to the step's code
    if lane.on_processor:
        return "bf16" if FAST_BF16 & set(lane.machine.processor.features) else None
    return next((each for each in ("bf16", "tf32", "fp16") if each in lane.device.features), None)


def fastest_execution(lane: LaneFacts) -> str | None:
    """Return the fastest execution. A graph needs fixed shapes and no synchronization: only built-ins ensure both."""
    on_tensorflow = lane.devices and lane.row.engine.name == "tensorflow"
    if lane.on_processor or lane.subject.gives_step or on_tensorflow:
        return None
    wanted = ("compile",) if lane.workload is None or lane.devices else ("graph", "compile")
    return next((each for each in wanted if each in lane.device.features), None)


def best_layout(lane: LaneFacts) -> str | None:
    may_convolve = lane.subject.may_convolve and not lane.subject.gives_step
    return "channels_last" if may_convolve and "channels_last" in lane.device.features else None


def best_threads(lane: LaneFacts) -> int | None:
    """Return as many threads as there are cores that no other process fills. XLA takes all of them on its own."""
    if not lane.on_processor:
        return None
    return lane.cores if lane.row.engine.sizes_own_threads else lane.free_cores


def best_input(lane: LaneFacts) -> str | None:
    """Return the fastest input. laptime cannot place the batches of a plain function on a device."""
    if lane.subject.reads_files:
        return "fast"
    return None if lane.on_processor or lane.row.is_opaque else "resident"


def precisions_to_try(lane: LaneFacts) -> tuple[str, ...]:
    if lane.on_processor or lane.subject.gives_step:
        lowest = lowest_precision(lane)
        return () if lowest is None else (lowest,)
    return tuple(each for each in ("tf32", "bf16", "fp16") if each in lane.device.features)


def executions_to_try(lane: LaneFacts) -> tuple[str, ...]:
    if lane.subject.gives_step:
        return ()
    return tuple(each for each in ("compile", "graph", "compiled_graph") if each in lane.device.features)


def layouts_to_try(lane: LaneFacts) -> tuple[str, ...]:
    layout = best_layout(lane)
    return () if layout is None else (layout,)


def optimizers_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("fused",) if "fused" in lane.device.features and not lane.subject.gives_step else ()


def dropouts_to_try(lane: LaneFacts) -> tuple[str, ...]:
    can = "dropout" in lane.device.features and lane.subject.may_drop and not lane.subject.gives_step
    return ("fast",) if can else ()


def cudnn_to_try(lane: LaneFacts) -> tuple[str, ...]:
    can = "cudnn" in lane.device.features and lane.subject.may_convolve and not lane.subject.gives_step
    return ("search",) if can else ()


def threads_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return all cores, half of them, a quarter of them, and one; without what the framework takes on its own."""
    cores, usual = lane.cores, lane.device.details.get("threads", "")
    counts = sorted({1, cores // 4 or 1, cores // 2 or 1, cores, lane.free_cores} if lane.on_processor else ())
    return tuple(str(each) for each in counts if str(each) != usual)


def allocators_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("keep",) if lane.on_processor and "malloc" in lane.device.features else ()


def inputs_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return inputs that train on all items, shuffled as written: kept batches are not."""
    best = best_input(lane)
    return () if best is None else (best,)


def augments_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return where our loader may turn images besides where it does so on its own."""
    can = "augment" in lane.device.features and lane.workload is not None and lane.workload.turned
    return (("device" if lane.on_processor else "host"),) if can else ()


def progress_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("off",) if "progress" in lane.device.features else ()


def pinning_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return whether threads may stay on one core each. Where one thread computes, the system moves it rarely."""
    can = "pinning" in lane.device.features and not lane.devices and lane.cores > 1
    return ("cores",) if can else ()


def onednn_to_try(lane: LaneFacts) -> tuple[str, ...]:
    return ("off",) if lane.on_processor and "onednn" in lane.device.features else ()


def prefetches_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return numbers of batches that each worker of a user's own DataLoader prepares; without one, it is 2."""
    own = lane.subject.own
    return ("4", "8") if own is not None and own.has_workers and lane.row.changes_own_steps else ()


def workers_to_try(lane: LaneFacts) -> tuple[str, ...]:
    """Return numbers of workers of a loader that reads files, or of a user's own."""
    if lane.workload is not None and not lane.subject.reads_files:
        return ()
    cores = lane.cores
    return tuple(map(str, sorted({0, cores // 2 or 1, cores, 2 * cores})))
