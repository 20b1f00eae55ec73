"""Records that begin where another one's log left off: a chain of them, read from the newest to the oldest.

A record names its base in its tags: the base's key, how many of its entries it takes over, and the base's generation. The base
goes on for itself. Whoever cuts a log below what somebody took over first keeps a copy of that part, under a key that follows
from the taker's, so that a copy, where there is one, stands in the base's place.

A store that can follow a chain in one call says so by having `read_chain`; for others it is read record by record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol, runtime_checkable

from holdall.stores.base import Record, Store

BASE: Final = "base"
BASE_AT: Final = "base_at"
BASE_GENERATION: Final = "base_generation"
# Which slots of a Redis server base and copy are in: a script there cannot work out a hash.
_SLOTS: Final = "base_slots"
_KEPT: Final = "~kept/"


class Link(NamedTuple):
    """What a record takes over.

    Attributes:
        base: Key of the base.
        at: It takes the first `at` entries of the base's log, after all that the base itself takes over.
        generation: The base's; a later record under the same key is another one.
    """

    base: str
    at: int
    generation: str


@runtime_checkable
class Chained(Protocol):
    """A store that follows a chain in one call."""

    async def read_chain(self, key: str, *, limit: int) -> list[Record]:
        """Return the record, its base with the entries taken over, and so on, at most `limit` records.

        The last one has a link where the chain goes on but the record that it names is missing, or the limit is reached.
        """
        ...


def kept_key(key: str) -> str:
    """Return the key of the copy of what the record at `key` takes over."""
    return _KEPT + key


def slot_of(key: str) -> str:
    """Return what a Redis server's keys of this record have in braces."""
    return blake2b(key.encode(), digest_size=8).hexdigest()


def link_tags(key: str, link: Link) -> dict[str, str]:
    """Return the tags of a record at `key` that has this link."""
    return {
        BASE: link.base,
        BASE_AT: str(link.at),
        BASE_GENERATION: link.generation,
        _SLOTS: slot_of(link.base) + slot_of(kept_key(key)),
    }


def link_of(tags: Mapping[str, str]) -> Link | None:
    """Return the link that a record's tags hold, None for none."""
    base, at = tags.get(BASE), tags.get(BASE_AT, "")
    if not base or not at.isdecimal():
        return None
    return Link(base, int(at), tags.get(BASE_GENERATION, ""))


def taken(record: Record, at: int) -> Record:
    """Return the record with no more than its first `at` entries."""
    return record if len(record.entries) <= at else replace(record, entries=record.entries[:at])


async def read_chain(store: Store, key: str, *, limit: int) -> list[Record]:
    """Return the record and what it takes over, newest first; empty where there is no such record. See `Chained`."""
    if isinstance(store, Chained):
        return await store.read_chain(key, limit=limit)
    return await walk_chain(store, key, limit=limit)


async def walk_chain(store: Store, key: str, *, limit: int) -> list[Record]:
    """Read a chain record by record."""
    record = await store.read(key)
    chain = []
    while record is not None:
        chain.append(record)
        link = link_of(record.tags)
        if link is None or len(chain) >= limit:
            break
        # The base before the copy: a cut makes the copy first, so that one that is seen here has its copy by now.
        base = await store.read(link.base)
        copy = await store.read(kept_key(record.key))
        after = base if copy is None else copy
        record = None if after is None else taken(after, link.at)
    return chain
