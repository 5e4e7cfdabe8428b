"""How a step is shared by several devices: one process for each (a rank), or one process that splits each batch.

`open_group` returns the part of a lane that this process plays. Where one process trains on one device, that part
changes nothing.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from laptime.backends.base import Exercise
from laptime.backends.torch.batches import mapped
from laptime.backends.torch.devices import DeviceClock
from laptime.errors import LaneError
from laptime.model.lane import SHARDED, SPLIT, Settings
from laptime.model.plan import HeatOrder

MEET_S = 300.0
LOOPBACK = {"127.0.0.1", "localhost"}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
BY_RANKS = "its batch norm sees each device's share of a batch alone, and so computes something else than on one device"


class OneProcess:
    """One process trains, on one device."""

    rank, of = 0, 1
    is_whole = True  # whether this process holds all weights, and can use its network alone

    def batch(self, written: int) -> int:
        """Return how many items this process takes a step, of a batch of this size as written."""
        return written

    def spread(self, network: nn.Module) -> None:
        """Spread the weights over the ranks; before there is an optimizer."""

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return what is called in place of the network."""
        return network

    def share(self, batch: Any) -> Any:
        """Return this rank's part of a batch."""
        return batch

    def mean(self, losses: list[float]) -> list[float]:
        """Return the means over the ranks."""
        return losses

    def problem(self, network: nn.Module) -> str | None:  # noqa: ARG002  it depends on the network where there are several
        """Return why the group computes something else than one device, or None."""
        return None


class SplitBatches(OneProcess):
    """One process gives each card its part of a batch, as PyTorch's DataParallel does."""

    def __init__(self, names: Sequence[str], *, is_weak: bool) -> None:
        self._cards = [torch.device(each).index for each in names]
        self._times = len(names) if is_weak else 1

    def batch(self, written: int) -> int:
        return written * self._times

    def wrap(self, network: nn.Module) -> nn.Module:
        return nn.DataParallel(network, device_ids=self._cards)

    def problem(self, network: nn.Module) -> str | None:
        return _of_norms(network) if len(self._cards) > 1 else None


class Ranks(OneProcess):
    """Several processes train one network, each on its own device, and exchange gradients."""

    def __init__(self, order: HeatOrder) -> None:
        place, settings = order.place, order.lane.settings
        assert place is not None
        self.rank, self.of = place.rank, place.of
        self.is_weak = settings.value_of("scaling") == "weak"
        self._is_sharded = settings.value_of("parallel") == SHARDED
        self._exchanges = settings.value_of("sync") != "none"
        self.is_whole = not (self._is_sharded and self._exchanges)
        self._device = torch.device(order.lane.device.name)
        if not distributed.is_initialized():
            _meet(order)

    def batch(self, written: int) -> int:
        if self.is_weak:
            return written
        if written % self.of:
            says = f"a batch of {written} cannot be shared out to {self.of} ranks"
            raise LaneError(says, "name weak, or a batch that is a multiple")
        return written // self.of

    def spread(self, network: nn.Module) -> None:
        if self.is_whole:
            return
        from torch.distributed.fsdp import fully_shard  # it is slow to import

        for part in network.children():
            if any(True for _ in part.parameters()):
                fully_shard(part)
        fully_shard(network)

    def wrap(self, network: nn.Module) -> nn.Module:
        if self._is_sharded or not any(each.requires_grad for each in network.parameters()):
            return network
        cards = None if self._device.type == "cpu" else [self._device]
        wrapped: nn.Module = nn.parallel.DistributedDataParallel(network, device_ids=cards)
        wrapped.require_backward_grad_sync = self._exchanges  # what its no_sync() switches off for a while
        return wrapped

    def share(self, batch: Any) -> Any:
        def part(value: Tensor) -> Tensor:
            if not value.dim():
                return value
            count = self.batch_part(len(value))
            return value[self.rank * count : (self.rank + 1) * count]

        return mapped(batch, part, lambda leaf: leaf)

    def batch_part(self, items: int) -> int:
        if items % self.of:
            raise LaneError(f"a batch of {items} cannot be shared out to {self.of} ranks", "name another batch")
        return items // self.of

    def own(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return this rank's part of the batches of a training of the user's own."""
        if not self.is_weak:
            return map(self.share, batches)
        return (batch for number, batch in enumerate(batches) if number % self.of == self.rank)

    def mean(self, losses: list[float]) -> list[float]:
        told = torch.tensor(losses, dtype=torch.float64, device=self._device)
        distributed.all_reduce(told)
        return [float(each) / self.of for each in told.tolist()]

    def problem(self, network: nn.Module) -> str | None:
        return _of_norms(network) if self.of > 1 else None

    def exchange(self, size_bytes: int) -> Exercise:
        """Return the exchange of gradients of this size, with nothing else to do."""
        held = torch.zeros(max(size_bytes // 4, 1), device=self._device)
        return Exercise(lambda: distributed.all_reduce(held), DeviceClock(self._device).fence, float(size_bytes))


Group = OneProcess


def open_group(order: HeatOrder) -> OneProcess:
    """Return this process's part; the ranks of a lane meet in it."""
    if order.place is not None:
        return Ranks(order)
    settings: Settings = order.lane.settings
    if settings.value_of("parallel") == SPLIT and order.lane.devices:
        names = [each.name for each in order.lane.devices]
        return SplitBatches(names, is_weak=settings.value_of("scaling") == "weak")
    return OneProcess()


def whole(weights: Tensor) -> Tensor:
    """Return weights that are spread over the ranks as one tensor; any other as it is."""
    gather: Callable[[], Tensor] | None = getattr(weights, "full_tensor", None)
    return weights if gather is None else gather()


def _of_norms(network: nn.Module) -> str | None:
    has_norms = any(isinstance(each, NORMS) for each in network.modules())
    return BY_RANKS if has_norms else None


def _meet(order: HeatOrder) -> None:
    """Join the process group: over NCCL on cards, over gloo on processors."""
    place = order.place
    assert place is not None
    host, _, port = place.address.rpartition(":")
    if host in LOOPBACK and os.path.exists("/sys/class/net/lo"):  # noqa: PTH110
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else gloo asks what this machine's name resolves to
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host,
        int(port),
        place.of,
        is_master=place.rank == 0,
        timeout=dt.timedelta(seconds=MEET_S),
        wait_for_workers=False,
        master_listen_fd=place.meeting_fd,
    )
    kind = order.lane.device.kind
    distributed.init_process_group(
        {"cuda": "nccl", "xpu": "xccl"}.get(kind, "gloo"),
        store=store,
        rank=place.rank,
        world_size=place.of,
        device_id=torch.device(order.lane.device.name) if kind == "cuda" else None,
    )
