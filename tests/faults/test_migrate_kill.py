"""Setting a store up: killed at any I/O it converges when run again, and eight at once do it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdall
from holdall import SessionState
from tests.durable.backends import url_of

from .herd import Herd

PLACES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


def fresh(backend: str, request: pytest.FixtureRequest, folder: Path) -> tuple[str, dict[str, Any]]:
    """A place in which nothing is set up yet."""
    name = f"fresh_{uuid4().hex[:12]}"
    if backend == "sqlite":
        return f"sqlite:///{folder}/{name}.db", {}
    return url_of(backend, request, folder), {"schema": name}


async def use(url: str, options: dict[str, Any]) -> None:
    async with holdall.open(url, **options) as store:
        assert await store.migrate() == []
        state = SessionState(session_id="s", user_id="u")
        state.messages.append({"role": "user", "content": "hi"})
        await store.save(state)
        assert await store.load("s") == state


@pytest.mark.parametrize("backend", PLACES)
async def test_killed_at_every_io_of_a_migration_and_run_again(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, herd: Herd, full: bool, report: Any
) -> None:
    """SIGKILL before or after the k-th I/O, then a second run: the store works, and nothing is due any more."""
    kills = 0
    for after in (False, True):
        k = 0 if full else int(after)
        while True:
            k += 1 if full else 7
            url, options = fresh(backend, request, tmp_path)
            herd.start("migrate", url=url, options=options, kill_at=k, after=after)
            status = int(herd.wait_for("X").words[0])
            herd.start("migrate", url=url, options=options)
            assert herd.wait_for("X").words == ["0"]
            await use(url, options)
            if status == 0:
                break
            assert status == -9
            kills += 1
    report(f"kill at every I/O of a migration, {backend}: {kills} kills, all converged")
    assert kills >= 5


@pytest.mark.parametrize("backend", PLACES)
async def test_eight_at_once_set_an_empty_store_up(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, herd: Herd, full: bool, report: Any
) -> None:
    """None fails, in any of the races."""
    races = 20 if full else 3
    for _ in range(races):
        url, options = fresh(backend, request, tmp_path)
        for _ in range(8):
            herd.start("migrate", url=url, options=options)
        assert [herd.wait_for("X").words for _ in range(8)] == [["0"]] * 8
        await use(url, options)
    report(f"eight set up an empty store at once, {backend}: {races * 8} of {races * 8}")
