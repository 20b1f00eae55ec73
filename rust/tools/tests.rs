//! Forms, references and the choice, on schemas small enough to read.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::shorten::{Full, cut};
use super::*;
use crate::chat::Json;
use crate::tokens::Counter;
use crate::{Error, Result};

/// One token for every four bytes, so that sizes can be worked out by eye.
struct Quarters;

impl Counter for Quarters {
    fn count(&self, text: &str) -> Result<u64> {
        Ok(text.len().div_ceil(4) as u64)
    }
    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        Ok(text.len().min(limit as usize * 4))
    }
    fn id(&self) -> u64 {
        1
    }
}

fn set(tools: &[Value]) -> ToolSet {
    let read = |(at, tool): (usize, &Value)| Arc::new(Tool::read(&Json::Value(tool), at).expect("a tool"));
    ToolSet::new(tools.iter().enumerate().map(read).collect())
}

fn shorten(tool: &Value, format: Format, step: Step) -> Option<Value> {
    let short = Full { json: &tool.to_string(), format, tree: &|| tool }.shorten(step);
    short.map(|short| serde_json::from_str(&short).expect("JSON"))
}

fn shortened(schema: &Value, step: Step) -> Value {
    let tool = json!({"name": "f", "parameters": schema});
    let short = shorten(&tool, Format::Flat, step).expect("can be shortened");
    short["parameters"].clone()
}

fn fault(tool: &Value) -> (String, String, String) {
    match Tool::read(&Json::Value(tool), 3) {
        Err(Error::ToolSchema { tool, path, reason }) => (tool, path, reason),
        other => panic!("expected a fault, not {other:?}"),
    }
}

#[test]
fn formats_are_told_apart() {
    let rows = [
        (json!({"type": "function", "function": {"name": "f", "parameters": {}}}), Format::OpenAi, "f"),
        (json!({"function": {"name": "f"}}), Format::OpenAi, "f"),
        (json!({"type": "function", "name": "f", "parameters": {}}), Format::Flat, "f"),
        (json!({"name": "f"}), Format::Flat, "f"),
        (json!({"name": "f", "input_schema": {}}), Format::Anthropic, "f"),
        (json!({"type": "custom", "name": "f", "input_schema": {}}), Format::Anthropic, "f"),
        (json!({"name": "f", "inputSchema": {}}), Format::Mcp, "f"),
        (json!({"type": "web_search_20250305", "name": "web_search"}), Format::Opaque, "web_search"),
        (json!({"type": "computer_use_preview", "display_width": 800}), Format::Opaque, "computer_use_preview"),
        (json!({"type": "custom", "custom": {"name": "shell", "format": {"type": "text"}}}), Format::Opaque, "shell"),
    ];
    for (value, format, name) in rows {
        let tool = Tool::read(&Json::Value(&value), 0).expect("a tool");
        assert_eq!((tool.format(), tool.name()), (format, name), "{value}");
    }
}

#[test]
fn faults_name_the_tool_and_the_place() {
    let rows = [
        (json!("search"), "3", "", "not text"),
        (json!({"description": "no name"}), "3", "/name", "no name"),
        (json!({"type": "function", "function": {"description": "d"}}), "3", "/function/name", "no name"),
        (json!({"name": ""}), "3", "/name", "empty"),
        (json!({"name": 7}), "3", "/name", "a number"),
        (json!({"type": "function", "function": "f"}), "3", "/function", "must be an object"),
        (json!({"name": "f", "input_schema": []}), "f", "/input_schema", "a list"),
        (
            json!({"type": "function", "function": {"name": "f", "parameters": true}}),
            "f",
            "/function/parameters",
            "boolean",
        ),
        (json!({"name": "f", "description": ["d"]}), "f", "/description", "a list"),
    ];
    for (value, tool, path, reason) in rows {
        let found = fault(&value);
        assert_eq!((found.0.as_str(), found.1.as_str()), (tool, path), "{value}");
        assert!(found.2.contains(reason), "{}", found.2);
    }
    let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
    assert!(fault(&json!({"name": "f", "parameters": deep})).2.contains("nested deeper"));
}

#[test]
fn properties_named_like_notes_stay() {
    let named = json!({"type": "string", "description": "a note", "title": "a note", "examples": ["x"]});
    let schema = json!({
        "title": "T", "type": "object", "required": ["description", "title"],
        "properties": {"description": named, "title": named, "examples": named, "default": named, "format": named}
    });
    let bare = json!({"type": "string"});
    assert_eq!(
        shortened(&schema, Step::Bare),
        json!({
            "type": "object", "required": ["description", "title"],
            "properties": {"description": bare, "title": bare, "examples": bare, "default": bare, "format": bare}
        })
    );
}

#[test]
fn enums_constants_and_shape_stay() {
    let schema = json!({
        "type": "object",
        "properties": {
            "mode": {"enum": ["a", {"title": "b", "description": "data"}], "default": "a"},
            "kind": {"const": {"description": "data"}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number", "title": "X"}}}},
            "any": {"anyOf": [{"type": "string", "description": "s"}, {"type": "null", "title": "n"}]},
            "open": {"type": "object", "additionalProperties": {"type": "string", "description": "d"}},
            "branch": {"if": {"title": "t", "type": "string"}, "then": {"minLength": 1}, "else": false}
        },
        "patternProperties": {"^x-": {"type": "string", "description": "d"}},
        "additionalProperties": false
    });
    assert_eq!(
        shortened(&schema, Step::Brief),
        json!({
            "type": "object",
            "properties": {
                "mode": {"enum": ["a", {"title": "b", "description": "data"}]},
                "kind": {"const": {"description": "data"}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
                "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "open": {"type": "object", "additionalProperties": {"type": "string"}},
                "branch": {"if": {"type": "string"}, "then": {"minLength": 1}, "else": false}
            },
            "patternProperties": {"^x-": {"type": "string"}},
            "additionalProperties": false
        })
    );
}

#[test]
fn reachable_definitions_stay_and_others_go() {
    let schema = json!({
        "properties": {
            "a": {"$ref": "#/$defs/A~1x~0y"},
            "b": {"anyOf": [{"items": {"$ref": "#/definitions/B%20b/properties/deep"}}]},
            "loop": {"$ref": "#"}
        },
        "$defs": {
            "A/x~y": {"properties": {"next": {"$ref": "#/$defs/Next"}}, "description": "goes"},
            "Next": {"$ref": "#/$defs/A~1x~0y"},
            "Lost": {"$ref": "#/$defs/AlsoLost"},
            "AlsoLost": {"enum": [1]}
        },
        "definitions": {"B b": {"properties": {"deep": {"type": "string"}}}, "Gone": {}}
    });
    let short = shortened(&schema, Step::Bare);
    assert_eq!(
        short["$defs"],
        json!({"A/x~y": {"properties": {"next": {"$ref": "#/$defs/Next"}}}, "Next": {"$ref": "#/$defs/A~1x~0y"}})
    );
    assert_eq!(short["definitions"], json!({"B b": {"properties": {"deep": {"type": "string"}}}}));
    let unused = shortened(&json!({"type": "object", "$defs": {"F": {"enum": [1]}}}), Step::Trimmed);
    assert_eq!(unused, json!({"type": "object"}));
}

#[test]
fn other_references_keep_every_definition() {
    let schema = json!({"$ref": "#anchor", "$defs": {"F": {"$anchor": "anchor", "title": "t"}, "G": {}}});
    assert_eq!(
        shortened(&schema, Step::Bare),
        json!({"$ref": "#anchor", "$defs": {"F": {"$anchor": "anchor"}, "G": {}}})
    );
}

#[test]
fn a_reference_into_what_would_go_keeps_the_tool_whole() {
    let schema = json!({"properties": {"a": {"$ref": "#/properties/b/default"}, "b": {"default": {"type": "string"}}}});
    assert_eq!(shorten(&json!({"name": "f", "parameters": schema}), Format::Flat, Step::Bare), None);
}

#[test]
fn the_dialect_stays_where_it_matters() {
    let draft = "http://json-schema.org/draft-07/schema#";
    assert_eq!(shortened(&json!({"$schema": draft, "type": "object"}), Step::Trimmed), json!({"type": "object"}));
    let tuple = json!({"$schema": draft, "properties": {"p": {"items": [{"type": "string"}]}}});
    assert_eq!(shortened(&tuple, Step::Bare), tuple);
}

#[test]
fn what_surrounds_the_schema_keeps_its_format() {
    let tool = json!({
        "name": "f", "title": "F", "description": "One. Two.", "inputSchema": {"type": "object", "title": "t"},
        "annotations": {"readOnlyHint": true}, "outputSchema": {"type": "object"}, "strict": true, "x-own": 1
    });
    assert_eq!(
        shorten(&tool, Format::Mcp, Step::Trimmed),
        Some(
            json!({"name": "f", "description": "One. Two.", "inputSchema": {"type": "object"}, "strict": true, "x-own": 1})
        )
    );
    let tool = json!({
        "type": "function", "cache_control": {"type": "ephemeral"},
        "function": {"name": "f", "description": "d", "strict": true, "parameters": {"type": "object"}}
    });
    assert_eq!(
        shorten(&tool, Format::OpenAi, Step::Bare),
        Some(json!({
            "type": "function", "cache_control": {"type": "ephemeral"},
            "function": {"name": "f", "strict": true, "parameters": {"type": "object"}}
        }))
    );
}

#[test]
fn descriptions_are_cut_at_sentences_and_characters() {
    assert_eq!(cut("One two. Three four five.", 3).as_deref(), Some("One two."));
    assert_eq!(cut("Version 1.5 is here and more", 3).as_deref(), Some("Version 1.5…"));
    assert_eq!(cut("short", 16).as_deref(), Some("short"));
    assert_eq!(cut("配置项目。说明文字", 6).as_deref(), Some("配置项目。"));
    assert_eq!(cut("😀😀😀😀", 2).as_deref(), Some("😀😀…"));
    assert_eq!(cut("anything", 0), None);
    assert_eq!(cut("  \n ", 9), None);
}

fn plain(name: &str, words: usize) -> Value {
    json!({"name": name, "description": "word ".repeat(words).trim(), "parameters": {"type": "object"}})
}

#[test]
fn what_fits_is_left_alone() {
    let set = set(&[plain("a", 9), json!({"type": "web_search"}), plain("a", 9)]);
    let fit = fit(&set, 10_000, Wish::default(), &Quarters, &Costs::default()).expect("fits");
    assert_eq!(fit.shown, [Shown::As(Step::Full); 3]);
    let json: u64 = set.iter().filter_map(|tool| tool.text(Step::Full)).map(|text| text.len().div_ceil(4) as u64).sum();
    assert_eq!(fit.tokens, 12 + 3 * 7 + json);
    let exactly = super::fit(&set, fit.tokens, Wish::default(), &Quarters, &Costs::default()).expect("fits");
    assert_eq!(exactly, fit);
}

#[test]
fn no_tools_cost_nothing() {
    let fit = fit(&set(&[]), 0, Wish::default(), &Quarters, &Costs::default()).expect("fits");
    assert_eq!((fit.shown.len(), fit.tokens), (0, 0));
}

#[test]
fn used_tools_come_first_then_the_best() {
    let set = set(&[plain("poor", 40), plain("high", 40), plain("used", 40), plain("good", 40)]);
    let scores = [1.0, 9.0, 0.0, 5.0];
    let wish = Wish { scores: Some(&scores), used: &["used"] };
    let small = 7 + set.get(0).and_then(|tool| tool.text(Step::Bare)).map_or(0, |text| text.len().div_ceil(4) as u64);
    let fit_in = |budget| fit(&set, budget, wish, &Quarters, &Costs::default()).expect("fits").shown;
    let bare = Shown::As(Step::Bare);
    assert_eq!(fit_in(12 + small), [Shown::Dropped, Shown::Dropped, bare, Shown::Dropped]);
    assert_eq!(fit_in(12 + 2 * small + 1), [Shown::Dropped, bare, bare, Shown::Dropped]);
    assert_eq!(fit_in(12 + 3 * small + 1), [Shown::Dropped, bare, bare, bare]);
    let full = Shown::As(Step::Full);
    assert_eq!(fit_in(12 + 3 * (small + 60)), [Shown::Dropped, full, full, full]);
}

#[test]
fn used_tools_that_cannot_fit_say_by_how_much() {
    let set = set(&[plain("a", 3), plain("b", 3), plain("c", 3)]);
    let wish = Wish { scores: None, used: &["a", "c"] };
    let needed = minimum(&set, wish.used, &Quarters, &Costs::default()).expect("counts");
    assert!(fit(&set, needed, wish, &Quarters, &Costs::default()).is_ok());
    match fit(&set, needed - 1, wish, &Quarters, &Costs::default()) {
        Err(Error::RequiredOverflow { budget, total, items }) => {
            assert_eq!((budget, total), (needed - 1, needed));
            assert_eq!(items.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["tool a", "tool c"]);
            assert_eq!(items.iter().map(|(_, tokens)| tokens).sum::<u64>() + 12, needed);
        }
        other => panic!("expected an overflow, not {other:?}"),
    }
}

#[test]
fn one_that_does_not_fit_does_not_end_the_list() {
    let huge = json!({"name": "huge", "parameters": {"properties": {"p": {"enum": vec!["value"; 400]}}}});
    let set = set(&[huge, plain("small", 2)]);
    let fit = fit(&set, 60, Wish::default(), &Quarters, &Costs::default()).expect("fits");
    assert_eq!(fit.shown, [Shown::Dropped, Shown::As(Step::Full)]);
}

#[test]
fn ranking_reads_names_parameters_and_enums() {
    let set = set(&[
        json!({"name": "get_weather", "description": "forecast"}),
        json!({"type": "function", "function": {"name": "book", "parameters": {"properties": {"flightNumber": {"type": "string"}}}}}),
        json!({"name": "play", "input_schema": {"properties": {"genre": {"enum": ["jazz"], "description": "kind of music"}}}}),
    ]);
    for (query, best) in [("weather today", 0), ("the flight number", 1), ("jazz music", 2)] {
        let scores = set.scores(&Terms::of(query));
        assert!(scores.iter().enumerate().all(|(at, score)| (*score > 0.0) == (at == best)), "{query}: {scores:?}");
    }
}

/// Schemas with references (cyclic ones too), notes, and names that look like keywords.
fn schemas() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("a"), Just("b/~"), Just("title"), Just("description"), Just("é配"), Just("$ref")]
        .prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(json!({"type": "string", "description": "Text. More of it. 配置说明。", "default": "x"})),
        Just(json!({"enum": ["a", {"title": "data"}], "title": "Enum", "examples": ["a"]})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#/$defs/b~1~0"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/properties/title"})),
        Just(json!(true)),
        Just(json!(17)),
    ];
    let tree = leaf.prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            proptest::collection::vec((name.clone(), inner.clone()), 0..3)
                .prop_map(|entries| json!({"properties": entries.into_iter().collect::<serde_json::Map<_, _>>(), "description": "An object."})),
            proptest::collection::vec(inner.clone(), 0..3).prop_map(|all| json!({"anyOf": all, "$comment": "c"})),
            inner.prop_map(|items| json!({"items": items, "minItems": 1})),
        ]
    });
    (tree.clone(), tree.clone(), tree).prop_map(
        |(p, a, b)| json!({"properties": {"title": p}, "$defs": {"a": a, "b/~": b, "lost": {"type": "null"}}}),
    )
}

proptest! {
    #[test]
    fn short_forms_are_smaller_and_resolve(schema in schemas()) {
        let tool = json!({"name": "f", "description": "Does it. Twice.", "parameters": schema.clone()});
        let set = set(&[tool]);
        let full = set.get(0).and_then(|tool| tool.text(Step::Full)).map_or(0, str::len);
        for step in [Step::Trimmed, Step::Brief, Step::Bare] {
            let Some(short) = set.get(0).and_then(|tool| tool.value(step)) else { continue };
            prop_assert!(short.to_string().len() < full);
            let (Value::Object(before), Value::Object(after)) = (&schema, &short["parameters"]) else { continue };
            prop_assert!(refs::all_resolve(before, after));
            prop_assert!(after.get("$defs").and_then(|all| all.get("lost")).is_none());
        }
    }

    #[test]
    fn a_fit_never_exceeds_and_counts_what_it_shows(
        words in proptest::collection::vec(0usize..60, 0..8), budget in 0u64..400, scores in proptest::collection::vec(0.0f64..9.0, 8)
    ) {
        let tools: Vec<Value> = words.iter().enumerate().map(|(at, n)| plain(&format!("t{at}"), *n)).collect();
        let set = set(&tools);
        let scores = &scores[..tools.len()];
        let wish = Wish { scores: Some(scores), used: &[] };
        let fit = fit(&set, budget, wish, &Quarters, &Costs::default()).expect("nothing is required");
        let shown: Vec<u64> = set.iter().zip(&fit.shown).filter_map(|(tool, shown)| match shown {
            Shown::As(step) => tool.tokens(*step, &Quarters, &Costs::default()).expect("counts"),
            Shown::Dropped => None,
        }).collect();
        let total = if shown.is_empty() { 0 } else { 12 + shown.iter().sum::<u64>() };
        prop_assert_eq!(fit.tokens, total);
        prop_assert!(total <= budget);
    }

    #[test]
    fn whatever_json_comes_is_fitted_or_refused(
        values in proptest::collection::vec(anything(), 0..4), budget in 0u64..200, query in "\\PC{0,12}"
    ) {
        let read = values.into_iter().enumerate().map(|(at, value)| Tool::read(&Json::Value(&value), at).map(Arc::new));
        let Ok(tools) = read.collect::<Result<Vec<_>>>() else { return Ok(()) };
        let set = ToolSet::new(tools);
        let scores = set.scores(&Terms::of(&query));
        let first = set.get(0).map_or("", Tool::name).to_owned();
        for used in [&[][..], &[first.as_str()][..]] {
            let wish = Wish { scores: Some(&scores), used };
            match fit(&set, budget, wish, &Quarters, &Costs::default()) {
                Ok(fit) => {
                    prop_assert!(fit.tokens <= budget);
                    prop_assert!(used.is_empty() || set.is_empty() || fit.shown.first() != Some(&Shown::Dropped));
                }
                Err(Error::RequiredOverflow { budget, total, .. }) => prop_assert!(!used.is_empty() && total > budget),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        for tool in set.iter() {
            prop_assert_eq!(tool.terms(), &terms_of_tree(tool));
            let full = tool.text(Step::Full).map_or(0, str::len);
            for step in [Step::Trimmed, Step::Brief, Step::Bare] {
                prop_assert!(tool.text(step).is_none_or(|short| short.len() < full));
                let again = tool.value(step).map(|short| Tool::read(&Json::Value(short), 0).map(|tool| tool.name().to_owned()));
                prop_assert!(again.is_none_or(|again| again.as_deref() == Ok(tool.name())));
            }
        }
    }
}

#[test]
fn many_tools_score_on_all_threads_as_each_does_alone() {
    let tool = |n: usize| {
        let word = |k: usize| format!("word{} ", n * k % 97);
        let text: String = (0..60).map(word).collect();
        json!({"name": format!("tool_{n}"), "description": text, "parameters": {"type": "object", "properties": {text: {}}}})
    };
    let tools: Vec<Value> = (0..400).map(tool).collect();
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(bytes > 2 * BYTES_PER_THREAD, "too little for a second thread");
    let (together, alone) = (set(&tools), set(&tools));
    let query = Terms::of("word7 word31 word96 tool");
    for (at, tool) in alone.iter().enumerate() {
        assert_eq!(tool.terms(), &terms_of_tree(tool), "{at}");
    }
    assert_eq!(together.scores(&query), alone.scores(&query));
    assert!(together.iter().zip(alone.iter()).all(|(one, other)| one.terms() == other.terms()));
}

/// The terms of a tool from a tree of it: what the walk over its JSON has to find.
fn terms_of_tree(tool: &Tool) -> Terms {
    fn schema(value: &Value, parts: &mut Vec<String>) {
        match value {
            Value::Array(schemas) => schemas.iter().for_each(|inner| schema(inner, parts)),
            Value::Object(entries) => entries.iter().for_each(|(key, value)| keyword(key, value, parts)),
            _ => {}
        }
    }
    fn keyword(key: &str, value: &Value, parts: &mut Vec<String>) {
        match (key, value) {
            ("description" | "title", Value::String(text)) => parts.push(text.clone()),
            ("enum", Value::Array(values)) => parts.extend(values.iter().filter_map(Value::as_str).map(str::to_owned)),
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                for (name, inner) in named {
                    if key == "properties" {
                        parts.push(name.clone());
                    }
                    schema(inner, parts);
                }
            }
            ("items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" | "prefixItems", inner) => {
                schema(inner, parts);
            }
            _ => {}
        }
    }
    let mut parts = vec![tool.name().to_owned(); 3];
    let full = tool.value(Step::Full);
    let body = if tool.format() == Format::OpenAi { full.and_then(|value| value.get("function")) } else { full };
    if let Some(body) = body {
        parts.extend(body.get("description").and_then(Value::as_str).map(str::to_owned));
        if let Some(value @ Value::Object(_)) = body.get(tool.format().schema_key().text()) {
            schema(value, &mut parts);
        }
        // What a provider runs itself is known by its type, whatever else it says.
        if tool.format() == Format::Opaque {
            parts.extend(body.get("type").and_then(Value::as_str).map(str::to_owned));
        }
    }
    Terms::of_parts(parts.iter().map(|part| (part.as_str(), 1)))
}

/// Any JSON, leaning towards what looks like a tool: the keys that shortening and reading know, and odd text.
pub(super) fn anything() -> impl Strategy<Value = Value> {
    const KEYS: [&str; 26] = [
        "name",
        "type",
        "function",
        "description",
        "parameters",
        "input_schema",
        "inputSchema",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "definitions",
        "required",
        "enum",
        "default",
        "title",
        "examples",
        "$schema",
        "if",
        "additionalProperties",
        "custom",
        "const",
        "minLength",
        "$anchor",
        "annotations",
    ];
    let text = prop_oneof![
        proptest::sample::select(vec![
            "f",
            "function",
            "custom",
            "web_search",
            "object",
            "string",
            "",
            "#",
            "#/$defs/name",
            "#/$defs/a~1b~0",
            "#/definitions/%6eame",
            "#/properties/name/default",
            "#anchor",
            "other.json#/x",
            "#/",
            "#/$defs",
            "#/$defs/%e9%",
            "One. Two. Three words more.",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,40}",
        "[ .!?。；\n😀配é\u{300}a,]{0,120}",
    ];
    let key = prop_oneof![9 => proptest::sample::select(KEYS.to_vec()).prop_map(str::to_owned), 1 => text.clone()];
    let leaf = prop_oneof![
        4 => text.prop_map(Value::String),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let tree = leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    });
    // Mostly with a name and a schema, so that reading goes on to the rest.
    let wrap = |(format, description, schema, other): (usize, Value, Value, Value)| match format {
        0 => {
            json!({"type": "function", "function": {"name": "f", "description": description, "parameters": schema, "title": other}})
        }
        1 => json!({"name": "g", "description": description, "input_schema": schema, "cache_control": other}),
        2 => json!({"name": "h", "description": description, "inputSchema": schema, "annotations": other}),
        3 => json!({"type": "function", "name": "i", "parameters": schema, "strict": true}),
        _ => other,
    };
    (0usize..6, tree.clone(), tree.clone(), tree).prop_map(wrap)
}
