"""Changes of code: the place is found by the tree, the text around it stays, and what is not certain is refused."""

from __future__ import annotations

import difflib

import pytest

from laptime.questions.rewrites import REWRITES, rewrite
from laptime.questions.user_code import NoPlaceError, read_code

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
LOOP = "for x in loader:\n    loss = model(x)\n    loss.backward()\n"
WITH = "num_workers=2, persistent_workers=True"
SEVERAL_PLACES = {"loader_started_once", "loader_made_once"}
ALL_AGAIN = (
    "loader_batches = itertools.chain.from_iterable(itertools.repeat(loader))  # shuffled again after its last batch"
)


def changed(tmp_path, text, word, function=None, **others):
    """Return the lines that a change takes away and adds, and check that all others stay."""
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "train.py").write_bytes(data)
    for name, content in others.items():
        (tmp_path / f"{name}.py").write_text(content, encoding="utf-8")
    edited = rewrite(read_code(tmp_path / "train.py", function), word)
    before, after = edited.file.data.splitlines(keepends=True), edited.data.splitlines(keepends=True)
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    moved = [step for step in steps if step[0] != "equal"]
    assert len(moved) == 1 or word in SEVERAL_PLACES, "one place of the file changes"
    (_, a, _, c, _), (_, _, b, _, d) = moved[0], moved[-1]
    return edited, b"".join(before[a:b]).decode("latin-1"), b"".join(after[c:d]).decode("latin-1")


def refused(tmp_path, text, word, function=None, **others):
    with pytest.raises(NoPlaceError) as error:
        changed(tmp_path, text, word, function, **others)
    return str(error.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loader = DataLoader(ds)\n", f"loader = DataLoader(ds, {WITH})\n"),
        ("loader = DataLoader((ds))\n", f"loader = DataLoader((ds), {WITH})\n"),
        ("loader = DataLoader(ds, shuffle=(True),)  # all\n",
         f"loader = DataLoader(ds, shuffle=(True), {WITH},)  # all\n"),
        ("loader = DataLoader(\n    ds, shuffle=True  # all\n)\n", f"    ds, shuffle=True, {WITH}  # all\n"),
        (
            "loader = DataLoader(\n\tds,\n\tshuffle=True,  # a, b)\n)\n",
            "\tnum_workers=2,\n\tpersistent_workers=True,\n",
        ),
        (
            "loader = DataLoader(\n    ds,\n    shuffle=True  # all\n)\n",
            "    shuffle=True,  # all\n    num_workers=2,\n    persistent_workers=True\n",
        ),
        ("loader = DataLoader(ds,\n    shuffle=True)\n", f"    shuffle=True, {WITH})\n"),
        ("loader = DataLoader(ds, num_workers=0)\n", f"loader = DataLoader(ds, {WITH})\n"),
        ("loader = DataLoader(ds, 8, True, None, None, 0)\n",
         "loader = DataLoader(ds, 8, True, None, None, 2, persistent_workers=True)\n"),
        ("é = 'é'; loader = DataLoader(ds, 'é')\n", f"é = 'é'; loader = DataLoader(ds, 'é', {WITH})\n"),
    ],
)  # fmt: skip
def test_a_call_gets_its_arguments_and_keeps_its_form(tmp_path, before, after):
    _, _, added = changed(tmp_path, HEAD + before, "workers=2")
    assert added.encode("latin-1").decode() == after


OF_OPTIONS = "loader = DataLoader(ds, **options)\n"


@pytest.mark.parametrize(
    ("options", "word", "after"),
    [
        ("options = {'batch_size': 8}", "workers=2",
         "options = {'batch_size': 8, 'num_workers': 2, 'persistent_workers': True}"),
        ("options = {}", "workers=2", "options = {'num_workers': 2, 'persistent_workers': True}"),
        ("options = {'num_workers': 0} if cuda else {}", "workers=2",
         ("options = {'num_workers': 2, 'persistent_workers': True}"
         " if cuda else {'num_workers': 2, 'persistent_workers': True}")),
        ("options = {'num_workers': 2} if cuda else {}", "persistent_workers",
         "options = {'num_workers': 2, 'persistent_workers': True} if cuda else {}"),
        ("options = {'pin_memory': False}", "pinned", "options = {'pin_memory': True}"),
        ("options = {'shuffle': True}\nif cuda:\n    options.update(more)", "workers=2",
         "options = {'shuffle': True, 'num_workers': 2, 'persistent_workers': True}"),
        ("options = {'shuffle': True}\ntests = DataLoader(others, **options)", "pinned",
         "options = {'shuffle': True, 'pin_memory': True}"),
    ],
)  # fmt: skip
def test_a_dict_that_is_given_by_two_stars_gets_what_its_loader_needs(tmp_path, options, word, after):
    loop = "for x in loader:\n    model(x).backward()\n"
    edited, _, added = changed(tmp_path, f"{HEAD}{options}\n{OF_OPTIONS}{loop}", word)
    assert added == f"{after}\n"
    compile(edited.data, "train.py", "exec")


@pytest.mark.parametrize(
    "options",
    [
        "options = {'num_workers': 2}\noptions = {}",
        "options = dict(num_workers=2)",
        "options = {**others}",
        "options = {'a': 1}\nmodel = Model(**options)",
        "options = {'a': 1}\nprint(options)",
        "options = {'a': 1} if cuda else others",
        "options = {key: 1}",
    ],
)
def test_a_dict_that_serves_others_too_is_left_alone(tmp_path, options):
    assert "takes arguments by * or **" in refused(tmp_path, f"{HEAD}{options}\n{OF_OPTIONS}", "workers=2")


def test_workers_that_no_dict_has_cannot_stay(tmp_path):
    why = refused(tmp_path, f"{HEAD}options = {{'batch_size': 8}}\n{OF_OPTIONS}", "persistent_workers")
    assert why == "train.py:4 has no num_workers"


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from torch.utils.data import DataLoader as Loader\n", "Loader"),
        ("import torch\n", "torch.utils.data.DataLoader"),
        ("from torch.utils import data\n", "data.DataLoader"),
        ("import torch.utils.data as D\n", "D.DataLoader"),
    ],
)
def test_a_name_is_followed_to_its_import(tmp_path, imported, called):
    edited, _, added = changed(tmp_path, f"{imported}loader = {called}(ds)\n", "workers=2")
    assert (edited.line, added) == (2, f"loader = {called}(ds, {WITH})\n")


def test_a_loader_that_is_only_evaluated_is_not_the_one_that_trains(tmp_path):
    """A class gives the batches of the other one; a loop that calls what trains is no evaluation."""
    text = """class Endless:
    def __init__(self, dataset):
        self.batches = DataLoader(dataset)
def evaluate(dataset):
    loader = DataLoader(dataset)
    for number, batch in enumerate(loader):
        model(batch)
Endless(rows)
evaluate(rows)
"""
    edited, _, added = changed(tmp_path, HEAD + text, "workers=2")
    assert (edited.line, added) == (5, f"        self.batches = DataLoader(dataset, {WITH})\n")
    steps = "def take(batch):\n    model(batch).backward()\n"
    calls = text.replace("        model(batch)", "        take(batch)")
    assert "several calls of DataLoader" in refused(tmp_path, HEAD + steps + calls, "workers=2")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "no call of torch's DataLoader is in the training's own code"),
        ("def DataLoader(x): pass\nDataLoader(ds)\n", "no call of torch's DataLoader is in the training's own code"),
        ("loader = DataLoader(ds, **options)\n", "train.py:3 takes arguments by * or **"),
        ("loader = DataLoader(*given)\n", "train.py:3 takes arguments by * or **"),
        ("loader = DataLoader(ds, num_workers=args.workers)\n", "train.py:3 has num_workers=args.workers"),
        ("a = DataLoader(ds)\nb = DataLoader(other)\n",
         "several calls of DataLoader may be meant: train.py:3, train.py:4"),
        (f"loader = DataLoader(ds, {WITH})\n", "train.py:3 has it already"),
        ("class Stream(torch.utils.data.IterableDataset): pass\nloader = DataLoader(Stream())\n",
         "Stream is an IterableDataset: each worker would give all of its items"),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_refused_with_its_reason(tmp_path, text, why):
    assert refused(tmp_path, HEAD + text, "workers=2") == why


@pytest.mark.parametrize(
    "loop",
    [
        LOOP,
        "for e in a:\n    for n, x in enumerate(loader):\n        model(x).backward()\n    for x in test: model(x)\n",
        "def go(model, data):\n    for x in data:\n        model(x).backward()\ngo(model, loader)\n",
        "def go(model, data):\n    for x in data:\n        model(x).backward()\ngo(model, data=loader)\n",
    ],
)
def test_of_two_loaders_the_one_that_feeds_the_training_is_meant(tmp_path, loop):
    text = f"{HEAD}loader, test = DataLoader(ds), DataLoader(other)\n{loop}"
    _, _, added = changed(tmp_path, text, "workers=2")
    assert added == f"loader, test = DataLoader(ds, {WITH}), DataLoader(other)\n"


def test_only_what_the_function_reaches_counts(tmp_path):
    functions = {"mine": "make()", "other": "DataLoader(b)", "make": "DataLoader(a)"}
    text = HEAD + "".join(f"def {name}():\n    return {value}\n" for name, value in functions.items())
    edited, _, _ = changed(tmp_path, text, "workers=2", "mine")
    assert edited.line == 8
    assert "several calls" in refused(tmp_path, f"{text}mine(); other()\n", "workers=2")


def test_a_module_of_the_same_folder_is_the_users_and_an_installed_one_is_not(tmp_path):
    text = "import torch\nfrom parts import make_loader\nloader = make_loader()\n"
    parts = f"{HEAD}def make_loader():\n    return DataLoader(ds)\ndef unused():\n    return DataLoader(other)\n"
    edited, _, _ = changed(tmp_path, text, "workers=2", parts=parts)
    assert (edited.file.path.name, edited.line) == ("parts.py", 4)
    installed = tmp_path / "site-packages"
    installed.mkdir()
    assert "was installed" in refused(installed, f"{HEAD}loader = DataLoader(ds)\n", "workers=2")
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "parts.py").symlink_to(tmp_path / "parts.py")
    assert "no call" in refused(outside, text, "workers=2")


@pytest.mark.parametrize(
    ("word", "text", "line", "added"),
    [
        ("persistent_workers", "loader = DataLoader(ds, num_workers=n)\n", 3,
         "loader = DataLoader(ds, num_workers=n, persistent_workers=True)\n"),
        ("batch_2x", "loader = DataLoader(ds, 32)\n", 3, "loader = DataLoader(ds, 64)\n"),
        ("batch_4x", "loader = DataLoader(ds, batch_size=32)\n", 3, "loader = DataLoader(ds, batch_size=128)\n"),
        ("batch_half", "loader = DataLoader(ds, 32)\n", 3, "loader = DataLoader(ds, 16)\n"),
        ("batch_8x", "loader = DataLoader(ds, 32)\n", 3, "loader = DataLoader(ds, 256)\n"),
        ("workers=0", "loader = DataLoader(ds, num_workers=4)\n", 3, "loader = DataLoader(ds, num_workers=0)\n"),
        ("prefetch=8", "loader = DataLoader(ds, num_workers=4)\n", 3,
         "loader = DataLoader(ds, num_workers=4, prefetch_factor=8)\n"),
        ("pinned", "loader = DataLoader(ds, pin_memory=False)\n", 3, "loader = DataLoader(ds, pin_memory=True)\n"),
        ("bf16_cpu", "opt = torch.optim.SGD(net.parameters())\n", 3,
         'net.forward = torch.autocast("cpu", dtype=torch.bfloat16)(net.forward)\n'),
        ("bf16_cuda", "opt = torch.optim.SGD(net.parameters())\n", 3,
         'net.forward = torch.autocast("cuda", dtype=torch.bfloat16)(net.forward)\n'),
        ("fused", "opt = torch.optim.Adam(net.parameters(), foreach=False)\n", 3,
         "opt = torch.optim.Adam(net.parameters(), foreach=False, fused=True)\n"),
        ("fused", "opt = torch.optim.AdamW(net.parameters(), lr=1e-3)\n", 3,
         "opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)\n"),
        ("compile", "if go:\n    opt = torch.optim.SGD(self.net.parameters())\n", 4, "    self.net.compile()\n"),
        ("channels_last", "opt = torch.optim.SGD(net.parameters())\n",
         3, "net.to(memory_format=torch.channels_last)\n"),
        ("flush_denormal", "x = 1\n", 4, "\ntorch.set_flush_denormal(True)\n"),
        ("threads=4", "x = 1\n", 4, "\ntorch.set_num_threads(4)\n"),
        ("threads=4", "torch.set_num_threads(1)\n", 3, "torch.set_num_threads(4)\n"),
        ("no_anomalies", "torch.autograd.set_detect_anomaly(True)\n", 3, "torch.autograd.set_detect_anomaly(False)\n"),
        ("mkldnn", "torch.backends.mkldnn.set_flags(False)\n", 3, "torch.backends.mkldnn.set_flags(True)\n"),
        ("not_left_on", "import os\nos.sched_setaffinity(0, {0})\nx = 1\n", 4, ""),
        ("no_checkpoint", "x = torch.utils.checkpoint.checkpoint(block, x, scale=2, use_reentrant=False, **more)\n", 3,
         "x = block(x, scale=2, **more)\n"),
        ("no_second_graph", "loss.backward(create_graph=True)\n", 3, "loss.backward(create_graph=False)\n"),
        ("matmul_high", "x = 1\n", 4, '\ntorch.set_float32_matmul_precision("high")\n'),
        ("matmul_medium", "torch.set_float32_matmul_precision('high')\n", 3,
         'torch.set_float32_matmul_precision("medium")\n'),
        ("keep_memory", "import laptime\nx = 1\n", 5, "\nlaptime.keep_memory()\n"),
        ("float32", "torch.set_default_dtype(torch.float64)\n", 3, "torch.set_default_dtype(torch.float32)\n"),
        ("no_item", "sum = 0.0\n" + LOOP + "    sum += loss.item()\nprint(f'{sum / 3:.3f}')\n", 7,
         "    sum += loss.detach()\n"),
        ("jit_compile", "import keras\nmodel.compile(optimizer='sgd', loss='mse')\n", 4,
         "model.compile(optimizer='sgd', loss='mse', jit_compile=True)\n"),
        ("steps_per_execution=8", "import keras\nmodel.compile(optimizer='sgd')\n", 4,
         "model.compile(optimizer='sgd', steps_per_execution=8)\n"),
        ("use_multiprocessing", "import keras\nclass A(keras.utils.PyDataset):\n    pass\nA()\n", 6,
         "A(use_multiprocessing=True)\n"),
        ("seldom=4", "for i in range(9):\n    print(i)\n", 4, "    if i % 100 == 0:\n        print(i)\n"),
        ("some_turns=5", "for i in range(9):\n    loss.backward()\n    torch.save(net, 'net.pt')\n", 5,
         "    if i % 10 == 0 or i == 8:\n        torch.save(net, 'net.pt')\n"),
        ("loader_started_once", "import itertools\nfor i in range(9):\n    rows = next(iter(loader))\n", 4,
         f"{ALL_AGAIN}\nfor i in range(9):\n    rows = next(loader_batches)\n"),
        ("loader_made_once", "for i in range(9):\n    loader = DataLoader(ds, num_workers=2)\n    go(loader)\n", 3,
         "loader = DataLoader(ds, num_workers=2, persistent_workers=True)\nfor i in range(9):\n"),
        ("workers=2", "loader = DataLoader(ds)\n", 3, f"loader = DataLoader(ds, {WITH})\n"),
    ],
)  # fmt: skip
def test_each_change_of_the_table(tmp_path, word, text, line, added):
    edited, _, now = changed(tmp_path, HEAD + text, word)
    assert (edited.line, now) == (line, added)


def test_each_row_of_the_table_is_tried_here():
    tried = next(mark.args[1] for mark in test_each_change_of_the_table.pytestmark if mark.name == "parametrize")
    assert {case[0].partition("=")[0] for case in tried} == set(REWRITES)


@pytest.mark.parametrize(
    ("word", "text", "why"),
    [
        ("persistent_workers", "loader = DataLoader(ds)\n", "train.py:3 has no num_workers"),
        ("batch_2x", "loader = DataLoader(ds, batch)\n", "train.py:3 has no batch_size that is a number"),
        ("batch_half", "loader = DataLoader(ds, 1)\n", "train.py:3 has batch_size=1"),
        ("fused", "a = torch.optim.SGD(p)\nb = torch.optim.SGD(q)\n",
         "several optimizers are made: train.py:3, train.py:4"),
        ("fused", "a = torch.optim.SGD(p, foreach=True)\n", "train.py:3 has foreach, capturable or differentiable"),
        ("fused", "a = torch.optim.LBFGS(p)\n",
         "no Adam, AdamW, SGD or Adagrad of torch.optim is made in its own code"),
        ("compile", "a = torch.optim.SGD(parts)\n", "which model train.py:3 moves is not certain"),
        ("compile", "net.compile()\na = torch.optim.SGD(net.parameters())\n", "net.compile() is there already"),
        ("compile", "x = 1; a = torch.optim.SGD(net.parameters())\n",
         "train.py:3 is behind another statement in its line"),
        ("flush_denormal", "torch.set_flush_denormal(True)\n", "train.py:3 calls it already"),
        ("threads=4", "torch.set_num_threads(args.threads)\n", "train.py:3 calls it already"),
        ("no_anomalies", "x = 1\n", "no line that is known to run calls torch.autograd.set_detect_anomaly"),
        ("not_left_on", "x = 1\n", "0 calls that are known to run leave something on"),
        ("not_left_on", "import tracemalloc\nkept = tracemalloc.start()\n",
         "train.py:4 is no statement of its own, or the only one of its block"),
        ("no_checkpoint", "x = torch.utils.checkpoint.checkpoint(lambda x: x, x)\n",
         "train.py:3 checkpoints lambda x: x"),
        ("no_checkpoint", "x = 1\n", "0 calls of torch.utils.checkpoint may be meant"),
        ("no_second_graph", "loss.backward(create_graph=more)\n", "train.py:3 has create_graph=more"),
        ("no_second_graph", "a.backward(create_graph=True); b.backward(create_graph=True)\n",
         "2 calls of backward have create_graph: train.py:3, train.py:3"),
        ("keep_memory", "x = 1\n", "train.py does not import laptime at its top"),
        ("float32", "model.double()\n", "what makes the numbers float64 is not one call of torch.set_default_dtype"),
        ("no_item", LOOP + "    losses.append(loss.item())\n",
         "the value that each step reads is not one sum, as in `total += loss.item()`"),
        ("no_item", "sum = 0.0\n" + LOOP + "    sum += loss.item()\nsave(sum)\n",
         "train.py:7 is used for more than a sum that is printed"),
        ("workers=9999", "loader = DataLoader(ds)\n", "9999 is more than 1024"),
        ("workers", "loader = DataLoader(ds)\n", "this laptime knows no such change of code"),
        ("workers=2; import os", "loader = DataLoader(ds)\n", "this laptime knows no such change of code"),
        ("fused=1", "a = torch.optim.SGD(p)\n", "this laptime knows no such change of code"),
        ("threads=0", "x = 1\n", "0 is less than 1"),
        ("workers=0", "loader = DataLoader(ds, num_workers=2, prefetch_factor=4)\n",
         "train.py:3 has prefetch_factor, which need workers"),
        ("prefetch=8", "loader = DataLoader(ds)\n", "train.py:3 has no num_workers"),
        ("compile", "class M:\n    def optimizers(self):\n        return torch.optim.SGD(self.parameters())\nM()\n",
         "train.py:5 moves a module whose parts are called one by one"),
    ],
)  # fmt: skip
def test_each_refusal_says_why(tmp_path, word, text, why):
    assert refused(tmp_path, HEAD + text, word) == why


SCRIPT = """import torch
from torch.utils.data import DataLoader

def main():
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loader = DataLoader(ds, 8)
    for x in loader:
        net(x).backward()

main()
"""


def test_several_changes_are_made_one_after_another(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    words = "compile+channels_last+fused+threads=2+workers=2+prefetch=4+batch_2x"
    edited = rewrite(read_code(tmp_path / "train.py", None), words)
    assert edited.file.data.decode() == SCRIPT
    assert edited.line == 4
    assert (
        edited.data.decode()
        == """import torch
from torch.utils.data import DataLoader

torch.set_num_threads(2)

def main():
    net.compile()
    net.to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(ds, 16, num_workers=2, persistent_workers=True, prefetch_factor=4)
    for x in loader:
        net(x).backward()

main()
"""
    )
    with pytest.raises(NoPlaceError, match="more than 16 changes in one"):
        rewrite(read_code(tmp_path / "train.py", None), "+".join(["fused"] * 17))


def test_changes_in_two_files_are_no_single_one(tmp_path):
    (tmp_path / "parts.py").write_text(f"{HEAD}def loader():\n    return DataLoader(ds)\n")
    (tmp_path / "train.py").write_text("import torch\nfrom parts import loader\na = loader()\n")
    with pytest.raises(NoPlaceError, match=r"the changes are in parts\.py and train\.py"):
        rewrite(read_code(tmp_path / "train.py", None), "workers=2+threads=1")


TRAINER = "from transformers import TrainingArguments\nargs = TrainingArguments('out', GIVEN)\n"


@pytest.mark.parametrize(
    ("word", "given", "becomes"),
    [
        ("workers=2", "seed=1", "seed=1, dataloader_num_workers=2, dataloader_persistent_workers=True"),
        ("workers=0", "dataloader_num_workers=4", "dataloader_num_workers=0, dataloader_persistent_workers=False"),
        ("prefetch=4", "seed=1", "seed=1, dataloader_prefetch_factor=4"),
        ("pinned", "dataloader_pin_memory=False", "dataloader_pin_memory=True"),
        ("fused", "optim='adamw_torch'", 'optim="adamw_torch_fused"'),
        ("compile", "seed=1", "seed=1, torch_compile=True"),
        ("bf16_cuda", "seed=1", "seed=1, bf16=True"),
        ("batch_2x", "seed=1", "seed=1, per_device_train_batch_size=16"),
        ("batch_2x", "per_device_train_batch_size=32", "per_device_train_batch_size=64"),
    ],
)
def test_a_trainer_has_arguments_of_its_own(tmp_path, word, given, becomes):
    edited, _, added = changed(tmp_path, TRAINER.replace("GIVEN", given), word)
    assert (edited.line, added) == (2, f"args = TrainingArguments('out', {becomes})\n")


LIGHTNING = """class M:
    def train_dataloader(self):
        return DataLoader(ds)
    def val_dataloader(self):
        return DataLoader(test)
M()
"""


def test_another_optimizer_of_a_trainer_stays(tmp_path):
    assert refused(tmp_path, TRAINER.replace("GIVEN", "optim='adafactor'"), "fused") == (
        "train.py:2 has optim='adafactor'"
    )


@pytest.mark.parametrize(
    "text",
    [
        LIGHTNING,
        "mine, test = DataLoader(ds), DataLoader(test)\ntrainer.fit(model, mine, test)\n",
        "mine, test = DataLoader(ds), DataLoader(test)\ntrainer.fit(model, train_dataloaders=mine)\n",
    ],
)
def test_the_loader_of_a_lightning_training_is_found(tmp_path, text):
    _, _, added = changed(tmp_path, HEAD + text, "workers=2")
    assert f"DataLoader(ds, {WITH})" in added


def test_line_ends_encodings_and_a_missing_last_newline_stay(tmp_path):
    edited, _, added = changed(tmp_path, (HEAD + "x = DataLoader(\n    ds,\n)\n").replace("\n", "\r\n"), "workers=2")
    assert added == "    num_workers=2,\r\n    persistent_workers=True,\r\n"
    assert b"\n" not in edited.data.replace(b"\r\n", b"")
    latin = f"# -*- coding: latin-1 -*-\n{HEAD}x = 'é'; y = DataLoader(x)  # é".encode("latin-1")
    edited, _, added = changed(tmp_path, latin, "workers=2")
    assert added == f"x = 'é'; y = DataLoader(x, {WITH})  # é"
    bom = b"\xef\xbb\xbf" + f"{HEAD}DataLoader(x)\n".encode()
    assert changed(tmp_path, bom, "workers=2")[0].data.startswith(b"\xef\xbb\xbfimport torch\n")
    old = (HEAD + "DataLoader(x)\n").replace("\n", "\r").encode()
    assert changed(tmp_path, old, "threads=2")[0].data.count(b"\r") == old.count(b"\r") + 2


def test_what_is_no_python_is_refused(tmp_path):
    assert "cannot be read as Python" in refused(tmp_path, "def (:\n", "workers=2")
    assert "cannot be read as Python" in refused(tmp_path, b"x = '\xff'\n", "workers=2")
    assert "cannot be read as Python" in refused(tmp_path, "x = " + "(" * 5000 + ")" * 5000, "workers=2")
