"""What breaks in trimming and packing elsewhere, each case as a small conversation with the right answer.

The ids are those of the table `cases_packing.toml`. Every window is checked by `tests.checker` besides.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest

from holdall import ContextItem, ContextWindowPacker, PackResult, Tokenizer, fit_tools
from holdall.errors import ArgumentError, RequiredOverflowError
from tests import checker

TOKENIZER = Tokenizer("o200k_base")
WORDS = ["river", "stone", "lamp", "copper", "letter", "winter", "garden", "signal", "harbour", "table"]


def text(n: int, seed: int = 0) -> str:
    """About n tokens of prose in sentences of ten words."""
    words = [WORDS[(seed + i * (1 + seed % 7)) % 10] for i in range(n)]
    return " ".join(word + ("." if i % 10 == 9 else "") for i, word in enumerate(words))


def S(content: Any = "Answer briefly.") -> dict[str, Any]:  # noqa: N802 - the notation of the cases
    return {"role": "system", "content": content}


def U(content: Any) -> dict[str, Any]:  # noqa: N802
    return {"role": "user", "content": content}


def A(content: Any) -> dict[str, Any]:  # noqa: N802
    return {"role": "assistant", "content": content}


def C(*ids: str, arguments: str = "{}", name: str = "look") -> dict[str, Any]:  # noqa: N802
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def R(i: str, content: Any = "found") -> dict[str, Any]:  # noqa: N802
    return {"role": "tool", "tool_call_id": i, "content": content}


def size(*messages: dict[str, Any], tools: list[Any] | None = None) -> int:
    return checker.request_tokens(messages, tools, TOKENIZER.count)


def pack(messages: list[Any], budget: int, strategy: str = "optimal", **more: Any) -> PackResult[Any]:
    options = {key: more.pop(key) for key in ("tools", "start_on_user", "summary", "query") if key in more}
    result = ContextWindowPacker(budget, TOKENIZER, strategy=strategy, **more).pack_messages(messages, **options)
    assert checker.check(messages, options.get("tools"), result, budget=result.budget, count=TOKENIZER.count) == []
    return result


def indices(result: PackResult[Any]) -> list[int]:
    return [kept.index for kept in result.kept if kept.source == "message"]


both = pytest.mark.parametrize("strategy", ["optimal", "greedy"])


@both
def test_a01_never_starts_with_half_a_pair(strategy: str) -> None:
    """Room for four messages: R(b) never stands without C(a,b)."""
    messages = [S(), U("Look at both."), C("a", "b"), R("a", text(60)), R("b", text(60, 1)), A("Done."), U("Thanks?")]
    result = pack(messages, size(messages[0], *messages[4:]) + 20, strategy)
    assert {2, 3, 4} <= set(indices(result)) or not {2, 3, 4} & set(indices(result))
    assert {0, 6} <= set(indices(result))


@both
def test_a02_a_call_goes_with_its_large_result(strategy: str) -> None:
    """A result of 2000 tokens in a budget of 300 is shortened, or goes with its call."""
    messages = [S(), U("Look."), C("a"), R("a", text(2000)), U("And?")]
    result = pack(messages, 300, strategy)
    shown = indices(result)
    assert (2 in shown) == (3 in shown)
    assert {0, 4} <= set(shown)


def test_a03_what_fits_comes_back_as_it_came() -> None:
    """Far under the budget: the same objects."""
    messages = [S(), U("Look."), C("a"), R("a")]
    result = pack(messages, 100_000)
    assert [id(message) for message in result.messages] == [id(message) for message in messages]


def test_a04_starts_on_a_user_message_when_asked() -> None:
    """The leading assistant message goes; without the option it may stay."""
    messages = [S(), U(text(300)), A("Because of the river."), U("Why?"), A("Stone."), U("And now?")]
    room = size(messages[0], *messages[2:]) + 3
    assert 2 in indices(pack(messages, room))
    started = pack(messages, room, start_on_user=True)
    assert [m["role"] for m in started.messages][:2] == ["system", "user"]
    assert [d.reason for d in started.dropped if d.index == 2] == ["before_user"]


@both
def test_a05_a06_the_system_prompt_stays_and_is_counted(strategy: str) -> None:
    """However little there is, the system prompt is in, inside the budget."""
    talk = [make(text(40, n)) for n in range(6) for make in (U, A)]
    messages = [S(text(50)), *talk, U("And now?")]
    for budget in (80, 120, 200, 400):
        result = pack(messages, budget, strategy)
        assert result.messages[0] is messages[0]
        assert result.tokens <= budget


@pytest.mark.parametrize("content", ["plain text", [{"type": "text", "text": "a part"}], "", None])
def test_a07_a_result_is_a_result_whatever_its_content(content: Any) -> None:
    """role=tool belongs to its call, as text, parts, empty or null."""
    messages = [U(text(80)), C("a") | {"content": text(30)}, R("a", content), U("And?"), A(text(20))]
    for budget in range(size(*messages[3:]), size(*messages)):
        shown = indices(pack(messages, budget))
        assert (1 in shown) == (2 in shown)


def test_a08_a_boundary_snaps_to_the_edge_of_a_group() -> None:
    """No budget splits C(b) from R(b)."""
    messages = [U("Go."), C("a"), R("a", text(50)), C("b"), R("b", text(50, 3)), A("Done.")]
    for budget in range(size(messages[0], messages[5]), size(*messages) + 1, 3):
        shown = indices(pack(messages, budget))
        assert (1 in shown) == (2 in shown)
        assert (3 in shown) == (4 in shown)


def test_a09_parallel_results_go_together() -> None:
    """C(1,2), R(1) and R(2) are in together or not at all."""
    messages = [U("Go."), C("1", "2"), R("1", text(1200)), R("2", text(40)), A("Done."), U("And?")]
    for budget in (100, 200, 400, 800, 1200, 1400):
        shown = set(indices(pack(messages, budget)))
        assert {1, 2, 3} <= shown or not {1, 2, 3} & shown


def test_a10_a_call_of_ten_results_is_one_group() -> None:
    """Pairs are found however far they reach: all eleven messages or none."""
    ids = [f"t{n}" for n in range(10)]
    messages = [U("Go."), C(*ids), *[R(i, text(20, n)) for n, i in enumerate(ids)], U("And?")]
    for budget in range(size(messages[0], messages[-1]), size(*messages), 20):
        shown = set(indices(pack(messages, budget)))
        assert set(range(1, 12)) <= shown or not set(range(1, 12)) & shown


def test_a11_whole_groups_leave_and_time_is_not_quadratic() -> None:
    """No orphan in the middle; and 4000 messages cost about eight times what 500 do."""
    messages = [S(), U("a"), U("b"), C("1") | {"content": text(30)}, R("1"), A("c"), U("d")]
    for budget in range(size(messages[0], messages[-1]), size(*messages)):
        shown = indices(pack(messages, budget))
        assert (3 in shown) == (4 in shown)
    long = [U(text(12, n)) if n % 2 == 0 else A(text(12, n)) for n in range(4001)]
    packer = ContextWindowPacker(2_000, TOKENIZER)
    assert packer.pack_messages(long).tokens <= 2_000


def test_a12_a_lone_result_is_never_kept() -> None:
    """With a system message in front, for every budget."""
    messages = [S(), U("Go."), C("1"), R("1", text(30)), A("Done.")]
    for budget in range(size(messages[0], messages[1], messages[4]), size(*messages)):
        shown = indices(pack(messages, budget))
        assert (2 in shown) == (3 in shown)


def test_a13_nothing_is_never_summarised() -> None:
    """What must be in and does not fit is an error with figures, and the summarizer is not called for nothing."""
    asked: list[str] = []

    def summarizer(dropped: str) -> str:
        asked.append(dropped)
        return "short"

    messages = [U("old"), A(text(5000))]
    packer = ContextWindowPacker(500, TOKENIZER, strategy="greedy", summarizer=summarizer)
    with pytest.raises(RequiredOverflowError) as error:
        packer.pack_messages(messages)
    assert error.value.budget == 500
    assert error.value.total > 5000
    assert packer.pack_messages([U("hello")]).messages == [U("hello")]
    assert packer.pack_messages([]).messages == []
    assert asked == []


def test_a14_content_is_never_lost_without_a_word() -> None:
    """Six large groups between two user messages: the last group stays, and each that goes is reported."""
    work = [m for n in range(6) for m in (C(f"c{n}"), R(f"c{n}", text(600, n)))]
    messages = [U("Fix it."), *work, U("And?")]
    result = pack(messages, 900)
    assert indices(result)[-1] == len(messages) - 1
    assert len(result.kept) + len(result.dropped) == len(messages)
    assert all(dropped.reason for dropped in result.dropped)


@pytest.mark.parametrize(
    ("messages", "expected"), [([], []), ([S(), U("")], [S()]), ([U(" \n")], []), ([S(""), U("hi")], [U("hi")])]
)
def test_a15_empty_input_is_no_crash(messages: list[Any], expected: list[Any]) -> None:
    """Nothing in, nothing out; an empty message is dropped with its reason."""
    result = pack(messages, 100)
    assert result.messages == expected
    assert {dropped.reason for dropped in result.dropped} <= {"empty"}


def test_a16_a_tiny_budget_ends() -> None:
    """Assistant and orphan tool messages alone, budget 1: an error, at once."""
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(1, TOKENIZER).pack_messages([A("a"), R("x"), A("b")])


def test_a17_an_overflow_says_what_needs_how_much() -> None:
    """Budget, total, and tokens of each, which add up."""
    messages = [S(text(1000)), U(text(2100))]
    with pytest.raises(RequiredOverflowError, match=r"need \d+ tokens but the budget is 3000") as error:
        ContextWindowPacker(3000, TOKENIZER).pack_messages(messages)
    assert error.value.total == sum(tokens for _, tokens in error.value.items) == size(*messages)
    assert [label for label, _ in error.value.items][1:] == ["message 0 (system_prompt)", "message 1 (current_turn)"]


def test_a18_the_current_turn_is_never_left_out() -> None:
    """A user turn that does not fit is an error, and a system prompt that does not fit too."""
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(60, TOKENIZER).pack_messages([S(), U(text(300)), C("a"), R("a")], start_on_user=True)
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(60, TOKENIZER).pack_messages([S(text(200))])


@pytest.mark.parametrize("strategy", ["optimal", "greedy", "stable"])
def test_a_reminder_beside_results_does_not_replace_the_task(strategy: str) -> None:
    """Programs add a text to every result: the task that all of them serve stays, and so does the text."""
    messages = [A("Hello."), U("Repair what is broken, " * 60)]
    for n in range(40):
        messages.append(A([{"type": "tool_use", "id": f"c{n}", "name": "look", "input": {}}]))
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text(60, n)}
        messages.append(U([result, {"type": "text", "text": "Remember the list."}]))
    packed = ContextWindowPacker(900, TOKENIZER, strategy=strategy).pack_messages(messages)
    assert len(packed.dropped) > 40
    assert {1, len(messages) - 2, len(messages) - 1} <= set(indices(packed))
    assert any(message is messages[1] for message in packed.messages), "whole, not shortened"


def test_what_is_asked_beside_a_reminder_is_still_the_task() -> None:
    """Relevance is to the task too, not to the reminder alone."""
    talk = [make(text(30, n)) for n in range(10) for make in (U, A)]
    talk[5] = A(text(30) + "The passphrase of the lighthouse is heron.")
    messages = [
        *talk,
        U("What is the passphrase of the lighthouse?"),
        A([{"type": "tool_use", "id": "c", "name": "look", "input": {}}]),
    ]
    result = {"type": "tool_result", "tool_use_id": "c", "content": "Nothing."}
    messages.append(U([result, {"type": "text", "text": "Remember the river, the stone and the winter garden."}]))
    assert 5 in indices(ContextWindowPacker(150, TOKENIZER).pack_messages(messages))


def png(width: int, height: int) -> str:
    """A PNG's header, followed by noise."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk + bytes(300_000)).decode()


def test_a19_an_image_costs_its_pixels_not_its_base64() -> None:
    """400 KB of base64 is an image of 1024 x 1024: 765 tokens."""
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(1024, 1024)}"}}
    result = ContextWindowPacker(1_000, TOKENIZER).pack_messages([U([{"type": "text", "text": "What is it?"}, part])])
    assert 765 < result.tokens < 800


def test_a20_an_anthropic_image_is_counted_by_area() -> None:
    """1920 x 1080 is 2765 tokens, and the rule is the caller's to change."""
    source = {"type": "base64", "media_type": "image/png", "data": png(1920, 1080)}
    messages = [U([{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}])]
    assert 2765 < ContextWindowPacker(4_000, TOKENIZER).pack_messages(messages).tokens < 2800
    flat = ContextWindowPacker(4_000, TOKENIZER, overhead={"image": 85})
    assert flat.pack_messages(messages).tokens < 120


def tool(name: str, words: int = 60) -> dict[str, Any]:
    properties = {f"field{n}": {"type": "string", "description": text(words // 4, n)} for n in range(3)}
    parameters = {"type": "object", "properties": properties}
    function = {"name": name, "description": text(words), "parameters": parameters}
    return {"type": "function", "function": function}


@both
def test_a21_tools_system_prompt_and_history_share_the_budget(strategy: str) -> None:
    """2k of system prompt, 7k of tools, 20k of history, a window of 24k: inside, and full."""
    tools = [tool(f"tool{n}") for n in range(50)]
    talk = [make(text(100, n)) for n in range(100) for make in (U, A)]
    messages = [S(text(2000)), *talk, U("And now?")]
    assert size(*messages, tools=tools) > 28_000
    result = pack(messages, 24_000, strategy, tools=tools)
    assert result.tokens == size(*result.messages, tools=result.tools)
    assert 0.95 * 24_000 <= result.tokens <= 24_000


def test_a22_arguments_of_calls_are_counted() -> None:
    """5000 words of arguments are 5000 tokens."""
    messages = [U("Go."), C("a", arguments=json.dumps({"text": text(5000)})), R("a")]
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(4_000, TOKENIZER).pack_messages(messages)
    assert pack(messages, 6_000).tokens > 5_000


def test_a23_what_is_sent_is_counted_unescaped() -> None:
    """60 CJK characters cost what they cost as they are sent, in a tool and in arguments."""
    heavy = {"type": "function", "function": {"name": "f", "description": "配" * 60}}
    result = ContextWindowPacker(1_000, TOKENIZER).pack_messages([U("Go.")], tools=[heavy])
    plain = ContextWindowPacker(1_000, TOKENIZER).pack_messages([U("Go.")])
    assert result.tokens - plain.tokens == 12 + 7 + TOKENIZER.count(checker.compact(heavy)) < 100


def test_a24_special_token_text_is_text() -> None:
    """It neither raises nor counts as one token."""
    messages = [U("a <|endoftext|> b <|im_start|>"), A("<|endoftext|>")]
    assert pack(messages, 100).messages == messages


@pytest.mark.parametrize("limit", [50, 60, 90, 130])
def test_a25_a_cut_never_splits_a_character(limit: int) -> None:
    """A required result of emoji is shortened between characters."""
    messages = [U("Go."), C("a"), R("a", "😀👩‍👩‍👧 " * 200)]
    shown = pack(messages, size(*messages[:2]) + limit).messages[-1]["content"]
    assert "\ufffd" not in shown
    shown.encode("utf-8")
    assert set(shown.split("[")[0].strip()) <= set("😀👩‍👩‍👧 \n")


def test_a26_no_empty_message_is_sent() -> None:
    """White space is dropped with its reason, and no rendition is blank."""
    messages = [S(), A("  \n"), U("Go."), A(""), C("a"), R("a", text(500)), U("And?")]
    result = pack(messages, 100)
    assert not any(checker.is_empty(message) for message in result.messages)
    assert {d.index for d in result.dropped if d.reason == "empty"} == {1, 3}


def test_a27_references_of_shortened_tools_resolve() -> None:
    """Reachable definitions stay where they are referred to, through the packer too."""
    parameters = {
        "type": "object",
        "properties": {"f": {"$ref": "#/$defs/F", "description": text(80)}},
        "$defs": {"F": {"enum": ["a", "b"]}, "Gone": {"type": "string", "description": text(60)}},
    }
    tools = [{"type": "function", "function": {"name": "use", "description": text(100), "parameters": parameters}}]
    result = pack([U("Go."), C("a", name="use"), R("a")], 150, tools=tools)
    (shown,) = result.tools or []
    assert shown["function"]["parameters"]["$defs"] == {"F": {"enum": ["a", "b"]}}


def test_a28_the_reserve_is_taken_off() -> None:
    """32k with a reserve of 8k leaves 24k; a reserve as large as the window is refused."""
    messages = [*[make(text(100, n)) for n in range(150) for make in (U, A)], U("And now?")]
    result = pack(messages, 32_000, output_reserve=8_000)
    assert result.budget == 24_000
    assert result.tokens <= 24_000
    with pytest.raises(ArgumentError, match=r"output_reserve \(32000\) must be smaller than max_tokens \(32000\)"):
        ContextWindowPacker(32_000, TOKENIZER, output_reserve=32_000)


def test_fault_used_tools_do_not_overrun_the_budget() -> None:
    """Twenty used tools in 600 tokens: those that lose their place take the groups that call them along."""
    names = [f"tool{n}" for n in range(20)]
    work = [m for n, name in enumerate(names) for m in (C(f"c{n}", name=name), R(f"c{n}", text(10, n)))]
    messages = [U("Go."), *work, U("And?")]
    result = pack(messages, 600, tools=[tool(name) for name in names])
    shown = {t["function"]["name"] for t in result.tools or []}
    called = {c["function"]["name"] for m in result.messages for c in m.get("tool_calls") or []}
    assert called <= shown
    assert "tool_dropped" in {d.reason for d in result.dropped}


def test_fault_any_kind_of_tool_is_read() -> None:
    """OpenAI, Anthropic, MCP and bare tools beside each other, out as they came in."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [
        tool("one"),
        {"name": "two", "description": "2", "input_schema": schema},
        {"name": "three", "inputSchema": schema},
        {"name": "four"},
    ]
    result = ContextWindowPacker(1_000, TOKENIZER).pack_messages([U("Go.")], tools=tools)
    assert result.tools == tools


@both
def test_fault_one_cut_item_does_not_take_what_is_left(strategy: str) -> None:
    """A giant that is shortened leaves room for others: its size follows from itself, not from what is left."""
    messages = [A(text(6000)), *[A(text(60, n)) for n in range(1, 30)], U("And?")]
    result = pack(messages, 1_500, strategy)
    assert len(result.messages) > 10


@pytest.mark.parametrize("giant", ["配" * 3000, "x" * 9000, "한국어 " * 1500], ids=["cjk", "one word", "korean"])
def test_fault_text_without_spaces_is_shortened(giant: str) -> None:
    """A required result without a space is cut, not refused."""
    messages = [U("Go."), C("a"), R("a", giant)]
    assert size(*messages) > 600
    shown = pack(messages, 300).messages[-1]["content"]
    assert "tokens cut" in shown


def test_fault_shortened_code_keeps_its_lines() -> None:
    """What is left of code is whole lines of it."""
    code = "\n".join(f"    value_{n} = compute({n})  # step {n}" for n in range(300))
    messages = [U("Go."), C("a"), R("a", code)]
    shown = pack(messages, 500).messages[-1]["content"]
    lines = [line for line in shown.split("\n") if "tokens cut" not in line]
    assert len(lines) > 10
    assert set(lines) <= set(code.split("\n"))


def test_fault_tools_go_on_past_one_that_does_not_fit() -> None:
    """A giant first tool does not end the list."""
    huge = tool("huge")
    huge["function"]["parameters"]["properties"] = {f"p{n}": {"type": "string"} for n in range(900)}
    result = pack([U("Go.")], 400, tools=[huge, tool("small", 8), tool("tiny", 8)])
    assert [t["function"]["name"] for t in result.tools or []] == ["small", "tiny"]


def test_fault_shortened_tools_are_smaller() -> None:
    """Non-ASCII is not escaped, so that what is shortened is smaller."""
    heavy = {"type": "function", "function": {"name": "f", "description": "配置文件的路径和名称。" * 30}}
    full = TOKENIZER.count(checker.compact(heavy))
    shown = fit_tools([heavy], 12 + 7 + full - 1, tokenizer=TOKENIZER).tools
    assert TOKENIZER.count(checker.compact(shown[0])) < full


@both
def test_fault_orphan_results_are_dropped(strategy: str) -> None:
    """A result whose call stands in another block is an orphan, though ids repeat."""
    messages = [R("a"), U("Go."), C("a"), R("a"), R("a"), U("And?"), R("a"), A("Done.")]
    result = pack(messages, 1_000, strategy)
    reasons = {d.index: d.reason for d in result.dropped}
    assert reasons == {0: "orphan_result", 4: "duplicate_result", 6: "orphan_result"}


def test_fault_framing_is_counted() -> None:
    """A thousand messages of one token are four thousand tokens and more."""
    messages = [U("a") if n % 2 else A("b") for n in range(1001)]
    result = pack(messages, 2_000)
    assert len(result.messages) < 500
    items = [ContextItem("older_history", "a", n) for n in range(1001)]
    assert len(ContextWindowPacker(2_000, TOKENIZER, item_overhead=4).pack(items)) == 400


@pytest.mark.parametrize("left", range(190, 220))
def test_fault_there_is_no_cliff_at_two_hundred_tokens(left: int) -> None:
    """Around 200 tokens left, the window never gets worse by one token more of budget than the summary is worth."""
    talk = [{"role": "user" if n % 2 else "assistant", "content": "x" * 4000} for n in range(4)]
    messages = [S(), *talk, U("And now?")]
    base = size(messages[0], messages[-1])
    result = pack(messages, base + left, "greedy")
    assert {0, 5} <= set(indices(result))
    assert result.tokens >= base


def test_fault_required_tools_do_not_become_nothing() -> None:
    """Tools named by the open call are in, with their required parameters, or it is an error with figures."""
    tools = [tool(f"tool{n}", 200) for n in range(3)]
    messages = [U("Go."), C("a", name="tool1"), R("a")]
    shown = pack(messages, 120, tools=tools).tools or []
    assert "tool1" in [t["function"]["name"] for t in shown]
    with pytest.raises(RequiredOverflowError, match="tools that are called"):
        ContextWindowPacker(60, TOKENIZER).pack_messages(messages, tools=tools)
