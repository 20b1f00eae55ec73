"""Filters of a semantic memory, and a plain reading of what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdall.semantic.base import Filter, Value

PEOPLE: Final[dict[str, dict[str, Value]]] = {
    "ann": {"age": 30, "city": "Lisbon", "is-new": True, "tags": ["a", "b"], "score": 0.5},
    "bob": {"age": 41, "city": "Porto", "is-new": False, "tags": ["b"], "score": 1.0},
    "cat": {"age": 30.5, "city": "lisbon", "tags": [], "score": 1},
    "dan": {"age": "30", "city": "Lisbon and Porto", "is-new": 1},
    "eve": {},
}

FILTERS: Final[list[Filter]] = [
    {},
    {"city": "Lisbon"},
    {"city": ["Lisbon", "Porto", "Faro"]},
    {"city": []},
    {"age": 30},
    {"age": "30"},
    {"age": [30, "30"]},
    {"age": {"gte": 30, "lt": 41}},
    {"age": {"gt": 30}},
    {"age": {"lte": 41, "gt": -1e9}},
    {"score": 1},
    {"score": {"lte": 0.5}},
    {"is-new": True},
    {"is-new": False},
    {"is-new": 1},
    {"is-new": [True, False]},
    {"tags": "b"},
    {"tags": ["a", "z"]},
    {"city": "Lisbon", "tags": "b"},
    {"city": "Lisbon", "age": {"gt": 35}},
    {"absent": "x"},
]


def meets(facts: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether metadata meets a filter."""
    return all(_holds(facts.get(name), wanted) for name, wanted in conditions.items())


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return all(_compared(how, value, bound) for how, bound in wanted.items())
    several = wanted if isinstance(wanted, list) else [wanted]
    values = value if isinstance(value, list) else [] if value is None else [value]
    return any(isinstance(a, bool) == isinstance(b, bool) and a == b for a in values for b in several)


def _compared(how: str, value: float, bound: float) -> bool:
    if how in ("gt", "gte"):
        return value > bound or (how == "gte" and value == bound)
    return value < bound or (how == "lte" and value == bound)
