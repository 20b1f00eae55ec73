"""The solver, through Python, against brute force and a plain table written apart from it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import _native
from holdall.errors import ArgumentError

FIGURE = st.one_of(st.integers(0, 9), st.integers(0, 300))
CANDIDATE = st.one_of(st.tuples(FIGURE, FIGURE), FIGURE.map(lambda n: (n, n)), FIGURE.map(lambda n: (n, n + 30)))
CLASSES = st.lists(st.lists(CANDIDATE, max_size=3), max_size=7)


def brute_force(classes, budget):
    """The largest value of any choice, by trying them all."""
    best = 0
    for choice in itertools.product(*([(0, 0), *forms] for forms in classes)):
        if sum(weight for weight, _ in choice) <= budget:
            best = max(best, sum(value for _, value in choice))
    return best


def plain_table(classes, budget):
    """The largest value of any choice, by a table over all budgets."""
    best = [0] * (budget + 1)
    for forms in classes:
        before = best.copy()
        for weight, value in forms:
            for room in range(weight, budget + 1):
                best[room] = max(best[room], before[room - weight] + value)
    return best[budget]


def check(classes, budget, choice):
    """The choice adds up, fits, and does not exceed its bound; its value."""
    picks, weight, value, bound, _ = choice
    picked = [forms[pick] for forms, pick in zip(classes, picks, strict=True) if pick is not None]
    assert weight == sum(w for w, _ in picked) <= budget
    assert value == sum(v for _, v in picked) <= bound
    return value


@given(candidates=st.lists(CANDIDATE, max_size=11), share=st.floats(0, 1.1))
def test_zero_one_is_brute_force(candidates, share):
    """Nothing within the budget is worth more, and the bound says so."""
    classes = [[one] for one in candidates]
    budget = int(share * sum(weight for weight, _ in candidates))
    weights, values = [w for w, _ in candidates], [v for _, v in candidates]
    choice = _native._knapsack_zero_one(weights, values, budget)
    assert check(classes, budget, choice) == choice[3] == brute_force(classes, budget)
    assert choice == _native._knapsack_zero_one(weights, values, budget)


@given(classes=CLASSES, share=st.floats(0, 1.1))
def test_choices_are_brute_force_and_never_behind_greedy(classes, share):
    """At most one form of each class, and no such choice within the budget is worth more."""
    budget = int(share * sum(max((w for w, _ in forms), default=0) for forms in classes))
    choice = _native._knapsack_choices(classes, budget)
    assert check(classes, budget, choice) == choice[3] == brute_force(classes, budget)
    assert check(classes, budget, _native._knapsack_greedy(classes, budget)) <= choice[2]


@given(classes=st.lists(st.lists(CANDIDATE, min_size=1, max_size=3), min_size=20, max_size=60), share=st.floats(0, 0.5))
def test_many_classes_agree_with_a_table(classes, share):
    """Where brute force is out of reach a plain dynamic program is the judge."""
    budget = int(share * sum(max(w for w, _ in forms) for forms in classes))
    choice = _native._knapsack_choices(classes, budget)
    assert check(classes, budget, choice) == choice[3] == plain_table(classes, budget)


@given(classes=CLASSES, budget=st.integers(0, 600), max_states=st.integers(0, 30))
def test_past_a_limit_the_bound_still_holds(classes, budget, max_states):
    """The best so far, never behind the textbook rule, and a bound that the optimum does not exceed."""
    choice = _native._knapsack_choices(classes, budget, max_states=max_states)
    assert check(classes, budget, choice) >= _native._knapsack_greedy(classes, budget)[2]
    assert choice[3] >= brute_force(classes, budget)


@given(classes=CLASSES, budget=st.integers(0, 600))
def test_a_larger_budget_is_never_worth_less(classes, budget):
    """The value is monotonic in the budget."""
    values = [_native._knapsack_choices(classes, budget + more)[2] for more in range(8)]
    assert values == sorted(values)


@pytest.mark.parametrize("deadline_s", [0.0, 1e-9, 1e300])
def test_a_deadline_is_opt_in_and_gives_a_sound_choice(deadline_s):
    """A deadline in the past gives the best so far; one beyond the clock is none."""
    classes = [[(n % 97 + 1, n % 97 + 11)] for n in range(500)]
    choice = _native._knapsack_choices(classes, 5_000, deadline_s=deadline_s)
    best = _native._knapsack_choices(classes, 5_000)
    assert check(classes, 5_000, choice) <= best[2] <= choice[3]


def test_figures_outside_the_domain_are_refused_with_the_figure():
    """Sums beyond 2**53, lengths that differ and a deadline that is not a number."""
    with pytest.raises(ArgumentError, match="9007199254740993"):
        _native._knapsack_zero_one([1, 1], [2**53, 1], 1)
    with pytest.raises(ArgumentError, match="2 weights but 1 values"):
        _native._knapsack_zero_one([1, 2], [1], 1)
    with pytest.raises(ArgumentError, match=r"deadline_s .* NaN"):
        _native._knapsack_choices([[(1, 1)]], 1, deadline_s=float("nan"))
    with pytest.raises(ArgumentError, match=r"2\^53"):
        _native._knapsack_choices([[(2**64 - 1, 1)]], 2**54)
