"""The tag index of `RedisStore`: sorted sets in slots of their own, which name too much at times and never too little.

An index cannot change in one step with a record that lives on another node, so order does it. Entries are written before the
record that they are for, and each has a score that says until when it surely stands; a record remembers that guarantee and
never outlives it. Who finds an entry whose record does not carry the tag removes it in three steps: note its score; have the
record's own node confirm and draw a new epoch for the record; remove the entry if its score is still the one noted. A writer
whose entry was seen but whose record came after the confirmation is refused by the epoch and enters it again, with another
score. So no order of the two loses an entry. Clocks decide only what is pruned unseen, with an hour
to spare between nodes.

Where writes wait for replicas, an entry waits for those of its node before the record is written, and so does the epoch before
an entry is removed: else a failover in between takes either back, and leaves a record that is not found.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from holdall.stores import lost
from holdall.stores.redis_link import BACKEND, RedisLink

# A score is until_s * _NONCES + nonce: 34 bits of seconds and 18 of nonce are exact in a double.
_NONCES = 2**18
NEVER_S = 2**34 - 1
# Clocks of nodes may differ by this much before an entry is pruned that its record still needs.
_SKEW_S = 3600
# An entry stands this much longer than its record, so that a sliding expiry rewrites it seldom.
_LEAST_LEAD_S = 3600
_EPOCH_TTL_MS = 24 * 3600 * 1000
_PAGE = 500
# One find removes at most this many entries of others: the next one does the rest.
_DROPPED_PER_FIND = 200


class RedisIndex:
    """Enters, finds and removes keys under tags."""

    def __init__(self, link: RedisLink, namespace: bytes, *, wait_replicas: int) -> None:
        """Remember where, and how many replicas must have what is entered."""
        self._link = link
        self._namespace = namespace
        self._wait_replicas = wait_replicas

    def slot_keys(self, key: str) -> tuple[bytes, bytes, bytes]:
        """Return head, log and epoch of a record: one hash tag, drawn from the key, so that braces in it mean nothing."""
        raw = key.encode()
        prefix = b"%b:{%b}:" % (self._namespace, blake2b(raw, digest_size=8).hexdigest().encode())
        return prefix + b"h:" + raw, prefix + b"l:" + raw, prefix + b"e:" + raw

    def index_key(self, name: str, value: str) -> bytes:
        """Return the sorted set of a tag."""
        digest = blake2b(f"{name}\0{value}".encode(), digest_size=16).hexdigest()
        return b"%b:i:%b" % (self._namespace, digest.encode())

    def beside(self, key: bytes) -> bytes:
        """Return a key in the slot of a head or of a sorted set, for what is written so that replicas are waited for."""
        tagged, closes, _ = key.partition(b"}")
        return tagged + closes + b":w" if closes else b"%b:{%b}:w" % (self._namespace, key)

    async def _run(self, name: str, slot_keys: Sequence[bytes], args: Sequence[Any]) -> tuple[Any, int]:
        """Call a script; return its reply and how many replicas have what it did, as far as that is asked for."""
        if not self._wait_replicas:
            return await self._link.run(name, slot_keys, args), 0
        return await self._link.run_and_wait(
            name, slot_keys, args, replicas=self._wait_replicas, mark=self.beside(slot_keys[0])
        )

    async def add(self, key: str, tags: Mapping[str, str], ends_ms: int | None, ttl_s: float | None) -> str:
        """Enter a key under its tags; return the guarantee for the record, "inf" or milliseconds.

        Raises:
            StoreBusyError: Too few replicas have an entry.
        """
        until_s = NEVER_S if ends_ms is None or ttl_s is None else int(ends_ms / 1000 + max(2 * ttl_s, _LEAST_LEAD_S))
        until_s = min(until_s, NEVER_S)
        entered = await asyncio.gather(
            *(
                self._run(
                    "index_add",
                    [self.index_key(name, value)],
                    [key.encode(), until_s, secrets.randbelow(_NONCES - 1), NEVER_S, _SKEW_S, _NONCES],
                )
                for name, value in tags.items()
            )
        )
        n = min((n for _, n in entered), default=self._wait_replicas)
        if n < self._wait_replicas:
            said = f"{n} of {self._wait_replicas} replicas have the entry by which it is found"
            raise lost.busy(BACKEND, "index", said, cause="too few replicas")
        return "inf" if until_s == NEVER_S else str(until_s * 1000)

    async def drop(self, key: str, tags: Mapping[str, str]) -> None:
        """Remove a key from under tags that its record no longer carries."""
        for name, value in tags.items():
            score = await self._link.client.zscore(self.index_key(name, value), key.encode())
            if score is not None:
                await self._drop_seen(key, name, value, float(score))

    async def _drop_seen(self, key: str, name: str, value: str, score: float) -> None:
        head, _, epoch = self.slot_keys(key)
        args = [name, value, secrets.token_hex(8), _EPOCH_TTL_MS]
        is_nobodys, n = await self._run("unindex", [head, epoch], args)
        if is_nobodys and n >= self._wait_replicas:
            await self._link.run("index_drop", [self.index_key(name, value)], [key.encode(), f"{score:.0f}"])

    async def find(self, wanted: Mapping[str, str]) -> AsyncIterator[str]:
        """Yield the keys under all tags, each checked against its record."""
        (name, value), index = await self._shortest(wanted)
        seen: set[bytes] = set()
        n_dropped = 0
        cursor: Any = None
        while cursor != 0:
            cursor, page = await self._scan(index, cursor or 0)
            fresh = {member: score for member, score in page if member not in seen}
            seen |= fresh.keys()
            held = await self.tags_of(list(fresh))
            for (member, score), tags in zip(fresh.items(), held, strict=True):
                key = member.decode()
                if tags is not None and wanted.items() <= tags.items():
                    yield key
                elif (tags is None or tags.get(name) != value) and n_dropped < _DROPPED_PER_FIND:
                    n_dropped += 1
                    await self._link.call(
                        "find",
                        lambda key=key, score=score: self._drop_seen(key, name, value, float(score)),  # type: ignore[misc]
                        is_repeatable=True,
                    )

    async def _shortest(self, wanted: Mapping[str, str]) -> tuple[tuple[str, str], bytes]:
        async def size(tag: tuple[str, str]) -> int:
            return int(
                await self._link.call("find", lambda: self._link.client.zcard(self.index_key(*tag)), is_repeatable=True)
            )

        tags = list(wanted.items())
        if len(tags) == 1:
            return tags[0], self.index_key(*tags[0])
        sizes = await asyncio.gather(*(size(tag) for tag in tags))
        tag = tags[sizes.index(min(sizes))]
        return tag, self.index_key(*tag)

    async def _scan(self, index: bytes, cursor: int) -> tuple[int, list[tuple[bytes, float]]]:
        return await self._link.call(
            "find", lambda: self._link.client.zscan(index, cursor=cursor, count=_PAGE), is_repeatable=True
        )

    async def tags_of(self, members: Sequence[bytes]) -> list[dict[str, str] | None]:
        """Return the tags of each record, None where there is none."""
        if not members:
            return []

        async def work() -> list[Any]:
            pipe = self._link.client.pipeline(transaction=False)
            for member in members:
                pipe.hmget(self.slot_keys(member.decode())[0], "t", "D")
            replies: list[Any] = await pipe.execute()
            return replies

        held = await self._link.call("find", work, is_repeatable=True)
        return [None if tags is None or is_deleted is not None else json.loads(tags) for tags, is_deleted in held]

    async def every(self) -> AsyncIterator[str]:
        """Yield the keys of all live records, by walking the server's own keys."""
        escaped = b"".join(b"\\" + bytes([c]) if c in b"*?[]\\" else bytes([c]) for c in self._namespace)
        marker = len(self._namespace) + len(b":{0123456789abcdef}:h:")
        seen: set[bytes] = set()
        page: list[bytes] = []

        async def live(page: list[bytes]) -> list[str]:
            held = await self.tags_of(page)
            return [member.decode() for member, tags in zip(page, held, strict=True) if tags is not None]

        names = self._link.client.scan_iter(match=escaped + b":{*}:h:*", count=_PAGE)
        async for name in self._link.walk(names):
            member = bytes(name[marker:])
            if member in seen:
                continue
            seen.add(member)
            page.append(member)
            if len(page) >= _PAGE:
                for key in await live(page):
                    yield key
                page = []
        for key in await live(page):
            yield key
