"""What lanes that run a user's own step cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.workload import Workload
from laptime.planner.jax import check_xla_threads

STEP_FRAMEWORKS = ("jax", "python")
HAS_NO_FORM = {
    "jax": ("has no form in JAX alone", "keras-jax"),
    "python": ("is raced in a framework", "torch"),
}
OF_ITS_CODE = ("precision", "execution", "layout", "optimizer")


def check_steps(
    framework: str, settings: Settings, device: Device, machine: Machine, workload: Workload | None
) -> None:
    """Refuse what a step function of somebody's own leaves no room for."""
    if framework not in STEP_FRAMEWORKS:
        return
    if workload is not None:
        why, instead = HAS_NO_FORM[framework]
        raise UsageError(
            f"{framework}: {workload.name} {why}; its lanes run steps of your own",
            f"laptime race {workload.name} {instead}, or a function that returns laptime.Training(step=...)",
        )
    if framework == "python":
        _check_python(settings)
    if framework == "jax":
        check_xla_threads(settings, device, machine)


def check_step_is_timed(framework: str, name: str) -> None:
    """Refuse a whole training: who gives a step has said nothing of an accuracy, or of a test."""
    if framework in STEP_FRAMEWORKS:
        raise UsageError(
            f"--full: {name} is of a step function, which is timed, and not trained whole, in this version",
            "leave --full out",
        )


def _check_python(settings: Settings) -> None:
    """What computes is not known, so there is nobody to be told how."""
    written = Settings()
    for key in OF_ITS_CODE:
        value = getattr(settings, key)
        if value != getattr(written, key):
            raise UsageError(f"{value}: a step of your own has the {key} that its code gives it", "set it there")
    if settings.input == "resident":
        raise UsageError(
            "input=resident: laptime cannot place the batches of a framework that it does not know",
            "let the data lie on the device that LAPTIME_DEVICE names, or name input=cached",
        )
