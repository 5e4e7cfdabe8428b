"""What a lane sets inside a script: what the agent does, what it reports, and which settings a script cannot have."""

from __future__ import annotations

import sys

import pytest

from laptime.attach.setting import loader_arguments
from laptime.engine import wire
from laptime.engine.heat.script import run_script
from laptime.engine.heat.script_settings import INSIDE, find_unset, list_impossible, list_sets
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.script import SeenLoader
from laptime.model.workload import ProofPlan
from laptime.planner.settings import SETTINGS

TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(640, 3, 8, 8), torch.zeros(640, dtype=torch.long)), 8, shuffle=True)
done = 0
while True:
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done == 12:
            print("seen", CHECK, flush=True)
"""
CHECK = """dict(
    workers=loader.num_workers, prefetch=loader.prefetch_factor, kept=loader.persistent_workers, batch=len(x),
    fused=optimizer.param_groups[0]["fused"], compiled=model._compiled_call_impl is not None,
    last=model[0].weight.is_contiguous(memory_format=torch.channels_last), called=nn.Module.__call__.__module__)"""
CPU = Device("cpu", "cpu", "the processor", usable=True)
BRIEF = Pace(1, 1, adaptive=False, measure_s=0.2, window_s=0.1, windows_min=2)


class Quiet:
    """Takes what is said, and asks for nothing."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def listen(self):
        return wire.Enough()


@pytest.fixture
def heat(tmp_path, capfd, monkeypatch):
    """Return a function that runs one heat of a script, and returns what was said and what the script printed."""
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # to compile takes long, and is PyTorch's own

    def run(source=None, *, looks=False, **settings):
        (tmp_path / "train.py").write_text(source or TRAIN.replace("CHECK", CHECK))
        command = (sys.executable, str(tmp_path / "train.py"))
        subject = Subject("train.py", "", None, None, None, None, "items", command=command)
        lane = PlannedLane("cpu", "script", CPU, Settings(**settings))
        line = Quiet()
        run_script(HeatOrder(subject, lane, 3, ProofPlan(), BRIEF, breakdown=looks), line)
        return line.said, capfd.readouterr().out

    return run


@pytest.mark.long
def test_all_that_a_lane_names_is_set_in_the_script(heat):
    extra = {"prefetch": "4"}
    settings = {"workers": 2, "joined": 2, "execution": "compile", "layout": "channels_last", "optimizer": "fused"}
    said, printed = heat(extra=extra, **settings)
    assert "{'workers': 2, 'prefetch': 4, 'kept': True, 'batch': 16, 'fused': True, 'compiled': True, 'last': True" in (
        printed
    )
    assert "'called': 'torch.nn.modules.module'" in printed  # nothing of ours is left in the steps
    assert next(each for each in said if isinstance(each, wire.Built)).items_per_step == 16


@pytest.mark.long
def test_a_first_heat_shows_what_the_script_cannot_have(heat):
    said, printed = heat(looks=True)
    assert "'workers': 0, 'prefetch': None, 'kept': False, 'batch': 8, 'fused': None, 'compiled': False" in printed
    assert next(each for each in said if isinstance(each, wire.Signed)).signs.impossible == {
        "persistent": "its DataLoader has no workers",
        "prefetch": "its DataLoader has no workers",
        "processes": "the script gives no PyDataset to Keras's fit",
        "steps_per_execution": "the script does not train by Keras's fit",
        "workers=0": "the script has as many already",
    }


@pytest.mark.long
def test_a_model_of_float64_computes_in_float32_from_the_same_weights(heat):
    """Its losses are the same but for rounding, though half as many random numbers would be drawn for it."""
    double = TRAIN.replace("import torch\n", "import torch\ntorch.set_default_dtype(torch.float64)\n", 1)
    assert double != TRAIN
    kinds = "(model(x).dtype, next(model.parameters()).dtype, torch.get_default_dtype())"
    losses = {}
    for name, settings in (("double", {}), ("single", {"extra": {"numbers": "single"}})):
        said, printed = heat(double.replace("CHECK", kinds), **settings)
        assert f"seen ({', '.join(['torch.float64' if name == 'double' else 'torch.float32'] * 3)})" in printed
        losses[name] = next(each for each in said if isinstance(each, wire.Proved)).run.losses
    assert losses["single"] == pytest.approx(losses["double"], rel=1e-5)
    assert losses["single"] != losses["double"]


@pytest.mark.long
def test_a_model_computes_in_bfloat16_and_its_weights_do_not(heat):
    kinds = "(model(x).dtype, next(model.parameters()).dtype, torch.is_autocast_enabled('cpu'))"
    _, printed = heat(TRAIN.replace("CHECK", kinds), precision="bf16")
    assert "seen (torch.bfloat16, torch.float32, False)" in printed


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "settings", "says"),
    [
        (
            ("lr=1e-3", "lr=1e-3, foreach=True"),
            {"optimizer": "fused"},
            "the script chose another form",
        ),
        (("AdamW", "RMSprop"), {"optimizer": "fused"}, "optimizer was not set: its optimizer has no fused form here"),
        (("nn.Conv2d(3, 4, 3)", "nn.Flatten(), nn.Linear(192, 144)"), {"layout": "channels_last"}, "no convolution"),
        (("optimizer =", "model.compile(); optimizer ="), {"execution": "compile"}, "the script compiles its model"),
        (("optimizer =", "model.compile = None; optimizer ="), {"execution": "compile"}, "does not take it"),
    ],
)
def test_what_cannot_be_set_is_no_lane(heat, changed, settings, says):
    with pytest.raises(LaneError, match=says):
        heat(TRAIN.replace("CHECK", "0").replace(*changed), **settings)


@pytest.mark.parametrize(
    ("told", "given", "named", "becomes"),
    [
        ({"workers": "2"}, (), {}, {"num_workers": 2, "persistent_workers": True}),
        ({"workers": "2"}, (8, True, None, None, 1), {"persistent_workers": False},
         {"batch_size": 8, "shuffle": True, "sampler": None, "batch_sampler": None, "num_workers": 2,
          "persistent_workers": True}),
        ({"workers": "0"}, (), {"num_workers": 2, "prefetch_factor": 4, "timeout": 9}, {"num_workers": 0}),
        ({"workers": "2", "prefetch": "4"}, (), {},
         {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4}),
        ({"prefetch": "4"}, (), {"num_workers": 1}, {"num_workers": 1, "prefetch_factor": 4}),
        ({"prefetch": "4"}, (), {}, None),
        ({"persistent": "on"}, (), {}, None),
        ({"persistent": "on"}, (), {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}),
        ({"pinned": "on"}, (), {"pin_memory": False}, {"pin_memory": True}),
        ({"batch": "2x"}, (8,), {}, {"batch_size": 16}),
        ({"batch": "4x"}, (), {}, {"batch_size": 4}),
        ({"batch": "64"}, (), {"batch_size": 8}, {"batch_size": 64}),
        ({"batch": "2x"}, (), {"batch_size": None}, None),
        ({"batch": "2x"}, (), {"batch_sampler": [[0]]}, None),
        ({"workers": "2"}, (8, True, None, None, 1, None, False, False), {}, None),
    ],
)  # fmt: skip
def test_the_arguments_of_a_loader(told, given, named, becomes):
    assert loader_arguments(told, given, named, is_iterable=False) == becomes


def test_workers_would_give_each_item_of_an_iterable_several_times():
    assert loader_arguments({"workers": "2"}, (), {}, is_iterable=True) is None
    assert loader_arguments({"batch": "2x"}, (8,), {}, is_iterable=True) == {"batch_size": 16}


def test_each_setting_inside_is_one_that_a_script_may_have():
    assert {row.name for row in INSIDE} <= {name for name, row in SETTINGS.items() if row.outside}
    assert list_sets(Settings(joined=4, layout="channels_last", extra={"persistent": "off", "prefetch": "8"})) == {
        "layout": "channels_last", "prefetch": "8", "batch": "4x",
    }  # fmt: skip
    assert list_sets(Settings()) == {}


def test_a_loader_that_the_training_does_not_use_is_not_enough():
    """The agent reports that it set workers, of another loader than the one that is trained from."""
    lane, mine = Settings(workers=2), SeenLoader(8, 10, 0)
    assert find_unset(lane, {"workers"}, {}, mine) == (
        "workers was not set: the loader that the script trains from has 0"
    )
    assert find_unset(lane, {"workers"}, {}, SeenLoader(8, 10, 2)) is None
    assert find_unset(lane, set(), {}, None) == (
        "workers was not set: the script makes no DataLoader of items by number, and no PyDataset"
    )


@pytest.mark.parametrize(
    ("loader", "name", "why"),
    [
        (None, "workers", "the script makes no DataLoader of PyTorch"),
        (SeenLoader(8, 10, 2, is_iterable=True), "workers", "each worker would give all of its items"),
        (SeenLoader(8, 10, 2, keeps_workers=True), "persistent", "keeps its workers already"),
        (SeenLoader(8, 10, 2, prefetched=4), "prefetch=4", "as many already"),
        (SeenLoader(8, 10, 2, pins_memory=True), "pinned", "pins its batches already"),
        (SeenLoader(None, 10, 2), "batch", "has no batch_size"),
    ],
)
def test_why_a_loader_cannot_have_a_setting(loader, name, why):
    assert why in list_impossible({"execution", "layout", "optimizer"}, {}, loader)[name]


DATA = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 4096
    def __getitem__(self, index): return {"x": torch.full((8,), index / 4096), "labels": index % 2}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 2)
    def forward(self, x, labels):
        out = self.line(x)
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}

def show(loader, model, optimizer):
    is_compiled = model._compiled_call_impl is not None
    print("seen", loader.num_workers, is_compiled, optimizer.param_groups[0]["fused"], flush=True)
"""
TRAINER = """
from transformers import Trainer, TrainerCallback, TrainingArguments
class Show(TrainerCallback):
    def on_step_end(self, args, state, control, train_dataloader=None, model=None, optimizer=None, **more):
        if state.global_step == 12:
            show(train_dataloader, model, getattr(optimizer, "optimizer", optimizer))
args = TrainingArguments("OUT", optim="adamw_torch", report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
                         num_train_epochs=99, per_device_train_batch_size=8)
Trainer(Net(), args, train_dataset=Rows(), callbacks=[Show()]).train()
"""
LIGHTNING = """
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def training_step(self, batch, number):
        if self.global_step == 12:
            show(self.trainer.train_dataloader, self.net, self.optimizers().optimizer)
        return self.net(**batch)["loss"]
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
    def train_dataloader(self):
        return DataLoader(Rows(), batch_size=8)
trainer = lightning.Trainer(max_epochs=99, accelerator="cpu", logger=False, barebones=True)
trainer.fit(Module())
"""
ACCELERATE = """
from accelerate import Accelerator
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Rows(), batch_size=8))
done = 0
for epoch in range(99):
    for batch in loader:
        optimizer.zero_grad()
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        done += 1
        if done == 12:
            show(loader, model, optimizer.optimizer)
"""


@pytest.mark.long
@pytest.mark.parametrize("trains", [TRAINER, LIGHTNING, ACCELERATE], ids=["Trainer", "Lightning", "Accelerate"])
def test_what_others_loops_make_is_set_too(heat, tmp_path, trains):
    """Their loaders, optimizers and models are PyTorch's own."""
    source = DATA + trains.replace("OUT", str(tmp_path / "out"))
    said, printed = heat(source, workers=2, optimizer="fused", execution="compile")
    assert "seen 2 True True" in printed
    assert next(each for each in said if isinstance(each, wire.Built)).items_per_step == 8


def test_threads_that_the_scripts_own_code_sets_are_not_those_of_the_lane():
    """It raced as if it had them, and `why` found that two threads gain nothing."""
    lane = Settings(threads=2)
    assert list_sets(lane) == {"threads": "2"}
    assert find_unset(lane, (), {}, None, threads=1) == "threads has no effect: the script's own code makes it 1"
    assert find_unset(lane, (), {}, None, threads=2) is None
    assert find_unset(Settings(), (), {}, None, threads=1) is None
