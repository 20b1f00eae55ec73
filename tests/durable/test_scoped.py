"""`store.scoped(user)`: through it another user's session does not exist."""

from __future__ import annotations

from uuid import uuid4

import pytest

from holdall import ArgumentError, ConflictError, NotFoundError, OptimisticStateStore, SessionState
from holdall.durable.session_store import SessionStore


def users() -> tuple[str, str]:
    run = uuid4().hex
    return f"ann-{run}", f"bob-{run}"


def new(user_id: str, session_id: str | None = None) -> SessionState:
    return SessionState(session_id=session_id or f"s-{uuid4().hex}", user_id=user_id)


async def test_own_sessions_work_as_in_the_whole_store(store: SessionStore) -> None:
    """Save, load, list, history, extend_ttl and delete of one's own."""
    ann, _ = users()
    mine = store.scoped(ann)
    state = new(ann)
    state.messages.append({"role": "user", "content": "hi"})
    await mine.save(state)
    loaded = await mine.load(state.session_id)
    loaded.summary = "s"
    await mine.save(loaded)
    await mine.save(loaded)
    assert (await mine.load(state.session_id)).version == 3
    assert await mine.list() == [state.session_id]
    assert await mine.list(status="gone") == []
    assert [item.message["content"] for item in await mine.history(state.session_id)] == ["hi"]
    assert await mine.extend_ttl(state.session_id, 100) is True
    assert (await mine.info(state.session_id)).user_id == ann
    with pytest.raises(ConflictError) as caught:
        await mine.save(state)
    assert caught.value.actual.number == 3
    assert await mine.delete(state.session_id) is True
    assert await mine.delete(state.session_id) is False


async def test_a_foreign_session_is_missing(store: SessionStore) -> None:
    """Each call answers exactly as for an id that was never saved."""
    ann, bob = users()
    theirs = new(bob)
    await store.save(theirs)
    mine = store.scoped(ann)
    never = f"s-{uuid4().hex}"
    for call in (mine.load, mine.info, mine.history):
        said = []
        for session_id in (theirs.session_id, never):
            with pytest.raises(NotFoundError) as caught:
                await call(session_id)
            said.append(str(caught.value).replace(session_id, "ID"))
        assert said[0] == said[1]
    assert await mine.delete(theirs.session_id) is False
    assert await mine.extend_ttl(theirs.session_id, 1) is False
    assert await mine.list() == []
    assert (await store.load(theirs.session_id)) == theirs


async def test_a_foreign_session_cannot_be_written(store: SessionStore) -> None:
    """Not by naming its owner, not by its version and generation, not by creating its id."""
    ann, bob = users()
    theirs = new(bob)
    await store.save(theirs)
    await store.save(theirs)
    mine = store.scoped(ann)
    with pytest.raises(ArgumentError):
        await mine.save(await store.load(theirs.session_id))
    forged = new(ann, theirs.session_id)
    forged.version, forged.generation = theirs.version, theirs.generation
    never = new(ann)
    never.version, never.generation = 2, "0" * 16
    said = []
    for state in (forged, never):
        with pytest.raises(ConflictError) as caught:
            await mine.save(state)
        assert caught.value.actual is None
        said.append(str(caught.value).replace(state.session_id, "ID"))
    assert said[0] == said[1]
    with pytest.raises(ConflictError) as caught:
        await mine.save(new(ann, theirs.session_id))
    assert caught.value.actual is None
    assert bob not in str(caught.value)
    stored = await store.load(theirs.session_id)
    assert (stored, stored.user_id) == (theirs, bob)


async def test_a_session_that_went_to_another_user_is_gone(store: SessionStore) -> None:
    """The whole store may hand a session over; the old owner's view then has no part in it, versions seen or not."""
    ann, bob = users()
    state = new(ann)
    mine = store.scoped(ann)
    await mine.save(state)
    handed = await store.load(state.session_id)
    handed.user_id = bob
    await store.save(handed)
    with pytest.raises(ConflictError) as caught:
        await mine.save(state)
    assert caught.value.actual is None
    with pytest.raises(NotFoundError):
        await mine.load(state.session_id)
    assert await store.scoped(bob).list() == [state.session_id]


@pytest.mark.parametrize("how", ["made anew", "given away"])
async def test_an_update_never_sees_what_became_anothers(store: SessionStore, how: str) -> None:
    """While the updater runs the id becomes another user's: it is shown nothing of that, and writes nothing."""
    ann, bob = users()
    state = new(ann)
    await store.save(state)
    saw: list[str] = []

    async def fn(state: SessionState) -> None:
        saw.append(state.user_id)
        state.summary = "ann's"
        if len(saw) > 1:
            return
        if how == "made anew":
            await store.delete(state.session_id)
            theirs = new(bob, state.session_id)
        else:
            theirs = await store.load(state.session_id)
            theirs.user_id = bob
        theirs.summary = "bob's"
        await store.save(theirs)

    with pytest.raises((ConflictError, NotFoundError)):
        await OptimisticStateStore(store.scoped(ann)).update(state.session_id, fn)
    assert set(saw) == {ann}
    assert (await store.load(state.session_id)).summary == "bob's"
