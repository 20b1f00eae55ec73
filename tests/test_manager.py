"""The sliding window: newest kept whole, the oldest folded into a rolling summary, all inside one budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import ContextWindowManager, Tokenizer
from holdall.errors import ArgumentError, RequiredOverflowError, SummarizerError
from tests import checker

TOKENIZER = Tokenizer("o200k_base")
WORDS = ["river", "stone", "lamp", "copper", "letter", "winter", "garden", "signal", "harbour", "table"]


@dataclass
class State:
    messages: list[dict[str, Any]]
    summary: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def say(role: str, n: int, words: int = 40) -> dict[str, Any]:
    return {"role": role, "content": f"Point {n}. " + " ".join(WORDS[(n + i) % 10] for i in range(words)) + "."}


def chat(turns: int, words: int = 40) -> list[dict[str, Any]]:
    talk = [say(role, n, words) for n in range(turns) for role in ("user", "assistant")]
    return [{"role": "system", "content": "Answer briefly."}, *talk, {"role": "user", "content": "And now?"}]


def agent(rounds: int) -> list[dict[str, Any]]:
    """One user message, then many calls with their results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix the build."}]
    for n in range(rounds):
        call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": f'{{"n":{n}}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "c", "content": say("tool", n)["content"]})
    return messages


def recount(messages: list[Any]) -> int:
    return checker.request_tokens(messages, None, TOKENIZER.count)


def test_what_fits_is_sent_as_it_is() -> None:
    state = State(chat(3))
    window = ContextWindowManager(8_000).build(state)
    assert window.messages == state.messages
    assert (window.summary, window.covers, window.summarized) == (None, 0, 0)


def test_what_does_not_fit_is_folded_into_the_summary() -> None:
    state = State(chat(40))
    window = ContextWindowManager(1_000).build(state)
    assert window.tokens == recount(window.messages) <= 1_000
    assert window.messages[0] == state.messages[0]
    assert window.messages[-1] == state.messages[-1]
    assert window.summary
    assert window.summary in window.messages[1]["content"]
    assert window.messages[2:] == state.messages[window.covers :]
    assert window.summarized == window.covers - 1  # all but the system prompt


def test_a_slide_leaves_room_so_that_the_next_ones_are_rare() -> None:
    """Hysteresis: between two slides the window only grows at its end."""
    state = State(chat(20))
    manager = ContextWindowManager(2_000)
    slides, previous = 0, None
    for n in range(60):
        state.messages.append(say("assistant", n))
        state.messages.append(say("user", n))
        window = manager.build(state)
        assert window.tokens <= 2_000
        slides += window.summarized > 0
        if previous and not window.summarized:
            assert window.messages[: len(previous)] == previous
        previous = window.messages
        window.apply(state)
    assert 3 <= slides <= 12


@pytest.mark.parametrize("apply", [True, False])
def test_every_message_is_in_the_window_or_in_a_transcript(apply: bool) -> None:
    """Nothing slides out without having been shown to the summarizer."""
    seen: list[str] = []

    def summarize(text: str) -> str:
        seen.append(text)
        return f"summary {len(seen)}"

    state = State([{"role": "system", "content": "s"}])
    manager = ContextWindowManager(600, summarizer=summarize)
    for n in range(50):
        state.messages.append({"role": "user", "content": f"<{n}> " + "word " * 20})
        window = manager.build(state)
        shown = {m["content"] for m in window.messages}
        everything = "\n".join(seen)
        for message in state.messages:
            assert message["content"] in shown or message["content"].strip() in everything
        if apply:
            window.apply(state)
    assert seen
    if apply:
        assert all(f"summary {n}" in text for n, text in enumerate(seen) if n)


def test_the_only_user_message_of_a_long_run_stays() -> None:
    """A coding agent works hundreds of rounds on one message: it is the current turn, however old."""
    state = State(agent(60))
    window = ContextWindowManager(1_500).build(state)
    assert state.messages[0] in window.messages
    assert window.messages[-2:] == state.messages[-2:]
    assert not checker.pair_faults(window.messages)
    assert window.tokens == recount(window.messages) <= 1_500


def test_the_task_stays_where_every_result_brings_a_reminder() -> None:
    """A text beside results is a user's turn, but the task that it serves is one too."""
    state = State([{"role": "user", "content": "Fix the build."}])
    for n in range(60):
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": say("tool", n)["content"]}
        call = {"type": "tool_use", "id": f"c{n}", "name": "run", "input": {}}
        reminded = [result, {"type": "text", "text": "Remember the list."}]
        state.messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": reminded}]
    window = ContextWindowManager(1_500).build(state)
    assert state.messages[0] in window.messages
    assert window.messages[-2:] == state.messages[-2:]


def test_a_user_turn_that_stayed_is_in_the_summary_before_it_goes() -> None:
    seen: list[str] = []
    state = State(agent(60))
    manager = ContextWindowManager(1_500, summarizer=lambda text: seen.append(text) or "sum")
    manager.build(state).apply(state)
    assert "Fix the build." in seen[0]


def test_the_last_message_alone_is_never_an_empty_transcript() -> None:
    """A13: nothing slides out, so nothing is summarised; too large is an error with its figures."""
    called: list[str] = []
    manager = ContextWindowManager(500, summarizer=lambda text: called.append(text) or "x")
    state = State([say("user", 1, 20), {"role": "user", "content": "word " * 5_000}])
    with pytest.raises(RequiredOverflowError) as caught:
        manager.build(state)
    assert caught.value.budget == 500
    assert all(called)


def test_a_summarizer_that_fails_is_reported_and_replaced() -> None:
    """A14: content is never lost silently; the extractive summary steps in and the window says so."""
    failure = TimeoutError("model is away")

    def fail(_: str) -> str:
        raise failure

    window = ContextWindowManager(1_000, summarizer=fail).build(State(chat(40)))
    assert window.summarizer_error is failure
    assert "Point" in (window.summary or "")


@pytest.mark.parametrize("nothing", ["", "  \n"])
def test_an_empty_summary_is_replaced(nothing: str) -> None:
    window = ContextWindowManager(1_000, summarizer=lambda _: nothing).build(State(chat(40)))
    assert "Point" in (window.summary or "")


def test_a_summary_that_is_too_long_is_cut_to_its_share() -> None:
    window = ContextWindowManager(1_000, summarizer=lambda _: "long " * 5_000, summary_tokens=120).build(
        State(chat(40))
    )
    assert TOKENIZER.count(window.summary or "") <= 120
    assert window.tokens <= 1_000


def test_an_async_summarizer_needs_abuild() -> None:
    async def summarize(text: str) -> str:
        return text[:20]

    with pytest.raises(SummarizerError, match="abuild"):
        ContextWindowManager(1_000, summarizer=summarize).build(State(chat(40)))


async def test_abuild_awaits_the_summarizer() -> None:
    async def summarize(text: str) -> str:
        assert text
        return "all was said"

    window = await ContextWindowManager(1_000, summarizer=summarize).abuild(State(chat(40)))
    assert window.summary == "all was said"


async def test_an_async_summarizer_that_fails_is_reported_and_replaced() -> None:
    """A14, where the failure comes only when the answer is awaited."""
    failure = TimeoutError("model is away")

    async def fail(_: str) -> str:
        raise failure

    window = await ContextWindowManager(1_000, summarizer=fail).abuild(State(chat(40)))
    assert window.summarizer_error is failure
    assert "Point" in (window.summary or "")


def test_a_summarizer_that_gives_no_text_is_an_error() -> None:
    with pytest.raises(SummarizerError, match="must return text, not int"):
        ContextWindowManager(1_000, summarizer=lambda _: 3).build(State(chat(40)))  # type: ignore[arg-type,return-value]


def test_build_leaves_the_state_alone() -> None:
    state = State(chat(40))
    before = [dict(m) for m in state.messages]
    ContextWindowManager(1_000).build(state)
    assert (state.messages, state.summary, state.metadata) == (before, None, {})


def test_anthropic_keeps_its_system_apart_and_its_pairs_whole() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for n in range(30):
        use = {"type": "tool_use", "id": f"t{n}", "name": "run", "input": {"n": n}}
        messages.append({"role": "assistant", "content": [use]})
        answer = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "word " * 60}
        messages.append({"role": "user", "content": [answer]})
    window = ContextWindowManager(1_200, format="anthropic").build(State(messages), system="be kind")
    assert window.tokens <= 1_200
    assert "be kind" in str(window.system)
    assert (window.summary or "") in str(window.system)
    assert all(m["role"] != "system" for m in window.messages)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"format": "x"}, "unknown message format"),
        ({"low_water": 0}, "low_water must be above 0"),
        ({"low_water": 1.1}, "low_water"),
        ({"summary_tokens": 0}, "summary_tokens must be between 1 and the budget of 1000"),
        ({"summary_tokens": 1_000}, "summary_tokens"),
        ({"output_reserve": 1_000}, "1000"),
    ],
)
def test_figures_outside_their_domain(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        ContextWindowManager(1_000, **arguments)


def test_calls_that_were_never_answered_do_not_make_a_window_slide() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    broken = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    messages = [*chat(3), broken, {"role": "user", "content": "Go on."}]
    window = ContextWindowManager(10_000).build(State(messages))
    assert (window.summary, window.summarized) == (None, 0)
    assert {"role": "assistant", "content": "I look."} in window.messages


@given(
    turns=st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(1, 120)), max_size=40),
    budget=st.integers(120, 2_000),
    covers=st.integers(-3, 60),
)
def test_any_window_is_valid_and_within_its_budget(turns: list[tuple[str, int]], budget: int, covers: int) -> None:
    """P1-P3 for every mixture of turns, and for a state whose `summary_covers` is anything."""
    messages: list[dict[str, Any]] = []
    for n, (role, words) in enumerate(turns):
        if role == "tool":
            call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "c", "content": say("tool", n, words)["content"]})
        else:
            messages.append(say(role, n, words))
    state = State(messages, "so far: nothing", {"summary_covers": covers})
    try:
        window = ContextWindowManager(budget).build(state)
    except RequiredOverflowError as error:
        assert error.total > error.budget
        return
    assert window.tokens == recount(window.messages) <= budget
    assert not checker.pair_faults(window.messages)


@pytest.mark.parametrize("summary", [None, "Earlier they greeted each other."])
@pytest.mark.parametrize("said", ["abcdefghij" * 300, "汉字" * 600, "```\n" + "x = 1\n" * 400 + "```"])
def test_what_has_no_sentences_is_in_the_summary_with_its_cut_marked(said: str, summary: str | None) -> None:
    messages = [{"role": "user", "content": said}, {"role": "assistant", "content": said}, say("user", 1, 5)]
    state = State(messages, summary, {} if summary is None else {"summary_covers": 0})
    window = ContextWindowManager(500).build(state)
    assert window.summary
    assert window.covers == 2
    assert window.tokens == recount(window.messages) <= 500
    window.apply(state)
    again = ContextWindowManager(500).build(state)
    assert (again.summary, again.covers) == (window.summary, 2)


def test_what_cannot_be_summarised_at_all_stays_with_the_packer() -> None:
    """Too small a summary for one character of it: then nothing is said to be covered, and the packer names what is gone."""
    messages = [
        {"role": "user", "content": "\U0001f9ff" * 800},
        {"role": "assistant", "content": "\U0001f9ff" * 800},
        say("user", 1, 5),
    ]
    window = ContextWindowManager(500, summary_tokens=1).build(State(messages))
    assert (window.summary, window.covers, window.summarized) == (None, 0, 0)
    shown = {kept.index for kept in window.result.kept}
    assert shown | {gone.index for gone in window.dropped} == {0, 1, 2}


def test_the_format_is_that_of_the_whole_session() -> None:
    """What tells Anthropic's format has slid out; a system message would be refused there."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": say("user", 2)["content"]}],
    }
    messages = [say("user", 1, 200), call, result, say("assistant", 3, 200), say("user", 4, 10)]
    window = ContextWindowManager(500).build(State(messages))
    assert window.summary
    assert window.system == f"Summary of the conversation so far:\n{window.summary}"
    assert {message["role"] for message in window.messages} <= {"user", "assistant"}


def test_messages_may_be_objects_of_a_providers_own() -> None:
    class Spoken:
        def __init__(self, message: dict[str, Any]) -> None:
            self.role = message["role"]
            self.content = message["content"]

        def model_dump(self, **_options: Any) -> dict[str, Any]:
            return {"role": self.role, "content": self.content}

    messages: list[Any] = [Spoken(message) for message in chat(12)]
    asked: list[str] = []
    window = ContextWindowManager(600, summarizer=lambda text: asked.append(text) or "Short.").build(State(messages))
    assert window.summary == "Short."
    assert asked[0].startswith("user: Point 0.")


def test_a_margin_is_taken_off_before_a_slide_is_measured() -> None:
    tokenizer = Tokenizer.from_callable(lambda text: len(text.split()), margin=1.0)
    manager = ContextWindowManager(1_000, tokenizer=tokenizer)
    window = manager.build(State(chat(30)))
    assert manager.budget == window.budget == 500
    assert window.dropped == ()
    assert window.tokens <= 0.75 * window.budget


def test_a_history_that_was_cut_back_is_not_covered_by_what_came_after() -> None:
    state = State(chat(40))
    ContextWindowManager(1_000).build(state).apply(state)
    covers = state.metadata["summary_covers"]
    edited = {"role": "user", "content": "No: the blue one."}
    state.messages = [*state.messages[: covers - 3], edited, *chat(1)[1:], *[say("user", n, 3) for n in range(4)]]
    window = ContextWindowManager(4_000).build(state)
    assert edited in window.messages
    assert window.covers == 0
    assert window.summary == state.summary


def test_a_blank_summary_covers_nothing() -> None:
    state = State(chat(2), "  \n", {"summary_covers": 4})
    window = ContextWindowManager(1_000).build(state)
    assert window.messages == state.messages


def test_groups_inside_one_another_are_not_parted() -> None:
    """In the Responses format a user may speak between a call and its output."""
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": say("user", 1, 60)["content"]}
    messages = [say("user", 0, 200), call, say("user", 2, 20), output, say("assistant", 3, 40), say("user", 4, 10)]
    for budget in range(150, 400, 10):
        window = ContextWindowManager(budget, format="responses").build(State(messages))
        assert (call in window.messages) == any(one.get("type") == "function_call_output" for one in window.messages)
        assert not any(gone.reason in ("orphan_result", "unanswered_call") for gone in window.dropped)


def test_a_summarizer_must_be_a_function() -> None:
    with pytest.raises(ArgumentError, match="summarizer must be a function of a text, not str"):
        ContextWindowManager(1_000, summarizer="gpt-4o")  # type: ignore[arg-type]


def test_messages_alone_are_no_state() -> None:
    with pytest.raises(ArgumentError, match=r"a state with messages, .* not list"):
        ContextWindowManager(100).build([{"role": "user", "content": "hi"}])  # type: ignore[arg-type]
