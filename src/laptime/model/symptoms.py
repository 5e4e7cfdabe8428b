"""What a heat's own process can report of its steps, taken apart outside the timing: hints at causes, never proofs."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing

NOT_LOOKED = Missing("this heat's steps were not taken apart")


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's code, and how often each step reached it."""

    where: str
    what: str
    per_step: float


@dataclass(frozen=True, slots=True)
class StepSymptoms:
    """Some steps taken apart, after all windows were timed; each part is fenced, so that nothing overlaps.

    `wait_ns` is the time to get the loader's next batch, `copy_ns` the time to copy it to the device (`copied_bytes`,
    in `copied_arrays` arrays), `compute_ns` the rest; each for all `steps` together. `reads` is how often per step the
    host asked the device for a value, and so waited for it; `sites` says where. `shapes` is how many different shapes
    of batch these steps had, `compiles` how often a framework compiled during them. `denormals` is the share of
    denormal numbers among weights, gradients, the optimizer's sums, running statistics or the outputs of layers,
    whichever is largest; `notes` says which. `fault_ns` is the time of one page fault in this process, `threads` how
    many threads the framework computes with.
    """

    steps: int
    wait_ns: int | Missing = NOT_LOOKED
    copy_ns: int | Missing = NOT_LOOKED
    compute_ns: int | Missing = NOT_LOOKED
    copied_bytes: int | Missing = NOT_LOOKED
    copied_arrays: float | Missing = NOT_LOOKED
    reads: float | Missing = NOT_LOOKED
    sites: tuple[Site, ...] = ()
    shapes: int | Missing = NOT_LOOKED
    compiles: int | Missing = NOT_LOOKED
    denormals: float | Missing = NOT_LOOKED
    fault_ns: float | Missing = NOT_LOOKED
    threads: int | Missing = NOT_LOOKED
    notes: dict[str, str] = field(default_factory=dict)
