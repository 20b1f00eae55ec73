//! Fenced code blocks, as `CommonMark` has them: what a cut falls into.

/// An open fence: what closes it, and the line that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    /// Three or more backticks or tildes.
    pub mark: &'a str,
    /// The whole opening line, so that the block can be opened again with its language.
    pub line: &'a str,
    /// Where that line starts.
    pub start: usize,
}

impl Fence<'_> {
    /// Whether `line` closes this block.
    pub fn is_closed_by(&self, line: &str) -> bool {
        mark_of(line).is_some_and(|mark| {
            mark.len() >= self.mark.len()
                && mark.as_bytes().first() == self.mark.as_bytes().first()
                && line.trim() == mark
        })
    }
}

/// A line longer than this opens no block, whatever it starts with: it is text that somebody forgot to break.
const LONGEST_LINE: usize = 256;

/// The fence characters that `line` starts with, if it is a fence line.
fn mark_of(line: &str) -> Option<&str> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    let text = line.trim_start_matches(' ');
    let first = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let mark = &text[..text.len() - text.trim_start_matches(first).len()];
    let info = &text[mark.len()..];
    // Backticks in the rest of the line make it inline code.
    (line.len() - text.len() <= 3 && mark.len() >= 3 && !(first == '`' && info.contains('`'))).then_some(mark)
}

/// The block that is open at the end of `text`.
pub(super) fn open_after(text: &str) -> Option<Fence<'_>> {
    if !text.contains("```") && !text.contains("~~~") {
        return None;
    }
    let mut open: Option<Fence<'_>> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        match open {
            Some(fence) if fence.is_closed_by(bare) => open = None,
            Some(_) => {}
            None => open = mark_of(bare).map(|mark| Fence { mark, line: bare, start }),
        }
        start += line.len();
    }
    open
}

/// `at`, or the start of its line where cutting the line there would make or break a fence.
pub(super) fn head_end(text: &str, at: usize) -> usize {
    let (start, line) = line_at(text, at);
    let is_inside = at > start && at < start + line.len();
    if is_inside && (mark_of(line).is_some() || mark_of(&text[start..at]).is_some()) { start } else { at }
}

/// `at`, or the end of its line where cutting the line there would make or break a fence.
pub(super) fn tail_start(text: &str, at: usize) -> usize {
    let (start, line) = line_at(text, at);
    let end = start + line.len();
    if at > start && (mark_of(line).is_some() || mark_of(text[at..end].trim_start()).is_some()) { end } else { at }
}

/// The line that `at` is in, without its end, and where it starts.
fn line_at(text: &str, at: usize) -> (usize, &str) {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    (start, text[start..].split('\n').next().unwrap_or_default())
}

/// Calls `visit` with every line of `text` and whether it is in a block, the fence lines included.
pub(super) fn lines<'a>(text: &'a str, mut visit: impl FnMut(&'a str, bool)) {
    let mut open: Option<Fence<'_>> = None;
    for line in text.lines() {
        if let Some(fence) = open {
            visit(line, true);
            if fence.is_closed_by(line) {
                open = None;
            }
        } else {
            open = mark_of(line).map(|mark| Fence { mark, line, start: 0 });
            visit(line, open.is_some());
        }
    }
}
