"""Between a document, a plain dict of a state's fields, and a `SessionState`.

In a document that holds the whole state, `messages` and `step_results` (pairs of step and result) are lists, and
`_order` has one byte per entry, 0 for a message and 1 for a result, where they are interleaved.
"""

from __future__ import annotations

from typing import Any

from holdall._native import msgpack_decode, msgpack_encode
from holdall.errors import ArgumentError, DecodeError
from holdall.state.log import IS_MESSAGE, IS_RESULT, Items
from holdall.state.session import HEAD_FIELDS, SessionState, check_id

# Read-only where a document is read: what stands in the log, and the value of an entry.
FROZEN_FIELDS = ("messages", "step_results", "value")
_EXTRA_FIELDS = frozenset({"_version", "_order", "version", "messages", "step_results"})
_PAIR = 2
_STEP_TYPES = (int, str)


def _bad(reason: str) -> DecodeError:
    return DecodeError(f"a stored state whose {reason}", offset=0, reason=reason)


def log_fields(state: SessionState) -> dict[str, Any]:
    """Return the fields of a whole document that hold the log."""
    log = state.log
    fields: dict[str, Any] = {"messages": log.messages[:], "step_results": log.pairs[:]}
    order = log.order
    if order is not None:
        fields["_order"] = order
    return fields


def items_of(document: dict[str, Any]) -> Items:
    """Return the log that stands in a document, in order.

    Raises:
        DecodeError: Its fields are no log.
    """
    messages = document.get("messages", [])
    pairs = document.get("step_results", [])
    if isinstance(pairs, dict):
        pairs = [[step, result] for step, result in pairs.items()]
    for name, values in (("messages", messages), ("step_results", pairs)):
        if not isinstance(values, list):
            raise _bad(f"{name} are a {type(values).__name__}")
    for pair in pairs:
        check_pair(pair)
    kinds = document.get("_order")
    if kinds is None:
        kinds = bytes(len(messages)) + bytes([IS_RESULT]) * len(pairs)
    if not _is_order(kinds, len(messages), len(pairs)):
        raise _bad("_order is not that of its messages and step_results")
    return Items(kinds, messages, pairs)


def _is_order(order: object, n_messages: int, n_pairs: int) -> bool:
    return (
        type(order) is bytes
        and len(order) == n_messages + n_pairs
        and order.count(IS_MESSAGE) == n_messages
        and order.count(IS_RESULT) == n_pairs
    )


def check_pair(pair: Any) -> None:
    """Check a step result as it is stored.

    Raises:
        DecodeError: It is not a step and a result.
    """
    if not (isinstance(pair, list) and len(pair) == _PAIR and type(pair[0]) in _STEP_TYPES):
        raise _bad("step_results are not pairs of a step, an int or a str, and its result")


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
        if len(fields) == len(HEAD_FIELDS):
            check_id("session_id", fields["session_id"])
            check_id("user_id", fields["user_id"])
            check_types(fields)
            state = SessionState.of_fields(fields)
        else:
            state = SessionState(**fields)
            check_types(vars(state))
    except ArgumentError as exc:
        raise _bad(f"field is wrong: {exc}") from exc
    version = document.get("version", 0)
    if type(version) is not int:
        raise _bad(f"version is a {type(version).__name__}")
    state.version = version
    return state


_TTLS = (int, float, type(None))


def check_types(fields: dict[str, Any]) -> None:
    """Check the fields that stores and queries rely on.

    Raises:
        ArgumentError: One has another type.
    """
    if type(fields["status"]) is str and type(fields["metadata"]) is dict and type(fields["ttl_seconds"]) in _TTLS:
        return
    for name, kinds in _TYPES.items():
        if type(fields[name]) not in kinds:
            known = " or ".join(kind.__name__ for kind in kinds)
            raise ArgumentError(f"{name} must be {known}, not {type(fields[name]).__name__}")


_TYPES: dict[str, tuple[type, ...]] = {
    "status": (str,),
    "metadata": (dict,),
    "ttl_seconds": _TTLS,
}
