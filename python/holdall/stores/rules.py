"""What a write, touch or delete means, as pure functions over the part of a record that decides.

The memory and SQLite stores call these; `lua/*.lua` and `sql/postgres/*.sql` say the same in their own languages, and the
conformance suite holds all four to it. No I/O, no clock, no randomness: the caller brings `now` and a fresh generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdall.errors import ArgumentError, ConflictError, StaleFenceError
from holdall.stores import keys
from holdall.stores.base import ABSENT, Absent, Blob, Entry, Version

REMEMBERED_OPS = 32
GENERATION_CHARS = 16
NUMBER_CHARS = 16
OP_CHARS = keys.OP_TOKEN_CHARS + GENERATION_CHARS + NUMBER_CHARS
DEFAULT_RETENTION_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a key: a record, or the tombstone that a delete left.

    `expires_at` ends a record, or the retention of a tombstone; after it nothing is known of the key any more.
    `ops` holds the last calls, newest first, each `OP_CHARS` wide: token, generation, number in hex.
    `cut_at` is the number of the last write that cut the log, None where that is not known.
    """

    generation: str
    number: int
    log_len: int = 0
    expires_at: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    fence: int | None = None
    ops: str = ""
    is_deleted: bool = False
    cut_at: int | None = None

    @property
    def version(self) -> Version | None:
        """The version a reader sees; None on a tombstone."""
        return None if self.is_deleted else Version(self.generation, self.number)


class Write(NamedTuple):
    """The arguments of one write, checked and frozen, so that nothing the caller does later changes them."""

    key: str
    head: Blob
    expected: Version | Absent | None
    append: tuple[tuple[str, bytes], ...]
    keep: int | None
    ttl_s: float | None
    tags: dict[str, str] | None
    fence: int | None
    op: str | None


def check_write(
    key: str,
    head: Blob,
    *,
    expected: Version | Absent | None,
    append: Sequence[Entry] = (),
    keep: int | None = None,
    ttl_s: float | None,
    tags: Mapping[str, str] | None = None,
    fence: int | None = None,
    op_id: str | None = None,
) -> Write:
    """Check and copy the arguments of a write before the first await.

    Raises:
        ArgumentError: One is outside its domain.
    """
    return Write(
        keys.check_key(key),
        keys.check_blob(head),
        keys.check_expected(expected),
        keys.check_entries(append),
        None if keep is None else keys.check_count("keep", keep),
        keys.check_ttl(ttl_s),
        keys.check_tags(tags),
        keys.check_fence(fence),
        keys.op_token("write", op_id),
    )


def known(meta: Meta | None, now: float) -> Meta | None:
    """Return what is still known at `now`: expiry ends a record, and retention a tombstone, swept or not."""
    if meta is None or (meta.expires_at is not None and meta.expires_at <= now):
        return None
    return meta


def answer_of(meta: Meta | None, op: str | None) -> Version | None:
    """Return what an earlier call with this token gave, None if there was none or it is forgotten."""
    if meta is None or op is None:
        return None
    at = meta.ops.find(op)
    while at % OP_CHARS:  # -1 too
        if at < 0:
            return None
        at = meta.ops.find(op, at + 1)
    start = at + len(op)
    middle = start + GENERATION_CHARS
    return Version(meta.ops[start:middle], int(meta.ops[middle : at + OP_CHARS], 16))


def remember(ops: str, op: str | None, version: Version) -> str:
    """Return the memory of calls with this one in front, cut to the last 32."""
    if op is None:
        return ops
    return f"{op}{version.generation}{version.number:0{NUMBER_CHARS}x}{ops}"[: OP_CHARS * REMEMBERED_OPS]


def conflict(key: str, expected: Version | Absent | None, actual: Version | None) -> ConflictError:
    """Say which version was expected and which is there."""
    return ConflictError(
        f"{_shown(key)} is at {_said(actual)}, not at {_said(expected)}: read it again and repeat the change",
        key=key,
        expected=None if isinstance(expected, Absent) else expected,
        actual=actual,
    )


def stale_fence(
    key: str, expected: Version | Absent | None, actual: Version | None, fence: int | None, highest: int
) -> StaleFenceError:
    """Say which fence came and which was seen."""
    came = "no fence came" if fence is None else f"fence {fence} came"
    return StaleFenceError(
        f"{_shown(key)} has seen fence {highest} and {came}: the lock was lost, take it again",
        key=key,
        expected=None if isinstance(expected, Absent) else expected,
        actual=actual,
        fence=fence,
        highest=highest,
    )


def _shown(key: str) -> str:
    return f"record {key!r}" if len(key) <= 80 else f"record {key[:80]!r}..."  # noqa: PLR2004 - one line of a terminal


def _said(version: Version | Absent | None) -> str:
    if isinstance(version, Version):
        return f"version {version.number} of generation {version.generation}"
    return "no version (absent)"


def _check_fence(key: str, meta: Meta | None, expected: Version | Absent | None, fence: int | None) -> None:
    if meta is not None and meta.fence is not None and (fence is None or fence < meta.fence):
        raise stale_fence(key, expected, meta.version, fence, meta.fence)


def after_write(meta: Meta | None, write: Write, now: float, generation: str) -> tuple[Version, Meta | None]:
    """Return the version a write gives, and what is known after it; None for a repeat, which changes nothing.

    Args:
        meta: What is known of the key, expired or not.
        write: The call.
        now: Unix seconds.
        generation: Taken if the write creates the record.

    Raises:
        ConflictError: The record is at another version.
        StaleFenceError: The fence is lower than the highest seen, or missing.
    """
    meta = known(meta, now)
    answer = answer_of(meta, write.op)
    if answer is not None:
        return answer, None
    _check_fence(write.key, meta, write.expected, write.fence)
    actual = None if meta is None else meta.version
    no_tags: Mapping[str, str] = {}
    if write.expected is ABSENT:
        if actual is not None:
            raise conflict(write.key, write.expected, actual)
    elif write.expected is not None and write.expected != actual:
        raise conflict(write.key, write.expected, actual)
    if meta is None or actual is None:
        version, log_len, tags = Version(generation, 1), 0, no_tags
        cut_at: int | None = 1
    else:
        version, log_len, tags = Version(actual.generation, actual.number + 1), meta.log_len, meta.tags
        cut_at = meta.cut_at
    if write.keep is not None and write.keep < log_len:
        log_len, cut_at = write.keep, version.number
    return version, Meta(
        version.generation,
        version.number,
        log_len + len(write.append),
        None if write.ttl_s is None else now + write.ttl_s,
        tags if write.tags is None else write.tags,
        _highest(meta, write.fence),
        remember("" if meta is None else meta.ops, write.op, version),
        cut_at=cut_at,
    )


def start_of_log(meta: Meta, seen: Version, log_from: int) -> int:
    """Return from where on a log must be read by who knows its first `log_from` entries as they were at `seen`."""
    is_same = meta.generation == seen.generation and meta.cut_at is not None and meta.cut_at <= seen.number
    return log_from if is_same and log_from <= meta.log_len else 0


def after_touch(meta: Meta | None, ttl_s: float | None, op: str | None, now: float) -> tuple[bool, Meta | None]:
    """Return whether there was a record to touch, and what is known after it; None where nothing changes."""
    meta = known(meta, now)
    if answer_of(meta, op) is not None:
        return True, None
    if meta is None or meta.version is None:
        return False, None
    expires_at = None if ttl_s is None else now + ttl_s
    return True, replace(meta, expires_at=expires_at, ops=remember(meta.ops, op, meta.version))


def after_delete(
    meta: Meta | None,
    key: str,
    *,
    expected: Version | None,
    fence: int | None,
    op: str | None,
    now: float,
    retention_s: float,
) -> tuple[bool, Meta | None]:
    """Return whether there was a record to delete, and the tombstone; None where nothing changes.

    Raises:
        ConflictError: The record is at another version.
        StaleFenceError: The fence is lower than the highest seen, or missing.
    """
    meta = known(meta, now)
    if answer_of(meta, op) is not None:
        return True, None
    if meta is None or meta.version is None:
        return False, None
    _check_fence(key, meta, expected, fence)
    if expected is not None and expected != meta.version:
        raise conflict(key, expected, meta.version)
    return True, Meta(
        meta.generation,
        meta.number,
        expires_at=now + retention_s,
        fence=_highest(meta, fence),
        ops=remember(meta.ops, op, meta.version),
        is_deleted=True,
    )


def _highest(meta: Meta | None, fence: int | None) -> int | None:
    if meta is None or meta.fence is None:
        return fence
    return meta.fence if fence is None else max(meta.fence, fence)


def check_retention(retention_s: float) -> float:
    """Return how long a tombstone stays, in seconds."""
    checked = keys.check_ttl(retention_s)
    if checked is None:
        raise ArgumentError("retention_s must be a number of seconds: a tombstone that never ends would fill the store")
    return checked
