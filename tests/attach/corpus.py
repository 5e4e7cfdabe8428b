"""Small scripts as people write them: how each is started, what it prints, and how many iterations it really has.

Each prints, last of all, a digest of its weights. `iterations` is counted by reading the script, not by watching it;
None means that laptime must say that it did not see them, or is not sure.
"""

from __future__ import annotations

from corpus_loops import LOOPS
from corpus_script import HEAD, KERAS, PLAIN, SGD, STEP, Script, guarded, loop

PROGRAMS = {
    "workers by fork": Script(
        guarded(PLAIN.replace("loader()", "loader(num_workers=2, multiprocessing_context='fork')")), 24
    ),
    "workers by spawn": Script(
        guarded(
            PLAIN.replace("range(2)", "range(1)").replace(
                "loader()", "loader(num_workers=1, multiprocessing_context='spawn')"
            )
        ),
        12,
    ),
    "workers by forkserver": Script(
        guarded(
            PLAIN.replace("range(2)", "range(1)").replace(
                "loader()", "loader(num_workers=1, multiprocessing_context='forkserver')"
            )
        ),
        12,
    ),
    "workers that stay": Script(
        guarded(
            PLAIN.replace("for epoch", "feed = loader(num_workers=1, persistent_workers=True)\n    for epoch").replace(
                "in loader()", "in feed"
            )
        ),
        24,
    ),
    "trains in a fork": Script(
        guarded(PLAIN + "\ndef child():\n    main_()\n")
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
        loop(f"for x, y in loader():\n    {STEP}", after="digest(model)\nos._exit(3)"), 12, code=3
    ),
    "raises": Script(
        loop(f"for x, y in loader():\n    {STEP}", after="digest(model)\nraise SystemExit(7)"), 12, code=7
    ),
    "kills itself": Script(
        loop(
            f"for x, y in loader():\n    {STEP}",
            after="digest(model)\ntime.sleep(0.4)\nx.sum().item()\nos.kill(os.getpid(), 15)",
        ),
        None,
        code=143,
    ),
    "reads stdin": Script(
        loop(f"count = int(sys.stdin.readline())\nfor i in range(count):\n    x, y = X[:8], Y[:8]\n    {STEP}"),
        17,
        stdin="17\n",
    ),
    "changes folder": Script(loop(f"os.chdir('/')\nfor x, y in loader():\n    {STEP}"), 12),
    "by -c": Script("", 12, command=("python", "-c", loop(f"for x, y in loader():\n    {STEP}"))),
    "by -m": Script(guarded(PLAIN), 24, command=("env", "-C", "{folder}", "python", "-m", "{module}")),
    "by a shell": Script(guarded(PLAIN), 24, command=("sh", "-c", "echo before; python {script}; echo after")),
    "with -I": Script(guarded(PLAIN), None, command=("python", "-I", "{script}")),
    "with a clean environment": Script(
        guarded(PLAIN), None, command=("sh", "-c", 'env -i PATH="$PATH" HOME=/tmp "$(command -v python)" {script}')
    ),
    "changes PYTHONPATH": Script(loop(f"os.environ['PYTHONPATH'] = ''\nfor x, y in loader():\n    {STEP}"), 12),
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
    "Keras fits several times": Script(
        KERAS
        + """
given = dict(batch_size=8, verbose=0, validation_data=(X, Y), validation_batch_size=48)
model = compiled(net()); model.fit(X, Y, epochs=2, **given); model.evaluate(X, Y, verbose=0); model.fit(X, Y, **given)
other = compiled(net()); other.fit(X, Y, batch_size=32, verbose=0); digest(model)
""",
        36,
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
        loop(
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


SCRIPTS = {**LOOPS, **PROGRAMS}
