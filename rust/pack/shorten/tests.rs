//! Properties of the smaller forms, under counters of words, of bytes and of characters.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::seam::Seams;
use super::*;

/// Tokens are what `split` cuts a text into.
struct Pieces(fn(&str) -> Vec<usize>);

impl Counter for Pieces {
    fn count(&self, text: &str) -> Result<u64> {
        Ok((self.0)(text).len() as u64)
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        let ends = (self.0)(text);
        let end =
            if ends.len() as u64 <= limit { text.len() } else { limit.checked_sub(1).map_or(0, |n| ends[n as usize]) };
        Ok(seam::floor(text, end))
    }

    fn id(&self) -> u64 {
        0
    }
}

/// Words with the space before them, long ones in pieces of six bytes, line ends alone: much like the real thing.
fn wordlike(text: &str) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut length = 0;
    let mut previous = ' ';
    for (index, c) in text.char_indices() {
        let is_new = c == '\n' || (c.is_whitespace() && !previous.is_whitespace()) || previous == '\n' || length >= 6;
        if is_new && index > 0 {
            ends.push(index);
            length = 0;
        }
        length += c.len_utf8();
        previous = c;
    }
    if !text.is_empty() {
        ends.push(text.len());
    }
    ends
}

fn bytes(text: &str) -> Vec<usize> {
    (1..=text.len()).collect()
}

const COUNTERS: [Pieces; 2] = [Pieces(wordlike), Pieces(bytes)];

fn n_tokens(text: &str, counter: &Pieces) -> u64 {
    (counter.0)(text).len() as u64
}

/// What every form promises.
fn assert_form(text: &str, target: u64, counter: &Pieces, form: &Rendition) {
    let tokens = n_tokens(&form.text, counter);
    assert_eq!(tokens, form.tokens);
    assert!(tokens <= target, "{tokens} > {target}");
    assert!(tokens < n_tokens(text, counter), "no smaller than the text");
    assert!(!form.text.trim().is_empty());
    assert!(form.text.matches('\u{fffd}').count() <= text.matches('\u{fffd}').count());
}

/// Head and tail of a form of `head_tail`, around the mark.
fn around_mark(form: &str) -> (&str, &str) {
    let start = form.find("[... ").unwrap_or_else(|| panic!("no mark in {form:?}"));
    let end = start + form[start..].find("tokens cut ...]").unwrap_or_else(|| panic!("no mark in {form:?}")) + 15;
    (form[..start].trim_end_matches('\n'), form[end..].trim_start_matches('\n'))
}

fn short(text: &str, target: u64) -> Option<String> {
    let counter = &COUNTERS[0];
    let form = head_tail(text, n_tokens(text, counter), target, counter).unwrap_or_else(|error| panic!("{error}"))?;
    assert_form(text, target, counter, &form);
    Some(form.text)
}

fn lines(range: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    range.map(line).collect::<Vec<_>>().concat()
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,9} ",
        1 => "[A-Z][a-z]{1,9}[.!?] ",
        1 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("```\n".to_owned()),
        1 => Just("\n```rust\nlet x = 1;\n".to_owned()),
        1 => "[你好世界配置。！]{1,8}",
        1 => Just("👩‍👩‍👧‍👦🇩🇪e\u{301}\u{fffd}".to_owned()),
        1 => Just("   \t ".to_owned()),
        1 => "\\PC{0,6}",
        1 => "[a-z0-9]{30,80}",
        1 => "\\{\"[a-z]{1,4}\": \\[1, 2, \"x,y\"\\]\\}, ",
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_mark_stays_on_the_space_it_stands_on() {
    for (text, rest) in
        [("  \t \u{d48}x", " \u{d48}x"), (" \u{301}", " \u{301}"), ("\n\u{301}", "\u{301}"), (" x", "x"), ("  ", "")]
    {
        assert_eq!(super::head_tail::trimmed_start(text), rest, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_form_keeps_its_promises(text in any_text(), target in 0..200_u64) {
        for counter in &COUNTERS {
            let tokens = n_tokens(&text, counter);
            let forms = [
                head_tail(&text, tokens, target, counter).map(|form| (form, target)),
                summarise(&[&text], target, counter).map(|form| (form, target)),
                shortened(&text, tokens, counter).map(|form| (form, tokens / 3)),
                summary(&text, tokens, counter).map(|form| (form, (tokens / 10).max(40))),
            ];
            for (n, form) in forms.into_iter().enumerate() {
                let (form, target) = form.unwrap_or_else(|error| panic!("{error}"));
                if let Some(form) = form {
                    // A summary of a text that fits may be all of it: only its target is promised then.
                    let longer = format!("{text}{}", " z".repeat(200));
                    assert_form(if n == 1 { &longer } else { &text }, target, counter, &form);
                }
            }
        }
    }

    #[test]
    fn head_and_tail_are_the_texts_own(text in any_text(), target in 20..200_u64) {
        let text = text.replace('`', "'");
        if let Some(form) = short(&text, target) {
            let (head, tail) = around_mark(&form);
            prop_assert!(text.starts_with(head), "{head:?}");
            prop_assert!(text.trim_end().ends_with(tail), "{tail:?}");
            let boundaries: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            prop_assert!(boundaries.contains(&head.len()), "the head ends inside a character");
            prop_assert!(boundaries.contains(&(text.trim_end().len() - tail.len())), "the tail starts inside a character");
        }
    }

    #[test]
    fn fences_are_balanced(text in any_text(), target in 20..200_u64) {
        let open = |text: &str| fence::open_after(text).is_some();
        let text = if open(&text) { text + "\n```\n" } else { text };
        prop_assume!(!open(&text));
        if let Some(form) = short(&text, target) {
            prop_assert!(!open(&form), "{form}");
            let mark = form.find("[... ").unwrap_or(0);
            prop_assert!(!open(&form[..mark]), "the mark is inside a block: {form}");
        }
    }

    #[test]
    fn a_summary_is_sentences_in_order(text in any_text(), target in 5..100_u64) {
        let counter = &COUNTERS[0];
        if let Some(form) = summarise(&[&text], target, counter).unwrap_or_else(|error| panic!("{error}")) {
            let mut rest = text.as_str();
            for word in form.text.split_whitespace() {
                let Some(at) = rest.find(word) else { panic!("{word:?} is not from the text or out of order") };
                rest = &rest[at + word.len()..];
            }
        }
    }
}

#[test]
fn lines_stay_whole_and_the_cut_says_its_size() {
    let log = lines(1..101, |n| format!("step {n} done\n"));
    let form = short(&log, 60).unwrap_or_default();
    let (head, tail) = around_mark(&form);
    assert!(head.starts_with("step 1 done\nstep 2 done\n") && head.ends_with(" done"), "{head}");
    assert!(tail.starts_with("step ") && tail.ends_with("step 100 done"), "{tail}");
    let kept = n_tokens(head, &COUNTERS[0]) + n_tokens(tail, &COUNTERS[0]);
    let n_cut = n_tokens(&log, &COUNTERS[0]) - kept;
    assert!(form.contains(&format!("\n[... {n_cut} tokens cut ...]\n")), "{form}");
    assert!(kept >= 35, "the target is filled: {kept}");
}

#[test]
fn a_cut_inside_a_block_closes_and_opens_it_again() {
    let code = lines(0..80, |n| format!("    value_{n} = {n}\n"));
    let text = format!("Here it is:\n```python\n{code}```\nThat was it.\n");
    let form = short(&text, 90).unwrap_or_default();
    let (head, tail) = around_mark(&form);
    assert!(head.starts_with("Here it is:\n```python\n    value_0 = 0\n") && head.ends_with("\n```"), "{head}");
    assert!(tail.starts_with("```python\n    value_") && tail.ends_with("\n```\nThat was it."), "{tail}");
    for line in form.lines().filter(|line| line.starts_with(' ')) {
        assert!(text.contains(&format!("{line}\n")), "{line:?} is not a whole line");
    }
}

#[test]
fn json_is_cut_between_elements() {
    let items: Vec<String> = (0..60).map(|n| format!("{{\"id\":{n},\"name\":\"a, b\"}}")).collect();
    let form = short(&format!("[{}]", items.join(",")), 80).unwrap_or_default();
    let (head, tail) = around_mark(&form);
    assert!(head.ends_with(','), "{head}");
    assert!(tail.starts_with("{\"id\"") || tail.starts_with("\"name\""), "{tail}");
}

#[test]
fn text_without_spaces_is_shortened_too() {
    for text in ["你好世界配置。".repeat(200), "a".repeat(5_000), "🏳️‍🌈".repeat(300), "e\u{301}".repeat(2_000)]
    {
        let form = short(&text, 40).unwrap_or_default();
        let (head, tail) = around_mark(&form);
        assert!(!head.is_empty() && !tail.is_empty(), "{form:?}");
    }
}

#[test]
fn what_cannot_be_shortened_is_none() {
    assert_eq!(short("", 10), None);
    assert_eq!(short("a b c", 10), None, "it fits as it is");
    assert_eq!(short(&" ".repeat(10_000), 50), None, "blank");
    assert_eq!(short(&"word ".repeat(100), 5), None, "no room beside the mark");
    assert_eq!(short(&"word ".repeat(100), 0), None);
    let tokens = SHORTENED_FROM - 1;
    let text = "word ".repeat(tokens as usize);
    assert_eq!(shortened(&text, tokens, &COUNTERS[0]), Ok(None));
    assert_eq!(summary(&text, tokens, &COUNTERS[0]), Ok(None));
}

#[test]
fn a_summary_keeps_what_the_text_is_about() {
    let filler = "Well, that is how it goes on some days. It was nice to see you there again! ";
    let fact = "The deployment of the billing service failed because the migration locked the invoices table. ";
    let other = "After the migration was split, the billing deployment succeeded and the invoices table stayed open. ";
    let text = format!("{}{fact}{}{other}{}", filler.repeat(19), filler.repeat(18), filler.repeat(19));
    let counter = &COUNTERS[0];
    let tokens = n_tokens(&text, counter);
    let form = summary(&text, tokens, counter).unwrap_or_else(|error| panic!("{error}"));
    let form = form.unwrap_or_else(|| panic!("a text of {tokens} tokens has a summary"));
    assert!(form.text.starts_with(&format!("[summary of {} tokens]\n", with_commas(tokens))), "{}", form.text);
    assert!(form.text.contains(fact.trim()) && form.text.contains(other.trim()), "{}", form.text);
    assert!(form.text.matches("how it goes").count() <= 1, "repeats are taken once: {}", form.text);
}

#[test]
fn a_summary_of_code_is_its_head_and_tail() {
    let code = lines(0..200, |n| format!("    call(value_{n});\n"));
    let counter = &COUNTERS[0];
    let form = summary(&code, n_tokens(&code, counter), counter).unwrap_or_else(|error| panic!("{error}"));
    assert!(form.is_some_and(|form| form.text.contains(" tokens cut ...]\n    call(")));
}

#[test]
fn the_worst_texts_take_linear_time() {
    let million = 1_000_000;
    let texts = [
        "x".repeat(million),
        " ".repeat(million),
        "\n".repeat(100_000),
        "```\n".repeat(million / 4),
        "a.".repeat(million / 2),
        "a. ".repeat(million / 3),
        ")".repeat(million),
        "\u{301}".repeat(million / 2),
        "🇩🇪".repeat(million / 8),
        format!("[{}]", "\",\",".repeat(million / 4)),
        "word ".repeat(million / 5),
    ];
    for text in texts {
        let counter = &COUNTERS[0];
        let tokens = n_tokens(&text, counter);
        let started = Instant::now();
        for target in [50, 1_000, 50_000] {
            assert!(head_tail(&text, tokens, target, counter).is_ok());
            assert!(summarise(&[&text], target, counter).is_ok());
        }
        assert!(summary(&text, tokens, counter).is_ok() && shortened(&text, tokens, counter).is_ok());
        // Some 0.3 s without optimisation on a busy machine; what is quadratic takes minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?} took {:?}", &text[..20], started.elapsed());
    }
}

#[test]
fn sizes_are_written_in_groups_of_three() {
    for (n, written) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(with_commas(n), written);
    }
}

/// Where a JSON string that is all escapes and letters may be cut: after each whole character.
fn ends_of_characters(json: &str) -> Vec<usize> {
    let bytes = json.as_bytes();
    let mut ends = vec![0];
    let mut at = 0;
    while at < bytes.len() {
        at += match &bytes[at..] {
            [b'\\', b'u', b'd', b'8', ..] => 12,
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => 1,
        };
        ends.push(at);
    }
    ends
}

#[test]
fn a_cut_never_breaks_a_json_escape() {
    for piece in ["\\u4f60", "\\ud83d\\ude00", "\\\\", "\\\"", "a\\n", "\\\\u00e9", "\\u005c\\\\x"] {
        let json = format!("[\"{}\"]", piece.repeat(30));
        let ends = ends_of_characters(&json);
        let seams = Seams::of(&json);
        for limit in 0..=json.len() {
            let (head, tail) = (seams.head_end(limit), seams.tail_start(limit));
            assert!(head <= limit && ends.contains(&head), "{piece}: head of {limit} ends at {head}");
            assert!(json.len() - tail <= limit && ends.contains(&tail), "{piece}: tail of {limit} starts at {tail}");
        }
    }
}

#[test]
fn a_cut_neither_makes_nor_breaks_a_fence() {
    let text = "words before\n```rust ignore\nlet a = 1;\n```\nwords after ``` them\n";
    let line = |needle: &str| {
        let start = text.find(needle).expect("a line of the text");
        start..=start + needle.len()
    };
    let (opening, closing) = (line("```rust ignore"), line("```\n"));
    for at in 0..=text.len() {
        let expected = match at {
            // On a fence line: all of it or nothing.
            at if opening.contains(&at) && at < *opening.end() => *opening.start(),
            at if closing.contains(&at) && at < *closing.end() - 1 => *closing.start(),
            at => at,
        };
        assert_eq!(fence::head_end(text, at), expected, "head at {at}");
    }
    let fences = |text: &str| text.lines().filter(|line| line.starts_with("```")).count();
    for at in 0..=text.len() {
        let start = fence::tail_start(text, at);
        assert!(start >= at);
        let is_line_start = start == 0 || text[..start].ends_with('\n');
        // A line that is cut begins no block that the text does not have.
        assert!(
            is_line_start || !text[start..].trim_start_matches(' ').starts_with("```"),
            "tail at {at} starts at {start}"
        );
        assert!(fences(&text[start..]) <= fences(text));
    }
}
