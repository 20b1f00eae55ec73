"""The recency rules and the table of type weights, from Python."""

from __future__ import annotations

import math
import pickle
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import PRIORITY_WEIGHTS, Recency
from holdall.errors import ArgumentError

TURNS = st.integers(-(2**63), 2**63 - 1)
RULES = [Recency.relative(), Recency.relative(0.5), Recency.half_life(), Recency.half_life(0.25), Recency.none()]


def test_weights_are_the_published_ones_and_read_only():
    """A caller who wants other weights passes a copy; the table itself never changes under anyone."""
    assert isinstance(PRIORITY_WEIGHTS, MappingProxyType)
    assert PRIORITY_WEIGHTS == {
        "system_prompt": 1.0,
        "current_turn": 0.95,
        "tool_schemas": 0.9,
        "recent_turns": 0.8,
        "rag_documents": 0.7,
        "tool_results": 0.6,
        "summary": 0.5,
        "older_history": 0.3,
    }
    with pytest.raises(TypeError):
        PRIORITY_WEIGHTS["summary"] = 1.0


@given(turn=st.integers(0, 1000), newest=st.integers(1, 1000), rate=st.floats(0, 20))
def test_relative_is_the_formula(turn, newest, rate):
    """exp(-rate x age / max_turn), whatever the number of items."""
    turn = min(turn, newest)
    assert Recency.relative(rate).at(turn, max_turn=newest) == pytest.approx(math.exp(-rate * (newest - turn) / newest))


@given(turn=st.integers(0, 1000), newest=st.integers(0, 1000), turns=st.floats(0.1, 1000))
def test_half_life_is_the_formula(turn, newest, turns):
    """0.5 ** (age / turns), whatever the length."""
    turn = min(turn, newest)
    assert Recency.half_life(turns).at(turn, max_turn=newest) == pytest.approx(0.5 ** ((newest - turn) / turns))


@given(turn=TURNS, newest=TURNS, rule=st.sampled_from(RULES))
def test_any_turns_give_a_share(turn, newest, rule):
    """Turn indices at the ends of the range neither overflow nor leave 0..1, and the newest is 1."""
    assert 0.0 <= rule.at(turn, max_turn=newest) <= 1.0
    assert rule.at(newest, max_turn=newest) == 1.0


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_recency_is_a_value(rule):
    """Equal, hashable, printable as the call that makes it, and picklable for process pools."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(rule, protocol))  # noqa: S301
        assert again == rule
        assert hash(again) == hash(rule)
    assert eval(repr(rule), {"Recency": Recency}) == rule  # noqa: S307
    assert [rule == other for other in RULES].count(True) == 1
    with pytest.raises(AttributeError):
        rule.rate = 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("make", [Recency.relative, Recency.half_life])
def test_bad_figures_are_refused_with_the_figure(make, bad):
    """The message holds the figure that was given and what is allowed."""
    with pytest.raises(ArgumentError, match=r"must be a finite number .* not (NaN|inf|-1)"):
        make(bad)
