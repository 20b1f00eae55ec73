"""What strategies send: valid windows, decisions that stick, and the check that says so."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import Tokenizer, count_messages
from holdall.errors import ArgumentError, StrategyError, UnknownNameError
from holdall.replay import PRICES, STRATEGIES, Question, Request, Row, Trace, Window, replay
from holdall.replay.registry import maker, names_of
from holdall.replay.replay import Replay
from holdall.replay.run import Task, replay_one
from tests.checker import pair_faults
from tests.replay.conversations import (
    SYSTEM,
    agent,
    as_anthropic,
    as_responses,
    call,
    conversations,
    result,
    says,
    user,
)

TOK = Tokenizer("o200k_base")
PRICE = PRICES["claude-sonnet-5-5"]
OURS = [name for name in STRATEGIES if name != "full"]


def run(strategy: Any, trace: Trace, *budgets: int, **options: Any) -> list[Row]:
    make = (lambda: strategy) if callable(strategy) else maker(strategy)
    return replay_one(Task(trace, "it", make, budgets, TOK, PRICE, **options))


def windows(strategy: Any, trace: Trace, budget: int) -> list[tuple[Request, Window]]:
    """What a strategy sends at each turn."""
    inner = maker(strategy)() if isinstance(strategy, str) else strategy
    seen: list[tuple[Request, Window]] = []

    def spy(request: Request) -> Window:
        window = inner(request)
        seen.append((request, window))
        return window

    run(spy, trace, budget)
    return seen


@pytest.mark.parametrize("strategy", OURS)
@given(messages=conversations(), budget=st.integers(60, 1500))
def test_every_pair_is_whole_and_in_order(strategy: str, messages: list[dict[str, Any]], budget: int) -> None:
    """Judged by the tests' own checker, which shares no code with replay's."""
    trace = Trace("t", "s", messages)
    for request, window in windows(strategy, trace, budget):
        assert pair_faults(window.messages) == []
        texts = [str(message) for message in request.messages]
        places = [texts.index(str(m)) if str(m) in texts else None for m in window.messages if texts.count(str(m)) == 1]
        known = [place for place in places if place is not None]
        assert known == sorted(known)
    (row,) = run(strategy, trace, budget)
    assert row.orphans == row.missing == 0


@pytest.mark.parametrize("strategy", OURS)
def test_a_long_agent_session_is_valid_at_every_turn(strategy: str) -> None:
    (row,) = run(strategy, Trace("t", "s", agent(60)), 2_000)
    assert (row.invalid, row.refused, row.requests) == (0, 0, 61)
    assert row.tight > 30


@pytest.mark.parametrize("strategy", OURS)
@pytest.mark.parametrize("form", ["openai", "anthropic", "responses"])
def test_all_formats_are_replayed(strategy: str, form: str) -> None:
    chat = agent(30)
    system, blocks = as_anthropic(chat)
    trace = {
        "openai": Trace("t", "s", chat),
        "anthropic": Trace("t", "s", blocks, form, system),
        "responses": Trace("t", "s", as_responses(chat), form),
    }[form]
    (row,) = run(strategy, trace, 2_000)
    assert (row.invalid, row.refused, row.requests) == (0, 0, 31)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_what_fits_is_sent_as_it_is(strategy: str) -> None:
    trace = Trace("t", "s", agent(4))
    for request, window in windows(strategy, trace, 50_000):
        assert list(window.messages) == list(request.messages)
    (row,) = run(strategy, trace, 50_000)
    assert (row.breaks, row.tight, row.shared) == (0, 0, row.previous)


def test_full_history_overflows_and_is_told_so() -> None:
    (row,) = run("full", Trace("t", "s", agent(60)), 2_000)
    assert row.overflow == row.invalid == row.tight > 30


def test_a_sliding_window_holds_the_newest_groups_that_fit() -> None:
    trace = Trace("t", "s", agent(60))
    for request, window in windows("sliding", trace, 2_000)[20:]:
        kept = window.messages[2:]
        assert window.messages[:2] == trace.messages[:2]
        assert kept == request.messages[-len(kept) :]
        size = count_messages(list(window.messages), tokenizer=TOK)
        before = list(request.messages[-len(kept) - 2 : -len(kept)])
        assert size <= 2_000 < size + count_messages(before, tokenizer=TOK) - 3


def test_masking_masks_the_oldest_results_and_never_unmasks() -> None:
    masked: set[int] = set()
    for request, window in windows("masking", Trace("t", "s", agent(14)), 1_900):
        assert window.kept is not None
        now = {n for n, how in window.kept.items() if how == "masked"}
        gone = set(range(len(request.messages))) - window.kept.keys()
        assert masked <= now | gone
        assert all(request.shapes[n].results for n in now)
        masked |= now
    assert masked
    assert max(masked) < len(agent(14)) - 2


def test_masking_breaks_the_prefix_less_often_than_sliding() -> None:
    trace = Trace("t", "s", agent(80))
    (masking,), (sliding,) = run("masking", trace, 3_000), run("sliding", trace, 3_000)
    assert masking.breaks * 4 <= sliding.breaks
    assert masking.dollars < sliding.dollars


def test_a_rolling_summary_is_priced_and_makes_room_for_the_turns_it_needs() -> None:
    (row,) = run("summary", Trace("t", "s", agent(100)), 4_000)
    assert row.summarizer_calls > 1
    assert row.summarizer_dollars > 0
    # At 8 to 12 turns a fold, as far as low water allows, 70 tight turns need few of them.
    assert row.summarizer_calls <= row.tight / 6


def test_hybrid_finds_an_old_message_that_the_question_is_about() -> None:
    messages = [SYSTEM, user("The door code of the observatory is 7341."), says("Noted.")]
    for n in range(60):
        messages += [user(f"Tell me about plant number {n}, please."), says(f"Plant {n} likes shade and water. " * 5)]
    trace = Trace("t", "s", messages, questions=[Question("What is the code of the observatory door?", frozenset([1]))])
    for strategy, found in (("hybrid", 1.0), ("optimal", 1.0), ("sliding", 0.0)):
        (row,) = run(strategy, trace, 900)
        assert row.recalls == [found], strategy


def test_a_question_leaves_the_conversations_memory_as_it_was() -> None:
    questions = [Question(f"what about step {n}?", frozenset([3])) for n in (3, 9, 3)]
    trace = Trace("t", "s", agent(40), questions=questions)
    for strategy in OURS:
        (row,) = run(strategy, trace, 2_000)
        assert row.recalls[0] == row.recalls[2], strategy


# -- the check ---------------------------------------------------------------------------------------------------------

TALK = [SYSTEM, user("a"), call("f", "1"), result("1", "x"), says("b"), user("c"), call("f", "1"), result("1", "y")]


@pytest.mark.parametrize(
    ("kept", "fault"),
    [
        pytest.param([0, 1, 2, 3, 4, 5, 6, 7], "", id="everything"),
        pytest.param([0, 5, 6, 7], "", id="what must be in"),
        pytest.param([0, 3, 5, 6, 7], "orphans", id="a result alone"),
        pytest.param([0, 2, 4, 5, 6, 7], "orphans", id="a call alone"),
        pytest.param([0, 2, 5, 6, 7], "orphans", id="a call alone, its id answered later"),
        pytest.param([5, 6, 7], "missing", id="no system prompt"),
        pytest.param([0, 1, 6, 7], "missing", id="no current user message"),
        pytest.param([0, 5], "missing", id="no last group"),
        pytest.param([0, 1, 2, 3, 5], "missing", id="only an older answer with the id of the last"),
    ],
)
def test_the_check_finds(kept: list[int], fault: str) -> None:
    def strategy(request: Request) -> Sequence[Any]:
        return [request.messages[n] for n in kept] if len(request.messages) == len(TALK) else request.messages

    (row,) = run(strategy, Trace("t", "s", TALK), 10_000)
    assert {name for name in ("orphans", "missing", "overflow") if getattr(row, name)} == ({fault} if fault else set())


def test_a_changed_prompt_or_user_message_is_missing_and_a_shortened_result_is_not() -> None:
    def changed(index: int) -> Any:
        def strategy(request: Request) -> Sequence[Any]:
            return [{**m, "content": "z"} if n == index else m for n, m in enumerate(request.messages)]

        (row,) = run(strategy, Trace("t", "s", TALK), 10_000)
        return row.missing

    assert (changed(0), changed(5), changed(7)) == (4, 2, 0)


def test_faults_of_the_recording_are_not_held_against_what_passes_them_on() -> None:
    broken = [user("a"), call("f", "1"), user("never answered"), says("b"), result("9", "stray"), user("c"), says("d")]
    (row,) = run("full", Trace("t", "s", broken), 10_000)
    assert row.invalid == 0
    (row,) = run("optimal", Trace("t", "s", broken), 10_000)
    assert row.invalid == 0


def test_tokens_are_those_of_the_whole_request() -> None:
    tools = [{"type": "function", "function": {"name": "run", "description": "Run it.", "parameters": {}}}]
    trace = Trace("t", "s", agent(3), tools=tools)
    (row,) = run("full", trace, 10_000)
    sizes = [count_messages(trace.messages[:n], tokenizer=TOK, tools=tools) for n in trace.turns()]
    assert [tokens for _, tokens, _ in row.timeline] == sizes
    system, blocks = as_anthropic(agent(3))
    trace = Trace("t", "s", blocks, "anthropic", system, tools)
    (row,) = run("full", trace, 10_000)
    sizes = [count_messages(blocks[:n], tokenizer=TOK, tools=tools, system=system) for n in trace.turns()]
    assert [tokens for _, tokens, _ in row.timeline] == sizes


def test_the_common_prefix_is_counted_into_the_first_block_that_differs() -> None:
    texts = ["one two three four five six seven", "one two three four FIVE six seven"]

    def strategy(request: Request) -> Sequence[Any]:
        return [{"role": "user", "content": texts[len(request.messages) > 2]}, *request.messages[1:]]

    (row,) = run(strategy, Trace("t", "s", [user("x"), says("y"), user("z"), says("w")]), 10_000)
    assert (row.breaks, row.shared) == (1, 3 + TOK.count("user\none two three four "))


# -- strategies of the caller's ----------------------------------------------------------------------------------------


def newest_two(request: Request) -> list[Any]:
    """Named by module:function in a test below."""
    return list(request.messages[-2:])


class Counting:
    """A class makes one strategy for each conversation."""

    def __init__(self) -> None:
        self.turns = 0

    def __call__(self, request: Request) -> Window:
        self.turns += 1
        assert self.turns == request.memory.setdefault("turns", 0) + 1
        request.memory["turns"] = self.turns
        return request.window(range(len(request.messages)))


def test_a_strategy_of_the_callers_is_named_by_module_and_function() -> None:
    name = f"{__name__}:newest_two"
    traces = [Trace("t", "s", agent(4)), Trace("u", "s", agent(5))]
    outcome = replay(traces, budgets=[5_000], strategies=[name, f"{__name__}:Counting", "sliding"])
    mine, counting, sliding = outcome.figures
    assert (mine.strategy, mine.missing, mine.invalid) == (name, 9, 9)
    assert counting.invalid == sliding.invalid == 0


def test_a_strategy_of_the_callers_may_be_given_as_it_is() -> None:
    traces = [Trace("t", "s", agent(4)), Trace("u", "s", agent(5))]
    for jobs in (1, 2):
        outcome = replay(traces, budgets=[5_000], strategies=[newest_two, "sliding", Counting], jobs=jobs)
        assert [one.strategy for one in outcome.figures] == ["newest_two", "sliding", "Counting"]
        assert outcome.figures[0].missing == 9
    for bad in ([newest_two, newest_two], [3], []):
        with pytest.raises(ArgumentError):
            replay(traces, budgets=[5_000], strategies=bad)


def test_the_example_of_the_docs_is_a_valid_strategy() -> None:
    page = (Path(__file__).parents[2] / "docs" / "choosing-a-strategy.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "docs"}
    exec(compile(example, "docs", "exec"), names)  # noqa: S102
    (row,) = run(names["Pinned"](), Trace("t", "s", agent(60)), 2_000)
    assert (row.invalid, row.refused) == (0, 0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("slding", "no strategy 'slding'; known: full, sliding", id="a typing error"),
        pytest.param("no_such_module:f", "cannot import", id="no such module"),
        pytest.param("json:no_such", "cannot import", id="no such function"),
        pytest.param("json:__name__", "is no function", id="no function"),
        pytest.param("a:b:c", "is no module:function", id="two colons"),
        pytest.param(" , ", "no strategy is named", id="nothing"),
    ],
)
def test_a_bad_name_is_one_clear_line(name: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        names_of(name)


def test_all_is_every_strategy_once() -> None:
    assert names_of("sliding,all,sliding") == ["sliding", *[name for name in STRATEGIES if name != "sliding"]]
    with pytest.raises(UnknownNameError):
        names_of(["sliding", "x"])


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        pytest.param(lambda request: 1 / 0, "ZeroDivisionError", id="raises"),
        pytest.param(lambda request: None, "gave NoneType", id="gives nothing"),
        pytest.param(lambda request: "text", "gave str", id="gives text"),
        pytest.param(lambda request: [3], "no request", id="gives numbers"),
        pytest.param(lambda request: [{"role": 5}], "no request", id="gives no messages"),
        pytest.param(lambda request: Window(request.messages, summarizer=[3]), "must be pairs", id="prices a number"),
        pytest.param(lambda request: Window(request.messages, summarizer=[(-9, 1)]), "below 0", id="is paid for it"),
        pytest.param(lambda request: request.messages.clear(), "changed the list", id="clears what it was given"),
    ],
)
def test_a_strategy_that_fails_says_where(strategy: Any, said: str) -> None:
    with pytest.raises(StrategyError, match=f"strategy 'it' at message 2 of 'talk', budget 900: .*{said}"):
        run(strategy, Trace("talk", "s", agent(1)), 900)


@pytest.mark.parametrize("price", ["claude-sonnet-5-5", "gpt-4o"])
def test_quotes_of_stable_are_not_written_to_the_cache(price: str) -> None:
    """Its client puts the breakpoint where the next window goes on (`result.n_lasting`), before the quotes of this turn."""
    facts = [
        f"The {name} of the project is number {n}, as agreed. " + "It is so. " * 50 for n, name in enumerate(NAMES)
    ]
    messages = [SYSTEM, *(m for fact in facts for m in (user(fact), says("Noted. " * 20)))]
    for name in NAMES[:6]:
        messages += [user(f"What number was the {name} of the project?"), says("As agreed. " * 12)]
    trace = Trace("t", "s", messages)
    sent = windows("stable", trace, 1_500)
    assert any(window.lasting < len(window.messages) for _, window in sent if window.lasting is not None)
    given = replay([trace], budgets=[1_500], strategies=["stable", everything_lasts], model=price).figures
    ours, blind = (one.dollars for one in given)
    assert ours < blind if PRICES[price].caching == "breakpoints" else ours == blind


NAMES = ("harbour", "budget", "venue", "train", "hotel", "choir", "bridge", "tower")


def everything_lasts(request: Request) -> Window:
    """`stable` by a client that sets its breakpoint at the end."""
    return replace(maker("stable")()(request), lasting=None)  # type: ignore[type-var,return-value]


@pytest.mark.parametrize("lasting", [-1, 3, 1.5, "2"])
def test_a_breakpoint_outside_the_window_is_told(lasting: Any) -> None:
    def strategy(request: Request) -> Window:
        return Window(request.messages[:2], lasting=lasting)

    with pytest.raises(StrategyError, match=f"from 0 to the 2 sent, not {lasting!r}"):
        run(strategy, Trace("talk", "s", agent(1)), 900)


def test_a_strategy_that_changes_the_recording_is_found_out() -> None:
    """Else every strategy after it would be measured on other messages."""

    def shortening(request: Request) -> Any:
        for message in request.messages:
            if message["role"] == "tool":
                message["content"] = "cut"  # type: ignore[index]
        return request.messages

    with pytest.raises(StrategyError, match="strategy 'it' changed the messages of 'talk'"):
        run(shortening, Trace("talk", "s", agent(3)), 900)


def ends_the_process(request: Request) -> Any:
    os._exit(7)


def test_a_process_that_ends_is_told() -> None:
    traces = [Trace(f"t{n}", "s", agent(2)) for n in range(2)]
    with pytest.raises(StrategyError, match="a process of the replay ended"):
        replay(traces, budgets=[900], strategies="tests.replay.test_strategies:ends_the_process", jobs=2)


def test_what_cannot_be_sent_to_a_process_is_told_by_name() -> None:
    traces = [Trace(f"t{n}", "s", agent(2)) for n in range(2)]
    with pytest.raises(ArgumentError, match="the strategy '<lambda>' cannot be sent to another process"):
        replay(traces, budgets=[900], strategies=[lambda request: request.messages], jobs=2)


def test_what_cannot_fit_is_refused_and_not_sent() -> None:
    messages = [SYSTEM, user("word " * 3_000), says("ok"), user("and now?"), says("fine")]
    (row,) = run("optimal", Trace("t", "s", messages, questions=[Question("word " * 2_000, frozenset([1]))]), 1_000)
    assert (row.requests, row.refused, row.invalid) == (2, 1, 0)
    assert (row.asked, row.refused_questions, row.recalls) == (1, 1, [0.0])
    (row,) = run("sliding", Trace("t", "s", messages), 1_000)
    assert (row.refused, row.overflow) == (0, 1)


def outcome_of(jobs: int, **options: Any) -> Replay:
    traces = [Trace(f"t{n}", "s", agent(12 + n), questions=[Question("step 3?", frozenset([9]))]) for n in range(2)]
    return replay(traces, budgets=[800, 1_600], jobs=jobs, **options)


def without_time(outcome: Replay) -> list[Any]:
    rows = [vars(row) | {"latencies_us": len(row.latencies_us)} for row in outcome.rows]
    return [rows, [vars(one) | {"p50_us": 0, "p99_us": 0} for one in outcome.figures]]


def test_everything_but_latency_is_the_same_again_and_in_several_processes() -> None:
    steps: list[tuple[int, int]] = []
    one = outcome_of(1, progress=lambda done, total, label: steps.append((done, total)))
    told: list[tuple[int, int]] = []
    two = outcome_of(2, progress=lambda done, total, label: told.append((done, total)))
    assert without_time(one) == without_time(outcome_of(1)) == without_time(two)
    assert steps == [(n + 1, len(steps)) for n in range(len(steps))]
    assert len(steps) == 8 * (13 + 14 + 2)
    assert told[-1] == steps[-1]
    assert told == sorted(told)


def test_figures_are_the_sums_of_rows() -> None:
    outcome = outcome_of(1)
    assert len(outcome.rows) == 2 * 8 * 2
    assert [(one.budget, one.strategy) for one in outcome.figures] == [(b, s) for b in (800, 1_600) for s in STRATEGIES]
    for one in outcome.figures:
        rows = [row for row in outcome.rows if (row.strategy, row.budget) == (one.strategy, one.budget)]
        assert one.dollars == pytest.approx(sum(row.dollars for row in rows))
        assert one.recall == sum(sum(row.recalls) for row in rows) / 2
        assert one.requests == 27
        assert one.p50_us <= one.p99_us


def test_turns_and_questions_can_be_left_out() -> None:
    turns, asked = outcome_of(1, questions=False), outcome_of(1, turns=False)
    assert all(one.recall is None and one.requests for one in turns.figures)
    assert all(one.recall is not None and not one.requests and one.dollars == 0 for one in asked.figures)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"budgets": []}, id="no budget"),
        pytest.param({"budgets": [0]}, id="a budget of 0"),
        pytest.param({"budgets": [1.5]}, id="half a token"),
        pytest.param({"budgets": [100], "jobs": 0}, id="no jobs"),
        pytest.param({"budgets": [100], "model": "x"}, id="no such model"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        replay([Trace("t", "s", agent(1))], **options)
