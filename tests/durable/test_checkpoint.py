"""`CheckpointManager`: checkpoints, policies, and the idempotent run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    CheckpointManager,
    ConflictError,
    EncodeError,
    NotFoundError,
    Periodic,
    PerPhase,
    PerStep,
    PerTransaction,
    SessionGoneError,
    SessionState,
    Step,
    StepRun,
    StoreUnavailableError,
    policy_for,
)
from holdall.durable.policies import CheckpointPolicy, Progress
from holdall.durable.run import is_transient
from holdall.durable.session_store import SessionStore
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore


def new() -> SessionState:
    return SessionState(session_id=f"s-{uuid4().hex}", user_id="u")


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_resume_gives_the_state_and_the_next_step(store: SessionStore) -> None:
    """Another worker goes on after the last checkpoint."""
    state = new()
    manager = CheckpointManager(store)
    for step in (1, 2, 3):
        state.messages.append(say(str(step)))
        await manager.save_checkpoint(state, step)
    other = CheckpointManager(store)
    resumed, next_step = await other.resume_from_checkpoint(state.session_id)
    assert next_step == 4
    assert resumed == state
    assert (await other.load_checkpoint(state.session_id)).current_step == 3


async def test_steps_may_count_from_0(store: SessionStore) -> None:
    """A checkpoint after step 0 is one, and step 1 is next."""
    state = new()
    await CheckpointManager(store).save_checkpoint(state, 0)
    assert (await CheckpointManager(store).resume_from_checkpoint(state.session_id))[1] == 1


async def test_a_missing_checkpoint_is_not_found(store: SessionStore) -> None:
    """Where there is no session, and where there is one that was never checkpointed."""
    manager = CheckpointManager(store)
    state = new()
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            await manager.resume_from_checkpoint(state.session_id)
        assert caught.value.key == state.session_id
        if not state.version:
            await store.save(state)


async def test_session_and_checkpoint_are_one_record(store: SessionStore) -> None:
    """A checkpoint is a save: one record, one version, and a stale session save conflicts with it."""
    state = new()
    await store.save(state)
    stale = await store.load(state.session_id)
    await CheckpointManager(store).save_checkpoint(state, 1)
    assert state.version == 2
    with pytest.raises(ConflictError):
        await store.save(stale)


async def test_a_failed_checkpoint_leaves_the_state_as_it_was(store: SessionStore) -> None:
    """S3: step and marks too."""
    state = new()
    manager = CheckpointManager(store)
    await manager.save_checkpoint(state, 1)
    stale = await store.load(state.session_id)
    await manager.save_checkpoint(state, 2)
    before = stale.copy()
    with pytest.raises(ConflictError):
        await manager.save_checkpoint(stale, 9)
    assert stale == before
    fresh = new()
    fresh.session_id = state.session_id
    with pytest.raises(ConflictError):
        await manager.save_checkpoint(fresh, 1)
    assert (fresh.metadata, fresh.current_step) == ({}, 0)


@pytest.mark.parametrize("step", [-1, 1.0, "1", None, True])
async def test_a_step_is_a_count(store: SessionStore, step: object) -> None:
    """Anything else is refused."""
    with pytest.raises(ArgumentError):
        await CheckpointManager(store).save_checkpoint(new(), step)


def progress(steps: int = 1, seconds: float = 0.0, *, phase: bool = False, transaction: bool = False) -> Progress:
    return Progress(steps, seconds, phase, transaction)


@pytest.mark.parametrize(
    ("policy", "asked", "due"),
    [
        pytest.param(PerStep(), progress(), True, id="per step"),
        pytest.param(PerPhase(), progress(), False, id="within a phase"),
        pytest.param(PerPhase(), progress(phase=True), True, id="end of a phase"),
        pytest.param(PerTransaction(), progress(phase=True), False, id="within a transaction"),
        pytest.param(PerTransaction(), progress(transaction=True), True, id="end of a transaction"),
        pytest.param(Periodic(3), progress(2), False, id="2 of 3 steps"),
        pytest.param(Periodic(3), progress(3), True, id="3 of 3 steps"),
        pytest.param(Periodic(seconds=5), progress(99, 4.9), False, id="before the time"),
        pytest.param(Periodic(seconds=5), progress(1, 5.0), True, id="at the time"),
        pytest.param(Periodic(3, seconds=5), progress(1, 6.0), True, id="either"),
    ],
)
def test_policies(policy: CheckpointPolicy, asked: Progress, due: bool) -> None:
    """Each says when it is due."""
    assert policy.due(asked) is due


def test_policy_for_a_cost() -> None:
    """Per step above one cent; at one cent and below a checkpoint in ten steps."""
    assert policy_for(0.0101) == PerStep()
    assert policy_for(5) == PerStep()
    assert policy_for(0.01) == Periodic(10)
    assert policy_for(0) == Periodic(10)
    for bad in (-0.1, float("nan")):
        with pytest.raises(ArgumentError):
            policy_for(bad)


@pytest.mark.parametrize("options", [{}, {"steps": 0}, {"seconds": 0}, {"seconds": float("nan")}])
def test_periodic_checks_its_arguments(options: dict[str, float]) -> None:
    """A period that never or always ends is refused."""
    with pytest.raises(ArgumentError):
        Periodic(**options)


async def test_checkpoint_if_due_counts_steps_and_time(store: SessionStore) -> None:
    """Hand-written loops: every third step, or after five seconds."""
    now = 0.0
    manager = CheckpointManager(store, policy=Periodic(3, seconds=5), clock=lambda: now)
    state = new()
    saved = []
    for step in range(1, 8):
        if await manager.checkpoint_if_due(state, step):
            saved.append(step)
        now += 1
    assert saved == [3, 6]
    now += 10
    assert await manager.checkpoint_if_due(state, 8)


def steps_of(calls: list[str], names: str, **kinds: Callable[[str], str | None]) -> list[Step]:
    def make(name: str) -> Step:
        async def fn(run: StepRun) -> str:
            calls.append(name)
            run.state.messages.append(say(name))
            return name.upper()

        return Step(name, fn, **{kind: of(name) for kind, of in kinds.items()})

    return [make(name) for name in names]


async def test_run_does_each_step_once_over_all_workers(store: SessionStore) -> None:
    """A second worker skips what is recorded; a third has nothing to do."""
    state, calls = new(), []
    first = await CheckpointManager(store).run(state, steps_of(calls, "abc"))
    assert (first.done, first.skipped) == (["a", "b", "c"], [])
    second = await CheckpointManager(store).run(state.session_id, steps_of(calls, "abcde"))
    assert (second.done, second.skipped) == (["d", "e"], ["a", "b", "c"])
    third = await CheckpointManager(store).run(state.session_id, steps_of(calls, "abcde"))
    assert (third.done, len(third.skipped)) == ([], 5)
    assert calls == list("abcde")
    assert dict(third.state.step_results) == {name: name.upper() for name in "abcde"}
    assert [m["content"] for m in third.state.messages] == list("abcde")
    assert third.state.current_step == 5


async def test_run_from_a_fresh_state_resumes_the_session_of_its_id(store: SessionStore) -> None:
    """Starting the same job twice does it once."""
    state, calls = new(), []
    await CheckpointManager(store).run(state, steps_of(calls, "ab"))
    again = SessionState(session_id=state.session_id, user_id="u")
    report = await CheckpointManager(store).run(again, steps_of(calls, "ab"))
    assert (calls, report.skipped) == (["a", "b"], ["a", "b"])
    with pytest.raises(NotFoundError):
        await CheckpointManager(store).run(f"s-{uuid4().hex}", steps_of(calls, "ab"))


class Crash(BaseException):
    """Stands for the end of the process: nothing after it runs."""


async def test_case_60_a_crash_after_a_tool_result_does_not_run_the_tool_again(store: SessionStore) -> None:
    """The snapshot holds the call and its result together; the history is valid and the tool ran once."""
    state, ran = new(), []

    async def tool(run: StepRun) -> str:
        run.state.messages.append(
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {}}]}
        )
        ran.append(run.key)
        run.state.messages.append({"role": "tool", "tool_call_id": "c1", "content": "42"})
        return "42"

    async def crash(run: StepRun) -> str:
        run.state.messages.append({"role": "assistant", "content": "half an answer"})
        raise Crash

    with pytest.raises(Crash):
        await CheckpointManager(store).run(state, [Step("tool", tool), Step("answer", crash)])
    stored = await store.load(state.session_id)
    assert [m["role"] for m in stored.messages] == ["assistant", "tool"]

    async def answer(run: StepRun) -> str:
        run.state.messages.append({"role": "assistant", "content": "it is 42"})
        return "done"

    report = await CheckpointManager(store).run(state.session_id, [Step("tool", tool), Step("answer", answer)])
    assert len(ran) == 1
    assert [m["role"] for m in report.state.messages] == ["assistant", "tool", "assistant"]


async def test_a_step_that_was_cut_off_runs_again_with_its_key(store: SessionStore) -> None:
    """The key is the same on every worker and for every attempt, and differs between steps and sessions."""
    state, keys = new(), []

    def cut_off(run: StepRun) -> str:
        keys.append(run.key)
        raise Crash

    def whole(run: StepRun) -> str:
        keys.append(run.key)
        return "done"

    with pytest.raises(Crash):
        await CheckpointManager(store).run(state, [Step("pay", cut_off)])
    await CheckpointManager(store).run(state.session_id, [Step("pay", whole), Step("tell", whole)])
    other = new()
    await CheckpointManager(store).run(other, [Step("pay", whole)])
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


class SerializationFailureError(Exception):
    """What drivers raise for SQLSTATE 40001."""

    sqlstate = "40001"


async def test_case_58_a_retryable_error_is_retried_and_never_stored(store: SessionStore) -> None:
    """40001 once: the step runs again on the state as it was before it, and its success is stored."""
    state, attempts, waited = new(), [], []

    async def fn(run: StepRun) -> str:
        attempts.append(run.attempt)
        run.state.messages.append(say(f"attempt {run.attempt}"))
        run.state.metadata["dirty"] = run.attempt
        if run.attempt == 0:
            raise SerializationFailureError
        return "stored"

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    report = await CheckpointManager(store, sleep=sleep, random=lambda: 0.5).run(state, [Step("s", fn)])
    assert (attempts, waited) == ([0, 1], [0.005])
    stored = await store.load(state.session_id)
    assert dict(stored.step_results) == {"s": "stored"}
    assert [m["content"] for m in stored.messages] == ["attempt 1"]
    assert stored.metadata["dirty"] == 1
    assert report.state == stored


async def test_case_58_an_error_is_no_result(store: SessionStore) -> None:
    """What is not retryable, or fails to the last retry, ends the run; the steps before it stay done."""
    state, calls = new(), []

    def broken(run: StepRun) -> str:
        calls.append(run.attempt)
        run.state.messages.append(say("broken"))
        raise ValueError("mine")

    def down(run: StepRun) -> str:
        calls.append(run.attempt)
        raise StoreUnavailableError("down", backend="test", operation="read", cause="test")

    async def sleep(_: float) -> None:
        return

    for fn, kind, tries in ((broken, ValueError, 1), (down, StoreUnavailableError, 3)):
        calls.clear()
        with pytest.raises(kind):
            await CheckpointManager(store, sleep=sleep).run(state, [*steps_of([], "a"), Step("b", fn)], retries=2)
        assert len(calls) == tries
        stored = await store.load(state.session_id)
        assert dict(stored.step_results) == {"a": "A"}
        assert [m["content"] for m in stored.messages] == ["a"]


async def test_a_result_that_cannot_be_stored_leaves_nothing_of_its_step(store: SessionStore) -> None:
    """Done again with a result that can, the step appends its messages once."""
    manager, results = CheckpointManager(store), [object(), "done"]
    state = new()

    def work(run: StepRun) -> object:
        run.state.messages.append(say("once"))
        return results[len(tried)]

    tried: list[int] = []
    with pytest.raises(EncodeError, match="step_results"):
        await manager.run(state, [Step("work", work)])
    assert (len(state.messages), len(state.step_results)) == (0, 0)
    tried.append(1)
    await manager.run(state, [Step("work", work)])
    loaded = await store.load(state.session_id)
    assert (len(loaded.messages), loaded.step_results) == (1, {"work": "done"})


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (SerializationFailureError(), True),
        (ConnectionResetError(), True),
        (asyncio.TimeoutError(), True),
        (StoreUnavailableError("x", backend="", operation="", cause=""), True),
        (ConflictError("x", key="", expected=None, actual=None), False),
        (ValueError(), False),
        (KeyError(), False),
    ],
)
def test_what_is_worth_another_try(error: Exception, transient: bool) -> None:
    """Networks and databases that ask for it; not conflicts, not bugs."""
    assert is_transient(error) is transient


async def test_two_workers_on_one_session(store: SessionStore) -> None:
    """The one whose session moved on stops with a conflict; nothing is done twice by both and kept."""
    state = new()
    other_done: list[str] = []

    async def slow(run: StepRun) -> str:
        await CheckpointManager(store).run(run.state.session_id, steps_of(other_done, "ab"))
        return "late"

    with pytest.raises(ConflictError):
        await CheckpointManager(store).run(state, [Step("a", slow), *steps_of([], "b")])
    stored = await store.load(state.session_id)
    assert dict(stored.step_results) == {"a": "A", "b": "B"}


async def test_policies_decide_what_a_crash_costs(store: SessionStore) -> None:
    """After a crash in the last step: what stands since the last checkpoint is done again, and nothing else."""

    def parts(name: str) -> str:
        return "first" if name in "abc" else "second"

    def pairs(name: str) -> str | None:
        return "pair" if name in "bc" else None

    for policy, kept in (
        (PerStep(), "abcd"),
        (PerPhase(), "abc"),
        (PerTransaction(), "abcd"),
        (Periodic(2), "abcd"),
        (Periodic(3), "abc"),
        (Periodic(9), ""),
    ):
        state, calls = new(), []
        steps = steps_of(calls, "abcde", phase=parts, transaction=pairs)

        def crash(run: StepRun) -> str:
            raise Crash

        with pytest.raises(Crash):
            await CheckpointManager(store, policy=policy).run(state, [*steps[:4], Step("e", crash, "second", None)])
        calls.clear()
        report = await CheckpointManager(store, policy=policy).run(state.session_id, steps)
        assert "".join(report.skipped) == kept, policy
        assert "".join(calls) == "abcde"[len(kept) :], policy
        assert [m["content"] for m in report.state.messages] == list("abcde")


async def test_a_transaction_is_never_cut(store: SessionStore) -> None:
    """Whatever is stored at any time holds all steps of a transaction or none."""
    state, seen = new(), []

    def make(name: str) -> Step:
        async def fn(run: StepRun) -> str:
            try:
                seen.append("".join((await store.load(state.session_id)).step_results))
            except NotFoundError:
                seen.append("")
            return name

        return Step(name, fn, transaction="t" if name in "bcd" else None)

    await CheckpointManager(store, policy=PerTransaction()).run(state, [make(name) for name in "abcde"])
    assert seen == ["", "a", "a", "a", "abcd"]


async def test_steps_may_be_made_as_the_state_unfolds(store: SessionStore) -> None:
    """A generator, sync or async, that looks at what the steps before gave."""
    state, calls = new(), []

    async def plan() -> AsyncIterator[Step]:
        for step in steps_of(calls, "ab"):
            yield step
        if "b" in state.step_results:
            for step in steps_of(calls, "c"):
                yield step

    report = await CheckpointManager(store).run(state, plan())
    assert report.done == ["a", "b", "c"]


async def test_a_function_is_no_step(store: SessionStore) -> None:
    manager = CheckpointManager(store)
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    with pytest.raises(ArgumentError, match=r"steps are `Step\(name, function\)`, not function"):
        await manager.run(state, [lambda run: None])  # type: ignore[list-item]


async def test_two_steps_of_one_name_are_refused(store: SessionStore) -> None:
    """The second would be taken for done."""
    with pytest.raises(ArgumentError, match="two steps"):
        await CheckpointManager(store).run(new(), steps_of([], "aa"))


async def test_on_step_is_told(store: SessionStore) -> None:
    """Started, saved, skipped, in order."""
    state, told = new(), []
    await CheckpointManager(store, policy=Periodic(2)).run(
        state, steps_of([], "abc"), on_step=lambda step, event: told.append(f"{step.name} {event}")
    )
    assert told == ["a started", "b started", "b saved", "c started", "c saved"]
    told.clear()
    await CheckpointManager(store).run(
        state.session_id, steps_of([], "a"), on_step=lambda step, event: told.append(f"{step.name} {event}")
    )
    assert told == ["a skipped"]


@pytest.mark.parametrize("where", ["with the session", "in a store of their own"])
async def test_a_step_may_take_longer_than_its_record_lives(store: SessionStore, where: str) -> None:
    """As long as it awaits: the time to live starts over meanwhile."""
    state = new()
    manager = CheckpointManager(store)
    state.ttl_seconds = 1.5
    if where == "in a store of their own":
        state.ttl_seconds = None
        manager = CheckpointManager(SessionStore(MemoryStore()), checkpoints=store, ttl_s=1.5)

    async def long(run: StepRun) -> str:
        run.state.messages.append(say("at work"))
        await asyncio.sleep(1.8)
        return "done"

    report = await manager.run(state, [Step("one", long)])
    assert report.done == ["one"]
    resumed, next_step = await manager.resume_from_checkpoint(state.session_id)
    assert (next_step, len(resumed.messages)) == (2, 1)
    assert (await store.info(state.session_id)).expires_at is not None


async def test_a_session_that_expired_during_a_step_says_so(store: SessionStore) -> None:
    """A step that lets nothing else run cannot be helped; the error gives the figure, and what to do."""
    state = new()
    state.ttl_seconds = 0.1
    manager = CheckpointManager(store)
    with pytest.raises(SessionGoneError, match=r"lives 0\.1 s after each save.*raise ttl_seconds") as caught:
        await manager.run(state, [Step("one", lambda _: time.sleep(0.3))])
    assert (caught.value.key, caught.value.ttl_s, caught.value.actual) == (state.session_id, 0.1, None)
    assert caught.value.expected.number == 1


async def test_a_deleted_session_is_not_renewed(store: SessionStore) -> None:
    """Nor is the run told before it saves: what others delete meanwhile stays deleted."""
    state = new()
    state.ttl_seconds = 0.3

    async def deleted(run: StepRun) -> None:
        assert await store.delete(run.state.session_id)
        await asyncio.sleep(0.4)

    with pytest.raises(SessionGoneError, match="deleted"):
        await CheckpointManager(store).run(state, [Step("one", deleted)])
    with pytest.raises(NotFoundError):
        await store.load(state.session_id)


async def test_a_run_leaves_nothing_running_behind(store: SessionStore) -> None:
    """Also where a step fails, or the run is cancelled, and though renewals fail while the store is away."""

    async def broken(_: StepRun) -> None:
        await asyncio.sleep(0.05)
        raise ValueError

    before = asyncio.all_tasks()
    state = new()
    state.ttl_seconds = 0.06
    with pytest.raises(ValueError):  # noqa: PT011 - raised above
        await CheckpointManager(store).run(state, [Step("one", broken)])
    run = asyncio.ensure_future(CheckpointManager(store).run(new(), [Step("one", lambda _: asyncio.sleep(9))]))
    await asyncio.sleep(0.05)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert asyncio.all_tasks() == before
    away = FaultyStore(MemoryStore())

    async def outage(_: StepRun) -> None:
        away.is_dead = True
        await asyncio.sleep(0.7)
        away.is_dead = False
        await asyncio.sleep(1.1)

    state = new()
    state.ttl_seconds = 1.5
    report = await CheckpointManager(SessionStore(away)).run(state, [Step("one", outage)])
    assert report.done == ["one"]
