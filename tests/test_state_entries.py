"""Entries are encoded once and written as they were encoded: nobody can tell from encoding them anew."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall._native import MSGPACK_MAX_DEPTH, Entries, msgpack_decode, msgpack_encode
from holdall.errors import ArgumentError, DecodeError, EncodeError, NewerStateError
from holdall.state import SessionState, StateSerializer, session
from holdall.state.codec import _head
from holdall.state.document import log_fields
from holdall.state.values import ReadOnlyDict, ReadOnlyList

SERIALIZER = StateSerializer()


def encoded_anew(state: SessionState) -> bytes:
    """The document as the encoder makes it of dicts and lists, with nothing kept."""
    document = _head(state)
    document["version"] = state.version
    document.update(log_fields(state))
    return msgpack_encode(document)


def message(text: object) -> dict[str, Any]:
    return {"role": "user", "content": text}


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9)),
        st.tuples(st.just("record"), st.integers(0, 4)),
        st.tuples(st.just("set"), st.integers(0, 9)),
        st.tuples(st.just("insert"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("unrecord"), st.integers(0, 4)),
        st.sampled_from([("save", 0), ("load", 0), ("look", 0), ("pickle", 0), ("copy", 0)]),
    ),
    max_size=20,
)


def edited(state: SessionState, what: str, n: int) -> SessionState:
    messages = state.messages if what not in ("load", "save") else []
    if what == "append":
        state.messages.append(message(n))
    elif what == "record":
        state.step_results[n] = ["é" * n, n]
    elif what == "unrecord" and n in state.step_results:
        del state.step_results[n]
    elif what == "insert":
        state.messages.insert(n, message([n]))
    elif what in ("set", "delete") and n < len(messages):
        if what == "set":
            messages[n] = message("x" * 40 * n)
        else:
            del messages[n]
    elif what == "save":
        snapshot = SERIALIZER.snapshot(state)
        state.mark_saved(state.version + 1, snapshot.pending)
    elif what == "load":
        return SERIALIZER.loads(SERIALIZER.dumps(state))
    elif what == "pickle":
        return pickle.loads(pickle.dumps(state))  # noqa: S301
    elif what == "copy":
        return state.copy()
    return state


@given(edits=EDITS)
def test_however_a_log_came_about_it_is_written_as_if_encoded_anew(edits):
    state = SessionState("é", "u")
    for what, n in edits:
        state = edited(state, what, n)
        if what != "load":
            assert SERIALIZER.dumps(state) == encoded_anew(state)
        for kind, item in enumerate(state.pending().items):
            assert item.bytes_of_value() == msgpack_encode(item.value), kind
    assert SERIALIZER.loads(SERIALIZER.dumps(state)) == state


class Kept:
    """`Entries` as a list: None where an entry is not at hand by itself."""

    def __init__(self) -> None:
        self.entries: list[bytes | None] = []

    def forget(self, n: int) -> None:
        self.entries[:n] = [None] * min(n, len(self.entries))


@given(
    calls=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.binary(max_size=5)),
            st.tuples(st.just("replace"), st.integers(0, 9), st.binary(max_size=5)),
            st.tuples(st.just("forget"), st.integers(0, 12)),
            st.tuples(st.just("forget_all"), st.integers(0, 5)),
        ),
        max_size=25,
    )
)
def test_entries_are_those_of_a_list(calls):
    ours, model = Entries(), Kept()
    for name, *args in calls:
        if name == "replace" and args[0] >= len(model.entries):
            continue
        getattr(ours, name)(*args)
        if name == "append":
            model.entries.append(args[0])
        elif name == "forget":
            model.forget(args[0])
        elif name == "forget_all":
            model.entries = [None] * args[0]
        elif model.entries[args[0]] is None:
            model.forget(len(model.entries))
        else:
            model.entries[args[0]] = args[1]
        assert [ours.get(at) for at in range(len(model.entries) + 2)] == [*model.entries, None, None]
        assert len(ours) == len(model.entries)
        assert ours.is_whole == all(entry is not None for entry in model.entries)


@pytest.mark.parametrize(
    "values",
    [
        {"summary": "\ud800", "plan": [2**80, (1,), {3}]},
        {"accumulated_cost": Decimal("1.10"), "ttl_seconds": 1.5, "token_count": -(2**63)},
        {"metadata": {1: float("inf"), b"x": None, (1, 2): -0.0}, "status": "", "ttl_seconds": None},
        {"session_id": "é" * 2048, "user_id": "\x01"},
    ],
)
def test_a_head_is_written_as_if_encoded_anew(values):
    state = SessionState("s", "u")
    for name, value in values.items():
        setattr(state, name, value)
    state.messages.append(message("é"))
    state.step_results["a"] = 1
    data = SERIALIZER.dumps(state)
    assert data == encoded_anew(state)
    assert SERIALIZER.loads(data) == state


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("session_id", "", ArgumentError),
        ("user_id", "a\0b", ArgumentError),
        ("session_id", "é" * 2049, ArgumentError),
        ("status", None, ArgumentError),
        ("metadata", [], ArgumentError),
        ("ttl_seconds", True, ArgumentError),
        ("plan", [{"a": object()}], EncodeError),
    ],
)
def test_what_is_wrong_with_a_head_is_said(name, value, error):
    state = SessionState("s", "u")
    setattr(state, name, value)
    with pytest.raises(error, match=name):
        SERIALIZER.dumps(state)


def test_values_that_a_subclass_computes_are_written():
    class Priced(SessionState):
        @property
        def summary(self) -> str:
            return f"{self.token_count} tokens"

        @summary.setter
        def summary(self, _value: object) -> None:
            pass

    state = Priced("s", "u", token_count=7)
    assert SERIALIZER.loads(SERIALIZER.dumps(state)).summary == "7 tokens"
    state = SessionState("s", "u", current_step=3)
    del state.current_step
    assert SERIALIZER.loads(SERIALIZER.dumps(state)).current_step == 0


def test_a_version_that_is_no_int_is_refused_when_it_is_read():
    state = SessionState("s", "u")
    state.version = "1"  # type: ignore[assignment]
    data = SERIALIZER.dumps(state)
    assert data == encoded_anew(state)
    with pytest.raises(DecodeError, match="version"):
        SERIALIZER.loads(data)


def nested(depth: int) -> dict[str, Any]:
    value: Any = None
    for _ in range(depth - 1):
        value = [value]
    return {"content": value}


def test_what_an_entry_may_hold_a_document_may():
    state = SessionState("s", "u")
    deepest = MSGPACK_MAX_DEPTH - 2
    state.messages.append(nested(deepest))
    state.step_results["a"] = nested(deepest - 1)
    with pytest.raises(EncodeError, match=r"messages\[1\].*nested deeper than"):
        state.messages.append(nested(deepest + 1))
    with pytest.raises(EncodeError, match=r"step_results\['b'\].*nested deeper than"):
        state.step_results["b"] = nested(deepest)
    assert SERIALIZER.dumps(SERIALIZER.loads(SERIALIZER.dumps(state))) == encoded_anew(state)


def test_a_state_ends_with_its_last_reference():
    """No cycle holds a conversation until the collector comes; what is read-only is none of the collector's business."""
    state = SessionState("s", "u")
    state.messages.append({"role": "user", "content": [{"type": "text"}]})
    state.step_results["a"] = [1]
    states = [state, SERIALIZER.loads(SERIALIZER.dumps(state)), copy.deepcopy(state)]
    gc.collect()
    gc.disable()
    try:
        while states:
            one = states.pop()
            assert not any(map(gc.is_tracked, (one.messages[0], one.messages[0]["content"], one.step_results["a"])))
            last = weakref.ref(one)
            state = one = None
            assert last() is None
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_log_that_was_made_ahead_is_that_which_is_read_when_asked_for(is_wanted, monkeypatch):
    state = SessionState("s", "u")
    for n in range(20):
        state.messages.append(message([n, {"n": n, "é": "x" * n}]))
        state.step_results[n % 15] = {"n": [n]}
    data = SERIALIZER.dumps(state)
    monkeypatch.setattr(session.last_log, "is_read", is_wanted)
    found = SERIALIZER.loads(data)
    assert ("_made" in vars(found)) == is_wanted
    assert SERIALIZER.dumps(found) == data
    assert not session.last_log.is_read
    assert found == state
    assert session.last_log.is_read
    assert list(found.log.items) == [item._replace(packed=None) for item in state.log.items]
    found.messages.append(message("more"))
    found.step_results[3] = "again"
    assert SERIALIZER.dumps(found) == encoded_anew(found)
    with pytest.raises(TypeError, match="read-only"):
        found.messages[0]["role"] = "x"


def test_a_log_is_made_ahead_where_the_one_before_was_asked_for():
    data = SERIALIZER.dumps(SessionState("s", "u"))
    SERIALIZER.loads(data).messages.clear()
    first, second = SERIALIZER.loads(data), SERIALIZER.loads(data)
    assert ("_made" in vars(first), "_made" in vars(second)) == (True, False)


@given(data=st.data())
def test_what_is_wrong_is_told_alike_whether_a_log_is_made_ahead_or_not(data):
    """Bytes changed anywhere, and what only decoding finds: keys that stand twice, steps that are none, depth.

    One wrong byte can be a fault in several places, of which each way may meet another first.
    """
    state = SessionState("s", "u", metadata={"a": 1})
    value = data.draw(st.sampled_from(["é", nested(40), {1: 2}, (1,), 2**70]))
    state.messages.extend([{"role": "user", "content": value}] * 3)
    state.step_results["a"] = value
    whole = bytearray(SERIALIZER.dumps(state))
    changed = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=3))
    for at in changed:
        whole[at] = data.draw(st.integers(0, 255))
    told: list[object] = []
    for is_wanted in (False, True):
        session.last_log.is_read = is_wanted
        try:
            found = SERIALIZER.loads(bytes(whole))
            told.append((found.session_id, list(found.messages), list(found.log.pairs), found.log.order))
        except (DecodeError, NewerStateError) as error:
            told.append(type(error) if changed else repr(error))
    assert repr(told[0]) == repr(told[1])


@pytest.mark.parametrize("depth", [31, 33, 490, 498, 499, 500])
@pytest.mark.parametrize("where", ["messages", "step_results"])
def test_depth_is_counted_alike_whether_a_log_is_made_ahead_or_not(where, depth):
    document = msgpack_decode(SERIALIZER.dumps(SessionState("s", "u")))
    entry = b"\x91" * depth + b"\xc0"
    log = {"messages": b"\x90", "step_results": b"\x90"} | {
        where: b"\x91" + (b"\x92\x01" if where == "step_results" else b"") + entry
    }
    fields = {name: msgpack_encode(value) for name, value in document.items()} | log
    data = b"\xde\x00" + bytes([len(fields)]) + b"".join(msgpack_encode(name) + value for name, value in fields.items())
    told = []
    for is_wanted in (False, True):
        session.last_log.is_read = is_wanted
        try:
            told.append(len(SERIALIZER.loads(data).log.items))
        except DecodeError as error:
            told.append((error.offset, error.reason))
    assert told[0] == told[1]
    assert (told[0] == 1) == (depth <= MSGPACK_MAX_DEPTH - 2 - (where == "step_results"))


def test_a_log_is_held_by_whoever_asked_for_it():
    state = SessionState("s", "u")
    state.messages.append(message("a"))
    log = state.log
    del state
    assert [item.value for item in log.items] == [message("a")]


def test_read_only_containers_end_as_containers_do():
    """Deep ones without a deep stack, each giving its reference to its class back, subclasses and cycles too."""
    ended = []

    class Noted(ReadOnlyDict):
        def __del__(self) -> None:
            ended.append(len(self))

    class Named(ReadOnlyList):
        __slots__ = ("name",)

    data = msgpack_encode({"a": [{"b": [1, {"c": "é"}]}] * 3})
    msgpack_decode(data, frozen=True)
    classes = (ReadOnlyDict, ReadOnlyList, Noted, Named)
    before = [sys.getrefcount(kind) for kind in classes]
    for _ in range(50):
        msgpack_decode(data, frozen=True)
        noted = Noted(a=1)
        named = Named([noted])
        named.name = named
        named.name = noted = named = None
    deep: Any = None
    for _ in range(100_000):
        deep = ReadOnlyList([ReadOnlyDict({"a": deep})])
    del deep
    assert (ended, [sys.getrefcount(kind) for kind in classes]) == ([1] * 50, before)
    if sys.version_info >= (3, 14):
        return  # the collector learns of a dict when it is made, not when a cycle is put into it behind its back
    for own in (ReadOnlyDict(), msgpack_decode(msgpack_encode({"a": 1}), frozen=True)):
        dict.__setitem__(own, "own", own)
    del own
    assert gc.collect() >= 2
    assert [sys.getrefcount(kind) for kind in classes] == before
