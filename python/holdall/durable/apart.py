"""Checkpoints in a store of their own: what is written there of a session, and what comes back."""

from __future__ import annotations

import operator
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.durable.ttl import check_ttl
from holdall.errors import ConflictError, DecodeError, NotFoundError, StaleFenceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState
    from holdall.state.log import Items
    from holdall.stores.base import Version

# In the metadata of such a checkpoint: the step, and where the session stood in its own store.
_APART: Final = "holdall.checkpoint.apart"


class _Written(NamedTuple):
    """What a checkpoint store holds of a state: at which version, its log, and whose it is."""

    version: int
    generation: str
    items: Items
    user_id: str


class ApartCheckpoints:
    """Checkpoints as records of their own, with their own versions and time to live.

    A checkpoint costs what the step added here too: what was written of a state is remembered as long as the state lives.
    """

    def __init__(
        self, store: Sessions, ttl_s: float | None, *, is_current: Callable[[str], Awaitable[bool]] | None = None
    ) -> None:
        self.store = store
        self.ttl_s = check_ttl(ttl_s)
        # Under a lock: whether this worker's fence is the highest that the session itself has seen.
        self._is_current = is_current
        self._fences: dict[str, int] = {}
        # By the id of the state, whose end takes the entry with it: states are equal by value, and have no hash.
        self._written: dict[int, tuple[weakref.ref[SessionState], _Written]] = {}

    async def save(self, state: SessionState, step: int | None) -> Version:
        """Write a checkpoint after `step`, None for before the first; version and watermark of the state are not touched.

        Raises:
            ConflictError: There is a checkpoint that this state does not come from, and that its session does not outdate.
        """
        written = self._of(state)
        twin, items = self._twin(state, step, written)
        try:
            version = await self._put(twin)
        except ConflictError:
            outdated = None if written is not None else await self._outdated_by(state)
            if outdated is None:
                raise
            twin, items = self._twin(state, step, outdated)
            version = await self._put(twin)
        self._note(state, _Written(version.number, version.generation, items, twin.user_id))
        return version

    async def _put(self, twin: SessionState) -> Version:
        session_id = twin.session_id
        try:
            return await self.store.save(twin, fence=self._fences.get(session_id))
        except StaleFenceError as error:
            # Of a session of that id which ended before its checkpoint did: the fences of this one count anew.
            if self._is_current is None or not await self._is_current(session_id):
                raise
            self._fences[session_id] = error.highest + 1
            return await self.store.save(twin, fence=self._fences[session_id])

    async def load(self, session_id: str, *, may_be_begun: bool = False) -> SessionState:
        """Return the state as it was checkpointed, at the version its session had then.

        Args:
            session_id: Which session.
            may_be_begun: Also one that was written before the first step.

        Raises:
            NotFoundError: No checkpoint of it was saved, or it has expired.
            DecodeError: The record does not say where the session stood.
        """
        twin = await self.store.load(session_id)
        written = _Written(twin.version, twin.generation, twin.log.items, twin.user_id)
        mark: Any = twin.metadata.pop(_APART, None)
        if mark is None or (not may_be_begun and isinstance(mark, list) and mark[:1] == [None]):
            raise NotFoundError(f"session {session_id!r} has no checkpoint: no step of it was saved", key=session_id)
        twin.stored_user_id = ""  # of the session in its own store, which may be another's by now
        try:
            _, twin.version, twin.generation, twin.log.saved, twin.log.stored, twin.ttl_seconds = mark
        except (TypeError, ValueError) as error:
            raise DecodeError(
                f"the checkpoint of {session_id!r} does not say where it stands", offset=0, reason=str(error)
            ) from error
        self._note(twin, written)
        return twin

    async def start(self, state: SessionState) -> SessionState:
        """Return the state to go on with: this one, or its checkpoint where that knows more. There is a checkpoint then."""
        if self._of(state) is not None:
            return state
        try:
            found = await self.load(state.session_id, may_be_begun=True)
        except NotFoundError:
            found = None
        if found is not None and not _is_outdated(found, state):
            return found
        await self.save(state, None)
        return state

    def _twin(self, state: SessionState, step: int | None, written: _Written | None) -> tuple[SessionState, Items]:
        log = state.log
        items = log.items
        twin = state.copy()
        twin.current_step = state.current_step if step is None else step
        twin.ttl_seconds = self.ttl_s
        twin.metadata[_APART] = [step, state.version, state.generation, log.saved, log.stored, state.ttl_seconds]
        if written is None:
            twin.version, twin.generation = 0, ""
            twin.log.saved = twin.log.stored = 0
        else:
            twin.version, twin.generation = written.version, written.generation
            twin.stored_user_id = written.user_id
            twin.log.saved = _n_common(written.items, items)
            twin.log.stored = len(written.items)
        return twin, items

    async def _outdated_by(self, state: SessionState) -> _Written | None:
        try:
            found = await self.load(state.session_id, may_be_begun=True)
        except NotFoundError:
            return None
        return self._of(found) if _is_outdated(found, state) else None

    def generation_of(self, state: SessionState) -> str:
        """Return the generation of the state's checkpoint, "" where none was written."""
        written = self._of(state)
        return "" if written is None else written.generation

    def _of(self, state: SessionState) -> _Written | None:
        found = self._written.get(id(state))
        return found[1] if found is not None and found[0]() is state else None

    def _note(self, state: SessionState, written: _Written) -> None:
        key, known = id(state), self._written

        def forget(gone: weakref.ref[SessionState]) -> None:
            if key in known and known[key][0] is gone:
                del known[key]

        self._written[key] = weakref.ref(state, forget), written


def _is_outdated(checkpoint: SessionState, session: SessionState) -> bool:
    """Whether the session was saved after the checkpoint, with every step that the checkpoint records."""
    return (
        session.version > 0
        and (session.generation != checkpoint.generation or session.version > checkpoint.version)
        and checkpoint.step_results.keys() <= session.step_results.keys()
    )


def _n_common(before: Items, now: Items) -> int:
    """Return how many leading entries are the same objects: entries never change, an edit puts another one there."""
    n = min(len(before), len(now))
    is_same = all(map(operator.is_, before.messages, now.messages)) and all(map(operator.is_, before.pairs, now.pairs))
    if is_same and before.kinds[:n] == now.kinds[:n]:
        return n
    pairs = enumerate(zip(before, now, strict=False))
    return next((seq for seq, (one, other) in pairs if one.value is not other.value or one.kind != other.kind), n)
