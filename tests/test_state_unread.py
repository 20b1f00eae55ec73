"""A loaded log is decoded when somebody asks for it, and written as it was encoded: nobody can tell by the values."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from holdall._native import msgpack_decode, msgpack_encode
from holdall.errors import DecodeError, NewerStateError
from holdall.state import SessionState, StateSerializer, session

SERIALIZER = StateSerializer()


def a_state(n: int = 3) -> SessionState:
    state = SessionState("s", "u", metadata={"k": [1, 2.5, None]})
    for step in range(n):
        state.messages.append({"role": "user", "content": f"é {step}", "parts": [{"type": "text", "n": -step}]})
        state.step_results[step if step % 2 else str(step)] = {"ok": True, "data": b"\x00\xff"}
    return state


def changed(state: SessionState, **fields: object) -> bytes:
    return msgpack_encode(msgpack_decode(SERIALIZER.dumps(state)) | fields)


def test_a_log_stays_unread_until_somebody_asks_for_it():
    state = a_state()
    data = SERIALIZER.dumps(state)
    for ask in (lambda s: s.messages, lambda s: s.step_results, lambda s: s.log, repr, copy.copy, lambda s: s == state):
        found = SERIALIZER.loads(data)
        assert (found.session_id, found.version, found.metadata) == ("s", 0, {"k": [1, 2.5, None]})
        assert found.unread is not None
        ask(found)
        assert found.unread is None
        assert found == state
        assert list(found.log.items) == [item._replace(packed=None) for item in state.log.items]


def test_what_is_loaded_is_read_only_and_can_be_saved():
    found = SERIALIZER.loads(SERIALIZER.dumps(a_state()))
    with pytest.raises(TypeError):
        found.messages[0]["role"] = "x"
    found.messages.append({"role": "user", "content": "more"})
    found.step_results[0] = None
    assert [item.kind for item in found.pending().items] == ["message", "step_result"] * 4
    assert SERIALIZER.loads(SERIALIZER.dumps(found)) == found


def test_an_assigned_log_replaces_what_is_unread():
    found = SERIALIZER.loads(SERIALIZER.dumps(a_state()))
    found.messages = [{"role": "user", "content": "new"}]
    assert SERIALIZER.loads(SERIALIZER.dumps(found)).messages == [{"role": "user", "content": "new"}]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 65_535, 65_536])
def test_entries_at_hand_are_written_as_the_encoder_writes_them(n):
    state = SessionState("s", "u")
    state.messages.extend([{"role": "user"}] * n)
    state.step_results = {"a": 1}
    data = SERIALIZER.dumps(state)
    assert msgpack_encode(msgpack_decode(data)) == data
    found = SERIALIZER.loads(data)
    assert SERIALIZER.dumps(found) == data  # unread
    assert len(found.messages) == n
    assert SERIALIZER.dumps(found) == data  # read, and encoded anew


def test_order_is_written_where_kinds_alternate():
    data = SERIALIZER.dumps(a_state(30))
    assert msgpack_encode(msgpack_decode(data)) == data
    assert msgpack_decode(data)["_order"] == b"\x00\x01" * 30
    found = SERIALIZER.loads(data)
    found.summary = "changed"
    assert SERIALIZER.dumps(found) == changed(a_state(30), summary="changed")


def test_edited_entries_are_written_in_their_order():
    state = a_state(5)
    state.messages.insert(1, {"role": "user", "content": "between"})
    state.messages[2] = {"role": "user", "content": "other"}
    del state.messages[4]
    data = SERIALIZER.dumps(state)
    assert msgpack_encode(msgpack_decode(data)) == data
    assert SERIALIZER.loads(data) == state
    assert [item.kind for item in SERIALIZER.loads(data).log.items] == [item.kind for item in state.log.items]


@pytest.mark.parametrize("rare", [(1, 2), {3}, date(2026, 1, 2), {1: "int key"}, 2**80, [0.5] * 20, "\ud800"])
def test_rare_values_are_decoded_at_once(rare):
    state = a_state()
    state.messages.append({"role": "user", "content": rare})
    state.step_results["r"] = rare
    found = SERIALIZER.loads(SERIALIZER.dumps(state))
    assert found.unread is None or "_made" in vars(found)
    assert found == state
    assert type(found.messages[-1]["content"]).__mro__[-2:] == type(rare).__mro__[-2:]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": 3}, "status"),
        ({"session_id": ""}, "session_id"),
        ({"user_id": "a\0"}, "user_id"),
        ({"version": "1"}, "version"),
        ({"messages": {}}, "messages"),
        ({"step_results": [[1]]}, "step_results"),
        ({"step_results": [[True, 1]]}, "step_results"),
        ({"step_results": [[1, 2], [None, 1]]}, "step_results"),
        ({"_order": b"\x00"}, "_order"),
        ({"_order": b"\x00\x00\x00\x01\x01\x02"}, "_order"),
        ({"_order": "text"}, "_order"),
        ({"other": 1}, "other"),
    ],
)
def test_wrong_fields_are_refused_when_they_are_loaded(fields, reason):
    with pytest.raises(DecodeError, match=reason):
        SERIALIZER.loads(changed(a_state(), **fields))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (b"\xa4role\xa4user", b"\xa4role\xa4us\xffr"),
        (b"\xa4role", b"\xa4ro\xffe"),
        (b"\x83\xa4role\xa4user\xa7content", b"\x83\xa4role\xa4user\xa7content\xc1"),
        (b"\xa5parts", b"\xa4role"),
        (b"\xc4\x02\x00\xff", b"\xd4\x63\x00\x00"),
    ],
)
def test_a_damaged_entry_is_refused_when_it_is_loaded(good, bad):
    data = SERIALIZER.dumps(a_state())
    assert good in data
    with pytest.raises(DecodeError) as caught:
        SERIALIZER.loads(data.replace(good, bad))
    with pytest.raises(DecodeError) as plain:
        msgpack_decode(data.replace(good, bad))
    assert (caught.value.offset, caught.value.reason) == (plain.value.offset, plain.value.reason)


def test_every_truncation_is_refused_when_it_is_loaded():
    data = SERIALIZER.dumps(a_state(2))
    for n in range(len(data)):
        with pytest.raises(DecodeError):
            SERIALIZER.loads(data[:n])
    with pytest.raises(DecodeError):
        SERIALIZER.loads(data + b"\xc0")


def test_fields_that_are_missing_have_their_defaults_and_newer_states_are_refused():
    document = msgpack_decode(SERIALIZER.dumps(a_state()))
    del document["plan"], document["version"]
    assert SERIALIZER.loads(msgpack_encode(document)) == a_state()
    with pytest.raises(NewerStateError):
        SERIALIZER.loads(msgpack_encode(document | {"_version": 99}))


def relaid(document: dict[str, object], layout: str) -> bytes:
    """The same document as another writer may lay it out."""
    if layout == "reversed":
        return msgpack_encode(dict(reversed(document.items())))
    if layout == "order of none":
        return msgpack_encode(document | {"_order": None})
    pairs = b"".join(msgpack_encode(name) + msgpack_encode(value) for name, value in document.items())
    return b"\xdf" + len(document).to_bytes(4, "big") + pairs


@pytest.mark.parametrize("is_wanted", [False, True])
@pytest.mark.parametrize("layout", ["reversed", "order of none", "wide header"])
def test_documents_of_other_layouts_give_the_same_state(layout, is_wanted):
    state = a_state(0) if layout == "order of none" else a_state(5)
    state.messages.extend([{"role": "user", "content": "é"}] * 3)
    state.step_results["last"] = {"ok": [1.5, None]}
    session.last_log.is_read = is_wanted
    found = SERIALIZER.loads(relaid(msgpack_decode(SERIALIZER.dumps(state)), layout))
    assert found == state
    assert [item.kind for item in found.log.items] == [item.kind for item in state.log.items]
    assert SERIALIZER.dumps(found) == SERIALIZER.dumps(state)


def test_loaded_states_share_nothing_that_changes():
    data = SERIALIZER.dumps(a_state())
    for _ in range(3):
        one, other = SERIALIZER.loads(data), SERIALIZER.loads(data)
        one.metadata["k"] = 1
        one.plan.append("x")
        one.messages.append({"role": "user", "content": "of one"})
        one.generation = "g"
        one.summary = "one"
        assert other == a_state()
        assert (other.generation, "generation" in vars(other)) == ("", False)


@pytest.mark.parametrize("is_made", [False, True])
def test_threads_that_ask_first_get_one_log(is_made):
    data = SERIALIZER.dumps(a_state(200))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            session.last_log.is_read = is_made
            found = SERIALIZER.loads(data)
            logs = list(pool.map(lambda _, found=found: found.messages, range(8)))
            assert all(log is found.messages for log in logs)
