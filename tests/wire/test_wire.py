"""Parent and child understand each other, or say that they do not."""

from __future__ import annotations

import os
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.engine import wire
from laptime.model.errors import WireError
from laptime.model.hardware import HeldMemory, Peak, PeakOrder, StepMemory, StepOperator, StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, OwnBatches, OwnTraining, Pace, PlannedLane, RankPlace, Subject
from laptime.model.process import Settings
from laptime.model.protocol import (
    AnswerReference,
    AnswerRun,
    Evaluation,
    FullOrder,
    InferOrder,
    InferPace,
    LapResult,
    LearningOrder,
    Predictions,
    Protocol,
    Score,
)
from laptime.model.quantities import Missing
from laptime.model.sample import (
    Examination,
    FreshSteps,
    LateStep,
    Noise,
    ProofRun,
    Reference,
    ReplayChance,
    ReplayPart,
    TurnTakenAgain,
    Window,
)
from laptime.model.symptoms import DenormalCensus, Operator, Profile, ProfileOrder, Site, StepSymptoms, TimedPlace
from laptime.model.workload import ProofPlan

RUN = ProofRun("fp32", (2.3, 2.2), 10.0, -1e-8, (0.5, 0.25), 0.125)
DEVICE = Device("cuda:0", "cuda", "a card", usable=True, memory_bytes=1 << 36, features=("bf16",), details={"a": "b"})
ABSENT = Device("cuda", "cuda", "-", usable=False, reason="no driver", memory_bytes=Missing("no driver"))
NOISE = Noise(0.25, Missing("no load here"), 3.5)
LANE = PlannedLane(
    "torch/cpu/threads=2", "torch", DEVICE, Settings(threads=2, batch=7), {"OMP_NUM_THREADS": "2"}, ("n",)
)
SUBJECT = Subject("my.py:f", "f of my.py", None, 100, None, 3, "items", "/ä b/my.py", "f")
ORDER = HeatOrder(
    SUBJECT,
    LANE,
    7,
    ProofPlan(4, 8, 0.001, 1e-4),
    Pace(3, 5, adaptive=True, measure_s=2.0, window_s=0.2),
    3,
    breakdown=True,
)
MEMORY = StepMemory(HeldMemory(4, 8, 0, 1, 9), HeldMemory(4, 8, 4, 1, 2), HeldMemory(4, 8, 0, 1, 5), 512)
SCORE = Score(500, 1.5, Missing("no classes"))
LAP = LapResult(2, 5, 0.5, SCORE, fresh=True, validation=Evaluation(Score(10, 1.25, 0.5, 0.25), 0.125))
WHOLE = FullOrder(ORDER, Protocol(3, None, 1_000, 10_000, 20, 2, 0.7), "/ä b/lane.npz", prove=False)

PROFILE = Profile(
    by="torch.profiler",
    steps=9,
    plain_ms=172.5,
    profiled_ms=181.0,
    operators=(Operator("aten::mm", "device", 4.0, 2.5), Operator("aten::empty", "processor", 40.0, 0.25, -64.0)),
    device_busy=0.5,
    kernels=412.0,
    kernel_mean_us=Missing("no kernel ran"),
    trace=Missing("the disk is full"),
    work=StepWork(9e9, 4e8, "counted"),
    absent={"work": Missing("out of memory")},
    notes=("a note",),
)
ANSWERS = AnswerRun("fp32", (0.5, -0.25), 0.559, 2)

FROM_CHILD = (
    wire.Warmed(),
    wire.Confined(("sending signals",)),
    wire.RanksMeet(RankPlace(2, 4, "10.0.0.5:40001", None, "10.0.0.5:40002")),
    wire.Hello(wire.WIRE_VERSION, os.getpid()),
    wire.Phase("first step", 12_345_678_901_234),
    wire.Built(1_337_002, 100, None, {"torch": "2.13.0"}, ("a note",), {"ä/b.py": "0a"}),
    wire.Proved(RUN),
    wire.FirstStep(300_000_000),
    wire.FirstStep(300_000_000, (2.5, 2.25)),
    wire.Closed(Window(1, 9, 4, (2, 2, 2, 2), NOISE, "other processes took 1.00 cores"), 2.25),
    wire.Closed(Window(1, 9, 4), None),
    wire.Examined(Examination(64, 9, 2, 1)),
    wire.Fresh(FreshSteps(7, 99)),
    wire.Paced(1_810_000_000, 12),
    wire.Signed(
        StepSymptoms(
            9, 1, 2, 3, 4, 5.0, 1.5, (Site("my.py:7", ".item()", 1.5),), 2, 0, 0.25, 300.0, 2, {"denormals": "why"}
        )
    ),
    wire.Signed(StepSymptoms(9, wait_ns=Missing("fit takes its batches itself"))),
    wire.Signed(
        StepSymptoms(9, places=(TimedPlace("train.py:3", "evaluation", 2, 5), TimedPlace(None, "checkpoints", 1, 1)))
    ),
    wire.Between(5_000_000, 20),
    wire.Early((300, 100, 101)),
    wire.Worked(StepWork(1e9, 1e6, "counted", (StepOperator("flash", 1e9, 1e6, 12),), memory=MEMORY)),
    wire.Worked(uncounted="it has no operators"),
    wire.TookLate(LateStep("fp32", 2.3, (0.5, 0.25))),
    wire.TurnShown(),
    wire.TurnShown("ValueError: no"),
    wire.TurnKept(1 << 20),
    wire.TurnKept(reason="ValueError: no"),
    wire.TurnReplayed(
        TurnTakenAgain(
            30, 0.0, True, True, (ReplayPart("weights", 1e-7, 2e-6, 0.01),), (ReplayChance("weights", (0.3,), (0.1,)),)
        )
    ),
    wire.TurnReplayed(None, "it keeps other weights"),
    wire.Counted(DenormalCensus({"weights": 0.5}, ("float32",), True, "compiled", 12)),
    wire.Ready(1 << 30),
    wire.Resumed((LAP, LAP)),
    wire.Stepped(2, 3, 5, 300_000_000, None, 0.5),
    wire.LapDone(LAP),
    wire.Tested(Evaluation(SCORE, 2.5), Predictions(((1, 2), (3, 4)), ((1, 2), (4, 3)))),
    wire.LegTrained(83, 90_000_000),
    wire.ItemsDrawn(1_024, 8, is_held_out=True),
    wire.ItemsDrawn(0, reason="its weights are not seen"),
    wire.LossWeighed(0.25),
    wire.LossWeighed(None, "its 0.weight is (2, 3), the base's (4, 3)"),
    wire.FirstCall(300_000_000, 1),
    wire.Answered(ANSWERS),
    wire.Calls((11_000_000, 11_000_001)),
    wire.BatchDone(256, "out of memory: 64 GiB asked"),
    wire.Profiled(PROFILE),
    wire.Profiled(None, "no profiler sees into it"),
    wire.Proven((RUN, RUN)),
    wire.Noted(("left out 1 of 9 images: a.jpg is only 1x1 pixels",)),
    wire.Finished(1 << 30, Missing("a fake device holds no memory")),
    wire.Failed("build", 'it said:\n"no"', "RuntimeError", Missing("gone")),
    wire.Failed("build", "my.py, line 3, in f: ValueError: no", "own", 1 << 30, "3 | raise ValueError('no')"),
    wire.Counted(DenormalCensus({"weights": 0.0, "gradients": 0.25}, ("float32",), step=17)),
    wire.Seen({"torch": "2.13.0"}, (DEVICE, ABSENT)),
    wire.Inspected(OwnTraining("torch", "list", False, OwnBatches("", 8, 64), False)),
    wire.Referenced(Reference("key", RUN, RUN, 4, 1_337_002, "no float64")),
    wire.AnswersReferenced(AnswerReference(ANSWERS, ANSWERS, 4, "no float64")),
    wire.Rated("fp32", Peak(2.35e11, 2.3e11, "torch 2.13.0", "product of 2,048 rows"), None),
    wire.Rated("fp16", None, "not implemented"),
    wire.Gauged(),
)
FROM_PARENT = (
    wire.Warm("torch"),
    wire.Run(ORDER),
    wire.Train(WHOLE),
    wire.Learn(LearningOrder(ORDER, "/ä b/seed3.npz", 0.083, None, 0.125)),
    wire.Judge(ORDER),
    wire.WeighLoss("/ä b/seed3.npz", are_first=True),
    wire.Infer(InferOrder(ORDER, InferPace(3, 1.2, 0.12, 3.6))),
    wire.Observe(ProfileOrder(ORDER, "/ä b/trace.json.gz", "/tmp/scratch", 5, 0.5)),
    wire.Refer(ORDER),
    wire.Prove(ORDER),
    wire.ReferAnswers(ORDER),
    wire.Gauge(PeakOrder("torch", DEVICE, ("fp32", "bf16"), 8192, 1 << 30)),
    wire.Look("keras-tf"),
    wire.Look("torch", SUBJECT),
    wire.Look("torch", SUBJECT, stays_unused=True),
    wire.TakeTurn(),
    wire.KeepTurn(3),
    wire.ShowTurn(3, "/tmp/turn-1/turn.npz"),
    wire.ReplayTurn(1, "/ä b/turn.npz", "", "8f2a"),
    wire.Again(2),
    wire.Enough(),
    wire.GoOn(),
)


@pytest.mark.parametrize("message", FROM_CHILD, ids=lambda message: type(message).__name__)
def test_what_the_child_says_arrives_as_it_was_said(message):
    """Each message comes back equal, on one line."""
    line = wire.write(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert message == wire.read_from_child(line)


@pytest.mark.parametrize("message", FROM_PARENT, ids=lambda message: type(message).__name__)
def test_what_the_parent_says_arrives_as_it_was_said(message):
    """An order comes back with its subject, lane, settings, proof and pace."""
    line = wire.write(message)
    assert line.count(b"\n") == 1
    assert message == wire.read_from_parent(line)


def test_every_kind_of_message_was_sent():
    """A new message that nobody tests is noticed here."""
    assert set(get_args(wire.FromChild)) == {type(message) for message in FROM_CHILD}
    assert set(get_args(wire.FromParent)) == {type(message) for message in FROM_PARENT}


def test_a_loss_that_is_no_number_travels_as_null():
    """JSON has no NaN, and a message must never be unreadable for it."""
    line = wire.write(wire.Closed(Window(1, 9, 4), float("nan")))
    assert wire.read_from_child(line).loss is None


@pytest.mark.parametrize("message", FROM_PARENT, ids=lambda message: type(message).__name__)
def test_a_child_cannot_speak_as_the_parent(message):
    """The two directions are two languages."""
    with pytest.raises(WireError, match="unreadable message from the child"):
        wire.read_from_child(wire.write(message))


def test_a_child_of_this_version_is_welcome():
    """The version of this wire is accepted."""
    assert wire.check_version(wire.Hello(wire.WIRE_VERSION, 1)) is None


@pytest.mark.parametrize("version", [0, wire.WIRE_VERSION + 1])
def test_a_child_of_another_version_is_refused(version):
    """Its figures may mean something else."""
    with pytest.raises(WireError) as caught:
        wire.check_version(wire.Hello(version, 1))
    assert (
        caught.value.says == f"the child process speaks version {version} of the wire, this laptime {wire.WIRE_VERSION}"
    )
    assert caught.value.hint == "two laptimes are mixed in one environment; install it again"


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"a framework that chats\n",
        b'{"x":' + b"[" * 100_000 + b"\n",
        b"{}\n",
        b'{"type": "Nonsense"}\n',
        b'{"type": "Phase", "name": "build"}\n',
        b'{"type": "Phase", "name": "build", "at_ns": "soon"}\n',
        b'{"type": "Ready"\n',
        b'{"type": "Phase", "name": "\xff\xfe", "at_ns": 1}\n',
    ],
)
def test_a_line_that_is_no_message_is_an_error_that_shows_it(line):
    """The error says who sent it and how it begins."""
    with pytest.raises(WireError, match=r"^unreadable message from the child: .* \(.+\)$"):
        wire.read_from_child(line)


def test_a_long_line_is_shown_by_its_beginning():
    """A megabyte of noise does not fill the screen."""
    with pytest.raises(WireError) as caught:
        wire.read_from_parent(b"x" * 1_000_000)
    assert len(caught.value.says) < 300


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_no_bytes_whatever_raise_anything_else(line):
    """Noise on the pipe is a WireError, so that the parent has one thing to expect."""
    with pytest.raises(WireError):
        wire.read_from_child(line)
