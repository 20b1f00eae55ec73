"""A connection that is cut before the request, or after the server did the work: tried once more, applied once."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdall
from holdall import OutcomeUnknownError, SessionState, StoreUnavailableError
from holdall.durable.session_store import SessionStore
from tests.durable.backends import SERVERS, url_of
from tests.servers.proxy import Proxy

CUTS = ("cut request", "cut reply")


@pytest.fixture(params=SERVERS)
async def proxied(
    request: pytest.FixtureRequest, tmp_path: Any, proxy_to: Callable[[int], Awaitable[Proxy]]
) -> tuple[str, Proxy]:
    """The URL of a server behind a proxy, and the proxy."""
    url = url_of(request.param, request, tmp_path)
    port = urlsplit(url).port
    assert port is not None
    proxy = await proxy_to(port)
    return url.replace(f":{port}", f":{proxy.port}"), proxy


def say(n: int) -> dict[str, str]:
    return {"role": "user", "content": str(n)}


async def check(store: SessionStore, state: SessionState, n_messages: int) -> None:
    stored = await store.load(state.session_id)
    assert [m["content"] for m in stored.messages] == [str(n) for n in range(n_messages)]
    assert stored == state


@pytest.mark.parametrize("cut", CUTS)
async def test_a_cut_at_any_request_of_a_save_is_made_good(
    proxied: tuple[str, Proxy], session_id: str, cut: Any
) -> None:
    """Whichever request of the save it hits, first use included: the save succeeds, and is there exactly once."""
    url, proxy = proxied
    hit = True
    k = 0
    while hit:
        state = SessionState(session_id=f"{session_id}-{k}", user_id="u")
        state.messages.append(say(0))
        async with holdall.open(url) as store:
            if k % 2:
                await store.list(user_id="nobody")
            before = proxy.n_faults
            proxy.fail(cut, after=k // 2)
            try:
                await store.save(state)
            except StoreUnavailableError:
                # Only while connecting: nothing was sent, nothing was written, and the state says so.
                assert state.version == 0
                proxy.fail("none")
                await store.save(state)
            hit = proxy.n_faults > before or not k % 2
            proxy.fail("none")
            assert state.version == 1
            state.messages.append(say(1))
            await store.save(state)
            await check(store, state, 2)
        k += 1
        assert k < 80
    assert k >= 4


@pytest.mark.parametrize("cut", CUTS)
async def test_a_connection_lost_twice_leaves_the_outcome_unknown(
    proxied: tuple[str, Proxy], session_id: str, cut: Any
) -> None:
    """The error says so, the state in memory is as it was, and a load tells what happened."""
    url, proxy = proxied
    async with holdall.open(url) as store:
        state = SessionState(session_id=session_id, user_id="u")
        await store.save(state)
        state.messages.append(say(0))
        proxy.fail(cut, times=None)
        with pytest.raises(StoreUnavailableError) as caught:
            await store.save(state)
        assert state.version == 1
        proxy.fail("none")
        stored = await store.load(session_id)
        if isinstance(caught.value, OutcomeUnknownError):
            assert (stored.version, len(stored.messages)) in ((1, 0), (2, 1))
        else:
            assert (stored.version, len(stored.messages)) == (1, 0)
        stored.messages.append(say(len(stored.messages)))
        await store.save(stored)
        await check(store, stored, stored.version - 1)


async def test_case_29_a_connection_that_was_closed_while_idle_is_made_anew(
    proxied: tuple[str, Proxy], session_id: str
) -> None:
    """During a long call to a model every connection is cut; the next save and load work."""
    url, proxy = proxied
    async with holdall.open(url) as store:
        state = SessionState(session_id=session_id, user_id="u")
        for n in range(4):
            state.messages.append(say(n))
            await store.save(state)
            proxy.cut_all()
        await check(store, state, 4)


async def test_a_server_that_is_not_there_is_an_error_and_nothing_else(
    proxied: tuple[str, Proxy], session_id: str
) -> None:
    """The state stays as it was, and the same store works when the server is back."""
    url, proxy = proxied
    async with holdall.open(url) as store:
        state = SessionState(session_id=session_id, user_id="u")
        await store.save(state)
        state.messages.append(say(0))
        proxy.fail("refuse", times=None)
        proxy.cut_all()
        with pytest.raises(StoreUnavailableError):
            await store.save(state)
        assert (state.version, len(state.pending().items)) == (1, 1)
        proxy.fail("none")
        await store.save(state)
        await check(store, state, 1)


async def test_every_append_lands_once_through_a_bad_network(
    proxied: tuple[str, Proxy], session_id: str, full: bool, report: Callable[[str], None]
) -> None:
    """One request or reply in a hundred is lost: with op ids each append is applied exactly once."""
    url, proxy = proxied
    times = 10_000 if full else 300
    share = 0.01 if full else 0.05
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    async with holdall.open(url) as store:
        await store.list(user_id="nobody")
        state = SessionState(session_id=session_id, user_id="u")
        for n in range(times):
            state.messages.append(say(n))
            if rng.random() < share:
                proxy.fail(rng.choice(CUTS))
            await store.save(state)
            proxy.fail("none")
        await check(store, state, times)
        assert state.version == times
    report(
        f"bad network, {url.partition(':')[0]}, seed {seed}: {times} appends, {proxy.n_faults} connections cut, "
        f"{len(state.messages)} applied, 0 lost, 0 duplicated"
    )
    assert proxy.n_faults
