"""Cards by script, for causes that a machine without one cannot have: fake lanes with stages, and readings replayed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fake_sensor import FakeSensor, SensorScript, make_script
from laptime import api
from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.engine.run.instruments import make_series
from laptime.model.ask import Ask
from laptime.model.machine import Card, Device
from laptime.model.plan import Pace, Plan, PlannedLane, Subject
from laptime.model.process import ProcessRun, Settings, Timeline, Track
from laptime.model.quantities import Factor, Missing
from laptime.model.questions import find_question
from laptime.model.record import LaneResult, Record
from laptime.model.sample import Heat, Noise, Window
from laptime.model.workload import ProofPlan
from laptime.questions.job import Services, run_question
from laptime.questions.why.answer import explain
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.nouns import Experiment, Trial, Why
from laptime.questions.why.run import prepare_why

NOT_TOLD = Missing("not told")
GB = 1e9
HEATS, WINDOWS, STEPS, HZ = 3, 20, 10, 10.0
STEP_MS = {"cifar-mlp": 20.0, "cifar-cnn": 40.0, "scenes-cnn": 80.0}
CARD = Card(
    uuid="GPU-aaaaaaaa-0000-0000-0000-000000000001", bus="0000:3b:00", name="NVIDIA H100", driver="570.86", cuda="12.8",
    capability="9.0", memory_bytes=80_000_000_000, memory_used_bytes=500_000_000, power_limit_mw=700_000,
    pcie_generation=5, pcie_generation_most=5, pcie_width=16, pcie_width_most=16, sm_clock_most_mhz=1980, mig=False,
    ecc=True, persistence=True, display=False, processes=(), module="nvidia",
)  # fmt: skip

# One fake lane a training: every script is the same but for the length of its step.
SCRIPTS = {
    "copy to the device": "loader_ms = {a}\ncopy_ms = {c}\ncompute_ms = {b}\n",
    "host waits for values": "loader_ms = {a}\ncopy_ms = {a}\ncompute_ms = {c}\nsigns = {{ reads = 2.0 }}\n"
    'gains = {{ "reads=deferred" = 1.8 }}\n',
    "too little work a step": "loader_ms = {a}\ncopy_ms = {a}\ncompute_ms = {c}\nbatch_share = 0.1\n"
    "gains = {{ graph = 2.0 }}\n",
    "poor kernels": "loader_ms = {a}\ncopy_ms = {a}\ncompute_ms = {c}\nbatch_share = 1.0\n"
    "gains = {{ tf32 = 3.0, bf16 = 4.0 }}\n",
    "input pipeline": "loader_ms = {c}\ncopy_ms = {a}\ncompute_ms = {b}\n",
    "": "loader_ms = {a}\ncopy_ms = {a}\ncompute_ms = {c}\nbatch_share = 1.0\n",
}


def script_of(cause: str, training: str) -> str:
    """Return the TOML of a fake card whose step has this cause."""
    step = STEP_MS[training]
    stages = SCRIPTS[cause].format(a=0.01 * step, b=0.5 * step, c=step)
    return f'["fake/*"]\nspread = 0.005\n{stages}'


def with_hidden_card(ask: Ask, services: Services) -> Record:
    """Ask why on this machine as if a card were in it, of which its frameworks know nothing."""
    inquiry = prepare_why(ask, api.look_at_machine())
    return run_question(
        find_question("why"), replace(inquiry, machine=replace(inquiry.machine, cards=(CARD,))), services
    )


@dataclass(frozen=True, slots=True)
class State:
    """What a card's sensor plays, at which seconds steps are slower because of it, and what half a batch gains."""

    figures: dict[str, tuple[float, ...]]
    slow: float = 1.0
    half_batch: float | None = None


STATES = {
    "device memory full": State({"memory_used_bytes": (79 * GB,), "memory_total_bytes": (80 * GB,)}, half_batch=1.6),
    "device shared": State({"foreign_processes": (0.0, 2.0), "foreign_memory_bytes": (0.0, 8 * GB)}, slow=1.6),
    "clocks lowered": State({"clock_reasons": (0.0, 32.0), "sm_clock_mhz": (1900.0, 1200.0)}, slow=1.5),
}
QUIET = {
    "busy_percent": (97.0,),
    "clock_reasons": (1.0,),
    "foreign_processes": (0.0,),
    "memory_used_bytes": (20 * GB,),
    "memory_total_bytes": (80 * GB,),
}
DEVICE = Device("cuda:0", "cuda", "NVIDIA H100", usable=True, memory_bytes=80_000_000_000)


def explain_replay(cause: str, training: str) -> Why:
    """Judge a lane on a card whose sensor plays the state; where it comes and goes, its steps do with it."""
    state, step_ms = STATES[cause], STEP_MS[training]
    base = _lane(step_ms, state, training)
    trials = {}
    if state.half_batch is not None:
        tried = Experiment(
            "half batch", cause, "half the batch", ("batch=0.5x",), "the learning", did="at half the batch"
        )
        half = state.half_batch
        trials["half batch"] = Trial(tried, "torch/cuda:0/batch=0.5x", Factor(half, 0.97 * half, 1.03 * half))
    return explain(WhyFacts(base, api.look_at_machine(), trials, what=training))


def _lane(step_ms: float, state: State, training: str) -> LaneResult:
    planned = PlannedLane("torch/cuda:0/as-written", "torch", DEVICE, Settings())
    subject = Subject(training, "", None, 100, None, None, "items")
    pace = Pace(HEATS, HEATS, adaptive=False, measure_s=2.0, window_s=0.2)
    heats = (_heat(step_ms * (1 + 0.002 * number), number, state) for number in range(HEATS))
    return summarise_lane(
        Plan(Ask(), subject, (planned,), ProofPlan(), pace), planned, tuple(map(summarise_heat, heats)), None
    )


def _heat(step_ms: float, number: int, state: State) -> Heat:
    """Let the state come in the middle of the heat, if it comes and goes."""
    windows, now_ns = [], 0
    for place in range(WINDOWS):
        ns = round(1e6 * step_ms * (state.slow if place >= WINDOWS // 2 else 1.0))
        windows.append(Window(now_ns, now_ns + STEPS * ns, STEPS, (ns,) * STEPS, Noise(0.05, 0.5, 0.0)))
        now_ns += STEPS * ns
    middle_s = windows[WINDOWS // 2].start_ns / 1e9
    line = _replay({**QUIET, **state.figures}, middle_s, now_ns / 1e9)
    process = ProcessRun("torch/cuda:0/as-written", "ok", items_per_step=100, timeline=line)
    return Heat(process, number, number, windows=tuple(windows), first_step_ns=windows[0].step_ns[0])


def _replay(figures: dict[str, tuple[float, ...]], middle_s: float, end_s: float) -> Timeline:
    """Read the shipped fake sensor ten times a second, on a clock of its own."""
    now_ns = 0
    sensor = FakeSensor(_script(figures, middle_s), clock=lambda: now_ns)
    channels = sensor.open(0).channels
    readings = []
    for number in range(int(end_s * HZ) + 1):
        now_ns = round(number / HZ * 1e9)
        readings.append(sensor.read())
    series = tuple(
        make_series(channel, list(values))
        for channel, values in zip(channels, zip(*readings, strict=True), strict=True)
    )
    return Timeline((Track("nvml", 0, (round(1e6 / HZ),) * (len(readings) - 1), series),))


def _script(figures: dict[str, tuple[float, ...]], middle_s: float) -> SensorScript:
    """A figure of two values jumps from one to the other in the middle."""
    at_s = [0.0, middle_s - 1e-6, middle_s]
    return make_script({
        "figures": [
            {"device": CARD.uuid, "name": name, "unit": "", "at_s": at_s if len(shows) > 1 else [0.0],
             "shows": [shows[0], shows[0], shows[1]] if len(shows) > 1 else [shows[0]]}
            for name, shows in figures.items()
        ]
    })  # fmt: skip
