"""torch.optim.optimizer"""

import functools


class Optimizer:
    """Has its `step` wrapped when the first one is made."""

    param_groups = ()

    def __init__(self):
        if not getattr(type(self).step, "hooked", None):
            type(self).step = self.profile_hook_step(type(self).step)
            type(self).step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*given, **named):
            return func(*given, **named)

        return wrapper


class SGD(Optimizer):
    """Learns nothing."""

    def step(self):
        """Do nothing."""
