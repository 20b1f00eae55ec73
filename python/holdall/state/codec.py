"""`StateSerializer`: states to bytes and back, in three formats, each document with its schema version.

A state is stored as a head, which changes, and log entries, which do not; `dumps` makes one document of both. The
format of bytes is seen from the first one, so that every serializer reads what any other wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from holdall._native import (
    StateReader,
    msgpack_decode,
    msgpack_decode_log,
    msgpack_encode,
    msgpack_encode_state,
)
from holdall.errors import ArgumentError, DecodeError, DecryptError, UnknownNameError
from holdall.state import seal
from holdall.state.document import (
    FROZEN_FIELDS,
    check_pair,
    check_types,
    items_of,
    log_fields,
    state_of,
)
from holdall.state.log import MESSAGE, STEP_RESULT, Items, Marks, Pending
from holdall.state.messages import MessageLog, StepResults
from holdall.state.session import HEAD_FIELDS, SessionState, check_id, last_log
from holdall.state.upgrade import ENTRIES, HEADS, upgrade

Format = Literal["msgpack", "json", "protobuf"]

FORMATS: Final = ("msgpack", "json", "protobuf")
HEAD: Final = "head"
DOCUMENT: Final = "document"
ENCRYPTED: Final = "encrypted"
# A msgpack entry is the array [schema version, value]; the version is below 128 and takes one byte.
_PAIR: Final = 0x92
_HEAD_NAMES: Final = ("_version", *HEAD_FIELDS)
_STATE_FIELDS: Final = (*HEAD_FIELDS, "version")
_head_values: Final = attrgetter(*HEAD_FIELDS)
# The first bytes of a map in MessagePack.
_MAPS: Final = frozenset(bytes([first]) for first in (*range(0x80, 0x90), 0xDE, 0xDF))
_ENTRY_HEADER: Final = bytes([_PAIR, ENTRIES.current])
_READER: Final = StateReader(
    SessionState, MessageLog, StepResults, Marks, names=_STATE_FIELDS, schema=HEADS.current, last=last_log
)


class Snapshot(NamedTuple):
    """A state as it was at one instant, ready to be written.

    Attributes:
        head: Bytes of the head.
        format: Their format: "msgpack", "json", "protobuf", or "encrypted".
        start: Seq of the first entry of `append`. A last-writer-wins write passes it as `keep`.
        keep: Entries of the stored log to keep; None where none has to go.
        append: (kind, bytes) of each entry to append.
        pending: For `SessionState.mark_saved`, once the write is acknowledged.
    """

    head: bytes
    format: str
    start: int
    keep: int | None
    append: tuple[tuple[str, bytes], ...]
    pending: Pending


class StateSerializer:
    """The codec of session states.

    Args:
        format: Of heads and documents: "msgpack" (native), "json" (debuggable; what JSON lacks is tagged, and it
            survives PostgreSQL's JSONB) or "protobuf" (needs `holdall[protobuf]`).
        log_format: Of log entries; "protobuf" where `format` is, else "msgpack".
        compression: "zstd" compresses log entries above `compress_above_bytes` (needs `holdall[zstd]`). Whoever has
            the extra reads them, asked or not.
        compress_above_bytes: See `seal.COMPRESS_ABOVE_BYTES`.
        max_unpacked_bytes: A blob that claims to unpack to more is refused.
        encryption: Keys; every blob is then encrypted for its place.

    Raises:
        UnknownNameError: A format or compression is none of these.
    """

    def __init__(
        self,
        format: Format = "msgpack",  # noqa: A002 - the word of the domain
        *,
        log_format: Format | None = None,
        compression: Literal["zstd"] | None = None,
        compress_above_bytes: int = seal.COMPRESS_ABOVE_BYTES,
        max_unpacked_bytes: int = seal.MAX_UNPACKED_BYTES,
        encryption: seal.Encryption | None = None,
    ) -> None:
        self.format = format
        self.log_format = log_format or ("protobuf" if format == "protobuf" else "msgpack")
        for name in (self.format, self.log_format):
            if name not in FORMATS:
                raise UnknownNameError(
                    f"unknown format {name!r}; known: {', '.join(FORMATS)}",
                    what="format",
                    name=name,
                    known=list(FORMATS),
                )
        if compression not in (None, "zstd"):
            raise UnknownNameError(
                f"unknown compression {compression!r}; known: zstd",
                what="compression",
                name=compression,
                known=["zstd"],
            )
        self.compression = compression
        self.encryption = encryption
        self._zstd = seal.Zstd(above_bytes=compress_above_bytes, max_bytes=max_unpacked_bytes)
        self._dumps, _ = _codec(self.format)
        self._entry_dumps, _ = _codec(self.log_format)

    def __repr__(self) -> str:
        sealed = "" if self.encryption is None else ", encrypted"  # what with is nobody's business
        return f"<{type(self).__name__}: {self.format}, log {self.log_format}, compression {self.compression}{sealed}>"

    @property
    def head_format(self) -> str:
        """The format that heads are in, as a store has to know it: "encrypted" is opaque."""
        return self.format if self.encryption is None else ENCRYPTED

    def snapshot(self, state: SessionState, *, record: str | None = None) -> Snapshot:
        """Return all that a write needs, as the state is now. Nothing of the state changes.

        Args:
            state: What is to be stored.
            record: What encryption binds the blobs to; the session id by default.

        Raises:
            EncodeError: A value cannot be stored so that it comes back equal; the path says which.
        """
        record = state.session_id if record is None else record
        pending = state.pending()
        append = tuple(
            [
                (item.kind, self._entry(item.kind, item.bytes_of_value(), item.value, pending.start + n, record))
                for n, item in enumerate(pending.items)
            ]
        )
        head = self.head(state, record=record)
        return Snapshot(head, self.head_format, pending.start, pending.keep, append, pending)

    def head(self, state: SessionState, *, record: str | None = None) -> bytes:
        """Return the part of `state` that changes, in bytes."""
        document = _head(state)
        data = self._dumps(document)
        return self._seal(data, record=state.session_id if record is None else record, kind=HEAD, seq=0)

    def entry(self, kind: str, value: Any, *, seq: int = 0, record: str = "") -> bytes:
        """Return one log entry in bytes. `seq` and `record` matter where there is encryption."""
        return self._entry(kind, msgpack_encode(value, path=kind), value, seq, record)

    def read_entry(self, kind: str, data: bytes, *, seq: int = 0, record: str = "") -> Any:
        """Return the value of one log entry, read-only: a message, or [step, result]."""
        return self._value(kind, data, seq, record)

    def restore(
        self,
        head: bytes,
        entries: Iterable[Sequence[Any] | bytes] = (),
        *,
        record: str | None = None,
        version: int = 0,
        generation: str = "",
        known: Items | None = None,
    ) -> SessionState:
        """Return the state whose head and log were stored.

        Args:
            head: What `head` gave.
            entries: The whole log, in order: of each entry (kind, bytes) or (kind, bytes, seq), or kind, NUL and bytes in one.
            record: What the blobs were bound to; needed where they are encrypted.
            version: Number of the stored version.
            generation: Generation of the stored record.
            known: The beginning of the log, where it is at hand already; `entries` go on behind it.

        Raises:
            DecodeError: The bytes are not those of a state.
            DecryptError: A key is missing or wrong, or a blob stands in another's place.
            NewerStateError: They were written by a newer holdall.
        """
        document = self._document(head, record=record or "", kind=HEAD)
        items = items_of(document)
        stored = not items
        start = 0 if known is None else len(known)
        messages, pairs, kinds = msgpack_decode_log(
            entries,
            _ENTRY_HEADER if self.encryption is None else None,
            lambda kind, data, seq: self._value(kind, data, start + seq, record or ""),
        )
        if known is not None:
            messages, pairs = [*known.messages, *messages], [*known.pairs, *pairs]
            kinds = bytes(known.kinds) + bytes(kinds)
        if kinds:
            if items:
                raise DecodeError("the head and the log both hold messages", offset=0, reason="messages stand twice")
            items = Items(kinds, messages, pairs)
        state = state_of(document)
        state.load_log(items, stored=stored)
        state.version = version
        state.generation = generation
        state.stored_user_id = state.user_id
        return state

    def dumps(self, state: SessionState) -> bytes:
        """Return the whole state as one document."""
        data = _encoded(state) if self.format == "msgpack" else None
        if data is None:
            document = _head(state)
            document["version"] = state.version
            document.update(log_fields(state))
            data = self._dumps(document)
        if self.compression is None and self.encryption is None:
            return data
        return self._seal(self._zstd_pack(data), record=state.session_id, kind=DOCUMENT, seq=0)

    def loads(self, data: bytes, *, record: str | None = None) -> SessionState:
        """Return the state that `dumps` wrote, in whichever format; errors as for `restore`."""
        # None of what is put round anything, or in another format.
        found = _READER.read(data) if self.encryption is None else None
        if found is None:
            data = self._open(data, record=record or "", kind=DOCUMENT, seq=0)
            name = _format_of(data)
            found = _READER.read(data) if name == "msgpack" else _codec(name)[1](data)
        if type(found) is SessionState:
            return found
        document = _upgraded(found)
        items = items_of(document)
        state = state_of(document)
        state.load_log(items, stored=False)
        return state

    def seal_tag(self, name: str, value: str, *, record: str) -> str:
        """Return a tag that no query needs, encrypted where there are keys; hexadecimal."""
        if self.encryption is None:
            return value
        return self.encryption.seal(value.encode(), record=record, kind=f"tag {name}", seq=0).hex()

    def open_tag(self, name: str, value: str, *, record: str) -> str:
        """Return what `seal_tag` was given."""
        if self.encryption is None:
            return value
        try:
            blob = bytes.fromhex(value)
        except ValueError:
            raise DecryptError(f"tag {name!r} is not encrypted", key_id=None, reason="not encrypted") from None
        return self.encryption.open(blob, record=record, kind=f"tag {name}", seq=0).decode()

    def _entry(self, kind: str, packed: bytes, value: Any, seq: int, record: str) -> bytes:
        _check_kind(kind)
        if self.log_format == "msgpack":
            data = _ENTRY_HEADER + packed
        else:
            data = self._entry_dumps({"_version": ENTRIES.current, "value": value})
        return self._seal(self._zstd_pack(data), record=record, kind=kind, seq=seq)

    def _value(self, kind: str, data: bytes, seq: int, record: str) -> Any:
        _check_kind(kind)
        data = self._open(data, record=record, kind=kind, seq=seq)
        if data[:1] == b"\x92":
            found = data[1] if len(data) > 1 else 0
            value = msgpack_decode(data, start=2, frozen=True)
        else:
            document = _codec(_format_of(data))[1](data)
            found, value = document.get("_version", 0), document.get("value")
        if found != ENTRIES.current:
            value = ENTRIES.upgrade(value, found)
        if kind == STEP_RESULT:
            check_pair(value)
        return value

    def _document(self, data: bytes, *, record: str, kind: str) -> dict[str, Any]:
        data = self._open(data, record=record, kind=kind, seq=0)
        return _upgraded(_codec(_format_of(data))[1](data))

    def _zstd_pack(self, data: bytes) -> bytes:
        return data if self.compression is None else self._zstd.pack(data)

    def _seal(self, data: bytes, *, record: str, kind: str, seq: int) -> bytes:
        if self.encryption is None:
            return data
        return self.encryption.seal(data, record=record, kind=kind, seq=seq)

    def _open(self, blob: bytes, *, record: str, kind: str, seq: int) -> bytes:
        if type(blob) is not bytes:
            blob = bytes(blob)
        if seal.is_encrypted(blob):
            if self.encryption is None:
                key_id = seal.key_id_of(blob)
                raise DecryptError(
                    f"encrypted with key {key_id!r}; give the serializer its keys", key_id=key_id, reason="no keys"
                )
            blob = self.encryption.open(blob, record=record, kind=kind, seq=seq)
        elif self.encryption is not None and not self.encryption.allow_plain:
            raise DecryptError(
                "not encrypted, though this serializer encrypts; allow_plain=True reads both",
                key_id=None,
                reason="not encrypted",
            )
        if seal.is_compressed(blob):
            blob = self._zstd.unpack(blob)
        return blob


def _head(state: SessionState) -> dict[str, Any]:
    check_id("session_id", state.session_id)
    check_id("user_id", state.user_id)
    document = dict(zip(_HEAD_NAMES, (HEADS.current, *_head_values(state)), strict=True))
    check_types(document)
    return document


def _encoded(state: SessionState) -> bytes | None:
    """Return the document of a state, made in one call; None where something is wrong with its head."""
    # What a subclass computes is not among the values of the instance.
    fields = vars(state) if type(state) is SessionState else {}
    unread = state.unread
    if unread is not None:
        return msgpack_encode_state(state, fields, _STATE_FIELDS, HEADS.current, *unread)
    log = state.log
    return msgpack_encode_state(state, fields, _STATE_FIELDS, HEADS.current, *log.encoded, log.kinds)


def _upgraded(document: dict[str, Any]) -> dict[str, Any]:
    return document if document.get("_version") == HEADS.current else upgrade(document)


def _check_kind(kind: str) -> None:
    if kind not in (MESSAGE, STEP_RESULT):
        raise ArgumentError(f"unknown kind of entry {kind!r}; known: {MESSAGE}, {STEP_RESULT}")


def _format_of(data: bytes) -> Format:
    """Tell the format from the first byte: a map of MessagePack, a brace, or field 1 of our protobuf message."""
    first = data[:1]
    if first in _MAPS:
        return "msgpack"
    if first == b"{":
        return "json"
    if first == b"\x08":  # the tag of field 1, a varint
        return "protobuf"
    raise DecodeError(
        "neither MessagePack, JSON nor protobuf as holdall writes them (at byte 0)", offset=0, reason="unknown format"
    )


def _msgpack_loads(data: bytes) -> dict[str, Any]:
    document = msgpack_decode(data, frozen_keys=FROZEN_FIELDS)
    if not isinstance(document, dict):
        raise DecodeError("a document that is not a map", offset=0, reason="not a map")
    return document


Codec = tuple[Callable[[dict[str, Any]], bytes], Callable[[bytes], dict[str, Any]]]


def _codec(name: str) -> Codec:
    if name == "json":
        from holdall.state import json_codec

        return json_codec.dumps, json_codec.loads
    if name == "protobuf":
        from holdall.state import protobuf_codec

        return protobuf_codec.dumps, protobuf_codec.loads
    return msgpack_encode, _msgpack_loads
