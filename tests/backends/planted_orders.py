"""Heat orders for tests that open the PyTorch room themselves."""

from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.workload import ProofPlan
from laptime.trainings.workloads import find_workload

PACE = Pace(1, 1, adaptive=False, measure_s=0.2, window_s=0.05)


def lane(settings):
    return PlannedLane("torch/cpu/test", "torch", Device("cpu", "cpu", "processor", usable=True), settings)


def own_order(file, function, settings):
    subject = Subject(function, "", None, None, None, None, "items", file=file, function=function)
    return HeatOrder(subject, lane(settings), 0, ProofPlan(steps=4), PACE)


def built_in_order(name, settings: Settings):
    workload = find_workload(name)
    subject = Subject(name, "", workload.parameters, workload.batch, workload.steps_per_lap, 1, "images")
    return HeatOrder(subject, lane(settings), 0, workload.proof, PACE)
