//! The head and the tail of a text, with the cut between them marked.

use unicode_segmentation::UnicodeSegmentation;

use super::seam::Seams;
use super::{Rendition, fence, with_commas};
use crate::Result;
use crate::tokens::Counter;

/// Of what is kept, the share of the head: what a text is about stands first, what came of it last.
const HEAD_PERCENT: u64 = 60;

/// Tries to fit head, mark and tail together; each takes off what the last was over by.
const MAX_TRIES: usize = 5;

/// Guesses of the length of a part in bytes.
const MAX_GUESSES: usize = 6;

/// A part that fills this much of its share is not guessed at again.
const FILLED_PERCENT: u64 = 80;

/// The head and the tail of `text`, which has `tokens` tokens, in at most `target` tokens.
///
/// None where that is impossible: the text is not longer than the target, the target has no room for the mark and some
/// text, or what would be kept is blank.
///
/// ```
/// # use holdall::{Result, tokens::Counter};
/// # struct Words;
/// # impl Counter for Words {
/// #     fn count(&self, text: &str) -> Result<u64> { Ok(text.split_whitespace().count() as u64) }
/// #     fn cut(&self, text: &str, limit: u64) -> Result<usize> {
/// #         let mut words = text.split_whitespace();
/// #         Ok(words.nth(limit as usize).map_or(text.len(), |w| w.as_ptr() as usize - text.as_ptr() as usize))
/// #     }
/// #     fn id(&self) -> u64 { 0 }
/// # }
/// use holdall::pack::shorten::head_tail;
///
/// let log: String = (1..=100).map(|n| format!("line {n}\n")).collect();
/// let short = head_tail(&log, 200, 17, &Words)?.expect("there is room");
/// assert_eq!(short.text, "line 1\nline 2\nline 3\n[... 190 tokens cut ...]\nline 99\nline 100");
/// # Ok::<(), holdall::Error>(())
/// ```
///
/// Time: linear in the text, however it is made.
///
/// # Errors
/// `Error::Counter` when the counter failed.
pub fn head_tail(text: &str, tokens: u64, target: u64, counter: &dyn Counter) -> Result<Option<Rendition>> {
    if tokens <= target || text.trim().is_empty() {
        return Ok(None);
    }
    let seams = Seams::of(text);
    // The two line breaks around the mark may each cost a token of their own.
    let mark_cost = counter.count(&mark(tokens))? + 2;
    let mut room = target.saturating_sub(mark_cost);
    for _ in 0..MAX_TRIES {
        if room == 0 {
            return Ok(None);
        }
        let Some(rendition) = cut(text, tokens, room, &seams, counter)? else { return Ok(None) };
        if rendition.tokens <= target && rendition.tokens < tokens {
            return Ok(Some(rendition));
        }
        room = room.saturating_sub(rendition.tokens.saturating_sub(target).max(1));
    }
    Ok(None)
}

fn mark(n_cut: u64) -> String {
    format!("[... {} tokens cut ...]", with_commas(n_cut))
}

/// A text without the white space it begins with, but for a space that a combining mark stands on: the two are one character.
pub(super) fn trimmed_start(text: &str) -> &str {
    let white = text.graphemes(true).take_while(|one| one.chars().all(char::is_whitespace)).map(str::len).sum();
    text.get(white..).unwrap_or_default()
}

/// Head, mark and tail, of which head and tail have about `room` tokens.
fn cut(text: &str, tokens: u64, room: u64, seams: &Seams<'_>, counter: &dyn Counter) -> Result<Option<Rendition>> {
    let per_token = text.len() as f64 / tokens.max(1) as f64;
    let head_room = (room * HEAD_PERCENT).div_ceil(100);
    let head = fill(head_room, per_token, counter, |size| text.get(..seams.head_end(size)).unwrap_or_default())?;
    let mut head_end = fence::head_end(text, head.text.len());
    let tail_room = room.saturating_sub(head.tokens);
    let tail = fill(tail_room, per_token, counter, |size| text.get(seams.tail_start(size)..).unwrap_or_default())?;
    let tail_start = (text.len() - tail.text.len()).max(head_end);
    let mut tail_start = fence::tail_start(text, tail_start);
    let mut head_fence = fence::open_after(&text[..head_end]);
    let mut tail_fence = fence::open_after(&text[..tail_start]);
    // A block of which nothing is kept needs no fences.
    if let Some(fence) = head_fence
        && text[fence.start..head_end].trim_end() == fence.line
    {
        head_end = fence.start;
        head_fence = None;
    }
    if let Some(fence) = tail_fence {
        let closing = text[tail_start..].split_inclusive('\n').next().unwrap_or_default();
        if fence.is_closed_by(closing) || closing.is_empty() {
            tail_start += closing.len();
            tail_fence = None;
        }
    }
    let head = text[..head_end].trim_end();
    let tail = text[tail_start..].trim_end();
    let tail = if tail_start == 0 || text[..tail_start].ends_with('\n') {
        tail.trim_start_matches(['\n', '\r'])
    } else {
        trimmed_start(tail)
    };
    if head.is_empty() && tail.is_empty() {
        return Ok(None);
    }
    let n_kept = counter.count(head)? + counter.count(tail)?;
    let mut whole = String::with_capacity(head.len() + tail.len() + 64);
    let mut line = |line: &str| {
        if !line.is_empty() {
            if !whole.is_empty() {
                whole.push('\n');
            }
            whole.push_str(line);
        }
    };
    line(head);
    line(head_fence.map_or("", |fence| fence.mark));
    line(&mark(tokens.saturating_sub(n_kept)));
    line(tail_fence.map_or("", |fence| fence.line));
    line(tail);
    let tokens = counter.count(&whole)?;
    Ok(Some(Rendition { text: whole, tokens }))
}

/// A part of the text and its tokens.
#[derive(Default)]
struct Part<'a> {
    text: &'a str,
    tokens: u64,
}

/// The part that `cut_to` makes of some number of bytes, guessed so that the part nearly has `room` tokens.
///
/// `Counter::cut` would give a head exactly, but a tail not at all, and asks a caller's own counter many times over.
fn fill<'a>(room: u64, per_token: f64, counter: &dyn Counter, cut_to: impl Fn(usize) -> &'a str) -> Result<Part<'a>> {
    let mut best = Part::default();
    let mut size = room as f64 * per_token;
    for _ in 0..MAX_GUESSES {
        if size < 1.0 {
            break;
        }
        let text = cut_to(size as usize);
        let tokens = counter.count(text)?;
        if tokens > room {
            // Five percent less than in proportion: token density varies.
            size *= 0.95 * room as f64 / tokens as f64;
            continue;
        }
        if tokens > best.tokens {
            best = Part { text, tokens };
        }
        if tokens * 100 >= room * FILLED_PERCENT {
            break;
        }
        // At most double: a blank or dense stretch says little of what lies beyond it.
        size *= (room as f64 / tokens.max(1) as f64).min(2.0);
    }
    Ok(best)
}
