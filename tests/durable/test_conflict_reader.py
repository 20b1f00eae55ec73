"""A write that meets another version brings the record along: the store's half, and what sessions make of it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from holdall import ConflictError, Encryption, OptimisticStateStore, SessionState, StaleFenceError, StateSerializer
from holdall.durable.session_store import SessionStore
from holdall.stores.base import ABSENT, Blob, ConflictReader, Entry, Record, Version

HEAD = Blob("json", b'{"n": 1}')


@pytest.fixture
def backend(store: SessionStore) -> Any:
    assert isinstance(store.store, ConflictReader)
    return store.store


@pytest.fixture
def key() -> str:
    return f"k-{uuid4().hex}"


def entries(*names: str) -> list[Entry]:
    return [Entry("message", name.encode()) for name in names]


async def written(backend: Any, key: str, *names: str, **options: Any) -> Version:
    version: Version = await backend.write(
        key, HEAD, **{"expected": None, "append": entries(*names), "ttl_s": 60.0, **options}
    )
    return version


async def attempt(backend: Any, key: str, expected: Version, log_from: int, **options: Any) -> Version | Record:
    options = {"append": entries("mine"), "ttl_s": 60.0, **options}
    found: Version | Record = await backend.write_or_read(
        key, Blob("json", b'{"n": 2}'), expected=expected, log_from=log_from, **options
    )
    return found


async def test_at_the_expected_version_it_is_a_write(backend: Any, key: str) -> None:
    """All of it: head, log, tags, expiry, fence and op_id."""
    first = await written(backend, key, "a")
    options = {"tags": {"user_id": "u"}, "op_id": "op", "keep": 0}
    version = await attempt(backend, key, first, 1, **options)
    assert version == Version(first.generation, 2)
    # a repeat is answered, though the version has moved on
    assert await attempt(backend, key, first, 1, **options) == version
    record = await backend.read(key)
    assert (record.version, record.tags) == (version, {"user_id": "u"})
    assert [entry.data for entry in record.entries] == [b"mine"]
    assert await attempt(backend, key, version, 1, fence=7) == Version(first.generation, 3)
    with pytest.raises(StaleFenceError):
        await attempt(backend, key, Version(first.generation, 3), 1, fence=6)
    with pytest.raises(StaleFenceError):
        await attempt(backend, key, first, 1)


async def test_at_another_version_the_record_comes_along(backend: Any, key: str) -> None:
    """Just as a read gives it, with the end of the log alone; nothing is written."""
    first = await written(backend, key, "a", "b", tags={"user_id": "u"})
    await written(backend, key, "c", "d")
    before = await backend.read(key)
    found = await attempt(backend, key, first, 2)
    assert isinstance(found, Record)
    assert (found.key, found.version, found.head, found.log_len) == (key, before.version, before.head, 4)
    assert (found.tags, found.expires_at) == (before.tags, before.expires_at)
    assert list(found.entries) == list(before.entries)[2:]
    assert await backend.read(key) == before
    nothing_new = await attempt(backend, key, first, 4)
    assert isinstance(nothing_new, Record)
    assert list(nothing_new.entries) == []


async def test_a_log_that_was_cut_since_comes_whole(backend: Any, key: str) -> None:
    """Also where it is as long again: its beginning is another one. One that was cut before is known."""
    first = await written(backend, key, "a", "b")
    cut = await written(backend, key, "c", "d", keep=1)
    found = await attempt(backend, key, first, 2)
    assert isinstance(found, Record)
    assert [(entry.seq, entry.data) for entry in found.entries] == [(0, b"a"), (1, b"c"), (2, b"d")]
    await written(backend, key, "e", keep=100)
    found = await attempt(backend, key, cut, 3)
    assert isinstance(found, Record)
    assert [(entry.seq, entry.data) for entry in found.entries] == [(3, b"e")]
    await written(backend, key, keep=0)
    found = await attempt(backend, key, cut, 3)
    assert isinstance(found, Record)
    assert (found.log_len, list(found.entries)) == (0, [])
    # a caller that claims to know more than there is gets it all
    await written(backend, key, "f")
    found = await attempt(backend, key, cut, 9)
    assert isinstance(found, Record)
    assert [entry.seq for entry in found.entries] == [0]


async def test_a_record_that_was_made_anew_comes_whole(backend: Any, key: str) -> None:
    """Its generation is another; and where there is none, the conflict says so."""
    first = await written(backend, key, "a", "b")
    await backend.delete(key)
    with pytest.raises(ConflictError) as caught:
        await attempt(backend, key, first, 2)
    assert (caught.value.expected, caught.value.actual) == (first, None)
    anew = await written(backend, key, "x", "y", "z", expected=ABSENT)
    found = await attempt(backend, key, first, 2)
    assert isinstance(found, Record)
    assert (found.version, [entry.data for entry in found.entries]) == (anew, [b"x", b"y", b"z"])


def said(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


async def test_sessions_go_on_from_what_came_along(store: SessionStore, key: str) -> None:
    """The same state as a load gives, with the messages that were known taken from memory."""
    state = SessionState(session_id=key, user_id="u")
    state.messages.extend(said(str(n)) for n in range(3))
    await store.save(state)
    other = await store.load(key)
    other.messages.append(said("theirs"))
    other.step_results["s"] = [1]
    other.metadata["n"] = 1
    await store.save(other)
    known = state.log.items
    state.messages.append(said("mine"))
    stored = await store.save_or_load(state, known)
    assert stored == other
    assert stored is not None
    assert stored.messages[0] is state.messages[0]
    assert (stored.version, stored.generation) == (other.version, other.generation)
    assert (state.version, len(state.log.pending().items)) == (1, 1)
    stored.messages.append(said("mine"))
    assert await store.save_or_load(stored, known) is None
    assert await store.load(key) == stored
    # cut by another: all of it comes anew
    other = await store.load(key)
    del other.messages[:2]
    await store.save(other)
    assert await store.save_or_load(stored, stored.log.items) == other


async def test_encrypted_entries_keep_their_places(store: SessionStore, key: str) -> None:
    """Each is bound to its seq: those that come along go on counting where the known ones end."""
    sealed = SessionStore(store.store, StateSerializer(encryption=Encryption({"k": bytes(32)}, "k")))
    state = SessionState(session_id=key, user_id="u")
    state.messages.extend(said(str(n)) for n in range(3))
    await sealed.save(state)
    other = await sealed.load(key)
    other.messages.extend([said("a"), said("b")])
    await sealed.save(other)
    assert await sealed.save_or_load(state, state.log.items) == other


async def test_a_view_shows_no_other_users_record(store: SessionStore, key: str) -> None:
    """Not even with a conflict: the id changed hands meanwhile."""
    state = SessionState(session_id=key, user_id="u")
    mine = store.scoped("u")
    await mine.save(state)
    known = state.log.items
    await store.delete(key)
    await store.save(SessionState(session_id=key, user_id="other", summary="secret"))
    with pytest.raises(ConflictError) as caught:
        await mine.save_or_load(state, known)
    assert caught.value.actual is None
    await store.delete(key)
    fresh = SessionState(session_id=key, user_id="u")
    await mine.save(fresh)
    theirs = await store.load(key)
    await store.save(theirs)
    stored = await mine.save_or_load(fresh, fresh.log.items)
    assert stored == theirs


async def test_the_first_retry_comes_at_once_and_reads_nothing(store: SessionStore, key: str) -> None:
    """One round trip for the attempt that failed, one for the one that does not."""

    class Watched:
        loads = 0
        left = 1

        async def load(self, session_id: str) -> SessionState:
            self.loads += 1
            return await store.load(session_id)

        async def save(self, state: SessionState, **options: Any) -> Any:
            raise AssertionError("not while there are retries left")

        async def save_or_load(self, state: SessionState, known: Any, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                other = await store.load(state.session_id)
                other.messages.append(said("theirs"))
                await store.save(other)
            return await store.save_or_load(state, known, **options)

    async def sleep(_: float) -> None:
        raise AssertionError("it waited")

    state = SessionState(session_id=key, user_id="u")
    await store.save(state)
    watched: Any = Watched()
    given = await OptimisticStateStore(watched, sleep=sleep).update(key, lambda s: s.messages.append(said("ours")))
    assert [message["content"] for message in given.messages] == ["theirs", "ours"]
    assert await store.load(key) == given
    assert watched.loads == 1
