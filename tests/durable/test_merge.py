"""`holdall.state.merge`: what two workers made of one state, put together."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdall import ArgumentError, SessionState
from holdall.errors import MergeConflictError
from holdall.state.merge import MISSING, merge


def new(**fields: Any) -> SessionState:
    return SessionState(session_id="s", user_id="u", **fields)


def texts(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


def say(state: SessionState, *contents: str) -> SessionState:
    state.messages.extend({"role": "user", "content": content} for content in contents)
    return state


names = st.sampled_from(["a", "b", "c", "d"])
values = st.one_of(st.integers(0, 2), st.booleans(), st.floats(allow_nan=True), st.text(max_size=2))
trees = st.recursive(values, lambda inner: st.dictionaries(names, inner, max_size=3), max_leaves=6)
plans = st.lists(st.one_of(names, st.dictionaries(names, values, max_size=2)), max_size=4)


@st.composite
def changes(draw: st.DrawFn) -> list[Any]:
    """What a worker does to a state, as calls that can be made on any."""
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("say"), names),
                st.tuples(st.just("edit"), st.integers(0, 3), names),
                st.tuples(st.just("remove"), st.integers(0, 3)),
                st.tuples(st.just("step"), names, st.integers(0, 1)),
                st.tuples(st.just("cost"), st.integers(0, 9)),
                st.tuples(st.just("tokens"), st.integers(0, 9)),
                st.tuples(st.just("at"), st.integers(0, 9)),
                st.tuples(st.just("tool"), names),
                st.tuples(st.just("untool"), names),
                st.tuples(st.just("plan"), plans),
                st.tuples(st.just("summary"), names),
                st.tuples(st.just("put"), names, trees),
                st.tuples(st.just("pop"), names),
            ),
            max_size=5,
        )
    )


def changed(state: SessionState, calls: list[Any]) -> SessionState:
    state = state.copy()
    for what, *args in calls:
        if what == "say":
            say(state, *args)
        elif what == "edit" and args[0] < len(state.messages):
            state.messages[args[0]] = {"role": "user", "content": f"edited {args[1]}"}
        elif what == "remove" and args[0] < len(state.messages):
            del state.messages[args[0]]
        elif what == "step":
            state.step_results[args[0]] = args[1]
        elif what == "cost":
            state.add_cost(Decimal(args[0]) / 10)
        elif what == "tokens":
            state.token_count += args[0]
        elif what == "at":
            state.current_step = args[0]
        elif what == "tool":
            state.active_tools.append(args[0])
        elif what == "untool" and args[0] in state.active_tools:
            state.active_tools.remove(args[0])
        elif what == "plan":
            state.plan = args[0]
        elif what == "summary":
            state.summary = args[0]
        elif what == "put":
            state.metadata[args[0]] = args[1]
        elif what == "pop":
            state.metadata.pop(args[0], None)
    return state


def equal(one: SessionState, other: SessionState) -> bool:
    # repr, so that NaN equals NaN and 1 does not equal True; the order of keys is no part of a dict's value
    def fields(state: SessionState) -> list[Any]:
        return [
            [(item.kind, item.value) for item in state.log.items],
            state.summary,
            state.plan,
            state.active_tools,
            state.metadata,
            state.current_step,
            state.accumulated_cost,
            state.token_count,
            state.status,
        ]

    return canonical(fields(one)) == canonical(fields(other))


def canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {"dict": sorted((repr(key), canonical(item)) for key, item in value.items())}.__repr__()
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return repr(value)


bases = st.builds(lambda calls: changed(new(accumulated_cost=Decimal(0)), calls), changes())


@given(bases, changes())
def test_merging_with_the_base_gives_the_other_side(base: SessionState, calls: list[Any]) -> None:
    """Who had nobody beside it gets exactly what it made, on either side."""
    x = changed(base, calls)
    assert equal(merge(base, x, base), x)
    assert equal(merge(base, base, x), x)


@given(bases, changes(), changes())
def test_merging_what_is_merged_changes_nothing(base: SessionState, one: list[Any], other: list[Any]) -> None:
    """The result may be merged again, over either side's state."""
    try:
        merged = merge(base, changed(base, one), changed(base, other))
    except MergeConflictError:
        assume(False)
    assert equal(merge(merged, merged, merged), merged)
    theirs = changed(base, other)
    assert equal(merge(theirs, merged, theirs), merged)
    assert equal(merge(theirs, theirs, merged), merged)


def unordered(state: SessionState) -> SessionState:
    """The state with new entries, tools and plan in one order."""
    state = state.copy()
    state.messages = sorted(state.messages, key=repr)
    state.active_tools = sorted(set(state.active_tools))
    state.plan.sort(key=repr)
    results = dict(state.step_results)
    state.step_results = {}
    for step in sorted(results):
        state.step_results[step] = results[step]
    return state


@given(bases, changes(), changes())
def test_swapping_the_sides_changes_the_order_alone(base: SessionState, one: list[Any], other: list[Any]) -> None:
    """And a clash of one is a clash of the other, over the same field, the sides swapped."""
    a, b = changed(base, one), changed(base, other)
    try:
        merged = merge(base, a, b)
    except MergeConflictError as error:
        with pytest.raises(MergeConflictError):
            merge(base, b, a)
        assert error.field
        return
    assert equal(unordered(merged), unordered(merge(base, b, a)))


@st.composite
def additions(draw: st.DrawFn) -> list[Any]:
    """Changes that never clash: each of three workers has its own names."""
    return draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("say"), names),
                st.tuples(st.just("cost"), st.integers(0, 9)),
                st.tuples(st.just("tokens"), st.integers(0, 9)),
                st.tuples(st.just("at"), st.integers(5, 9)),
                st.tuples(st.just("tool"), names),
            ),
            max_size=5,
        )
    )


@given(bases, additions(), additions(), additions())
def test_three_workers_merge_in_either_grouping(base: SessionState, a: Any, b: Any, c: Any) -> None:
    """What the second merges with the third and the first with both is what the first two give the third."""
    x, y, z = (
        changed(base, [*calls, ("put", f"of {n}", n), ("step", f"step {n}", n)]) for n, calls in enumerate((a, b, c))
    )
    one, other = merge(base, x, merge(base, y, z)), merge(base, merge(base, x, y), z)
    # tools are a set: where nothing had to be merged they come as they were, in their order and as often
    one.active_tools = sorted(set(one.active_tools))
    other.active_tools = sorted(set(other.active_tools))
    assert equal(one, other)


def test_case_11_disjoint_changes_are_both_kept() -> None:
    """A sets a, B sets b, from the same version."""
    base = new(metadata={"kept": [1]})
    ours, theirs = base.copy(), base.copy()
    ours.metadata["a"] = 1
    theirs.metadata["b"] = {"c": 2}
    merged = merge(base, ours, theirs)
    assert merged.metadata == {"kept": [1], "a": 1, "b": {"c": 2}}
    merged.metadata["kept"].append(2)
    merged.metadata["b"]["c"] = 3
    assert (base.metadata, theirs.metadata["b"]) == ({"kept": [1]}, {"c": 2})


def test_the_log_adds_up_in_a_known_order() -> None:
    """The base, theirs, ours; equal messages of both are two messages; a step both did alike is one step."""
    base = say(new(), "1", "2")
    ours, theirs = say(base.copy(), "both", "ours"), say(base.copy(), "both", "theirs")
    ours.step_results["s"] = {"cost": 1}
    ours.step_results["mine"] = 1
    theirs.step_results["s"] = {"cost": 1}
    merged = merge(base, ours, theirs)
    assert texts(merged) == ["1", "2", "both", "theirs", "both", "ours"]
    assert merged.step_results == {"s": {"cost": 1}, "mine": 1}
    assert [item.kind for item in merged.log.items].count("step_result") == 2


def test_a_step_recorded_again_by_one_side_is_taken_from_it() -> None:
    """Also where the other recorded the old result once more, in front or behind."""
    base = new()
    base.step_results["s"] = "old"
    ours, theirs = base.copy(), base.copy()
    ours.step_results["s"] = "old"
    theirs.step_results["s"] = "new"
    assert merge(base, ours, theirs).step_results == {"s": "new"}
    assert merge(base, theirs, ours).step_results == {"s": "new"}


def test_tools_are_a_set() -> None:
    """Added by either: in; taken out by either: out; one that stands twice is one."""
    base = new(active_tools=["a", "b"])
    ours, theirs = new(active_tools=["a", "a", "b", "c"]), new(active_tools=["a", "d"])
    assert merge(base, ours, theirs).active_tools == ["a", "d", "c"]
    assert merge(base, theirs, ours).active_tools == ["a", "c", "d"]


def test_sums_are_of_differences() -> None:
    """Exact in Decimal, rounded once in float."""
    base = new(accumulated_cost=Decimal("0.1"), token_count=10)
    ours, theirs = base.copy(), base.copy()
    ours.add_cost(0.1)
    theirs.add_cost(Decimal("0.2"))
    ours.token_count += 5
    theirs.token_count = 0
    merged = merge(base, ours, theirs)
    assert (merged.accumulated_cost, merged.token_count) == (Decimal("0.4"), 5)
    floats = merge(new(accumulated_cost=0.1), new(accumulated_cost=0.3), new(accumulated_cost=0.2))
    assert floats.accumulated_cost == pytest.approx(0.4)
    assert merge(new(accumulated_cost=1), new(accumulated_cost=2), new(accumulated_cost=3)).accumulated_cost == 4
    assert merge(new(), new(accumulated_cost=float("inf")), new(accumulated_cost=1.0)).accumulated_cost == float("inf")


def test_edits_in_place_are_taken_from_who_made_them() -> None:
    """Entry by entry; what was appended comes behind."""
    base = say(new(), "1", "2", "3")
    ours, theirs = say(base.copy(), "4 of ours"), say(base.copy(), "4 of theirs")
    ours.messages[0] = {"role": "user", "content": "1 of ours"}
    theirs.messages[2] = {"role": "user", "content": "3 of theirs"}
    assert texts(merge(base, ours, theirs)) == ["1 of ours", "2", "3 of theirs", "4 of theirs", "4 of ours"]


def test_old_messages_that_one_side_removed_stay_removed() -> None:
    """As when a worker trims the conversation while another goes on with it."""
    base = say(new(), "1", "2", "3")
    ours, theirs = base.copy(), say(base.copy(), "4 of theirs")
    del ours.messages[:2]
    say(ours, "4 of ours")
    assert texts(merge(base, ours, theirs)) == ["3", "4 of theirs", "4 of ours"]
    assert texts(merge(base, theirs, ours)) == ["3", "4 of ours", "4 of theirs"]


def test_plan_steps_merge_by_key_and_new_ones_add_up() -> None:
    """One marks a step done, the other notes who does it, and both add one."""
    base = new(plan=[{"do": "look"}, {"do": "buy"}])
    ours, theirs = base.copy(), base.copy()
    ours.plan[0]["done"] = True
    theirs.plan[0]["by"] = "B"
    ours.plan.append("ours")
    theirs.plan.append("theirs")
    merged = merge(base, ours, theirs)
    assert merged.plan == [{"do": "look", "by": "B", "done": True}, {"do": "buy"}, "theirs", "ours"]


@pytest.mark.parametrize(
    ("field", "ours", "theirs"),
    [
        pytest.param("summary", {"summary": "a"}, {"summary": "b"}, id="summary"),
        pytest.param("status", {"status": "done"}, {"status": "failed"}, id="status"),
        pytest.param("ttl_seconds", {"ttl_seconds": 1}, {"ttl_seconds": None}, id="ttl"),
        pytest.param("metadata['x']['y']", {"metadata": {"x": {"y": 1}}}, {"metadata": {"x": {"y": True}}}, id="type"),
        pytest.param("metadata['k']", {"metadata": {}}, {"metadata": {"k": 2}}, id="removed and changed"),
        pytest.param("plan[0]", {"plan": ["x"]}, {"plan": ["y"]}, id="plan"),
    ],
)
def test_a_clash_names_the_field_and_holds_both_sides(field: str, ours: Any, theirs: Any) -> None:
    """And its text does not quote the values."""
    base = new(metadata={"k": 1}, plan=["z"])
    with pytest.raises(MergeConflictError) as caught:
        merge(base, new(**{"metadata": {"k": 1}, "plan": ["z"], **ours}), new(**{"plan": ["z"], **theirs}))
    error = caught.value
    assert error.field == field
    assert error.ours != error.theirs or type(error.ours) is not type(error.theirs)
    assert "differently" in str(error)


def test_a_removed_key_is_missing_in_the_error() -> None:
    """`MISSING`, which is no value that could be stored."""
    with pytest.raises(MergeConflictError) as caught:
        merge(new(metadata={"k": 1}), new(metadata={"k": 2}), new())
    assert (caught.value.base, caught.value.ours, caught.value.theirs) == (1, 2, MISSING)


def test_clashes_in_the_log_are_named() -> None:
    """The place among the messages, or the step."""
    base = say(new(), "1", "2")
    base.step_results["s"] = 0
    ours, theirs = base.copy(), base.copy()
    ours.messages[1] = {"role": "user", "content": "x"}
    theirs.messages[1] = {"role": "user", "content": "y"}
    with pytest.raises(MergeConflictError) as caught:
        merge(base, ours, theirs)
    assert caught.value.field == "messages[1]"
    ours, theirs = base.copy(), base.copy()
    ours.step_results["s"] = 1
    theirs.step_results["s"] = 2
    with pytest.raises(MergeConflictError) as caught:
        merge(base, ours, theirs)
    assert (caught.value.field, caught.value.ours, caught.value.theirs) == ("step_results['s']", 1, 2)
    ours, theirs = base.copy(), base.copy()
    del ours.messages[0]
    theirs.messages[1] = {"role": "user", "content": "y"}
    with pytest.raises(MergeConflictError) as caught:
        merge(base, ours, theirs)
    assert caught.value.field == "messages"


def test_states_of_several_sessions_do_not_merge() -> None:
    """Nor of several users."""
    with pytest.raises(ArgumentError):
        merge(new(), new(), SessionState(session_id="other", user_id="u"))
    with pytest.raises(ArgumentError):
        merge(new(), SessionState(session_id="s", user_id="other"), new())


ODD: list[Any] = [0, -0.0, True, None, "x", 2**70, float("nan"), float("inf"), 1e308, Decimal("NaN"), Decimal("sNaN")]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("accumulated_cost", [0, -0.0, True, 2**70, *ODD[6:]]),
        ("token_count", ODD),
        ("current_step", ODD),
        ("active_tools", [[], ["a"], ["a", "a"], [{"n": 1}], [1, True, 1.0], ("a",), None, "x", 5]),
        ("plan", [[], [1], [1, 1], [{"a": 1}], [{"a": 2}], (1,), None, "x", 5]),
    ],
)
def test_whatever_a_field_holds_it_merges_or_clashes(field: str, values: list[Any]) -> None:
    """Nothing checks these fields when a state is stored: what cannot be put together is a clash, and no other error."""
    for base, ours, theirs in itertools.product(values, repeat=3):
        sides = []
        for value in (base, ours, theirs):
            state = SessionState("s", "u")
            setattr(state, field, value)
            sides.append(state)
        try:
            merged = getattr(merge(*sides), field)
        except MergeConflictError as clash:
            assert clash.field.startswith(field)
            continue
        if theirs is base:
            assert merged is ours or repr(merged) == repr(ours)
