"""Packing items: the promises, against brute force and against the textbook rule."""

from __future__ import annotations

import copy
import math
import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benches import textbook
from holdall import PRIORITY_WEIGHTS, ContextItem, ContextWindowPacker, PackResult, Recency, Rendition
from holdall.errors import ArgumentError, RequiredOverflowError, UnknownNameError
from tests import oracle_pack as oracle

TYPES = [*PRIORITY_WEIGHTS, "note"]
RELEVANCE = [0.0, 0.02, 0.3, 0.5, 1.0, 1.0]


def rendition(tokens: int, fidelity: float | None, blank: bool) -> Rendition:
    return Rendition(" " if blank else f"r{tokens}", fidelity, tokens=tokens)


renditions = st.lists(
    st.builds(
        rendition,
        st.integers(0, 30),
        st.none() | st.sampled_from([0.2, 0.5, 0.9]),
        st.sampled_from([False] * 5 + [True]),
    ),
    max_size=2,
)
items = st.builds(
    ContextItem,
    type=st.sampled_from(TYPES),
    content=st.sampled_from(["text", "text", "other", "", " \n", None]),
    position=st.integers(0, 6),
    turn_index=st.integers(0, 8),
    relevance_score=st.sampled_from(RELEVANCE),
    required=st.sampled_from([None, None, None, False, True]),
    group=st.sampled_from([None, None, None, "a", "b"]),
    renditions=renditions,
    tokens=st.integers(0, 30),
)
many = st.lists(items, max_size=6)
budgets = st.integers(1, 120)
strategies = st.sampled_from(["greedy", "optimal"])


def pack(
    some: list[ContextItem], budget: int, strategy: str = "optimal", **more: Any
) -> PackResult[ContextItem] | None:
    try:
        return ContextWindowPacker(budget, strategy=strategy, late_summary=False, **more).pack(some)
    except RequiredOverflowError as error:
        is_told = error.budget == budget < error.total == sum(tokens for _, tokens in error.items)
        return None if is_told else pytest.fail(f"the figures of {error!r} do not add up")


def is_subsequence(short: list[int], long: list[int]) -> bool:
    rest = iter(long)
    return all(n in rest for n in short)


@given(many, budgets, strategies)
def test_the_promises_hold(some: list[ContextItem], budget: int, strategy: str) -> None:
    """P1, P2, P4, P6, P7, P10, P11."""
    result = pack(some, budget, strategy)
    order = sorted(range(len(some)), key=lambda n: some[n].position)
    units = oracle.units(some, order)
    least = sum(min(t for t, _ in u.forms) for u in units if u.required)
    assert (result is None) == (least > budget)
    if result is None:
        return
    assert result.tokens <= result.budget == budget
    assert result.tokens == sum(item.tokens for item in result) == sum(k.tokens for k in result.kept)
    kept = {k.index: k for k in result.kept}
    dropped = {d.index: d for d in result.dropped}
    assert sorted([*kept, *dropped]) == list(range(len(some)))
    assert all(d.reason for d in result.dropped)
    for unit in units:
        assert len({n in kept for n in unit.members}) == 1
        assert not unit.required or unit.members[0] in kept
    shown = [n for n in order if n in kept]
    assert len(shown) == len(result)
    for n, item in zip(shown, result, strict=True):
        assert item.content.strip()
        if kept[n].rendition == "full":
            assert item is some[n]
        else:
            assert item.tokens < some[n].tokens
            assert item.content in [r.text for r in some[n].renditions]
            assert (item.turn_index, item.relevance_score) == (some[n].turn_index, some[n].relevance_score)
    again = pack(some, budget, strategy)
    assert again is not None
    assert list(again) == list(result)
    assert (again.kept, again.dropped) == (result.kept, result.dropped)


@given(many, budgets)
def test_optimal_is_brute_force(some: list[ContextItem], budget: int) -> None:
    """P8: no choice is worth more, the bound is the value, and greedy is never better."""
    result = pack(some, budget)
    expected = oracle.best(some, budget)
    assert (result is None) == (expected is None)
    if result is None or expected is None:
        return
    assert result.value == pytest.approx(sum(expected), rel=1e-6, abs=1e-9)
    assert result.bound == pytest.approx(result.value, rel=1e-9)
    greedy = pack(some, budget, "greedy")
    assert greedy is not None
    assert greedy.value <= result.value * (1 + 1e-9) + 1e-12
    assert greedy.bound == pytest.approx(result.bound, rel=1e-6, abs=1e-9)


@given(many, budgets, st.integers(0, 40))
def test_a_larger_budget_is_never_worse(some: list[ContextItem], budget: int, more: int) -> None:
    """P8, for items whose required ones have one form: with several, the required come first whatever they cost."""
    some = [
        item.replace(renditions=[])
        if item.required or PRIORITY_WEIGHTS.get(item.type, 0) >= 0.9 or item.group
        else item
        for item in some
    ]
    small, large = pack(some, budget), pack(some, budget + more)
    if small is not None:
        assert large is not None
        assert large.value >= small.value * (1 - 1e-9) - 1e-12


plain = st.builds(
    textbook.Item,
    type=st.sampled_from(TYPES),
    content=st.sampled_from(["text", "", "other"]),
    position=st.integers(0, 20),
    turn_index=st.integers(0, 9),
    relevance_score=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
    tokens=st.integers(1, 60),
)


@given(st.lists(plain, max_size=25), st.integers(1, 600))
def test_greedy_is_the_textbook_rule(some: list[textbook.Item], budget: int) -> None:
    """The same items in the same order, or an overflow on both sides."""
    ours = [
        ContextItem(i.type, i.content, i.position, {}, i.turn_index, i.relevance_score, tokens=i.tokens) for i in some
    ]
    try:
        expected = textbook.pack(some, budget)
    except textbook.OverflowingError:
        assert pack(ours, budget, "greedy") is None
        return
    result = pack(ours, budget, "greedy")
    assert result is not None
    of = {id(theirs): mine for theirs, mine in zip(some, ours, strict=True)}
    assert [id(item) for item in result] == [id(of[id(theirs)]) for theirs, _ in expected]


@pytest.mark.parametrize("budget", [1, 60, 700, 5_000, 20_000, 60_000])
@pytest.mark.parametrize("with_renditions", [False, True])
def test_greedy_is_the_textbook_rule_where_most_is_left_out(budget: int, with_renditions: bool) -> None:
    draw = random.Random(budget)
    ours, theirs = [], []
    for at in range(400):
        kind, score, tokens = (
            draw.choice(TYPES[3:]),
            draw.choice([0.0, 0.25, 0.5, 1.0]),
            draw.choice([0, 1, 20, 90, 400]),
        )
        shorter = [(f"s{at}", tokens // 3, 0.5), (f"t{at}", tokens // 9, 0.3)] if with_renditions else []
        forms = [Rendition(text, fidelity, tokens=size) for text, size, fidelity in shorter]
        ours.append(ContextItem(kind, f"x{at}", at, None, at // 7, score, renditions=forms, tokens=tokens))
        theirs.append(textbook.Item(kind, f"x{at}", at, at // 7, score, tokens, shorter))
    result = pack(ours, budget, "greedy")
    assert result is not None
    assert [(item.position, item.content) for item in result] == [
        (item.position, text) for item, text in textbook.pack(theirs, budget)
    ]


def test_a_greedy_choice_has_far_more_room_than_candidates() -> None:
    forced = ContextItem("note", "all", 0, required=True, tokens=2**53, renditions=[Rendition("some", 0.5, tokens=10)])
    more = ContextItem("note", "more", 1, tokens=5)
    result = pack([forced, more], 2**52, "greedy")
    assert result is not None
    assert [item.content for item in result] == ["some", "more"]


def test_everything_that_fits_comes_back_unchanged() -> None:
    """P5: the same objects, in conversation order, duplicates too."""
    twin = ContextItem("older_history", "twice", 3, tokens=4)
    some = [twin, ContextItem("recent_turns", "b", 1, tokens=2), twin, ContextItem("note", "c", 2, tokens=1)]
    for strategy in ("greedy", "optimal"):
        result = pack(some, 11, strategy)
        assert result is not None
        assert [id(item) for item in result] == [id(some[n]) for n in (1, 3, 0, 2)]
        assert result.dropped == ()
        assert result.value == result.bound


def test_fault_used_system_prompt_is_never_lost() -> None:
    """Faults: a system prompt that does not fit is an error with its figures, never silence."""
    some = [ContextItem("system_prompt", "s", 0, tokens=50), ContextItem("current_turn", "u", 1, tokens=60)]
    with pytest.raises(
        RequiredOverflowError, match=r"need 110 tokens but the budget is 100: item 0 .system_prompt. 50"
    ) as e:
        ContextWindowPacker(100).pack(some)
    assert (e.value.budget, e.value.total) == (100, 110)
    assert [tokens for _, tokens in e.value.items] == [50, 60]


def test_fault_required_items_are_not_taken_by_input_order() -> None:
    """Faults: an early required item must not push a heavier one out; all of them or an error."""
    some = [
        ContextItem("tool_schemas", "t", 0, tokens=80),
        ContextItem("system_prompt", "s", 1, tokens=30),
    ]
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(100).pack(some)


@pytest.mark.parametrize("reserve", [100, 101, 5_000])
def test_fault_reserve_that_leaves_nothing_is_refused(reserve: int) -> None:
    """Faults, A28: both figures are in the message."""
    with pytest.raises(ArgumentError, match=rf"output_reserve \({reserve}\) must be smaller than max_tokens \(100\)"):
        ContextWindowPacker(100, output_reserve=reserve)


def test_fault_newest_turn_scores_one() -> None:
    """Faults: recency goes by turns, not by the number of items: 500 items of 10 turns."""
    some = [ContextItem("recent_turns", f"{n}", n, turn_index=n // 50, tokens=10) for n in range(500)]
    result = pack(some, 1_000, "greedy")
    assert result is not None
    assert {item.turn_index for item in result} == {9, 8}
    assert result.value == pytest.approx((50 * 0.8 + 50 * 0.8 * math.exp(-2 / 9)) * 10**0.25)


def test_fault_turn_indices_larger_than_the_list() -> None:
    """Faults: turn indices may be anything; age stays between 0 and the span."""
    some = [
        ContextItem("recent_turns", "a", 0, turn_index=10**12, tokens=5),
        ContextItem("recent_turns", "b", 1, tokens=5),
    ]
    result = pack(some, 5, "greedy")
    assert result is not None
    assert [item.content for item in result] == ["a"]
    assert result.value == pytest.approx(0.8 * 5**0.25)
    extreme = [ContextItem("note", "a", 0, turn_index=n, tokens=3) for n in (-(2**63), 2**63 - 1)]
    assert pack(extreme, 3) is not None


def test_fault_empty_items_are_dropped_and_duplicates_stay() -> None:
    """Faults: an empty item has a reason; an exact duplicate is the caller's."""
    some = [ContextItem("note", text, 0, tokens=1) for text in ("a", "", " \t\n", None, "a")]
    result = pack(some, 10)
    assert result is not None
    assert [item.content for item in result] == ["a", "a"]
    assert [(d.index, d.reason) for d in result.dropped] == [(1, "empty"), (2, "empty"), (3, "empty")]


def test_fault_equal_positions_keep_their_order() -> None:
    """Faults: ties of position stay in the order they came."""
    some = [ContextItem("note", str(n), 7, tokens=1, relevance_score=n / 10) for n in range(10)]
    result = pack(some, 6)
    assert result is not None
    assert [item.content for item in result] == ["4", "5", "6", "7", "8", "9"]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.5])
def test_fault_relevance_must_be_a_number(score: float) -> None:
    """Faults: NaN relevance never reaches a comparison."""
    with pytest.raises(ArgumentError, match="relevance_score must be finite and at least 0"):
        ContextItem("note", "a", 0, relevance_score=score)


def test_fault_relevance_beats_shortness() -> None:
    """Faults: what is short must not push out what is right: the value grows with the tokens, and the choice is exact."""
    right = ContextItem("older_history", "long and right", 0, relevance_score=1.0, tokens=90)
    wrong = [ContextItem("older_history", "short", n, relevance_score=0.1, tokens=2) for n in range(1, 11)]
    result = pack([right, *wrong], 100)
    assert result is not None
    assert result[0] is right
    textbook_rule = pack([right, *wrong], 100, "greedy")
    assert textbook_rule is not None
    assert right not in list(textbook_rule)


def test_fault_mistyped_type_warns() -> None:
    """Faults: a near miss of a known type is said, and weighs what an unknown one does."""
    with pytest.warns(
        UserWarning, match=r'unknown item type "older_histroy" weighs 0.1; did you mean "older_history"\?'
    ):
        result = pack([ContextItem("older_histroy", "a", 0, tokens=1)], 10)
    assert result is not None
    assert result.value == pytest.approx(0.1)


def test_fault_renditions_keep_turn_relevance_and_own_metadata() -> None:
    """Faults: a smaller form keeps the fields of its item, and shares no metadata with it."""
    notes = {"id": [1]}
    item = ContextItem("rag_documents", "long", 5, notes, 3, 0.5, renditions=[Rendition("s", tokens=2)], tokens=50)
    notes["late"] = True
    assert item.metadata == {"id": [1]}
    result = pack([item], 10)
    assert result is not None
    shown = result[0]
    assert (shown.content, shown.turn_index, shown.relevance_score, shown.position) == ("s", 3, 0.5, 5)
    shown.metadata["x"] = 1
    assert item.metadata == {"id": [1]}
    assert result.kept[0].rendition == "rendition 1"


def test_bad_arguments_say_what_is_allowed() -> None:
    """Section 5: each is a typed error that names the argument."""
    with pytest.raises(UnknownNameError, match='unknown strategy "best"; known: optimal, greedy'):
        ContextWindowPacker(10, strategy="best")
    with pytest.raises(ArgumentError, match="max_tokens must be an int of at least 0, not -1"):
        ContextWindowPacker(-1)
    with pytest.raises(ArgumentError, match="nothing is left"):
        ContextWindowPacker(0)
    with pytest.raises(ArgumentError, match='the weight of "note" must be a finite number of at least 0'):
        ContextWindowPacker(10, weights={"note": math.nan})
    with pytest.raises(ArgumentError, match="item 0 must be a ContextItem, not dict"):
        ContextWindowPacker(10).pack([{"role": "user"}])
    with pytest.raises(ArgumentError, match="tokens must be an int of at least 0"):
        ContextItem("note", "a", 0, tokens=-1)
    with pytest.raises(ArgumentError, match="fidelity of a rendition must lie between 0 and 1"):
        Rendition("a", 1.0)
    with pytest.raises(ArgumentError, match="content must be a str, None or a list of text parts, not int"):
        ContextItem("note", 3, 0)


def test_recency_and_weights_are_the_callers() -> None:
    """The caller's weights go over the defaults, and decide what is required."""
    some = [ContextItem("note", "a", 0, tokens=5), ContextItem("recent_turns", "b", 1, turn_index=9, tokens=5)]
    heavy = pack(some, 5, weights={"note": 0.95}, recency=Recency.none())
    assert heavy is not None
    assert [item.content for item in heavy] == ["a"]
    light = pack(some, 5, recency=Recency.half_life(1))
    assert light is not None
    assert [item.content for item in light] == ["b"]


def test_items_are_values() -> None:
    """Equality, hash, pickle, copy and replace go by the fields."""
    item = ContextItem(
        "note", "a", 1, {"k": 1}, 2, 0.5, True, "g", ["short", ("mid", 0.4), Rendition("x", tokens=1)], 9
    )
    for twin in (pickle.loads(pickle.dumps(item)), copy.deepcopy(item), copy.copy(item), item.replace()):  # noqa: S301
        assert twin == item
        assert hash(twin) == hash(item)
    assert item.replace(position=2) != item
    assert item.replace(content="b").tokens is None
    assert [r.text for r in item.renditions] == ["short", "mid", "x"]
    assert [r.fidelity for r in item.renditions] == [None, 0.4, None]
    with pytest.raises(TypeError, match="no field 'colour'"):
        item.replace(colour=1)
    with pytest.raises(AttributeError):
        item.position = 3
    assert repr(ContextItem("note", "a", 1)) == "ContextItem(type='note', content='a', position=1)"
    assert ContextItem("note", "a", 1).metadata == {}
    assert ContextItem("note", "a", 1) != ContextItem("note", "a", 1, tokens=1)


def test_the_result_is_a_sequence_and_explains_itself() -> None:
    """A person reads budget, fate and reason; hostile text is escaped."""
    some = [ContextItem("note", "a\x1b[31m\u202eb", 0, tokens=3), ContextItem("note", "big", 1, tokens=50)]
    result = pack(some, 10)
    assert result is not None
    assert len(result) == 1
    assert result[0] is some[0]
    assert result[-1:] == (some[0],)
    assert some[0] in result
    assert list(reversed(result)) == [some[0]]
    assert result.index(some[0]) == 0
    assert repr(result) == "<PackResult: 1 kept, 1 dropped, 3 of 10 tokens>"
    text = result.explain()
    assert text.splitlines()[0] == "3 of 10 tokens (30%): 1 kept, 1 dropped"
    assert "item 1  note  dropped: too_large  50  big" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_many_lists_give_the_same_as_one_at_a_time() -> None:
    """pack_many: the same results, in order; an error of one list is raised."""
    lists = [
        [ContextItem("older_history", f"{n}", n, turn_index=n, tokens=1 + (n * k) % 9) for n in range(30)]
        for k in range(1, 12)
    ]
    packer = ContextWindowPacker(60)
    assert [list(r) for r in packer.pack_many(lists)] == [list(packer.pack(some)) for some in lists]
    with pytest.raises(RequiredOverflowError):
        packer.pack_many([*lists, [ContextItem("system_prompt", "s", 0, tokens=99)]])


def test_a_rendition_has_the_fields_of_its_item_and_its_own_notes() -> None:
    short = Rendition("short", 0.5, tokens=2)
    item = ContextItem("rag_documents", "long text", 3, {"a": [1]}, 2, 0.5, False, "g", [short], 50)
    (shown,) = ContextWindowPacker(10).pack([item])
    assert shown == item.replace(content="short", tokens=2, renditions=None)
    shown.metadata["b"] = 1
    assert item.metadata == {"a": [1]}
    assert pickle.loads(pickle.dumps(shown)) == shown  # noqa: S301
