"""What allocators say when they refuse, in their own words, and the sentence that is kept of it."""

from __future__ import annotations

import pytest

from laptime.model.symptoms import find_refusal, is_memory_error, refusal_words

GRAPH = """\
Graph execution error:

Detected at node StatefulPartitionedCall/sequential_1/dense_1/Tensordot/MatMul defined at (most recent call last):
<stack traces unavailable>
OOM when allocating tensor with shape[262144,1048576] and type float on /job:localhost/replica:0/task:0/device:CPU:0 \
by allocator mklcpu
\t [[{{node StatefulPartitionedCall/sequential_1/dense_1/Tensordot/MatMul}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to \
RunOptions for current allocation info. This isn't available when running in Eager mode.
 [Op:__inference_multi_step_on_iterator_264]"""
LOG = """\
W0000 00:00:1795211182.872630   32176 bfc_allocator.cc:502] Allocator (mklcpu) ran out of memory trying to allocate \
240.25GiB (rounded to 257966473216)requested by op StatefulPartitionedCall/sequential_1/conv2d_1/BiasAdd
Current allocation summary follows.
W0000 00:00:1795211182.872902   32176 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 : RESOURCE_EXHAUSTED: \
OOM when allocating tensor with shape[64,62,62,262144] and type float on /job:localhost by allocator mklcpu"""
TOLD = {
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB. If reserved memory is "
    "large try setting PYTORCH_ALLOC_CONF.": "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 139.80 GiB.",
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4398046511104 bytes. Error code 12 (Cannot allocate memory)": "DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 4398046511104 bytes. Error code 12 (Cannot allocate memory)",
    "RESOURCE_EXHAUSTED: Out of memory allocating 512 bytes.": "Out of memory allocating 512 bytes.",
    "{{function_node __wrapped__Fill_device_/job:localhost}} OOM when allocating tensor with shape[8,8] and type float "
    "on /job:localhost by allocator mklcpu [Op:Fill] name: ": "OOM when allocating tensor with shape[8,8] and type "
    "float on /job:localhost by allocator mklcpu",
    GRAPH: "OOM when allocating tensor with shape[262144,1048576] and type float on "
    "/job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu",
    LOG: "OOM when allocating tensor with shape[64,62,62,262144] and type float on /job:localhost by allocator mklcpu",
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc": "std::bad_alloc",
    "mat1 and mat2 shapes cannot be multiplied": "",
    "W1 bfc_allocator.cc:293] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.2GiB. The caller indicates "
    "that this is not a failure, but may mean": "",
    "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 300000": "",
}


@pytest.mark.parametrize(("told", "kept"), TOLD.items())
def test_the_sentence_that_refuses_is_found(told, kept):
    """Without the page before it and the advice behind it; no other failure is taken for one."""
    assert find_refusal(told) == kept
    assert is_memory_error(RuntimeError(told)) == bool(kept)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "the system gave no more"),
        (MemoryError("64 GiB asked\n24 there"), "64 GiB asked"),
    ],
)
def test_pythons_own_error_needs_no_words(error, words):
    assert is_memory_error(error)
    assert refusal_words(error) == words
