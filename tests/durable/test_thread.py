"""Threads on every backend: forks that see what was there, joins that happen once, chains that are broken."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdall
from holdall.durable import kept
from holdall.durable.keys import session_key
from holdall.durable.session_store import SessionStore
from holdall.durable.sweep import sweep
from holdall.durable.thread import ConversationThread
from holdall.errors import (
    ArgumentError,
    ConflictError,
    MergeConflictError,
    MissingParentError,
    NotFoundError,
    ThreadCycleError,
    ThreadDepthError,
    ThreadError,
    UnknownNameError,
)
from holdall.state.thread import THREAD
from holdall.stores.chain import Chained, kept_key, link_of, read_chain, walk_chain
from holdall.stores.memory import MemoryStore


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def words(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


async def rooted(store: SessionStore, n: int, name: str | None = None) -> ConversationThread:
    """A session of `n` messages, with a step result between every two."""
    state = holdall.SessionState(session_id=name or f"s-{os.urandom(6).hex()}", user_id="u-1")
    for at in range(n):
        state.messages.append(said(f"m{at}"))
        state.step_results[at] = {"done": at}
    await store.save(state)
    return ConversationThread(store, state.session_id)


async def test_case_54_fork_at_every_message_and_both_go_on(store: SessionStore) -> None:
    n = 5
    root = await rooted(store, n)
    forks = [await root.fork(at) for at in range(n + 1)]
    await root.append(said("later"))
    for at, fork in enumerate(forks):
        assert words(await fork.build_context()) == [f"m{i}" for i in range(at)]
        await fork.append(said(f"own {at}"))
    for at, fork in enumerate(forks):
        assert words(await fork.build_context()) == [*(f"m{i}" for i in range(at)), f"own {at}"]
        assert words(list((await fork.load()).messages)) == [f"own {at}"]
    assert words(await root.build_context()) == [*(f"m{i}" for i in range(n)), "later"]
    with pytest.raises(IndexError, match="has 6 messages"):
        await root.fork(n + 2)
    with pytest.raises(IndexError):
        await root.fork(-1)
    with pytest.raises(ArgumentError):
        await root.fork(True)


async def test_an_edit_of_the_parent_stays_its_own(store: SessionStore) -> None:
    root = await rooted(store, 4)
    early, late = await root.fork(1), await root.fork()
    deep = await late.fork()
    state = await root.load()
    state.messages[1] = said("edited")
    await store.save(state)
    state.messages[0] = said("edited too")
    await store.save(state)
    assert words(await early.build_context()) == ["m0"]
    assert words(await late.build_context()) == ["m0", "m1", "m2", "m3"]
    assert words(await deep.build_context()) == ["m0", "m1", "m2", "m3"]
    assert words(await root.build_context()) == ["edited too", "edited", "m2", "m3"]
    # what is forked from a thread whose base was kept sees the same, at any message
    for at in range(5):
        again = await late.fork(at)
        assert words(await again.build_context()) == ["m0", "m1", "m2", "m3"][:at]
    fresh = await root.fork(2)
    assert words(await fresh.build_context()) == ["edited too", "edited"]


async def test_what_was_kept_goes_with_its_thread(store: SessionStore) -> None:
    root = await rooted(store, 3)
    kept, gone = await root.fork(), await root.fork(session_id=f"{root.session_id}-gone")
    state = await root.load()
    state.messages[0] = said("edited")
    await store.save(state)
    copies = [kept_key(thread.session_id) for thread in (kept, gone)]
    assert [await store.store.read(copy) is not None for copy in copies] == [True, True]
    assert await gone.delete()
    assert await store.store.read(copies[1]) is None
    # a plain delete leaves the copy, which the next edit takes away and a fork of that id does not see
    assert await store.delete(kept.session_id)
    again = await root.fork(1, session_id=kept.session_id)
    assert words(await again.build_context()) == ["edited"]


async def edited(store: SessionStore, thread: ConversationThread, text: str) -> None:
    """Edit a thread's own first message."""
    state = await store.load(thread.session_id)
    state.messages[0] = said(text)
    await store.save(state)


async def test_a_fork_under_an_id_that_is_taken_takes_nothing_from_it(store: SessionStore) -> None:
    """As when a worker that was killed repeats a fork: what was kept for the thread that is there stays its own."""
    root = await rooted(store, 3)
    fork = await root.fork()
    await edited(store, root, "edited")
    with pytest.raises(ConflictError):
        await root.fork(session_id=fork.session_id)
    assert words(await fork.build_context()) == ["m0", "m1", "m2"]


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_edits_above_and_below_stay_their_own_in_any_order(store: SessionStore, first: int) -> None:
    """What a thread sees through a copy of its parent is what its parent saw, whatever was edited before it and after."""
    root = await rooted(store, 2)
    upper = await root.fork()
    await upper.append(said("u0"), said("u1"))
    middle = await upper.fork()
    await middle.append(said("n0"))
    lower = await middle.fork()
    above = [root, upper, middle]
    for at in range(3):
        await edited(store, above[(first + at) % 3], "edited")
        assert words(await lower.build_context()) == ["m0", "m1", "u0", "u1", "n0"]
    for thread in above:
        await edited(store, thread, "edited again")
    assert words(await lower.build_context()) == ["m0", "m1", "u0", "u1", "n0"]
    assert words(await middle.build_context()) == ["m0", "m1", "u0", "u1", "edited again"]
    assert words(await upper.build_context()) == ["m0", "m1", "edited again", "u1"]
    # another thread of an id that was deleted sees none of it
    for thread in (lower, middle):
        assert await thread.delete()
    middle = await root.fork(1, session_id=middle.session_id)
    await edited(store, root, "once more")
    assert words(await middle.build_context()) == ["edited again"]


async def test_what_was_kept_for_threads_that_are_gone_is_swept(store: SessionStore) -> None:
    """A copy has no end of its own, and must not outlive the conversation for ever."""
    root = await rooted(store, 2)
    upper, gone = await root.fork(), await root.fork()
    await upper.append(said("u0"))
    lower = await upper.fork()
    await edited(store, root, "edited")
    await edited(store, upper, "edited")
    copies = {key async for key in store.store.find(**{kept.COPY: "1"}) if root.session_id in key}
    assert len(copies) >= 3
    for thread in (root, gone):
        await store.delete(thread.session_id)
    assert await sweep(store) >= 1
    assert words(await lower.build_context()) == ["m0", "m1", "u0"]
    await store.delete(upper.session_id)
    await sweep(store)
    assert words(await lower.build_context()) == ["m0", "m1", "u0"]
    await store.delete(lower.session_id)
    await sweep(store)
    assert [key async for key in store.store.find(**{kept.COPY: "1"}) if root.session_id in key] == []


async def test_what_was_kept_for_an_earlier_session_of_an_id_is_not_shown(store: SessionStore) -> None:
    """As where a thread is brought from another store, under an id that a thread had here: it is said to lack its parent."""
    root, other = await rooted(store, 2), await rooted(store, 2)
    gone, fork = await root.fork(), await other.fork()
    await edited(store, root, "edited")
    assert await store.delete(gone.session_id)
    brought = holdall.SessionState(session_id=gone.session_id, user_id="u-1", metadata=(await fork.load()).metadata)
    await store.save(brought)
    with pytest.raises(MissingParentError):
        await gone.build_context()
    await sweep(store)
    assert words(await fork.build_context()) == ["m0", "m1"]


async def test_a_copy_made_while_the_ancestor_is_cut_leads_on(store: SessionStore, monkeypatch: Any) -> None:
    """Two edits at once, of a parent and of its parent: neither is seen below, whoever looked first."""
    root = await rooted(store, 2)
    upper = await root.fork()
    await upper.append(said("u0"))
    lower = await upper.fork()
    write, may_cut, is_copied = store.store.write, asyncio.Event(), asyncio.Event()

    async def held(key: str, *args: Any, **kwargs: Any) -> Any:
        if key == kept_key(upper.session_id):
            # the editor of the root has looked for threads, and the copy for the lower one is made before it goes on
            may_cut.set()
            await is_copied.wait()
        version = await write(key, *args, **kwargs)
        if key == kept_key(lower.session_id):
            is_copied.set()
        return version

    monkeypatch.setattr(store.store, "write", held)
    above = asyncio.ensure_future(edited(store, root, "edited"))
    await may_cut.wait()
    await edited(store, upper, "edited")
    await above
    assert words(await lower.build_context()) == ["m0", "m1", "u0"]


async def test_a_thread_of_threads(store: SessionStore) -> None:
    thread = await rooted(store, 2)
    expected = ["m0", "m1"]
    path = [thread.session_id]
    for depth in range(12):
        thread = await thread.fork()
        await thread.append(said(f"d{depth}"))
        expected.append(f"d{depth}")
        path.insert(0, thread.session_id)
    assert words(await thread.build_context()) == expected
    assert await thread.ancestry() == path[1:]
    for at in range(len(expected) + 1):
        assert words(await (await thread.fork(at)).build_context()) == expected[:at]
    assert await thread.build_context(max_depth=12) == await thread.build_context()
    with pytest.raises(ThreadDepthError) as caught:
        await thread.build_context(max_depth=11)
    assert (caught.value.thread, caught.value.limit) == (thread.session_id, 11)
    with pytest.raises(ThreadDepthError):
        await thread.ancestry(max_depth=11)


async def test_both_ways_to_follow_a_chain_agree(store: SessionStore) -> None:
    thread = await rooted(store, 3)
    chain = [thread]
    for at in (2, None, 1, None):
        thread = await thread.fork(at)
        await thread.append(said(os.urandom(2).hex()), said("x"))
        chain.append(thread)
    state = await chain[1].load()
    state.messages[0] = said("edited")
    await store.save(state)
    for one in chain:
        for limit in (1, 2, 3, 99):
            fast = await read_chain(store.store, one.session_id, limit=limit)
            slow = await walk_chain(store.store, one.session_id, limit=limit)
            assert [(r.key, r.version, r.head, list(r.entries), r.log_len, r.tags) for r in fast] == [
                (r.key, r.version, r.head, list(r.entries), r.log_len, r.tags) for r in slow
            ]
    assert await read_chain(store.store, "nobody", limit=3) == []


async def test_a_fork_is_small(store: SessionStore) -> None:
    root = await rooted(store, 1000)
    fork = await root.fork()
    record = await store.store.read(fork.session_id)
    assert record is not None
    size = len(record.head.data) + sum(len(entry.data) for entry in record.entries)
    size += sum(len(name) + len(value) for name, value in record.tags.items())
    assert size < 1000
    assert len(await fork.build_context()) == 1000


async def test_case_54_forks_at_the_same_instant_are_distinct(store: SessionStore) -> None:
    root = await rooted(store, 3)
    forks = await asyncio.gather(*(root.fork() for _ in range(20)))
    assert len({fork.session_id for fork in forks}) == 20
    assert len((await root.tree()).children) == 20


async def test_forks_while_the_parent_is_edited_see_one_state(store: SessionStore) -> None:
    root = await rooted(store, 4)

    async def edit() -> None:
        for n in range(12):

            def change(state: holdall.SessionState, n: int = n) -> None:
                for at in range(4):
                    state.messages[at] = said(f"v{n}.{at}")

            await root.updates.update(root.session_id, change)
            await asyncio.sleep(0.002)

    async def fork() -> list[tuple[ConversationThread, list[str]]]:
        made = []
        for _ in range(4):
            thread = await root.fork()
            made.append((thread, words(await thread.build_context())))
            await asyncio.sleep(0.003)
        return made

    _, *made = await asyncio.gather(edit(), fork(), fork())
    for thread, seen in (pair for pairs in made for pair in pairs):
        assert words(await thread.build_context()) == seen
        assert len({word.partition(".")[0] for word in seen}) == 1 or seen == ["m0", "m1", "m2", "m3"]


async def test_join_appends_sums_up_or_takes_results(store: SessionStore) -> None:
    root = await rooted(store, 2)
    work = await root.fork()

    def do(state: holdall.SessionState) -> None:
        state.messages.extend([said("Looked at the invoices. Two are unpaid."), said("Done.")])
        state.step_results["invoices"] = 2
        state.add_cost(0.5)
        state.token_count += 70

    await work.updates.update(work.session_id, do)
    summed, results, custom = await root.fork(), await root.fork(), await root.fork()
    for thread in (summed, results, custom):
        await thread.updates.update(thread.session_id, do)

    state = await root.join(work)
    assert words(list(state.messages)) == ["m0", "m1", "Looked at the invoices. Two are unpaid.", "Done."]
    assert state.step_results["invoices"] == 2
    assert (state.accumulated_cost, state.token_count) == (0.5, 70)
    assert await work.status() == "completed"
    assert (await root.join(work)).version == state.version or len((await root.load()).messages) == 4

    state = await root.join(summed.session_id, "summary")
    assert "summary of 2 messages" in state.messages[-1]["content"]
    assert "invoices" in state.messages[-1]["content"]

    n = len(state.messages)
    state = await root.join(results, "results")
    assert len(state.messages) == n

    async def mine(parent: holdall.SessionState, child: holdall.SessionState) -> None:
        await asyncio.sleep(0)
        parent.summary = f"{len(child.messages)} messages"

    state = await root.join(custom, mine)
    assert state.summary == "2 messages"
    assert (state.accumulated_cost, state.token_count) == (2.0, 280)


async def test_a_summarizer_of_ones_own(store: SessionStore) -> None:
    root = await rooted(store, 1)
    for summarizer in ("|".join, _later):
        fork = await root.fork()
        await fork.append(said("a"), {"role": "user", "content": [{"type": "text", "text": "b"}]}, said(""))
        state = await root.join(fork, "summary", summarizer=summarizer)
        assert state.messages[-1]["content"].endswith("\na|b")
    fork = await root.fork()
    with pytest.raises(ArgumentError, match="not text"):
        await root.join(fork, "summary", summarizer=len)  # type: ignore[arg-type,return-value]
    with pytest.raises(ArgumentError, match="summarizer"):
        await root.join(fork, "append", summarizer=_later)


async def _later(texts: list[str]) -> str:
    await asyncio.sleep(0)
    return "|".join(texts)


async def test_what_cannot_be_joined(store: SessionStore) -> None:
    root, other = await rooted(store, 1), await rooted(store, 1)
    fork = await root.fork()
    with pytest.raises(ThreadError, match="no thread of"):
        await other.join(fork)
    with pytest.raises(UnknownNameError, match="append, summary, results"):
        await root.join(fork, "merge")  # type: ignore[arg-type]
    clash = await root.fork()

    def record(state: holdall.SessionState) -> None:
        state.step_results[0] = "another result"

    await clash.updates.update(clash.session_id, record)
    with pytest.raises(MergeConflictError) as caught:
        await root.join(clash)
    assert (caught.value.field, caught.value.ours, caught.value.theirs) == (
        "step_results[0]",
        {"done": 0},
        "another result",
    )
    assert await clash.status() == "active"
    await fork.abandon()
    with pytest.raises(ThreadError, match="abandoned"):
        await root.join(fork)
    with pytest.raises(ThreadError, match="abandoned"):
        await fork.append(said("no"))
    with pytest.raises(ThreadError):
        await fork.complete()
    assert (await fork.abandon()).status == "abandoned"


async def test_a_join_brings_all_that_was_acknowledged(store: SessionStore) -> None:
    """A worker that goes on with the thread meanwhile is in, or is told that the thread is completed."""
    root = await rooted(store, 1)
    fork = await root.fork()
    n_acknowledged, is_at_work = 0, asyncio.Event()

    async def worker() -> None:
        nonlocal n_acknowledged
        while True:
            await fork.append(said(f"f{n_acknowledged}"))
            n_acknowledged += 1
            is_at_work.set()
            await asyncio.sleep(0.03)  # the join has six attempts, each of them a few ms on a busy machine

    working = asyncio.ensure_future(worker())
    await is_at_work.wait()
    joined = await root.join(fork)
    with pytest.raises(ThreadError, match="completed"):
        await working
    assert words(list(joined.messages)) == ["m0", *(f"f{n}" for n in range(n_acknowledged))]


async def test_a_thread_that_could_not_be_joined_goes_on(store: SessionStore) -> None:
    root = await rooted(store, 1)
    fork = await root.fork()
    await fork.append(said("f0"))

    def broken(_parent: holdall.SessionState, _child: holdall.SessionState) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await root.join(fork, broken)
    assert await fork.status() == "active"
    await fork.append(said("f1"))
    assert words(list((await root.join(fork)).messages)) == ["m0", "f0", "f1"]
    assert (await fork.status(), words(list((await root.join(fork)).messages))) == ("completed", ["m0", "f0", "f1"])


@pytest.mark.parametrize("name", ["~" * 1024, "x" * 1024], ids=["of our own prefix", "plain"])
async def test_threads_of_the_longest_ids(store: SessionStore, name: str) -> None:
    """What names a record of ours fits a tag, however long the id in it."""
    root = await rooted(store, 2, name)
    fork = await root.fork(session_id=name[:-1] + "f")
    await edited(store, root, "edited")
    again = await fork.fork(1)
    assert words(await fork.build_context()) == ["m0", "m1"]
    assert words(await again.build_context()) == ["m0"]
    for thread in (again, fork, root):
        await thread.delete()


async def test_parallel_joins_happen_once_each(store: SessionStore) -> None:
    root = await rooted(store, 1)
    forks = [await root.fork() for _ in range(5)]
    for n, fork in enumerate(forks):
        await fork.append(said(f"f{n}"))
    await asyncio.gather(*(root.join(fork) for fork in forks for _ in range(2)))
    assert sorted(words(list((await root.load()).messages))[1:]) == [f"f{n}" for n in range(5)]


async def test_a_missing_parent_is_said(store: SessionStore) -> None:
    root = await rooted(store, 2)
    fork = await root.fork()
    deep = await fork.fork()
    await store.delete(root.session_id)
    for thread in (fork, deep):
        with pytest.raises(MissingParentError) as caught:
            await thread.build_context()
        assert caught.value.parent == root.session_id
    # its own messages are still there, and a later session of that id is another one
    await rooted(store, 3, root.session_id)
    with pytest.raises(MissingParentError):
        await fork.build_context()
    with pytest.raises(NotFoundError):
        await ConversationThread(store, "nobody").build_context()
    with pytest.raises(NotFoundError):
        await ConversationThread(store, "nobody").fork()
    with pytest.raises(NotFoundError):
        await ConversationThread(store, "nobody").ancestry()
    with pytest.raises(NotFoundError):
        await ConversationThread(store, "nobody").tree()


async def test_a_cycle_is_said(store: SessionStore) -> None:
    root = await rooted(store, 1)
    fork = await root.fork()
    state, child = await root.load(), await store.store.read(fork.session_id)
    assert child is not None
    state.metadata[THREAD] = {
        "parent": fork.session_id,
        "n_messages": 0,
        "base": fork.session_id,
        "at": 0,
        "generation": child.version.generation,
    }
    await store.save(state)
    for call in (fork.build_context, fork.fork, root.ancestry):
        with pytest.raises(ThreadCycleError) as caught:
            await call()
        assert caught.value.path[0] == caught.value.path[-1]
    tree = await root.tree()
    assert [node.session_id for _, node in tree.lines()] == [root.session_id, fork.session_id]


async def test_the_tree(store: SessionStore) -> None:
    root = await rooted(store, 1, f"r-{os.urandom(4).hex()}")
    a, b = await root.fork(session_id=f"{root.session_id}-a"), await root.fork(session_id=f"{root.session_id}-b")
    await a.fork(session_id=f"{root.session_id}-a1")
    await b.complete()
    tree = await root.tree()
    drawn = [f"{branch}{node.session_id.removeprefix(root.session_id)} {node.status}" for branch, node in tree.lines()]
    assert drawn == [" active", "├─ -a active", "│  └─ -a1 active", "└─ -b completed"]


async def test_metadata_that_is_no_link_is_the_callers(store: SessionStore) -> None:
    link = {"parent": "p", "n_messages": 1, "base": "b", "at": 1, "generation": "g"}
    for held in (
        7,
        {"parent": 1},
        link | {"at": "1"},
        link | {"at": -1},
        link | {"at": 2**70},
        link | {"n_messages": -1},
    ):
        state = holdall.SessionState(session_id=f"m-{os.urandom(4).hex()}", user_id="u", metadata={THREAD: held})
        await store.save(state)
        record = await store.store.read(state.session_id)
        assert record is not None
        assert link_of(record.tags) is None
        assert (await store.load(state.session_id)).metadata == {THREAD: held}


async def test_delete_user_takes_the_copies_too(store: SessionStore) -> None:
    user = f"u-{os.urandom(4).hex()}"
    state = holdall.SessionState(session_id=f"{user}-s", user_id=user)
    state.messages.append(said("a"))
    await store.save(state)
    fork = await ConversationThread(store, state.session_id).fork()
    state = await store.load(state.session_id)
    state.messages[0] = said("b")
    await store.save(state)
    assert await store.delete_user(user) == 2
    assert await store.store.read(kept_key(fork.session_id)) is None


async def test_entries_are_read_as_what_they_were_encrypted_for(tmp_path: Any) -> None:
    pytest.importorskip("cryptography")
    from holdall.state import StateSerializer
    from holdall.state.seal import Encryption

    serializer = StateSerializer(encryption=Encryption({"k": os.urandom(32)}, current="k"))
    async with holdall.open(f"sqlite:///{tmp_path}/sealed.db", serializer=serializer) as store:
        root = await rooted(store, 3)
        fork = await root.fork()
        deep = await fork.fork(2)
        state = await root.load()
        state.messages[0] = said("edited")
        await store.save(state)
        assert words(await fork.build_context()) == ["m0", "m1", "m2"]
        assert words(await deep.build_context()) == ["m0", "m1"]
        again = await fork.fork(1)
        assert words(await again.build_context()) == ["m0"]


def test_which_stores_follow_a_chain_by_themselves() -> None:
    from holdall.stores.sqlite import SqliteStore

    assert issubclass(SqliteStore, Chained)
    assert not issubclass(MemoryStore, Chained)


MODEL_OPS = st.lists(
    st.one_of(
        st.tuples(st.just("fork"), st.integers(0, 6), st.integers(0, 12)),
        st.tuples(st.just("say"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("edit"), st.integers(0, 6), st.integers(0, 12)),
        st.tuples(st.just("join"), st.integers(0, 6), st.just(0)),
    ),
    min_size=1,
    max_size=14,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=MODEL_OPS)
def test_threads_against_a_model(any_url: str, ops: list[tuple[str, int, int]]) -> None:
    """Whatever is forked, said, edited and joined: each thread sees what a copy made at the fork would hold."""
    asyncio.run(_model(any_url, ops))


async def _model(url: str, ops: list[tuple[str, int, int]]) -> None:
    async with holdall.open(url) as store:
        threads = [await rooted(store, 2)]
        # what each inherited, and what it has itself
        taken: list[list[str]] = [[]]
        own: list[list[str]] = [["m0", "m1"]]
        parents: list[int | None] = [None]
        for n, (what, which, where) in enumerate(ops):
            at = which % len(threads)
            thread = threads[at]
            if what == "fork":
                seen = taken[at] + own[at]
                cut = where % (len(seen) + 1)
                threads.append(await thread.fork(cut))
                taken.append(seen[:cut])
                own.append([])
                parents.append(at)
            elif await thread.status() != "active":
                continue
            elif what == "say":
                await thread.append(said(f"n{n}"))
                own[at].append(f"n{n}")
            elif what == "edit" and own[at]:
                place = where % len(own[at])
                state = await thread.load()
                state.messages[place] = said(f"e{n}")
                await store.save(state)
                own[at][place] = f"e{n}"
            elif what == "join" and parents[at] is not None:
                parent = parents[at]
                if await threads[parent].status() == "active":
                    await threads[parent].join(thread)
                    own[parent] += own[at]
        for thread, before, after in zip(threads, taken, own, strict=True):
            assert words(await thread.build_context()) == before + after


async def test_an_editor_that_hangs_is_refused_and_a_fork_goes_on(store: SessionStore, monkeypatch: Any) -> None:
    monkeypatch.setattr("holdall.durable.kept.PATIENCE_S", 0.02)
    monkeypatch.setattr(kept.none_cutting, "__kwdefaults__", {"patience_s": 0.02})
    root = await rooted(store, 3)
    state = await root.load()
    state.messages[0] = said("edited")
    write = store.store.write
    stopped, go_on = asyncio.Event(), asyncio.Event()

    async def hangs(key: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("keep") is not None and not stopped.is_set():
            stopped.set()
            await go_on.wait()
        return await write(key, *args, **kwargs)

    monkeypatch.setattr(store.store, "write", hangs)
    saving = asyncio.ensure_future(store.save(state))
    await stopped.wait()
    fork = await root.fork()
    go_on.set()
    with pytest.raises(ConflictError):
        await saving
    assert words(await fork.build_context()) == ["m0", "m1", "m2"]
    # it loads, edits and saves again: the fork keeps what it saw
    state = await root.load()
    state.messages[0] = said("edited")
    await store.save(state)
    assert words(await fork.build_context()) == ["m0", "m1", "m2"]
    assert [key async for key in store.store.find(cutting=root.session_id)] == []


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
async def test_an_editor_is_refused_whatever_the_clock_of_the_worker(ahead_s: float) -> None:
    """The record that is written once more keeps what is left of its life by the clock of its store."""
    store = SessionStore(MemoryStore(now=lambda: time.time() + ahead_s))
    root = await rooted(store, 2)
    before = await store.store.read(root.session_id)
    await kept._outdate(store.store, root.session_id)
    after = await store.store.read(root.session_id)
    assert before is not None
    assert after is not None
    assert after.version.number == before.version.number + 1
    assert after.expires_at == pytest.approx(before.expires_at, abs=5)


async def test_a_parent_that_is_shorter_than_what_was_seen_of_it_is_said(store: SessionStore) -> None:
    """A log that was cut behind the session's back, as by restoring an old copy of a table, is no shorter context."""
    root = await rooted(store, 3)
    fork = await root.fork()
    record = await store.store.read(session_key(root.session_id))
    assert record is not None
    await store.store.write(record.key, record.head, expected=record.version, keep=2, ttl_s=None)
    with pytest.raises(MissingParentError):
        await fork.build_context()
