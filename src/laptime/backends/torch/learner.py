"""A whole training in PyTorch: the heat's own step, with an account of what was right, and a state to go on from."""

from __future__ import annotations

from typing import Any

import torch

from laptime.backends.stepwise import Stepwise
from laptime.backends.torch.account import Account
from laptime.backends.torch.evaluation import Examiner
from laptime.backends.torch.inputs import Source, open_source
from laptime.backends.torch.proof import rewind
from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.backends.torch.runners import CapturedStep, Clockwork
from laptime.backends.torch.state import put_state, take_state
from laptime.backends.torch.stepping import Stepper
from laptime.errors import LaneError
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.protocol import Score


class TorchLearner(Stepwise):
    """One lane's training, from its first step to its last."""

    def __init__(self, recipe: BuiltIn | Own, settings: Settings, device: torch.device, seed: int) -> None:
        if settings.input in NO_TRAINING:
            raise LaneError(f"input={settings.input} trains nothing", "name another input for a whole training")
        self._recipe, self._settings, self._device, self._seed = recipe, settings, device, seed
        self._account = Account(device)
        self._stepper = Stepper(recipe, settings, device, recipe.rate(settings), look=self._account)
        self.examiner = Examiner(recipe, self._stepper.network, settings, device)
        self.fence = Clockwork(device).fence
        self._source: Source | None = None
        self._graph: CapturedStep | None = None
        self._waiting: list[Batch] = []

    def begin(self, steps_done: int, state: Any | None) -> None:
        self._source = open_source(self._recipe, self._settings, self._device, self._seed, first=steps_done)
        if self._settings.execution == "graph":
            self._capture()
        if state is not None:
            put_state(self._stepper, self._device, state, in_place=self._graph is not None)
        self.open_account()

    def step(self) -> None:
        batch = self._next_batch()
        self._account.note(batch)
        if self._graph is None:
            self._stepper(batch)
        else:
            self._graph.feed(batch)
            self._graph.replay()

    def score(self) -> Score:
        return self._account.score()

    def open_account(self) -> None:
        self._account.clear()

    def state(self) -> Any:
        return take_state(self._stepper, self._device)

    def close(self) -> tuple[str, ...]:
        if self._source is None:
            return ()
        self._source.close()
        return self._source.notes()

    def _next_batch(self) -> Batch:
        assert self._source is not None
        return self._waiting.pop() if self._waiting else self._source()

    def _capture(self) -> None:
        """Capture the step on the first batch, which is then trained like any other: the warm-up is undone."""
        example = self._next_batch()
        self._waiting.append(example)
        start = [each.detach().clone() for each in self._stepper.network.state_dict().values()]
        scaler = self._stepper.scaler
        scale = scaler.state_dict() if scaler is not None else {}
        self._graph = CapturedStep(self._stepper, example)
        self._graph.capture()
        rewind(self._stepper, start)
        if scaler is not None:
            scaler.load_state_dict(scale)
        torch.manual_seed(self._seed)
