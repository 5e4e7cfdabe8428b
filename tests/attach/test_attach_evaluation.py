"""Passes without gradients have a part of their own, whichever way a script writes them; training passes have none."""

from __future__ import annotations

import sys

import pytest
from corpus_script import HEAD
from watcher import Watcher

pytestmark = pytest.mark.framework
SLOW_MS = 4
ROUNDED = 1 + 1e-9  # sums of parts and wholes in floating point
LOOP = (
    HEAD
    + f"""
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net()
    def forward(self, x):
        time.sleep({SLOW_MS / 1e3})
        return self.body(x)
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
{{before}}
for i in range(30):
    x, y = X[:8], Y[:8]
    {{inside}}
digest(model)
"""
)
STEP = "loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()"
EVALUATES = {
    "no_grad": "\n    with torch.no_grad(): model(x)",
    "inference_mode": "\n    with torch.inference_mode(): model(x)",
    "set_grad_enabled": "\n    with torch.set_grad_enabled(False): model(x)",
    "eval and train": "\n    model.eval(); model(x); model.train()",
    "all at once": "\n    model.eval()\n    with torch.no_grad():\n        with torch.no_grad(): model(x)\n"
    "    model.train()",
}
TRAINS = {
    "nothing": "",
    "enabled": "\n    with torch.set_grad_enabled(True): model(x)",
    "one layer in eval()": "\n    model.train(); model.body.eval()",
}


def watch(tmp_path, inside: str, before: str = "") -> dict:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(before=before, inside=inside))
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(script))
    assert ended.code == 0, ended.err
    (process,) = answer["processes"]
    assert (process["loop"]["iterations"], process["failed"]) == (30, {})
    return process["loop"]["steady"]


@pytest.mark.long
def test_an_evaluation_is_no_forward_pass_of_the_training(tmp_path):
    """In one script, six iterations of each way: a pass of each takes its time, and none counts twice."""
    ways = "".join(f"\n    if i % {len(EVALUATES)} == {at}:{body.replace(chr(10), chr(10) + '    ')}"
                   for at, body in enumerate(EVALUATES.values()))  # fmt: skip
    steady = watch(tmp_path, STEP + ways)
    assert steady["no_grad_s"] * 1e3 >= SLOW_MS
    assert steady["forward_backward_s"] * 1e3 >= SLOW_MS
    assert steady["no_grad_s"] + steady["forward_backward_s"] <= steady["wall_s"] * ROUNDED


@pytest.mark.long
def test_evaluation_of_a_training_without_an_optimizer_is_seen(tmp_path):
    """A script that changes its weights itself, and evaluates twice in each iteration."""
    update = "for p in model.parameters(): p -= 0.1 * p.grad; p.grad = None"
    inside = f"loss_of(model, x, y).backward()\n    with torch.no_grad():\n        {update}"
    steady = watch(tmp_path, f"{inside}\n    model.eval(); model(x); model(x); model.train()")
    assert steady["no_grad_s"] * 1e3 >= 2 * SLOW_MS
    assert steady["forward_backward_s"] * 1e3 >= SLOW_MS
    assert steady["no_grad_s"] + steady["forward_backward_s"] <= steady["wall_s"] * ROUNDED


@pytest.mark.long
@pytest.mark.parametrize("way", ["checkpointed", "others"])
def test_a_training_pass_is_no_evaluation(tmp_path, way):
    """A block that is checkpointed runs without gradients first, and is a forward pass all the same."""
    if way == "others":
        steady = watch(tmp_path, STEP + "".join(TRAINS.values()))
    else:
        step = "nn.functional.cross_entropy(checkpoint(model, x.requires_grad_(), use_reentrant=True), y).backward()"
        steady = watch(tmp_path, f"x = x.clone(); {step}; opt.step(); opt.zero_grad()")
    assert steady["no_grad_s"] == 0
    assert steady["forward_backward_s"] * 1e3 >= SLOW_MS


@pytest.mark.long
def test_compilers_of_pytorch_build_what_they_built_without_the_hooks(tmp_path):
    before = """
@torch.jit.script
def scripted(x):
    with torch.no_grad():
        y = x * 2
    return y + x
@torch.compile(fullgraph=True, backend="eager")
def compiled(x):
    with torch.no_grad():
        y = x * 2
    return y + x
assert torch.equal(scripted(X[0]), 3 * X[0]) and torch.equal(compiled(X[0]), 3 * X[0])
"""
    assert watch(tmp_path, STEP, before)["no_grad_s"] == 0
