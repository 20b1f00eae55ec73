"""Which record belongs to which session or user, and which ids are accepted at all.

A session's record is keyed by its id as it is, so that `SELECT ... WHERE session_id = 'abc'` finds it. Records of our own
begin with one tilde; an id that begins with a tilde gets one more. So no id can name another record.
"""

from __future__ import annotations

from typing import Final

from holdall.errors import ArgumentError
from holdall.stores.chain import kept_key

# PostgreSQL refuses index entries above 2,704 bytes; an id, a prefix and a status fit below it.
MAX_ID_BYTES: Final = 1024
_OWN: Final = "~"
_USER: Final = "~user/"
# Records that say by being there, or not, whether something may be done or how another one is to be read.
_MARKS: Final = (_USER, kept_key(""))


def check_id(value: object, what: str = "session_id") -> str:
    """Return the id, or say what is wrong with it before anything is written.

    Raises:
        ArgumentError: Not text, empty, with NUL or a lone surrogate, or longer than 1,024 bytes of UTF-8.
    """
    if type(value) is str and value.isascii() and 0 < len(value) <= MAX_ID_BYTES and "\0" not in value:
        return value
    if not isinstance(value, str):
        raise ArgumentError(f"{what} must be text, not {type(value).__name__}")
    if not value:
        raise ArgumentError(f"{what} is empty; a record without a name could never be resumed")
    if "\0" in value:
        raise ArgumentError(f"{what} holds NUL, which PostgreSQL cannot store in text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{what} holds a lone surrogate at character {error.start}; ids are UTF-8") from None
    if size > MAX_ID_BYTES:
        raise ArgumentError(f"{what} is {size} bytes of UTF-8; the limit is {MAX_ID_BYTES}")
    return value


def session_key(session_id: object) -> str:
    """Return the key of a session's record, the id checked."""
    checked = check_id(session_id)
    return _OWN + checked if checked.startswith(_OWN) else checked


def session_id_of(key: str) -> str | None:
    """Return the session id behind a key, None where the record is one of our own."""
    if not key.startswith(_OWN):
        return key
    return key[1:] if key.startswith(_OWN * 2) else None


def is_mark(key: str) -> bool:
    """Whether a record must be read as it is now: an answer of a moment ago, and that it was missing, is none."""
    return key.startswith(_MARKS)


def user_key(user_id: object) -> str:
    """Return the key of the record that says a user was deleted."""
    return _USER + check_id(user_id, "user_id")
