"""Values of every kind that a state may hold, and what it means that one came back."""

from __future__ import annotations

import array
import math
import struct
from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from holdall.state.values import ReadOnlyArray, ReadOnlyBytearray, ReadOnlyDict, ReadOnlyList, ReadOnlySet

READ_ONLY = {
    ReadOnlyDict: dict,
    ReadOnlyList: list,
    ReadOnlySet: set,
    ReadOnlyBytearray: bytearray,
    ReadOnlyArray: array.array,
}


def same(a, b, *, read_only=False):
    """Equal, of the same type, to the last bit, and in the same order; `read_only`: b's containers are."""
    kind = READ_ONLY.get(type(b), type(b)) if read_only else type(b)
    if type(a) is not kind:
        return False
    if kind is float:
        return struct.pack(">d", a) == struct.pack(">d", b)
    if kind in (list, tuple):
        return len(a) == len(b) and all(same(x, y, read_only=read_only) for x, y in zip(a, b, strict=True))
    if kind is dict:
        return len(a) == len(b) and all(
            same(k, j, read_only=read_only) and same(v, w, read_only=read_only)
            for (k, v), (j, w) in zip(a.items(), b.items(), strict=True)
        )
    if kind in (set, frozenset):
        rest = list(b)
        for x in a:
            match = next((i for i, y in enumerate(rest) if same(x, y, read_only=read_only)), None)
            if match is None:
                return False
            rest.pop(match)
        return not rest
    if kind in (datetime, time):
        return a.replace(tzinfo=None) == b.replace(tzinfo=None) and a.fold == b.fold and same_zone(a.tzinfo, b.tzinfo)
    return repr(a) == repr(b) if kind.__name__ == "Decimal" else a == b


def same_zone(a, b):
    if type(a) is ZoneInfo:
        return type(b) is ZoneInfo and a.key == b.key
    return type(a) is type(b) and repr(a) == repr(b)


ZONES = st.one_of(
    st.none(),
    st.just(timezone.utc),
    st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23)).map(timezone),
    st.builds(
        timezone, st.timedeltas(min_value=timedelta(hours=-23), max_value=timedelta(hours=23)), st.text(max_size=5)
    ),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]).map(ZoneInfo),
)
TEXT = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ["\0", "a\0b", "\ud800", "$keys", "$", "", "é" * 40]
)
FLOATS = st.floats() | st.sampled_from([1e16, -0.0, 1e22, 5e-324, 2.0**53, float("inf")])
INTS = st.integers() | st.sampled_from(
    [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, -(2**70)]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTS,
    FLOATS,
    TEXT,
    st.binary(max_size=40),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.builds(lambda t, f: t.replace(fold=f), st.datetimes(timezones=ZONES), st.integers(0, 1)),
    st.builds(lambda t, f: t.replace(fold=f), st.times(timezones=ZONES), st.integers(0, 1)),
)
# sNaN cannot be hashed, and a NaN is equal to none, so that sets and keys that hold one cannot be compared.
HASHABLE = st.recursive(
    st.one_of(
        st.none(), st.booleans(), INTS, st.floats(allow_nan=False), TEXT, st.binary(max_size=9), st.uuids(), st.dates()
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
ARRAYS = st.one_of(
    st.lists(st.floats(), max_size=9).map(lambda xs: array.array("d", xs)),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9).map(lambda xs: array.array("i", xs)),
)
LEAVES = SCALARS | ARRAYS.filter(lambda xs: not any(math.isnan(x) for x in xs)) | st.binary(max_size=9).map(bytearray)
EMBEDDINGS = st.lists(st.floats(), min_size=16, max_size=20) | st.lists(st.floats(width=32), min_size=16, max_size=20)
VALUES = st.recursive(
    LEAVES | EMBEDDINGS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(TEXT, inner, max_size=5),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    ),
    max_leaves=20,
)
