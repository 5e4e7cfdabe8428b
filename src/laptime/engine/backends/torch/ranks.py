"""How a step is shared by several devices: one process for each (a rank), or one process that splits each batch.

`open_group` returns the part of a lane that this process plays. Where one process trains on one device, that part
changes nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn

from laptime.engine.backends.base import Exercise
from laptime.engine.backends.torch.batches import filled, leaves, mapped
from laptime.engine.backends.torch.devices import DeviceClock
from laptime.model.errors import LaneError
from laptime.model.plan import HeatOrder
from laptime.model.process import SHARDED, SPLIT, Settings

GROUP_MEET_S = 300.0
SIOCGIFADDR = 0x8915
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class OneProcess:
    """One process trains, on one device."""

    rank = 0
    of = 1
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


class CutBatches(OneProcess):
    """One process computes what several devices would: the network sees each device's part of a batch alone."""

    def __init__(self, shares: int) -> None:
        self._shares = shares

    def wrap(self, network: nn.Module) -> nn.Module:
        return CutCalls(network, self._shares)


class CutCalls(nn.Module):
    """Calls a network on each part of its inputs, and joins what it returns."""

    def __init__(self, network: nn.Module, shares: int) -> None:
        super().__init__()
        self._network = network
        self._shares = shares

    def forward(self, *inputs: Any, **named: Any) -> Any:
        parts = [
            self._network(*cut_for_rank(inputs, number, self._shares), **cut_for_rank(named, number, self._shares))
            for number in range(self._shares)
        ]
        columns = zip(*map(leaves, parts), strict=True)
        return filled(parts[0], iter([_joined(list(column)) for column in columns]))


def _joined(parts: list[Any]) -> Any:
    """Return the answers to all parts; of losses that a network returns, the mean."""
    if not isinstance(parts[0], Tensor):
        return parts[0]
    return torch.cat(parts) if parts[0].dim() else torch.stack(parts).mean()


class SplitBatches(OneProcess):
    """One process gives each card its part of a batch, as PyTorch's DataParallel does."""

    def __init__(self, names: Sequence[str], *, is_weak: bool) -> None:
        self._cards = [torch.device(name).index for name in names]
        self._times = len(names) if is_weak else 1

    def batch(self, written: int) -> int:
        return written * self._times

    def wrap(self, network: nn.Module) -> nn.Module:
        return nn.DataParallel(network, device_ids=self._cards)


class Ranks(OneProcess):
    """Several processes train one network, each on its own device, and exchange gradients."""

    def __init__(self, order: HeatOrder) -> None:
        place = order.place
        settings = order.lane.settings
        assert place is not None
        self.rank = place.rank
        self.of = place.of
        self.is_weak = settings.value_of("scaling") == "weak"
        self._is_sharded = settings.value_of("parallel") == SHARDED
        self._exchanges = settings.value_of("sync") != "none"
        self.is_whole = not (self._is_sharded and self._exchanges)
        self._device = torch.device(order.lane.device.name)
        if distributed.is_initialized():
            return
        # Join the process group: over NCCL on cards, over gloo on processors.
        host, _, port = place.address.rpartition(":")
        if name := interface_towards(host):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)  # else gloo asks what this machine's name resolves to
        store = distributed.TCPStore(  # type: ignore[attr-defined]
            host,
            int(port),
            place.of,
            is_master=place.rank == 0,
            timeout=dt.timedelta(seconds=GROUP_MEET_S),
            wait_for_workers=False,
            master_listen_fd=place.meeting_fd,
        )
        kind = order.lane.device.kind
        distributed.init_process_group(
            {"cuda": "nccl", "xpu": "xccl"}.get(kind, "gloo"),
            store=store,
            rank=place.rank,
            world_size=place.of,
            device_id=self._device if kind == "cuda" else None,
        )

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
        if self._is_sharded or not any(parameter.requires_grad for parameter in network.parameters()):
            return network
        cards = None if self._device.type == "cpu" else [self._device]
        wrapped: nn.Module = nn.parallel.DistributedDataParallel(network, device_ids=cards)
        wrapped.require_backward_grad_sync = self._exchanges  # what its no_sync() switches off for a while
        return wrapped

    def share(self, batch: Any) -> Any:
        return cut_for_rank(batch, self.rank, self.of)

    def own(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return this rank's part of the batches of a training of the user's own."""
        if not self.is_weak:
            return map(self.share, batches)
        return (batch for number, batch in enumerate(batches) if number % self.of == self.rank)

    def mean(self, losses: list[float]) -> list[float]:
        sums = torch.tensor(losses, dtype=torch.float64, device=self._device)
        distributed.all_reduce(sums)
        return [float(loss) / self.of for loss in sums.tolist()]

    def exchange(self, size_bytes: int) -> Exercise:
        """Return the exchange of gradients of this size, with nothing else to do."""
        held = torch.zeros(max(size_bytes // 4, 1), device=self._device)
        return Exercise(lambda: distributed.all_reduce(held), DeviceClock(self._device).fence, float(size_bytes))


def open_group(order: HeatOrder) -> OneProcess:
    """Return this process's part; the ranks of a lane meet in it."""
    if order.place is not None:
        return Ranks(order)
    if order.shares > 1:
        return CutBatches(order.shares)
    settings: Settings = order.lane.settings
    if settings.value_of("parallel") == SPLIT and order.lane.devices:
        names = [device.name for device in order.lane.devices]
        return SplitBatches(names, is_weak=settings.value_of("scaling") == "weak")
    return OneProcess()


def gather_whole(weights: Tensor) -> Tensor:
    """Return weights that are spread over the ranks as one tensor; any other as it is."""
    gather: Callable[[], Tensor] | None = getattr(weights, "full_tensor", None)
    return weights if gather is None else gather()


def cut_for_rank(batch: Any, part: int, of: int) -> Any:
    """Return one of `of` equal parts of a batch: of all tensors that it holds."""

    def take(value: Tensor) -> Tensor:
        if not value.dim():
            return value
        if len(value) % of:
            raise LaneError(f"a batch of {len(value)} cannot be shared out to {of} devices", "name another batch")
        count = len(value) // of
        return value[part * count : (part + 1) * count]

    return mapped(batch, take, lambda leaf: leaf)


def computes_over_batch(network: nn.Module) -> bool:
    """Whether cutting a batch changes what a network computes."""
    return any(isinstance(module, NORMS) for module in network.modules())


def interface_towards(host: str) -> str | None:
    """Return the name of the network interface with which this machine reaches a host, where Linux says it."""
    if not sys.platform.startswith("linux"):
        return None
    import fcntl  # not every system has it

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, 9))  # nothing is sent
        own = way.getsockname()[0]
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(way.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == own:
                    return name
    return None
