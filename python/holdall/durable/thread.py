"""`ConversationThread`: fork a session at a message, go on in both, and join what came of it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from holdall.durable.ancestry import DEFAULT_MAX_DEPTH, Ancestry
from holdall.durable.join import JoinStrategy, Summarizer, joiner
from holdall.durable.kept import drop_kept, none_cutting
from holdall.durable.keys import MAX_ID_BYTES, check_id, session_key
from holdall.durable.optimistic import OptimisticStateStore
from holdall.durable.sessions import NO_LOG
from holdall.durable.tree import ThreadNode, tree_of
from holdall.errors import ArgumentError, ConflictError, HoldallError, StoreUnavailableError, ThreadError
from holdall.state import SessionState
from holdall.state.thread import (
    ABANDONED,
    COMPLETED,
    JOINED,
    ThreadLink,
    joined_threads,
    set_thread_link,
    thread_link,
)

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore

# A fork meets a parent that is written at the same time so often before it gives up.
_ATTEMPTS: Final = 16
_OF_PARENT: Final = object()


class ConversationThread:
    """A session seen as a conversation that branches.

    A thread is a session of its own, with a link to where it left its parent: forking copies nothing, whatever the length of
    the conversation. It sees what the parent said up to there and nothing that was said later; an edit of what it took over
    stays the parent's own (the first such edit keeps a copy for the threads that it concerns, which `sweep` removes once they
    are gone). Its messages are those it
    added itself; `build_context` gives what a model is to see.

    A thread lives as long as its own record, but what it took over lives with the parent: give both the same time to live, and
    delete a parent after its threads.

    Args:
        store: Where the sessions are.
        session_id: Of this thread, which may be any session.
    """

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self.store = store
        self.session_id = check_id(session_id)
        self._updates = OptimisticStateStore(store)

    @property
    def updates(self) -> OptimisticStateStore:
        """Updates of this thread and its relatives that several workers make at once."""
        return self._updates

    async def load(self) -> SessionState:
        """Return the session: the messages that this thread added itself."""
        return await self.store.load(self.session_id)

    async def append(self, *messages: dict[str, Any]) -> SessionState:
        """Add messages; several workers may do so at once.

        Raises:
            ThreadError: The thread is completed or abandoned.
        """

        def add(state: SessionState) -> None:
            _check_active(state, "be added to")
            state.messages.extend(messages)

        return await self._updates.update(self.session_id, add)

    async def fork(
        self,
        at: int | None = None,
        *,
        session_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: float | object | None = _OF_PARENT,
    ) -> ConversationThread:
        """Begin a thread that sees the first `at` messages of this one's context; several may begin at once.

        Args:
            at: 0 (nothing) to the number of messages in the context (all so far); None: all so far.
            session_id: Of the new thread; by default drawn at random, beginning with the parent's.
            metadata: Of the new thread.
            ttl_seconds: Of the new thread; by default the parent's.

        Returns:
            The new thread: a session of the same user with the same active tools, and its own cost, steps and plan.

        Raises:
            IndexError: The context has fewer messages; nothing was made.
            ConflictError: There is a session of that id, or the parent was written all the time.
            NotFoundError: There is no such parent.
        """
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise ArgumentError(f"at is {at!r}; a number of messages, or None for all so far")
        child = check_id(session_id) if session_id is not None else _drawn(self.session_id)
        for _ in range(_ATTEMPTS):
            ancestry = await Ancestry.read(self.store, self.session_id)
            link = ancestry.link_at(at)
            parent = self.store.restore(ancestry.records[0])
            state = SessionState(
                session_id=child,
                user_id=parent.user_id,
                active_tools=list(parent.active_tools),
                ttl_seconds=parent.ttl_seconds if ttl_seconds is _OF_PARENT else ttl_seconds,  # type: ignore[arg-type]
                metadata=dict(metadata or {}),
            )
            set_thread_link(state, link)
            await self.store.save(state)
            # An earlier thread of this id may have left a copy of what it took over. Not before the save: where it finds
            # that there is such a session, the copy is that one's. An edit that made one since makes the fork begin anew.
            await drop_kept(self.store.store, session_key(child))
            if await self._stands(link, ancestry):
                return ConversationThread(self.store, child)
            await self.store.delete(child)
        raise ConflictError(
            f"session {self.session_id!r} was written during each of {_ATTEMPTS} attempts to fork it",
            key=self.session_id,
            expected=ancestry.records[0].version,
            actual=None,
        )

    async def _stands(self, link: ThreadLink, ancestry: Ancestry) -> bool:
        """Whether what was taken over is still there; see `holdall.durable.kept`.

        A base that only grew is another version too, and the fork is made anew.
        """
        base = next(record for record in ancestry.records if record.key == link.base)
        if not await none_cutting(self.store.store, link.base):
            return False
        now = await self.store.store.read(link.base, log_from=NO_LOG)
        return now is not None and now.version == base.version

    async def join(
        self,
        thread: ConversationThread | str,
        strategy: JoinStrategy = "append",
        *,
        summarizer: Summarizer | None = None,
    ) -> SessionState:
        """Bring what came of a thread into this one, in one write, and complete the thread. Done twice, it happens once.

        The thread is completed first, so that nothing is added to it that is not brought; where it cannot be joined it goes
        on as it was. Costs and tokens are added in any case. After a lost connection, join again.

        Args:
            thread: A thread that was forked from this one.
            strategy: "append": its messages at the end, and its step results; "summary": one message that sums them up;
                "results": its step results only; or a function of (this state, the thread's state), sync or async, that
                changes this state. It may be called again when somebody else was faster.
            summarizer: For "summary": from a list of texts to one, sync or async; by default the weightiest sentences.

        Returns:
            This thread's state, as saved.

        Raises:
            ThreadError: It was not forked from this one, or is abandoned.
            MergeConflictError: Both recorded a step, with different results.
        """
        child_id = thread if isinstance(thread, str) else thread.session_id
        child = await self.store.load(child_id)
        link = thread_link(child)
        if link is None or link.parent != self.session_id:
            raise ThreadError(f"{child_id!r} is no thread of {self.session_id!r}", thread=child_id)
        if child.status == ABANDONED:
            raise ThreadError(f"{child_id!r} was abandoned and cannot be joined", thread=child_id)
        bring, was = joiner(strategy, summarizer), child.status
        child = await self._set_status(child_id, COMPLETED)

        async def add(state: SessionState) -> None:
            if child_id in joined_threads(state):
                return
            await bring(state, child)
            state.add_cost(child.accumulated_cost)
            state.token_count += child.token_count
            state.metadata[JOINED] = [*joined_threads(state), child_id]

        try:
            return await self._updates.update(self.session_id, add)
        except StoreUnavailableError:
            raise  # perhaps it was joined
        except Exception:
            await self._reopen(child_id, was)
            raise

    async def _reopen(self, session_id: str, status: str) -> None:
        """Let a thread that was not joined be what it was."""

        def reopen(state: SessionState) -> None:
            state.status = status

        if status != COMPLETED:
            with contextlib.suppress(HoldallError):
                await self._updates.update(session_id, reopen)

    async def complete(self) -> SessionState:
        """End the thread: what it found stands, and nothing is added any more."""
        return await self._set_status(self.session_id, COMPLETED)

    async def abandon(self) -> SessionState:
        """End the thread without a result: it cannot be joined."""
        return await self._set_status(self.session_id, ABANDONED)

    async def _set_status(self, session_id: str, status: str) -> SessionState:
        def end(state: SessionState) -> None:
            if state.status != status:
                _check_active(state, f"become {status}")
                state.status = status

        return await self._updates.update(session_id, end)

    async def status(self) -> str:
        """Return "active", "completed", "abandoned", or what the caller set."""
        return (await self.store.info(self.session_id)).status

    async def build_context(self, *, max_depth: int = DEFAULT_MAX_DEPTH) -> list[dict[str, Any]]:
        """Return all messages that this thread sees, oldest first: its ancestors' up to the forks, then its own.

        One recursive query on PostgreSQL and SQLite, one script on Redis, elsewhere one read per ancestor.

        Raises:
            NotFoundError: There is no such session.
            MissingParentError: An ancestor was deleted or has expired.
            ThreadCycleError: It is its own ancestor.
            ThreadDepthError: It has more than `max_depth` ancestors.
        """
        return (await Ancestry.read(self.store, self.session_id, max_depth=max_depth)).messages()

    async def ancestry(self, *, max_depth: int = DEFAULT_MAX_DEPTH) -> list[str]:
        """Return the session ids from this thread to the root: its parent, the parent's parent, and so on."""
        return await Ancestry.path(self.store, self.session_id, max_depth=max_depth)

    async def tree(self) -> ThreadNode:
        """Return this thread with all threads below it."""
        return await tree_of(self.store, self.session_id)

    async def delete(self) -> bool:
        """Delete the thread and what was kept for it; threads forked from it lose what they took over."""
        existed = await self.store.delete(self.session_id)
        await drop_kept(self.store.store, session_key(self.session_id))
        return existed

    def __repr__(self) -> str:
        return f"ConversationThread({self.store!r}, {self.session_id!r})"


def _check_active(state: SessionState, to_do: str) -> None:
    if state.status in (COMPLETED, ABANDONED):
        raise ThreadError(f"{state.session_id!r} is {state.status} and cannot {to_do}", thread=state.session_id)


def _drawn(parent: str) -> str:
    """Return an id that no other fork draws, in the same millisecond either."""
    drawn = os.urandom(9).hex()
    name = f"{parent}.{drawn}"
    return name if len(name.encode()) <= MAX_ID_BYTES else drawn
