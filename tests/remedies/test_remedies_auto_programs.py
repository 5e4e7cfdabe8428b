"""`laptime.auto` in programs as people write them: a script, watched or not; Accelerate, Lightning, Keras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from watcher import Watcher

import laptime
from house import on_all_cores
from laptime.model.errors import UsageError

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[2] / "examples" / "auto_loader.py"
HEAD = """
import json, multiprocessing, time, torch, warnings
from torch import nn
from torch.utils.data import DataLoader, Dataset
import laptime

torch.set_num_threads(1)

class Stored(Dataset):
    def __len__(self):
        return 801

    def __getitem__(self, index):
        time.sleep(0.0015)
        return torch.full((8,), float(index)), index % 5
"""


def run_script(folder, body):
    """Run a script to its end, and return what its last line says."""
    script = folder / "script.py"
    script.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=True, timeout=300, cwd=folder
    )
    return json.loads(ended.stdout.splitlines()[-1])


def test_the_example_finds_workers():
    """They are in its last line, and no process is left that it would wait for.

    It finds them in a second of the first lap. Where other tests had its cores in just that second, it may rightly keep
    what was given: then it is asked again.
    """
    single = {**os.environ, "OMP_NUM_THREADS": "1"}  # several threads wait for each other on busy cores
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=300, env=single,
            preexec_fn=on_all_cores,
        )  # fmt: skip
        *laps, said = ended.stdout.splitlines()
        assert [line.split(":")[0] for line in laps] == ["lap 1", "lap 2", "lap 3"]
        assert ended.stderr == ""
        if "times as fast as given" in said:
            break
        assert said.startswith("num_workers=0: the given settings stayed")
    assert "times as fast as given" in said
    assert int(said.removeprefix("num_workers=").split(":")[0].split(",")[0]) > 0


def test_accelerate_loads_through_it(tmp_path):
    """Wrapped after `prepare`: the loader that Accelerate made still delivers its batches, and knows the last one."""
    said = run_script(
        tmp_path,
        """
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        loader = laptime.auto(accelerator.prepare(DataLoader(Stored(), batch_size=4)))
        laps = [[batch[0][0, 0].item() for batch in loader] for lap in range(2)]
        print(json.dumps([laps, loader.end_of_dataloader, isinstance(loader, DataLoader), len(loader.chosen.tried)]))
        """,
    )
    assert said[:3] == [2 * [[float(each) for each in range(0, 801, 4)]], True, True]
    assert said[3] >= 2


def test_lightning_fits_with_it(tmp_path):
    """Its own sanity checks find a DataLoader."""
    said = run_script(
        tmp_path,
        """
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer, self.seen = nn.Linear(8, 5), []

            def training_step(self, batch, number):
                self.seen.append(batch[0][0, 0].item())
                return nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1e-6)

        module, loader = Module(), laptime.auto(DataLoader(Stored(), batch_size=4))
        lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
        ).fit(module, loader)
        print(json.dumps([module.seen, len(loader.chosen.tried)]))
        """,
    )
    assert said[0] == 2 * [float(each) for each in range(0, 801, 4)]
    assert said[1] >= 2


def test_a_trainer_trains_on_the_same_items(tmp_path):
    """In the order that it has without it, in both laps."""
    said = run_script(
        tmp_path,
        """
        from transformers import Trainer, TrainingArguments

        class Named(Stored):
            def __getitem__(self, index):
                inputs, label = super().__getitem__(index)
                return {"inputs": inputs, "labels": label}

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.seen = nn.Linear(8, 5), []

            def forward(self, inputs, labels):
                self.seen += inputs[:, 0].tolist()
                return {"loss": nn.functional.cross_entropy(self.layer(inputs), labels)}

        class AutoTrainer(Trainer):
            def get_train_dataloader(self):
                self.loader = laptime.auto(super().get_train_dataloader())
                return self.loader

        def train(kind):
            words = {"per_device_train_batch_size": 4, "num_train_epochs": 2, "save_strategy": "no", "use_cpu": True}
            arguments = TrainingArguments("out", seed=7, report_to=[], disable_tqdm=True, **words)
            trainer = kind(Model(), arguments, train_dataset=Named())
            trainer.train()
            return trainer

        plain, auto = train(Trainer), train(AutoTrainer)
        print()
        print(json.dumps([plain.model.seen, auto.model.seen, len(auto.loader.chosen.tried)]))
        """,
    )
    plain, ours, tried = said
    assert len(plain) == 2 * 801
    assert ours == plain
    assert tried >= 2


def test_two_ranks_each_load_their_part(tmp_path):
    """In step with each other, though each searches on its own."""
    said = run_script(
        tmp_path,
        """
        import os, torch.distributed as distributed
        from torch.utils.data import DistributedSampler

        def train(rank, queue):
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
            torch.set_num_threads(1)
            store = distributed.FileStore("store", 2)
            distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
            sampler = DistributedSampler(Stored(), shuffle=True)
            loader = laptime.auto(DataLoader(Stored(), batch_size=4, sampler=sampler))
            model = nn.parallel.DistributedDataParallel(nn.Linear(8, 5))
            seen = []
            for lap in range(2):
                sampler.set_epoch(lap)
                for inputs, targets in loader:
                    nn.functional.cross_entropy(model(inputs), targets).backward()
                    seen += inputs[:, 0].tolist()
            queue.put([seen, len(loader.chosen.tried)])
            distributed.destroy_process_group()

        if __name__ == "__main__":
            queue = multiprocessing.get_context("fork").Queue()
            ranks = [multiprocessing.get_context("fork").Process(target=train, args=(rank, queue)) for rank in range(2)]
            for each in ranks:
                each.start()
            found = [queue.get(timeout=200) for _ in ranks]
            for each in ranks:
                each.join(30)
            print(json.dumps([found, [each.exitcode for each in ranks]]))
        """,
    )
    ranks, codes = said
    assert codes == [0, 0]
    assert [len(seen) for seen, _ in ranks] == [2 * 401] * 2
    for lap in (slice(0, 401), slice(401, None)):
        assert {index for seen, _ in ranks for index in seen[lap]} == set(map(float, range(801)))
    assert all(tried >= 1 for _, tried in ranks)


def test_a_watched_script_shows_one_loader(tmp_path):
    """Each batch is one fetch of the one loader, whichever setting has loaded it."""
    script = tmp_path / "script.py"
    body = """
    loader = laptime.auto(DataLoader(Stored(), batch_size=4))
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for lap in range(3):
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    assert len(loader.chosen.tried) >= 2
    """
    script.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(script))
    assert ended.code == 0
    loop = answer["processes"][0]["loop"]
    assert loop["iterations"] == 3 * 201
    assert round(loop["per_iteration"]["fetches"], 2) == 1
    assert len(answer["processes"][0]["loaders"]) == 1


def test_what_keras_has_is_refused_with_its_own_way():
    """A PyDataset has workers of its own, and tf.data finds their number."""
    keras = pytest.importorskip("keras")

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return index

    with pytest.raises(UsageError) as raised:
        laptime.auto(Batches())
    assert "super().__init__(workers=" in raised.value.hint


def test_tf_data_is_refused_with_its_own_way():
    tensorflow = pytest.importorskip("tensorflow")
    with pytest.raises(UsageError) as raised:
        laptime.auto(tensorflow.data.Dataset.range(3))
    assert "AUTOTUNE" in raised.value.hint
