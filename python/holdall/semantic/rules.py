"""What a document, a namespace, a vector and a filter may be, checked before anything reaches a backend.

The rules are the narrowest of all backends, so that what one takes every other takes too.
"""

from __future__ import annotations

import contextlib
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdall.errors import ArgumentError, EncodeError
from holdall.semantic.base import Document, Filter, Value, Vector

MAX_ID_BYTES: Final = 512
MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
MAX_K: Final = 10_000
MAX_DIMS: Final = 65_536
# JSON numbers are doubles on some backends
MAX_INT: Final = 2**53
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# a decade inside what the native search takes
_LEAST_NORM, _MOST_NORM = 1e-17, 1e17
_COMPARISONS: Final = ("gt", "gte", "lt", "lte")


class Row(NamedTuple):
    """A checked document; the vector as little-endian 32-bit floats."""

    id: str
    text: str
    vector: bytes | None
    metadata: dict[str, Value]
    user_id: str | None


class Condition(NamedTuple):
    """One name of a filter: any of some values, or a range."""

    name: str
    any_of: tuple[str | float | bool, ...] | None
    bounds: dict[str, float]


class Where(NamedTuple):
    """Which documents of a namespace are meant."""

    user_id: str | None = None
    conditions: tuple[Condition, ...] = ()


def check_text(what: str, text: object, *, least: int, most: int) -> str:
    """Return `text` if it is a str of `least` to `most` bytes of UTF-8 without NUL, or raise `ArgumentError`."""
    if not isinstance(text, str):
        raise ArgumentError(f"{what} must be a str, not {type(text).__name__}")
    reason = _unkept(text)
    if reason:
        raise ArgumentError(f"{what} {reason}")
    size = len(text.encode())
    if not least <= size <= most:
        raise ArgumentError(f"{what} has {size} bytes of UTF-8; allowed are {least} to {most}")
    return text


def _unkept(text: str) -> str | None:
    if "\0" in text:
        return "holds NUL, which PostgreSQL cannot store"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate, which UTF-8 cannot carry"
    return None


def check_namespace(namespace: object) -> str:
    """Return the namespace."""
    return check_text("namespace", namespace, least=0, most=MAX_ID_BYTES)


def check_user(user_id: object) -> str | None:
    """Return the user's id, None for none."""
    return None if user_id is None else check_text("user_id", user_id, least=1, most=MAX_ID_BYTES)


def check_ids(ids: Iterable[str]) -> list[str]:
    """Return the ids, each once."""
    if isinstance(ids, (str, bytes)):
        raise ArgumentError("ids must be several, such as a list; put the one id into a list")
    return list(dict.fromkeys(check_text("id", one, least=1, most=MAX_ID_BYTES) for one in ids))


def check_k(k: object) -> int:
    """Return how many hits are wanted."""
    if isinstance(k, bool) or not isinstance(k, int):
        raise ArgumentError(f"k must be an int, not {type(k).__name__}")
    if not 1 <= k <= MAX_K:
        raise ArgumentError(f"k is {k}; allowed are 1 to {MAX_K}")
    return k


def check_document(document: object) -> tuple[str, str, bytes | None, dict[str, Value], str | None]:
    """Return the parts of a document, copied."""
    if not isinstance(document, Document):
        raise ArgumentError(f"upsert takes Documents, not {type(document).__name__}")
    name = check_text("id", document.id, least=1, most=MAX_ID_BYTES)
    if not isinstance(document.text, str):
        raise ArgumentError(f"the text of {name!r} must be a str, not {type(document.text).__name__}")
    reason = _unkept(document.text)
    if reason is None and len(document.text.encode()) > MAX_TEXT_BYTES:
        reason = f"has more than {MAX_TEXT_BYTES} bytes"
    if reason:
        raise EncodeError(f"the text of {name!r} {reason}", path="text", reason=reason)
    vector = None if document.vector is None else to_bytes(document.vector)
    return name, document.text, vector, check_metadata(name, document.metadata), check_user(document.user_id)


def check_metadata(of: str, metadata: Mapping[str, Value]) -> dict[str, Value]:
    """Return a copy of metadata that every backend can keep and give back equal."""
    if not isinstance(metadata, Mapping):
        raise ArgumentError(f"the metadata of {of!r} must be a mapping, not {type(metadata).__name__}")
    kept: dict[str, Value] = {}
    for name, value in metadata.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ArgumentError(
                f"{name!r} is no name for metadata: 1 to 64 ASCII letters, digits, '_' or '-', the first a letter or digit"
            )
        reason = _unkept_value(value)
        if reason:
            path = f"metadata.{name}"
            raise EncodeError(f"{path} of {of!r} {reason}", path=path, reason=reason)
        kept[name] = list(value) if isinstance(value, (list, tuple)) else value
    return kept


def _unkept_value(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _unkept(value)
    if isinstance(value, int):
        return None if abs(value) <= MAX_INT else "is beyond 2**53, which JSON numbers lose; keep it as text"
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not finite"
    if isinstance(value, (list, tuple)):
        if all(isinstance(one, str) for one in value):
            return next((reason for reason in map(_unkept, value) if reason), None)
        return "is a list of other things than text"
    return f"is of {type(value).__name__}; kept are text, numbers, booleans and lists of text"


def to_bytes(vector: Vector) -> bytes:
    """Return a vector as little-endian 32-bit floats."""
    values: Any = vector
    with contextlib.suppress(TypeError):  # no buffer: a list, a tuple, an iterator
        values = memoryview(values).tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f"a vector must be floats, not {type(vector).__name__}")
    floats = list(values)
    if not 1 <= len(floats) <= MAX_DIMS:
        raise ArgumentError(f"a vector has {len(floats)} floats; allowed are 1 to {MAX_DIMS}")
    try:
        data = struct.pack(f"<{len(floats)}f", *floats)
        norm = math.hypot(*to_floats(data))
    except (struct.error, TypeError, OverflowError, ValueError) as error:
        raise ArgumentError(f"a vector must be a row of floats that 32 bits can hold: {error}") from None
    if not _LEAST_NORM <= norm <= _MOST_NORM:
        raise ArgumentError(
            f"a vector has the norm {norm}; give finite floats that are not all 0,"
            f" with a norm of {_LEAST_NORM} to {_MOST_NORM}"
        )
    return data


def to_floats(data: bytes) -> list[float]:
    """Return the floats of a vector's bytes."""
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def check_where(user_id: object, conditions: Filter | None) -> Where:
    """Return a filter in one form."""
    if conditions is None:
        return Where(check_user(user_id))
    if not isinstance(conditions, Mapping):
        raise ArgumentError(f"filter must be a mapping of names to conditions, not {type(conditions).__name__}")
    return Where(check_user(user_id), tuple(_condition(name, wanted) for name, wanted in conditions.items()))


def _condition(name: object, wanted: Any) -> Condition:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ArgumentError(f"filter names {name!r}, which no metadata can have")
    if isinstance(wanted, Mapping):
        if not wanted or not set(wanted) <= set(_COMPARISONS):
            raise ArgumentError(f"filter[{name!r}] is {wanted!r}; a range takes {', '.join(_COMPARISONS)}")
        return Condition(name, None, {how: _number(name, bound) for how, bound in wanted.items()})
    several = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else (wanted,)
    return Condition(name, tuple(_scalar(name, one) for one in several), {})


def _number(name: str, bound: object) -> float:
    # JSON, which some backends speak, has no infinity; and no number that is kept lies beyond 2**53
    if isinstance(bound, (int, float)) and not isinstance(bound, bool):
        is_kept = abs(bound) <= MAX_INT if isinstance(bound, int) else math.isfinite(bound)
        if is_kept:
            return bound
    raise ArgumentError(
        f"filter[{name!r}] compares with {repr(bound)[:40]}; a range takes finite numbers, ints within 2**53"
    )


def _scalar(name: str, value: Any) -> str | float | bool:
    reason = None if not isinstance(value, (list, tuple)) else "is a list in a list"
    reason = reason or _unkept_value(value)
    if reason:
        raise ArgumentError(f"filter[{name!r}]: {value!r} {reason}")
    scalar: str | float | bool = value
    return scalar


def whole(dims: int | None, rows: Sequence[Row]) -> int | None:
    """Return the length of the rows' vectors, which must be one and, where `dims` is known, that.

    Raises:
        ArgumentError: Two lengths.
    """
    for row in rows:
        if row.vector is not None:
            dims = len(row.vector) // 4 if dims is None else dims
            if len(row.vector) != 4 * dims:
                raise ArgumentError(
                    f"the vector of {row.id!r} has {len(row.vector) // 4} floats; those of its namespace have {dims}"
                )
    return dims
