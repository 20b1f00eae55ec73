//! What is read of each format.

use serde_json::{Value, json};

use Role::{Assistant, Tool, User};

use super::{nodes, read, refused, sendable};
use crate::chat::{
    Edit, Fingerprinter, Format, Json, MediaKind, Message, Part, PartKind, Path, Role, apply, detect, parse_system,
};

fn one(format: Format, message: &Value) -> Message {
    read(format, &json!([message])).remove(0)
}

fn texts(message: &Message) -> Vec<(String, &str)> {
    message.parts.iter().map(|part| (part.text_path().to_string(), &*part.text)).collect()
}

fn owned<'a>(rows: &[(&str, &'a str)]) -> Vec<(String, &'a str)> {
    rows.iter().map(|(path, text)| ((*path).to_owned(), *text)).collect()
}

#[test]
fn chat_content_is_text_parts_or_nothing() {
    assert_eq!(texts(&one(Format::OpenAi, &json!({"role": "user", "content": "hi"}))), owned(&[("content", "hi")]));
    let parts = json!({"role": "user", "content": [
        {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, "bare",
        {"type": "unheard", "payload": {"deep": ["string"]}}
    ]});
    let message = one(Format::OpenAi, &parts);
    assert_eq!(
        texts(&message),
        owned(&[
            ("content[0].text", "see"),
            ("content[1]", ""),
            ("content[2]", ""),
            ("content[3]", "bare"),
            ("content[4]", "")
        ])
    );
    let media: Vec<_> = message
        .parts
        .iter()
        .filter_map(|part| match part.kind {
            PartKind::Media(media) => Some((media.kind, media.is_low_detail, media.bytes)),
            _ => None,
        })
        .collect();
    assert_eq!(media, [(MediaKind::Image, true, None), (MediaKind::Audio, false, Some(3))]);
    assert!(message.parts[4].rest.strings.contains(&"string".into()));
    let tool =
        one(Format::OpenAi, &json!({"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "R"}]}));
    assert_eq!(tool.parts[0].kind, PartKind::Result);
    assert_eq!(&*tool.answers[0].id, "a");
}

#[test]
fn chat_calls_keep_their_arguments_as_they_are() {
    let message = one(
        Format::OpenAi,
        &json!({"role": "assistant", "content": "", "refusal": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "not { json"}},
            {"id": "b", "type": "custom", "custom": {"name": "g", "input": "raw"}},
            {"id": "c", "type": "function", "function": {"name": "h", "arguments": {"city": "東京", "n": [1, 2.5, true]}}}
        ]}),
    );
    let calls: Vec<_> = message.calls.iter().map(|call| (&*call.id, &*call.name)).collect();
    assert_eq!(calls, [("a", "f"), ("b", "g"), ("c", "h")]);
    assert_eq!(
        texts(&message),
        owned(&[
            ("content", ""),
            ("tool_calls[0].function.arguments", "not { json"),
            ("tool_calls[1].custom.input", "raw"),
            ("tool_calls[2].function.arguments", r#"{"city":"東京","n":[1,2.5,true]}"#)
        ])
    );
    assert!(!message.is_empty);
}

#[test]
fn anthropic_blocks_are_parts_with_their_results_inside() {
    let message = one(
        Format::Anthropic,
        &json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [
                {"type": "text", "text": "R"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]},
            {"type": "tool_result", "tool_use_id": "u", "content": "plain"},
            {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}
        ]}),
    );
    assert_eq!(
        texts(&message),
        owned(&[
            ("content[0]", ""),
            ("content[0].content[0].text", "R"),
            ("content[0].content[1]", ""),
            ("content[1]", ""),
            ("content[1].content", "plain"),
            ("content[2].text", "go on")
        ])
    );
    assert_eq!(
        message.answers.iter().map(|answer| (&*answer.id, answer.part)).collect::<Vec<_>>(),
        [("t", Some(0)), ("u", Some(3))]
    );
    let thinking = one(
        Format::Anthropic,
        &json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "AAAA"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]}
        ]}),
    );
    let kinds: Vec<_> = thinking.parts.iter().map(|part| part.kind.clone()).collect();
    assert_eq!(kinds, [PartKind::Thinking, PartKind::Thinking, PartKind::Call, PartKind::Call, PartKind::Opaque]);
    assert_eq!(thinking.calls.iter().map(|call| call.needs_answer).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn responses_items_are_messages() {
    let items = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "AAAA"},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": "R"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "raw"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "R2"}]},
        {"type": "computer_call", "call_id": "e", "action": {"type": "click", "x": 1}},
        {"type": "computer_call_output", "call_id": "e", "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done", "annotations": []}]}
    ]);
    let messages = read(Format::Responses, &items);
    let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [User, Assistant, Assistant, Tool, Assistant, Tool, Assistant, Tool, Assistant]);
    assert_eq!(texts(&messages[1]), owned(&[("summary[0].text", "hm")]));
    assert!(messages[1].links_next);
    assert_eq!(messages[1].rest.encrypted, 1);
    assert_eq!(texts(&messages[2]), owned(&[("arguments", "{}")]));
    assert_eq!(texts(&messages[5]), owned(&[("output[0].text", "R2")]));
    assert!(matches!(messages[7].parts[0].kind, PartKind::Media(_)));
    assert_eq!(sendable(Format::Responses, &items), *items.as_array().expect("a list"));
}

#[test]
fn the_format_is_found() {
    let cases = [
        (json!([]), Format::OpenAi),
        (json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]), Format::OpenAi),
        (json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]), Format::OpenAi),
        (json!([{"role": "tool", "content": "x"}]), Format::OpenAi),
        (json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]), Format::OpenAi),
        (
            json!([{"type": "message", "role": "system", "content": [{"type": "text", "text": "S"}]},
                {"type": "message", "role": "assistant", "content": [], "tool_calls": [{"id": "a"}]}]),
            Format::OpenAi,
        ),
        (json!([{"role": "user", "content": "hi"}, {"type": "reasoning", "summary": []}]), Format::Responses),
        (json!([{"type": "message", "role": "user", "content": "hi"}]), Format::Responses),
        (
            json!([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "input_image", "image_url": "u"}]}]),
            Format::Responses,
        ),
        (
            json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]),
            Format::Anthropic,
        ),
        (json!([{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]), Format::Anthropic),
    ];
    for (messages, format) in &cases {
        assert_eq!(detect(&nodes(messages), false), *format, "{messages}");
    }
    assert_eq!(detect(&nodes(&json!([{"role": "user", "content": "hi"}])), true), Format::Anthropic);
}

#[test]
fn what_cannot_be_read_is_named() {
    let call = |call: Value| json!({"role": "assistant", "tool_calls": [call]});
    let cases = [
        (Format::OpenAi, json!("hi"), "", "a message is an object with a role, not text"),
        (Format::OpenAi, json!({"content": "hi"}), "role", "missing; expected one of system"),
        (
            Format::OpenAi,
            json!({"role": "human", "content": "hi"}),
            "role",
            "unknown role \"human\"; expected one of system",
        ),
        (Format::OpenAi, json!({"role": 3}), "role", "must be text, not a number"),
        (
            Format::OpenAi,
            json!({"role": "user", "content": 3}),
            "content",
            "must be text, a list of parts or null, not a number",
        ),
        (
            Format::OpenAi,
            json!({"role": "user", "content": {"text": "x"}}),
            "content",
            "must be text, a list of parts or null, not an object",
        ),
        (
            Format::OpenAi,
            json!({"role": "user", "content": ["x", 3]}),
            "content[1]",
            "a part is text or an object with a type, not a number",
        ),
        (
            Format::OpenAi,
            json!({"role": "user", "content": [{"type": "text", "text": 3}]}),
            "content[0].text",
            "must be text, not a number",
        ),
        (
            Format::OpenAi,
            json!({"role": "user", "content": [{"type": []}]}),
            "content[0].type",
            "must be text, not a list",
        ),
        (
            Format::OpenAi,
            json!({"role": "assistant", "tool_calls": {}}),
            "tool_calls",
            "must be a list of calls or null, not an object",
        ),
        (Format::OpenAi, call(json!("f")), "tool_calls[0]", "a call is an object, not text"),
        (
            Format::OpenAi,
            call(json!({"id": "a"})),
            "tool_calls[0]",
            "a call has its name and arguments under \"function\"",
        ),
        (
            Format::OpenAi,
            call(json!({"function": {"name": "f", "arguments": [1]}})),
            "tool_calls[0].function.arguments",
            "arguments must be JSON text or an object, not a list",
        ),
        (Format::OpenAi, call(json!({"function": {"name": 1}})), "tool_calls[0].name", "must be text, not a number"),
        (
            Format::Anthropic,
            json!({"role": "tool", "content": "x"}),
            "role",
            "unknown role \"tool\"; expected one of user, assistant, system; here a result is a tool_result block of a user message",
        ),
        (Format::Responses, json!({"content": "x"}), "role", "an item without a type needs a role"),
        (
            Format::Responses,
            json!({"type": "function_call", "arguments": 3}),
            "arguments",
            "arguments must be JSON text or an object, not a number",
        ),
        (
            Format::Responses,
            json!({"type": "function_call_output", "output": 3}),
            "output",
            "must be text, a list of parts or null, not a number",
        ),
    ];
    for (format, message, path, reason) in cases {
        let (index, at, why) = refused(format, &json!([{"role": "user", "content": "fine"}, message.clone()]));
        assert_eq!((index, at.as_str()), (1, path), "{message}");
        assert!(why.starts_with(reason), "{message}: {why}");
    }
}

#[test]
fn a_value_nested_without_end_is_refused() {
    let mut deep = json!("x");
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    for message in [
        json!({"role": "user", "content": "x", "extra": deep.clone()}),
        json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"x": deep.clone()}}}]}),
        json!({"role": "user", "content": [{"type": "odd", "x": deep.clone()}]}),
    ] {
        let (index, _, reason) = refused(Format::OpenAi, &json!([message]));
        assert_eq!((index, reason.as_str()), (0, "nested deeper than 128 levels"));
    }
    let message = json!({"role": "user", "content": deep});
    assert!(Fingerprinter::default().hash(0, &Json::Value(&message)).is_err());
}

#[test]
fn the_system_prompt_is_text_or_blocks() {
    let blocks = json!([{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]);
    let system = parse_system(&Json::Value(&blocks)).expect("blocks are fine");
    assert_eq!(texts(&system), owned(&[("[0].text", "S")]));
    assert_eq!(texts(&parse_system(&Json::Value(&json!("S"))).expect("text is fine")), owned(&[("", "S")]));
    let wrong = parse_system(&Json::Value(&json!(3))).expect_err("a number is not");
    assert_eq!(wrong.to_string(), "system: must be text, a list of parts or null, not a number");
    let inner = parse_system(&Json::Value(&json!([3]))).expect_err("nor is a list of them");
    assert_eq!(inner.to_string(), "system[0]: a part is text or an object with a type, not a number");
}

#[test]
fn edits_change_only_what_they_name() {
    let message = json!({"role": "user", "extra": 1, "content": [
        {"type": "text", "text": "long text", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "other"}, "bare"]});
    let read = one(Format::OpenAi, &message);
    let path = |part: &Part| part.text_path();
    let edits = [
        Edit::Text { at: path(&read.parts[0]), text: "short".into() },
        Edit::Remove { at: read.parts[1].at.clone() },
        Edit::Text { at: path(&read.parts[2]), text: "b".into() },
    ];
    let expected = json!({"role": "user", "extra": 1, "content": [
        {"type": "text", "text": "short", "cache_control": {"type": "ephemeral"}}, "b"]});
    assert_eq!(apply(&message, &edits), expected);
    assert_eq!(apply(&message, &[]), message);
    let nowhere = Edit::Remove { at: Path::root().key(crate::chat::Key::Output).index(3) };
    assert_eq!(apply(&message, &[nowhere]), message);
}

#[test]
fn fingerprints_tell_what_differs_on_the_wire() {
    let values = [
        json!({"role": "user", "content": "x"}),
        json!({"content": "x", "role": "user"}),
        json!({"role": "user", "content": ["x"]}),
        json!({"role": "user", "content": "xy"}),
        json!({"role": "user", "content": null}),
        json!({"role": "user", "content": ""}),
        json!({"role": "user", "content": 1}),
        json!({"role": "user", "content": 1.0}),
        json!({"role": "user", "content": "1"}),
        json!({"role": "user", "content": true}),
        json!({"role": "user", "content": [["a"], ["b"]]}),
        json!({"role": "user", "content": [["a", "b"]]}),
        json!({"role": "user", "content": "y".repeat(500)}),
        json!({"role": "user", "content": "y".repeat(501)}),
    ];
    let mut printer = Fingerprinter::default();
    let prints: Vec<_> = values.iter().map(|v| printer.hash(0, &Json::Value(v)).expect("shallow")).collect();
    let distinct: std::collections::HashSet<_> = prints.iter().collect();
    assert_eq!(distinct.len(), values.len());
    assert_eq!(printer.hash(5, &Json::Value(&values[0].clone())).expect("shallow"), prints[0]);
}
