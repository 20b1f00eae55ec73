//! What lives or dies together.

use serde_json::{Value, json};

use super::{groups_of, indices, read, sendable};
use crate::chat::Format;
use crate::chat::group::{GroupKind, Groups, Reason, before_first_user};

fn system() -> Value {
    json!({"role": "system", "content": "S"})
}
fn user() -> Value {
    json!({"role": "user", "content": "U"})
}
fn answer() -> Value {
    json!({"role": "assistant", "content": "A"})
}
fn call(ids: &[&str]) -> Value {
    let calls: Vec<_> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}
fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "R"})
}

fn chat(messages: &[Value]) -> Groups {
    groups_of(Format::OpenAi, &json!(messages))
}
fn reasons(groups: &Groups) -> Vec<(usize, Option<String>, Reason)> {
    groups.findings.iter().map(|f| (f.index, f.at.as_ref().map(ToString::to_string), f.reason)).collect()
}

#[test]
fn a01_results_stay_with_their_call() {
    let groups = chat(&[system(), user(), call(&["a", "b"]), result("a"), result("b"), answer(), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1], vec![2, 3, 4], vec![5], vec![6]]);
    assert_eq!(groups.findings, []);
}

#[test]
fn a07_a_result_of_plain_text_is_a_result() {
    let groups =
        chat(&[user(), call(&["a"]), json!({"role": "tool", "tool_call_id": "a", "content": "plain"}), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    let parts = json!({"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "in parts"}]});
    assert_eq!(indices(&chat(&[user(), call(&["a"]), parts, user()])), [vec![0], vec![1, 2], vec![3]]);
}

#[test]
fn a08_a_boundary_never_falls_inside_a_pair() {
    let groups = chat(&[user(), call(&["a"]), result("a"), call(&["b"]), result("b"), answer()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
}

#[test]
fn a09_parallel_results_go_together_in_any_order() {
    let groups = chat(&[user(), call(&["1", "2"]), result("2"), result("1"), answer(), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2, 3], vec![4], vec![5]]);
}

#[test]
fn a10_ten_parallel_calls_are_one_group() {
    let ids: Vec<String> = (0..10).map(|n| format!("t{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut messages = vec![user(), call(&ids)];
    messages.extend(ids.iter().map(|id| result(id)));
    messages.push(user());
    let groups = chat(&messages);
    assert_eq!(indices(&groups), [vec![0], (1..12).collect(), vec![12]]);
}

#[test]
fn a12_a_lone_output_is_an_orphan_wherever_the_system_message_is() {
    let groups = chat(&[system(), result("1"), answer()]);
    assert_eq!(indices(&groups), [vec![0], vec![2]]);
    assert_eq!(reasons(&groups), [(1, None, Reason::OrphanResult)]);
    let items = json!([
        {"role": "system", "content": "S"},
        {"type": "function_call_output", "call_id": "1", "output": "R"},
        {"role": "assistant", "content": "A"}
    ]);
    let groups = groups_of(Format::Responses, &items);
    assert_eq!(indices(&groups), [vec![0], vec![2]]);
    assert_eq!(reasons(&groups), [(1, None, Reason::OrphanResult)]);
}

#[test]
fn a15_nothing_and_empty_messages_are_no_trouble() {
    for format in Format::ALL {
        assert_eq!(groups_of(format, &json!([])), Groups::default());
    }
    let groups = chat(&[system(), json!({"role": "user", "content": ""})]);
    assert_eq!(indices(&groups), [vec![0]]);
    assert_eq!(reasons(&groups), [(1, None, Reason::Empty)]);
}

#[test]
fn a26_blank_messages_and_blank_blocks_go() {
    for blank in [json!("  \n"), json!(""), json!(null), json!([]), json!([{"type": "text", "text": "\u{a0}"}])] {
        let groups = chat(&[user(), json!({"role": "assistant", "content": blank}), user()]);
        assert_eq!(reasons(&groups), [(1, None, Reason::Empty)], "{blank}");
    }
    let blocks = json!([{"role": "user", "content": [{"type": "text", "text": " "}, {"type": "text", "text": "hi"}]}]);
    let groups = groups_of(Format::Anthropic, &blocks);
    assert_eq!(reasons(&groups), [(0, Some("content[0]".into()), Reason::Empty)]);
    assert_eq!(
        sendable(Format::Anthropic, &blocks)[0],
        json!({"role": "user", "content": [{"type": "text", "text": "hi"}]})
    );
}

#[test]
fn an_empty_result_is_an_answer() {
    let groups = chat(&[user(), call(&["a"]), json!({"role": "tool", "tool_call_id": "a", "content": ""}), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(groups.findings, []);
}

#[test]
fn ids_that_repeat_across_turns_pair_within_their_block() {
    let groups = chat(&[user(), call(&["a"]), result("a"), answer(), call(&["a"]), result("a"), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3], vec![4, 5], vec![6]]);
    assert_eq!(groups.findings, []);
}

#[test]
fn a_second_answer_is_a_duplicate() {
    let groups = chat(&[user(), call(&["a"]), result("a"), result("a"), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![4]]);
    assert_eq!(reasons(&groups), [(3, None, Reason::DuplicateResult)]);
}

#[test]
fn a_late_result_is_an_orphan_and_its_call_unanswered() {
    let groups = chat(&[user(), call(&["a"]), user(), result("a"), user()]);
    assert_eq!(indices(&groups), [vec![0], vec![2], vec![4]]);
    assert_eq!(reasons(&groups), [(1, None, Reason::UnansweredCall), (3, None, Reason::OrphanResult)]);
}

#[test]
fn an_interrupted_turn_keeps_its_answered_calls() {
    let messages = json!([user(), call(&["a", "b", "c"]), result("b"), user()]);
    let groups = groups_of(Format::OpenAi, &messages);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(
        reasons(&groups),
        [
            (1, Some("tool_calls[0]".into()), Reason::UnansweredCall),
            (1, Some("tool_calls[2]".into()), Reason::UnansweredCall)
        ]
    );
    assert_eq!(sendable(Format::OpenAi, &messages)[1], call(&["b"]));
}

#[test]
fn an_interrupted_turn_without_answers_keeps_its_text() {
    let mut turn = call(&["a", "b"]);
    turn["content"] = json!("Let me look.");
    let messages = json!([user(), turn, user()]);
    let groups = groups_of(Format::OpenAi, &messages);
    assert_eq!(groups.groups[1].kind, GroupKind::Assistant);
    assert_eq!(sendable(Format::OpenAi, &messages)[1], json!({"role": "assistant", "content": "Let me look."}));
}

#[test]
fn calls_at_the_end_are_open() {
    for tail in [vec![], vec![result("b")]] {
        let mut messages = vec![user(), call(&["a", "b"])];
        messages.extend(tail);
        let groups = chat(&messages);
        assert!(groups.groups[1].is_open);
        assert_eq!(groups.findings, []);
    }
    assert!(!chat(&[user(), call(&["a"]), result("a")]).groups[1].is_open);
}

#[test]
fn results_without_ids_answer_in_order() {
    let messages = [
        user(),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"name": "g", "arguments": {}}}]}),
        json!({"role": "tool", "tool_name": "f", "content": "1"}),
        json!({"role": "tool", "tool_name": "g", "content": "2"}),
    ];
    assert_eq!(indices(&chat(&messages)), [vec![0], vec![1, 2, 3]]);
}

#[test]
fn a_legacy_function_call_pairs_by_name() {
    let messages = [
        user(),
        json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}),
        json!({"role": "function", "name": "f", "content": "1"}),
        answer(),
    ];
    assert_eq!(indices(&chat(&messages)), [vec![0], vec![1, 2], vec![3]]);
}

#[test]
fn a_block_that_repeats_a_call_is_no_second_call() {
    let mut repeated = call(&["a"]);
    repeated["content"] =
        json!([{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]);
    let messages = json!([user(), repeated, result("a"), user()]);
    let groups = groups_of(Format::OpenAi, &messages);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(groups.findings, []);
    assert_eq!(json!(sendable(Format::OpenAi, &messages)), messages);
}

#[test]
fn rounds_start_at_users_and_at_answers() {
    let groups = chat(&[system(), system(), user(), call(&["a"]), result("a"), answer(), system(), user()]);
    let rounds: Vec<_> = groups.groups.iter().map(|group| group.round).collect();
    assert_eq!(rounds, [0, 0, 0, 1, 2, 2, 3]);
    let prompts: Vec<_> = groups.groups.iter().map(|group| group.is_prompt).collect();
    assert_eq!(prompts, [true, true, false, false, false, false, false]);
}

#[test]
fn a04_what_stands_before_the_first_user_is_named() {
    let groups = chat(&[system(), answer(), call(&["a"]), result("a"), user(), answer()]);
    assert_eq!(before_first_user(&groups.groups), [1, 2]);
    assert_eq!(before_first_user(&chat(&[system(), answer()]).groups), [0; 0]);
}

fn use_tool(ids: &[&str], text: Option<&str>) -> Value {
    let mut blocks: Vec<_> = text.map(|text| json!({"type": "text", "text": text})).into_iter().collect();
    blocks.extend(ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "f", "input": {}})));
    json!({"role": "assistant", "content": blocks})
}
fn results(ids: &[&str], text: Option<&str>) -> Value {
    let mut blocks: Vec<_> =
        ids.iter().map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": "R"})).collect();
    blocks.extend(text.map(|text| json!({"type": "text", "text": text})));
    json!({"role": "user", "content": blocks})
}
fn anthropic(messages: &[Value]) -> Groups {
    groups_of(Format::Anthropic, &json!(messages))
}

#[test]
fn a_user_message_with_results_belongs_to_the_calls() {
    let groups = anthropic(&[user(), use_tool(&["a", "b"], Some("hm")), results(&["b", "a"], Some("and?")), answer()]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    let speaks: Vec<_> = groups.groups.iter().map(|group| group.is_user_turn).collect();
    assert_eq!(speaks, [true, true, false]);
    assert!(!anthropic(&[user(), use_tool(&["a"], None), results(&["a"], None)]).groups[1].is_user_turn);
}

#[test]
fn a_word_beside_results_does_not_replace_the_task() {
    let reminded = results(&["a"], Some("Remember the list."));
    let turn = |messages: &[Value]| anthropic(messages).current_turn();
    let (call, result) = (|| use_tool(&["a"], None), results(&["a"], None));
    assert_eq!(turn(&[user(), call(), result.clone(), call(), reminded.clone()]), [0, 2]);
    assert_eq!(turn(&[user(), call(), reminded.clone(), answer(), user()]), [3]);
    assert_eq!(turn(&[user(), call(), result]), [0]);
    assert_eq!(turn(&[call(), reminded, answer()]), [0]);
    assert_eq!(turn(&[answer()]), [] as [usize; 0]);
}

#[test]
fn one_block_a_message_is_one_turn() {
    let thinking = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}]});
    let groups = anthropic(&[
        user(),
        answer(),
        thinking.clone(),
        use_tool(&["a"], None),
        use_tool(&["b"], None),
        results(&["a"], None),
        user(),
        results(&["b"], None),
        thinking,
        user(),
    ]);
    assert_eq!(indices(&groups), [vec![0], vec![1], vec![2, 3, 4, 5, 7], vec![6], vec![9]]);
    assert_eq!(reasons(&groups), [(8, None, Reason::DanglingReasoning)]);
}

#[test]
fn orphan_blocks_leave_a_message_that_says_more() {
    let messages =
        json!([user(), use_tool(&["a"], None), results(&["a", "x", "a"], None), results(&["y"], Some("so"))]);
    let groups = groups_of(Format::Anthropic, &messages);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(
        reasons(&groups),
        [
            (2, Some("content[1]".into()), Reason::OrphanResult),
            (2, Some("content[2]".into()), Reason::DuplicateResult),
            (3, Some("content[0]".into()), Reason::OrphanResult)
        ]
    );
    let sent = sendable(Format::Anthropic, &messages);
    assert_eq!(sent[2], results(&["a"], None));
    assert_eq!(sent[3], results(&[], Some("so")));
    assert_eq!(reasons(&anthropic(&[user(), results(&["a"], None), user()])), [(1, None, Reason::OrphanResult)]);
}

#[test]
fn an_interrupted_use_is_taken_out() {
    let messages =
        json!([user(), use_tool(&["a", "b"], Some("hm")), results(&["b"], None), use_tool(&["c"], None), user()]);
    assert_eq!(
        sendable(Format::Anthropic, &messages),
        [user(), use_tool(&["b"], Some("hm")), results(&["b"], None), user()]
    );
}

fn item(kind: &str, id: &str) -> Value {
    match kind {
        "reasoning" => json!({"type": "reasoning", "id": id, "summary": []}),
        "output" => json!({"type": "function_call_output", "call_id": id, "output": "R"}),
        _ => json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
    }
}
fn responses(items: &[Value]) -> Groups {
    groups_of(Format::Responses, &json!(items))
}

#[test]
fn reasoning_lives_with_what_follows_it() {
    let groups = responses(&[
        user(),
        item("reasoning", "r"),
        item("call", "a"),
        item("call", "b"),
        item("output", "a"),
        item("output", "b"),
        item("reasoning", "r2"),
        answer(),
        answer(),
        user(),
        item("reasoning", "r3"),
        user(),
    ]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 2, 3, 4, 5], vec![6, 7, 8], vec![9], vec![11]]);
    assert_eq!(reasons(&groups), [(10, None, Reason::DanglingReasoning)]);
}

#[test]
fn reasoning_between_a_call_and_its_output_dangles() {
    let groups = responses(&[user(), item("call", "a"), item("reasoning", "r"), item("output", "a")]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 3]]);
    assert_eq!(reasons(&groups), [(2, None, Reason::DanglingReasoning)]);
}

#[test]
fn outputs_pair_by_call_id_wherever_they_stand() {
    let groups =
        responses(&[user(), item("call", "a"), user(), item("output", "a"), item("call", "a"), item("output", "a")]);
    assert_eq!(indices(&groups), [vec![0], vec![1, 3], vec![2], vec![4, 5]]);
    assert_eq!(groups.findings, []);
}

#[test]
fn an_interrupted_item_goes_with_its_reasoning() {
    let groups = responses(&[user(), item("reasoning", "r"), item("call", "a"), user(), item("call", "z")]);
    assert_eq!(indices(&groups), [vec![0], vec![3], vec![4]]);
    assert_eq!(reasons(&groups), [(1, None, Reason::UnansweredCall), (2, None, Reason::UnansweredCall)]);
    assert!(groups.groups[2].is_open);
}

#[test]
fn hosted_calls_need_no_answer_and_references_may_have_one() {
    let groups = responses(&[
        user(),
        json!({"type": "web_search_call", "id": "w", "status": "completed"}),
        json!({"type": "item_reference", "id": "fc_1"}),
        item("output", "unknown"),
        item("output", "unknown"),
    ]);
    assert_eq!(indices(&groups), [vec![0], vec![1], vec![2, 3]]);
    assert_eq!(reasons(&groups), [(4, None, Reason::OrphanResult)]);
}

/// Conversations of so many calls that would take quadratic time if calls were looked for by walking.
fn hostile(n_calls: usize) -> [(Format, Vec<Value>, usize); 5] {
    let ids: Vec<String> = (0..n_calls).map(|n| n.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut half_answered = vec![user(), call(&ids)];
    half_answered.extend(ids.iter().rev().step_by(2).map(|id| result(id)));
    half_answered.push(user());
    let mut all_open = call(&ids);
    all_open["content"] = json!("so many");
    let interrupted = [vec![call(&["a"]); n_calls], vec![user()]].concat();
    let uses = [vec![use_tool(&["a"], Some("x")); n_calls], vec![user()]].concat();
    let items = [vec![item("call", "a"); n_calls], vec![user()]].concat();
    [
        (Format::OpenAi, half_answered, n_calls / 2),
        (Format::OpenAi, vec![all_open, user()], n_calls),
        (Format::OpenAi, interrupted, n_calls),
        (Format::Anthropic, uses, n_calls),
        (Format::Responses, items, n_calls),
    ]
}

/// Seconds that this thread has had of a processor, where the system says so; else of the clock.
fn seconds() -> f64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| START.elapsed().as_secs_f64(), |n| n / 1e9)
}

/// Eight times the calls take some eight times as long, where a quadratic rule would take sixty-four: the least of five, of
/// this thread alone, so that no other work on the machine decides.
#[test]
fn grouping_takes_linear_time() {
    let least = |n_calls: usize| -> Vec<f64> {
        let taken = |(format, messages, n_findings): (Format, Vec<Value>, usize)| {
            let messages = read(format, &json!(messages));
            let once = |_| {
                let start = seconds();
                let groups = crate::chat::group::group(&messages);
                let taken = seconds() - start;
                assert_eq!(groups.findings.len(), n_findings);
                taken
            };
            (0..5).map(once).fold(f64::INFINITY, f64::min)
        };
        hostile(n_calls).map(taken).to_vec()
    };
    for (few, many) in least(4_000).into_iter().zip(least(32_000)) {
        // The system counts in ticks, so that little may read as nothing.
        let few = few.max(0.004);
        assert!(many < 32.0 * few, "{few} s, then {many} s");
    }
}
