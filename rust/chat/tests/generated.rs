//! Generated conversations and generated garbage, in every format.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Words, groups_of, nodes, read, sendable};
use crate::chat::framing::{Overhead, cost};
use crate::chat::group::{Group, group};
use crate::chat::{Edit, Fingerprinter, Format, Json, Path, Step, apply, detect, parse_all};

/// A turn of a conversation, in no format yet.
#[derive(Debug, Clone)]
enum Turn {
    System(String),
    User(String),
    Assistant(String),
    Thinking,
    /// Ids of the calls, what is said with them, whether each has a message of its own.
    Calls(Vec<u8>, String, bool),
    /// Ids of the results, what a user says with them.
    Results(Vec<u8>, String),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z 東é😀]{1,12}", 1 => Just(String::new()), 1 => Just(" \n".to_owned())]
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let ids = || prop::collection::vec(0_u8..4, 1..4);
    let turn = prop_oneof![
        1 => text().prop_map(Turn::System),
        3 => text().prop_map(Turn::User),
        3 => text().prop_map(Turn::Assistant),
        1 => Just(Turn::Thinking),
        4 => (ids(), text(), any::<bool>()).prop_map(|(ids, text, apart)| Turn::Calls(ids, text, apart)),
        5 => (ids(), text()).prop_map(|(ids, text)| Turn::Results(ids, text)),
    ];
    prop::collection::vec(turn, 0..16)
}

fn id(id: u8) -> String {
    format!("c{id}")
}

fn in_chat(turns: &[Turn]) -> Vec<Value> {
    let call = |n: &u8| json!({"id": id(*n), "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let mut out = Vec::new();
    for turn in turns {
        match turn {
            Turn::System(text) => out.push(json!({"role": "system", "content": text})),
            Turn::User(text) => {
                out.push(json!({"role": "user", "content": [{"type": "text", "text": text}], "k": [1]}));
            }
            Turn::Assistant(text) => out.push(json!({"role": "assistant", "content": text})),
            Turn::Thinking => out.push(json!({"role": "assistant", "content": null, "reasoning_content": "hm"})),
            Turn::Calls(ids, text, _) => {
                let calls: Vec<_> = ids.iter().map(call).collect();
                out.push(json!({"role": "assistant", "content": text, "tool_calls": calls}));
            }
            Turn::Results(ids, text) => {
                out.extend(ids.iter().map(|n| json!({"role": "tool", "tool_call_id": id(*n), "content": text})));
            }
        }
    }
    out
}

fn in_anthropic(turns: &[Turn]) -> Vec<Value> {
    let mut out = Vec::new();
    let said = |text: &str| if text.is_empty() { vec![] } else { vec![json!({"type": "text", "text": text})] };
    for turn in turns {
        match turn {
            Turn::System(text) | Turn::User(text) => out.push(json!({"role": "user", "content": text})),
            Turn::Assistant(text) => {
                out.push(json!({"role": "assistant", "content": [{"type": "text", "text": text}]}));
            }
            Turn::Thinking => out.push(
                json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}),
            ),
            Turn::Calls(ids, text, is_apart) => {
                let calls =
                    ids.iter().map(|n| json!({"type": "tool_use", "id": id(*n), "name": "f", "input": {"a": 1}}));
                if *is_apart {
                    out.extend(calls.map(|call| json!({"role": "assistant", "content": [call]})));
                } else {
                    let content: Vec<_> = said(text).into_iter().chain(calls).collect();
                    out.push(json!({"role": "assistant", "content": content}));
                }
            }
            Turn::Results(ids, text) => {
                let results = ids.iter().map(|n| json!({"type": "tool_result", "tool_use_id": id(*n), "content": "R"}));
                let content: Vec<_> = results.chain(said(text)).collect();
                out.push(json!({"role": "user", "content": content}));
            }
        }
    }
    out
}

fn in_responses(turns: &[Turn]) -> Vec<Value> {
    let mut out = Vec::new();
    for turn in turns {
        match turn {
            Turn::System(text) => out.push(json!({"role": "developer", "content": text})),
            Turn::User(text) => {
                out.push(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}));
            }
            Turn::Assistant(text) => {
                out.push(
                    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
                );
            }
            Turn::Thinking => out.push(json!({"type": "reasoning", "id": "r", "summary": []})),
            Turn::Calls(ids, ..) => out.extend(
                ids.iter().map(|n| json!({"type": "function_call", "call_id": id(*n), "name": "f", "arguments": "{}"})),
            ),
            Turn::Results(ids, text) => out
                .extend(ids.iter().map(|n| json!({"type": "function_call_output", "call_id": id(*n), "output": text}))),
        }
    }
    out
}

fn conversation() -> impl Strategy<Value = (Format, Value)> {
    (prop::sample::select(&Format::ALL[..]), turns()).prop_map(|(format, turns)| {
        let messages = match format {
            Format::OpenAi => in_chat(&turns),
            Format::Anthropic => in_anthropic(&turns),
            Format::Responses => in_responses(&turns),
        };
        (format, json!(messages))
    })
}

/// Whether the provider would take the messages: each result after its call and each call but those at the end answered.
/// Written from the providers' rules, apart from `group`.
fn is_valid(format: Format, messages: &[Value]) -> Result<(), String> {
    let kind = |message: &Value| {
        (message["role"].as_str().unwrap_or("").to_owned(), message["type"].as_str().unwrap_or("").to_owned())
    };
    let ids = |list: &Value, kind: &str, key: &str| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .filter(|block| block["type"] == kind)
            .map(|block| block[key].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let mut waiting: Vec<String> = Vec::new();
    let mut in_results = false;
    let mut is_reasoning = false;
    for (index, message) in messages.iter().enumerate() {
        let (role, item) = kind(message);
        let (calls, results, ends) = match format {
            Format::OpenAi => {
                let results = if role == "tool" {
                    vec![message["tool_call_id"].as_str().unwrap_or("").to_owned()]
                } else {
                    vec![]
                };
                (ids(&message["tool_calls"], "function", "id"), results, role != "tool")
            }
            Format::Anthropic => {
                let ends = role == "assistant" && in_results;
                in_results = role == "user";
                (
                    ids(&message["content"], "tool_use", "id"),
                    ids(&message["content"], "tool_result", "tool_use_id"),
                    ends,
                )
            }
            Format::Responses => {
                if is_reasoning && !(role == "assistant" || item == "function_call" || item == "reasoning") {
                    return Err(format!("{index}: nothing follows the reasoning"));
                }
                is_reasoning = item == "reasoning";
                let call_id = vec![message["call_id"].as_str().unwrap_or("").to_owned()];
                match item.as_str() {
                    "function_call" => (call_id, vec![], false),
                    "function_call_output" => (vec![], call_id, false),
                    _ => (vec![], vec![], false),
                }
            }
        };
        if ends && !waiting.is_empty() {
            return Err(format!("{index}: calls before it are unanswered"));
        }
        waiting.extend(calls);
        for id in results {
            let Some(place) = waiting.iter().position(|waiting| *waiting == id) else {
                return Err(format!("{index}: no call for {id}"));
            };
            waiting.remove(place);
        }
        let content = &message["content"];
        let blocks = content.as_array().cloned().unwrap_or_default();
        let is_blank = |text: &Value| text.as_str().unwrap_or("").trim().is_empty();
        let says = match content {
            Value::Array(_) => blocks.iter().any(|block| block.get("text").is_none_or(|text| !is_blank(text))),
            content => !is_blank(content),
        };
        if matches!(role.as_str(), "user" | "assistant" | "system") && !says && message.get("tool_calls").is_none() {
            return Err(format!("{index}: says nothing"));
        }
    }
    if is_reasoning { Err("nothing follows the reasoning".to_owned()) } else { Ok(()) }
}

proptest! {
    #[test]
    fn every_message_is_in_one_group_or_found_faulty((format, messages) in conversation()) {
        let groups = groups_of(format, &messages);
        let mut seen: Vec<usize> = groups.groups.iter().flat_map(|group| group.indices().collect::<Vec<_>>()).collect();
        for group in &groups.groups {
            prop_assert!(group.members.is_sorted_by_key(|member| member.index));
        }
        prop_assert!(groups.groups.is_sorted_by_key(|group| group.members.first().map(|member| member.index)));
        prop_assert!(groups.groups.is_sorted_by_key(|group| group.round));
        seen.extend(groups.findings.iter().filter(|finding| finding.at.is_none()).map(|finding| finding.index));
        seen.sort_unstable();
        let all: Vec<usize> = (0..messages.as_array().map_or(0, Vec::len)).collect();
        prop_assert_eq!(seen, all);
    }

    #[test]
    fn what_is_sent_is_valid_and_stays_as_it_is((format, messages) in conversation()) {
        let sent = sendable(format, &messages);
        // Calls at the end are open: whatever else waits was settled.
        let groups = groups_of(format, &json!(sent));
        prop_assert_eq!(&groups.findings, &[]);
        prop_assert_eq!(&sendable(format, &json!(sent)), &sent);
        if let Err(fault) = is_valid(format, &sent) {
            prop_assert!(false, "{} in {}", fault, json!(sent));
        }
        let open: Vec<_> = groups.groups.iter().filter(|group| group.is_open).collect();
        prop_assert!(open.len() <= 1);
        prop_assert!(open.iter().all(|group| group.indices().last() == Some(sent.len() - 1)));
    }

    #[test]
    fn any_choice_of_groups_is_valid(((format, messages), keep) in (conversation(), prop::collection::vec(any::<bool>(), 16 * 4))) {
        let mut members: Vec<_> = groups_of(format, &messages)
            .groups
            .into_iter()
            .enumerate()
            .filter(|(n, group)| group.is_open || keep.get(*n).copied().unwrap_or(true))
            .flat_map(|(_, group)| group.members)
            .collect();
        members.sort_by_key(|member| member.index);
        let sent: Vec<_> = members.iter().map(|member| apply(&messages[member.index], &member.repairs)).collect();
        if let Err(fault) = is_valid(format, &sent) {
            prop_assert!(false, "{} in {}", fault, json!(sent));
        }
    }

    #[test]
    fn an_edit_changes_its_path_alone_and_costs_what_it_says(
        (format, messages) in conversation(), choice in any::<prop::sample::Index>(), new in text(), is_removal in any::<bool>()
    ) {
        let read = read(format, &messages);
        let parts: Vec<_> = read.iter().enumerate().flat_map(|(n, m)| m.parts.iter().map(move |part| (n, part))).collect();
        prop_assume!(!parts.is_empty());
        let (index, part) = parts[choice.index(parts.len())];
        let message = &messages[index];
        let ends_in_list = matches!(part.at.steps().last(), Some(Step::Index(_)));
        let edit = if is_removal && ends_in_list {
            Edit::Remove { at: part.at.clone() }
        } else if part.is_editable() && !part.text.is_empty() {
            Edit::Text { at: part.text_path(), text: new }
        } else {
            return Ok(());
        };
        let edited = apply(message, std::slice::from_ref(&edit));
        let mut expected = message.clone();
        let (outer, last) = edit.at().steps().split_at(edit.at().steps().len() - 1);
        let place = outer.iter().fold(&mut expected, |value, step| inside(value, *step));
        match &edit {
            Edit::Text { text, .. } => *inside(place, last[0]) = json!(text),
            Edit::Remove { .. } => match last[0] {
                Step::Index(n) => drop(place.as_array_mut().expect("a list").remove(n as usize)),
                Step::Key(_) => unreachable!("removals end in a list here"),
            },
        }
        prop_assert_eq!(&edited, &expected);
        let full = cost(&read[index], &Words, &Overhead::default()).expect("counted");
        let said = full.edited(&read[index], std::slice::from_ref(&edit), &Words).expect("counted");
        let anew = super::read(format, &json!([edited]));
        prop_assert_eq!(said, cost(&anew[0], &Words, &Overhead::default()).expect("counted").total);
    }

    #[test]
    fn garbage_is_read_or_refused(messages in prop::collection::vec(garbage(), 0..6)) {
        let messages = json!(messages);
        let nodes = nodes(&messages);
        let found = detect(&nodes, false);
        for format in Format::ALL {
            let Ok(read) = parse_all(format, &nodes) else { continue };
            let groups = group(&read);
            let whole: HashSet<_> = groups.findings.iter().filter(|f| f.at.is_none()).map(|f| f.index).collect();
            let kept: Vec<_> = groups.groups.iter().flat_map(Group::indices).collect();
            prop_assert_eq!(kept.len() + whole.len(), read.len(), "{:?} found {:?}", format, found);
            for (message, value) in read.iter().zip(&nodes) {
                let cost = cost(message, &Words, &Overhead::default()).expect("counted");
                prop_assert!(cost.total >= 3);
                let Json::Value(value) = value else { continue };
                let removals: Vec<_> = message.parts.iter().map(|part| Edit::Remove { at: part.at.clone() }).collect();
                let _ = apply(value, &removals);
                prop_assert!(cost.edited(message, &removals, &Words).expect("counted") <= cost.total);
                prop_assert!(Fingerprinter::default().hash(0, &Json::Value(value)).is_ok());
            }
        }
    }
}

fn inside(value: &mut Value, step: Step) -> &mut Value {
    match step {
        Step::Key(key) => &mut value[key.text()],
        Step::Index(n) => &mut value[n as usize],
    }
}

/// JSON that has the words of the formats in the wrong places.
fn garbage() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "user",
        "assistant",
        "tool",
        "system",
        "text",
        "tool_use",
        "tool_result",
        "image",
        "image_url",
        "function_call",
        "a",
        "function_call_output",
        "reasoning",
        "thinking",
        "message",
        "document",
        "input_audio",
        "data:image/png;base64,iVBORw0KGgo",
        "",
    ]);
    let key = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "function",
        "arguments",
        "input",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "source",
        "data",
        "image_url",
        "url",
        "output",
        "summary",
        "name",
        "thinking",
        "refusal",
        "custom",
        "function_call",
        "detail",
    ]);
    let leaf = prop_oneof![
        6 => word.prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
    ];
    let key = std::rc::Rc::new(key.boxed());
    leaf.prop_recursive(5, 48, 6, move |inner| {
        let object = prop::collection::vec(((*key).clone(), inner.clone()), 0..6).prop_map(|entries| {
            Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
        });
        prop_oneof![2 => prop::collection::vec(inner, 0..4).prop_map(Value::from), 5 => object]
    })
    .prop_map(|value| match value {
        Value::Object(mut object) if !object.contains_key("role") && object.len() % 2 == 0 => {
            object.insert("role".to_owned(), json!("assistant"));
            Value::Object(object)
        }
        value => value,
    })
}

#[test]
fn a_path_reads_as_it_is_written() {
    let path = Path::root().key(crate::chat::Key::Content).index(2).key(crate::chat::Key::Text);
    assert_eq!(path.to_string(), "content[2].text");
    assert!(path.is_within(&Path::root().key(crate::chat::Key::Content).index(2)));
    assert!(!path.is_within(&Path::root().key(crate::chat::Key::Content).index(1)));
}
