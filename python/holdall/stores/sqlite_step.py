"""The common step of `SqliteStore`, in one statement where the general way takes two and the rules between them.

A session as it was loaded, not under a lock, with the tags it has and an end that moves on. Where it finds no row, the general
way says why.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from threading import Lock
from typing import Final, NamedTuple

from holdall.stores import rules
from holdall.stores.base import Version
from holdall.stores.sqlite_rows import append, pos, tags_text

_SET: Final = f"""
UPDATE records SET head_format = ?, head = ?, number = number + 1, log_len = log_len + ?, expires_at = ?,
    ops = substr(? || ops, 1, {rules.OP_CHARS * rules.REMEMBERED_OPS})
WHERE key = ? AND generation = ? AND number = ? AND is_deleted = 0 AND fence IS NULL AND tags = ? AND expires_at > ?
    AND sweep_at <= ? AND instr(ops, ?) = 0
"""
_ANYWHERE: Final = f"{_SET} RETURNING id, log_len"
# A fourth of the statement's time goes into RETURNING, which who knows the row can do without.
_IN_PLACE: Final = f"{_SET} AND id = ? AND log_len = ?"
_HAS_RETURNING: Final = sqlite3.sqlite_version_info >= (3, 35)
# No token of a call, which are hexadecimal.
_NO_OP: Final = "-"
_MOST_PLACES: Final = 1024


class Place(NamedTuple):
    """Where a record's row was at a version, and how long its log: neither is ever another one at that version.

    A step may try on it, and looks whether it holds; it never refuses by it.
    """

    version: Version
    record_id: int
    log_len: int
    # Whether it was this store that wrote the version.
    is_ours: bool


class Places:
    """The places of the records that were read or written last."""

    def __init__(self) -> None:
        self._of_key: OrderedDict[str, Place] = OrderedDict()
        # The thread that reads and the one that writes both note them.
        self._lock = Lock()

    def note(self, key: str, version: Version, record_id: int, log_len: int, *, is_ours: bool = False) -> None:
        """Remember a place, and forget the one that was noted longest ago where there are many."""
        place = Place(version, record_id, log_len, is_ours)
        with self._lock:
            self._of_key[key] = place
            self._of_key.move_to_end(key)
            if len(self._of_key) > _MOST_PLACES:
                self._of_key.popitem(last=False)

    def at(self, key: str, version: Version) -> Place | None:
        """Return the place of a record at a version, None where it is not known."""
        place = self._of_key.get(key)
        return place if place is not None and place.version == version else None


class Step:
    """One write as a common step.

    Args:
        write: What to write.
        expected: The version it goes by.
        ttl_s: How long the record lives.
        tags: As they are stored.
        places: Where rows were seen last.
    """

    __slots__ = ("_before", "_key", "_places", "_ttl_s", "_version", "_where", "append", "expected")

    def __init__(self, write: rules.Write, expected: Version, ttl_s: float, tags: str, places: Places) -> None:
        self._key = write.key
        self._version = Version(expected.generation, expected.number + 1)
        self._ttl_s = ttl_s
        self._places = places
        self._before = (*write.head, len(write.append))
        self._where = (rules.remember("", write.op, self._version), write.key, *expected, tags, write.op or _NO_OP)
        self.expected = expected
        self.append = write.append

    def place(self) -> Place | None:
        """Return where the row was seen at the version, None where it was not."""
        return self._places.at(self._key, self.expected)

    def alone(self, db: sqlite3.Connection, now: float) -> Version | None:
        """Take a step that appends nothing as one statement, outside of a transaction; None where it is none, or was not taken."""
        place = None if self.append else self.place()
        return None if place is None else self._in_place(db, now, place)

    def take(self, db: sqlite3.Connection, now: float) -> Version | None:
        """Take the step within a transaction; None where it was not taken."""
        place = self.place()
        if place is not None:
            version = self._in_place(db, now, place)
            if version is not None:
                append(db, pos(place.record_id, place.log_len), self.append)
            return version
        if not _HAS_RETURNING:
            return None
        rows = db.execute(_ANYWHERE, self._parameters(now)).fetchall()
        if not rows:
            return None
        record_id, log_len = rows[0]
        append(db, pos(record_id, log_len - len(self.append)), self.append)
        self._note(record_id, log_len)
        return self._version

    def _in_place(self, db: sqlite3.Connection, now: float, place: Place) -> Version | None:
        known = (*self._parameters(now), place.record_id, place.log_len)
        if db.execute(_IN_PLACE, known).rowcount != 1:
            return None
        self._note(place.record_id, place.log_len + len(self.append))
        return self._version

    def _parameters(self, now: float) -> tuple[object, ...]:
        ends = now + self._ttl_s
        remembered, key, generation, number, tags, op = self._where
        return (*self._before, ends, remembered, key, generation, number, tags, now, ends, op)

    def _note(self, record_id: int, log_len: int) -> None:
        self._places.note(self._key, self._version, record_id, log_len, is_ours=True)


def step_of(write: rules.Write, places: Places) -> Step | None:
    """Return a write as a common step; None where it is seen from here that it is none."""
    expected, ttl_s = write.expected, write.ttl_s
    if not isinstance(expected, Version) or ttl_s is None or write.tags is None:
        return None
    if write.keep is not None or write.fence is not None:
        return None
    return Step(write, expected, ttl_s, tags_text(write.tags), places)
