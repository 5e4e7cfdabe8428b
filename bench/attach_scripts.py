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
STEADY = """
import json, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0); torch.set_num_threads(1)
step_ms, count = float(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Linear(32, 8); opt = torch.optim.SGD(model.parameters(), lr=0.01)
feed = DataLoader(TensorDataset(torch.randn(8 * count, 32)), batch_size=8)
def work():
    a = torch.ones(64, 64); end = time.thread_time_ns() + int(step_ms * 1e6)
    while time.thread_time_ns() < end: a = a @ a.T * 0.01
times, last = [], None
for (x,) in feed:
    work(); model(x).sum().backward(); opt.step(); opt.zero_grad()
    now = time.thread_time_ns()
    if last is not None: times.append(now - last)
    last = now
print(json.dumps(sorted(times)[len(times) // 2] / 1e6))
"""
HOOKS = """
import json, statistics, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset, dataloader
torch.manual_seed(0); torch.set_num_threads(1)
BLOCK, PAIRS = 400, int(sys.argv[1])
model = torch.nn.Linear(4, 1); opt = torch.optim.SGD(model.parameters(), lr=0.01)
feed = DataLoader(TensorDataset(torch.ones(BLOCK, 4)), batch_size=1)
it = dataloader._BaseDataLoaderIter
on = (it.__next__, torch.autograd.backward, torch.optim.SGD.step)
off = tuple(hook.__wrapped__ for hook in on)
def set_hooks(fetch, backward, step):
    it.__next__, torch.autograd.backward, torch.optim.SGD.step = fetch, backward, step
def block():
    a = time.thread_time_ns()
    for (x,) in feed:
        model(x).sum().backward(); opt.step(); opt.zero_grad()
    return (time.thread_time_ns() - a) / BLOCK / 1e3
for _ in range(4): block()
found = []
for pair in range(PAIRS):
    times = {}
    for which in ((on, off) if pair % 2 else (off, on)):
        set_hooks(*which); times[which is on] = block()
    found.append(times[True] - times[False])
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
