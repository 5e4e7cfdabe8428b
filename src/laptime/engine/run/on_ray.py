"""Places on a Ray cluster that is there: an agent is a task, which asks for what its lane needs."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from laptime.engine.run.launchers import Meeting, NotSubmitted, Submission, Wanted, make_starter, words_of
from laptime.engine.run.node import address_towards
from laptime.model.errors import UsageError
from laptime.model.frameworks import NodeType
from laptime.model.machine import NodeRoom
from laptime.model.plan import Place
from laptime.model.process import NODE_IS_GONE

ANSWER_S = 5.0
USUAL = {"CPU", "GPU", "memory", "object_store_memory"}
START_ONE = "ray start --head starts one here; --on ray://host:10001 names another"


class RayCluster:
    """Submits agents as tasks. A cluster that this process had joined before is left as it is."""

    secret = ""

    def __init__(self, wanted: Wanted) -> None:
        import ray  # noqa: PLC0415  only who races on Ray has it
        import ray.util.scheduling_strategies  # noqa: PLC0415

        self._ray: Any = ray
        self._word = wanted.word
        self._was_joined = ray.is_initialized()
        if not self._was_joined:
            self._printer = self._set_printer(lambda *_data, **_how: None)
            address = "auto" if wanted.word == "ray" else wanted.word
            place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
            host, _, port = place.removeprefix("ray://").rpartition(":")
            try:
                # Ray itself tries for minutes if nothing answers there, so that is found out first.
                if host and port.isdecimal():
                    socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
                self._ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                says = f"--on {wanted.word}: no Ray cluster was reached: {words_of(error)}"
                raise UsageError(says, START_ONE) from error
        self._start = ray.remote(make_starter())
        # A computer of the cluster, to find out by which address of ours it reaches us
        if wanted.word == "ray":
            head = str(self._ray.util.get_node_ip_address())
        else:
            head = wanted.word.removeprefix("ray://").rpartition(":")[0]
        self.address = address_towards(head)

    def open(self, meeting: Meeting) -> None:
        """Do nothing: a task gets the address with its words."""

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Return what the nodes have, the largest first."""
        rooms: list[NodeRoom] = []
        for node in self._nodes():
            has = node["Resources"]
            rooms.append(NodeRoom(str(node["NodeManagerHostname"]), int(has.get("CPU", 0)), int(has.get("GPU", 0))))
        return tuple(sorted(rooms, key=lambda room: (-room.cards, -room.cores, room.name)))

    def submit(self, words: list[str], secret: str, place: Place) -> Submission:
        node = next(iter(place.nodes), None)
        try:
            if node is None:
                return self._begin(words, secret, place, {})
            only_there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            return self._begin(words, secret, place, {"scheduling_strategy": only_there}, node)
        except Exception as error:  # noqa: BLE001  whatever Ray raises becomes the lane's result
            return NotSubmitted(f"Ray did not take it: {words_of(error)}")

    def submit_apart(self, words: list[list[str]], secret: str, places: Sequence[Place]) -> list[Submission]:
        """Submit tasks in a placement group, so that all get their places or none."""
        bundles = [{"CPU": place.cpus} | ({"GPU": place.gpus} if place.gpus else {}) for place in places]
        try:
            handle = self._ray.util.placement_group(bundles, strategy="STRICT_SPREAD")
            group = PlacementGroup(len(places), lambda: self._remove(handle))
            make_strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy
            return [
                GroupedTask(
                    self._begin(one, secret, place, {"scheduling_strategy": make_strategy(handle, number)}), group
                )
                for number, (one, place) in enumerate(zip(words, places, strict=True))
            ]
        except Exception as error:  # noqa: BLE001  as above
            return [NotSubmitted(f"Ray did not take it: {words_of(error)}") for _ in places]

    def _begin(
        self, words: list[str], secret: str, place: Place, strategy: dict[str, Any], node: str | None = None
    ) -> RayTask:
        asked = {"num_cpus": place.cpus, "num_gpus": place.gpus, "max_retries": 0, "name": "laptime heat"}
        task = self._start.options(**asked, **strategy).remote(words, secret)
        return RayTask(self._ray, task, lambda: node is not None and node not in self.living([node]))

    def _remove(self, group: Any) -> None:
        with suppress(Exception):  # it is removed, or the cluster does not answer
            self._ray.util.remove_placement_group(group)

    def why_alone(self, places: Sequence[Place]) -> str | None:
        grouped: dict[tuple[str, ...], list[Place]] = {}
        for place in places:
            grouped.setdefault(place.nodes, []).append(place)
        for nodes, group in grouped.items():  # on each of some nodes, or anywhere
            able = [node["Resources"] for node in self._nodes() if node["NodeID"] in nodes]
            if able:
                there = {name: min(resources.get(name, 0) for resources in able) for name in ("CPU", "GPU")}
            else:
                there = self._ray.cluster_resources()
            who = f"a node of {group[0].on}" if nodes else self._word
            asked = {"CPU": sum(place.cpus for place in group), "GPU": sum(place.gpus for place in group)}
            short = [name for name, count in asked.items() if count > there.get(name, 0)]
            if short:
                needs = (f"{asked[name]} {name}s, and {who} has {there.get(name, 0):g}" for name in short)
                return f"all at once they need {' and '.join(needs)}"
        return None

    def find_types(self, word: str) -> tuple[NodeType, ...]:
        """Return the types by a label, else by the resources of that name, or of those that match a `*` at its end."""
        nodes = sorted(self._nodes(), key=lambda node: str(node["NodeID"]))
        of: dict[tuple[str | None, str], list[str]] = {}
        for node in nodes:
            if (value := node.get("Labels", {}).get(word)) is not None:
                of.setdefault((word, value), []).append(node["NodeID"])
        for node in nodes if not of else ():
            for name in _own_resources(node):
                if name == word or (word.endswith("*") and name.startswith(word[:-1])):
                    of.setdefault((None, name), []).append(node["NodeID"])
        if of:
            return tuple(NodeType(label, value, tuple(ids)) for (label, value), ids in sorted(of.items(), key=str))
        labels: dict[str, set[str]] = {}
        for node in nodes:
            for name, value in node.get("Labels", {}).items():
                if name != "ray.io/node-id":
                    labels.setdefault(name, set()).add(value)
        there = [f"label {name} ({', '.join(sorted(values))})" for name, values in sorted(labels.items())]
        there += [f"resource {name}" for name in sorted({name for node in nodes for name in _own_resources(node)})]
        raise UsageError(
            f"--each {word}: no node of {self._word} has such a label or resource",
            f"there are: {'; '.join(there)}" if there else "its nodes have no labels and no resources of their own",
        )

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        there = {node["NodeID"] for node in self._nodes()}
        return tuple(node for node in nodes if node in there)

    def close(self) -> None:
        if not self._was_joined:
            self._ray.shutdown()
            self._set_printer(self._printer)

    def _nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that are there; none if the cluster does not answer."""
        try:
            return [node for node in self._ray.nodes() if node["Alive"]]
        except Exception:  # noqa: BLE001  whatever Ray raises: it is gone
            return []

    def _set_printer(self, printer: Any) -> Any:
        """Replace what prints Ray's remarks on lost nodes: it writes on stdout, where the page or the record goes."""
        worker: Any = getattr(getattr(self._ray, "_private", None), "worker", None)
        before = getattr(worker, "print_to_stdstream", None)
        if before is not None and printer is not None:
            worker.print_to_stdstream = printer
        return before


class RayTask:
    """An agent that was submitted as a task. `is_lost` says whether its node is gone."""

    def __init__(self, ray: Any, task: Any, is_lost: Callable[[], bool]) -> None:
        self._ray = ray
        self._task = task
        self._is_lost = is_lost

    def problem(self) -> str | None:
        done, _ = self._ray.wait([self._task], timeout=0)
        if not done:
            return None
        try:
            return f"its agent ended: {self._ray.get(self._task)}"
        except Exception as error:  # noqa: BLE001  as above
            return NODE_IS_GONE if self._is_lost() else f"Ray could not run it: {words_of(error)}"

    def give_back(self) -> None:
        """Do nothing: Ray does."""

    def cancel(self) -> None:
        with suppress(Exception):  # it is done, or the cluster is gone
            self._ray.cancel(self._task, force=True)


@dataclass
class PlacementGroup:
    """Places that several tasks got together. Ray keeps them until the group is removed."""

    used: int
    remove: Callable[[], None]

    def leave(self) -> None:
        self.used -= 1
        if self.used == 0:
            self.remove()


class GroupedTask:
    """One of several tasks that got their places together."""

    def __init__(self, task: RayTask, group: PlacementGroup) -> None:
        self._task = task
        self._group = group
        self._is_done = False

    def problem(self) -> str | None:
        found = self._task.problem()
        if found is not None:
            self.give_back()
        return found

    def give_back(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._group.leave()

    def cancel(self) -> None:
        self._task.cancel()
        self._group.remove()


def _own_resources(node: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of a node's resources that users gave it."""
    return (name for name in node["Resources"] if name not in USUAL and not name.startswith(("node:", "accelerator_")))
