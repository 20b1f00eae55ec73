"""`SessionStore`: save, load, history, list, delete, on every backend."""

from __future__ import annotations

import asyncio
import pickle
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    CheckpointManager,
    ConflictError,
    EncodeError,
    NotFoundError,
    SessionState,
    StoreUnavailableError,
    UserDeletedError,
    state_store,
)
from holdall.durable.keys import MAX_ID_BYTES, session_id_of, session_key, user_key
from holdall.durable.session_store import SessionStore
from holdall.errors import ClosedError
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore


def new(session_id: str | None = None, user_id: str | None = None, **fields: object) -> SessionState:
    return SessionState(session_id=session_id or f"s-{uuid4().hex}", user_id=user_id or f"u-{uuid4().hex}", **fields)


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_what_is_saved_is_loaded(store: SessionStore) -> None:
    """Every field of the state comes back, and the version counts from 1."""
    state = new(summary="so far", current_step=3, plan=["a", {"b": None}], active_tools=["x"], token_count=12)
    state.accumulated_cost = 0.25
    state.messages.append(say("hello"))
    state.step_results["one"] = {"ok": True}
    state.metadata["k"] = ["v"]
    assert state.version == 0
    version = await store.save(state)
    assert (version.number, state.version) == (1, 1)
    again = await store.load(state.session_id)
    assert again == state
    assert list(again.messages) == [say("hello")]


async def test_missing_session_is_not_found(store: SessionStore) -> None:
    """Load, info and history of an id that was never saved say so; extend_ttl and delete return False."""
    missing = f"s-{uuid4().hex}"
    for call in (store.load, store.info, store.history):
        with pytest.raises(NotFoundError) as caught:
            await call(missing)
        assert caught.value.key == missing
    assert await store.extend_ttl(missing, 10) is False
    assert await store.delete(missing) is False


async def test_case_2_stale_writer_is_rejected(store: SessionStore) -> None:
    """A appends twice; B, which loaded before that, is refused with both versions, and nothing of B is stored."""
    state = new()
    await store.save(state)
    a, b = await store.load(state.session_id), await store.load(state.session_id)
    for text in ("a1", "a2"):
        a.messages.append(say(text))
        await store.save(a)
    b.messages.append(say("b1"))
    with pytest.raises(ConflictError) as caught:
        await store.save(b)
    assert caught.value.expected.number == 1
    assert caught.value.actual.number == 3
    assert (b.version, len(b.messages)) == (1, 1)
    assert [m["content"] for m in (await store.load(state.session_id)).messages] == ["a1", "a2"]


async def test_what_is_no_state_is_not_saved(store: SessionStore) -> None:
    for call in (store.save, lambda state: CheckpointManager(store).save_checkpoint(state, step=1)):
        with pytest.raises(ArgumentError, match="is a SessionState, not dict"):
            await call({"session_id": "s"})


async def test_create_conflicts_with_an_existing_session(store: SessionStore) -> None:
    """Two workers create one id: one wins, the other hears of it."""
    first = new()
    second = new(first.session_id, first.user_id)
    results = await asyncio.gather(store.save(first), store.save(second), return_exceptions=True)
    assert sorted(isinstance(result, ConflictError) for result in results) == [False, True]


async def test_save_of_a_deleted_session_conflicts(store: SessionStore) -> None:
    """A late writer meets a conflict, not an empty key that it would fill again."""
    state = new()
    await store.save(state)
    assert await store.delete(state.session_id) is True
    with pytest.raises(ConflictError) as caught:
        await store.save(state)
    assert caught.value.actual is None
    with pytest.raises(NotFoundError):
        await store.load(state.session_id)
    reborn = new(state.session_id, state.user_id)
    await store.save(reborn)
    assert reborn.generation != state.generation
    with pytest.raises(ConflictError):
        await store.save(state)


async def test_delete_at_a_version(store: SessionStore) -> None:
    """Naming the version that was seen deletes only that."""
    state = new()
    old = await store.save(state)
    await store.save(state)
    with pytest.raises(ConflictError):
        await store.delete(state.session_id, expected=old)
    assert (await store.load(state.session_id)).version == 2


async def test_a_state_whose_version_nobody_loaded_conflicts(store: SessionStore) -> None:
    """A version number alone, without the generation it belongs to, matches nothing."""
    state = new()
    await store.save(state)
    with pytest.raises(ConflictError):
        await store.save(new(state.session_id, state.user_id, version=1))


async def test_case_8_the_snapshot_is_taken_at_the_call(store: SessionStore) -> None:
    """What changes while the save is under way is not in it, and goes with the next one."""
    state = new(metadata={"xs": [1]})
    state.messages.append(say("one"))
    saving = asyncio.ensure_future(store.save(state))
    await asyncio.sleep(0)
    state.metadata["xs"].append(2)
    state.messages.append(say("two"))
    state.messages[0] = say("one, edited")
    await saving
    stored = await store.load(state.session_id)
    assert stored.metadata == {"xs": [1]}
    assert [m["content"] for m in stored.messages] == ["one"]
    await store.save(state)
    stored = await store.load(state.session_id)
    assert stored.metadata == {"xs": [1, 2]}
    assert [m["content"] for m in stored.messages] == ["one, edited", "two"]


async def test_a_value_that_cannot_be_stored_is_refused_before_anything_is_written(store: SessionStore) -> None:
    """The error names the path; the stored session and the state in memory are as they were."""
    state = new()
    await store.save(state)
    state.metadata["bad"] = object()
    with pytest.raises(EncodeError, match="bad"):
        await store.save(state)
    assert state.version == 1
    assert (await store.load(state.session_id)).metadata == {}


async def test_edits_undo_and_step_results_arrive(store: SessionStore) -> None:
    """Edits in the middle, cuts at the end and repeated step results come back as they are in memory."""
    state = new()
    state.messages.extend(say(str(n)) for n in range(6))
    state.step_results[1] = "first"
    await store.save(state)
    state.messages[2] = say("two")
    state.step_results[1] = "second"
    await store.save(state)
    assert await store.load(state.session_id) == state
    del state.messages[4:]
    state.step_results["b"] = 2
    await store.save(state)
    stored = await store.load(state.session_id)
    assert stored == state
    assert [m["content"] for m in stored.messages] == ["0", "1", "two", "3"]
    assert dict(stored.step_results) == {1: "second", "b": 2}


async def test_history_pages_backwards(store: SessionStore) -> None:
    """Pages cover the conversation once, each in its order, step results left out."""
    state = new()
    for n in range(7):
        state.messages.append(say(str(n)))
        state.step_results[n] = n
    await store.save(state)
    pages, before = [], None
    while page := await store.history(state.session_id, before, 3):
        pages.append([item.message["content"] for item in page])
        before = page[0].seq
    assert pages == [["4", "5", "6"], ["1", "2", "3"], ["0"]]
    with pytest.raises(ArgumentError):
        await store.history(state.session_id, limit=0)


async def test_history_of_an_empty_session_is_empty(store: SessionStore) -> None:
    """A session without messages is not a missing one."""
    state = new()
    await store.save(state)
    assert await store.history(state.session_id) == []


async def test_list_by_user_and_status(store: SessionStore) -> None:
    """List follows user and status, and sees deletes and status changes."""
    user = f"u-{uuid4().hex}"
    states = [new(user_id=user) for _ in range(4)]
    for state in states:
        await store.save(state)
    other = new()
    await store.save(other)
    states[1].status = "done"
    await store.save(states[1])
    await store.delete(states[2].session_id)
    ids = [state.session_id for state in states]
    assert sorted(await store.list(user_id=user)) == sorted([ids[0], ids[1], ids[3]])
    assert await store.list(user_id=user, status="done") == [ids[1]]
    assert {ids[0], other.session_id} <= set(await store.list())


async def test_delete_user_is_complete_idempotent_and_final(store: SessionStore) -> None:
    """All sessions of the user go, nobody else's, and no late writer brings one back."""
    user = f"u-{uuid4().hex}"
    states = [new(user_id=user) for _ in range(5)]
    other = new()
    for state in [*states, other]:
        await store.save(state)
    assert await store.delete_user(user) == 5
    assert await store.delete_user(user) == 0
    assert await store.list(user_id=user) == []
    with pytest.raises(ConflictError):
        await store.save(states[0])
    late = new(user_id=user)
    with pytest.raises(UserDeletedError) as caught:
        await store.save(late)
    assert caught.value.user_id == user
    assert late.version == 0
    with pytest.raises(NotFoundError):
        await store.load(late.session_id)
    assert (await store.load(other.session_id)) == other
    assert await store.readmit_user(user) is True
    await store.save(late)
    assert await store.list(user_id=user) == [late.session_id]


async def test_delete_user_against_writers_that_create_meanwhile(store: SessionStore) -> None:
    """Whatever the order of a delete and creations, afterwards nothing of the user is left."""
    user = f"u-{uuid4().hex}"
    states = [new(user_id=user) for _ in range(30)]

    async def create(n: int) -> object:
        for _ in range(n % 7):
            await asyncio.sleep(0)
        try:
            return await store.save(states[n])
        except UserDeletedError:
            return None

    await asyncio.gather(*(create(n) for n in range(15)))
    await asyncio.gather(store.delete_user(user), *(create(n) for n in range(15, 30)))
    assert await store.list(user_id=user) == []
    for state in states:
        with pytest.raises(NotFoundError):
            await store.load(state.session_id)


async def test_a_session_cannot_be_handed_to_a_deleted_user(store: SessionStore) -> None:
    """Neither by a save, nor by one that would bring the stored session along, nor by a copy or a pickle of the state."""
    gone, lives = f"u-{uuid4().hex}", f"u-{uuid4().hex}"
    await store.delete_user(gone)
    state = new(messages=[say("one")])
    await store.save(state)
    stored = await store.load(state.session_id)
    for late in (state, stored, state.copy(), pickle.loads(pickle.dumps(stored))):  # noqa: S301 - made here
        late.user_id = gone
        late.messages.append(say("two"))
        for save in (store.save(late), store.save_or_load(late, stored.log.items)):
            with pytest.raises(UserDeletedError) as caught:
                await save
            assert caught.value.user_id == gone
    assert await store.list(user_id=gone) == []
    assert (await store.load(state.session_id)).version == 1
    state.user_id = lives
    await store.save(state)
    assert await store.list(user_id=lives) == [state.session_id]
    await store.readmit_user(gone)
    state.user_id = gone
    await store.save(state)
    assert await store.list(user_id=gone) == [state.session_id]


@pytest.mark.parametrize("conflict", ["optimistic", "merge", "last_writer_wins"])
async def test_an_update_cannot_hand_a_session_to_a_deleted_user(store: SessionStore, conflict: str) -> None:
    gone = f"u-{uuid4().hex}"
    await store.delete_user(gone)
    state = new()
    await store.save(state)
    updates = state_store(store, conflict)

    async def hand_over(state: SessionState) -> None:
        if conflict != "merge":  # which takes sessions of one user only
            other = await store.load(state.session_id)
            other.summary = "was faster"
            await store.save(other)
        state.user_id = gone

    for _ in range(2):
        with pytest.raises(UserDeletedError):
            await updates.update(state.session_id, hand_over, 0 if conflict == "optimistic" else 3)
        await updates.update(state.session_id, lambda state: state.messages.append(say("one")))
    assert await store.list(user_id=gone) == []


async def test_a_save_looks_for_a_deleted_user_only_where_the_user_is_another() -> None:
    """Steps of a session cost no read more."""
    inner = FaultyStore(MemoryStore())
    store = SessionStore(inner)
    state = new()
    await store.save(state)
    loaded = await store.load(state.session_id)
    inner.calls.clear()
    for each in (loaded, loaded.copy()):
        each.version = loaded.version
        each.messages.append(say("next"))
        await store.save(each)
        loaded.version = each.version
    assert inner.calls == {"write": 2}


async def test_a_session_that_is_handed_over_as_its_new_user_is_deleted_goes_with_the_user() -> None:
    """The mark comes after the save has looked for it, and the search for sessions before the save has written."""
    inner = FaultyStore(MemoryStore())
    store = SessionStore(inner)
    state = new()
    await store.save(state)
    state.user_id = "gone"
    inner.held["write"] = asyncio.Event()
    late = asyncio.ensure_future(store.save(state))
    await asyncio.sleep(0.01)
    assert inner.calls["write"] == 2
    assert await SessionStore(inner.inner).delete_user("gone") == 0
    inner.held["write"].set()
    with pytest.raises(UserDeletedError):
        await late
    assert await store.list(user_id="gone") == []


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_cancelled_save_leaves_nothing_of_a_user_who_was_deleted_meanwhile(is_new: bool) -> None:
    """It was written after the search for sessions, and its caller cancelled before it could look for the mark again."""
    inner = MemoryStore()
    slow, sessions = FaultyStore(inner), SessionStore(inner)
    state = new()
    if not is_new:
        await sessions.save(state)
    state.user_id = "gone"
    write, is_written = slow.write, asyncio.Event()

    async def written_but_not_said(*args: object, **options: object) -> object:
        version = await write(*args, **options)
        if not is_written.is_set():
            is_written.set()
            await asyncio.sleep(9)
        return version

    slow.write = written_but_not_said  # type: ignore[method-assign]
    slow.held["write"] = asyncio.Event()
    late = asyncio.ensure_future(SessionStore(slow).save(state))
    await asyncio.sleep(0.01)
    assert await sessions.delete_user("gone") == 0
    slow.held["write"].set()
    await is_written.wait()
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert await sessions.list(user_id="gone") == []


async def test_a_checkpoint_in_a_store_of_its_own_cannot_be_handed_to_a_deleted_user(store: SessionStore) -> None:
    """The session was handed over while the user was there; the checkpoint still is the former user's."""
    checkpoints, gone = SessionStore(MemoryStore()), f"u-{uuid4().hex}"
    manager = CheckpointManager(store, checkpoints=checkpoints)
    state = new()
    await store.save(state)
    await manager.save_checkpoint(state, 1)
    state.user_id = gone
    await store.save(state)
    await checkpoints.delete_user(gone)
    with pytest.raises(UserDeletedError):
        await manager.save_checkpoint(state, 2)
    resumed, _ = await manager.resume_from_checkpoint(state.session_id)
    resumed.user_id = gone
    await store.delete_user(gone)
    with pytest.raises((UserDeletedError, ConflictError)):
        await store.save(resumed)
    assert await store.list(user_id=gone) == await checkpoints.list(user_id=gone) == []


async def test_saving_renews_the_ttl_and_extend_ttl_makes_no_version(store: SessionStore) -> None:
    """The expiry is set with the write; extend_ttl moves it without a conflict for anybody."""
    state = new(ttl_seconds=60)
    await store.save(state)
    first = (await store.info(state.session_id)).expires_at
    assert first is not None
    assert await store.extend_ttl(state.session_id, 600) is True
    info = await store.info(state.session_id)
    assert info.version == 1
    assert 530 < info.expires_at - first < 550
    state.ttl_seconds = None
    await store.save(state)
    assert (await store.info(state.session_id)).expires_at is None


@pytest.mark.parametrize(
    "ttl_s", [0, -1, float("nan"), float("inf"), True, "60"], ids=["zero", "negative", "nan", "inf", "bool", "text"]
)
async def test_a_ttl_outside_its_domain_is_refused(store: SessionStore, ttl_s: object) -> None:
    """Before anything is written."""
    state = new()
    state.ttl_seconds = ttl_s
    with pytest.raises(ArgumentError):
        await store.save(state)
    with pytest.raises(ArgumentError):
        await store.extend_ttl(state.session_id, ttl_s)


@pytest.mark.parametrize(
    "bad",
    ["", None, 7, "a\0b", "\ud800", "x" * (MAX_ID_BYTES + 1), "x" * 10_240],
    ids=["empty", "None", "int", "NUL", "surrogate", "1025 bytes", "10 KB"],
)
async def test_case_57_ids_that_could_never_be_found_again_are_refused(store: SessionStore, bad: object) -> None:
    """A ValueError at once, whichever call takes the id."""
    for call in (store.load, store.delete, store.history, store.info):
        with pytest.raises(ValueError, match="session_id"):
            await call(bad)
    with pytest.raises(ValueError, match="user_id"):
        await store.delete_user(bad)
    with pytest.raises(ValueError, match="user_id"):
        store.scoped(bad)
    state = new()
    state.session_id = bad
    with pytest.raises(ValueError, match="session_id"):
        await store.save(state)


ODD_IDS = [
    *"-.#@:*?[]{}\\ \n\t'\"`$%&/~|;,<>()=+!^_é",
    "~~",
    "~user/x",
    "user/x",
    "../../etc",
    "{a}:{b}",
    "a:b:c",
    "' OR 1=1 --",
    "%s %(x)s $1",
    "é" * 512,
    "x" * MAX_ID_BYTES,
    "🦀",
    "a\r\nb",
    "\x7f\x1b[31m",
]


async def test_ids_with_every_separator_do_not_meet(store: SessionStore) -> None:
    """Ids and user ids are opaque: each session is its own, lists and deletes hit only what they name."""
    run = uuid4().hex[:8]
    users = {odd: (odd + run)[-1024:] if len(odd) < 500 else odd for odd in ODD_IDS}
    for odd in ODD_IDS:
        state = new(users[odd], users[odd], metadata={"odd": odd})
        state.messages.append(say(odd))
        await store.delete(state.session_id)
        await store.save(state)
    for odd in ODD_IDS:
        assert (await store.load(users[odd])).metadata == {"odd": odd}
        assert await store.list(user_id=users[odd]) == [users[odd]]
        assert [item.message["content"] for item in await store.history(users[odd])] == [odd]
    assert await store.delete_user(users["*"]) == 1
    assert await store.delete(users["{a}:{b}"]) is True
    left = [odd for odd in ODD_IDS if odd not in ("*", "{a}:{b}")]
    for odd in left:
        assert (await store.load(users[odd])).metadata == {"odd": odd}
        await store.delete(users[odd])


def test_keys_are_injective() -> None:
    """No session id names another session's record or one of ours."""
    ids = ["a", "~a", "~~a", "~user/a", "~~user/a", "user/a"]
    keys = [session_key(text) for text in ids]
    assert len({*keys, user_key("a"), user_key("~a")}) == len(ids) + 2
    assert [session_id_of(key) for key in keys] == ids
    assert session_id_of(user_key("a")) is None


async def test_a_closed_store_says_so(any_url: str) -> None:
    """After aclose every call is a ClosedError; closing again is fine."""
    import holdall

    store = holdall.open(any_url)
    await store.list()
    await store.aclose()
    await store.aclose()
    with pytest.raises(ClosedError):
        await store.load("x")
    with pytest.raises(ClosedError):
        await store.save(new())


class Unavailable:
    """A store whose writes fail."""

    backend = "broken"
    durability = "memory"

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.fails = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def write(self, *args: object, **options: object) -> object:
        if self.fails:
            raise StoreUnavailableError("down", backend="broken", operation="write", cause="test")
        return await self._inner.write(*args, **options)


async def test_a_failed_save_leaves_the_state_as_it_was() -> None:
    """S3: version and what is pending are untouched, so the same save can be made later."""
    from holdall.stores.memory import MemoryStore

    broken = Unavailable(MemoryStore())
    store = SessionStore(broken)
    state = new()
    state.messages.append(say("kept"))
    with pytest.raises(StoreUnavailableError):
        await store.save(state)
    assert (state.version, len(state.pending().items)) == (0, 1)
    broken.fails = False
    await store.save(state)
    assert [m["content"] for m in (await store.load(state.session_id)).messages] == ["kept"]


class Counting(Unavailable):
    """Notes the op_id of every call that changes something."""

    def __init__(self, inner: object) -> None:
        super().__init__(inner)
        self.fails = False
        self.op_ids: list[object] = []

    async def write(self, *args: object, **options: object) -> object:
        self.op_ids.append(options["op_id"])
        return await super().write(*args, **options)

    async def touch(self, *args: object, **options: object) -> object:
        self.op_ids.append(options["op_id"])
        return await self._inner.touch(*args, **options)

    async def delete(self, *args: object, **options: object) -> object:
        self.op_ids.append(options["op_id"])
        return await self._inner.delete(*args, **options)


async def test_every_change_is_repeatable() -> None:
    """Each write, touch and delete carries an op_id of its own."""
    from holdall.stores.memory import MemoryStore

    counting = Counting(MemoryStore())
    store = SessionStore(counting)
    state = new()
    await store.save(state)
    await store.save(state)
    await store.extend_ttl(state.session_id, 10)
    await store.delete(state.session_id)
    await store.delete_user(state.user_id)
    assert len(counting.op_ids) == 5
    assert len(set(counting.op_ids)) == 5
    assert all(counting.op_ids)
