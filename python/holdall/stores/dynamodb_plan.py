"""What one write of `DynamoStore` puts before its head and takes away after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdall.stores import dynamodb_items as items
from holdall.stores import rules
from holdall.stores.base import Blob
from holdall.stores.dynamodb_items import Item, Rest
from holdall.stores.dynamodb_pieces import DynamoPieces, Request

# A head above it lies in parts, so that tags and op_ids beside it still fit its item.
_INLINE_BYTES: Final = 200_000


class Plan:
    """What one write puts before its head, takes back if the head is not put, and takes away after it."""

    def __init__(self, pieces: DynamoPieces, pk: str, key: str) -> None:
        self._pieces, self._pk, self._key = pieces, pk, key
        self.attributes: Item = {}
        self.puts: list[Request] = []
        self.undo: list[Request] = []
        self.after: list[Request] = []

    def put_parts(self, family: str, name: str, data: bytes, attributes: Item) -> int:
        """Stage a chunk or a body; return in how many parts."""
        puts = self._pieces.put_parts(self._pk, family, name, data, self.attributes | attributes)
        self.puts += puts
        self.undo += self._pieces.drop_parts(self._pk, family, name, len(puts))
        return len(puts)

    def put_entries(self, tags: Mapping[str, str], word: str) -> None:
        """Enter the record under its tags."""
        self.puts += self._pieces.put_entries(self._key, tags, word, self.attributes)
        self.undo += self._pieces.drop_entries(self._key, tags, word)

    def drop_parts(self, family: str, name: str, n_parts: int) -> None:
        """Take away a chunk or a body once no head leads to it."""
        self.after += self._pieces.drop_parts(self._pk, family, name, n_parts)

    def drop_old(self, before: rules.Meta, old: Rest, rest: Rest, *, has_head: bool) -> None:
        """Take away what the old head led to and the new one does not."""
        if old.entry and old.entry != rest.entry:
            self.after += self._pieces.drop_entries(self._key, before.tags, old.entry)
        if has_head and old.body and old.body != rest.body:
            self.drop_parts(items.BODIES, old.body, old.n_body)


def with_head(plan: Plan, rest: Rest, head: Blob, word: str) -> tuple[Rest, Item]:
    """Return the attributes of a head: its bytes, or where they lie."""
    if len(head.data) <= _INLINE_BYTES:
        return rest._replace(body="", n_body=0), {"format": {"S": head.format}, "data": {"B": head.data}}
    n_parts = plan.put_parts(items.BODIES, word, head.data, {})
    return rest._replace(body=word, n_body=n_parts), {"format": {"S": head.format}}
