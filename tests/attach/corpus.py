"""Small scripts as people write them: how each is started, what it prints, and how many iterations it really has.

Each prints, last of all, a digest of its weights. `iterations` is counted by reading the script, not by watching it;
None means that laptime must say that it did not see them.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import hashlib, os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
X, Y = torch.randn(96, 8), torch.randint(0, 3, (96,))
def net(): return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
def loss_of(model, x, y): return nn.functional.cross_entropy(model(x), y)
def loader(size=8, **more): return DataLoader(TensorDataset(X, Y), batch_size=size, shuffle=True, **more)
def digest(*models):
    bits = b"".join(p.detach().numpy().tobytes() for m in models for p in m.parameters())
    print("digest", hashlib.sha256(bits).hexdigest()[:16], flush=True)
"""
SGD = "model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
STEP = "loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()"
PLAIN = f"""{HEAD}{SGD}
def main():
    for epoch in range(2):
        for x, y in loader():
            {STEP}
    digest(model)
"""
KERAS = """
import hashlib, os, sys
import numpy as np
import keras
keras.utils.set_random_seed(0)
X, Y = np.random.rand(96, 8).astype("float32"), np.random.randint(0, 3, 96)
def net(): return keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3)])
def compiled(model, **more):
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **more)
    return model
def digest(model):
    bits = b"".join(np.asarray(w).tobytes() for w in model.get_weights())
    print("digest", hashlib.sha256(bits).hexdigest()[:16], flush=True)
"""


@dataclass(frozen=True)
class Script:
    """One script. `{script}` in its command is where it was written, `{folder}` its folder."""

    source: str
    iterations: int | None
    command: tuple[str, ...] = ("python", "{script}")
    counted: str = "optimizer steps"
    processes: int = 1
    needs: tuple[str, ...] = ("torch",)
    environment: tuple[tuple[str, str], ...] = ()
    code: int = 0
    stdin: str = ""
    has_digest: bool = True


def _loop(body: str, before: str = SGD, after: str = "digest(model)") -> str:
    return f"{HEAD}{before}\n{body}\n{after}\n"


def _guarded(source: str) -> str:
    return f"{source}\nif __name__ == '__main__':\n    main()\n"


SCRIPTS = {
    "plain": Script(_guarded(PLAIN), 24),
    "no loader": Script(_loop(f"for step in range(30):\n    x, y = X[:8], Y[:8]\n    {STEP}"), 30),
    "zero first": Script(
        _loop("for x, y in loader():\n    opt.zero_grad(); loss_of(model, x, y).backward(); opt.step()"), 12
    ),
    "accumulates": Script(
        _loop(
            "for epoch in range(2):\n    for i, (x, y) in enumerate(loader()):\n        loss_of(model, x, y).backward()\n"
            "        if i % 4 == 3:\n            opt.step(); opt.zero_grad()"
        ),
        6,
    ),
    "accumulates without a loader": Script(
        _loop(
            "for i in range(24):\n    loss_of(model, X[:8], Y[:8]).backward()\n"
            "    if i % 3 == 2:\n        opt.step(); opt.zero_grad()"
        ),
        8,
    ),
    "two optimizers a batch": Script(
        _loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()\n"
            "    loss_of(other, x, y).backward(); opt2.step(); opt2.zero_grad()",
            SGD + "other = net(); opt2 = torch.optim.Adam(other.parameters())",
            "digest(model, other)",
        ),
        12,
    ),
    "two optimizers, no loader": Script(
        _loop(
            "for i in range(20):\n    loss_of(model, X, Y).backward(); opt.step(); opt.zero_grad()\n"
            "    loss_of(other, X, Y).backward(); opt2.step(); opt2.zero_grad()",
            SGD + "other = net(); opt2 = torch.optim.Adam(other.parameters())",
            "digest(model, other)",
        ),
        20,
    ),
    "critic steps five times": Script(
        _loop(
            "for x, y in loader():\n    for _ in range(5):\n"
            "        loss_of(other, x, y).backward(); opt2.step(); opt2.zero_grad()\n    " + STEP,
            SGD + "other = net(); opt2 = torch.optim.SGD(other.parameters(), lr=0.01)",
            "digest(model, other)",
        ),
        12,
    ),
    "two losses a step": Script(
        _loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward(); model(x).square().mean().backward()\n"
            "    opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "LBFGS": Script(
        _loop(
            "for x, y in loader(24):\n    def closure():\n        opt.zero_grad(); loss = loss_of(model, x, y)\n"
            "        loss.backward(); return loss\n    opt.step(closure)",
            "model = net(); opt = torch.optim.LBFGS(model.parameters(), max_iter=5)\n",
        ),
        4,
    ),
    "closure": Script(
        _loop(
            "for x, y in loader():\n    def closure():\n        opt.zero_grad(); loss = loss_of(model, x, y)\n"
            "        loss.backward(); return loss\n    opt.step(closure)"
        ),
        12,
    ),
    "subclass calls super": Script(
        _loop(
            f"for x, y in loader():\n    {STEP}",
            "class Mine(torch.optim.SGD):\n    def step(self, closure=None):\n        return super().step(closure)\n"
            "warm = net(); torch.optim.SGD(warm.parameters(), lr=0.1)\n"
            "model = net(); opt = Mine(model.parameters(), lr=0.1)\n",
        ),
        12,
    ),
    "step fails once": Script(
        _loop(
            "for i, (x, y) in enumerate(loader()):\n    loss_of(model, x, y).backward()\n    try:\n"
            "        opt.step(bad if i == 3 else None)\n    except ZeroDivisionError:\n        opt.step()\n    opt.zero_grad()",
            SGD + "def bad(): 1 / 0\n",
        ),
        12,
    ),
    "scaler skips": Script(
        _loop(
            "for i, (x, y) in enumerate(loader()):\n    loss = loss_of(model, x, y) * (float('inf') if i == 5 else 1.0)\n"
            "    scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()",
            SGD + "scaler = torch.amp.GradScaler('cpu')\n",
        ),
        12,
    ),
    "autocast": Script(
        _loop(
            "for x, y in loader():\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        loss = loss_of(model, x, y)\n"
            "    loss.backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "optimizer in backward": Script(
        _loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward()",
            "model = net()\nopts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}\n"
            "def update(p): opts[p].step(); opts[p].zero_grad()\n"
            "for p in model.parameters(): p.register_post_accumulate_grad_hook(update)\n",
        ),
        12,
    ),
    "optimizer in backward, no loader": Script(
        _loop(
            "for i in range(15):\n    loss_of(model, X, Y).backward()",
            "model = net()\nopts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}\n"
            "def update(p): opts[p].step(); opts[p].zero_grad()\n"
            "for p in model.parameters(): p.register_post_accumulate_grad_hook(update)\n",
        ),
        15,
    ),
    "updates by hand": Script(
        _loop(
            "for x, y in loader():\n    model.zero_grad(); loss_of(model, x, y).backward()\n    with torch.no_grad():\n"
            "        for p in model.parameters(): p -= 0.1 * p.grad",
            "model = net()\n",
        ),
        12,
        counted="backward passes",
    ),
    "updates by hand, long": Script(
        _loop(
            "for i in range(600):\n    model.zero_grad(); loss_of(model, X, Y).backward()\n    with torch.no_grad():\n"
            "        for p in model.parameters(): p -= 0.01 * p.grad",
            "model = net()\n",
        ),
        600,
        counted="backward passes",
    ),
    "checkpointed block": Script(
        _loop(
            "from torch.utils.checkpoint import checkpoint\nfor x, y in loader():\n"
            "    x.requires_grad_()\n    loss = nn.functional.cross_entropy(checkpoint(model, x, use_reentrant=True), y)\n"
            "    loss.backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "validates and saves": Script(
        _loop(
            f"for epoch in range(3):\n    for x, y in loader():\n        {STEP}\n    with torch.no_grad():\n"
            "        for x, y in DataLoader(TensorDataset(X, Y), batch_size=16): model(x)\n"
            "    torch.save(model.state_dict(), os.path.join(os.path.dirname(os.path.abspath(__file__)), 'w.pt'))"
        ),
        36,
    ),
    "validates inside of an epoch": Script(
        _loop(
            f"val = DataLoader(TensorDataset(X, Y), batch_size=16)\nfor i, (x, y) in enumerate(loader()):\n    {STEP}\n"
            "    if i % 4 == 3:\n        with torch.no_grad():\n            for a, b in val: model(a)"
        ),
        12,
    ),
    "leaves validation early": Script(
        _loop(
            f"val = DataLoader(TensorDataset(X, Y), batch_size=16)\nfor i, (x, y) in enumerate(loader()):\n    {STEP}\n"
            "    if i % 4 == 3:\n        for a, b in val:\n            model(a)\n            break"
        ),
        12,
    ),
    "keeps its batches": Script(
        _loop(f"kept = [batch for batch in loader()]\nfor epoch in range(3):\n    for x, y in kept:\n        {STEP}"),
        36,
    ),
    "never ends its loader": Script(
        _loop(
            "def forever():\n    while True:\n        yield from loader()\n"
            f"for i, (x, y) in zip(range(40), forever()):\n    {STEP}"
        ),
        40,
    ),
    "only evaluates": Script(_loop("with torch.no_grad():\n    for x, y in loader(): model(x)"), None),
    "never trains": Script("print('hello')\nimport json\nprint(json.dumps([1]))\n", None, needs=(), has_digest=False),
    "compiled": Script(
        _loop(
            "fast = torch.compile(model, backend='eager')\nfor x, y in loader():\n    loss_of(fast, x, y).backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "compiled optimizer": Script(
        _loop(
            "@torch.compile(backend='eager')\ndef update(): opt.step()\n"
            "for x, y in loader():\n    loss_of(model, x, y).backward(); update(); opt.zero_grad()"
        ),
        12,
    ),
    "workers by fork": Script(
        _guarded(PLAIN.replace("loader()", "loader(num_workers=2, multiprocessing_context='fork')")), 24
    ),
    "workers by spawn": Script(
        _guarded(
            PLAIN.replace("range(2)", "range(1)").replace(
                "loader()", "loader(num_workers=1, multiprocessing_context='spawn')"
            )
        ),
        12,
    ),
    "workers by forkserver": Script(
        _guarded(
            PLAIN.replace("range(2)", "range(1)").replace(
                "loader()", "loader(num_workers=1, multiprocessing_context='forkserver')"
            )
        ),
        12,
    ),
    "workers that stay": Script(
        _guarded(
            PLAIN.replace("for epoch", "feed = loader(num_workers=1, persistent_workers=True)\n    for epoch").replace(
                "in loader()", "in feed"
            )
        ),
        24,
    ),
    "trains in a fork": Script(
        _guarded(PLAIN + "\ndef child():\n    main_()\n")
        .replace("def main():", "def main_():")
        .replace(
            "if __name__ == '__main__':\n    main()",
            "if __name__ == '__main__':\n    pid = os.fork()\n    if pid == 0:\n        main_()\n        os._exit(0)\n    os.waitpid(pid, 0)",
        ),
        24,
    ),
    "trains in two processes": Script(
        PLAIN.replace("def main():", "def main(rank):").replace(
            "    digest(model)", "    time.sleep(rank)\n    digest(model)"
        )
        + "\nif __name__ == '__main__':\n    import torch.multiprocessing as mp\n    mp.spawn(main, nprocs=2)\n",
        24,
        processes=2,
    ),
    "leaves by os._exit": Script(
        _loop(f"for x, y in loader():\n    {STEP}", after="digest(model)\nos._exit(3)"), 12, code=3
    ),
    "raises": Script(
        _loop(f"for x, y in loader():\n    {STEP}", after="digest(model)\nraise SystemExit(7)"), 12, code=7
    ),
    "kills itself": Script(
        _loop(
            f"for x, y in loader():\n    {STEP}",
            after="digest(model)\ntime.sleep(0.4)\nx.sum().item()\nos.kill(os.getpid(), 15)",
        ),
        None,
        code=143,
    ),
    "reads stdin": Script(
        _loop(f"count = int(sys.stdin.readline())\nfor i in range(count):\n    x, y = X[:8], Y[:8]\n    {STEP}"),
        17,
        stdin="17\n",
    ),
    "changes folder": Script(_loop(f"os.chdir('/')\nfor x, y in loader():\n    {STEP}"), 12),
    "by -c": Script("", 12, command=("python", "-c", _loop(f"for x, y in loader():\n    {STEP}"))),
    "by -m": Script(_guarded(PLAIN), 24, command=("env", "-C", "{folder}", "python", "-m", "{module}")),
    "by a shell": Script(_guarded(PLAIN), 24, command=("sh", "-c", "echo before; python {script}; echo after")),
    "with -I": Script(_guarded(PLAIN), None, command=("python", "-I", "{script}")),
    "with a clean environment": Script(
        _guarded(PLAIN), None, command=("sh", "-c", 'env -i PATH="$PATH" HOME=/tmp "$(command -v python)" {script}')
    ),
    "changes PYTHONPATH": Script(_loop(f"os.environ['PYTHONPATH'] = ''\nfor x, y in loader():\n    {STEP}"), 12),
    "torchrun": Script(
        f"""{HEAD}
import torch.distributed as dist
dist.init_process_group('gloo')
{SGD}
ddp = nn.parallel.DistributedDataParallel(model)
for epoch in range(2):
    for x, y in loader(): {STEP.replace("loss_of(model", "loss_of(ddp")}
if dist.get_rank() == 0: digest(model)
dist.destroy_process_group()
""",
        24,
        command=("torchrun", "--standalone", "--nproc-per-node", "2", "{script}"),
        processes=2,
    ),
    "Keras": Script(
        KERAS + "model = compiled(net()); model.fit(X, Y, batch_size=8, epochs=2, verbose=0); digest(model)\n",
        24,
        counted="Keras batches",
        needs=("keras",),
    ),
    "Keras with validation": Script(
        KERAS
        + "model = compiled(net())\nmodel.fit(X, Y, batch_size=8, epochs=2, verbose=0, validation_data=(X, Y)); digest(model)\n",
        24,
        counted="Keras batches",
        needs=("keras",),
    ),
    "Keras with a train_step": Script(
        KERAS
        + """
class Mine(keras.Model):
    def __init__(self): super().__init__(); self.inner = net()
    def call(self, x, training=False): return self.inner(x)
    def train_step(self, *given): return super().train_step(*given)
model = compiled(Mine()); model.fit(X, Y, batch_size=8, epochs=2, verbose=0); digest(model)
""",
        24,
        counted="Keras batches",
        needs=("keras",),
    ),
    "JAX": Script(
        """
import hashlib, jax, jax.numpy as jnp
x = jnp.ones((8, 8)); w = jnp.ones((8, 3))
step = jax.jit(lambda w: w - 0.1 * jax.grad(lambda w: (x @ w).sum())(w))
for _ in range(20): w = step(w)
print("digest", hashlib.sha256(bytes(str(w.sum()), "ascii")).hexdigest()[:16], flush=True)
""",
        None,
        needs=("jax",),
    ),
    "Accelerate": Script(
        _loop(
            "for epoch in range(2):\n    for x, y in feed:\n        loss = loss_of(model, x, y); accelerator.backward(loss); opt.step(); opt.zero_grad()",
            "from accelerate import Accelerator\naccelerator = Accelerator(cpu=True)\n"
            + SGD
            + "model, opt, feed = accelerator.prepare(model, opt, loader())\n",
        ),
        24,
        needs=("torch", "accelerate"),
    ),
    "Hugging Face Trainer": Script(
        HEAD
        + """
import transformers
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 96
    def __getitem__(self, i): return {"x": X[i], "labels": Y[i]}
class Model(nn.Module):
    def __init__(self): super().__init__(); self.inner = net()
    def forward(self, x, labels):
        out = self.inner(x); return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}
model = Model()
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")
args = transformers.TrainingArguments(folder, num_train_epochs=2, per_device_train_batch_size=8, use_cpu=True,
    report_to=[], disable_tqdm=True, save_strategy="no", eval_strategy="epoch", logging_strategy="no")
transformers.Trainer(model, args, train_dataset=Rows(), eval_dataset=Rows()).train()
digest(model)
""",
        24,
        needs=("torch", "transformers", "accelerate"),
    ),
    "Lightning": Script(
        HEAD
        + """
import lightning
class Module(lightning.LightningModule):
    def __init__(self): super().__init__(); self.inner = net()
    def training_step(self, batch, i): return loss_of(self.inner, *batch)
    def validation_step(self, batch, i): self.inner(batch[0])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=0.1)
model = Module()
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(model, loader(), DataLoader(TensorDataset(X, Y), batch_size=16))
digest(model)
""",
        24,
        needs=("torch", "lightning"),
    ),
}
