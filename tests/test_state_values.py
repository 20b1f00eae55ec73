"""S5, in every format: what goes in comes out, of the same type and to the last bit, or is refused with its path."""

from __future__ import annotations

import array
import enum
import json
import math
import subprocess
import sys
from collections import OrderedDict, namedtuple
from datetime import time
from decimal import Decimal

import pytest
from hypothesis import given

from holdall.errors import DecodeError, EncodeError
from holdall.state import SessionState, StateSerializer
from tests.state_values import VALUES, same

FORMATS = ["msgpack", "json", "protobuf"]


def as_jsonb(data: bytes) -> bytes:
    """What PostgreSQL gives back: keys by length and bytes, numbers as decimals, no NUL and no surrogates."""

    def normal(value):
        if isinstance(value, dict):
            return {key: normal(value[key]) for key in sorted(value, key=lambda key: (len(key.encode()), key.encode()))}
        if isinstance(value, list):
            return [normal(item) for item in value]
        if isinstance(value, Decimal):
            text = format(value, "f")
            return Number("0" + text[2:] if text.startswith("-0") and not value else text)
        if isinstance(value, str):
            assert "\0" not in value
            value.encode()
        return value

    class Number(float):
        """A number that prints as its digits."""

        def __new__(cls, text):
            made = super().__new__(cls, text)
            made.text = text
            return made

        def __repr__(self):
            return self.text

    text = json.loads(data, parse_float=Decimal, parse_int=Decimal)

    def dump(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)}: {dump(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(dump, value)) + "]"
        return repr(value) if isinstance(value, Number) else json.dumps(value)

    return dump(normal(text)).encode()


def round_trip(value, name):
    """The value after a whole document, and after a head and a log entry."""
    serializer = StateSerializer(name, log_format=name)
    state = SessionState("s", "u", metadata={"value": value}, messages=[{"value": value}])
    data = serializer.dumps(state)
    yield from _found(serializer.loads(data))
    if name == "json":
        yield from _found(serializer.loads(as_jsonb(data)))
    snapshot = serializer.snapshot(state)
    yield from _found(serializer.restore(snapshot.head, snapshot.append))


def _found(state):
    yield state.metadata["value"], False
    yield state.messages[0]["value"], True


def assert_comes_back(value, name):
    for found, read_only in round_trip(value, name):
        assert same(value, found, read_only=read_only), (value, found)


@pytest.mark.parametrize("name", FORMATS)
@given(value=VALUES)
def test_any_value_comes_back(name, value):
    assert_comes_back(value, name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value",
    [{"s": "a\0b"}, {"a\0b": 1}, {"\0": {"\0": "\0"}}, ["\0"], "\ud800", {"\udfff": "x\ud800y"}],
    ids=["value", "key", "nested", "list", "surrogate", "surrogate key"],
)
def test_case_38_nul_comes_back(name, value):
    """langgraph 1878: NUL in a value, in a key, in metadata. JSONB refuses it, so it never gets there."""
    assert_comes_back(value, name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 1e16, -1e300, 5e-324, 0.1], ids=repr)
def test_case_39_floats_come_back(name, value):
    """langflow 11966: NaN becomes null, or the database refuses the state."""
    assert_comes_back(value, name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value", [2**63 - 1, 2**63, 2**64, -(2**70), 2**53 + 1, -(2**63), 10**5000], ids=lambda v: hex(v)[:24]
)
def test_case_41_ints_are_exact(name, value):
    """langgraph: "Integer exceeds 64-bit range"."""
    assert_comes_back(value, name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value",
    [
        {1: "a"},
        {(1, 2): 3},
        {None: 1, True: 2, 2.5: 3, b"k": 4},
        (1, [2, (3,)]),
        {1, 2},
        frozenset({(1,)}),
        Decimal("1.10"),
        (),
    ],
    ids=repr,
)
def test_case_42_types_come_back(name, value):
    """langgraph 2733: int keys become str, tuples lists, without a word."""
    assert_comes_back(value, name)


@pytest.mark.parametrize("name", FORMATS)
def test_case_45_a_constructor_payload_is_inert(name):
    """CVE-2025-64439: a stored dict that names a constructor is a dict."""
    payload = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "touch /tmp/never"}}
    assert_comes_back(payload, name)
    assert_comes_back({"__type__": "os.system", "py/object": "os.system", "!!python/object": "os.system"}, name)


def test_case_46_a_pickle_tag_is_refused():
    """CVE-2026-27794: no form of ours runs code; a tag or an extension that we do not know ends in an error."""
    serializer = StateSerializer("json")
    state = SessionState("s", "u", metadata={"x": "HERE"})
    pickled = "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAVmYWxzZZSFlFKULg=="
    for tag in ("$pickle", "$py", "$object"):
        data = serializer.dumps(state).replace(b'"HERE"', json.dumps({tag: pickled}).encode())
        with pytest.raises(DecodeError, match="not ours"):
            serializer.loads(data)
    head = StateSerializer().dumps(state)
    for code in (0, 17, 127, 128, 255):
        with pytest.raises(DecodeError, match="extension type"):
            StateSerializer().loads(head.replace(b"\xa4HERE", b"\xc7\x03" + bytes([code]) + b"\x80\x04."))
    # A caller's dict that looks like such a tag is data.
    for name in FORMATS:
        assert_comes_back({"$pickle": pickled}, name)


def test_the_state_imports_no_pickle_and_no_driver():
    code = (
        "import sys, holdall.state; "
        "print([m for m in ('pickle', 'shelve', 'asyncpg', 'redis', 'sqlite3', 'zstandard', 'cryptography', "
        "'google.protobuf', 'numpy', 'holdall.stores') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "value",
    [
        {"$keys": ["b"], "b": 1},
        {"$float": "nan"},
        {"$map": []},
        {"a": {"$tuple": [1]}},
        {"$": 1},
        {"bb": 1, "a": 2},
        {"": 0},
        {"é": 1, "zz": 2, "a": {"c": 1, "b": [{"y": 1, "x": 2}]}},
    ],
    ids=repr,
)
def test_a_dict_that_looks_like_a_tag_and_the_order_of_keys_come_back(name, value):
    assert_comes_back(value, name)


class _Str(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")  # noqa: PYI024


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param(object(), "metadata.value", id="object"),
        pytest.param({"a": [1, (2, lambda: 0)]}, "metadata.value.a[1][1]", id="function"),
        pytest.param(enum.Enum("Colour", "red").red, "metadata.value", id="enum"),
        pytest.param(OrderedDict(a=1), "metadata.value", id="dict subclass"),
        pytest.param([_Str("x")], "metadata.value[0]", id="str subclass"),
        pytest.param(Point(1, 2), "metadata.value", id="namedtuple"),
        pytest.param(1j, "metadata.value", id="complex"),
        pytest.param({"x y": {1: {2: memoryview(b"")}}}, 'metadata.value["x y"][1][2]', id="memoryview"),
        pytest.param({(1, object()): 1}, "metadata.value[tuple] (the key)[1]", id="key"),
        pytest.param({"a": array.array("u", "x")}, "metadata.value.a", id="array of characters")
        if sys.version_info < (3, 13)
        else pytest.param({"a": array.array("w", "x")}, "metadata.value.a", id="array of characters"),
    ],
)
def test_what_cannot_come_back_is_refused_with_its_path(name, value, path):
    state = SessionState("s", "u", metadata={"value": value})
    with pytest.raises(EncodeError) as caught:
        StateSerializer(name).snapshot(state)
    assert caught.value.path == path
    assert path in str(caught.value)


@pytest.mark.parametrize(("name", "limit"), [("msgpack", 498), ("json", 198), ("protobuf", 43)])
def test_depth_ends_in_an_error_with_its_path(name, limit):
    def nest(n, innermost=()):
        value = list(innermost)
        for _ in range(n - 1):
            value = [value]
        return value

    serializer = StateSerializer(name)
    for innermost in ((), (Decimal(1), 1.5, 2**70, time(fold=1))):
        state = SessionState("s", "u", metadata={"x": nest(limit, innermost)})
        assert serializer.loads(serializer.dumps(state)) == state
    deep = nest(limit - 5)
    for wrap in (lambda x: (x,), lambda x: {"k": x}, lambda x: {1: x, "$": time(1)}):
        state.metadata = {"x": wrap(deep)}
        assert serializer.loads(serializer.dumps(state)) == state
    state.metadata = {"x": nest(limit + 1)}
    with pytest.raises(EncodeError, match="deeper") as caught:
        serializer.dumps(state)
    assert caught.value.path.startswith("metadata.x[0]")


@pytest.mark.parametrize("name", FORMATS)
def test_numpy_arrays_come_back(name):
    np = pytest.importorskip("numpy")
    for value in (
        np.arange(6, dtype="float32").reshape(2, 3),
        np.array([], dtype="int8"),
        np.array(3.5),
        np.arange(4)[::-2],
    ):
        for found, read_only in round_trip(value, name):
            assert found.dtype == value.dtype
            assert found.shape == value.shape
            assert (found == value).all()
            assert found.flags.writeable is not read_only
    with pytest.raises(EncodeError, match="dtype object"):
        StateSerializer(name).dumps(SessionState("s", "u", metadata={"x": np.array([object()])}))
    with pytest.raises(EncodeError, match=r"float\(\.\.\.\)"):
        StateSerializer(name).dumps(SessionState("s", "u", metadata={"x": np.float64(1)}))


def test_embeddings_are_packed():
    vector = [n / 7 for n in range(1536)]
    narrow = [float(n) for n in range(1536)]
    plain = StateSerializer().dumps(SessionState("s", "u"))
    for floats, width in ((vector, 8), (narrow, 4)):
        data = StateSerializer().dumps(SessionState("s", "u", metadata={"v": floats}))
        assert len(data) - len(plain) <= width * 1536 + 16
        assert StateSerializer().loads(data).metadata["v"] == floats
