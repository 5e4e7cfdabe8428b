"""Causes, each planted in a copy of a published script by an edit. The copy without it is the remedy, or `remedy` is."""
# ruff: noqa: E501

from __future__ import annotations

from strangers.nouns import Edit, Plant

WAITS, OUTSIDE, READS, BETWEEN = (
    "script waits for data", "script outside the step", "script reads in each step", "script between iterations",
)  # fmt: skip
LINE, LINE_WAITS, NO_GRAD = "script line", "script waits in a line", "script without gradients"
LOOP, DISK = "script loop", "script waits for the disk"
STEP = "        optimizer.step()\n"
DEEP = ("--max-steps", "190", "--num-workers", "1", "--n-layer", "24", "--n-embd", "16", "--n-head", "2", "-b", "8")
MAKEMORE_ADAM = "betas=(0.9, 0.99), eps=1e-8)"
NANOGPT_SEED = "torch.backends.cuda.matmul.allow_tf32 = True # allow tf32 on matmul\n"
YUNJEY_TOP = "# Device configuration\n"


def after_step(line: str, *, before: str = STEP) -> Edit:
    """Return the edit that puts a line behind the step of the optimizer."""
    return Edit(before, f"{before}        {line}\n")


PLANT_ROWS = (
    # Data
    Plant("images decoded by the training's process", "examples/super_resolution", (), (WAITS,),
          "    img = Image.open(filepath).convert('YCbCr')",
          lines=("        input = load_img(", "            input = self.input_transform"),
          line_file="dataset.py",
          cause_arguments=("--upscale_factor", "3", "--batchSize", "2", "--nEpochs", "3", "--threads", "0")),
    Plant("workers start again each epoch", "examples/vae",
          (Edit("kwargs = {'num_workers': 1, 'pin_memory': True} if use_accel else {}", "kwargs = {'num_workers': 2}"),),
          ("script restarts workers",), "    for batch_idx, (data, _) in enumerate(train_loader):",
          lines=("train_loader = torch.utils.data.DataLoader(", "kwargs = {'num_workers'"),
          remedy=(Edit("kwargs = {'num_workers': 1, 'pin_memory': True} if use_accel else {}",
                       "kwargs = {'num_workers': 2, 'persistent_workers': True}"),),
          arguments=("--epochs", "14"), items=(1280, 128), measure="whole_s"),
    Plant("too many workers", "beginner/network",
          (Edit("train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)",
                "train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True, num_workers=16)"),),
          ("script too many workers", "script restarts workers", WAITS), "train_loader = DataLoader(",
          lines=("    for i, data in enumerate(train_loader, 1):",),
          items=(3200, 200), measure="whole_s"),
    Plant("a manifest parsed for each item", "makemore",
          (Edit("import os\nimport sys\n", "import json\nimport os\nimport sys\n"),
           Edit("        self.max_word_length = max_word_length\n",
                "        self.max_word_length = max_word_length\n        self.manifest = json.dumps(words)\n"),
           Edit("        word = self.words[idx]\n", "        word = json.loads(self.manifest)[idx]\n")),
          (WAITS,), "        word = json.loads(self.manifest)[idx]",
          arguments=("--max-steps", "190", "--num-workers", "0")),
    Plant("batches put together in Python", "beginner/network",
          (Edit("train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)",
                "def collate(rows):\n"
                "    images = torch.tensor([image.flatten().tolist() for image, _ in rows])\n"
                "    return images, torch.tensor([label for _, label in rows])\n\n"
                "train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True, collate_fn=collate)"),),
          (WAITS,), "    images = torch.tensor([image.flatten()"),
    Plant("a slow augmentation", "yunjey/resnet",
          (Edit("    transforms.RandomHorizontalFlip(),\n",
                "    transforms.RandomHorizontalFlip(),\n"
                "    transforms.Lambda(lambda image: image.resize((160, 160), 3).rotate(7, 3).resize((40, 40), 3)),\n"),),
          (WAITS,), "    transforms.Lambda(", items=(900, 50)),
    # What a step does besides
    Plant("weights as lists each step", "yunjey/feedforward",
          (after_step("history = [value.cpu().detach().numpy().tolist() for value in model.parameters()]"),),
          (LINE, OUTSIDE, READS), "        history = ["),
    Plant("fsync of a log", "graykode/TextLSTM",
          (Edit("import numpy as np\n", "import os\nimport numpy as np\n"),
           Edit("    # Training\n", "    log = open('log.txt', 'a')\n    # Training\n"),
           Edit(STEP, f"{STEP}        log.write(f'{{epoch}}\\n')\n        log.flush()\n        os.fsync(log.fileno())\n")),
          (DISK, LINE), "        os.fsync("),
    Plant("a checkpoint each step", "nanoGPT",
          (Edit("    iter_num += 1\n",
                "    iter_num += 1\n    torch.save([model.state_dict(), optimizer.state_dict()], 'often.pt')\n"),),
          ("script saves in its steps",), "    torch.save([model"),
    Plant("a checkpoint with fsync each epoch", "examples/mnist",
          (Edit("        scheduler.step()\n",
                "        scheduler.step()\n        with open('epoch.pt', 'wb') as file:\n"
                "            for _ in range(8):\n"
                "                torch.save([model.state_dict(), optimizer.state_dict()], file)\n"
                "            __import__('os').fsync(file.fileno())\n"),),
          (BETWEEN, "script saves in its steps"), "                torch.save([model",
          lines=("            __import__('os').fsync", "            for _ in range(8)"),
          arguments=("--epochs", "12"), items=(320, 64), measure="whole_s"),
    Plant("a test set larger than the training", "examples/mnist", (), (BETWEEN,), "        test(model, device, test_loader)",
          lines=("        for data, target in test_loader:", "            output = model(data)\n            test_loss",
                 "    model.eval()\n    test_loss"),
          remedy=(Edit("        test(model, device, test_loader)", "        epoch % 5 or test(model, device, test_loader)"),),
          arguments=("--epochs", "5"), items=(1280, 6000), measure="whole_s"),
    Plant("validation every ten steps", "makemore",
          (Edit("if step > 0 and step % 500 == 0:", "if step > 0 and step % 10 == 0:"),), (NO_GRAD, BETWEEN),
          "        logits, loss = model(X, Y)\n        losses.append", lines=("            train_loss = evaluate(",),
          arguments=("--max-steps", "190", "--num-workers", "1"), measure="whole_s"),
    Plant("an image saved each step", "gan/gan", (), (OUTSIDE, LINE, LINE_WAITS), "            save_image(gen_imgs",
          arguments=("--n_epochs", "2"), cause_arguments=("--n_epochs", "2", "--sample_interval", "1")),
    Plant("a wait for a server", "yunjey/birnn", (after_step("__import__('time').sleep(0.02)"),),
          (LINE_WAITS, OUTSIDE, LINE), "        __import__('time')"),
    Plant("a loop over array elements", "graykode/TextLSTM",
          (Edit(STEP, f"{STEP}        total = 0.0\n        for value in model.lstm.weight_hh_l0.detach().numpy().ravel():\n"
                      "            total += float(value) ** 2\n"),),
          (LOOP, OUTSIDE), "            total += float(value)", lines=("        for value in model.lstm",)),
    Plant("a norm of each gradient, read", "makemore",
          (Edit("        loss.backward()\n",
                "        loss.backward()\n"
                "        norms = [value.grad.norm().item() for value in model.parameters() for _ in range(3)]\n"),),
          (READS, OUTSIDE, LINE, LOOP), "        norms = [", arguments=DEEP),
    Plant("each gradient clipped alone", "makemore",
          (Edit("        loss.backward()\n",
                "        loss.backward()\n        for value in model.parameters():\n"
                "            torch.nn.utils.clip_grad_norm_([value], 1.0)\n"),),
          (LOOP, OUTSIDE), "            torch.nn.utils.clip", lines=("        for value in model.parameters():\n            torch.nn",),
          arguments=DEEP),
    Plant("statistics of all weights each step", "examples/mnist",
          (after_step("spread = [value.detach().flatten().sort().values[::999].tolist() for value in model.parameters()]"),),
          (LINE, OUTSIDE, READS), "        spread = ["),
    Plant("weights copied each step", "gan/gan",
          (Edit("        optimizer_D.step()\n",
                "        optimizer_D.step()\n"
                "        best = __import__('copy').deepcopy([generator.state_dict(), optimizer_G.state_dict()])\n"),),
          (LINE, OUTSIDE, "script copies"), "        best = "),
    Plant("gc.collect each step", "graykode/TextLSTM", (after_step("__import__('gc').collect()"),),
          (LINE, OUTSIDE), "        __import__('gc')"),
    Plant("accuracy in Python", "yunjey/feedforward",
          (after_step("right = sum(int(a == b) for a, b in zip(outputs.argmax(1), labels) for _ in range(25))"),),
          (READS, OUTSIDE, LINE, LOOP), "        right = sum("),
    Plant("all weights written as JSON", "graykode/TextLSTM",
          (Edit(STEP.rstrip("\n"), f"{STEP}        with open('weights.json', 'w') as file:\n"
                "            __import__('json').dump([value.tolist() for value in model.parameters()], file)"),),
          (LINE, OUTSIDE, READS, DISK), "            __import__('json').dump"),
    # How a step computes
    Plant("Adam takes each of many tensors alone", "makemore", (), ("script optimizer",), "        optimizer.step()",
          lines=("    optimizer = torch.optim.AdamW(",),
          remedy=(Edit(MAKEMORE_ADAM, f"{MAKEMORE_ADAM[:-1]}, fused=True)"),), arguments=DEEP),
    Plant("one thread left in", "yunjey/conv", (Edit(YUNJEY_TOP, f"torch.set_num_threads(1)\n{YUNJEY_TOP}"),),
          ("script on one thread",), "torch.set_num_threads(1)"),
    Plant("batches of two", "yunjey/feedforward", (Edit("batch_size = 100\n", "batch_size = 2\n"),),
          ("script small batches",), "batch_size = 2", lines=("train_loader = ", "    for i, (images, labels)"),
          items=(2000, 200), measure="whole_s"),
    Plant("anomaly detection left on", "nanoGPT",
          (Edit(NANOGPT_SEED, f"torch.autograd.set_detect_anomaly(True)\n{NANOGPT_SEED}"),),
          ("script finds anomalies",), "torch.autograd.set_detect_anomaly(True)",
          lines=("        scaler.scale(loss).backward()",)),
    Plant("a thread keeps the interpreter", "gan/gan",
          (Edit("# Loss function\n",
                "def poll():\n    while True:\n        sum(range(1000))\n\n"
                "__import__('threading').Thread(target=poll, daemon=True).start()\n# Loss function\n"),),
          ("script lock held",), "        sum(range(1000))", lines=("__import__('threading')",),
          arguments=("--n_epochs", "1"), items=(1280, 100)),
    Plant("checkpointing that is not needed", "nanoGPT",
          (Edit("import inspect\n", "import inspect\nimport torch.utils.checkpoint\n", "model.py"),
           Edit("            x = block(x)\n",
                "            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)\n", "model.py")),
          ("script recomputes",), "            x = torch.utils.checkpoint", line_file="model.py"),
    Plant("sixty copies in forward", "examples/mnist",
          (Edit("        x = self.conv2(x)\n",
                "        for _ in range(60):\n            x = x.to(x.device).clone()\n        x = self.conv2(x)\n"),),
          ("script copies", "script loop"), "            x = x.to(", items=(6400, 100)),
    Plant("losses kept with their graphs", "examples/vae",
          (Edit("        train_loss += loss.item()\n", "        train_loss = train_loss + loss\n"),),
          ("script memory grows",), "        train_loss = train_loss + loss"),
    Plant("float64 by default", "yunjey/conv",
          (Edit(YUNJEY_TOP, f"torch.set_default_dtype(torch.float64)\n{YUNJEY_TOP}"),),
          ("script in float64",), "torch.set_default_dtype"),
    Plant("a row at a time in forward", "yunjey/feedforward",
          (Edit("        out = self.fc1(x)\n", "        out = torch.stack([self.fc1(row) for row in x])\n"),),
          (LOOP,), "        out = torch.stack("),
    Plant("oneDNN switched off", "yunjey/resnet",
          (Edit(YUNJEY_TOP, f"torch.backends.mkldnn.set_flags(False)\n{YUNJEY_TOP}"),),
          ("script without oneDNN",), "torch.backends.mkldnn", items=(900, 50)),
    # What starts again, and what was left on
    Plant("a loader that starts for each batch", "yunjey/feedforward",
          (Edit("                                           batch_size=batch_size, \n                                           shuffle=True)",
                "                                           batch_size=batch_size, \n                                           shuffle=True, num_workers=1)"),
           Edit("    for i, (images, labels) in enumerate(train_loader):  \n",
                "    for i in range(total_step):\n        images, labels = next(iter(train_loader))\n")),
          ("script restarts its loader",), "        images, labels = next(iter(", items=(3000, 200), measure="whole_s"),
    Plant("a loader that is made for each epoch", "beginner/network",
          (Edit("    running_loss = 0.0\n    running_acc = 0.0\n    for i, data",
                "    running_loss = 0.0\n    running_acc = 0.0\n"
                "    train_loader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True, num_workers=2)\n"
                "    for i, data"),),
          ("script restarts workers", WAITS), "    for i, data in enumerate(train_loader",
          lines=("    train_loader = DataLoader(", "train_loader = DataLoader("),
          remedy=(Edit("shuffle=True)\ntest_loader", "shuffle=True, num_workers=2, persistent_workers=True)\ntest_loader"),),
          items=(1280, 200), measure="whole_s"),
    Plant("PyTorch's profiler left on", "yunjey/feedforward",
          (Edit(YUNJEY_TOP, "import atexit\nprofiler = torch.profiler.profile()\nprofiler.start()\natexit.register(profiler.stop)\n" + YUNJEY_TOP),),
          ("script left on",), "profiler = torch.profiler.profile("),
    Plant("deterministic algorithms left on", "nanoGPT",
          (Edit(NANOGPT_SEED, f"torch.use_deterministic_algorithms(True)\n{NANOGPT_SEED}"),),
          ("script left on",), "torch.use_deterministic_algorithms("),
    Plant("tracemalloc left on", "yunjey/feedforward",
          (Edit(YUNJEY_TOP, "import tracemalloc\ntracemalloc.start(5)\n" + YUNJEY_TOP),),
          ("script left on",), "tracemalloc.start("),
    Plant("the process kept on one core", "yunjey/conv",
          (Edit(YUNJEY_TOP, "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + YUNJEY_TOP),),
          ("script left on", "script has too many threads"), "os.sched_setaffinity("),
)  # fmt: skip
PLANTS = {plant.name: plant for plant in PLANT_ROWS}
