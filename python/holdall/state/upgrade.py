"""Upgrades of stored states, one pure function per version, in order. A step is never edited once it is released.

The log has a chain of its own: entries are stored one by one and keep the version that they were written with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from holdall.errors import ArgumentError, DecodeError, NewerStateError

State = dict[str, Any]
Step = Callable[[Any], Any]


class Chain:
    """Steps from each version to the next.

    Args:
        first: The oldest version there ever was.
    """

    def __init__(self, *, first: int = 1) -> None:
        self.first = first
        self._steps: list[Step] = []

    @property
    def current(self) -> int:
        """The version that the last step leads to."""
        return self.first + len(self._steps)

    def step(self, *, to: int) -> Callable[[Step], Step]:
        """Add the function as the step to version `to`, which must be the next one.

        Raises:
            ArgumentError: `to` leaves a gap or is taken.
        """
        if to != self.current + 1:
            raise ArgumentError(f"a step to version {to} does not follow version {self.current}")

        def add(function: Step) -> Step:
            self._steps.append(function)
            return function

        return add

    def upgrade(self, value: Any, found: int) -> Any:
        """Bring `value` from version `found` to the current one. Pure: `value` is left as it is.

        Raises:
            NewerStateError: `found` is newer than this holdall.
            DecodeError: There never was a version `found`.
        """
        if type(found) is not int or found < self.first:
            raise DecodeError(
                f"a stored state names schema version {found!r}; the first was {self.first}",
                offset=0,
                reason="unknown schema version",
            )
        if found > self.current:
            raise NewerStateError(
                f"the stored state has schema version {found}; this holdall reads up to {self.current}, a newer one reads it",
                found=found,
                supported=self.current,
            )
        for function in self._steps[found - self.first :]:
            value = function(value)
        return value


HEADS: Final = Chain()
step = HEADS.step


@step(to=2)
def add_plan(state: State) -> State:
    """v2 keeps the plan in the state, so that a resumed worker does not plan anew."""
    return state | {"plan": state.get("plan", [])}


@step(to=3)
def rename_context(state: State) -> State:
    """v3 calls the caller's own values metadata; context is what goes into the window."""
    rest = {name: value for name, value in state.items() if name != "context"}
    return rest | {"metadata": {**state.get("context", {}), **state.get("metadata", {})}}


# Messages and step results stand in the log since version 3; before, they were fields of the state.
ENTRIES: Final = Chain(first=3)


def upgrade(state: State) -> State:
    """Bring a stored document to the current version, named in its `_version`. Idempotent.

    Raises:
        NewerStateError: The document is newer than this holdall.
        DecodeError: It names no version that ever was.
    """
    upgraded: State = HEADS.upgrade(state, state.get("_version"))  # type: ignore[arg-type]
    return upgraded | {"_version": HEADS.current}
