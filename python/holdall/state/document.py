"""Between a document, a plain dict of a state's fields, and a `SessionState`.

In a document that holds the whole state, `messages` and `step_results` (pairs of step and result) are lists, and
`_order` says how they were interleaved: so many messages, so many results, so many messages, and so on.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from holdall._native import msgpack_decode, msgpack_encode
from holdall.errors import ArgumentError, DecodeError
from holdall.state.messages import MESSAGE, STEP_RESULT, Item
from holdall.state.session import HEAD_FIELDS, SessionState

# Read-only where a document is read: what stands in the log, and the value of an entry.
FROZEN_FIELDS = ("messages", "step_results", "value")
_EXTRA_FIELDS = frozenset({"_version", "_order", "version", "messages", "step_results"})
_PAIR = 2


def _bad(reason: str) -> DecodeError:
    return DecodeError(f"a stored state whose {reason}", offset=0, reason=reason)


def log_fields(state: SessionState) -> dict[str, Any]:
    """Return the fields of a whole document that hold the log."""
    items = state.log.items
    fields: dict[str, Any] = {
        MESSAGE + "s": [item.value for item in items if item.kind == MESSAGE],
        STEP_RESULT + "s": [item.value for item in items if item.kind == STEP_RESULT],
    }
    runs = [(kind, len(list(run))) for kind, run in groupby(item.kind for item in items)]
    if len(runs) > 1:
        fields["_order"] = [0, *(n for _, n in runs)] if runs[0][0] == STEP_RESULT else [n for _, n in runs]
    return fields


def items_of(document: dict[str, Any]) -> list[Item]:
    """Return the log that stands in a document, in order; empty where it holds none."""
    messages = document.get("messages", ())
    results = document.get("step_results", ())
    if not messages and not results:
        return []
    if isinstance(results, dict):
        results = [[step, result] for step, result in results.items()]
    for name, values in (("messages", messages), ("step_results", results)):
        if not isinstance(values, (list, tuple)):
            raise _bad(f"{name} are a {type(values).__name__}")
    order = document.get("_order", [len(messages), len(results)])
    if not isinstance(order, list) or not all(type(n) is int and n >= 0 for n in order):
        raise _bad("_order is not a list of counts")
    if (sum(order[::2]), sum(order[1::2])) != (len(messages), len(results)):
        raise _bad("_order does not count its messages and step_results")
    items: list[Item] = []
    left = (iter(messages), iter(results))
    for n, count in enumerate(order):
        kind = (MESSAGE, STEP_RESULT)[n % 2]
        items.extend(stored_item(kind, next(left[n % 2])) for _ in range(count))
    return items


def stored_item(kind: str, value: Any) -> Item:
    """Return the item of a value that was read, made read-only where it is not."""
    if kind == STEP_RESULT and not (isinstance(value, list) and len(value) == _PAIR and type(value[0]) in (int, str)):
        raise _bad("step_results are not pairs of a step, an int or a str, and its result")
    return Item(kind, value, None, -1)


def freeze(value: Any) -> Any:
    """Return a read-only copy."""
    return msgpack_decode(msgpack_encode(value), frozen=True)


def state_of(document: dict[str, Any]) -> SessionState:
    """Return the state whose fields stand in a document of the current version, without its log.

    Raises:
        DecodeError: A field is missing, unknown, or of a type that it cannot have.
    """
    unknown = [name for name in document if name not in HEAD_FIELDS and name not in _EXTRA_FIELDS]
    if unknown:
        raise _bad(f"field {unknown[0]!r} is not known to this version")
    fields: dict[str, Any] = {"session_id": None, "user_id": None}
    fields.update((name, document[name]) for name in HEAD_FIELDS if name in document)
    try:
        state = SessionState(**fields)
        check_types(state)
    except ArgumentError as exc:
        raise _bad(f"field is wrong: {exc}") from exc
    version = document.get("version", 0)
    if type(version) is not int:
        raise _bad(f"version is a {type(version).__name__}")
    state.version = version
    return state


_TYPES: dict[str, tuple[type, ...]] = {
    "status": (str,),
    "metadata": (dict,),
    "ttl_seconds": (int, float, type(None)),
}


def check_types(state: SessionState) -> None:
    """Check the fields that stores and queries rely on.

    Raises:
        ArgumentError: One has another type.
    """
    for name, kinds in _TYPES.items():
        if type(getattr(state, name)) not in kinds:
            known = " or ".join(kind.__name__ for kind in kinds)
            raise ArgumentError(f"{name} must be {known}, not {type(getattr(state, name)).__name__}")
