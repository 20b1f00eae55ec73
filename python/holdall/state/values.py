"""Values: the read-only containers that logged messages are made of, and the forms of what MessagePack lacks.

`_native.msgpack_encode` and `msgpack_decode` do what is frequent themselves and call `pack_extra` and `unpack_extra`
for the rest. Only exact types are taken: a subclass would come back as something else.
"""

from __future__ import annotations

import array
import importlib
import struct
import sys
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NoReturn
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdall._native import MSGPACK_MAX_UNSALTED_KEYS, keys_collide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The table of all codes is in rust/msgpack/marker.rs. Codes are never reused.
BIGINT: Final = 1
SURROGATES: Final = 2
DATETIME: Final = 6
DATE: Final = 7
TIME: Final = 8
TIMEDELTA: Final = 9
DECIMAL: Final = 10
UUID_: Final = 11
BYTEARRAY: Final = 12
ARRAY: Final = 15
NDARRAY: Final = 16

_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBIB")
_TIMEDELTA = struct.Struct(">iII")
_OFFSET = struct.Struct(">q")
_SHAPE_ITEM = struct.Struct(">Q")
_NDARRAY_KINDS: Final = frozenset("biufc")
_MAX_NDARRAY_DIMENSIONS: Final = 32
_SMALLEST_BIGINT_BYTES: Final = 8


def _refuse(self: Any, *_args: Any, **_kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__} is read-only: a logged message is edited by assignment, "
        "state.messages[i] = {**state.messages[i], ...}"
    )


class ReadOnlyDict(dict[Any, Any]):
    """A dict that refuses to change; equal to the dict it was made of."""

    __slots__ = ()
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (dict, (dict(self),))

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return thaw(self)  # type: ignore[no-any-return]


class ReadOnlyList(list[Any]):
    """A list that refuses to change; equal to the list it was made of."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = extend = insert = pop = _refuse
    remove = clear = sort = reverse = _refuse
    __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return thaw(self)  # type: ignore[no-any-return]


class ReadOnlySet(set[Any]):
    """A set that refuses to change; equal to the set it was made of."""

    __slots__ = ()
    add = discard = remove = pop = clear = update = _refuse
    difference_update = intersection_update = symmetric_difference_update = _refuse
    __iand__ = __ior__ = __isub__ = __ixor__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (set, (set(self),))

    def __copy__(self) -> set[Any]:
        return set(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> set[Any]:
        return set(self)


class ReadOnlyBytearray(bytearray):
    """A bytearray that refuses to change by its own methods."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = extend = insert = pop = _refuse
    remove = clear = reverse = _refuse
    __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return (bytearray, (bytes(self),))

    def __deepcopy__(self, memo: dict[int, Any]) -> bytearray:
        return bytearray(self)


class ReadOnlyArray(array.array):  # type: ignore[type-arg]
    """An array that refuses to change by its own methods."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = extend = insert = pop = remove = reverse = _refuse
    byteswap = frombytes = fromfile = fromlist = fromunicode = __iadd__ = __imul__ = _refuse

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return (array.array, (self.typecode, self.tobytes()))

    def __deepcopy__(self, memo: dict[int, Any]) -> array.array[Any]:
        return array.array(self.typecode, self.tobytes())


# What most fields and values are, and what nobody can change.
_ATOMS: Final = frozenset({str, int, float, bool, type(None), bytes})


def thaw(value: Any) -> Any:
    """Return a plain, changeable copy of a value, read-only or not."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind in (ReadOnlyDict, dict):
        return {key: thaw(item) for key, item in value.items()}
    if kind in (ReadOnlyList, list):
        return [thaw(item) for item in value]
    if kind is tuple:
        return tuple(thaw(item) for item in value)
    if kind in (ReadOnlySet, set):
        return set(value)
    if kind in (ReadOnlyBytearray, bytearray):
        return bytearray(value)
    if kind in (ReadOnlyArray, array.array):
        return array.array(value.typecode, value.tobytes())
    # numpy is never imported for this
    return value.copy() if kind.__name__ == "ndarray" else value


def _pack_zone(zone: tzinfo | None) -> bytes:
    if zone is None:
        return b""
    if type(zone) is timezone:
        # What it was made of: the offset, and a name where one was given (one that is empty, too).
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        packed = _OFFSET.pack(offset // timedelta(microseconds=1))
        return b"n" + packed + name[0].encode("utf-8", "surrogatepass") if name else b"o" + packed
    if type(zone) is ZoneInfo:
        if zone.key is None:
            raise TypeError("has a ZoneInfo without a key, which cannot be found again")
        return b"z" + zone.key.encode()
    raise TypeError(f"has a time zone of type {type(zone).__name__}; use datetime.timezone or zoneinfo.ZoneInfo")


def _unpack_zone(data: bytes) -> tzinfo | None:
    if not data:
        return None
    if data[:1] in (b"o", b"n"):
        end = 1 + _OFFSET.size
        offset = timedelta(microseconds=_OFFSET.unpack(data[1:end])[0])
        if data[:1] == b"n":
            return timezone(offset, data[end:].decode("utf-8", "surrogatepass"))
        if len(data) != end:
            raise ValueError("a time zone of an unknown form")
        return timezone(offset) if offset else timezone.utc
    if data[:1] == b"z":
        try:
            return ZoneInfo(data[1:].decode())
        except (ZoneInfoNotFoundError, OSError) as exc:
            raise ValueError(f"a time zone that this machine does not know: {data[1:].decode()!r}") from exc
    raise ValueError("a time zone of an unknown form")


def _pack_time(value: time | datetime) -> bytes:
    clock = _TIME.pack(value.hour, value.minute, value.second, value.microsecond, value.fold)
    return clock + _pack_zone(value.tzinfo)


def _pack_datetime(value: datetime) -> bytes:
    return _DATE.pack(value.year, value.month, value.day) + _pack_time(value)


def _unpack_time(data: bytes) -> time:
    hour, minute, second, micro, fold = _TIME.unpack(data[: _TIME.size])
    return time(hour, minute, second, micro, tzinfo=_unpack_zone(data[_TIME.size :]), fold=fold)


def _unpack_datetime(data: bytes) -> datetime:
    day = date(*_DATE.unpack(data[: _DATE.size]))
    return datetime.combine(day, _unpack_time(data[_DATE.size :]))


def _pack_bigint(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _unpack_bigint(data: bytes) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if len(data) < _SMALLEST_BIGINT_BYTES or _pack_bigint(value) != data:
        raise ValueError("a big integer that is not in its shortest form")
    return value


def _unpack_decimal(data: bytes) -> Decimal:
    try:
        value = Decimal(data.decode("ascii"))
    except InvalidOperation as exc:
        raise ValueError("a Decimal that is no number") from exc
    if str(value).encode("ascii") != data:  # where the caller's context does not trap, nonsense reads as NaN
        raise ValueError("a Decimal that is not in its own form")
    return value


def _pack_surrogates(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _unpack_surrogates(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _pack_array(value: array.array[Any]) -> bytes:
    if value.typecode in "uw":
        raise TypeError("is an array of characters; use a str")
    if sys.byteorder == "big":
        value = array.array(value.typecode, value)
        value.byteswap()
    return value.typecode.encode() + bytes([value.itemsize]) + value.tobytes()


def _unpack_array(data: bytes, kind: type[array.array[Any]] = array.array) -> array.array[Any]:
    typecode, itemsize, items = data[:1].decode("ascii"), data[1], data[2:]
    if not typecode or typecode in "uw":
        raise ValueError("an array of characters")
    value = kind(typecode)
    if value.itemsize != itemsize or len(items) % itemsize:
        raise ValueError(f"an array of {itemsize}-byte items of type {typecode!r}, which are {value.itemsize} here")
    value = kind(typecode, items)
    if sys.byteorder == "big":
        array.array.byteswap(value)
    return value


def _pack_ndarray(value: Any) -> bytes:
    if value.dtype.kind not in _NDARRAY_KINDS:
        raise TypeError(f"is a numpy array of dtype {value.dtype}; only numbers and booleans can be stored")
    dtype: bytes = value.dtype.newbyteorder("<").str.encode()
    shape = b"".join(_SHAPE_ITEM.pack(n) for n in value.shape)
    items: bytes = value.astype(dtype.decode(), order="C", copy=False).tobytes()
    return bytes([len(dtype)]) + dtype + bytes([len(value.shape)]) + shape + items


def _unpack_ndarray(data: bytes) -> Any:
    try:
        np = importlib.import_module("numpy")
    except ImportError as exc:
        raise ValueError("a numpy array; install numpy to read it") from exc
    split = 1 + data[0]
    dtype = np.dtype(data[1:split].decode("ascii"))
    n = data[split]
    if dtype.kind not in _NDARRAY_KINDS or n > _MAX_NDARRAY_DIMENSIONS:
        raise ValueError(f"a numpy array of dtype {dtype} and {n} dimensions")
    start = split + 1 + n * _SHAPE_ITEM.size
    shape = [_SHAPE_ITEM.unpack_from(data, split + 1 + i * _SHAPE_ITEM.size)[0] for i in range(n)]
    array_ = np.frombuffer(data[start:], dtype=dtype).reshape(shape)
    return array_.astype(dtype.newbyteorder("="))


def _pack_ndarray_subclass(_value: Any) -> NoReturn:
    raise TypeError("is a subclass of numpy.ndarray; use numpy.asarray(...)")


_PACKERS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    int: (BIGINT, _pack_bigint),
    str: (SURROGATES, _pack_surrogates),
    datetime: (DATETIME, _pack_datetime),
    date: (DATE, lambda value: _DATE.pack(value.year, value.month, value.day)),
    time: (TIME, _pack_time),
    timedelta: (TIMEDELTA, lambda value: _TIMEDELTA.pack(value.days, value.seconds, value.microseconds)),
    Decimal: (DECIMAL, lambda value: str(value).encode("ascii")),
    UUID: (UUID_, lambda value: value.bytes),
    bytearray: (BYTEARRAY, bytes),
    ReadOnlyBytearray: (BYTEARRAY, bytes),
    array.array: (ARRAY, _pack_array),
    ReadOnlyArray: (ARRAY, _pack_array),
}

_UNPACKERS: dict[int, Callable[[bytes], Any]] = {
    BIGINT: _unpack_bigint,
    SURROGATES: _unpack_surrogates,
    DATETIME: _unpack_datetime,
    DATE: lambda data: date(*_DATE.unpack(data)),
    TIME: _unpack_time,
    TIMEDELTA: lambda data: timedelta(*_TIMEDELTA.unpack(data)),
    DECIMAL: _unpack_decimal,
    UUID_: lambda data: UUID(bytes=data),
    BYTEARRAY: bytearray,
    ARRAY: _unpack_array,
    NDARRAY: _unpack_ndarray,
}

_FROZEN_UNPACKERS: dict[int, Callable[[bytes], Any]] = {
    **_UNPACKERS,
    BYTEARRAY: ReadOnlyBytearray,
    ARRAY: lambda data: _unpack_array(data, ReadOnlyArray),
}


def pack_extra(value: Any) -> tuple[int, bytes]:
    """Return the extension code and body of a value that MessagePack has no form for.

    Raises:
        TypeError: It cannot be stored; the text ends a sentence that begins with the path of the value.
    """
    kind = type(value)
    found = _PACKERS.get(kind)
    if found is not None:
        code, pack = found
        return code, pack(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is getattr(numpy, "ndarray", None):
        return NDARRAY, _pack_ndarray(value)
    raise TypeError(_why_not(kind))


def unpack_extra(code: int, body: bytes, frozen: bool) -> Any:  # noqa: FBT001 - called by position from Rust
    """Return the value of an extension, read-only where `frozen`.

    Raises:
        ValueError: The code is not one of ours, or the body not of its form.
    """
    unpack = (_FROZEN_UNPACKERS if frozen else _UNPACKERS).get(code)
    if unpack is None:
        raise ValueError(f"extension type {code}, which holdall does not know")
    try:
        value = unpack(body)
    except (struct.error, IndexError, OverflowError, UnicodeError, TypeError) as exc:
        raise ValueError(f"extension type {code} with a body that is not of its form") from exc
    if frozen and code == NDARRAY:
        value.flags.writeable = False
    return value


def check_keys(keys: Iterable[Any]) -> None:
    """Refuse more keys than Python can hash in good time where an attacker chose them.

    Raises:
        ValueError: More than `MSGPACK_MAX_UNSALTED_KEYS` of them are neither str nor bytes, or they were made to collide.
    """
    unsalted = [key for key in keys if type(key) is not str and type(key) is not bytes]
    if keys_collide(unsalted[: MSGPACK_MAX_UNSALTED_KEYS + 1]):
        raise ValueError("more than 16 keys of one hash")
    if len(unsalted) > MSGPACK_MAX_UNSALTED_KEYS:
        raise ValueError(f"more than {MSGPACK_MAX_UNSALTED_KEYS} keys that are neither str nor bytes")


def _why_not(kind: type) -> str:
    """End the sentence "<path> ..." for a type that cannot be stored, with what to do instead."""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    for base, advice in _ADVICE:
        if issubclass(kind, base):
            return f"is of type {name}, a subclass of {base.__name__} that would not come back as itself; {advice}"
    # What an SDK answers with; which of its fields are worth keeping, the caller knows.
    plain = "store its model_dump(exclude_none=True)"
    advice = plain if hasattr(kind, "model_dump") else "give plain values, such as a dict, a list or a str"
    return f"is of type {name}, which cannot be stored; {advice}"


_ADVICE: Final[tuple[tuple[type, str], ...]] = (
    (dict, "use dict(...)"),
    (list, "use list(...)"),
    (tuple, "use tuple(...), or a dict"),
    (str, "use its value, or str(...)"),
    (int, "use its value, or int(...)"),
    (float, "use float(...)"),
    (set, "use set(...)"),
    (bytes, "use bytes(...)"),
)
