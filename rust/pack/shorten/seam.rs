//! Where a text may be cut: at the end of a line, else of a JSON element, a sentence, a word, a character as people see it.

use unicode_segmentation::GraphemeCursor;

use super::fence;

/// Line ends are looked for in all of a head or tail of code, sentence and word ends in the outer half of it: a cut
/// that gives up more than half of what fits is worse than a rough one.
const GIVEN_UP: usize = 2;

/// What is known of a text before it is cut.
pub(super) struct Seams<'a> {
    text: &'a str,
    is_json: bool,
    /// Ends of JSON elements, of a text that is JSON.
    elements: Vec<usize>,
}

impl<'a> Seams<'a> {
    pub fn of(text: &'a str) -> Self {
        let is_json = is_json(text);
        let elements = if is_json { element_ends(text) } else { Vec::new() };
        Self { text, is_json, elements }
    }

    /// The best end of a head that is at most `limit` bytes long.
    pub fn head_end(&self, limit: usize) -> usize {
        let text = self.text;
        let limit = floor(text, limit);
        let (head, rest) = text.split_at(limit);
        if rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n") {
            return head.len();
        }
        let from = floor(text, limit / GIVEN_UP);
        let window = &head[from..];
        if let Some(end) = window.rfind('\n') {
            return from + end;
        }
        if let Some(&end) =
            self.elements.get(..self.elements.partition_point(|&end| end <= limit)).and_then(<[_]>::last)
            && end > from
            && is_boundary(text, end)
        {
            return end;
        }
        let mut word_end = None;
        for (index, c) in window.char_indices().rev() {
            let end = index + c.len_utf8();
            // `rest` starts with what follows the window.
            let next = window[end..].chars().next().or_else(|| rest.chars().next());
            if ends_sentence(&window[..end], next) && is_boundary(text, from + end) {
                return from + end;
            }
            if c.is_whitespace() && word_end.is_none() {
                word_end = Some(from + index);
            }
        }
        word_end.filter(|&end| end > 0).unwrap_or_else(|| {
            let end = character_start(text, limit);
            self.escape_around(end).map_or(end, |(start, _)| start)
        })
    }

    /// The best start of a tail that is at most `limit` bytes long.
    pub fn tail_start(&self, limit: usize) -> usize {
        let text = self.text;
        let start = ceil(text, text.len().saturating_sub(limit));
        let (before, tail) = text.split_at(start);
        if before.is_empty() || before.ends_with('\n') {
            return start;
        }
        let window = &tail[..ceil(tail, tail.len() / GIVEN_UP)];
        if let Some(end) = window.find('\n') {
            return start + end + 1;
        }
        if let Some(&end) = self.elements.get(self.elements.partition_point(|&end| end < start))
            && end < start + window.len()
            && is_boundary(text, end)
        {
            return end;
        }
        let mut word_start = None;
        for (index, c) in window.char_indices() {
            let end = index + c.len_utf8();
            let next = window[end..].chars().next();
            if next.is_some() && ends_sentence(&window[..end], next) && is_boundary(text, start + end) {
                return start + end;
            }
            // A mark without a letter sits on the space before it.
            if c.is_whitespace() && word_start.is_none() && is_boundary(text, start + end) {
                word_start = Some(start + end);
            }
        }
        word_start.unwrap_or_else(|| {
            let start = character_end(text, start);
            self.escape_around(start).map_or(start, |(_, end)| end)
        })
    }

    /// Where the JSON escape starts and ends that a cut at `at` would break; two that make one character together (a pair of
    /// surrogates) count as one.
    fn escape_around(&self, at: usize) -> Option<(usize, usize)> {
        if !self.is_json {
            return None;
        }
        let (start, end) = escape_around(self.text, at).unwrap_or((at, at));
        let is_low = |at: usize| is_surrogate(self.text, at, LOW);
        let is_high = |at: usize| at < end && is_surrogate(self.text, at, HIGH);
        match start.checked_sub(LONG_ESCAPE) {
            Some(before) if is_low(start) && is_surrogate(self.text, before, HIGH) => {
                Some((before, start + LONG_ESCAPE))
            }
            _ if is_high(start) && is_low(end) => Some((start, end + LONG_ESCAPE)),
            _ => (start < end).then_some((start, end)),
        }
    }
}

/// Bytes of `\u0041`.
const LONG_ESCAPE: usize = 6;

/// Where the JSON escape starts and ends that `at` is inside of.
fn escape_around(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let from = at.saturating_sub(LONG_ESCAPE - 1);
    let start = from + bytes.get(from..at)?.iter().rposition(|byte| *byte == b'\\')?;
    let is_escaped = bytes.get(..start)?.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    let end = start + if bytes.get(start + 1) == Some(&b'u') { LONG_ESCAPE } else { 2 };
    (!is_escaped && at < end && text.is_char_boundary(end)).then_some((start, end))
}

/// The second digit of a pair's first half, and of its second.
const HIGH: &[u8] = b"89abAB";
const LOW: &[u8] = b"cdefCDEF";

/// Whether the escape of such a surrogate starts at `at`.
fn is_surrogate(text: &str, at: usize, second: &[u8]) -> bool {
    match text.as_bytes().get(at..) {
        Some([b'\\', b'u', b'd' | b'D', digit, ..]) => second.contains(digit),
        _ => false,
    }
}

/// Whether a sentence ends where `text` does, `next` being what follows.
pub(super) fn ends_sentence(text: &str, next: Option<char>) -> bool {
    let is_closer =
        |c: char| matches!(c, '"' | '\'' | ')' | ']' | '\u{201d}' | '\u{2019}' | '\u{bb}' | '」' | '』' | '）');
    if next.is_some_and(is_closer) {
        return false;
    }
    // A handful of closing marks is plenty; more of them are no sentence, and looking at all would be quadratic.
    let Some(last) = text.chars().rev().take(4).find(|&c| !is_closer(c)) else { return false };
    match last {
        '。' | '！' | '？' | '．' => true,
        '.' | '!' | '?' | '…' | '؟' | '।' | '۔' => next.is_none_or(char::is_whitespace),
        _ => false,
    }
}

/// The largest boundary between code points not after `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The smallest boundary between code points not before `at`.
fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// The largest boundary between characters as people see them (an emoji with its joiners is one) not after `at`.
fn character_start(text: &str, at: usize) -> usize {
    let at = floor(text, at);
    let mut start = at;
    while start > 0 && !is_boundary(text, start) {
        start = floor(text, start - 1);
        if at - start > CLUSTER_WINDOW {
            return at;
        }
    }
    start
}

/// The smallest such boundary not before `at`.
fn character_end(text: &str, at: usize) -> usize {
    let at = ceil(text, at);
    let mut end = at;
    while end < text.len() && !is_boundary(text, end) {
        end = ceil(text, end + 1);
        if end - at > CLUSTER_WINDOW {
            return at;
        }
    }
    end
}

/// Bytes around a position that decide whether it is a boundary. Longer clusters exist (a letter under a thousand
/// accents), and are cut at a plain character: looking at all of them would be quadratic.
const CLUSTER_WINDOW: usize = 256;

fn is_boundary(text: &str, at: usize) -> bool {
    let mut from = ceil(text, at.saturating_sub(CLUSTER_WINDOW));
    // Flags are pairs of letters, so where one starts depends on the start of the run, however far back.
    while from > 0 && text[..from].ends_with(|c| matches!(c, '\u{1f1e6}'..='\u{1f1ff}')) {
        from -= '\u{1f1e6}'.len_utf8();
    }
    let to = floor(text, (at + CLUSTER_WINDOW).min(text.len()));
    let window = &text[from..to];
    GraphemeCursor::new(at - from, window.len(), true).is_boundary(window, 0).unwrap_or(true)
}

/// Whether `text` looks like one JSON object or array.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    matches!((text.as_bytes().first(), text.as_bytes().last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')))
}

/// Positions after the commas between JSON elements.
fn element_ends(text: &str) -> Vec<usize> {
    let (mut in_string, mut is_escaped) = (false, false);
    let mut ends = Vec::new();
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' if !in_string => ends.push(index + 1),
            _ => {}
        }
    }
    ends
}

/// Whether `text` is code, data or listings rather than prose: its sentences would say nothing.
pub(super) fn is_structured(text: &str) -> bool {
    if is_json(text) {
        return true;
    }
    let (mut n_code, mut n_lines) = (0_usize, 0_usize);
    fence::lines(text, |line, is_fenced| {
        let bare = line.trim_end();
        if bare.is_empty() {
            return;
        }
        n_lines += 1;
        let is_code = is_fenced
            || bare.starts_with("  ")
            || bare.starts_with('\t')
            || bare.ends_with(['{', '}', ';', '(', ')', ',', '[', ']', '>', '=']);
        n_code += usize::from(is_code);
    });
    n_code * 2 > n_lines
}
