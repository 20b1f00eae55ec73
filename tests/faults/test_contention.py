"""S2: N writers x M updates end at exactly N x M."""

from __future__ import annotations

import pytest

import holdall

from .herd import Herd


@pytest.mark.parametrize("n_writers", [2, 8])
async def test_case_3_no_update_is_lost_between_processes(
    url: str, herd: Herd, full: bool, session_id: str, n_writers: int
) -> None:
    """Every process's increments are in the sum, and every version from 1 on was handed out exactly once."""
    times = 200 if full else 15
    async with holdall.open(url) as store:
        await store.save(holdall.SessionState(session_id=session_id, user_id="u", metadata={"n": 0}))
        for _ in range(n_writers):
            herd.start("increment", url=url, session=session_id, times=times)
        gone = [herd.wait_for("X", timeout_s=120) for _ in range(n_writers)]
        assert [int(line.words[0]) for line in gone] == [0] * n_writers, herd.said
        state = await store.load(session_id)
    assert state.metadata["n"] == n_writers * times
    assert state.version == n_writers * times + 1
    acknowledged = sorted(int(line.words[0]) for said in herd.said.values() for line in said if line.kind == "A")
    assert acknowledged == list(range(1, n_writers * times + 1))
