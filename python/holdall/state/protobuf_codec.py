"""The protobuf form: documents of `session.proto`, through the protobuf library, without generated code.

The messages are made from the .proto file itself, which is read once: it is the only definition there is.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, Final

from holdall._native import msgpack_encode
from holdall.errors import DecodeError, EncodeError
from holdall.state.document import FROZEN_FIELDS, freeze
from holdall.state.values import ReadOnlyDict, ReadOnlyList, ReadOnlySet, check_keys, pack_extra, unpack_extra

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
except ImportError as exc:
    raise ImportError("the protobuf format needs an extra: pip install 'holdall[protobuf]'") from exc

# The library reads 100 messages inside each other. A container is two, a map in a map's value likewise; the document and
# the fields around them are three.
MAX_DEPTH: Final = 45
_INT64: Final = range(-(2**63), 2**63)
_MIN_NUMBERS: Final = 16

_FIELD: Final = re.compile(r"^\s*(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+);")
_BLOCK: Final = re.compile(r"^\s*(message|oneof)\s+(\w+)\s*\{")
_PACKAGE: Final = "holdall.state"


def definition() -> descriptor_pb2.FileDescriptorProto:
    """Return what `session.proto` says. Reads the part of the language that it uses, and no more."""
    text = resources.files("holdall.state").joinpath("session.proto").read_text("utf-8")
    file = descriptor_pb2.FileDescriptorProto(name="holdall/state/session.proto", package=_PACKAGE, syntax="proto3")
    types = {name.lower(): number for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()}
    open_blocks: list[str] = []
    for line in (line.split("//")[0] for line in text.splitlines()):
        if block := _BLOCK.match(line):
            open_blocks.append(block[1])
            if block[1] == "message":
                file.message_type.add(name=block[2])
            else:
                file.message_type[-1].oneof_decl.add(name=block[2])
        elif field := _FIELD.match(line):
            repeated, kind, name, number = field.groups()
            added = file.message_type[-1].field.add(name=name, number=int(number), label=3 if repeated else 1)
            if f"type_{kind}" in types:
                added.type = types[f"type_{kind}"]
            else:
                added.type_name = f".{_PACKAGE}.{kind}"
            if open_blocks[-1] == "oneof":
                added.oneof_index = 0
        elif line.strip() == "}":
            open_blocks.pop()
    return file


@cache
def _document_class() -> type[Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(definition())
    kind: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Document"))
    return kind


def dumps(document: dict[str, Any]) -> bytes:
    """Return a document in protobuf, the same bytes for the same document.

    Raises:
        EncodeError: A value cannot be stored, or nests deeper than `MAX_DEPTH`.
    """
    msgpack_encode(document)  # names the path of what no format can hold
    whole = _document_class()(schema=document["_version"])
    for name, value in document.items():
        if name != "_version":
            whole.fields.keys.add().text = name
            _fill(whole.fields.values.add(), value, name, 1)
    data: bytes = whole.SerializeToString(deterministic=True)
    return data


def loads(data: bytes) -> dict[str, Any]:
    """Return the document that `dumps` wrote, its log read-only.

    Raises:
        DecodeError: It is not such a document.
    """
    try:
        whole = _document_class().FromString(data)
    except (message.DecodeError, RecursionError) as exc:
        raise _bad(f"not protobuf, or nested too deep: {exc}") from exc
    try:
        document = _map(whole.fields)
    except (ValueError, TypeError, OverflowError) as exc:
        if isinstance(exc, DecodeError):
            raise
        raise _bad(str(exc)) from exc
    if not all(type(name) is str for name in document) or "_version" in document:
        raise _bad("fields that are not those of a state")
    for name in FROZEN_FIELDS:
        if name in document:
            document[name] = freeze(document[name])
    return {"_version": whole.schema, **document}


def _bad(reason: str) -> DecodeError:
    return DecodeError(f"protobuf that holdall did not write: {reason}", offset=0, reason=reason)


def _fill(slot: Any, value: Any, path: str, depth: int) -> None:
    kind = type(value)
    scalar = _SCALARS.get(kind)
    if scalar is not None and (kind is not int or value in _INT64) and (kind is not str or _is_unicode(value)):
        setattr(slot, scalar, value)
    elif value is None:
        slot.null = True
    elif kind in _CONTAINERS:
        if depth >= MAX_DEPTH:
            reason = f"is nested deeper than {MAX_DEPTH}, the limit of the protobuf form"
            raise EncodeError(f"{path} {reason}", path=path, reason=reason)
        _fill_container(slot, value, path, depth + 1)
    else:
        slot.extra.code, slot.extra.body = pack_extra(value)


def _fill_container(slot: Any, value: Any, path: str, depth: int) -> None:
    name = _CONTAINERS[type(value)]
    part = getattr(slot, name)
    part.SetInParent()
    if name == "map":
        for key, item in value.items():
            _fill(part.keys.add(), key, f"{path} (a key)", depth)
            _fill(part.values.add(), item, f"{path}.{key}" if type(key) is str else f"{path}[...]", depth)
    elif name == "list" and len(value) >= _MIN_NUMBERS and all(type(item) is float for item in value):
        slot.ClearField("list")
        slot.numbers.items.extend(value)
    else:
        for n, item in enumerate(value):
            _fill(part.items.add(), item, f"{path}[{n}]", depth)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _value(slot: Any) -> Any:
    kind = slot.WhichOneof("kind")
    if kind is None:
        raise _bad("a value of no kind")
    found = getattr(slot, kind)
    if kind in _READ_AS_IS:
        return found
    if kind == "null":
        return None
    if kind == "map":
        return _map(found)
    if kind == "numbers":
        return list(found.items)
    if kind == "extra":
        if found.code > 127:  # noqa: PLR2004 - the codes of MessagePack
            raise _bad(f"extension type {found.code}")
        return unpack_extra(found.code, found.body, False)  # noqa: FBT003 - frozen later, with the rest
    items = [_value(item) for item in found.items]
    if kind == "list":
        return items
    if kind != "tuple":
        check_keys(items)
    made: Any = _SEQUENCES[kind](items)
    if kind != "tuple" and len(made) != len(items):
        raise _bad("an element of a set stands twice")
    return made


def _map(slot: Any) -> dict[Any, Any]:
    if len(slot.keys) != len(slot.values):
        raise _bad("a map with more keys than values, or fewer")
    keys = [_value(key) for key in slot.keys]
    check_keys(keys)
    found = dict(zip(keys, map(_value, slot.values), strict=True))
    if len(found) != len(slot.keys):
        raise _bad("a key stands twice")
    return found


_SCALARS: Final[dict[type, str]] = {bool: "boolean", int: "integer", float: "number", str: "text", bytes: "binary"}
_READ_AS_IS: Final = frozenset(_SCALARS.values())
_SEQUENCES: Final[dict[str, type]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_CONTAINERS: Final[dict[type, str]] = {
    dict: "map",
    ReadOnlyDict: "map",
    list: "list",
    ReadOnlyList: "list",
    tuple: "tuple",
    set: "set",
    ReadOnlySet: "set",
    frozenset: "frozenset",
}
