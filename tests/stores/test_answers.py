"""The way back from a thread to an event loop: every answer comes, each loop gets its own, and no descriptor stays open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall.stores import answers
from holdall.stores.answers import Answers
from holdall.stores.base import ABSENT, Blob
from holdall.stores.sqlite import SqliteStore

HEAD = Blob("text", b"")


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    future.set_result((answer, threading.current_thread()))


class NoReaders(asyncio.SelectorEventLoop):
    """As the loop of Windows is."""

    def add_reader(self, *_args: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


@pytest.fixture(params=["descriptor", "no eventfd", "no readers"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop, and a way back to it of each kind."""
    if request.param == "no eventfd":
        monkeypatch.setattr(answers, "_HAS_EVENTFD", False)
    with contextlib.closing(NoReaders() if request.param == "no readers" else asyncio.SelectorEventLoop()) as made:
        yield made


def test_answers_of_several_threads_all_come(loop: asyncio.AbstractEventLoop):
    """Each once, and in the loop's own thread."""

    async def main() -> None:
        way = Answers(loop)
        futures = [loop.create_future() for _ in range(400)]

        def answering(start: int) -> None:
            for n in range(start, len(futures), 4):
                way.put(_settle, futures[n], n)

        threads = [threading.Thread(target=answering, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        here = threading.current_thread()
        assert await asyncio.gather(*futures) == [(n, here) for n in range(400)]
        for thread in threads:
            thread.join()
        way.end()

    loop.run_until_complete(main())


def test_what_was_put_before_the_end_comes(loop: asyncio.AbstractEventLoop):
    """Though the loop is let go of in the same turn."""

    async def main() -> None:
        way, future = Answers(loop), loop.create_future()
        threading.Thread(target=lambda: (way.put(_settle, future, 1), way.end())).start()
        assert (await asyncio.wait_for(future, 10))[0] == 1
        way.end()
        await asyncio.sleep(0)

    loop.run_until_complete(main())


def test_a_loop_that_was_closed_waits_for_nothing(loop: asyncio.AbstractEventLoop):
    """What is put after its end goes nowhere, and hurts nobody."""

    async def main() -> Answers:
        return Answers(loop)

    way, future = loop.run_until_complete(main()), loop.create_future()
    loop.close()
    way.put(_settle, future, 1)
    way.end()
    assert not future.done()


def _n_open() -> int:
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))


async def _use(path: Path, *, close: bool) -> SqliteStore | None:
    """Return the store where it was closed: that alone must be enough."""
    store = SqliteStore(path)
    await store.write("k", HEAD, expected=None, ttl_s=None)
    if not close:
        return None
    await store.aclose()
    return store


@pytest.mark.parametrize("close", [True, False], ids=["closed", "dropped"])
def test_no_descriptor_outlives_its_store(tmp_path: Path, close: bool):
    """Neither in a loop that runs on, nor after it."""

    async def main() -> None:
        kept = [await _use(tmp_path / "s.db", close=close)]
        gc.collect()
        await asyncio.sleep(0.01)
        before = _n_open()
        kept += [await _use(tmp_path / "s.db", close=close) for _ in range(5)]
        gc.collect()
        await asyncio.sleep(0.01)
        assert _n_open() <= before

    before = _n_open()
    asyncio.run(main())
    assert _n_open() <= before


def test_one_store_in_loop_after_loop(tmp_path: Path):
    """A closed loop takes its descriptor with it, while the store lives on."""
    store = SqliteStore(tmp_path / "s.db")
    asyncio.run(store.write("k", HEAD, expected=ABSENT, ttl_s=None))
    before = _n_open()
    for _ in range(5):
        assert asyncio.run(store.read("k")) is not None
    assert _n_open() <= before + 2  # the reader's connection
    asyncio.run(store.aclose())


def test_one_store_in_two_loops_at_once(tmp_path: Path):
    """Each loop gets the answers to its own calls."""
    store = SqliteStore(tmp_path / "s.db", durability="process")

    async def writing(key: str) -> list[int]:
        return [(await store.write(key, HEAD, expected=None, ttl_s=None)).number for _ in range(50)]

    said: dict[str, list[int]] = {}
    threads = [
        threading.Thread(target=lambda key=key: said.update({key: asyncio.run(writing(key))}))  # type: ignore[misc]
        for key in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {"a": list(range(1, 51)), "b": list(range(1, 51))}
    asyncio.run(store.aclose())
