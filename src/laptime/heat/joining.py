"""Ranks of a heat on several nodes: by which address they meet, and how those on further nodes join.

On each further node the parent starts one process, with the first rank's address in its order. The process copies
itself for each rank of its node, and all connect to the first rank. Both ends of such a connection prove that they know
the secret that the agents of their nodes gave them.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from functools import partial

from laptime.authentication import BACKLOG, connect_to
from laptime.backends.base import Backend
from laptime.errors import LaneError
from laptime.heat import rank_messages as to
from laptime.heat.loop import RankedLine
from laptime.heat.rank import order_of, serve
from laptime.model.plan import NODE_ADDRESS, RANKS_SECRET, HeatOrder, PlannedLane, RankPlace

LOOPBACK = "127.0.0.1"
CONNECT_S = 60.0


def own_address(lane: PlannedLane) -> str:
    """Return by which address the other ranks of a lane find this node."""
    return os.environ.get(NODE_ADDRESS, LOOPBACK) if lane.spread else LOOPBACK


def take_secret() -> str:
    """Return the secret of the ranks, and remove it from the environment: no process that starts later has it."""
    secret = os.environ.pop(RANKS_SECRET, "")
    if not secret:
        raise LaneError("no agent of a node has given this process the secret of its ranks")
    return secret


def open_meeting(host: str) -> tuple[socket.socket, str]:
    """Listen on a free port; return the socket, and where it is found."""
    meeting = socket.create_server((host, 0), backlog=BACKLOG)
    return meeting, f"{host}:{meeting.getsockname()[1]}"


def join_ranks(backend: Backend, order: HeatOrder, line: RankedLine) -> None:
    """Be all ranks of this node: do what the first rank says until it is gone."""
    place = order.place
    assert place is not None
    _, here = order.lane.seat_of(place.rank)
    secret = take_secret()
    for rank in range(place.rank + 1, place.rank + here):
        if os.fork() == 0:
            line.live_as_copy(partial(_join, backend, order, replace(place, rank=rank), secret))
    _join(backend, order, place, secret)


def _join(backend: Backend, order: HeatOrder, place: RankPlace, secret: str) -> None:
    host, _, port = place.links.rpartition(":")
    link = to.link_to_node(connect_to(host, int(port), secret, CONNECT_S))
    link.say(to.JoinRank(place.rank))
    serve(backend, order_of(order, place), link)
