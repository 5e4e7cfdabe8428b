"""The scripts that bench/attach.py watches; each prints one line of JSON."""

PHASES = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0); torch.set_num_threads(1)
now = time.monotonic_ns
own = {"data_wait_s": 0, "forward_backward_s": 0, "optimizer_s": 0, "outside_s": 0}
def spin(ms):
    end = now() + int(ms * 1e6)
    while now() < end: pass
class Items(Dataset):
    def __len__(self): return 400
    def __getitem__(self, i): spin(0.5); return torch.ones(4)
class Slow(torch.optim.SGD):
    def step(self, closure=None): spin(1.0); return super().step(closure)
class Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): spin(2.0); return x * 1
    @staticmethod
    def backward(ctx, g): spin(1.5); return g
model = torch.nn.Linear(4, 1); opt = Slow(model.parameters(), lr=0.01); opt.step()
feed = iter(DataLoader(Items(), batch_size=4)); next(feed); count = 0
for epoch in range(3):
    feed = iter(DataLoader(Items(), batch_size=4))
    while True:
        a = now()
        try: x = next(feed)
        except StopIteration: break
        b = now()
        Wait.apply(model(x)).sum().backward()
        c = now(); opt.step()
        d = now(); opt.zero_grad(); time.sleep(0.0008)
        e = now()
        for name, part in zip(own, (b - a, c - b, d - c, e - d)): own[name] += part
        count += 1
import json; print(json.dumps({name: part / 1e9 for name, part in own.items()}))
"""
HOOKS = """
import json, random, sys, time, torch
from functools import wraps
from torch.utils.data import DataLoader, TensorDataset, dataloader
torch.manual_seed(0); torch.set_num_threads(1)
BLOCK, ROUNDS = 200, int(sys.argv[1])
model = torch.nn.Linear(4, 1); opt = torch.optim.SGD(model.parameters(), lr=0.01)
feed = DataLoader(TensorDataset(torch.ones(BLOCK, 4)), batch_size=1)
it, now = dataloader._BaseDataLoaderIter, time.thread_time_ns
on = (it.__next__, torch.autograd.backward, torch.optim.SGD.step)
off = tuple(hook.__wrapped__ for hook in on)
def empty(function):
    @wraps(function)
    def called(*given, **named): return function(*given, **named)
    return called
ways = {
    "without": off, "hooks": on, "without again": off, "three empty functions": tuple(map(empty, off)),
    "fetch": (on[0], *off[1:]), "backward": (off[0], on[1], off[2]), "step": (*off[:2], on[2]),
}
def set_hooks(fetch, backward, step):
    it.__next__, torch.autograd.backward, torch.optim.SGD.step = fetch, backward, step
def block():
    times = [now()]
    for (x,) in feed:
        model(x).sum().backward(); opt.step(); opt.zero_grad(); times.append(now())
    each = sorted(b - a for a, b in zip(times, times[1:]))
    return each[BLOCK // 2] / 1e3
found = {name: [] for name in ways}
for _ in range(ROUNDS):
    times = {}
    for name in random.sample(list(ways), len(ways)):
        set_hooks(*ways[name]); block(); times[name] = block()
    for name in ways: found[name].append(times[name] - (name != "without") * times["without"])
set_hooks(*on)
print(json.dumps(found))
"""
MILLION = """
import json, resource, sys, torch
torch.set_num_threads(1)
p = torch.nn.Parameter(torch.ones(1)); opt = torch.optim.SGD([p], lr=1e-9)
def memory(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(int(sys.argv[1])):
    p.sum().backward(); opt.step(); opt.zero_grad()
    if i == 2000: first = memory()
print(json.dumps((memory() - first) / 1024))
"""
STARTS = """
import json, os, subprocess, sys, time
def start(watched):
    env = dict(os.environ) if watched else {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    a = time.monotonic(); subprocess.run([sys.executable, '-c', 'pass'], env=env)
    return (time.monotonic() - a) * 1e3
print(json.dumps([start(True) - start(False) for _ in range(int(sys.argv[1]))]))
"""
