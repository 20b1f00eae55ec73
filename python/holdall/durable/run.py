"""The loop behind `CheckpointManager.run`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from holdall.durable.renewal import Renewal
from holdall.durable.snapshot import RestorePoint
from holdall.errors import ArgumentError, ConflictError, HoldallError, StoreUnavailableError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState
    from holdall.stores.base import Version

_BASE_DELAY_S: Final = 0.010
_MAX_DELAY_S: Final = 1.0
# SQLSTATE classes: 08 connection, 40 transaction rollback (serialization failure, deadlock), 53 resources, 57P shutdown.
_TRANSIENT_SQLSTATES: Final = ("08", "40", "53", "57P")


class StepRun(NamedTuple):
    """What a step gets.

    Attributes:
        state: The session, to read and to change in place. It is the step's own until the step returns. Where an attempt fails, its
            fields are put back as other objects: reach them through the state each time.
        name: The step's name.
        number: Its place in the run, from 1.
        key: The same for every attempt at this step of this session, on any worker: an idempotency key for its effects.
        attempt: 0 at first; counts tries within this process.
    """

    state: SessionState
    name: str
    number: int
    key: str
    attempt: int


@dataclass(frozen=True)
class Step:
    """A unit of work.

    Attributes:
        name: Unique within the session.
        fn: Does it and returns its result; may be async.
        phase: For `PerPhase`: which phase it belongs to.
        transaction: For `PerTransaction`: which transaction it belongs to, None for none.
    """

    name: str
    fn: Callable[[StepRun], Any | Awaitable[Any]]
    phase: str | None = None
    transaction: str | None = None


class Checkpoints(Protocol):
    """What a run asks of the manager of its checkpoints."""

    async def start(self, session: SessionState | str) -> SessionState:
        """Return the state to go on with, which is stored."""
        ...

    async def save_checkpoint(self, state: SessionState, step: int) -> Version:
        """Save the state as it stands after a step."""
        ...

    def is_due(self, session_id: str, *, ends_phase: bool, ends_transaction: bool, counts: bool) -> bool:
        """Whether the policy wants a checkpoint after the last step."""
        ...

    def generation_of(self, state: SessionState) -> str:
        """Return the generation of the record that checkpoints are written to."""
        ...

    def renewed(self, state: SessionState) -> tuple[Sessions, str, float | None]:
        """Return that record's store and session id, and how long it lives after each write."""
        ...


class RunReport(NamedTuple):
    """How a run went."""

    state: SessionState
    done: list[str]
    skipped: list[str]


def is_transient(error: BaseException) -> bool:
    """Whether another try may well succeed: the network failed, or the database asks for a retry."""
    if isinstance(error, ConflictError):
        return False
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str) and sqlstate.startswith(_TRANSIENT_SQLSTATES):
        return True
    if isinstance(error, HoldallError):
        return isinstance(error, StoreUnavailableError)
    # one class from Python 3.11 on
    return isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))


class StepRunner:
    """One run of steps over one session."""

    def __init__(
        self,
        manager: Checkpoints,
        *,
        retries: int,
        retry_on: Callable[[BaseException], bool],
        sleep: Callable[[float], Awaitable[None]],
        draw: Callable[[], float],
        on_step: Callable[[Step, str], None] | None,
    ) -> None:
        if retries < 0:
            raise ArgumentError(f"retries is {retries}; it counts tries after the first")
        self._manager = manager
        self._retries = retries
        self._retry_on = retry_on
        self._sleep = sleep
        self._draw = draw
        self._tell = on_step if on_step is not None else _ignore

    async def run(self, session: SessionState | str, steps: Iterable[Step] | AsyncIterable[Step]) -> RunReport:
        """Do what is left of the steps."""
        state = await self._manager.start(session)
        renewal = Renewal()
        try:
            return await self._all(state, steps, renewal)
        finally:
            await renewal.aclose()

    async def _all(
        self, state: SessionState, steps: Iterable[Step] | AsyncIterable[Step], renewal: Renewal
    ) -> RunReport:
        manager = self._manager
        session_id = state.session_id
        await renewal.follow(*manager.renewed(state))
        done: list[str] = []
        skipped: list[str] = []
        names: set[str] = set()
        unsaved: Step | None = None
        index = 0
        async for step in _each(steps):
            index += 1
            if not isinstance(step, Step):
                raise ArgumentError(f"steps are `Step(name, function)`, not {type(step).__name__}")
            if step.name in names:
                raise ArgumentError(f"two steps are called {step.name!r}; a name says which step is done")
            names.add(step.name)
            if unsaved is not None and manager.is_due(
                session_id,
                ends_phase=step.phase != unsaved.phase,
                ends_transaction=unsaved.transaction is None or step.transaction != unsaved.transaction,
                counts=False,
            ):
                await self._save(state, index - 1, unsaved, renewal)
                unsaved = None
            if step.name in state.step_results:
                skipped.append(step.name)
                self._tell(step, "skipped")
                continue
            self._tell(step, "started")
            await self._attempts(state, step, index)
            done.append(step.name)
            unsaved = step
            # What ends with this step is known only when the next one comes; what does not depend on that is due now.
            if manager.is_due(session_id, ends_phase=False, ends_transaction=step.transaction is None, counts=True):
                await self._save(state, index, step, renewal)
                unsaved = None
        if unsaved is not None:
            await self._save(state, index, unsaved, renewal)
        return RunReport(state, done, skipped)

    async def _save(self, state: SessionState, index: int, step: Step, renewal: Renewal) -> None:
        await self._manager.save_checkpoint(state, index)
        await renewal.follow(*self._manager.renewed(state))
        self._tell(step, "saved")

    async def _attempts(self, state: SessionState, step: Step, index: int) -> None:
        """Do a step and record what it gave, or leave the state as it was."""
        before = RestorePoint.of(state)
        key = f"{state.session_id}/{self._manager.generation_of(state)}/{step.name}"
        attempt = 0
        while True:
            try:
                result = step.fn(StepRun(state, step.name, index, key, attempt))
                state.step_results[step.name] = await result if inspect.isawaitable(result) else result
            except BaseException as error:
                # What the step changed before it failed is no part of the session, cancelled or not.
                before.restore(state)
                if not isinstance(error, Exception) or attempt >= self._retries or not self._retry_on(error):
                    raise
            else:
                return
            ceiling = min(_MAX_DELAY_S, _BASE_DELAY_S * 2.0**attempt)
            attempt += 1
            await self._sleep(self._draw() * ceiling)


async def _each(steps: Iterable[Step] | AsyncIterable[Step]) -> AsyncIterator[Step]:
    if isinstance(steps, AsyncIterable):
        async for step in steps:
            yield step
    else:
        for step in steps:
            yield step


def _ignore(step: Step, event: str) -> None:
    """Tell nobody."""
