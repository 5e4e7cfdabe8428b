"""Training loops of PyTorch as people write them."""

from __future__ import annotations

from corpus_script import PLAIN, SGD, STEP, Script, guarded, loop

LOOPS = {
    "plain": Script(guarded(PLAIN), 24),
    "no loader": Script(loop(f"for step in range(30):\n    x, y = X[:8], Y[:8]\n    {STEP}"), 30),
    "zero first": Script(
        loop("for x, y in loader():\n    opt.zero_grad(); loss_of(model, x, y).backward(); opt.step()"), 12
    ),
    "accumulates": Script(
        loop(
            "for epoch in range(2):\n    for i, (x, y) in enumerate(loader()):\n        loss_of(model, x, y).backward()\n"
            "        if i % 4 == 3:\n            opt.step(); opt.zero_grad()"
        ),
        6,
    ),
    "accumulates without a loader": Script(
        loop(
            "for i in range(24):\n    loss_of(model, X[:8], Y[:8]).backward()\n"
            "    if i % 3 == 2:\n        opt.step(); opt.zero_grad()"
        ),
        8,
    ),
    "two optimizers a batch": Script(
        loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()\n"
            "    loss_of(other, x, y).backward(); opt2.step(); opt2.zero_grad()",
            SGD + "other = net(); opt2 = torch.optim.Adam(other.parameters())",
            "digest(model, other)",
        ),
        12,
    ),
    "two optimizers, no loader": Script(
        loop(
            "for i in range(20):\n    loss_of(model, X, Y).backward(); opt.step(); opt.zero_grad()\n"
            "    loss_of(other, X, Y).backward(); opt2.step(); opt2.zero_grad()",
            SGD + "other = net(); opt2 = torch.optim.Adam(other.parameters())",
            "digest(model, other)",
        ),
        20,
    ),
    "critic steps five times": Script(
        loop(
            "for x, y in loader():\n    for _ in range(5):\n"
            "        loss_of(other, x, y).backward(); opt2.step(); opt2.zero_grad()\n    " + STEP,
            SGD + "other = net(); opt2 = torch.optim.SGD(other.parameters(), lr=0.01)",
            "digest(model, other)",
        ),
        12,
    ),
    "two losses a step": Script(
        loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward(); model(x).square().mean().backward()\n"
            "    opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "LBFGS": Script(
        loop(
            "for x, y in loader(24):\n    def closure():\n        opt.zero_grad(); loss = loss_of(model, x, y)\n"
            "        loss.backward(); return loss\n    opt.step(closure)",
            "model = net(); opt = torch.optim.LBFGS(model.parameters(), max_iter=5)\n",
        ),
        4,
    ),
    "closure": Script(
        loop(
            "for x, y in loader():\n    def closure():\n        opt.zero_grad(); loss = loss_of(model, x, y)\n"
            "        loss.backward(); return loss\n    opt.step(closure)"
        ),
        12,
    ),
    "subclass calls super": Script(
        loop(
            f"for x, y in loader():\n    {STEP}",
            "class Mine(torch.optim.SGD):\n    def step(self, closure=None):\n        return super().step(closure)\n"
            "warm = net(); torch.optim.SGD(warm.parameters(), lr=0.1)\n"
            "model = net(); opt = Mine(model.parameters(), lr=0.1)\n",
        ),
        12,
    ),
    "step fails once": Script(
        loop(
            "for i, (x, y) in enumerate(loader()):\n    loss_of(model, x, y).backward()\n    try:\n"
            "        opt.step(bad if i == 3 else None)\n    except ZeroDivisionError:\n        opt.step()\n    opt.zero_grad()",
            SGD + "def bad(): 1 / 0\n",
        ),
        12,
    ),
    "scaler skips": Script(
        loop(
            "for i, (x, y) in enumerate(loader()):\n    loss = loss_of(model, x, y) * (float('inf') if i == 5 else 1.0)\n"
            "    scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()",
            SGD + "scaler = torch.amp.GradScaler('cpu')\n",
        ),
        12,
    ),
    "autocast": Script(
        loop(
            "for x, y in loader():\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        loss = loss_of(model, x, y)\n"
            "    loss.backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "optimizer in backward": Script(
        loop(
            "for x, y in loader():\n    loss_of(model, x, y).backward()",
            "model = net()\nopts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}\n"
            "def update(p): opts[p].step(); opts[p].zero_grad()\n"
            "for p in model.parameters(): p.register_post_accumulate_grad_hook(update)\n",
        ),
        12,
    ),
    "optimizer in backward, no loader": Script(
        loop(
            "for i in range(15):\n    loss_of(model, X, Y).backward()",
            "model = net()\nopts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}\n"
            "def update(p): opts[p].step(); opts[p].zero_grad()\n"
            "for p in model.parameters(): p.register_post_accumulate_grad_hook(update)\n",
        ),
        15,
    ),
    "updates by hand": Script(
        loop(
            "for x, y in loader():\n    model.zero_grad(); loss_of(model, x, y).backward()\n    with torch.no_grad():\n"
            "        for p in model.parameters(): p -= 0.1 * p.grad",
            "model = net()\n",
        ),
        12,
        counted="backward passes",
    ),
    "updates by hand, long": Script(
        loop(
            "for i in range(600):\n    model.zero_grad(); loss_of(model, X, Y).backward()\n    with torch.no_grad():\n"
            "        for p in model.parameters(): p -= 0.01 * p.grad",
            "model = net()\n",
        ),
        600,
        counted="backward passes",
    ),
    "checkpointed block": Script(
        loop(
            "from torch.utils.checkpoint import checkpoint\nfor x, y in loader():\n"
            "    x.requires_grad_()\n    loss = nn.functional.cross_entropy(checkpoint(model, x, use_reentrant=True), y)\n"
            "    loss.backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "validates and saves": Script(
        loop(
            f"for epoch in range(3):\n    for x, y in loader():\n        {STEP}\n    with torch.no_grad():\n"
            "        for x, y in DataLoader(TensorDataset(X, Y), batch_size=16): model(x)\n"
            "    torch.save(model.state_dict(), os.path.join(os.path.dirname(os.path.abspath(__file__)), 'w.pt'))"
        ),
        36,
    ),
    "validates inside of an epoch": Script(
        loop(
            f"val = DataLoader(TensorDataset(X, Y), batch_size=16)\nfor i, (x, y) in enumerate(loader()):\n    {STEP}\n"
            "    if i % 4 == 3:\n        with torch.no_grad():\n            for a, b in val: model(a)"
        ),
        12,
    ),
    "leaves validation early": Script(
        loop(
            f"val = DataLoader(TensorDataset(X, Y), batch_size=16)\nfor i, (x, y) in enumerate(loader()):\n    {STEP}\n"
            "    if i % 4 == 3:\n        for a, b in val:\n            model(a)\n            break"
        ),
        12,
    ),
    "keeps its batches": Script(
        loop(f"kept = [batch for batch in loader()]\nfor epoch in range(3):\n    for x, y in kept:\n        {STEP}"),
        36,
    ),
    "never ends its loader": Script(
        loop(
            "def forever():\n    while True:\n        yield from loader()\n"
            f"for i, (x, y) in zip(range(40), forever()):\n    {STEP}"
        ),
        40,
    ),
    "only evaluates": Script(loop("with torch.no_grad():\n    for x, y in loader(): model(x)"), None),
    "never trains": Script("print('hello')\nimport json\nprint(json.dumps([1]))\n", None, needs=(), has_digest=False),
    "compiled": Script(
        loop(
            "fast = torch.compile(model, backend='eager')\nfor x, y in loader():\n    loss_of(fast, x, y).backward(); opt.step(); opt.zero_grad()"
        ),
        12,
    ),
    "compiled optimizer": Script(
        loop(
            "@torch.compile(backend='eager')\ndef update(): opt.step()\n"
            "for x, y in loader():\n    loss_of(model, x, y).backward(); update(); opt.zero_grad()"
        ),
        12,
    ),
}
