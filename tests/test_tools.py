"""Tool schemas in a budget: every format, used first, nothing broken by shortening."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdall
from holdall import Tokenizer, ToolSet, fit_tools
from holdall.errors import ArgumentError, HoldallError, RequiredOverflowError, ToolSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

BUDGETS = [1000, 4000, 8000]
PROSE = "It does one thing well. " * 12


def compact(value: object) -> str:
    """JSON as it is sent."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cost(tools: Sequence[Any], count: Callable[[str], int]) -> int:
    """The documented rule: 12 once, and for each tool 7 and its compact JSON."""
    return 12 + sum(7 + count(compact(tool)) for tool in tools) if tools else 0


def body(tool: dict[str, Any]) -> dict[str, Any]:
    inner = tool.get("function")
    return inner if isinstance(inner, dict) else tool


def schema_of(tool: dict[str, Any]) -> Any:
    inner = body(tool)
    for key in ("parameters", "input_schema", "inputSchema"):
        if key in inner:
            return inner[key]
    return None


def openai(name: str, description: str = PROSE, /, **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": sorted(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def recorded_sets(folder: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    sets = []
    for path in sorted((folder / "tools").glob("*.jsonl")):
        if path.stem != "bfcl_live_queries":
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                sets.append((record["id"], record["tools"]))
    return sets


# -- formats and order -------------------------------------------------------------------------------------------------

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string", "description": PROSE}}, "required": ["q"]}
FORMATS = {
    "openai": {"type": "function", "function": {"name": "f", "description": PROSE, "parameters": PARAMETERS}},
    "responses": {"type": "function", "name": "f", "description": PROSE, "parameters": PARAMETERS, "strict": True},
    "anthropic": {
        "name": "f",
        "description": PROSE,
        "input_schema": PARAMETERS,
        "cache_control": {"type": "ephemeral"},
    },
    "mcp": {"name": "f", "title": "F", "description": PROSE, "inputSchema": PARAMETERS, "annotations": {"a": 1}},
    "bare": {"name": "f", "description": PROSE, "parameters": PARAMETERS},
}


@pytest.mark.parametrize("tool", FORMATS.values(), ids=FORMATS)
def test_each_format_goes_out_as_it_came_in(tool: dict[str, Any]) -> None:
    """Shortened, a tool keeps its format; in full, it is the very object that was given."""
    before = copy.deepcopy(tool)
    assert fit_tools([tool], 10_000).tools[0] is tool
    (short,) = fit_tools([tool], 80).tools
    assert set(short) <= set(tool)
    assert set(tool) - set(short) <= {"description", "title", "annotations"}
    assert body(short)["name"] == "f"
    assert schema_of(short)["required"] == ["q"]
    assert schema_of(short)["properties"]["q"]["type"] == "string"
    assert tool == before


def test_tools_of_the_provider_are_kept_whole() -> None:
    """A web search tool has no schema to shorten: whole, or reported as dropped."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    assert fit_tools([search, openai("f")], 70, query="search").tools[0] is search
    assert [row.reason for row in fit_tools([search], 20).dropped] == ["too_large"]


def test_order_is_the_one_given() -> None:
    """Ranking chooses tools; it does not move them."""
    tools = [openai(f"tool_{n}") for n in range(30)]
    names = [body(tool)["name"] for tool in fit_tools(tools, 900, query="tool_20 tool_7").tools]
    assert names == sorted(names, key=lambda name: int(name.removeprefix("tool_")))
    assert {"tool_20", "tool_7"} <= set(names)


def test_no_tools_stay_no_tools() -> None:
    """An empty list costs nothing and stays one, at any budget."""
    result = fit_tools([], 0, used=["gone"])
    assert (result.tools, result.tokens, result.kept, result.dropped) == ([], 0, (), ())


def test_equal_names_are_both_kept() -> None:
    """Two servers may offer the same name; neither hides the other."""
    tools = [openai("search", "Search the web."), openai("search", "Search the mail.")]
    assert fit_tools(tools, 10_000).tools == tools
    assert len(fit_tools(tools, 80, used=["search"]).tools) == 2


# -- used tools --------------------------------------------------------------------------------------------------------


def test_used_tools_never_overrun_the_budget() -> None:
    """The textbook rule takes used tools without looking at the budget; here they shrink, or are refused with figures."""
    tools = [openai(f"f{n}", x={"type": "string", "description": PROSE}) for n in range(5)]
    used = [f"f{n}" for n in range(5)]
    result = fit_tools(tools, 250, used=used)
    assert result.tokens <= 250
    assert len(result.tools) == 5
    with pytest.raises(RequiredOverflowError) as caught:
        fit_tools(tools, 150, used=used)
    assert caught.value.budget == 150 < caught.value.total
    assert [label for label, _ in caught.value.items] == [f"tool f{n}" for n in range(5)]
    assert sum(tokens for _, tokens in caught.value.items) + 12 == caught.value.total
    fit_tools(tools, caught.value.total, used=used)


def test_used_tools_outlive_better_matches() -> None:
    """A tool that a kept call names is there, whatever the query asks for."""
    tools = [openai("weather", "Weather forecast."), openai("calendar", "Dates."), openai("mail", "Letters.")]
    names = [body(tool)["name"] for tool in fit_tools(tools, 62, query="weather forecast", used=["mail"]).tools]
    assert names == ["mail"]


def test_required_tools_do_not_become_nothing() -> None:
    """When not even the smallest form fits, it is an error and not an empty list."""
    with pytest.raises(RequiredOverflowError, match="tool f"):
        fit_tools([openai("f")], 10, used=["f"])


def test_one_that_does_not_fit_does_not_end_the_list() -> None:
    """The textbook rule stops at the first misfit."""
    huge = openai("huge", x={"enum": [f"value {n}" for n in range(500)]})
    result = fit_tools([huge, openai("small")], 200)
    assert [row.index for row in result.kept] == [1]
    assert [(row.source, row.index, row.reason) for row in result.dropped] == [("tool", 0, "too_large")]


# -- shortening --------------------------------------------------------------------------------------------------------


def test_a21_tools_are_counted() -> None:
    """A21: what tools cost is inside the budget, by the documented rule, to the token."""
    tok = Tokenizer("o200k_base")
    tools = [openai(f"f{n}", x={"type": "string"}) for n in range(40)]
    for budget in (300, 2000, 7000):
        result = fit_tools(tools, budget, tokenizer=tok)
        assert result.tokens == cost(result.tools, tok.count) <= budget


def test_a23_text_is_counted_as_it_is_sent() -> None:
    """A23: 60 Chinese characters are some 60 tokens, not the hundreds of their escapes; shortening never makes more."""
    tok = Tokenizer("cl100k_base")
    tool = openai("f", "配" * 60)
    assert fit_tools([tool], 10_000, tokenizer=tok).tokens == 12 + 7 + tok.count(compact(tool))
    (short,) = fit_tools([tool], 90, tokenizer=tok).tools
    assert tok.count(compact(short)) < tok.count(compact(tool))
    assert "\\u" not in compact(short)


def test_a27_reachable_definitions_stay() -> None:
    """A27: a $ref that led somewhere still does, definitions that nothing reaches go."""
    schema = {
        "type": "object",
        "properties": {"f": {"$ref": "#/$defs/F", "description": PROSE}},
        "$defs": {
            "F": {"enum": ["a", "b"], "description": PROSE},
            "Unused": {"type": "string", "description": PROSE},
        },
    }
    (short,) = fit_tools([{"name": "f", "inputSchema": schema}], 80).tools
    assert short["inputSchema"]["$defs"] == {"F": {"enum": ["a", "b"]}}
    jsonschema.validate({"f": "a"}, short["inputSchema"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"f": "c"}, short["inputSchema"])


def test_a_property_named_description_is_no_description() -> None:
    """Names inside `properties` are data, whatever they are called."""
    named = {"type": "string", "description": PROSE, "examples": [PROSE]}
    properties = dict.fromkeys(("description", "title", "examples", "default", "$comment"), named)
    (short,) = fit_tools([openai("f", **properties)], 120).tools
    assert set(schema_of(short)["properties"]) == set(properties)
    assert schema_of(short)["required"] == sorted(properties)


@pytest.mark.parametrize("text", ["配置" * 200, "😀" * 200, "word " * 200, "x" * 2000, "é\u0301" * 300])
def test_no_description_is_cut_inside_a_character(text: str) -> None:
    """Text without spaces, and characters of several bytes, are cut too, to valid text that was there."""
    (short,) = fit_tools([openai("f", text), openai("g", "small")], 220, query="f", used=["f"]).tools[:1]
    shown = body(short).get("description", "")
    assert "\ufffd" not in shown
    assert text.startswith(shown.removesuffix("…"))
    assert 0 < len(shown) < len(text)


# -- bad input ---------------------------------------------------------------------------------------------------------

BAD = {
    "not an object": ("search", "0", "", "not text"),
    "None": (None, "0", "", "not null"),
    "no name": ({"description": "d"}, "0", "/name", "no name"),
    "a wrapped tool without a name": ({"type": "function", "function": {}}, "0", "/function/name", "no name"),
    "schema is a list": ({"name": "f", "input_schema": []}, "f", "/input_schema", "a list"),
    "schema is text": (
        openai("f") | {"function": {"name": "f", "parameters": "{}"}},
        "f",
        "/function/parameters",
        "text",
    ),
    "a set inside": ({"name": "f", "parameters": {"enum": {1, 2}}}, "f", "/parameters/enum", "set"),
    "an object inside": ({"name": "f", "parameters": {"x": [object()]}}, "f", "/parameters/x/0", "object"),
    "NaN inside": ({"name": "f", "parameters": {"a/b": float("nan")}}, "f", "/parameters/a~1b", "NaN"),
    "description is a list": ({"name": "f", "description": ["d"]}, "f", "/description", "a list"),
}


@pytest.mark.parametrize(("tool", "name", "path", "reason"), BAD.values(), ids=BAD)
def test_a_bad_tool_is_named_with_its_place(tool: Any, name: str, path: str, reason: str) -> None:
    """ToolSchemaError says which tool, where in it, and what is wrong."""
    with pytest.raises(ToolSchemaError) as caught:
        fit_tools([tool], 1000)
    assert (caught.value.tool, caught.value.path) == (name, path)
    assert reason in caught.value.reason
    assert name in str(caught.value)


def test_endless_and_deep_tools_are_refused() -> None:
    """A tool that contains itself, or nests deeper than anything sends, is an error and not a crash."""
    endless: dict[str, Any] = {"name": "f"}
    endless["parameters"] = {"items": endless}
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"items": deep}
    shared: list[Any] = ["x"]
    for _ in range(40):
        shared = [shared, shared]
    for tool in (endless, {"name": "f", "parameters": deep}, {"name": "f", "parameters": {"enum": shared}}):
        with pytest.raises(ToolSchemaError, match=r"deeper than|more than"):
            fit_tools([tool], 1000)


@pytest.mark.parametrize(("tools", "budget"), [("text", 9), ({"name": "f"}, 9), (7, 9), ([], -1)])
def test_wrong_arguments_are_refused(tools: Any, budget: int) -> None:
    """A string or a single tool in place of the list, and a negative budget, are named."""
    with pytest.raises(ArgumentError, match=r"tools must be a list|budget must be an int of at least 0, not -1"):
        fit_tools(tools, budget)


def test_a_counter_that_fails_is_heard() -> None:
    """What a caller's own counter raises comes through as it is."""

    def broken(_: str) -> int:
        raise KeyError("vocabulary")

    with pytest.raises(KeyError, match="vocabulary"):
        fit_tools([openai("f")], 100, tokenizer=Tokenizer.from_callable(broken))


def test_a_margin_is_taken_off_the_budget() -> None:
    """An inexact counter leaves its safety share free."""
    exact = Tokenizer("o200k_base")
    tools = [openai(f"f{n}") for n in range(40)]
    careful = Tokenizer.from_callable(exact.count, margin=0.25)
    assert fit_tools(tools, 1000, tokenizer=careful).tokens <= 800 < fit_tools(tools, 1000, tokenizer=exact).tokens


# -- sets and determinism ----------------------------------------------------------------------------------------------


def test_a_set_gives_what_the_list_gives() -> None:
    """A ToolSet is the list, read once."""
    tools = [openai(f"f{n}", x={"type": "string", "description": PROSE}) for n in range(30)]
    made = ToolSet(tools)
    assert len(made) == 30
    assert made.names[:2] == ["f0", "f1"]
    assert fit_tools(made, 900, query="f7").tools == fit_tools(tools, 900, query="f7").tools
    assert made.scores("f7")[7] == max(made.scores("f7")) > 0


def test_a_changed_tool_is_seen() -> None:
    """What is kept between calls is kept by content: a tool that is changed in place is read again."""
    tool = openai("f", "old")
    before = fit_tools([tool], 1000).tokens
    tool["function"]["description"] = "new and quite a bit longer"
    assert fit_tools([tool], 1000).tokens > before


def test_any_change_deep_in_a_tool_is_seen() -> None:
    """A list that stands as it did is known as a whole; what is changed, swapped or put where another lay is not."""
    tools = [openai(f"tool{n}", place={"type": "string", "enum": ["here", "there"]}) for n in range(4)]

    def deepen() -> None:
        properties(tools[1])["place"]["enum"].append("nowhere")

    def rename() -> None:
        tools[2]["function"]["name"] = "other"

    def renew() -> None:
        properties(tools[0])["place"] = {"type": "string", "enum": ["up", "down"]}

    def swap() -> None:
        tools[0], tools[3] = tools[3], tools[0]

    def properties(tool: dict[str, Any]) -> Any:
        return tool["function"]["parameters"]["properties"]

    for change in (deepen, rename, renew, swap, deepen, renew, tools.pop, renew):
        for budget in (60, 150, 1_000):
            fresh = fit_tools(copy.deepcopy(tools), budget)
            again = fit_tools(tools, budget)
            assert (again.tools, again.tokens, again.kept) == (fresh.tools, fresh.tokens, fresh.kept)
        change()


def test_shortened_tools_belong_to_the_caller() -> None:
    """Changing a result changes neither the input nor the next result."""
    tools = [openai("f", x={"type": "string", "description": PROSE})]
    first = fit_tools(tools, 60).tools
    first[0]["function"]["parameters"]["properties"].clear()
    assert fit_tools(tools, 60).tools[0]["function"]["parameters"]["properties"] == {"x": {"type": "string"}}


# -- recorded tools ----------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("budget", BUDGETS)
def test_recorded_tools_fit_and_stay_valid(recorded: Path, budget: int, tiktoken_encoding: Any) -> None:
    """Every recorded set: within budget by tiktoken, valid JSON Schema, names, required and types whole, never larger."""
    encoding = tiktoken_encoding("o200k_base")

    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    n_cut = 0
    for name, tools in recorded_sets(recorded):
        result = fit_tools(tools, budget)
        assert result.tokens == cost(result.tools, count) <= budget, name
        assert [row.index for row in (*result.kept, *result.dropped)] != []
        assert sorted(row.index for row in (*result.kept, *result.dropped)) == list(range(len(tools)))
        n_cut += any(row.rendition == "shortened" for row in result.kept)
        for row, shown in zip(result.kept, result.tools, strict=True):
            given = tools[row.index]
            if row.rendition == "full":
                assert shown is given
                continue
            assert count(compact(shown)) < count(compact(given))
            before, after = schema_of(given), schema_of(shown)
            assert body(shown)["name"] == body(given)["name"]
            assert after.get("required") == before.get("required")
            assert set(after.get("properties", {})) == set(before.get("properties", {}))
            validator = jsonschema.validators.validator_for(after, default=jsonschema.Draft202012Validator)
            validator.check_schema(after)
    assert n_cut > 0


# -- properties --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b~/c", "title", "description", "examples", "配置", "$ref", "properties"])
LEAVES = st.sampled_from(
    [
        {"type": "string", "description": PROSE, "default": "x"},
        {"enum": ["a", {"title": "data", "description": "data"}], "title": "T"},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b~0~1c"},
        {"$ref": "#"},
        {"type": "integer", "minimum": 1, "examples": [1], "$comment": PROSE},
        True,
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).map(
            lambda entries: {"type": "object", "properties": entries, "required": sorted(entries), "title": "T"}
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda all_: {"anyOf": all_, "description": "配置说明。" * 9}),
        inner.map(lambda items: {"type": "array", "items": items, "maxItems": 9}),
        inner.map(lambda open_: {"type": "object", "additionalProperties": open_}),
    ),
    max_leaves=12,
)


def strip(schema: Any) -> Any:
    """What every form must keep of a schema: written apart from the code under test."""
    if isinstance(schema, list):
        return [strip(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: schema[key] for key in ("type", "enum", "const", "required", "$ref") if key in schema}
    for key in ("items", "additionalProperties", "anyOf"):
        if key in schema:
            kept[key] = strip(schema[key])
    if "properties" in schema:
        kept["properties"] = {name: strip(one) for name, one in schema["properties"].items()}
    return kept


def resolves(root: dict[str, Any], pointer: str) -> bool:
    value: Any = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for inner in value.values() for ref in refs(inner)]
    return [ref for inner in value for ref in refs(inner)] if isinstance(value, list) else []


@given(st.lists(SCHEMAS, min_size=1, max_size=4), st.integers(0, 600), st.data())
def test_any_schema_fits_whole_in_what_matters(schemas: list[Any], budget: int, data: st.DataObject) -> None:
    """Within budget by the documented rule; shape, names, enums and references whole; deterministic; input untouched."""
    tok = Tokenizer("o200k_base")
    tools = []
    for n, schema in enumerate(schemas):
        root = {
            "type": "object",
            "properties": {"p": schema},
            "$defs": {"a": {"const": 1}, "b~/c": {"$ref": "#/$defs/a"}},
        }
        root["$defs"]["lost"] = {"type": "null", "description": PROSE}
        tools.append({"name": f"f{n}", "description": PROSE, "inputSchema": root})
    before = copy.deepcopy(tools)
    used = [f"f{n}" for n in data.draw(st.sets(st.integers(0, 3)))]
    try:
        result = fit_tools(tools, budget, query="data", used=used, tokenizer=tok)
    except RequiredOverflowError:
        assert used
        return
    assert tools == before
    assert result.tokens == cost(result.tools, tok.count) <= budget
    assert result.tools == fit_tools(tools, budget, query="data", used=used, tokenizer=tok).tools
    assert {tool["name"] for tool in result.tools} >= {tool["name"] for tool in tools} & set(used)
    for row, shown in zip(result.kept, result.tools, strict=True):
        given = tools[row.index]
        if row.rendition == "full":
            assert shown is given
            continue
        root, original = shown["inputSchema"], given["inputSchema"]
        assert strip(root["properties"]["p"]) == strip(original["properties"]["p"])
        assert "lost" not in root.get("$defs", {})
        for ref in refs(root):
            assert resolves(root, ref.removeprefix("#")) or not resolves(original, ref.removeprefix("#"))
        assert tok.count(compact(shown)) < tok.count(compact(given))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "type", "function", "parameters", "description", "properties", "$ref", "$defs", "items"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=16,
)


@given(st.lists(JSON, max_size=4), st.integers(0, 200), st.text(max_size=9))
def test_garbage_is_fitted_or_refused(tools: list[Any], budget: int, query: str) -> None:
    """Whatever JSON comes as tools, the answer is a result within budget or an error of ours."""
    try:
        result = fit_tools(tools, budget, query=query)
    except HoldallError:
        return
    assert result.tokens <= budget


class Word(str):
    """A text that is no exact str."""

    __slots__ = ()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_a_tool_holds_is_counted_as_it_is_sent(value: Any) -> None:
    """The JSON that is counted is that of `json.dumps`, of exact builtin types and of others alike."""
    tok = Tokenizer("o200k_base")
    for other in ([], [(1, "two")], [Word("three")], [{4: 5, None: True}], [2**70]):
        tool = {"name": "f", "parameters": {"value": value, "other": other}}
        assert fit_tools([tool], 10**9, tokenizer=tok).tokens == cost([tool], tok.count)


def test_names_are_exported() -> None:
    """The public names are there."""
    assert {"fit_tools", "ToolSet", "ToolsResult"} <= set(holdall.__all__)
