"""Sessions on any store: what joins a store, which holds bytes, and a serializer, which knows what a session is."""

from __future__ import annotations

import asyncio
from builtins import list as List  # noqa: N812 - `list` is a method here
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from holdall.durable.finish import finish, settle
from holdall.durable.kept import announced_cut
from holdall.durable.keys import check_id, session_id_of, session_key, user_key
from holdall.durable.scoped import ScopedSessions
from holdall.durable.sessions import NO_LOG, HistoryItem, SessionInfo, gone, missing, new_op_id
from holdall.durable.snapshot import Write, version_of
from holdall.durable.ttl import TOMBSTONE_TTL_S, check_ttl
from holdall.errors import ArgumentError, ClosedError, ConflictError, StaleFenceError, UserDeletedError
from holdall.state import SessionState, StateSerializer
from holdall.stores.base import Blob, ConflictReader, Record, Store, Version
from holdall.stores.rows import raw

if TYPE_CHECKING:
    from typing_extensions import Self

    from holdall.state.log import Items

_USER_DELETED: Final = Blob("json", b'{"user_deleted": true}')


@runtime_checkable
class Migrating(Protocol):
    """A store with a schema."""

    async def migrate(self, *, dry_run: bool = False) -> List[str]:
        """Apply the migrations that are due and return their names."""
        ...


class SessionStore:
    """Sessions that any worker can pick up, none of whose acknowledged writes is lost or overwritten.

    Connects on first use. An async context manager that also works without `async with`; then call `aclose()`.

    Args:
        store: Where records are held.
        serializer: How states become bytes; by default msgpack.
        name: For `repr`: the URL, its secrets already masked.
    """

    def __init__(self, store: Store, serializer: StateSerializer | None = None, *, name: str | None = None) -> None:
        self.store = store
        self.serializer = serializer if serializer is not None else StateSerializer()
        self._name = name
        self._is_closed = False
        self._conflict_reader = store if isinstance(store, ConflictReader) else None

    async def save(self, state: SessionState, *, fence: int | None = None) -> Version:
        """Write the state as it is now, if nobody else wrote since it was loaded.

        A state that was never saved is created; one that was loaded is updated. Only messages and step results that are new,
        or stand behind an edit, are sent. The session's time to live starts over, in the same write. A lost connection is
        tried once more; a repeat of a write that did happen changes nothing. A caller that is cancelled meanwhile gets its
        cancellation when the write has been brought to its end, so that `state.version` says whether it happened. One that is
        cancelled again before that, as anyio does, does not know: load before you save again, or meet a ConflictError.

        Args:
            state: What to write.
            fence: The fencing token of a lock, see `LockedStateStore`; a session that has seen one takes no write without.

        Returns:
            The version written; `state.version` is its number.

        Raises:
            ConflictError: Somebody else wrote, created or deleted it meanwhile. The state in memory is as it was.
            SessionGoneError: It was deleted, or expired since it was loaded; a ConflictError.
            StaleFenceError: The session has seen a higher fence: the lock was lost, or was never taken.
            UserDeletedError: The session is new, or was another user's when it was loaded, and its user was deleted. Nothing was
                written; but a session whose user is deleted at the very moment of the save goes with the user.
            EncodeError: A value in it cannot be stored so that it comes back equal.
            OutcomeUnknownError: The connection was lost twice; load before you save again.
        """
        self._check_open()
        # The snapshot is taken before the first await: what the caller changes from now on is not in it.
        write, op_id = Write.of(state, self.serializer), new_op_id()
        try:
            return await self._save(state, write, op_id, fence)
        except asyncio.CancelledError:
            # Whether it happened is found out by the same call again, which the op_id makes harmless. A task of its own
            # for every save would do the same and cost each 27 us.
            await settle(self._save(state, write, op_id, fence, is_repeat=True))
            raise

    async def save_or_load(self, state: SessionState, known: Items, *, fence: int | None = None) -> SessionState | None:
        """As `save`; but where somebody else was faster, return what is stored now, from the same round trip.

        Args:
            state: What to write.
            known: Its log as it was at `state.version`, which need not be read again where nobody cut it since.
            fence: As for `save`.

        Returns:
            None if the state was saved, else the session as it is now.

        Raises:
            ConflictError: As `save`, where the record cannot be brought along: the session is new, or was deleted, or the
                backend does not do it.
        """
        expected = version_of(state)
        if self._conflict_reader is None or expected is None:
            await self.save(state, fence=fence)
            return None
        self._check_open()
        write, op_id = Write.of(state, self.serializer), new_op_id()
        if write.keep is not None or write.takes_user:
            # An edit, which threads may have to be asked about first; or another user, who may have been deleted.
            await self.save(state, fence=fence)
            return None
        try:
            found = await self._conflict_reader.write_or_read(
                write.key,
                write.head,
                expected=expected,
                append=write.append,
                keep=write.keep,
                ttl_s=write.ttl_s,
                tags=write.tags,
                fence=fence,
                op_id=op_id,
                log_from=len(known),
            )
        except asyncio.CancelledError:
            await settle(self._save(state, write, op_id, fence, is_repeat=True))
            raise
        except ConflictError as error:
            _refuse_gone(error, write)
            raise
        if isinstance(found, Version):
            write.mark_saved(state, found)
            return None
        return self._continued(found, known)

    def _continued(self, record: Record, known: Items) -> SessionState:
        """Return the state that a record holds whose log begins with what is known, or all of it is there."""
        start = record.entries[0].seq if record.entries else record.log_len
        return self.serializer.restore(
            record.head.data,
            raw(record.entries),
            record=session_id_of(record.key),
            version=record.version.number,
            generation=record.version.generation,
            known=known if start else None,
        )

    async def _save(
        self, state: SessionState, write: Write, op_id: str, fence: int | None, *, is_repeat: bool = False
    ) -> Version:
        # A repeat does not ask beforehand: where its user was deleted meanwhile, what it repeats is to be found and deleted.
        if write.takes_user and not is_repeat:
            await self._refuse_deleted_user(write.user_id)
        if write.keep is None:
            version = await self._write(write, op_id, fence)
        else:
            async with announced_cut(self.store, write.key, write.keep, user_id=write.user_id, op_id=op_id):
                version = await self._write(write, op_id, fence)
        if write.takes_user:
            # delete_user leaves its mark and only then looks for sessions. So a session it did not see was written after
            # the mark, and sees the mark here. Of an older session nothing can be put back: it is the user's, and goes too.
            try:
                await self._refuse_deleted_user(write.user_id)
            except UserDeletedError:
                await self.store.delete(write.key, expected=version, fence=fence, op_id=new_op_id())
                raise
        write.mark_saved(state, version)
        return version

    async def _write(self, write: Write, op_id: str, fence: int | None) -> Version:
        try:
            return await self.store.write(
                write.key,
                write.head,
                expected=write.expected,
                append=write.append,
                keep=write.keep,
                ttl_s=write.ttl_s,
                tags=write.tags,
                fence=fence,
                op_id=op_id,
            )
        except ConflictError as error:
            _refuse_gone(error, write)
            raise

    async def load(self, session_id: str) -> SessionState:
        """Return the session as it was last saved.

        Raises:
            NotFoundError: It was never saved, was deleted, or has expired.
            DecodeError: What is stored is damaged.
            NewerStateError: It was written by a newer holdall.
        """
        return self.restore(await self.read(session_id))

    async def read(self, session_id: str, *, log_from: int = 0) -> Record:
        """Return the session's record undecoded, or raise NotFoundError."""
        self._check_open()
        record = await self.store.read(session_key(session_id), log_from=log_from)
        if record is None:
            raise missing(session_id)
        return record

    def restore(self, record: Record) -> SessionState:
        """Return the state that a whole record holds."""
        return self.serializer.restore(
            record.head.data,
            raw(record.entries),
            record=session_id_of(record.key),
            version=record.version.number,
            generation=record.version.generation,
        )

    async def info(self, session_id: str) -> SessionInfo:
        """Return what is known of a session without reading its content, or raise NotFoundError."""
        record = await self.read(session_id, log_from=NO_LOG)
        return SessionInfo(
            session_id,
            record.tags.get("user_id", ""),
            record.tags.get("status", ""),
            record.version.number,
            record.log_len,
            record.expires_at,
        )

    async def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """Let the session live `ttl_s` seconds from now (None: for ever); False where there is none.

        It makes no new version, so no writer conflicts with it. The next save sets the time to live of the state again.
        """
        self._check_open()
        return await finish(self.store.touch(session_key(session_id), check_ttl(ttl_s), op_id=new_op_id()))

    async def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """Delete a session; False where there was none. A worker that still holds it gets a ConflictError when it saves.

        Args:
            session_id: Which session.
            expected: Delete it only at this version.
            fence: As for `save`.

        Raises:
            ConflictError: It is at another version than `expected`.
            StaleFenceError: As for `save`.
        """
        self._check_open()
        return await finish(
            self.store.delete(session_key(session_id), expected=expected, fence=fence, op_id=new_op_id())
        )

    async def history(self, session_id: str, before: int | None = None, limit: int = 50) -> List[HistoryItem]:
        """Return the newest `limit` messages older than `before`, in the order of the conversation.

        For the page before this one pass `before=page[0].seq`. Only the page is read, whatever the length of the session.

        Raises:
            NotFoundError: There is no such session.
        """
        self._check_open()
        key = session_key(session_id)
        if limit < 1:
            raise ArgumentError(f"limit is {limit}; at least 1")
        entries = await self.store.read_log(key, kind="message", before=before, limit=limit)
        if not entries and await self.store.read(key, log_from=NO_LOG) is None:
            raise missing(session_id)
        return [
            HistoryItem(entry.seq, self.serializer.read_entry(entry.kind, entry.data, seq=entry.seq, record=session_id))
            for entry in reversed(entries)
        ]

    async def list(self, *, user_id: str | None = None, status: str | None = None) -> List[str]:
        """Return the ids of the live sessions, of one user or with one status if asked, in no order."""
        self._check_open()
        tags = {} if user_id is None else {"user_id": check_id(user_id, "user_id")}
        if status is not None:
            tags["status"] = status
        ids = [session_id_of(key) async for key in self.store.find(**tags)]
        return list(dict.fromkeys(found for found in ids if found is not None))

    async def delete_user(self, user_id: str) -> int:
        """Delete every session of a user, and refuse new ones for 24 hours, so that no late writer brings one back.

        The user's profile and cached tool answers in this store go too; `holdall.delete_user` covers several stores.

        Complete and idempotent: cut off half way, call it again. `readmit_user` lets the user in before the 24 hours are over.

        Returns:
            How many sessions were deleted.
        """
        self._check_open()
        return await finish(self._delete_user(user_id))

    async def _delete_user(self, user_id: str) -> int:
        key = user_key(user_id)
        await self.store.write(key, _USER_DELETED, expected=None, ttl_s=TOMBSTONE_TTL_S, op_id=new_op_id())
        n_deleted = 0
        while True:
            found = [key async for key in self.store.find(user_id=user_id)]
            if not found:
                return n_deleted
            for record in found:
                # profiles and cached answers of the user go too, and are no sessions
                n_deleted += await self._delete_if_of(record, user_id) and session_id_of(record) is not None

    async def _delete_if_of(self, key: str, user_id: str) -> bool:
        """Delete a record at whatever version it is, as long as it belongs to the user."""
        fence = None
        while True:
            record = await self.store.read(key, log_from=NO_LOG)
            if record is None or record.tags.get("user_id") != user_id:
                return False
            try:
                return await self.store.delete(key, expected=record.version, fence=fence, op_id=new_op_id())
            except StaleFenceError as error:
                fence = error.highest  # a lock guards against other workers, not against the user's leave
            except ConflictError:
                continue  # a writer was faster; each of its writes needs a round trip too, so this ends

    async def readmit_user(self, user_id: str) -> bool:
        """Let a deleted user have sessions again; False where the user was not deleted."""
        self._check_open()
        return await finish(self.store.delete(user_key(user_id), op_id=new_op_id()))

    async def _refuse_deleted_user(self, user_id: str) -> None:
        if await self.store.read(user_key(user_id), log_from=NO_LOG) is not None:
            raise UserDeletedError(
                f"user {user_id!r} was deleted; readmit_user({user_id!r}) allows new sessions", user_id=user_id
            )

    def scoped(self, user_id: str) -> ScopedSessions:
        """Return a view through which only this user's sessions exist, for ids that come from outside."""
        return ScopedSessions(self, user_id)

    async def migrate(self, *, dry_run: bool = False) -> List[str] | None:
        """Apply the migrations that are due and return their names; None where the backend has no schema.

        The first use of a store does the same; call this where deployments migrate on their own.

        Args:
            dry_run: Only return what is due.
        """
        self._check_open()
        if isinstance(self.store, Migrating):
            return await self.store.migrate(dry_run=dry_run)
        return None

    async def aclose(self) -> None:
        """Give back connections. Idempotent; a later call raises ClosedError."""
        if not self._is_closed:
            self._is_closed = True
            await self.store.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self!r} is closed; open it again")

    async def __aenter__(self) -> Self:
        self._check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name or self.store.backend})"


def _refuse_gone(error: ConflictError, write: Write) -> None:
    """Give a conflict with nothing, where there was a session, its own name."""
    session_id = session_id_of(write.key)
    if error.actual is not None or isinstance(error, StaleFenceError):
        return
    if isinstance(write.expected, Version) and session_id is not None:
        raise gone(session_id, write.expected, write.ttl_s) from error
