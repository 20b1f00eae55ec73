//! The longest prefix of a text within a limit of tokens.
//!
//! Tokens do not grow evenly with a prefix: one more character can complete a token and lower the count. So the answer
//! is defined as the longest prefix, ending at a character boundary, whose own count is within the limit, whatever
//! shorter prefixes have. What makes it cheap: pieces that end before an *anchor* are the same in every prefix that
//! reaches the anchor, so the counts at anchors only grow, and only the stretch after the last anchor within the limit
//! must be searched. A piece start is an anchor unless white space alone is before it, since where a run of white space
//! is cut depends on what follows it.

use super::Counter;
use super::bpe::Bpe;
use super::split::Split;
use super::stretch::Stretch;
use crate::Result;

/// Bytes of the longest prefix of `text` with at most `limit` tokens.
pub(super) fn longest_prefix<S: Split>(bpe: &Bpe<S>, text: &str, limit: u64) -> usize {
    if text.len() as u64 <= limit {
        return text.len();
    }
    let bytes = text.as_bytes();
    // The last anchor within the limit, the tokens up to it, and where the stretch after it ends.
    let (mut anchor, mut before, mut end) = (0, 0, text.len());
    let mut count = 0;
    bpe.each_piece(bytes, |from, to, tokens| {
        count += tokens;
        if is_white(&text[from..to]) {
            return true;
        }
        if count > limit {
            end = to;
            return false;
        }
        (anchor, before) = (to, count);
        true
    });
    if count <= limit {
        return text.len();
    }
    let left = limit - before;
    if left == 0 {
        return anchor;
    }
    anchor + Stretch::new(bpe, &text[anchor..end], left).longest()
}

/// Whether there is nothing but white space.
fn is_white(text: &str) -> bool {
    text.chars().next_back().is_some_and(char::is_whitespace) && text.chars().all(char::is_whitespace)
}

/// How many characters `by_counting` looks ahead of a prefix for a longer one that fits.
const LOOK_AHEAD: usize = 32;

/// Bytes of a long prefix of `text` with at most `limit` tokens, for a counter of which only counts are known.
///
/// For a counter that never falls as the text grows it is the longest. One that falls has no quick exact answer: this
/// bisects, then goes on as long as one of the next 32 characters ends a prefix that fits.
///
/// # Errors
/// As `counter.count`.
pub fn by_counting(counter: &dyn Counter, text: &str, limit: u64) -> Result<usize> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let fits = |n: usize| Ok(counter.count(&text[..ends[n]])? <= limit);
    let n_chars = ends.len() - 1;
    if fits(n_chars)? {
        return Ok(text.len());
    }
    let (mut within, mut beyond) = (0, n_chars);
    while within + 1 < beyond {
        let middle = usize::midpoint(within, beyond);
        if fits(middle)? {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    let mut ahead = within + 2;
    while ahead < n_chars && ahead <= within + LOOK_AHEAD {
        if fits(ahead)? {
            within = ahead;
        }
        ahead += 1;
    }
    Ok(ends[within])
}
