"""Checkpoints: where was I, and an idempotent run that goes on from there."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from holdall.durable.apart import ApartCheckpoints
from holdall.durable.fenced import FencedSessions
from holdall.durable.policies import CheckpointPolicy, PerStep, Progress
from holdall.durable.run import RunReport, Step, StepRunner, is_transient
from holdall.durable.snapshot import check_state, version_of
from holdall.durable.ttl import CHECKPOINT_TTL_S
from holdall.errors import ArgumentError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState
    from holdall.stores.base import Version

# Tells a session that was checkpointed after step 0 from one that was only ever saved.
MARK: Final = "holdall.checkpoint"
_FOLLOWED: Final = 4096


class CheckpointManager:
    """Checkpoints of sessions: which step is done, and what comes next.

    Session and checkpoint in one store are one record at a version, stored once: a checkpoint is a save that says which step
    it stands after, and costs what the step added. In a store of their own (`checkpoints=`), checkpoints are records of their
    own: a session is saved there by `save_checkpoint` and `run` alone, and by `store.save` in `store` alone. A state that was
    resumed from there is at the version its session had when it was checkpointed, so that saving it conflicts if others have
    saved the session since.

    Sessions that are written under a lock take checkpoints too: give what `LockedStateStore.hold` yields as the store, or the fence
    of a lock of your own. Checkpoints in a store of their own carry the fence as well, and ask for it from then on.

    Args:
        store: The sessions, a scoped view of them, or a `HeldSession`.
        checkpoints: Another store for the checkpoints, or a scoped view of it; not the same one under another name. Follow one
            state from checkpoint to checkpoint: a copy of it counts as another worker's.
        ttl_s: How long a checkpoint there lives, from its last save; 7 days by default, None for ever.
        policy: When `checkpoint_if_due` and `run` write a checkpoint; after every step by default.
        fence: The fencing token that every write carries; None for none, or that of a `HeldSession`.
        clock: Monotonic seconds, for `Periodic(seconds=...)`.
        sleep: Waits before a step is tried again; for tests.
        random: Draws from 0 up to 1 for that wait; for tests.
    """

    def __init__(
        self,
        store: Sessions,
        *,
        checkpoints: Sessions | None = None,
        ttl_s: float | None = CHECKPOINT_TTL_S,
        policy: CheckpointPolicy | None = None,
        fence: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.store: Sessions = store if fence is None else FencedSessions(store, fence)
        if checkpoints is store:
            checkpoints = None
        if checkpoints is not None and isinstance(self.store, FencedSessions):
            checkpoints = FencedSessions(checkpoints, self.store.fence)
        is_current = self.store.is_current if isinstance(self.store, FencedSessions) else None
        self._apart = None if checkpoints is None else ApartCheckpoints(checkpoints, ttl_s, is_current=is_current)
        self.policy: CheckpointPolicy = PerStep() if policy is None else policy
        self._clock = clock
        self._sleep = sleep
        self._random = random
        # Per session: steps since the last checkpoint and when that was, for the policies that count.
        self._since: OrderedDict[str, tuple[int, float]] = OrderedDict()

    async def save_checkpoint(self, state: SessionState, step: int) -> Version:
        """Save the state as it stands after `step`, and note the step as `state.current_step`.

        Raises:
            ConflictError: Another worker wrote since the state was loaded; this one must stop, or load again.
            StaleFenceError: The session has seen a higher fence, or is written under a lock and this manager has none.
            LockLostError: The lease of the `HeldSession` is over; nothing was sent.
            ArgumentError: The step is not an int of at least 0.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ArgumentError(f"a step is an int of at least 0, not {step!r}")
        check_state(state)
        if self._apart is not None:
            version = await self._apart.save(state, step)
            state.current_step = step
            self._note(state.session_id, 0, self._clock())
            return version
        was_at, had_mark, mark = version_of(state), MARK in state.metadata, state.metadata.get(MARK)
        was_step, state.current_step, state.metadata[MARK] = state.current_step, step, step
        try:
            version = await self.store.save(state)
        except BaseException:
            # A failed save leaves the state in memory as it was. A cancelled one may have happened: then it stays.
            if version_of(state) == was_at:
                state.current_step = was_step
                if had_mark:
                    state.metadata[MARK] = mark
                else:
                    del state.metadata[MARK]
            raise
        self._note(state.session_id, 0, self._clock())
        return version

    async def load_checkpoint(self, session_id: str) -> SessionState:
        """Return the state as it stands after its last checkpointed step.

        Raises:
            NotFoundError: There is no such session, or no checkpoint of it was saved.
        """
        if self._apart is not None:
            state = await self._apart.load(session_id)
            await self._renew_if_ended(state)
            return state
        state = await self.store.load(session_id)
        if MARK not in state.metadata:
            raise NotFoundError(
                f"session {session_id!r} has no checkpoint: it was only saved as a session", key=session_id
            )
        return state

    async def resume_from_checkpoint(self, session_id: str) -> tuple[SessionState, int]:
        """Return the state at its last checkpoint, and the number of the step to do next.

        Raises:
            NotFoundError: There is no such session, or no checkpoint of it was saved.
        """
        state = await self.load_checkpoint(session_id)
        return state, state.current_step + 1

    async def checkpoint_if_due(
        self, state: SessionState, step: int, *, ends_phase: bool = False, ends_transaction: bool = True
    ) -> Version | None:
        """Call this after every step; it saves a checkpoint when the policy wants one and returns its version."""
        if self.is_due(state.session_id, ends_phase=ends_phase, ends_transaction=ends_transaction, counts=True):
            return await self.save_checkpoint(state, step)
        return None

    async def run(
        self,
        session: SessionState | str,
        steps: Iterable[Step] | AsyncIterable[Step],
        *,
        retries: int = 3,
        retry_on: Callable[[BaseException], bool] = is_transient,
        on_step: Callable[[Step, str], None] | None = None,
    ) -> RunReport:
        """Do the steps that are not recorded yet, each followed by a checkpoint when the policy wants one.

        Calling it again after a crash, on this or any other worker, does what is left. A step is done once its result is
        recorded, in the same write as the messages it appended. A step that was cut off before that runs again, with the same
        `StepRun.key`: what has effects outside should pass the key on, so that a second use of it changes nothing. That is
        as close to exactly-once as a store can bring effects that it does not hold.

        While steps await, the time to live of what they are recorded in starts over after each third of it, so that a step may
        take longer. A step that blocks the event loop for all of it ends in a `SessionGoneError`: make it async, or raise
        `ttl_seconds`.

        Errors are never recorded as results. A transient one (lost connection, serialization failure) is tried again on the
        state as it was before the step; any other ends the run, with all that was checkpointed kept.

        Args:
            session: A session id to resume; or a state to start from, which is saved first if it is new. Where a session of
                its id exists already, that one is resumed.
            steps: In order. A name names one step for ever: it is how a resumed run knows that the step is done. May be
                a generator that looks at the state of the steps done so far.
            retries: Tries of one step after the first.
            retry_on: Which errors are worth another try.
            on_step: Called with a step and "skipped", "started" or "saved"; "saved" covers all steps before it too.

        Returns:
            The state after the last step, and which steps were done and skipped.

        Raises:
            ConflictError: Another worker runs the same session; this one stopped.
            SessionGoneError: It was deleted, or expired during a step; what was saved is gone with it.
            StaleFenceError: As for `save_checkpoint`.
            LockLostError: As for `save_checkpoint`.
            ArgumentError: Two steps have one name.
        """
        runner = StepRunner(
            self, retries=retries, retry_on=retry_on, sleep=self._sleep, draw=self._random, on_step=on_step
        )
        return await runner.run(session, steps)

    async def start(self, session: SessionState | str) -> SessionState:
        """Return the state that a run goes on with; it is stored, so that the keys of its steps can name a generation."""
        if self._apart is None:
            return await self._start_here(session)
        if isinstance(session, str):
            try:
                return await self._apart.start(await self.store.load(session))
            except NotFoundError:
                # It ended before its checkpoint did.
                state = await self._apart.load(session, may_be_begun=True)
                await self._renew_if_ended(state)
                return state
        return await self._apart.start(session)

    async def _start_here(self, session: SessionState | str) -> SessionState:
        if isinstance(session, str):
            return await self.store.load(session)
        if version_of(session) is None:
            try:
                await self.store.save(session)
            except ConflictError as error:
                if error.actual is None:
                    raise
                return await self.store.load(session.session_id)
        return session

    def generation_of(self, state: SessionState) -> str:
        """Return the generation of the record that the state's checkpoints are written to, "" for none."""
        if self._apart is not None:
            return self._apart.generation_of(state)
        version = version_of(state)
        return "" if version is None else version.generation

    def renewed(self, state: SessionState) -> tuple[Sessions, str, float | None]:
        """Return the record that a run writes, and how long it lives after each write: store, session id, seconds."""
        if self._apart is not None:
            return self._apart.store, state.session_id, self._apart.ttl_s
        return self.store, state.session_id, state.ttl_seconds

    async def _renew_if_ended(self, state: SessionState) -> None:
        """Let a state whose session is no longer stored be one that is yet to be saved."""
        try:
            await self.store.load(state.session_id)
        except NotFoundError:
            state.version, state.generation = 0, ""
            state.log.saved = state.log.stored = 0

    def _note(self, session_id: str, steps: int, since: float) -> None:
        self._since[session_id] = (steps, since)
        self._since.move_to_end(session_id)
        if len(self._since) > _FOLLOWED:
            self._since.popitem(last=False)

    def is_due(self, session_id: str, *, ends_phase: bool, ends_transaction: bool, counts: bool) -> bool:
        """Ask the policy about the last step of a session, and count the step if it was not counted yet."""
        now = self._clock()
        steps, since = self._since.get(session_id, (0, now))
        steps += counts
        self._note(session_id, steps, since)
        return self.policy.due(Progress(steps, now - since, ends_phase, ends_transaction))
