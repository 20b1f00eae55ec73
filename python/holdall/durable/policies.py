"""When a checkpoint is due: after every step, phase or transaction, or now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from holdall.errors import ArgumentError

# A step that costs more than this is dearer to redo than any checkpoint is to write.
PER_STEP_ABOVE_USD: Final = 0.01


class Progress(NamedTuple):
    """What a policy decides by, asked after a step.

    Attributes:
        steps: Steps done since the last checkpoint, this one included.
        seconds: Seconds since the last checkpoint, of a monotonic clock.
        ends_phase: The step was the last of its phase.
        ends_transaction: The step was the last of its transaction, or belongs to none.
    """

    steps: int
    seconds: float
    ends_phase: bool
    ends_transaction: bool


class CheckpointPolicy(Protocol):
    """Says when a checkpoint is due. A run's last step is always followed by one."""

    def due(self, progress: Progress) -> bool:
        """Whether to write a checkpoint now."""
        ...


@dataclass(frozen=True)
class PerStep:
    """After every step: a crash redoes at most the step it fell into."""

    def due(self, progress: Progress) -> bool:
        """Whether to write a checkpoint now."""
        return progress.steps > 0


@dataclass(frozen=True)
class PerPhase:
    """After the last step of each phase (plan, research, write, ...)."""

    def due(self, progress: Progress) -> bool:
        """Whether to write a checkpoint now."""
        return progress.ends_phase


@dataclass(frozen=True)
class PerTransaction:
    """After the last step of each transaction, never inside one: a resumed session sees it whole or not at all."""

    def due(self, progress: Progress) -> bool:
        """Whether to write a checkpoint now."""
        return progress.ends_transaction


@dataclass(frozen=True)
class Periodic:
    """After every `steps` steps, or after the first step that ends `seconds` after the last checkpoint."""

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise ArgumentError("Periodic needs steps, or seconds, or both")
        if self.steps is not None and self.steps < 1:
            raise ArgumentError(f"Periodic(steps={self.steps}): at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise ArgumentError(f"Periodic(seconds={self.seconds}): above 0")

    def due(self, progress: Progress) -> bool:
        """Whether to write a checkpoint now."""
        by_steps = self.steps is not None and progress.steps >= self.steps
        return by_steps or (self.seconds is not None and progress.seconds >= self.seconds)


def policy_for(avg_step_cost: float) -> CheckpointPolicy:
    """Return the policy for what a step costs on average, in dollars.

    Above $0.01 every step is worth its checkpoint; below, one checkpoint in ten steps keeps what a crash can cost under ten
    cents.

    Raises:
        ArgumentError: Negative or NaN.
    """
    if not avg_step_cost >= 0:
        raise ArgumentError(f"avg_step_cost is {avg_step_cost}; dollars, at least 0")
    return PerStep() if avg_step_cost > PER_STEP_ABOVE_USD else Periodic(steps=10)
