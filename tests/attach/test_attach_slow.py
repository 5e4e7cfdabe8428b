"""What slows each iteration without a line of its own: memory handed out again, a search for garbage, what was left on,
graphs that are kept, and a loader that is started for each batch.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from corpus_script import HEAD, SGD, STEP
from test_attach_lines import STAND_IN, watch

from laptime.analysis.script_process import nodes_per_step

pytestmark = pytest.mark.framework
PAGES = 256
SPENDS = f"""
import mmap, time, tracemalloc, torch
tracemalloc.start()
opt = torch.optim.SGD()
for step in range(700):
    with mmap.mmap(-1, {PAGES} * mmap.PAGESIZE) as memory:
        for page in range({PAGES}):
            memory[page * mmap.PAGESIZE] = 1
    made = [[number] for number in range(5000)]
    torch.Tensor(2.5).backward()
    opt.step()
    time.sleep(0.004)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no file says how many pages were handed out")
def test_pages_searches_for_garbage_and_what_was_left_on_are_counted(tmp_path):
    """In each iteration behind the warm-up; a search for garbage runs some seven times for 5,000 lists."""
    process = watch(tmp_path, SPENDS, env={"PYTHONPATH": str(STAND_IN)})
    assert process["faults"] == pytest.approx(PAGES, rel=0.2)
    assert 1e4 < process["collected_ns"] < 1e7
    assert process["left_on"] == ["tracemalloc"]


def test_nothing_is_said_to_be_left_on_that_is_not(tmp_path):
    process = watch(
        tmp_path,
        SPENDS.replace("tracemalloc.start()", "").replace("700", "40"),
        env={"PYTHONPATH": str(STAND_IN)},
    )
    assert process["left_on"] == []
    assert (process["faults"], process["collected_ns"]) == (None, None), "too few looks"


def looped(body: str, before: str = "") -> str:
    return f"{HEAD}{SGD}{before}\nfor step in range(70):\n    {body}\n"


HIDDEN = """hidden = hidden * 0.5 + model[0](X[:8]).mean()
    loss_of(model, X[:8], Y[:8]).add(hidden).backward(retain_graph=True)
    opt.step(); opt.zero_grad()"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (looped(f"x, y = next(iter(batches)); {STEP}", "batches = loader()"), {"started_anew": 1.0}),
        (looped(f"for x, y in batches: {STEP}", "batches = loader(96)"), {"started_anew": 0.0}),
        (looped(f"for x, y in batches: {STEP}", "batches = loader()"), {"started_anew": 1 / 12}),
    ],
)
def test_a_loader_that_is_started_for_each_batch(tmp_path, source, expected):
    """One whose only batch is all data is started for each, too, and has nothing else to give."""
    loop = watch(tmp_path, source)["loop"]
    assert {name: loop[name] for name in expected} == pytest.approx(expected)


@pytest.mark.long
def test_graphs_that_are_kept_and_what_pytorch_has_on(tmp_path):
    """A hidden state that no iteration lets go, under a profiler that records all, or the first two steps only."""
    begins = "hidden = torch.zeros(())"
    process = watch(tmp_path, _with_profiler(looped(HIDDEN, begins), ""))
    assert process["graph"]["per_step"] > 4
    assert process["left_on"] == ["profiler"]
    let_go = looped(HIDDEN.replace("hidden * 0.5", "hidden.detach() * 0.5"), begins)
    process = watch(
        tmp_path, _with_profiler(let_go, "schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)")
    )
    assert process["graph"]["per_step"] == 0
    assert process["left_on"] == []


def _with_profiler(source: str, given: str) -> str:
    """Return a script whose loop runs under a profiler of PyTorch."""
    head, _, body = source.partition("for step in range(70):")
    body = "".join(f"    {line}\n" for line in body.splitlines())
    stepped = "        profiler.step()\n" if given else ""
    begin = f"with torch.profiler.profile({given}) as profiler:\n    for step in range(70):"
    return f"{head}{begin}{body}{stepped}"


def test_a_graph_becomes_longer_only_where_all_looks_say_so() -> None:
    """Behind the 16th, the 64th and the 256th step. Lengths of other batches rise and fall."""
    looks: dict[str, tuple[list[int], float]] = {
        "kept": ([160, 640, 2560], 10.0),
        "kept, behind a network": ([660, 1140, 3060], 10.0),
        "kept, up to the limit": ([6400, 20000, 20000], 283.3),
        "two looks": ([160, 640], 10.0),
        "two looks at other lengths": ([160, 300], 0.0),
        "alike": ([500, 500, 500], 0.0),
        "rising and falling": ([160, 640, 300], 0.0),
        "rising, then little more": ([160, 640, 700], 0.0),
        "falling": ([640, 160, 640], 0.0),
        "one look": ([500], 0.0),
    }
    steps = (16, 64, 256)
    found: dict[str, Any] = {
        name: nodes_per_step([*zip(steps, nodes, strict=False)]) for name, (nodes, _) in looks.items()
    }
    assert nodes_per_step([(5, 10), (0, 10), (10, 90)]) == 0, "no step comes before the first"
    assert found == {name: pytest.approx(per_step, rel=0.01) for name, (_, per_step) in looks.items()}
