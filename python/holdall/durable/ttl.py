"""How long things live, in seconds. A session renews its own with every save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from holdall.errors import ArgumentError, UnknownNameError

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

SESSION_TTL_S: Final = HOUR_S  # sensible from 1 to 4 hours
SESSION_TTL_RANGE_S: Final = (HOUR_S, 4 * HOUR_S)
CHECKPOINT_TTL_S: Final = 7 * DAY_S
HISTORY_TTL_S: Final = 90 * DAY_S
TOOL_CACHE_TTL_S: Final = HOUR_S  # what a tool said an hour ago; up to a day where the world stands still
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


# What is sensible for each kind of record; a policy outside it is the caller's own choice, and not refused.
SENSIBLE_S: Final[Mapping[str, tuple[float, float | None]]] = MappingProxyType(
    {
        "session": SESSION_TTL_RANGE_S,
        "checkpoint": (DAY_S, 30 * DAY_S),
        "history": (30 * DAY_S, None),
        "tool_cache": TOOL_CACHE_TTL_RANGE_S,
        "rate_counter": RATE_COUNTER_TTL_RANGE_S,
        "semantic": (HISTORY_TTL_S, None),
    }
)


@dataclass(frozen=True)
class TtlPolicies:
    """How long each kind of record lives after its last write, in seconds; None for ever.

    Every write renews the life of its record, in the same write. What has expired is read by nobody, swept or not.

    Attributes:
        session: A session that nobody goes on with.
        checkpoint: A checkpoint in a store of its own.
        history: A session in the archive.
        tool_cache: What a tool has answered.
        rate_counter: A counter of a rate limit, at least as long as its window.
        semantic: What is kept for similarity search.
    """

    session: float | None = SESSION_TTL_S
    checkpoint: float | None = CHECKPOINT_TTL_S
    history: float | None = HISTORY_TTL_S
    tool_cache: float | None = TOOL_CACHE_TTL_S
    rate_counter: float | None = RATE_COUNTER_TTL_RANGE_S[0]
    semantic: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            check_ttl(getattr(self, field.name))

    def of(self, kind: str) -> float | None:
        """Return the time to live of a kind of record by its name.

        Raises:
            UnknownNameError: There is no such kind; the message names the known ones.
        """
        if kind not in SENSIBLE_S:
            raise UnknownNameError(
                f"no kind of record is called {kind!r}; there are {', '.join(SENSIBLE_S)}",
                what="kind of record",
                name=kind,
                known=list(SENSIBLE_S),
            )
        found: float | None = getattr(self, kind)
        return found

    def unusual(self) -> list[str]:
        """Return the kinds whose time to live lies outside what is sensible for them."""
        return [
            kind
            for kind, (least, most) in SENSIBLE_S.items()
            if not least <= (self.of(kind) or float("inf")) <= (most or float("inf"))
        ]
