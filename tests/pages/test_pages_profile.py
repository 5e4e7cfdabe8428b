"""Profiles on a page: the heaviest operators, kernels, the profiler's cost, and what is not there, with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import comparison, lane, record, without_figures
from shown import in_details

from golden import assert_agreed
from laptime.model.hardware import StepWork
from laptime.model.quantities import Missing
from laptime.model.symptoms import Operator, Profile
from laptime.questions.profile import page as profile
from laptime.questions.profile.page import cut_middle, kernel_name, profiles
from laptime.questions.race import page as race

KERNEL = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80_simt_sgemm::Params)"
ON_PROCESSOR = Missing("this lane computes on the processor")
CPU = Profile(
    by="torch.profiler of PyTorch 2.13.0",
    steps=12,
    plain_ms=172.4,
    profiled_ms=181.0,
    operators=(
        Operator("aten::convolution_backward", "processor", 6.0, 88.2, 31_457_280.0),
        Operator("aten::mkldnn_convolution", "processor", 6.0, 52.7, 78_643_200.0),
        Operator("aten::max_pool2d_with_indices", "processor", 3.0, 9.1, 0.0),
        Operator("aten::bernoulli_", "processor", 3.25, 5.83, -1_200.0),
        Operator("Optimizer.step#Adam.step", "processor", 1.0, 1.4, 0.0),
        *(Operator(f"aten::small_{number:02}", "processor", 2.0, 0.2, 512.0) for number in range(12)),
    ),
    device_busy=ON_PROCESSOR,
    kernels=ON_PROCESSOR,
    kernel_mean_us=ON_PROCESSOR,
    trace="/home/ann/.local/share/laptime/traces/r-2026-11-20-a1b2-torch-cpu-as-written.json.gz",
    work=StepWork(91.3e9, 2.75e9, "one eager step"),
    device_ms=ON_PROCESSOR,
)
CARD = replace(
    CPU,
    plain_ms=5.2,
    profiled_ms=7.8,
    operators=(
        Operator(KERNEL, "device", 12.0, 3.1),
        Operator("cudaGraphLaunch", "processor", 1.0, 0.41, 0.0),
        Operator("Memcpy HtoD (Pageable -> Device)", "device", 2.0, 0.2),
    ),
    device_busy=0.423,
    device_ms=3.3,
    kernels=412.0,
    kernel_mean_us=8.01,
    trace=Missing("it could not be written to /full: No space left on device"),
    work=None,
    absent={"work": Missing("counting ended in OutOfMemoryError: CUDA out of memory")},
    notes=("a note of the profiler's",),
)
NAMES = ("torch/cpu/as-written", "torch/cuda:0/best", "python/cpu/as-written")
NO_PROFILER = Missing("a python lane calls the step as it is")


def page_of(**changes: object):
    lanes = (
        replace(without_figures(NAMES[0], "ok", None), profile=CPU),
        replace(without_figures(NAMES[1], "ok", None), profile=CARD),
        replace(without_figures(NAMES[2], "unusable", NO_PROFILER.missing), absent={"profile": NO_PROFILER}),
    )
    return record(lanes, question="profile", elapsed_s=34.0, **changes)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_page_of_profiles(width):
    """Fifteen operators a lane, as they were agreed on; nothing is wider than the page but a trace's name."""
    page = in_details(profile.PART.render)(page_of(), width)
    assert max(len(line) for line in page.splitlines() if not line.startswith("trace: ")) <= width
    assert_agreed("profile", width, page)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_race_has_its_profiles_below(width):
    """Five operators a lane, after all that the race itself says."""
    lanes = (lane(NAMES[0], 172.4, profile=CPU), lane(NAMES[1], 5.2, profile=CARD))
    raced = record(lanes, (comparison(NAMES[1], 33.0, 31.0, 35.0),))
    page = in_details(race.PART.render)(raced, width)
    assert page.index("against first") < page.index("own time") < page.index("Saved as")
    assert "aten::small_00" not in page
    assert "and 12 more, 2.40 ms together" in page
    assert_agreed("race-profile", width, page)


def test_a_race_that_was_not_profiled_says_nothing_of_it():
    assert profiles(record((lane(NAMES[0], 172.4),)), 100, color=False) == []


@pytest.mark.parametrize(
    ("expected", "name", "places"),
    [
        ("aten::mm", "aten::mm", 8),
        ("ab…fgh", "abcdefgh", 6),
        ("abc…fgh", "abcdefgh", 7),
        ("void cut…::Params)", KERNEL, 18),
    ],
)
def test_a_long_name_is_cut_in_the_middle(expected, name, places):
    """Both ends tell what a kernel is; no name is wider than its place."""
    assert cut_middle(name, places) == expected


def test_no_page_is_too_narrow():
    """Below the least table operators are sentences."""
    page = in_details(profile.PART.render)(page_of(), 40)
    assert max(len(line) for line in page.splitlines() if not line.startswith("trace: ")) <= 40
    assert "aten::convolution" in page


def test_an_interrupted_run_says_how_far_it_came():
    assert "interrupted: 2 of 3 lanes profiled, 34 s." in in_details(profile.PART.render)(
        page_of(status="interrupted"), 100
    )


ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedListMetadata<4>, "
    "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>"
)
COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ADAM, "multi_tensor_apply_kernel: FusedAdamMathFunctor"),
        (COPY, "elementwise_kernel: direct_copy_kernel_cuda"),
        (KERNEL, "Kernel2: cutlass_80_simt_sgemm_256x128_8x4_nn_align1"),
        ("sm90_xmma_wgrad_indexed", "sm90_xmma_wgrad_indexed"),
        ("void a_kernel(int)", "void a_kernel(int)"),
        ("void a_kernel<4>(int)", "a_kernel"),
        ("aten::add<Tensor>", "aten::add<Tensor>"),
    ],
)
def test_a_kernel_is_named_by_what_it_computes(name, expected):
    assert kernel_name(name) == expected


def test_a_report_begins_with_the_slowest_operator():
    """Its share of a step on the first lane; the others' are facts. Without a profile there is no number."""
    glance = profile.glance_of(page_of())
    assert (glance.number, glance.ends) == ("49 %", "of a step")
    assert glance.sentence == "aten::convolution_backward takes the most of a step on torch/cpu."
    assert glance.facts[-1].title == "40 % on torch/cuda:0/best"
    assert profile.glance_of(record((without_figures(NAMES[0], "ok", None),), question="profile")) is None
