"""How many images a second each loader delivers on one core, next to the authors' own software on the same files.

    python bench/input.py                                  five rounds of all (some 6 minutes)
    python bench/input.py --rounds 1 --batches 5           a short try
    python bench/input.py --keras PYTHON                   an interpreter that has Keras, SciPy, Pillow and scikit-image

Each loader runs in a process of its own, bound to one core, on the same made files; a round takes all of them, every
other round in reverse order. The rate is per second of that process's processor time, so that what else runs here takes
nothing from it. All give floats from 0 to 1. Nothing is trained, and nothing decoded is kept from one lap to the next
(but where it says held). For scenes-cnn:
- `authors`: Keras's ImageDataGenerator with the published transforms (`bench/authors_input.py`);
- `published`: ours of the same, in one thread; it should cost what Keras's costs;
- `fast`: input=fast with the `images` extra (simplejpeg), `fast, Pillow alone`: without simplejpeg;
- `decode`: simplejpeg decoding whole pictures and nothing else: the limit of what any loader can reach;
- `fast, held`: the second lap, when decoded pictures are held in memory.
For plates-cnn: the authors' way with scikit-image and as input=published does it, ours, and the decoder alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from common import ROOT, Figure, WorkerError, figure_of, finish, fresh_home, parser_for, run_json
from laptime.engine.pipelines import LoaderJob, make_job
from laptime.engine.pipelines.decode import OneByOneLoader
from laptime.engine.pipelines.fast import LoaderThreads
from laptime.model.ask import DataSource
from laptime.model.stats import median, paired_ratio
from laptime.trainings.data import make_source
from laptime.trainings.workloads import find_workload

KERAS = ROOT / ".venv-bench" / "bin" / "python"
AUTHORS = Path(__file__).resolve().parent / "authors_input.py"
ITEMS = {"scenes-cnn": 1600, "plates-cnn": 3200}
WARM_BATCHES = 2
ALPHA = 0.05
KINDS = (
    "scenes authors",
    "plates authors",
    "scenes published",
    "scenes fast",
    "scenes fast, Pillow alone",
    "scenes decode",
    "scenes fast, held",
    "plates published",
    "plates fast",
    "plates decode",
)
LIMITS = (
    ("scenes fast", "scenes authors", 6.0),
    ("scenes fast, Pillow alone", "scenes authors", 3.0),
    ("scenes published", "scenes authors", None),
    ("scenes fast", "scenes decode", None),
    ("scenes fast, held", "scenes authors", None),
    ("plates fast", "plates authors", 5.0),
    ("plates fast", "plates published", None),
    ("plates published", "plates authors", None),
    ("plates fast", "plates decode", None),
)


def run_kind(kind: str, sources: dict[str, DataSource], given: argparse.Namespace) -> float:
    """Measure one loader in a process of its own, bound to the last core."""
    core = str(max(os.sched_getaffinity(0)))
    source = sources["scenes-cnn" if kind.startswith("scenes") else "plates-cnn"]
    if "authors" in kind:
        words = [str(given.keras), str(AUTHORS), kind.split(maxsplit=1)[0], str(Path(source.folder) / "train")]
        words += ["--batches", str(given.batches)]
        return float(run_json(["taskset", "-c", core, *words])["images_s"])
    order = json.dumps({"kind": kind, "batches": given.batches, "source": msgspec.to_builtins(source)})
    told = run_json(["taskset", "-c", core, sys.executable, __file__, "--worker"], said=order)
    return float(told["images_s"])


def work() -> int:
    """Be the process of one loader."""
    order = json.load(sys.stdin)
    kind: str = order["kind"]
    source = msgspec.convert(order["source"], DataSource)
    workload = find_workload("scenes-cnn" if kind.startswith("scenes") else "plates-cnn")
    job = replace(make_job(workload, source, "train", 32, 0), held_bytes=0)
    if "Pillow alone" in kind:
        sys.modules["simplejpeg"] = None  # type: ignore[assignment]
    if "held" in kind:
        job = replace(job, held_bytes=1 << 30)
    take = decoding(job) if "decode" in kind else partial(next, batches(kind, job))
    laps = len(job.paths) // job.batch if "held" in kind else WARM_BATCHES
    for _ in range(laps):
        take()
    begun = time.process_time()
    for _ in range(order["batches"]):
        take()
    took_s = time.process_time() - begun
    print(json.dumps({"images_s": order["batches"] * job.batch / took_s}))
    return 0


def batches(kind: str, job: LoaderJob) -> Iterator[Any]:
    pipeline = OneByOneLoader(job, 0) if "published" in kind else LoaderThreads(job, 1, 0)
    floats = np.empty((job.batch, job.height, job.width, 3), np.float32)
    while True:
        images, labels = pipeline()
        yield np.multiply(images, np.float32(1 / 255), out=floats) if "fast" in kind else images, labels


def decoding(job: LoaderJob) -> Callable[[], None]:
    """Return the function that decodes as many files as a batch has, whole, and does nothing with them."""
    import simplejpeg

    place = 0

    def take() -> None:
        nonlocal place
        for path in job.paths[place : place + job.batch]:
            simplejpeg.decode_jpeg(Path(path).read_bytes(), "RGB")
        place = (place + job.batch) % (len(job.paths) - job.batch)

    return take


def list_figures(seen: dict[str, list[float]]) -> list[Figure]:
    figures = [Figure(f"{kind}, median", median(seen[kind]), "images/s") for kind in KINDS]
    for kind, reference, least in LIMITS:
        # The ratio of rates is that of times turned round.
        times = paired_ratio([1 / rate for rate in seen[kind]], [1 / rate for rate in seen[reference]], ALPHA)
        limits = {} if least is None else {"least": least}
        figures.append(figure_of(f"{kind} over {reference}", times, "times", **limits))
    return figures


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--keras", type=Path, default=KERAS, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=40, help="of 32 images, timed in each process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return work()
    if not given.keras.exists():
        parser.error(f"there is no {given.keras}; `make bench` makes it, or name one that has Keras with --keras")
    seen: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with fresh_home():
        sources = {name: make_source(find_workload(name), count, print) for name, count in ITEMS.items()}
        for number in range(given.rounds):
            for kind in KINDS[:: -1 if number % 2 else 1]:
                try:
                    seen[kind].append(run_kind(kind, sources, given))
                except WorkerError as error:
                    return finish("input", [Figure(f"{kind}: {error}", None, least=0)], given.out)
        sizes = {name: average_bytes(source) for name, source in sources.items()}
    return finish("input", list_figures(seen), given.out, details={"images_s": seen, "bytes a file": sizes})


def average_bytes(source: DataSource) -> float:
    files = [path for path in Path(source.folder).rglob("*.jpg") if path.is_file()]
    return sum(path.stat().st_size for path in files) / max(1, len(files))


if __name__ == "__main__":
    sys.exit(main())
