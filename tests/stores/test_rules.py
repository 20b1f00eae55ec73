"""The rules that the stores of this process share, at the very moments where they turn."""

from __future__ import annotations

import pytest

from holdall.stores.rules import Meta, known


@pytest.mark.parametrize("is_deleted", [False, True], ids=["a record", "a tombstone"])
def test_what_ends_now_has_ended(is_deleted: bool) -> None:
    """As in SQL, which asks for `expires_at > now`: a record is there before its moment, and not at it."""
    meta = Meta("g", 1, expires_at=100.0, is_deleted=is_deleted)
    assert known(meta, 99.999) is meta
    assert known(meta, 100.0) is None
    assert known(Meta("g", 1), 1e18) is not None
    assert known(None, 0.0) is None
