"""The JSON form: plain JSON where JSON says the same, a tag where it does not.

It survives PostgreSQL's JSONB, which refuses NUL and lone surrogates, sorts keys by length and bytes, and keeps numbers as
decimals (1e16 comes back as an int, -0.0 as 0.0). A tag is an object with one key that begins with "$":

    {"$float": "nan"}                   what a JSON number would not keep: NaN, infinities, -0.0, exponents
    {"$int": "-0x40..."}                beyond 64 bits, hexadecimal
    {"$text": "<base64>"}               a str with NUL or lone surrogates, UTF-8 with surrogates as three bytes
    {"$bytes": "<base64>"}
    {"$tuple": [...]} {"$set": [...]} {"$frozenset": [...]}
    {"$map": [[key, value], ...]}       a dict with a key that is no str, or begins with "$", or has NUL or surrogates
    {"$decimal": "1.10"} {"$uuid": "..."} {"$date": "..."} {"$datetime": "..."}
    {"$ext": [code, "<base64>"]}        the rest, by the extension codes of the MessagePack form

An object whose keys do not stand in JSONB's order has one key more, "$keys", that lists them in theirs. A caller's dict that
looks like a tag has a key that begins with "$", and is written as a "$map": it can never be taken for one.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from holdall._native import json_depth, msgpack_encode
from holdall.errors import DecodeError, EncodeError
from holdall.state.document import FROZEN_FIELDS, freeze
from holdall.state.values import (
    DECIMAL,
    UUID_,
    ReadOnlyDict,
    ReadOnlyList,
    ReadOnlySet,
    check_keys,
    pack_extra,
    unpack_extra,
)

# Below what Python's parser, and a thread with a small stack, can take.
MAX_DEPTH: Final = 200
# What the tags of the innermost value add: a $map is three deep, and its values may be an $ext.
_TAG_DEPTH: Final = 5
_MAX_INT: Final = 2**63 - 1
_MAX_INT_DIGITS: Final = 20
_NO_JSONB_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_NAN_BITS: Final = struct.pack(">d", float("nan"))
_PAIR: Final = 2

Path = tuple[Any, ...]


def dumps(document: dict[str, Any]) -> bytes:
    """Return a document, whose top-level keys are ours, as JSON in UTF-8.

    Raises:
        EncodeError: A value cannot be stored, or nests deeper than `MAX_DEPTH`.
    """
    msgpack_encode(document)  # names the path of what no format can hold
    plain = {name: _plain(value, (name, ()), 1) for name, value in document.items()}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def loads(data: bytes) -> dict[str, Any]:
    """Return the document that `dumps` wrote, its log read-only.

    Raises:
        DecodeError: It is not JSON, has keys twice, nests too deep, or holds a tag that is not ours.
    """
    if json_depth(data) > MAX_DEPTH + _TAG_DEPTH:
        raise _bad(f"nested deeper than {MAX_DEPTH}")
    try:
        document = json.loads(data.decode(), object_pairs_hook=_object, parse_int=_int, parse_constant=_constant)
    except json.JSONDecodeError as exc:
        offset = len(exc.doc[: exc.pos].encode("utf-8", "surrogatepass"))
        raise DecodeError(f"not JSON: {exc.msg} (at byte {offset})", offset=offset, reason=exc.msg) from None
    except UnicodeDecodeError as exc:
        raise DecodeError(f"not UTF-8 (at byte {exc.start})", offset=exc.start, reason="not UTF-8") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as exc:
        if isinstance(exc, DecodeError):
            raise
        raise _bad(str(exc)) from exc
    if type(document) is not dict:
        raise _bad("a document that is not an object")
    for name in FROZEN_FIELDS:
        if name in document:
            document[name] = freeze(document[name])
    return document


def _bad(reason: str) -> DecodeError:
    return DecodeError(f"JSON that holdall did not write: {reason}", offset=0, reason=reason)


def _path(path: Path) -> str:
    parts: list[str] = []
    while path:
        part, path = path
        parts.append(f"[{part}]" if type(part) is int else f".{part}")
    return "".join(reversed(parts)).lstrip(".")


def _plain(value: Any, path: Path, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return value if _NO_JSONB_TEXT.search(value) is None else {"$text": _text(value)}
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if -_MAX_INT <= value <= _MAX_INT else {"$int": hex(value)}
    if kind is float:
        return _float(value)
    if kind not in _CONTAINERS:
        return _rare(value)
    if depth >= MAX_DEPTH:
        where = _path(path)
        reason = f"is nested deeper than {MAX_DEPTH}, the limit of the JSON form"
        raise EncodeError(f"{where} {reason}", path=where, reason=reason)
    if kind in (dict, ReadOnlyDict):
        return _dict(value, path, depth)
    if kind in (list, ReadOnlyList):
        return _list(value, path, depth)
    return {_CONTAINERS[kind]: _list(value, path, depth + 1)}


def _list(values: Iterable[Any], path: Path, depth: int) -> list[Any]:
    return [_plain(item, (n, path), depth + 1) for n, item in enumerate(values)]


def _dict(value: dict[Any, Any], path: Path, depth: int) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") and _NO_JSONB_TEXT.search(key) is None for key in value):
        plain = {key: _plain(item, (key, path), depth + 1) for key, item in value.items()}
        keys = list(value)
        if len(keys) > 1 and keys != sorted(keys, key=_jsonb_order):
            plain["$keys"] = keys
        return plain
    return {
        "$map": [
            [_plain(key, (n, path), depth + 3), _plain(item, (n, path), depth + 3)]
            for n, (key, item) in enumerate(value.items())
        ]
    }


def _jsonb_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def _float(value: float) -> Any:
    text = repr(value)
    if text == "nan":
        bits = struct.pack(">d", value)
        return {"$float": text if bits == _NAN_BITS else "nan:" + bits.hex()}
    # An exponent is spelt out by JSONB, which makes an int of 1e16; -0.0 loses its sign.
    return {"$float": text} if "e" in text or "n" in text or text == "-0.0" else value


def _text(value: str) -> str:
    return _base64(value.encode("utf-8", "surrogatepass"))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _rare(value: Any) -> dict[str, Any]:
    kind = type(value)
    if kind is bytes:
        return {"$bytes": _base64(value)}
    if kind is Decimal:
        return {"$decimal": str(value)}
    if kind is UUID:
        return {"$uuid": str(value)}
    if kind is date:
        return {"$date": value.isoformat()}
    if kind is datetime and value.fold == 0 and (value.tzinfo is None or value.tzinfo is timezone.utc):
        return {"$datetime": value.isoformat()}
    code, body = pack_extra(value)
    return {"$ext": [code, _base64(body)]}


def _int(text: str) -> int:
    # Reading digits takes quadratic time; we write none longer than this.
    if len(text) > _MAX_INT_DIGITS:
        raise _bad(f"an integer of {len(text)} digits")
    return int(text)


def _constant(text: str) -> Any:
    raise _bad(f"the bare word {text}")


def _object(pairs: list[tuple[str, Any]]) -> Any:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise _bad("a key stands twice")
    if not any(key.startswith("$") for key in plain):
        return plain
    if "$keys" in plain:
        keys = plain.pop("$keys")
        if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(plain):
            raise _bad("$keys that are not those of their object")
        return {key: plain[key] for key in keys}
    if len(plain) == 1:
        ((tag, body),) = plain.items()
        read = _TAGS.get(tag)
        if read is not None:
            return read(body)
    raise _bad(f"the tag {min(plain)!r}, which is not ours")


def _of(kind: type, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def check(body: Any) -> Any:
        if type(body) is not kind:
            raise _bad(f"a tag on a {type(body).__name__}")
        return read(body)

    return check


def _read_float(text: str) -> float:
    if text.startswith("nan:"):
        (value,) = struct.unpack(">d", bytes.fromhex(text[4:]))
        if value == value:  # noqa: PLR0124 - only NaN differs from itself
            raise _bad("a NaN that is a number")
        return float(value)
    return float(text)


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise _bad(f"base64 that is not: {exc}") from exc


def _read_set(kind: type[set[Any] | frozenset[Any]]) -> Callable[[list[Any]], Any]:
    def read(items: list[Any]) -> Any:
        check_keys(items)
        found = kind(items)
        if len(found) != len(items):
            raise _bad("an element of a set stands twice")
        return found

    return read


def _read_map(pairs: list[Any]) -> dict[Any, Any]:
    if not all(type(pair) is list and len(pair) == _PAIR for pair in pairs):
        raise _bad("a $map that is not pairs")
    check_keys(pair[0] for pair in pairs)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _bad("a key stands twice")
    return found


def _read_ext(pair: list[Any]) -> Any:
    if len(pair) != _PAIR or type(pair[0]) is not int or type(pair[1]) is not str:
        raise _bad("an $ext that is not a code and its bytes")
    return unpack_extra(pair[0], _read_base64(pair[1]), False)  # noqa: FBT003 - frozen later, with the rest


# With the tag of those that are not plain JSON.
_CONTAINERS: Final[dict[type, str]] = {
    dict: "",
    ReadOnlyDict: "",
    list: "",
    ReadOnlyList: "",
    tuple: "$tuple",
    set: "$set",
    ReadOnlySet: "$set",
    frozenset: "$frozenset",
}

_TAGS: Final[dict[str, Callable[[Any], Any]]] = {
    "$float": _of(str, _read_float),
    "$int": _of(str, lambda text: int(text, 16)),
    "$text": _of(str, lambda text: _read_base64(text).decode("utf-8", "surrogatepass")),
    "$bytes": _of(str, _read_base64),
    "$tuple": _of(list, tuple),
    "$set": _of(list, _read_set(set)),
    "$frozenset": _of(list, _read_set(frozenset)),
    "$map": _of(list, _read_map),
    "$decimal": _of(str, lambda text: unpack_extra(DECIMAL, text.encode("ascii"), False)),  # noqa: FBT003
    "$uuid": _of(str, lambda text: unpack_extra(UUID_, bytes.fromhex(text.replace("-", "")), False)),  # noqa: FBT003
    "$date": _of(str, date.fromisoformat),
    "$datetime": _of(str, datetime.fromisoformat),
    "$ext": _of(list, _read_ext),
}
