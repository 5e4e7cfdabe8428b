"""The authors' loaders and ours give the same items with the same labels; ours does so from any number of workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import psutil
import pytest
from pictures import encoded, job_of, smooth, write_pictures

from laptime.engine.pipelines.decode import OneByOneLoader, QueuedLoader, read_plain, read_smoothed
from laptime.engine.pipelines.fast import LoaderProcesses, LoaderThreads, open_fast, open_read_by_workers
from laptime.engine.pipelines.job import BatchOrder
from laptime.engine.pipelines.making import NoRoomError, make_shared
from laptime.model.errors import LaneError, TrainingError
from long_cases import cases

PATHS = 22


@pytest.fixture
def paths(tmp_path):
    return write_pictures(tmp_path / "pictures", PATHS)


@pytest.fixture
def opened():
    """Return a way to open pipelines that are closed whatever happens."""
    open_ones = []

    def keep(pipeline):
        open_ones.append(pipeline)
        return pipeline

    yield keep
    for pipeline in open_ones:
        pipeline.close()


def batches(pipeline, count):
    return [tuple(each.copy() for each in pipeline()) for _ in range(count)]


def test_a_lap_shows_every_item_once_and_the_next_in_another_order():
    order = BatchOrder(20, 5, seed=1)
    first, second = ([order(number).tolist() for number in range(lap * 4, lap * 4 + 4)] for lap in (0, 1))
    assert sorted(chain(*first)) == sorted(chain(*second)) == list(range(20))
    assert first != second
    assert first == [BatchOrder(20, 5, seed=1)(number).tolist() for number in range(4)]
    assert first != [BatchOrder(20, 5, seed=2)(number).tolist() for number in range(4)]


def test_a_batch_larger_than_all_items_repeats_them():
    chosen = BatchOrder(3, 8, seed=0)(5).tolist()
    assert len(chosen) == 8
    assert set(chosen) == {0, 1, 2}


@pytest.mark.parametrize("turned", [False, True])
def test_ours_gives_what_the_authors_gives(paths, opened, turned):
    """The same items with the same labels and the same turns drawn: bytes that are the floats to a few gray levels."""
    job = job_of(paths, turned=turned, **({"height": 60, "width": 80} if turned else {}))
    theirs, ours = opened(OneByOneLoader(job, 0)), opened(LoaderThreads(job, 1, 0))
    for (floats, labels), (pixels, same) in zip(batches(theirs, 7), batches(ours, 7), strict=True):
        assert np.array_equal(labels, same)
        assert floats.dtype == np.float32
        assert 0 <= floats.min() <= floats.max() <= 1
        assert np.abs(floats * 255 - pixels).mean() < (5.0 if turned else 4.0)


def test_the_threads_of_the_generator_change_nothing_but_the_time(paths, opened):
    """Batches come in order, however many threads make them."""
    job = job_of(paths, turned=True)
    one, twelve = batches(opened(OneByOneLoader(job, 0)), 9), batches(opened(QueuedLoader(job, 0)), 9)
    for (images, labels), (others, same) in zip(one, twelve, strict=True):
        assert np.array_equal(images, others)
        assert np.array_equal(labels, same)


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_what_the_training_itself_would_make(paths, opened, workers):
    """In order and to the last bit, whichever process made them."""
    job = job_of(paths, turned=True)
    expected = batches(opened(LoaderThreads(job, 2, 0)), 12)
    made = batches(opened(LoaderProcesses(job, workers, 0)), 12)
    for (images, labels), (others, same) in zip(expected, made, strict=True):
        assert np.array_equal(images, others)
        assert np.array_equal(labels, same)


@pytest.mark.parametrize(("way", "workers"), cases(("plain", 2), ("smoothed", 1), long=[("turned", 3)]))
def test_workers_read_as_the_authors_did(paths, opened, way, workers):
    """Floats, in order and to the last bit, from the fifth batch on; a batch that is kept stays what it was."""
    job = job_of(paths, turned=way == "turned")
    expected = batches(opened(OneByOneLoader(job, 4, read_plain if way == "plain" else read_smoothed)), 12)
    pipeline = opened(open_read_by_workers(replace(job, way="plain" if way == "plain" else "smoothed"), workers, 4))
    made = [(images, labels.copy()) for images, labels in (pipeline() for _ in range(12))]
    assert not pipeline.holds
    for (images, labels), (others, same) in zip(expected, made, strict=True):
        assert (images.dtype, others.dtype) == (np.float32, np.float32)
        assert np.array_equal(images, others)
        assert np.array_equal(labels, same)


def test_workers_for_whose_batches_there_is_no_memory_are_refused(paths):
    """Threads would be another remedy than the one that is asked for."""
    job = replace(job_of(paths), batch=1 << 30, way="plain")
    with pytest.raises(LaneError, match=r"workers=2: .* of shared memory"):
        open_read_by_workers(job, 2, 0)


def test_a_training_that_goes_on_begins_where_it_left_off(paths, opened):
    """Batch number five is the same, whether four came before it or none."""
    job = job_of(paths, turned=True)
    whole = batches(opened(LoaderThreads(job, 1, 0)), 8)
    others = (LoaderThreads(job, 1, 5), LoaderProcesses(job, 2, 5), QueuedLoader(job, 5), OneByOneLoader(job, 5))
    for pipeline in others:
        images, labels = opened(pipeline)()
        assert np.array_equal(labels, whole[5][1])
        if images.dtype == np.uint8:
            assert np.array_equal(images, whole[5][0])


@pytest.mark.parametrize(("workers", "turned"), [(0, False), (0, True), (2, False), (2, True)])
def test_what_was_decoded_once_is_held_in_memory(paths, opened, workers, turned):
    """After the first lap no file is opened any more: they may even be gone."""
    job = job_of(paths[:8], turned=turned, held_bytes=8 * (60 * 80 * 3 + 32))
    pipeline = opened(open_fast(replace(job, held_bytes=2 * job.held_bytes), workers, 0))
    batches(pipeline, 8)
    for path in paths[:8]:
        Path(path).unlink()
    expected = {tuple(labels[:, 0].tolist()) for _, labels in batches(pipeline, 6)}
    assert expected
    assert pipeline.notes() == ()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_repeated_where_their_pictures_are_held(paths, opened, workers):
    """Once those that were ready are used up, only batches come that came before, in their order."""
    job = job_of(paths, turned=True, held_bytes=2 * len(paths) * (60 * 80 * 3 + 32))
    pipeline = opened(open_fast(job, workers, 5))
    assert pipeline.holds
    seen = batches(pipeline, 3)
    pipeline.repeat()
    batches(pipeline, pipeline.ready_batches)
    again = batches(pipeline, 6)
    places = [next(place for place, each in enumerate(seen) if np.array_equal(each[0], images)) for images, _ in again]
    begin = pipeline.ready_batches % 3
    assert places == [(begin + place) % 3 for place in range(6)]


@pytest.mark.parametrize("pipeline", [OneByOneLoader, QueuedLoader])
def test_the_authors_loaders_hold_nothing(paths, opened, pipeline):
    assert not opened(pipeline(job_of(paths), 0)).holds


def test_spoilt_files_are_passed_over_counted_and_named(paths, opened, tmp_path):
    """The next sound one takes the place; the note says which and why."""
    (tmp_path / "pictures" / "003.jpg").write_bytes(b"no picture")
    authors = open_read_by_workers(replace(job_of(paths), way="plain"), 2, 0)
    own = (LoaderThreads(job_of(paths), 2, 0), LoaderProcesses(job_of(paths), 2, 0))
    for pipeline in (*own, OneByOneLoader(job_of(paths), 0), authors):
        batches(opened(pipeline), 6)
        (note,) = pipeline.notes()
        assert note.startswith(f"left out 1 of {PATHS} images: ")
        assert "003.jpg cannot be decoded" in note


@pytest.mark.parametrize("kind", ["threads", "processes", "published", "queued", "workers"])
def test_too_many_spoilt_files_end_the_training_in_words(paths, opened, kind):
    """Three of twenty-two may be damaged, not five."""
    for path in paths[:5]:
        Path(path).write_bytes(encoded(smooth(0, 1, 1)))
    opening = {"threads": lambda job: LoaderThreads(job, 1, 0), "processes": lambda job: LoaderProcesses(job, 1, 0),
               "published": lambda job: OneByOneLoader(job, 0), "queued": lambda job: QueuedLoader(job, 0),
               "workers": lambda job: open_read_by_workers(replace(job, way="smoothed"), 2, 0)}  # fmt: skip
    pipeline = opened(opening[kind](job_of(paths)))
    with pytest.raises(TrainingError, match=r"[45] of 22 images cannot be used: .*is only 1x1 pixels.*and [12] more"):
        batches(pipeline, 12)


def loader_workers() -> list[psutil.Process]:
    """Return this process's loader workers; Python may have started helpers of its own as well."""
    return [child for child in psutil.Process().children() if "laptime.engine.pipelines.worker" in child.cmdline()]


def test_a_worker_that_is_killed_is_named_and_nothing_hangs(paths):
    pipeline = LoaderProcesses(job_of(paths), 2, 0)
    try:
        pipeline()
        child = loader_workers()[-1]
        child.send_signal(signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(LaneError, match=r"loader worker \d of 2 was ended by SIGKILL before batch \d+ was made"):
            batches(pipeline, 20)
        assert time.monotonic() - began < 5
    finally:
        pipeline.close()


def test_workers_are_gone_when_the_pipeline_is_closed(paths):
    pipeline = LoaderProcesses(job_of(paths), 2, 0)
    pipeline()
    workers = loader_workers()
    assert len(workers) == 2
    pipeline.close()
    assert not any(worker.is_running() for worker in workers)


def test_workers_die_with_a_training_that_is_killed(paths):
    """Their input ends with it, whichever way it ended."""
    code = (
        "import sys, time, psutil\n"
        "from pictures import job_of\n"
        "from laptime.engine.pipelines.fast import LoaderProcesses\n"
        f"pipeline = LoaderProcesses(job_of({paths!r}), 2, 0); pipeline()\n"
        "print(*[child.pid for child in psutil.Process().children()], flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    ) as training:
        workers = [int(word) for word in training.stdout.readline().split()]
        assert len(workers) == 2
        training.kill()
        training.wait()
    until = time.monotonic() + 10
    while any(map(_runs, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(_runs, workers))


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_without_shared_memory_it_goes_on_with_threads_and_says_so(paths):
    """Here the system is set to allow no more than a kilobyte."""
    code = (
        "import resource, numpy as np\n"
        "from pictures import job_of\n"
        "from laptime.engine.pipelines.fast import LoaderThreads, open_fast\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"pipeline = open_fast(job_of({paths!r}), 2, 0)\n"
        "images, labels = pipeline()\n"
        "assert isinstance(pipeline, LoaderThreads) and images.any()\n"
        "print(*pipeline.notes())"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert said.returncode == 0, said.stderr
    assert "of shared memory" in said.stdout
    assert "the loader goes on with threads" in said.stdout


def test_memory_that_is_not_there_is_refused_at_once():
    with pytest.raises(NoRoomError, match="MB of shared memory"):
        make_shared(1 << 62, reserved=True)
