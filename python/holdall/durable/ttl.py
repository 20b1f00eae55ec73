"""How long things live, in seconds. A session renews its own with every save."""

from __future__ import annotations

from typing import Final

from holdall.errors import ArgumentError

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

SESSION_TTL_S: Final = HOUR_S  # sensible from 1 to 4 hours
SESSION_TTL_RANGE_S: Final = (HOUR_S, 4 * HOUR_S)
CHECKPOINT_TTL_S: Final = 7 * DAY_S
HISTORY_TTL_S: Final = 90 * DAY_S
TOOL_CACHE_TTL_RANGE_S: Final = (HOUR_S, DAY_S)
RATE_COUNTER_TTL_RANGE_S: Final = (60, HOUR_S)
# A writer that was paused for longer than this may meet an empty key; the record's generation still refuses it.
TOMBSTONE_TTL_S: Final = DAY_S

# Past this the expiry leaves the range of some backend's timestamps; "never" is None.
_MAX_TTL_S: Final = 100 * 366 * DAY_S


def check_ttl(ttl_s: float | None) -> float | None:
    """Return the ttl, or say what is wrong with it.

    Raises:
        ArgumentError: Not a number, not above 0, NaN, or more than a hundred years (None means never).
    """
    if ttl_s is None:
        return None
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, (int, float)):
        raise ArgumentError(f"a ttl is a number of seconds or None, not {type(ttl_s).__name__}")
    if not 0 < ttl_s <= _MAX_TTL_S:
        raise ArgumentError(f"a ttl of {ttl_s} s is outside 0 < ttl <= {_MAX_TTL_S} (None means never)")
    return ttl_s
