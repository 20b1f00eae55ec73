"""What a key, tag, op_id or fence may be, checked before anything reaches a backend.

Keys are opaque: any text of 1 to 4096 bytes of UTF-8. NUL and lone surrogates are refused because PostgreSQL and UTF-8
cannot hold them; everything else, separators and braces included, is a key like any other and never meets another key.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from holdall.errors import ArgumentError, DecodeError
from holdall.stores.base import Absent, Blob, Entry, Version

MAX_KEY_BYTES = 4096
# A btree page of PostgreSQL takes index rows up to 2704 bytes: name, value and the row's own bytes must fit one. More than an
# id's 1024, since tags also name records of our own, whose keys are an id with something before it.
MAX_TAG_BYTES = 2048
MAX_NAME_BYTES = 256
MAX_TTL_S = 1e10  # 317 years: within the timestamps of every backend
MAX_FENCE = 2**63 - 1
OP_TOKEN_CHARS = 24
_MOST_SHOWN = 80


def check_text(what: str, text: object, *, least: int, most: int) -> str:
    """Return `text` if it is a str of `least` to `most` bytes of UTF-8 without NUL.

    Raises:
        ArgumentError: It is not; the message names `what` and the limit.
    """
    if type(text) is str and text.isascii() and least <= len(text) <= most and "\0" not in text:
        return text
    if not isinstance(text, str):
        raise ArgumentError(f"{what} must be a str, not {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} holds a lone surrogate, which UTF-8 cannot carry") from None
    if not least <= size <= most:
        raise ArgumentError(f"{what} has {size} bytes of UTF-8; allowed are {least} to {most}", size=size)
    if "\0" in text:
        raise ArgumentError(f"{what} holds NUL, which PostgreSQL cannot store")
    return text


def check_key(key: object) -> str:
    """Return the key, or raise `ArgumentError`."""
    return check_text("key", key, least=1, most=MAX_KEY_BYTES)


def check_tags(tags: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return a copy of the tags, sorted by name so that equal tags are stored as equal bytes."""
    if tags is None:
        return None
    if not isinstance(tags, Mapping):
        raise ArgumentError(f"tags must be a mapping, not {type(tags).__name__}")
    checked = {
        check_text("a tag name", name, least=1, most=MAX_NAME_BYTES): check_text(
            f"tag {name!r}", value, least=0, most=MAX_TAG_BYTES
        )
        for name, value in tags.items()
    }
    return dict(sorted(checked.items()))


def check_blob(head: object) -> Blob:
    """Return the head as bytes that nobody else can change."""
    if not isinstance(head, Blob):
        raise ArgumentError(f"head must be a Blob, not {type(head).__name__}")
    name = check_text("head.format", head.format, least=1, most=MAX_NAME_BYTES)
    return Blob(name, _frozen("head.data", head.data))


def check_entries(append: Sequence[Entry]) -> tuple[tuple[str, bytes], ...]:
    """Return (kind, data) of each entry, as bytes that nobody else can change."""
    return tuple(
        (check_text("entry.kind", entry.kind, least=1, most=MAX_NAME_BYTES), _frozen("entry.data", entry.data))
        for entry in append
    )


def _frozen(what: str, data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"{what} must be bytes, not {type(data).__name__}")
    return bytes(data)


def check_ttl(ttl_s: object) -> float | None:
    """Return seconds until expiry, None for never."""
    if ttl_s is None:
        return None
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, (int, float)):
        raise ArgumentError(f"ttl_s must be a number or None, not {type(ttl_s).__name__}")
    if math.isnan(ttl_s) or not 0 < ttl_s <= MAX_TTL_S:
        raise ArgumentError(f"ttl_s is {ttl_s}; allowed are more than 0 to {MAX_TTL_S:.0e}, or None for never")
    return float(ttl_s)


def check_count(what: str, n: object) -> int:
    """Return `n` if it is an int of at least 0 that fits 63 bits."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise ArgumentError(f"{what} must be an int, not {type(n).__name__}")
    if not 0 <= n <= MAX_FENCE:
        raise ArgumentError(f"{what} is {n}; allowed are 0 to 2**63 - 1")
    return n


def check_fence(fence: object) -> int | None:
    """Return the fencing token, None for none."""
    return None if fence is None else check_count("fence", fence)


def check_version(expected: object) -> Version:
    """Return a version that may be compared with stored ones."""
    if not isinstance(expected, Version):
        raise ArgumentError(f"expected must be a Version, ABSENT or None, not {type(expected).__name__}")
    check_text("expected.generation", expected.generation, least=1, most=MAX_NAME_BYTES)
    check_count("expected.number", expected.number)
    return expected


def check_expected(expected: object) -> Version | Absent | None:
    """Return what the writer claims to have read."""
    if expected is None or isinstance(expected, Absent):
        return expected
    return check_version(expected)


def check_page(key: object, *, kind: str | None, before: int | None, limit: int) -> None:
    """Check what `read_log` is asked for."""
    check_key(key)
    check_count("limit", limit)
    if before is not None:
        check_count("before", before)
    if kind is not None:
        check_text("kind", kind, least=1, most=MAX_NAME_BYTES)


def shown(key: str) -> str:
    """Return as much of a key as fits a line of a terminal, for errors."""
    return key if len(key) <= _MOST_SHOWN else f"{key[:_MOST_SHOWN]}..."


def not_ours(backend: str, key: str, cause: Exception) -> DecodeError:
    """What lies under a key was not written by holdall, or was damaged since."""
    return DecodeError(f"{backend}: what lies under {shown(key)!r} is no record: {cause}", offset=0, reason=str(cause))


def op_token(operation: str, op_id: str | None) -> str | None:
    """Return the fixed-width name under which a record remembers a call, None without an op_id.

    96 bits of hash: within the 32 that a record remembers, a collision is out of reach. The operation is part of it, so that
    one op_id used for a write and then for a delete names two calls.
    """
    if op_id is None:
        return None
    text = check_text("op_id", op_id, least=1, most=MAX_TAG_BYTES)
    return hashlib.blake2b(f"{operation}\0{text}".encode(), digest_size=OP_TOKEN_CHARS // 2).hexdigest()
