"""One record as one S3 object: a header, the head's bytes and the log, each part under a checksum."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from holdall.stores import keys, rules
from holdall.stores.base import Blob

BACKEND: Final = "s3"
_MAGIC: Final = b"holdall1"
_DIGEST_BYTES: Final = 32
# magic, length of the header, SHA-256 of the header; the header carries the SHA-256 of what follows it
_FRAME: Final = struct.Struct(f">{len(_MAGIC)}sI{_DIGEST_BYTES}s")
# Most headers end before it, so that `find` reads one range per record.
HEADER_BYTES: Final = 8192
_MOST_HEADER_BYTES: Final = 2**24


class Rest(NamedTuple):
    """What an object carries beside what decides.

    Attributes:
        etag: What a conditional write names.
        entry: The word in the names of its index entries, "" for none.
        head: Of the record.
        log: The packed entries.
    """

    etag: str
    entry: str
    head: Blob
    log: bytes


class Header(NamedTuple):
    """The part of an object that says what the rest is."""

    key: str
    meta: rules.Meta
    entry: str
    format: str
    n_head: int
    digest: str
    size: int


def hashed(text: str) -> str:
    """Return the name of a key: an object's name holds 1024 bytes, and a key four times as many."""
    return blake2b(text.encode(), digest_size=20).hexdigest()


def tag_hash(name: str, value: str) -> str:
    """Return the name of a tag."""
    return hashed(f"{name}\0{value}")


def encode(key: str, meta: rules.Meta, entry: str, head: Blob, log: bytes, *, rev: str) -> bytes:
    """Return the object; `rev` makes equal records unequal objects, and so unequal ETags."""
    body = head.data + log
    header = json.dumps(
        {
            "key": key,
            "rev": rev,
            "generation": meta.generation,
            "number": meta.number,
            "log_len": meta.log_len,
            "ends_ms": None if meta.expires_at is None else math.ceil(meta.expires_at * 1000),
            "tags": dict(meta.tags),
            "fence": meta.fence,
            "ops": meta.ops,
            "is_deleted": meta.is_deleted,
            "entry": entry,
            "format": head.format,
            "n_head": len(head.data),
            "sha256": hashlib.sha256(body).hexdigest(),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    return _FRAME.pack(_MAGIC, len(header), hashlib.sha256(header).digest()) + header + body


def header_size(data: bytes) -> int:
    """Return how many bytes frame and header take.

    Raises:
        ValueError: It is no object of holdall's.
    """
    if len(data) < _FRAME.size:
        raise ValueError("shorter than a record")
    magic, n, _ = _FRAME.unpack_from(data)
    if magic != _MAGIC or n > _MOST_HEADER_BYTES:
        raise ValueError("another kind of object")
    return _FRAME.size + int(n)


def decode_header(data: bytes) -> Header:
    """Return the header of an object, or of its beginning.

    Raises:
        ValueError: It is no object of holdall's, or was damaged.
    """
    size = header_size(data)
    raw = data[_FRAME.size : size]
    if hashlib.sha256(raw).digest() != _FRAME.unpack_from(data)[2]:
        raise ValueError("the header's checksum does not match")
    said: dict[str, Any] = json.loads(raw)
    meta = rules.Meta(
        said["generation"],
        said["number"],
        said["log_len"],
        None if said["ends_ms"] is None else said["ends_ms"] / 1000,
        said["tags"],
        said["fence"],
        said["ops"],
        said["is_deleted"],
    )
    return Header(said["key"], meta, said["entry"], said["format"], said["n_head"], said["sha256"], size)


def decode(key: str, data: bytes, etag: str) -> tuple[rules.Meta, Rest]:
    """Return what an object says, its checksums compared.

    Raises:
        DecodeError: It is no record of this key, or was damaged.
    """
    try:
        header = decode_header(data)
    except (ValueError, KeyError, TypeError) as error:
        raise keys.not_ours(BACKEND, key, error) from error
    body = data[header.size :]
    if header.key != key:
        raise keys.not_ours(BACKEND, key, ValueError(f"it is one of another key, {header.key[:80]!r}"))
    if hashlib.sha256(body).hexdigest() != header.digest:
        raise keys.not_ours(BACKEND, key, ValueError("the checksum of head and log does not match"))
    head = Blob(header.format, body[: header.n_head])
    return header.meta, Rest(etag, header.entry, head, body[header.n_head :])
