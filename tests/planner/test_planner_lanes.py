"""Lanes are read as they are written, named as records name them, and refused with the part that is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.model.errors import UsageError
from laptime.model.frameworks import FRAMEWORKS
from laptime.model.process import Lane
from laptime.planner.lanes import name_lane, parse_lane
from laptime.planner.settings import PRESETS

DEVICES = ("cpu", "gpu", "cuda", "cuda:0", "cuda:12", "mps", "xpu:1", "tpu")
CHOICES = (
    ("fp32", "tf32", "bf16", "fp16"),
    ("eager", "compile", "graph", "compiled_graph"),
    ("channels_last",),
    ("fused",),
    ("threads=1", "threads=1000000"),
    ("malloc=keep", "malloc=system"),
    ("input=published", "input=fast", "input=cached", "input=resident", "input=one", "input=copy", "input=only"),
    ("workers=4",),
    ("batch=64", "batch=4x", "batch=0.5x", "batch=1000000"),
    ("denormals=flush", "denormals=keep"),
    ("reads=deferred",),
)


@st.composite
def lanes(draw) -> str:
    """Write any lane that can be written: at most one word of each kind, in any order."""
    words = [draw(st.sampled_from(kind)) for kind in CHOICES if draw(st.booleans())]
    words += [draw(st.sampled_from(PRESETS))] if draw(st.booleans()) else []
    settings_part = "+".join(draw(st.permutations(words)))
    parts = [draw(st.sampled_from([row.name for row in FRAMEWORKS])), draw(st.sampled_from(DEVICES))]
    return "/".join(parts + ([settings_part] if settings_part else []))


@given(lanes())
@settings(deadline=None)
def test_a_lane_is_the_same_after_it_was_named(text):
    """The name under which a lane is in a record is itself a lane, and the same one."""
    lane = parse_lane(text)
    name = name_lane(lane.framework, lane.device, lane.preset, lane.overrides)
    assert lane == parse_lane(name)


@given(lanes())
@settings(deadline=None)
def test_nothing_that_was_written_is_lost(text):
    """Every word of a lane is in its name, only `as-written` may go unsaid."""
    lane = parse_lane(text)
    name = name_lane(lane.framework, lane.device, lane.preset, lane.overrides)
    assert set(text.replace("/", "+").split("+")) - {"as-written"} <= set(name.replace("/", "+").split("+"))


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("torch/cpu+denormals=flush", "torch/cpu/denormals=flush"),
        ("torch/cpu/best/denormals=flush", "torch/cpu/best+denormals=flush"),
        ("cpu+best+fused", "torch/cpu/best+fused"),
        ("cuda:0+cuda:1+bf16", "torch/cuda:0+cuda:1/bf16"),
    ],
)
def test_a_plus_and_a_slash_both_add_a_setting(text, like):
    """What was meant is clear, so nobody has to read the grammar."""
    assert parse_lane(text) == parse_lane(like)


@given(st.text(max_size=30) | st.text("/+=:cpuda0159x", max_size=30).map("fake/cpu/".__add__))
@settings(deadline=None)
def test_any_other_text_is_refused_in_words(text):
    """Whatever is typed is a lane or a usage error that quotes it, never another error."""
    said = answer_to(text)
    assert said == "a lane" or said.startswith(f"lane '{text}': ")


def answer_to(text: str) -> str:
    try:
        assert isinstance(parse_lane(text), Lane)
    except UsageError as error:
        return error.says
    return "a lane"


@pytest.mark.parametrize(
    ("text", "lane"),
    [
        ("cpu", Lane("torch", "cpu")),
        ("torch", Lane("torch", None)),
        ("cuda:1/best", Lane("torch", "cuda:1", "best")),
        ("keras-jax/tpu", Lane("keras-jax", "tpu")),
        ("python/cuda:1", Lane("python", "cuda:1")),
        ("torch/cpu/bf16+threads=1", Lane("torch", "cpu", "as-written", (("precision", "bf16"), ("threads", "1")))),
        ("cpu/batch=4x+best", Lane("torch", "cpu", "best", (("batch", "4x"),))),
    ],
)
def test_a_lane_is_understood(text, lane):
    """Framework, device and settings may each be left out from the left or the right."""
    assert lane == parse_lane(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cpu", "torch/cpu/as-written"),
        ("cpu/as-written", "torch/cpu/as-written"),
        ("cpu/bf16", "torch/cpu/bf16"),
        ("cpu/bf16+fastest", "torch/cpu/fastest+bf16"),
        ("cpu/batch=4x+malloc=keep", "torch/cpu/batch=4x+malloc=keep"),
    ],
)
def test_a_lane_is_named(text, name):
    """The preset comes first, and `as-written` only where nothing else is said."""
    lane = parse_lane(text)
    assert name == name_lane(lane.framework, lane.device, lane.preset, lane.overrides)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (
            "gpu:1",
            "'gpu:1' is neither a framework nor a device; did you mean gpu?",
            "devices: cpu, gpu, cuda, cuda:1, mps, xpu, tpu",
        ),
        ("", "'' is neither a framework nor a device", "frameworks: torch, jax, keras-tf, keras-jax, keras-torch"),
        (
            "pytorch/cpu",
            "'pytorch' is neither a framework nor a device; did you mean torch?",
            "such as torch/cuda:0/bf16+compile",
        ),
        (
            "torch/cuda:x",
            "'cuda:x' is neither a framework nor a device; did you mean cuda:1?",
            "a lane is [framework/]device",
        ),
        ("cpu/best+fastest", "two presets, 'best' and 'fastest'", "name one of them"),
        ("cpu/best+best", "two presets, 'best' and 'best'", "name one of them"),
        ("cpu/bf16+fp32", "precision is set twice, 'bf16' and 'fp32'", "keep one"),
        ("cpu/batch=8+batch=9", "batch is set twice, '8' and '9'", "keep one"),
        ("troch/cpu", "'troch' is neither a framework nor a device; did you mean torch?", "devices: cpu"),
        ("cpu/cached", "'cached' is not a setting; did you mean input=cached?", "settings: as-written"),
        ("cpu/bets", "'bets' is not a setting; did you mean best?", "settings: as-written"),
        ("cpu/turbo", "'turbo' is not a setting", "settings: as-written, best, fastest, tuned, fp32"),
        ("cpu/", "'' is not a setting", "pinning=cores, malloc=keep"),
        ("cpu/turbo=1", "'turbo=1' is not a setting", "batch=N, batch=4x"),
        ("cpu/threads=0", "threads=0 cannot be", "threads takes a whole number from 1 on"),
        ("cpu/threads=-1", "threads=-1 cannot be", "threads takes a whole number from 1 on"),
        ("cpu/threads=1.5", "threads=1.5 cannot be", "threads takes a whole number from 1 on"),
        ("cpu/threads=", "threads= cannot be", "threads takes a whole number from 1 on"),
        (
            "cpu/workers=-1",
            "workers=-1 cannot be",
            "workers takes a whole number, 0 for none besides the training's own process",
        ),
        ("cpu/batch=0", "batch=0 cannot be", "a whole number from 1 to 1,000,000, or a multiple such as 4x"),
        ("cpu/batch=0x", "batch=0x cannot be", "a multiple such as 4x"),
        ("cpu/batch=1000001", "batch=1000001 cannot be", "from 1 to 1,000,000"),
        ("cpu/batch=4xx", "batch=4xx cannot be", "a multiple such as 4x"),
        ("cpu/batch=0.25x", "batch=0.25x cannot be", "a multiple such as 4x; or 0.5x, the half"),
        ("cpu/malloc=give", "malloc=give cannot be", "malloc takes keep"),
        ("cpu/denormals=yes", "denormals=yes cannot be", "denormals takes flush"),
        ("cpu/reads=never", "reads=never cannot be", "reads takes deferred"),
        ("cpu/input=slow", "input=slow cannot be", "input takes published, fast, cached, resident, only"),
    ],
)
def test_a_malformed_lane_names_the_part_and_what_is_allowed(text, says, hint):
    """The error quotes the lane, names the wrong part, and says what may stand there."""
    with pytest.raises(UsageError) as caught:
        parse_lane(text)
    assert f"lane '{text}': {says}" == caught.value.says
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2
