"""torch.optim.optimizer"""

BEFORE, AFTER = [], []


def register_optimizer_step_pre_hook(hook):
    BEFORE.append(hook)


def register_optimizer_step_post_hook(hook):
    AFTER.append(hook)


class Optimizer:
    """Steps with hooks."""

    param_groups = ()

    def step(self):
        for hook in BEFORE:
            hook(self, (), {})
        for hook in AFTER:
            hook(self, (), {})


class SGD(Optimizer):
    """Learns nothing."""
