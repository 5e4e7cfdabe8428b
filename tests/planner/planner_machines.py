"""Machines as literals, so that a plan can be asked for without having them."""

from __future__ import annotations

from laptime.model.ask import Ask
from laptime.model.machine import Device, Framework, Machine, Processor
from laptime.model.plan import OwnTraining, Plan, Subject
from laptime.model.quantities import Missing
from laptime.model.workload import Workload
from laptime.planner import make_plan
from laptime.planner.settings import settings_on
from laptime.trainings.workloads import CATALOGUE, find_workload

CPU = Device(
    "cpu",
    "cpu",
    "processor",
    usable=True,
    features=("bf16", "fp16", "channels_last", "fused", "compile", "malloc", *settings_on("torch", "cpu")),
)
PLAIN_CPU = Device("cpu", "cpu", "processor", usable=True)
AMPERE = Device(
    "cuda:0",
    "cuda",
    "NVIDIA A100",
    usable=True,
    features=(
        *("fp16", "channels_last", "fused", "graph", "malloc", "tf32", "bf16", "compile", "compiled_graph"),
        *settings_on("torch", "cuda"),
    ),
)
PASCAL = Device(
    "cuda:0", "cuda", "GTX 1080", usable=True, features=("fp16", "channels_last", "fused", "compile", "malloc")
)
BROKEN = Device("cuda:1", "cuda", "NVIDIA A100", usable=False, reason="a small product came out wrong")
NO_CUDA = Device("cuda", "cuda", "-", usable=False, reason="this PyTorch is a build without CUDA")
APPLE = Device("mps", "mps", "Apple GPU", usable=True, features=("fp16", "channels_last"))


def machine_with(*devices: Device, cores: int = 8, usable: int = 6, features: tuple[str, ...] = ()) -> Machine:
    """Return a machine on which PyTorch sees these devices."""
    no_quota = Missing("no processor quota is set")
    processor = Processor("a processor", "x86_64", cores, usable, no_quota, features)
    torch = Framework("torch", "2.13.0", {"torch": "2.13.0"}, devices)
    return Machine(processor, 1 << 34, Missing("no memory limit is set"), "Linux 6.1", "3.11.7", None, (torch,))


def subject_of(workload: Workload) -> Subject:
    return Subject(
        name=workload.name,
        title=workload.title,
        parameters=workload.parameters,
        batch=workload.batch,
        steps_per_lap=workload.steps_per_lap,
        laps=workload.laps,
        items=workload.items,
    )


OWN = Subject("my.py:training", "training of my.py", None, None, None, None, "items", "/my.py", "training")


def plan_for(
    machine: Machine,
    *lanes: str,
    what: str = "cifar-cnn",
    reads_images: bool = True,
    own: OwnTraining | None = None,
    **asked: object,
) -> Plan:
    """Plan a built-in workload, or a user's own where `what` is none."""
    workload = find_workload(what) if what in CATALOGUE else None
    subject = subject_of(workload) if workload else OWN
    return make_plan(Ask(what, lanes, **asked), machine, subject, workload, reads_images=reads_images, own=own)
