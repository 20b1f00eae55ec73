//! Text into terms, 64 bytes at a time: what stands between characters that neither are in a word nor join two is split by
//! itself, and nearly all of it needs no state machine.
//!
//! A window begins outside of a word. A word that reaches the end of its window is read again from where it starts.

use super::split::{LONGEST_WHOLE, Scratch, Sink, split_slowly};
use crate::tokens::masks::{Masks, WIDTH, below, padded};

/// Feed every term of `text` to `sink`.
pub(super) fn split(text: &str, scratch: &mut Scratch, sink: &mut impl Sink) {
    let bytes = text.as_bytes();
    let mut p = 0;
    while p < bytes.len() {
        let window = Window::at(bytes, p);
        window.split(text, p, scratch, sink);
        p += match window.known {
            0 => {
                // Longer than a window: data, or a script without spaces.
                let end = end_of_run(bytes, p + WIDTH);
                split_slowly(text.get(p..end).unwrap_or_default(), scratch, sink);
                end - p
            }
            known => known as usize,
        };
    }
}

/// Runs of what can be in a word: letters, digits, all that is not ASCII, and what joins two such.
struct Window {
    /// Bytes whose runs end here; 0 if the first does not.
    known: u32,
    /// One bit per byte of a run.
    runs: u64,
    /// Of these, what may join two parts.
    joined: u64,
    /// Upper case.
    upper: u64,
    /// What neither parts without capitals in them are made of, nor the simplest joints.
    special: u64,
}

impl Window {
    #[inline]
    fn at(text: &[u8], p: usize) -> Self {
        let rest = text.get(p..).unwrap_or_default();
        match rest.first_chunk() {
            Some(chunk) => Self::of(chunk, rest.len()),
            None => Self::of(&padded(rest), rest.len()),
        }
    }

    /// The window of the first of `n` bytes.
    #[inline]
    fn of(chunk: &[u8; WIDTH], n: usize) -> Self {
        let Masks { beyond, letters, upper, digits, joints, commas, quotes, .. } = Masks::of(chunk);
        let inside = letters | digits | beyond;
        let is_cut = n > WIDTH;
        // What follows the last byte may be anything.
        let beyond_last = u64::from(is_cut) << (WIDTH - 1);
        let joined = (joints | quotes) & inside << 1 & (inside >> 1 | beyond_last);
        let runs = inside | joined;
        let known = if is_cut { WIDTH as u32 - runs.leading_ones() } else { n.min(WIDTH) as u32 };
        Self { known, runs: runs & below(known), joined, upper, special: beyond | joined & (commas | quotes) }
    }

    /// Split the runs that are known.
    #[inline]
    fn split(&self, text: &str, p: usize, scratch: &mut Scratch, sink: &mut impl Sink) {
        let Self { mut runs, joined, upper, special, .. } = *self;
        while runs != 0 {
            let start = runs.trailing_zeros();
            let end = start + (runs >> start).trailing_ones();
            let run = below(end) & !below(start);
            runs &= !run;
            let first = 1 << start;
            if (special | joined | upper & !first) & run == 0 {
                sink.plain(text.as_bytes(), p + start as usize, p + end as usize);
            } else if (special | upper & !(joined << 1 | first)) & run == 0 {
                parts(text.as_bytes(), p, (start, end), joined, scratch, sink);
            } else {
                let run = text.get(p + start as usize..p + end as usize).unwrap_or_default();
                split_slowly(run, scratch, sink);
            }
        }
    }
}

/// The parts of a name such as `snake_case`, and all of it without its joints.
fn parts(
    text: &[u8],
    p: usize,
    (mut start, end): (u32, u32),
    joined: u64,
    scratch: &mut Scratch,
    sink: &mut impl Sink,
) {
    let whole = &mut scratch.whole;
    while start < end {
        let n = (joined >> start).trailing_zeros().min(end - start);
        let (from, to) = (p + start as usize, p + (start + n) as usize);
        sink.plain(text, from, to);
        if whole.len() <= LONGEST_WHOLE {
            whole.extend(text.get(from..to).unwrap_or_default().iter().map(u8::to_ascii_lowercase));
        }
        start += n + 1;
    }
    if whole.len() <= LONGEST_WHOLE {
        sink.word(whole);
    }
    whole.clear();
}

/// The end of the run that all of the bytes before `p` are in.
fn end_of_run(text: &[u8], mut p: usize) -> usize {
    // Whether what stands there is in a run, or joins two that are: a text begins and ends outside.
    let is_inside = |p: usize| text.get(p).is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    let is_joint = |p: usize| matches!(text.get(p), Some(b'_' | b'-' | b'.' | b',' | b'\''));
    // The last byte of the window may have been taken for a joint for want of the next.
    if is_joint(p - 1) && !is_inside(p) {
        return p - 1;
    }
    while is_inside(p) || (is_joint(p) && is_inside(p - 1) && is_inside(p + 1)) {
        p += 1;
    }
    p
}
