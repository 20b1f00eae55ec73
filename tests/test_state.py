"""SessionState: the log and its watermark, what is read-only, ids, costs, copies."""

from __future__ import annotations

import copy
import json
import pickle  # the states are this process's own
from decimal import Decimal

import pytest

from holdall.errors import ArgumentError, EncodeError
from holdall.state import SessionState, StateSerializer
from holdall.state.log import Items


def a_state(n=3):
    state = SessionState("s", "u")
    for i in range(n):
        state.messages.append({"role": "user", "content": f"message {i}"})
    return state


def save(state, serializer=None):
    """What a session store does, against a list: returns the stored log."""
    serializer = serializer or StateSerializer()
    snapshot = serializer.snapshot(state)
    log = state.__dict__.setdefault("_test_log", [])
    if snapshot.keep is not None:
        del log[snapshot.keep :]
    assert len(log) == snapshot.start
    log.extend(snapshot.append)
    state.mark_saved(state.version + 1, snapshot.pending)
    return snapshot


def stored(state):
    return StateSerializer().restore(StateSerializer().head(state), state.__dict__["_test_log"], version=state.version)


def test_fields_and_defaults_are_those_of_the_schema():
    state = SessionState("s", "u")
    assert (state.messages, state.summary, state.current_step, state.plan, state.step_results) == ([], None, 0, [], {})
    assert (state.active_tools, state.accumulated_cost, state.token_count, state.version) == ([], 0.0, 0, 0)
    assert (state.ttl_seconds, state.status, state.metadata) == (3600, "active", {})


def test_fields_may_be_given():
    state = SessionState("s", "u", messages=[{"role": "user"}], step_results={1: "a"}, plan=["x"], metadata={"k": 1})
    assert (state.messages, state.step_results, state.plan, state.metadata) == (
        [{"role": "user"}],
        {1: "a"},
        ["x"],
        {"k": 1},
    )
    assert [item.kind for item in state.log.items] == ["message", "step_result"]


def test_a_field_that_there_is_not_is_refused_and_not_lost_by_the_next_save():
    state = a_state(0)
    with pytest.raises(AttributeError, match=r"no field 'sumary'.*state.metadata\['sumary'\]"):
        state.sumary = "what was said"
    assert not hasattr(state, "sumary")

    class Mine(SessionState):
        """Who makes a class of their own knows what they put there."""

    mine = Mine("s", "u")
    mine.note = 1
    assert mine.note == 1


@pytest.mark.parametrize("one", [{"role": "user", "content": "hi"}, "hi", b"hi"])
def test_one_message_is_not_taken_for_several(one):
    """`messages += message` would add its keys."""
    state = a_state(1)
    for add in (state.messages.extend, state.messages.reset, lambda one: SessionState("s", "u", messages=one)):
        with pytest.raises(ArgumentError, match=r"not one (dict|str|bytes); append\(message\) adds one"):
            add(one)
    with pytest.raises(ArgumentError):
        state.messages += one
    assert len(state.messages) == 1


def test_an_answer_of_an_sdk_is_refused_with_what_to_store():
    class Answer:
        def model_dump(self, **options):
            return {}

    with pytest.raises(EncodeError, match=r"messages\[0\] is of type .*Answer, .*model_dump\(exclude_none=True\)"):
        a_state(0).messages.append(Answer())


def test_a_save_sends_only_what_is_new():
    state = a_state(3)
    assert len(save(state).append) == 3
    assert save(state).append == ()
    state.messages.append({"role": "assistant", "content": "x"})
    state.step_results[1] = "done"
    snapshot = save(state)
    assert (snapshot.keep, snapshot.start, [kind for kind, _ in snapshot.append]) == (
        None,
        3,
        ["message", "step_result"],
    )
    assert stored(state) == state


def test_an_edit_moves_the_watermark_back():
    state = a_state(5)
    save(state)
    state.messages[3] = {"role": "user", "content": "edited"}
    snapshot = save(state)
    assert (snapshot.keep, snapshot.start, len(snapshot.append)) == (3, 3, 2)
    assert stored(state) == state
    assert save(state) == (snapshot.head, "msgpack", 5, None, (), state.pending())


def test_seq_counts_over_both_kinds():
    state = a_state(2)
    state.step_results["a"] = 1
    state.messages.append({"role": "user", "content": "after"})
    save(state)
    state.messages[2] = {"role": "user", "content": "edited"}
    assert state.pending().keep == 3


@pytest.mark.parametrize(
    ("edit", "keep"),
    [
        pytest.param(lambda m: m.__delitem__(1), 1, id="del"),
        pytest.param(lambda m: m.pop(), 4, id="pop"),
        pytest.param(lambda m: m.pop(0), 0, id="pop first"),
        pytest.param(lambda m: m.insert(2, {"role": "user"}), 2, id="insert"),
        pytest.param(lambda m: m.insert(-1, {"role": "user"}), 4, id="insert before last"),
        pytest.param(lambda m: m.insert(99, {"role": "user"}), None, id="insert at end"),
        pytest.param(lambda m: m.remove({"role": "user", "content": "message 3"}), 3, id="remove"),
        pytest.param(lambda m: m.clear(), 0, id="clear"),
        pytest.param(lambda m: m.reverse(), 0, id="reverse"),
        pytest.param(lambda m: m.sort(key=lambda x: x["content"], reverse=True), 0, id="sort"),
        pytest.param(lambda m: m.__setitem__(slice(3, None), [{"role": "tool"}]), 3, id="slice"),
        pytest.param(lambda m: m.__delitem__(slice(1, 3)), 1, id="del slice"),
        pytest.param(lambda m: m.__iadd__([{"role": "user"}]), None, id="iadd"),
        pytest.param(lambda m: m.__imul__(2), None, id="imul"),
        pytest.param(lambda m: m.reset([*m[:4], {"role": "user"}]), 4, id="reset"),
        pytest.param(lambda m: m.reset(list(m)), None, id="reset to the same"),
    ],
)
def test_every_way_to_edit_is_that_of_a_list_and_is_saved(edit, keep):
    state = a_state(5)
    save(state)
    plain = [dict(message) for message in state.messages]
    if not (edit.__code__.co_names and edit.__code__.co_names[0] == "reset"):
        edit(plain)
        edit(state.messages)
        assert state.messages == plain
    else:
        edit(state.messages)
    assert state.pending().keep == keep
    save(state)
    assert stored(state) == state
    assert list(state.log.items) == list(Items.of(list(state.log.items)))
    assert len(state.log.items) == len(state.messages)


def test_assigning_a_longer_list_costs_what_is_new():
    state = a_state(5)
    save(state)
    state.messages = [*[dict(message) for message in state.messages], {"role": "user", "content": "new"}]
    pending = state.pending()
    assert (pending.keep, pending.start, len(pending.items)) == (None, 5, 1)


def test_a_failed_save_leaves_the_watermark():
    """S3, in memory too: without `mark_saved` the next save sends the same."""
    state = a_state(2)
    serializer = StateSerializer()
    assert serializer.snapshot(state) == serializer.snapshot(state)
    assert (state.version, state.pending().start) == (0, 0)


def test_what_is_appended_during_a_save_is_sent_by_the_next():
    state = a_state(2)
    snapshot = StateSerializer().snapshot(state)
    state.messages.append({"role": "user", "content": "meanwhile"})
    state.mark_saved(1, snapshot.pending)
    assert (state.pending().start, len(state.pending().items)) == (2, 1)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_edited_during_a_save_is_sent_by_the_next(at):
    state = a_state(3)
    save(state)
    state.messages += [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    snapshot = StateSerializer().snapshot(state)
    state.messages[at + 1] = {"role": "user", "content": "edited"}
    state.mark_saved(2, snapshot.pending)
    pending = state.pending()
    assert (pending.keep, pending.start) == (at + 1, at + 1)


def test_what_is_removed_during_a_save_is_cut_by_the_next():
    state = a_state(3)
    snapshot = StateSerializer().snapshot(state)
    state.messages.pop(0)
    state.mark_saved(1, snapshot.pending)
    assert state.pending().keep == 0
    assert len(state.pending().items) == 2


def test_case_8_a_snapshot_is_of_the_instant():
    """langgraph 4168: what is stored is the state as it was when the call was made."""
    state = SessionState("s", "u")
    message = {"role": "user", "content": ["before"]}
    state.messages.append(message)
    state.metadata["xs"] = ["before"]
    message["content"].append("after the append")
    serializer = StateSerializer()
    snapshot = serializer.snapshot(state)
    state.metadata["xs"].append("after")
    state.messages.append({"role": "user", "content": "after"})
    restored = serializer.restore(snapshot.head, snapshot.append)
    assert restored.messages == [{"role": "user", "content": ["before"]}]
    assert restored.metadata == {"xs": ["before"]}


@pytest.mark.parametrize(
    "mutate",
    [
        pytest.param(lambda m: m.__setitem__("content", "x"), id="dict"),
        pytest.param(lambda m: m.update(content="x"), id="update"),
        pytest.param(lambda m: m.pop("content"), id="pop"),
        pytest.param(lambda m: m["parts"].append("x"), id="list"),
        pytest.param(lambda m: m["parts"][0].__setitem__("a", 2), id="nested dict"),
        pytest.param(lambda m: m["parts"].__iadd__([1]), id="iadd"),
        pytest.param(lambda m: m["tags"].add("x"), id="set"),
        pytest.param(lambda m: m["raw"].append(1), id="bytearray"),
    ],
)
def test_an_appended_message_is_read_only(mutate):
    """An edit in place would be lost without a word, so it is refused with one that says how to edit."""
    state = SessionState("s", "u")
    state.messages.append({"content": "c", "parts": [{"a": 1}], "tags": {"t"}, "raw": bytearray(b"x")})
    for one in (state, StateSerializer().loads(StateSerializer().dumps(state))):
        with pytest.raises(TypeError, match=r"read-only.*state.messages\[i\] = "):
            mutate(one.messages[0])


def test_a_message_reads_as_plain_values():
    state = SessionState("s", "u")
    message = {"role": "user", "parts": [{"type": "text", "text": "é"}], "n": 1}
    state.messages.append(message)
    assert json.loads(json.dumps(state.messages)) == [message]
    twin = copy.deepcopy(state.messages[0])
    twin["role"] = "tool"
    assert (type(twin), type(twin["parts"]), state.messages[0]["role"]) == (dict, list, "user")


def test_a_step_recorded_twice_keeps_the_last():
    state = SessionState("s", "u")
    state.step_results["a"] = 1
    state.step_results["b"] = 2
    state.step_results["a"] = 3
    save(state)
    assert (state.step_results, list(stored(state).step_results)) == ({"a": 3, "b": 2}, ["a", "b"])
    assert stored(state) == state
    del state.step_results["a"]
    save(state)
    assert stored(state).step_results == {"b": 2}


def test_step_results_behave_as_a_dict():
    state, plain = SessionState("s", "u"), {}
    for results in (state.step_results, plain):
        results.update({1: "a", "x": [1]}, y=2)
        results |= {"z": 3}
        assert results.setdefault(1, "b") == "a"
        assert results.setdefault("new", "b") == "b"
        assert results.pop("y") == 2
        assert results.pop("gone", 5) == 5
        assert results.popitem() == ("new", "b")
    assert state.step_results == plain
    save(state)
    assert stored(state).step_results == plain
    state.step_results = {"x": [1]}
    save(state)
    assert stored(state).step_results == {"x": [1]}
    state.step_results.clear()
    assert (state.step_results, state.pending().keep) == ({}, 0)


def test_a_step_is_an_int_or_a_str():
    with pytest.raises(ArgumentError, match="int or a str"):
        SessionState("s", "u").step_results[1.5] = 1


def test_a_message_that_cannot_be_stored_is_refused_with_its_path_and_changes_nothing():
    state = a_state(3)
    with pytest.raises(EncodeError) as caught:
        state.messages.append({"role": "user", "content": [object()]})
    assert (caught.value.path, len(state.messages), len(state.log.items)) == ("messages[3].content[0]", 3, 3)
    with pytest.raises(EncodeError):
        state.messages.extend([{"role": "user"}, {"role": object()}])
    with pytest.raises(EncodeError):
        state.messages[0] = {"role": object()}
    with pytest.raises(EncodeError) as caught:
        state.step_results["a"] = {"x": object()}
    assert caught.value.path == "step_results['a'].x"
    assert (len(state.messages), len(state.log.items), state.step_results) == (3, 3, {})
    state.metadata["x"] = {"y": object()}
    with pytest.raises(EncodeError) as caught:
        StateSerializer().snapshot(state)
    assert caught.value.path == "metadata.x.y"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("", id="empty"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("x" * 4097, id="4097 bytes"),
        pytest.param("é" * 2049, id="4098 bytes of UTF-8"),
        pytest.param("\ud800", id="lone surrogate"),
        pytest.param(None, id="None"),
        pytest.param(7, id="int"),
    ],
)
def test_case_57_ids_that_no_store_can_hold_are_refused(bad):
    """dbos 759: an empty id makes a row that can never be resumed. Cases 38 and 57: NUL, None, 10 KB too."""
    for args in ((bad, "u"), ("s", bad)):
        with pytest.raises(ValueError, match=r"session_id|user_id"):
            SessionState(*args)
    state = SessionState("s", "u")
    state.session_id = bad
    with pytest.raises(ValueError, match="session_id"):
        StateSerializer().head(state)


def test_ids_are_opaque():
    for name in ("x" * 4096, "é:*{}[]'\"\\ \n", "a/b", "-.#@?"):
        assert SessionState(name, name).session_id == name


def test_costs_add_exactly_where_decimal():
    state = SessionState("s", "u", accumulated_cost=Decimal(0))
    for _ in range(10):
        state.add_cost(0.1)
    assert state.accumulated_cost == Decimal(1)
    state = SessionState("s", "u")
    state.accumulated_cost += 0.25
    assert (state.add_cost(0.5), type(state.add_cost(Decimal("0.25")))) == (0.75, Decimal)


def test_copies_are_independent_and_equal():
    state = a_state(3)
    state.step_results[0] = {"a": [1]}
    save(state)
    state.metadata = {"k": [1]}
    for twin in (state.copy(), copy.copy(state), copy.deepcopy(state), pickle.loads(pickle.dumps(state))):  # noqa: S301
        assert twin == state
        assert (twin.version, twin.pending()[:2]) == (state.version, state.pending()[:2])
        twin.messages.append({"role": "user", "content": "only there"})
        twin.metadata["k"].append(2)
        assert (len(state.messages), state.metadata) == (3, {"k": [1]})


def test_a_state_prints_without_its_content():
    state = a_state(1)
    state.metadata = {"secret": "hunter2"}
    assert "message 0" not in repr(state)
    assert "hunter2" not in repr(state)
