"""Which documents meet a filter: an index of metadata, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from holdall.semantic.base import Value
from holdall.semantic.rules import Condition, Where

_USER = ("user", "")


class Facts:
    """Rows by user and by each value of their metadata."""

    def __init__(self) -> None:
        """Know nothing."""
        self._rows: dict[tuple[str, str], dict[Any, set[int]]] = defaultdict(dict)

    def add(self, row: int, user_id: str | None, metadata: Mapping[str, Value]) -> None:
        """Learn what is true of a row."""
        for place, key in _facts(user_id, metadata):
            self._rows[place].setdefault(key, set()).add(row)

    def remove(self, row: int, user_id: str | None, metadata: Mapping[str, Value]) -> None:
        """Forget a row, of which this was true."""
        for place, key in _facts(user_id, metadata):
            rows = self._rows[place]
            rows[key].discard(row)
            if not rows[key]:
                del rows[key]

    def meeting(self, where: Where) -> list[int] | None:
        """Return the rows that meet it, ascending; None where all do."""
        sets = [] if where.user_id is None else [self._rows[_USER].get(where.user_id, set())]
        sets.extend(self._of(condition) for condition in where.conditions)
        if not sets:
            return None
        # the smallest first: what it lacks need not be looked up in the others
        sets.sort(key=len)
        return sorted(sets[0].intersection(*sets[1:]))

    def _of(self, condition: Condition) -> set[int]:
        values = self._rows[("metadata", condition.name)]
        if condition.any_of is not None:
            return set().union(*(values.get(_key(value), set()) for value in condition.any_of))
        return set().union(*(rows for key, rows in values.items() if _is_within(key, condition.bounds)))


def _facts(user_id: str | None, metadata: Mapping[str, Value]) -> Iterable[tuple[tuple[str, str], Any]]:
    if user_id is not None:
        yield _USER, user_id
    for name, value in metadata.items():
        # a set: a list may name a value twice
        for key in {_key(one) for one in value} if isinstance(value, list) else {_key(value)}:
            yield ("metadata", name), key


def _key(value: object) -> tuple[str, object]:
    # True is 1 to a dict, and not to a filter
    return type(value).__name__ if isinstance(value, (bool, str)) else "number", value


def _is_within(key: tuple[str, Any], bounds: Mapping[str, float]) -> bool:
    kind, value = key
    return (
        kind == "number"
        and ("gt" not in bounds or value > bounds["gt"])
        and ("gte" not in bounds or value >= bounds["gte"])
        and ("lt" not in bounds or value < bounds["lt"])
        and ("lte" not in bounds or value <= bounds["lte"])
    )
